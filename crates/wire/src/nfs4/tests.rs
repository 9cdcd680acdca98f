//! Messages of the version are compared byte for byte with RFC 5662, RFC 7863 and RFC 8276, and the
//! numbers with `spec/nfs4.x`.

use bytes::Bytes;
use leasehold_base::xdr::{Decode, Reader, Writer, decode_all};

use super::*;
use crate::list::Array;
use crate::testing::{bytes, encoded};

mod attributes;
mod compounds;
mod listing;
mod opens;
mod operations;
mod sessions;

/// A state id.
const STATE: Stateid = Stateid {
    sequence: StateSequence(3),
    other: StateOther([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
};

/// The bytes of [`STATE`].
const SID: &str = "00000003 0102030405060708090a0b0c";

/// A session.
const SESSION: SessionId =
    SessionId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f]);

/// The bytes of [`SESSION`].
const SESS: &str = "000102030405060708090a0b0c0d0e0f";

/// An owner of opens or locks.
const OWNER: StateOwner<'static> =
    StateOwner { client: ClientId(0x1_0000_0002), owner: Identifier(b"owner") };

/// The bytes of [`OWNER`].
const OWN: &str = "0000000100000002 00000005 'owner' 000000";

/// A change of a directory.
const CHANGE: ChangeInfo =
    ChangeInfo { atomic: true, before: ChangeId(7), after: ChangeId(0x1_0000_0008) };

/// The bytes of [`CHANGE`].
const CINFO: &str = "00000001 0000000000000007 0000000100000008";

/// Returns the mode 0644 as encoded attributes.
fn mode() -> EncodedAttributes<'static> {
    let values = AttributeValues(&[0, 0, 1, 0xa4]);
    EncodedAttributes { mask: Bitmap::of(&[Attribute::Mode]), values }
}

/// The bytes of [`mode`].
const MODE_BYTES: &str = "00000002 00000000 00000002 00000004 000001a4";

/// The bytes of [`handle`].
const FH: &str = "00000005 0102030405 000000";

fn handle() -> Handle {
    Handle::new(&[1, 2, 3, 4, 5]).expect("short")
}
