//! A checksum of all events of a run.

/// The FNV-1a hash. It needs no dependency, and different runs have different hashes in practice.
#[derive(Clone, Debug)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn note(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    pub(crate) const fn value(&self) -> u64 {
        self.0
    }
}
