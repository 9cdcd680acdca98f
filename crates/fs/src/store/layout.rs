//! Layouts of files, for clients with direct data access.

use core::hash::Hasher as _;
use core::net::SocketAddr;
use core::ops::Range;

use siphasher::sip::SipHasher24;

use super::Verifier;

/// The purpose of a client's direct data access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The client reads data.
    Read,
    /// The client reads and writes data.
    Write,
}

/// The layout of a file: stripe objects on servers of NFS version 3, in round-robin order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The stripe unit in bytes.
    pub unit: u32,
    /// The owner of the stripe objects while the layout is valid.
    pub owner: Owner,
    /// The user and group of the client's calls to the servers of the stripe objects.
    pub caller: Owner,
    /// The write verifier that [`Store::commit`](super::Store::commit) of the file returns as long
    /// as no server of a stripe object loses data.
    pub verifier: Verifier,
    /// The stripe objects in the order of the stripes.
    pub objects: Vec<LaidOut>,
}

impl Layout {
    /// The range of owner ids: user and group ids that no machine uses, above the ids that
    /// directory services and containers commonly assign.
    pub const OWNERS: Range<u32> = 0x7800_0000..0x8000_0000;
}

/// A user and a group, either as the owner of a stripe object or as the credential of a call to the
/// server of a stripe object. For a client, both numbers are in [`Layout::OWNERS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The user id.
    pub user: u32,
    /// The group id.
    pub group: u32,
}

impl Owner {
    /// Returns true if a client can write a stripe object of this owner: the user id is an odd
    /// number in [`Layout::OWNERS`].
    #[must_use]
    pub const fn is_given_out(&self) -> bool {
        is_ours(self.user) && self.user % 2 == 1
    }
}

/// Returns true if a user or group id is in [`Layout::OWNERS`].
const fn is_ours(number: u32) -> bool {
    Layout::OWNERS.start <= number && number < Layout::OWNERS.end
}

/// The secret key from which the user and group ids for direct access derive. A metaserver derives
/// the ids that it sends to a client, and an iod derives the same ids from the owner of the stripe
/// object. A program without the key cannot derive the ids of another layout. A derived id has 27
/// random bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClientKey(pub [u8; 16]);

impl core::fmt::Debug for ClientKey {
    /// Omits the key, because programs print the options that contain it.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("ClientKey")
    }
}

impl ClientKey {
    /// Returns the owner of all stripe objects with the name `objects` while they belong to a user.
    /// Each name has its own group id, so the ids of one file give no access to another file.
    #[must_use]
    pub fn owner(self, objects: [u8; 16], user: u32) -> Owner {
        Owner { user, group: self.number(b"group", &objects, user, 0) }
    }

    /// Returns the caller ids that can read, but not write, the stripe objects of an owner.
    #[must_use]
    pub fn reader(self, owner: Owner) -> Owner {
        let user = self.number(b"reader", &[], owner.user, owner.group);
        // A server that checks only mode bits permits the owner of an object to write it. If the
        // derived reader id happens to equal the owner, a fixed id is used instead.
        let user = if user == owner.user { Layout::OWNERS.start } else { user };
        Owner { user, group: owner.group }
    }

    /// Returns the caller ids that can read and write the stripe objects of an owner for which
    /// [`Owner::is_given_out`] is true.
    #[must_use]
    pub fn writer(self, owner: Owner) -> Owner {
        Owner { group: self.number(b"writer", &[], owner.user, owner.group), ..owner }
    }

    /// Derives a user or group id in [`Layout::OWNERS`].
    fn number(self, purpose: &[u8], name: &[u8], user: u32, group: u32) -> u32 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        // The lengths separate the parts, so that two different lists of parts never hash equally.
        for part in [purpose, name, &user.to_be_bytes(), &group.to_be_bytes()] {
            hasher.write(&part.len().to_be_bytes());
            hasher.write(part);
        }
        let Range { start, end } = Layout::OWNERS;
        let below = hasher.finish() % u64::from(end - start);
        start + u32::try_from(below).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: ClientKey = ClientKey([7; 16]);
    const USER: u32 = Layout::OWNERS.start + 3;
    const PINNED: [&str; 4] = ["78000003", "7b85bc2c", "7e903028", "7ec24024"];

    /// Metaservers and iods of different versions must derive the same ids.
    #[test]
    fn numbers_of_a_key_are_pinned() {
        let owner = KEY.owner([1; 16], USER);
        let numbers = [owner.user, owner.group, KEY.reader(owner).user, KEY.writer(owner).group];
        assert_eq!(numbers.map(|number| format!("{number:x}")), PINNED);
        assert!(numbers.iter().all(|number| Layout::OWNERS.contains(number)));
    }

    #[test]
    fn layouts_have_distinct_numbers() {
        let owner = KEY.owner([1; 16], USER);
        let others = [
            KEY.owner([2; 16], USER),
            KEY.owner([1; 16], USER + 2),
            ClientKey([8; 16]).owner([1; 16], USER),
        ];
        for other in others {
            assert_ne!(owner.group, other.group);
            assert_ne!(KEY.reader(owner), KEY.reader(other));
            assert_ne!(KEY.writer(owner), KEY.writer(other));
        }
        assert_ne!(KEY.reader(owner).user, owner.user);
        assert_ne!(KEY.writer(owner).group, owner.group);
    }
}

/// A stripe object on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaidOut {
    /// The location.
    pub spot: Spot,
    /// The write verifier of a WRITE to the object, as long as the server has lost no data.
    pub verifier: Verifier,
}

/// The location of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The address of the server.
    pub address: SocketAddr,
    /// The handle of the object on that server.
    pub handle: Vec<u8>,
}
