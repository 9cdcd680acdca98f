//! Where the data of a file lies, for clients that go there themselves.

use core::net::SocketAddr;
use core::ops::Range;

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
    /// User and group by whom objects are written, and the group by which they are read: one of
    /// [`Layout::OWNERS`].
    pub owner: u32,
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
