//! Every message, byte for byte as `spec/binding.x` has it.

use super::*;
use crate::list::List;

const IDENTIFIER: Identifier = *b"0123456789abcdef";

#[test]
fn claims() {
    let claim: register::Args<'_> =
        Claim { name: Name(b"files"), identifier: IDENTIFIER, port: 2049 };
    vector!(claim, "00000005 'files' 000000 '0123456789abcdef' 00000801");
    let statuses: [register::Reply; 5] =
        [Status::Ok, Status::Wrong, Status::Taken, Status::Full, Status::Refused];
    vector!(statuses[0], "00000000");
    vector!(statuses[1], "00000001");
    vector!(statuses[2], "00000002");
    vector!(statuses[3], "00000003");
    vector!(statuses[4], "00000004");
    let withdrawn: withdraw::Reply = true;
    vector!(withdrawn, "00000001");
}

#[test]
fn bound_names() {
    let name: lookup::Args<'_> = Name(b"files");
    vector!(name, "00000005 'files' 000000");
    let host = Host([192, 0, 2, 1].into());
    let bound = Bound { name, identifier: IDENTIFIER, host, port: 2049 };
    let v4 = "00000005 'files' 000000 '0123456789abcdef' 00000004 c0000201 00000801";
    let found: lookup::Reply<'_> = Some(bound);
    vector!(found, "00000001 {v4}");
    let nothing: lookup::Reply<'_> = None;
    vector!(nothing, "00000000");
    let host = Host([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into());
    let all: list::Reply<'_> = List(vec![bound, Bound { name: Name(b"tape"), host, ..bound }]);
    vector!(
        all,
        "00000001 {v4} 00000001 00000004 'tape' '0123456789abcdef'
         00000010 20010db8 00000000 00000000 00000001 00000801 00000000"
    );
}

#[test]
fn a_host_has_four_bytes_or_sixteen() {
    for length in 0_u8..=17 {
        let bytes = [&[0, 0, 0, length][..], &[7; 20][..usize::from(length.next_multiple_of(4))]];
        let bytes = bytes.concat();
        let host = leasehold_base::xdr::decode_all::<Host>(&mut Reader::new(&bytes.into()));
        assert_eq!(host.is_ok(), [4, 16].contains(&length), "{length}: {host:?}");
    }
}
