//! The cluster key: the secret by which iods authenticate the metaservers of their cluster.

use std::fs::OpenOptions;
use std::hash::Hasher as _;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use leasehold_fs::ClientKey;
use leasehold_serve::{EpochKey, HandleKey};
use leasehold_shell::private::{self, Secrecy};
use leasehold_shell::state;
use siphasher::sip128::{Hasher128 as _, SipHasher24};

use crate::{Failure, Kind};

/// A key of 128 bits, as 32 hexadecimal digits in a file that only its owner can read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(u128);

impl Key {
    /// Reads the key from a file; creates a missing file.
    ///
    /// # Errors
    /// The file cannot be read or created, or contains no key.
    pub fn of(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let failed = |error| Kind::Key.because(format!("cannot use the key {shown}: {error}"));
        let text = match private::read(path, Secrecy::Secret) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let random = u128::from_be_bytes(state::random().map_err(failed)?);
                let mut options = OpenOptions::new();
                let file = options.write(true).create_new(true).mode(0o600).open(path);
                let text = format!("{random:032x}\n");
                file.and_then(|mut file| {
                    file.write_all(text.as_bytes()).and_then(|()| file.sync_all())
                })
                .map_err(failed)?;
                text
            }
            read => String::from_utf8(read.map_err(failed)?).unwrap_or_default(),
        };
        let digits = text.trim();
        let key = u128::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 32);
        key.map(Self).ok_or_else(|| {
            Kind::Key
                .because(format!("{shown} is not a key: it must contain 32 hexadecimal digits"))
        })
    }

    /// Returns the path under which an iod of the cluster exports its directory. The path does not
    /// reveal the key.
    #[must_use]
    pub fn path(self) -> String {
        format!("/{:032x}", self.derived(b"leasehold iod"))
    }

    /// Returns the secret by which metaservers of the cluster authenticate each other.
    #[must_use]
    pub fn peers_word(self) -> String {
        format!("{:032x}", self.derived(b"leasehold metaserver"))
    }

    /// Returns the key of handles that all metaservers of the cluster accept.
    #[must_use]
    pub fn of_handles(self) -> HandleKey {
        HandleKey(self.derived(b"leasehold handles").to_be_bytes())
    }

    /// Returns the key of the authentication tokens that metaservers send to iods.
    #[must_use]
    pub fn of_epochs(self) -> EpochKey {
        EpochKey(self.derived(b"leasehold epochs").to_be_bytes())
    }

    /// Returns the key from which the owner numbers for direct data access derive.
    #[must_use]
    pub fn of_clients(self) -> ClientKey {
        ClientKey(self.derived(b"leasehold clients").to_be_bytes())
    }

    fn derived(self, what_for: &[u8]) -> u128 {
        let mut hasher = SipHasher24::new_with_key(&self.0.to_be_bytes());
        hasher.write(what_for);
        hasher.finish128().as_u128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_created_once_and_not_revealed() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("key");
        let key = Key::of(&path).unwrap_or_else(|error| panic!("{error}"));
        assert!(Key::of(&path).is_ok_and(|again| again == key));
        assert_ne!(key.path(), format!("/{:032x}", key.0));
        assert_eq!(key.path().len(), 33);
        let other = Key(key.0 ^ 1);
        assert_ne!(other.path(), key.path());
        std::fs::write(&path, "secret\n").expect("there is room");
        assert!(Key::of(&path).is_err());
    }
}
