//! The metafile: the plain file in the metaserver's directory that records the location of a file's
//! data.
//!
//! The file has the owner, mode, names and times of the metafile. The metafile of a file without
//! any write is empty. Any other metafile begins with a head of [`HEAD_BYTES`]. The first part of
//! the head is text with a checksum; the store writes it when the data moves. The second part lists
//! the out-of-date copies, if any. The third part is a number that changes with every change of the
//! data, so that the system updates the file's times. Clients neither see the head nor write to it.
//! The data of a small file follows the head; the data of a larger file lies on iods.

use core::hash::Hasher as _;
use core::str::FromStr;

use bytes::Bytes;
use leasehold_core::stripes::Layout;
use siphasher::sip::SipHasher24;

use crate::iod::ObjectName;

/// Bytes of the part that the store writes when data moves.
const FIXED_BYTES: usize = 384;

/// Bytes of the part that lists the out-of-date copies.
const BEHIND_BYTES: usize = 64;

/// Bytes of the part that changes with each change of data.
const CHANGE_BYTES: usize = 64;

/// Bytes before the data of a small file.
pub(crate) const HEAD_BYTES: u64 = (FIXED_BYTES + BEHIND_BYTES + CHANGE_BYTES) as u64;

/// The offset of the part that lists the out-of-date copies.
pub(crate) const BEHIND_OFFSET: u64 = FIXED_BYTES as u64;

/// The offset of the part that changes with each change of data.
pub(crate) const CHANGE_OFFSET: u64 = (FIXED_BYTES + BEHIND_BYTES) as u64;

/// The maximum number of iods for one file: their numbers fit the head.
pub(crate) const WIDTH_MAX: u16 = 48;

/// The first line, with the version of the format.
const MAGIC: &str = "leasehold stripes 1";

const HERE: &str = "here";
const ON_IODS: &str = "iods";

/// The location of a file's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The volume of the iods.
    pub(crate) volume: u64,
    /// The name of the file's objects.
    pub(crate) name: ObjectName,
    /// The layout of the data, used once the data lies on iods.
    pub(crate) layout: Layout,
    /// The iods of the objects, in the layout's order.
    pub(crate) iods: Vec<u16>,
    /// The number of copies of each object: one, or two, with the second on the next iod.
    pub(crate) copies: u16,
    /// True if the data follows the head.
    pub(crate) inline: bool,
}

/// The location of a file's data, for reports to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The volume.
    pub volume: u64,
    /// The name of the file's objects on its iods.
    pub object: ObjectName,
    /// The stripe unit in bytes.
    pub unit: u32,
    /// The numbers of the iods, in the order of the stripes; empty if the data is in the metafile.
    pub iods: Vec<u16>,
    /// The number of copies of each stripe: one, or two, with the second on the next iod.
    pub copies: u16,
    /// True if a copy is out of date.
    pub is_behind: bool,
}

impl Placed {
    /// Reads the first bytes of a metafile; returns `None` if they are zero or if there are none.
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

    /// Returns the names of the file's objects on iods, if it has any: of first and of second
    /// copies.
    #[must_use]
    pub fn objects(&self) -> Vec<ObjectName> {
        match self.copies {
            _ if self.iods.is_empty() => Vec::new(),
            1 => vec![self.object],
            _ => vec![self.object, self.object.second()],
        }
    }
}

/// The head of a metafile is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl Head {
    /// Returns the iod of a copy of an object, and the copy's name there.
    pub(crate) fn copy(&self, object: u16, copy: u16) -> (u16, ObjectName) {
        let at = usize::from(object + copy) % self.iods.len();
        (self.iods[at], if copy == 0 { self.name } else { self.name.second() })
    }

    /// Encodes the head, from the start to [`BEHIND_OFFSET`].
    pub(crate) fn encode(&self) -> Bytes {
        let data = if self.inline { HERE } else { ON_IODS };
        let iods: Vec<String> = self.iods.iter().map(u16::to_string).collect();
        // The head of a file with one copy omits the line, as in the format before two copies.
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

    /// Decodes the head at the start of `bytes`; returns `None` if they are zero. A file has zero
    /// bytes here if its first data was lost before it was stable.
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

/// The out-of-date copies of objects: one bit for each object, first for the first copies and then
/// for the second. The two copies of one object are never both out of date.
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

    /// Decodes this part of a head.
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

/// The part of a head that changes with each change of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// A number that differs from change to change.
    pub(crate) number: u64,
    /// The size to which a cut is in progress; while it is present, objects may be longer.
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

    /// Decodes this part of a head; a part that was not completely written counts as absent.
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
