//! Replies as the kernel takes them.

use std::io::IoSlice;
use std::os::fd::AsFd;
use std::time::Duration;

use bytes::Bytes;
use rustix::io::{Errno, writev};

use crate::{Attributes, NodeId, RequestId};

/// What an operation came to.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Attributes, good for so long.
    Attributes(Attributes, Duration),
    /// A file that was made and opened.
    Created(Created),
    /// File data, the target of a symbolic link, or a [`crate::Listing`].
    Data(Bytes),
    /// Done.
    Done,
    /// An object that a name led to, or that was made.
    Entry(Entry),
    /// An open file or directory.
    Opened(Opened),
    /// Room on the file system.
    Space(Space),
    /// So many bytes were written.
    Written(u32),
}

/// An object of a name. The kernel remembers having been told of it until FORGET.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The object; none where it is known that there is no such name.
    pub node: Option<NodeId>,
    /// Tells objects apart that have had one number after another.
    pub generation: u64,
    /// How long the name is good.
    pub name_valid: Duration,
    /// How long the attributes are good.
    pub attributes_valid: Duration,
    /// The attributes.
    pub attributes: Attributes,
}

/// What OPEN says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opened {
    /// The number that the kernel is to name this opening by.
    pub handle: u64,
    /// Reads and writes go past the kernel's cache.
    pub direct: bool,
    /// What the kernel has in its cache is still good.
    pub keep_cache: bool,
    /// A listing may be kept in the kernel's cache.
    pub cache_listing: bool,
    /// A close has nothing to say: FLUSH is not asked for. Kernels before 5.16 ask all the same.
    pub no_flush: bool,
}

/// What CREATE says.
#[derive(Clone, Copy, Debug)]
pub struct Created {
    /// The new file.
    pub entry: Entry,
    /// The opening of it.
    pub opened: Opened,
}

/// What STATFS says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Space {
    /// Size in blocks.
    pub blocks: u64,
    /// Free blocks.
    pub free: u64,
    /// Free blocks for ordinary users.
    pub available: u64,
    /// How many files there can be.
    pub files: u64,
    /// How many can still be made.
    pub free_files: u64,
    /// The size of a block, in bytes.
    pub block_bytes: u32,
    /// The longest name, in bytes.
    pub name_bytes_max: u32,
}

/// The length of the head of a reply.
const HEAD: usize = 16;

impl Entry {
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        for word in [
            self.node.map_or(0, |node| node.0),
            self.generation,
            self.name_valid.as_secs(),
            self.attributes_valid.as_secs(),
        ] {
            to.extend(word.to_ne_bytes());
        }
        to.extend(self.name_valid.subsec_nanos().to_ne_bytes());
        to.extend(self.attributes_valid.subsec_nanos().to_ne_bytes());
        self.attributes.encode(to);
    }
}

impl Opened {
    fn encode(self, to: &mut Vec<u8>) {
        let flag = |set: bool, bit: u32| u32::from(set) << bit;
        let flags = flag(self.direct, 0)
            | flag(self.keep_cache, 1)
            | flag(self.cache_listing, 3)
            | flag(self.no_flush, 5);
        to.extend(self.handle.to_ne_bytes());
        to.extend(flags.to_ne_bytes());
        to.extend([0; 4]);
    }
}

impl Space {
    fn encode(self, to: &mut Vec<u8>) {
        for word in [self.blocks, self.free, self.available, self.files, self.free_files] {
            to.extend(word.to_ne_bytes());
        }
        for word in [self.block_bytes, self.name_bytes_max, self.block_bytes] {
            to.extend(word.to_ne_bytes());
        }
        to.extend([0; 28]);
    }
}

impl Reply {
    /// The part that is copied; file data is not.
    fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Self::Attributes(attributes, valid) => {
                to.extend(valid.as_secs().to_ne_bytes());
                to.extend(valid.subsec_nanos().to_ne_bytes());
                to.extend([0; 4]);
                attributes.encode(to);
            }
            Self::Created(created) => {
                created.entry.encode(to);
                created.opened.encode(to);
            }
            Self::Data(_) | Self::Done => {}
            Self::Entry(entry) => entry.encode(to),
            Self::Opened(opened) => opened.encode(to),
            Self::Space(space) => space.encode(to),
            Self::Written(count) => {
                to.extend(count.to_ne_bytes());
                to.extend([0; 4]);
            }
        }
    }
}

/// Sends an answer. The kernel takes a message whole or not at all.
pub(crate) fn send(
    device: impl AsFd,
    id: RequestId,
    result: &Result<Reply, Errno>,
) -> Result<(), Errno> {
    let mut body = Vec::with_capacity(192);
    body.extend([0; HEAD]);
    let (error, data) = match result {
        Ok(reply) => {
            reply.encode(&mut body);
            (0, if let Reply::Data(data) = reply { &data[..] } else { &[] })
        }
        Err(errno) => (-errno.raw_os_error(), &[][..]),
    };
    send_raw(device, id.0, error, body, data)
}

/// Sends a message: `body` has room for the head.
pub(crate) fn send_raw(
    device: impl AsFd,
    id: u64,
    error: i32,
    mut body: Vec<u8>,
    data: &[u8],
) -> Result<(), Errno> {
    let length = u32::try_from(body.len() + data.len()).map_err(|_| Errno::MSGSIZE)?;
    body[0..4].copy_from_slice(&length.to_ne_bytes());
    body[4..8].copy_from_slice(&error.to_ne_bytes());
    body[8..HEAD].copy_from_slice(&id.to_ne_bytes());
    writev(device, &[IoSlice::new(&body), IoSlice::new(data)]).map(drop)
}
