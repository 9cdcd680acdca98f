//! Every decoder, with arbitrary bytes.

use bytes::Bytes;
use leasehold_wire::every::decode_every;

use crate::calls;

/// Decodes the input as every message.
pub fn run(input: &[u8]) {
    decode_every(&Bytes::copy_from_slice(input));
}

/// The bodies of calls and replies of every procedure.
#[must_use]
pub fn starters() -> Vec<Vec<u8>> {
    let scripts = calls::starters();
    scripts.iter().flat_map(|script| calls::exchange(script)).flat_map(|one| one.bodies()).collect()
}
