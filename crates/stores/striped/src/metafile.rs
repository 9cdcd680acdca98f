//! The metafile: the plain file in the metaserver's directory that records the location of a file's
//! data.
//!
//! The owner, mode, names and times of the metafile are those attributes of the file itself. The
//! metafile of a file that was never written is empty. Any other metafile begins with a header of
//! [`HEAD_BYTES`] in three parts. The first part is text with a checksum that states the location
//! of the data; the store writes this part when the location changes. The second part lists the
//! out-of-date copies, if any. The third part is a number that changes with every change of file
//! data, so that the system updates the times of the metafile. Clients never see the header. The
//! data of a small file follows the header; the data of a larger file is on iods.

use core::hash::Hasher as _;
use core::str::FromStr;

use bytes::Bytes;
use leasehold_core::stripes::Layout;
use siphasher::sip::SipHasher24;

use crate::iod::ObjectName;

/// The size of the first part, which states the location of the data.
const FIXED_BYTES: usize = 384;

/// The size of the second part, which lists the out-of-date copies.
const BEHIND_BYTES: usize = 64;

/// The size of the third part, which changes with each change of file data.
const CHANGE_BYTES: usize = 64;

/// The size of the header, which is also the offset of the data of a small file.
pub(crate) const HEAD_BYTES: u64 = (FIXED_BYTES + BEHIND_BYTES + CHANGE_BYTES) as u64;

/// The offset of the second part of the header.
pub(crate) const BEHIND_OFFSET: u64 = FIXED_BYTES as u64;

/// The offset of the third part of the header.
pub(crate) const CHANGE_OFFSET: u64 = (FIXED_BYTES + BEHIND_BYTES) as u64;

/// The maximum number of iods for one file, so that the numbers of the iods fit in the header.
pub(crate) const WIDTH_MAX: u16 = 48;

/// The first line of the header, with the version of the format.
const MAGIC: &str = "leasehold stripes 1";

const HERE: &str = "here";
const ON_IODS: &str = "iods";

/// The location of a file's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The identity of the volume to which the iods belong.
    pub(crate) volume: u64,
    /// The name of the file's objects.
    pub(crate) name: ObjectName,
    /// The layout of the data. A small file uses the layout only when its data moves to iods.
    pub(crate) layout: Layout,
    /// The numbers of the iods of the objects, in the order of the layout.
    pub(crate) iods: Vec<u16>,
    /// The number of copies of each object: one or two. The second copy is on the next iod of the
    /// list.
    pub(crate) copies: u16,
    /// True if the data is in the metafile, after the header.
    pub(crate) inline: bool,
}

/// The location of a file's data, as other modules and commands see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The identity of the volume.
    pub volume: u64,
    /// The name of the file's objects on its iods.
    pub object: ObjectName,
    /// The stripe unit in bytes.
    pub unit: u32,
    /// The numbers of the iods, in the order of the stripes; empty if the data is in the metafile.
    pub iods: Vec<u16>,
    /// The number of copies of each stripe: one or two. The second copy is on the next iod of the
    /// list.
    pub copies: u16,
    /// True if a copy is out of date.
    pub is_behind: bool,
}

impl Placed {
    /// Parses the header at the start of a metafile. Returns `None` if the metafile is empty or
    /// begins with zeros only.
    ///
    /// # Errors
    /// The bytes do not belong to a metafile.
    pub fn read(metafile: &[u8]) -> Result<Option<Self>, Damaged> {
        let head = Head::decode(metafile)?;
        let is_behind = Behind::decode(metafile)?.any();
        Ok(head.map(|head| Self {
            volume: head.volume,
            object: head.name,
            unit: head.layout.unit(),
            iods: if head.inline { Vec::new() } else { head.iods },
            copies: head.copies,
            is_behind,
        }))
    }

    /// Returns the object names of the first copies and of the second copies, as far as the file
    /// has objects.
    #[must_use]
    pub fn objects(&self) -> Vec<ObjectName> {
        match self.copies {
            _ if self.iods.is_empty() => Vec::new(),
            1 => vec![self.object],
            _ => vec![self.object, self.object.second()],
        }
    }
}

/// The error that the header of a metafile is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl Head {
    /// Returns the iod of a copy of an object, and the object name of the copy.
    pub(crate) fn copy(&self, object: u16, copy: u16) -> (u16, ObjectName) {
        let at = usize::from(object + copy) % self.iods.len();
        (self.iods[at], if copy == 0 { self.name } else { self.name.second() })
    }

    /// Encodes the first part of the header, from the start to [`BEHIND_OFFSET`].
    pub(crate) fn encode(&self) -> Bytes {
        let data = if self.inline { HERE } else { ON_IODS };
        let iods: Vec<String> = self.iods.iter().map(u16::to_string).collect();
        // Omit the line if there is one copy: the earlier format, which supports one copy only,
        // does not have this line.
        let copies =
            if self.copies == 1 { String::new() } else { format!("copies {}\n", self.copies) };
        let mut text = format!(
            "{MAGIC}\nvolume {:016x}\nobjects {}\ndata {data}\nunit {}\n{copies}iods {}\n",
            self.volume,
            self.name.text(),
            self.layout.unit(),
            iods.join(" "),
        );
        let check = check(&text);
        text.push_str(&format!("check {check:016x}\n"));
        let mut bytes = text.into_bytes();
        assert!(bytes.len() <= FIXED_BYTES, "the width is bounded");
        bytes.resize(FIXED_BYTES, b'\n');
        bytes.into()
    }

    /// Decodes the first part of the header from the start of `bytes`; returns `None` if all bytes
    /// are zero. The bytes are zero if a crash lost the header before it was stable.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Self>, Damaged> {
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let head = bytes.get(..FIXED_BYTES).ok_or(Damaged)?;
        Self::parse(core::str::from_utf8(head).map_err(|_| Damaged)?).ok_or(Damaged).map(Some)
    }

    fn parse(head: &str) -> Option<Self> {
        let (text, end) = head.split_at_checked(head.rfind("check ")?)?;
        let told = u64::from_str_radix(end.strip_prefix("check ")?.trim_end(), 16).ok()?;
        let mut lines = text.lines().peekable();
        if told != check(text) || lines.next()? != MAGIC {
            return None;
        }
        let mut value = |key: &str| {
            lines.next_if(|line| line.starts_with(key))?.strip_prefix(key)?.strip_prefix(' ')
        };
        let volume = u64::from_str_radix(value("volume")?, 16).ok()?;
        let name = u128::from_str_radix(value("objects")?, 16).ok()?;
        let inline = match value("data")? {
            HERE => true,
            ON_IODS => false,
            _ => return None,
        };
        let unit = value("unit")?.parse().ok()?;
        let copies =
            value("copies").map_or(Ok(1), str::parse).ok().filter(|copies| *copies <= 2)?;
        let iods: Result<Vec<u16>, _> = value("iods")?.split(' ').map(u16::from_str).collect();
        let iods = iods.ok()?;
        let layout = Layout::new(unit, u16::try_from(iods.len()).ok()?)?;
        let name = ObjectName(name.to_be_bytes());
        Some(Self { volume, name, layout, iods, copies, inline })
    }
}

/// The out-of-date copies of a file's objects, with one bit for each object: the first number is
/// for the first copies, the second number for the second copies. At most one of the two copies of
/// an object is out of date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Behind([u64; 2]);

impl Behind {
    pub(crate) fn has(self, object: u16, copy: u16) -> bool {
        self.0[usize::from(copy)] & (1 << object) != 0
    }

    pub(crate) fn any(self) -> bool {
        self != Self::default()
    }

    /// Adds an out-of-date copy; returns `None` if the other copy of the object is out of date.
    pub(crate) fn with(mut self, object: u16, copy: u16) -> Option<Self> {
        if self.has(object, 1 - copy) {
            return None;
        }
        self.0[usize::from(copy)] |= 1 << object;
        Some(self)
    }

    pub(crate) fn encode(self) -> Bytes {
        let Self([first, second]) = self;
        let text =
            if self.any() { format!("behind {first:012x} {second:012x}\n") } else { String::new() };
        let mut bytes = text.into_bytes();
        bytes.resize(BEHIND_BYTES, b'\n');
        bytes.into()
    }

    /// Decodes the second part of a header.
    pub(crate) fn decode(head: &[u8]) -> Result<Self, Damaged> {
        let Some(part) = head.get(FIXED_BYTES..FIXED_BYTES + BEHIND_BYTES) else {
            return Ok(Self::default());
        };
        if part.iter().all(|&byte| byte == b'\n' || byte == 0) {
            return Ok(Self::default());
        }
        let read = || {
            let text = core::str::from_utf8(part).ok()?.trim_end().strip_prefix("behind ")?;
            let (first, second) = text.split_once(' ')?;
            let bits = |text| u64::from_str_radix(text, 16).ok();
            Some(Self([bits(first)?, bits(second)?]))
        };
        read().filter(|Self([first, second])| first & second == 0).ok_or(Damaged)
    }
}

/// The third part of a header, which changes with each change of file data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// A number that is different after each change.
    pub(crate) number: u64,
    /// The size to which a truncation of the file is in progress. While the truncation is in
    /// progress, objects may be longer than this size permits.
    pub(crate) cut: Option<u64>,
}

impl Change {
    pub(crate) fn encode(self) -> Bytes {
        let mut text = format!("change {:020}\n", self.number);
        if let Some(size) = self.cut {
            text.push_str(&format!("cut {size:020}\n"));
        }
        let mut bytes = text.into_bytes();
        bytes.resize(CHANGE_BYTES, b'\n');
        bytes.into()
    }

    /// Decodes the third part of a header. Lines that were not completely written count as absent.
    pub(crate) fn decode(head: &[u8]) -> Self {
        let text =
            head.get(FIXED_BYTES + BEHIND_BYTES..).and_then(|part| core::str::from_utf8(part).ok());
        let mut lines = text.unwrap_or_default().lines();
        let mut value = |key: &str| lines.next()?.strip_prefix(key)?.parse().ok();
        Self { number: value("change ").unwrap_or_default(), cut: value("cut ") }
    }
}

fn check(text: &str) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(iods: Vec<u16>) -> Head {
        let width = u16::try_from(iods.len()).expect("it is small");
        let layout = Layout::new(65_536, width).expect("none is zero");
        let name = ObjectName([7; 16]);
        Head { volume: 0xCAFE, name, layout, iods, copies: 1, inline: false }
    }

    #[test]
    fn an_administrator_can_read_the_head() {
        let bytes = head(vec![2, 0, 1]).encode();
        let text = "leasehold stripes 1\nvolume 000000000000cafe\nobjects 07070707070707070707070707070707\ndata iods\n\
                    unit 65536\niods 2 0 1\ncheck 785ba9cb38cc90dd\n";
        assert_eq!(core::str::from_utf8(&bytes).map(str::trim_end), Ok(text.trim_end()));
        assert_eq!(bytes.len() as u64, BEHIND_OFFSET);
        let twice = Head { copies: 2, ..head(vec![2, 0]) }.encode();
        let text = core::str::from_utf8(&twice).expect("it is text");
        assert!(text.contains("\nunit 65536\ncopies 2\niods 2 0\ncheck "), "{text}");
        let behind =
            Behind::default().with(3, 1).and_then(|it| it.with(0, 0)).expect("two objects");
        let text = "behind 000000000001 000000000008\n";
        assert_eq!(core::str::from_utf8(&behind.encode()).map(str::trim_end), Ok(text.trim_end()));
    }

    #[test]
    fn one_copy_of_each_object_is_never_behind() {
        let behind = Behind::default().with(47, 1).expect("the other is not");
        assert!(behind.has(47, 1) && !behind.has(47, 0) && !behind.has(46, 1));
        assert_eq!(behind.with(47, 0), None);
        let bytes = [&head(vec![0]).encode()[..], &behind.encode(), &Change::default().encode()];
        let mut bytes = bytes.concat();
        assert_eq!(Behind::decode(&bytes), Ok(behind));
        bytes[FIXED_BYTES + 3] ^= 1;
        assert_eq!(Behind::decode(&bytes), Err(Damaged));
        assert_eq!(Behind::decode(&[0; 512]), Ok(Behind::default()));
        assert_eq!(Behind::decode(&[]), Ok(Behind::default()));
    }

    #[test]
    fn decoding_reverses_encoding() {
        let widest = (0..WIDTH_MAX).rev().collect();
        let widest = Head { copies: 2, ..head(widest) };
        for head in [head(vec![0]), widest, Head { inline: true, ..head(vec![1, 5]) }] {
            assert_eq!(Head::decode(&head.encode()), Ok(Some(head)));
        }
        assert_eq!(Head::decode(&[0; 512]), Ok(None));
        assert_eq!(Head::decode(&[]), Ok(None));
    }

    #[test]
    fn changes_are_read_as_written() {
        for change in [
            Change::default(),
            Change { number: u64::MAX, cut: Some(u64::MAX) },
            Change { number: 7, cut: Some(0) },
        ] {
            let behind = Behind::default().encode();
            let head = [&head(vec![0]).encode()[..], &behind, &change.encode()].concat();
            assert_eq!(head.len() as u64, HEAD_BYTES);
            assert_eq!(Change::decode(&head), change);
        }
        assert_eq!(Change::decode(&[0; 512]), Change::default());
    }

    #[test]
    fn damage_is_detected() {
        let whole = head(vec![2, 0, 1]).encode();
        // The line feeds at the end are padding.
        let text = whole.iter().rposition(|&byte| byte != b'\n').expect("it has text");
        for at in 0..=text {
            let mut bytes = whole.to_vec();
            bytes[at] ^= 1;
            assert_eq!(Head::decode(&bytes), Err(Damaged), "byte {at}");
        }
        assert_eq!(Head::decode(&whole[..100]), Err(Damaged));
        assert_eq!(Head::decode(&[0xFF; 512]), Err(Damaged));
    }
}
