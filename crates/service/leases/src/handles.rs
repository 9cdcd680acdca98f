//! File handles: the identifiers of objects that the server gives to clients.
//!
//! Criteria in order of weight: the server never accepts a handle that it did not issue, so a
//! forged handle gives no access to objects outside an export; a handle stays valid as long as its
//! object exists, across restarts and upgrades; every handle has 32 bytes, so both versions share
//! it.
//!
//! Form 1, in bytes: form (1), length of the object id (1), export (2), object id padded with zeros
//! (20), keyed checksum of all preceding bytes (8).

use core::hash::Hasher as _;
use core::net::IpAddr;

use leasehold_base::limits::HANDLE_V2_BYTES;
use leasehold_fs::{ExportId, FsError, ObjectId};
use siphasher::sip::SipHasher24;

/// A handle in its wire form, in either version.
pub type HandleBytes = [u8; HANDLE_V2_BYTES];

const FORM: u8 = 1;
/// The form of the handles of directories above the exports, of version 4 only. In bytes: form (1),
/// zeros (3), number (16), zeros (4), checksum as in form 1.
const FORM_OF_NODE: u8 = 2;
const OBJECT_AT: usize = 4;
const CHECKSUM_AT: usize = OBJECT_AT + ObjectId::BYTES_MAX;

const _: () = assert!(CHECKSUM_AT + size_of::<u64>() == HANDLE_V2_BYTES);

/// The key of the checksums in a server's handles. A program that knows the key can forge handles.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HandleKey(pub [u8; 16]);

impl HandleKey {
    /// Returns the name of the server for clients of version 4, which reveals nothing of the key.
    pub fn server_name(self) -> [u8; 16] {
        let mut name = [0; 16];
        for (half, bytes) in (0_u8..).zip(name.chunks_exact_mut(8)) {
            let mut hasher = SipHasher24::new_with_key(&self.0);
            hasher.write(b"server");
            hasher.write_u8(half);
            bytes.copy_from_slice(&hasher.finish().to_be_bytes());
        }
        name
    }
}

/// The content of a handle of version 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// A directory above the exports.
    Node([u8; 16]),
    /// An object of an export.
    Object(ExportId, ObjectId),
}

/// Creates and verifies handles.
#[derive(Clone)]
pub struct Handles {
    key: HandleKey,
}

impl Handles {
    /// Returns the handles with this key.
    #[must_use]
    pub const fn new(key: HandleKey) -> Self {
        Self { key }
    }

    /// Returns the handle of an object.
    #[must_use]
    pub fn seal(&self, export: ExportId, object: &ObjectId) -> HandleBytes {
        let mut handle = [0; HANDLE_V2_BYTES];
        let id = object.as_bytes();
        handle[0] = FORM;
        handle[1] = u8::try_from(id.len()).expect("an object id is at most 20 bytes long");
        handle[2..OBJECT_AT].copy_from_slice(&export.0.to_be_bytes());
        handle[OBJECT_AT..][..id.len()].copy_from_slice(id);
        let checksum = self.checksum(&handle[..CHECKSUM_AT]);
        handle[CHECKSUM_AT..].copy_from_slice(&checksum.to_be_bytes());
        handle
    }

    /// Returns the object of a handle.
    ///
    /// # Errors
    /// [`FsError::BadHandle`] for a handle that this server did not issue.
    pub fn open(&self, handle: &[u8]) -> Result<(ExportId, ObjectId), FsError> {
        let handle: &HandleBytes = handle.try_into().map_err(|_| FsError::BadHandle)?;
        let (signed, checksum) = handle.split_at(CHECKSUM_AT);
        // The checksums are compared as one word, so the time of the comparison does not reveal the
        // position of a difference to an attacker.
        if handle[0] != FORM || self.checksum(signed).to_be_bytes() != checksum {
            return Err(FsError::BadHandle);
        }
        let export = ExportId(export_of(handle));
        let id = signed[OBJECT_AT..].get(..usize::from(handle[1])).ok_or(FsError::BadHandle)?;
        Ok((export, ObjectId::new(id).ok_or(FsError::BadHandle)?))
    }

    /// Returns the handle of a directory above the exports.
    pub fn seal_node(&self, node: [u8; 16]) -> HandleBytes {
        let mut handle = [0; HANDLE_V2_BYTES];
        handle[0] = FORM_OF_NODE;
        handle[OBJECT_AT..][..node.len()].copy_from_slice(&node);
        let checksum = self.checksum(&handle[..CHECKSUM_AT]);
        handle[CHECKSUM_AT..].copy_from_slice(&checksum.to_be_bytes());
        handle
    }

    /// Returns the content of a handle of version 4.
    ///
    /// # Errors
    /// [`FsError::BadHandle`] for a handle that this server did not issue.
    pub fn open_any(&self, handle: &[u8]) -> Result<Opened, FsError> {
        if handle.first() != Some(&FORM_OF_NODE) {
            return self.open(handle).map(|(export, object)| Opened::Object(export, object));
        }
        let handle: &HandleBytes = handle.try_into().map_err(|_| FsError::BadHandle)?;
        let (signed, checksum) = handle.split_at(CHECKSUM_AT);
        if self.checksum(signed).to_be_bytes() != checksum {
            return Err(FsError::BadHandle);
        }
        let node = signed[OBJECT_AT..].first_chunk().ok_or(FsError::BadHandle)?;
        Ok(Opened::Node(*node))
    }

    /// Returns the client id of a host of NQNFS. A machine without the key can neither guess nor
    /// claim the id of another host.
    #[must_use]
    pub fn name_of(&self, host: IpAddr) -> [u8; 16] {
        let host = match host.to_canonical() {
            IpAddr::V4(host) => host.to_ipv6_mapped(),
            IpAddr::V6(host) => host,
        };
        let halves = [0_u8, 1].map(|half| {
            let octets = host.octets();
            self.checksum(&[&b"host"[..], &[half], &octets].concat()).to_be_bytes()
        });
        let mut name = [0; 16];
        name[..8].copy_from_slice(&halves[0]);
        name[8..].copy_from_slice(&halves[1]);
        name
    }

    fn checksum(&self, bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.key.0);
        hasher.write(bytes);
        hasher.finish()
    }
}

/// Returns the export number in a handle, without a check of the checksum.
///
/// # Panics
/// Panics if `handle` is shorter than a handle.
#[must_use]
pub fn export_of(handle: &[u8]) -> u16 {
    u16::from_be_bytes([handle[2], handle[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(length: usize) -> ObjectId {
        ObjectId::new(&[0xab; ObjectId::BYTES_MAX][..length]).expect("short enough")
    }

    #[test]
    fn opens_sealed_handles() {
        let handles = Handles::new(HandleKey([7; 16]));
        for length in 0..=ObjectId::BYTES_MAX {
            let handle = handles.seal(ExportId(515), &object(length));
            assert_eq!(handles.open(&handle), Ok((ExportId(515), object(length))));
        }
    }

    /// Clients keep handles across an upgrade, which must not make them stale.
    #[test]
    fn the_bytes_of_a_handle_are_these() {
        let key = core::array::from_fn(|at| u8::try_from(at).expect("it is below 16"));
        let handles = Handles::new(HandleKey(key));
        let made: [HandleBytes; 2] = [
            *b"\x01\x08\x00\x01\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\0\0\0\0\0\0\0\0\0\
              \x7c\x97\x35\x20\x59\x5b\x19\xa2",
            *b"\x01\x14\x02\x03\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\
              \x12\x13\x14\x26\x2e\x79\xe6\x15\x28\x0d\x56",
        ];
        for (handle, export, length) in [(made[0], 1, 8), (made[1], 0x203, 20)] {
            let id: Vec<u8> = (1..=length).collect();
            let object = ObjectId::new(&id).expect("short enough");
            assert_eq!(handles.seal(ExportId(export), &object), handle);
            assert_eq!(handles.open(&handle), Ok((ExportId(export), object)));
        }
    }

    #[test]
    fn no_bit_can_be_changed() {
        let handles = Handles::new(HandleKey([7; 16]));
        let handle = handles.seal(ExportId(1), &object(8));
        for bit in 0..handle.len() * 8 {
            let mut forged = handle;
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(handles.open(&forged), Err(FsError::BadHandle), "bit {bit}");
        }
        for length in (0..64).filter(|length| *length != handle.len()) {
            assert_eq!(handles.open(&vec![1; length]), Err(FsError::BadHandle), "{length} bytes");
        }
    }

    #[test]
    fn handles_of_another_key_are_refused() {
        let handle = Handles::new(HandleKey([7; 16])).seal(ExportId(1), &object(8));
        assert_eq!(Handles::new(HandleKey([8; 16])).open(&handle), Err(FsError::BadHandle));
    }
}
