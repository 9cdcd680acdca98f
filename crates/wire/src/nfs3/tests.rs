//! Every message of the version, byte for byte as RFC 1813 has it.

use leasehold_base::units::{Cookie, FileId, FileSystemId};
use leasehold_base::xdr::decode_all;

use super::*;
use crate::list::{List, ListOf};
use crate::testing::{bytes, encoded};

/// Attributes with a value of its own in every field.
const ATTRIBUTES: Attributes = Attributes {
    file_type: FileType::Directory,
    mode: 0o755,
    link_count: 2,
    uid: 1000,
    gid: 100,
    size: 0x1_0000_0002,
    used: 0x3000,
    device: Device { major: 8, minor: 1 },
    file_system: FileSystemId(0xaabb),
    file_id: FileId(0xccdd),
    accessed: Time { seconds: 1, nanoseconds: 2 },
    modified: Time { seconds: 3, nanoseconds: 4 },
    changed: Time { seconds: 5, nanoseconds: 6 },
};

fn size(value: &impl Encode) -> u32 {
    u32::try_from(encoded(value).len()).expect("a message of ours is short")
}

#[test]
fn sizes_that_replies_are_budgeted_with() {
    assert_eq!(size(&ATTRIBUTES), ATTRIBUTES_BYTES);
    let (attributes, object) = (Some(ATTRIBUTES), Handle::new(&[0; 32]));
    let (file_id, cookie, verifier, end) = (FileId(1), Cookie(2), [0; 8], true);
    for (name, name_bytes) in [(&b"four"[..], 4), (b"sixsix", 8), (b"eighteig", 8)] {
        let name = Name(name);
        for count in 0..3 {
            let entry = readdir::Entry { file_id, name, cookie };
            let entries = List(vec![entry; count as usize]);
            assert_eq!(
                size(&readdir::Done { attributes, verifier, entries, end }),
                readdir::EMPTY_BYTES + count * (readdir::ENTRY_BYTES + name_bytes)
            );
            let entry = readdirplus::Entry { file_id, name, cookie, attributes, object };
            let entries = List(vec![entry; count as usize]);
            assert_eq!(
                size(&readdirplus::Done { attributes, verifier, entries, end }),
                readdirplus::EMPTY_BYTES + count * (readdirplus::ENTRY_BYTES + name_bytes)
            );
        }
    }
}

#[test]
fn entries_are_written_from_an_iteration_and_read_as_a_list() {
    let numbers = [7, 8];
    let written = encoded(&readdir::Done {
        attributes: None,
        verifier: [1; 8],
        entries: ListOf(|| {
            numbers.iter().map(|&number| readdir::Entry {
                file_id: FileId(number),
                name: Name(b"n"),
                cookie: Cookie(number + 1),
            })
        }),
        end: false,
    });
    assert_eq!(
        written,
        bytes(
            "00000000 0101010101010101
             00000001 0000000000000007 00000001 'n' 000000 0000000000000008
             00000001 0000000000000008 00000001 'n' 000000 0000000000000009
             00000000 00000000"
        )
    );
    let mut reader = Reader::new(&written);
    let read = decode_all::<readdir::Done<List<readdir::Entry<'_>>>>(&mut reader).expect("valid");
    assert_eq!(read.entries.0.iter().map(|entry| entry.file_id.0).collect::<Vec<_>>(), numbers);
    assert_eq!(encoded(&read), written);
}
