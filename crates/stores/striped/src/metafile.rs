//! The metafile: the plain file in the metaserver's directory that says where a file's data lies.
//!
//! Its owner, mode, names and times are the file's own. A file that was never written to is an
//! empty metafile. Any other begins with a head of [`HEAD_BYTES`]: lines of text that are written
//! once, with a checksum, then a number that changes with every change of the data, so that the
//! system gives the file its times. Clients see nothing of the head and cannot write to it. The
//! data of a small file follows; that of a larger one lies on iods.

use core::hash::Hasher as _;
use core::str::FromStr;

use bytes::Bytes;
use leasehold_core::stripes::Layout;
use siphasher::sip::SipHasher24;

use crate::iod::ObjectName;

/// Bytes of the part that is written once.
pub(crate) const FIXED_BYTES: usize = 448;

/// Bytes of the part that changes.
pub(crate) const CHANGE_BYTES: usize = 64;

/// Bytes before the data of a small file.
pub(crate) const HEAD_BYTES: u64 = (FIXED_BYTES + CHANGE_BYTES) as u64;

/// Where the part stands that changes.
pub(crate) const CHANGE_OFFSET: u64 = FIXED_BYTES as u64;

/// The most iods that one file is spread over: their numbers fit the head.
pub(crate) const WIDTH_MAX: u16 = 48;

/// The first line, with the version of the format.
const MAGIC: &str = "leasehold stripes 1";

const HERE: &str = "here";
const ON_IODS: &str = "iods";

/// Where the data of a file lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The volume that its iods belong to.
    pub(crate) volume: u64,
    /// The name of its objects.
    pub(crate) name: ObjectName,
    /// How it is spread, once it is.
    pub(crate) layout: Layout,
    /// The iods that have its objects, in the layout's order.
    pub(crate) iods: Vec<u16>,
    /// Whether the data follows the head.
    pub(crate) inline: bool,
}

/// Where the data of a file lies, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The volume.
    pub volume: u64,
    /// The name of the file's objects on its iods.
    pub object: ObjectName,
    /// Bytes of a stripe.
    pub unit: u32,
    /// The numbers of the iods, in the order of the stripes; none where the data is in the metafile.
    pub iods: Vec<u16>,
}

impl Placed {
    /// What the first bytes of a metafile say; none where they are zero or there are none.
    ///
    /// # Errors
    /// They are not those of a metafile.
    pub fn read(metafile: &[u8]) -> Result<Option<Self>, Damaged> {
        let head = Head::decode(metafile)?;
        Ok(head.map(|head| Self {
            volume: head.volume,
            object: head.name,
            unit: head.layout.unit(),
            iods: if head.inline { Vec::new() } else { head.iods },
        }))
    }
}

/// A head that is not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl Head {
    /// The bytes of the head, from the start to [`CHANGE_OFFSET`].
    pub(crate) fn encode(&self) -> Bytes {
        let data = if self.inline { HERE } else { ON_IODS };
        let iods: Vec<String> = self.iods.iter().map(u16::to_string).collect();
        let mut text = format!(
            "{MAGIC}\nvolume {:016x}\nobjects {}\ndata {data}\nunit {}\niods {}\n",
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

    /// The head that these bytes begin with; none where they are zero, as those of a file may be
    /// whose first data was lost before it was stable.
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
        let mut lines = text.lines();
        if told != check(text) || lines.next()? != MAGIC {
            return None;
        }
        let mut value = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(' ');
        let volume = u64::from_str_radix(value("volume")?, 16).ok()?;
        let name = u128::from_str_radix(value("objects")?, 16).ok()?;
        let inline = match value("data")? {
            HERE => true,
            ON_IODS => false,
            _ => return None,
        };
        let unit = value("unit")?.parse().ok()?;
        let iods: Result<Vec<u16>, _> = value("iods")?.split(' ').map(u16::from_str).collect();
        let iods = iods.ok()?;
        let layout = Layout::new(unit, u16::try_from(iods.len()).ok()?)?;
        Some(Self { volume, name: ObjectName(name.to_be_bytes()), layout, iods, inline })
    }
}

/// The part of a head that changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// Differs from change to change.
    pub(crate) number: u64,
    /// The size that the file is being cut to: where it stands, objects may be longer.
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

    /// What stands in a head; nothing where that was not written whole.
    pub(crate) fn decode(head: &[u8]) -> Self {
        let text = head.get(FIXED_BYTES..).and_then(|part| core::str::from_utf8(part).ok());
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
        Head { volume: 0xCAFE, name: ObjectName([7; 16]), layout, iods, inline: false }
    }

    #[test]
    fn an_administrator_can_read_it() {
        let bytes = head(vec![2, 0, 1]).encode();
        let text = "leasehold stripes 1\nvolume 000000000000cafe\nobjects 07070707070707070707070707070707\ndata iods\n\
                    unit 65536\niods 2 0 1\ncheck 785ba9cb38cc90dd\n";
        assert_eq!(core::str::from_utf8(&bytes).map(str::trim_end), Ok(text.trim_end()));
        assert_eq!(bytes.len() as u64, CHANGE_OFFSET);
    }

    #[test]
    fn what_is_written_is_read() {
        let widest = (0..WIDTH_MAX).map(|number| u16::MAX - number).collect();
        for head in [head(vec![0]), head(widest), Head { inline: true, ..head(vec![1, 5]) }] {
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
            let head = [&head(vec![0]).encode()[..], &change.encode()].concat();
            assert_eq!(head.len() as u64, HEAD_BYTES);
            assert_eq!(Change::decode(&head), change);
        }
        assert_eq!(Change::decode(&[0; 512]), Change::default());
    }

    #[test]
    fn damage_is_seen() {
        let whole = head(vec![2, 0, 1]).encode();
        // The line feeds at the end are no text.
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
