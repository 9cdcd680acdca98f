//! Where the data of a file lies, for clients that go there themselves.

use core::hash::Hasher as _;
use core::net::SocketAddr;
use core::ops::Range;

use siphasher::sip::SipHasher24;

use super::Verifier;

/// What a client wants to do with data where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To read it.
    Read,
    /// To write it, and to read it.
    Write,
}

/// Where the data of a file lies: in objects on servers of NFS version 3, one stripe after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a stripe.
    pub unit: u32,
    /// The owner of the objects while the layout is good.
    pub owner: Owner,
    /// The user and the group that the client calls the servers of the objects as.
    pub caller: Owner,
    /// What [`Store::commit`](super::Store::commit) of the file answers, as long as no server of
    /// an object loses anything.
    pub verifier: Verifier,
    /// The objects in the order of the stripes.
    pub objects: Vec<LaidOut>,
}

impl Layout {
    /// The numbers that owners are of: users and groups that no machine has, above those that
    /// directories and containers are commonly given.
    pub const OWNERS: Range<u32> = 0x7800_0000..0x8000_0000;
}

/// A user and a group, either as the owner of an object or as the caller of an object's server. Both
/// numbers are of [`Layout::OWNERS`] where a client is concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub user: u32,
    /// The group.
    pub group: u32,
}

impl Owner {
    /// True if a client can write an object of this owner: the user is an odd number of
    /// [`Layout::OWNERS`].
    #[must_use]
    pub const fn is_given_out(&self) -> bool {
        is_ours(self.user) && self.user % 2 == 1
    }
}

/// True if a number is in [`Layout::OWNERS`].
const fn is_ours(number: u32) -> bool {
    Layout::OWNERS.start <= number && number < Layout::OWNERS.end
}

/// The key of the numbers by which clients use objects. A metaserver derives from the key the
/// numbers that the metaserver tells a client, and an iod derives the same numbers from the owner
/// of the object; no program without the key finds the numbers of another layout. A number has 27
/// bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClientKey(pub [u8; 16]);

impl core::fmt::Debug for ClientKey {
    /// Says nothing of the key: the key stands in options that are shown.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("ClientKey")
    }
}

impl ClientKey {
    /// The owner of all objects of this name while they belong to a user. The group is another for
    /// each name, so that numbers of one file are no numbers of another file.
    #[must_use]
    pub fn owner(self, objects: [u8; 16], user: u32) -> Owner {
        Owner { user, group: self.number(b"group", &objects, user, 0) }
    }

    /// The caller that reads objects of an owner, and cannot write the objects.
    #[must_use]
    pub fn reader(self, owner: Owner) -> Owner {
        let user = self.number(b"reader", &[], owner.user, owner.group);
        // A server that goes by modes alone lets the user of an object write the object.
        let user = if user == owner.user { Layout::OWNERS.start } else { user };
        Owner { user, group: owner.group }
    }

    /// The caller that writes and reads objects of an owner, where [`Owner::is_given_out`].
    #[must_use]
    pub fn writer(self, owner: Owner) -> Owner {
        Owner { group: self.number(b"writer", &[], owner.user, owner.group), ..owner }
    }

    /// A number of [`Layout::OWNERS`].
    fn number(self, purpose: &[u8], name: &[u8], user: u32, group: u32) -> u32 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        // The lengths keep the parts of one sum apart from the parts of another.
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

    /// Metaservers and iods of several versions derive the same numbers.
    #[test]
    fn numbers_of_a_key_are_pinned() {
        let owner = KEY.owner([1; 16], USER);
        let numbers = [owner.user, owner.group, KEY.reader(owner).user, KEY.writer(owner).group];
        assert_eq!(numbers.map(|number| format!("{number:x}")), PINNED);
        assert!(numbers.iter().all(|number| Layout::OWNERS.contains(number)));
    }

    #[test]
    fn numbers_of_one_layout_are_no_numbers_of_another() {
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

/// An object on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaidOut {
    /// Where it is.
    pub spot: Spot,
    /// What a WRITE there is answered with, as long as the server has lost nothing.
    pub verifier: Verifier,
}

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Its server.
    pub address: SocketAddr,
    /// Its handle there.
    pub handle: Vec<u8>,
}
