//! Replies in the kernel's format.

use std::io::IoSlice;
use std::os::fd::AsFd;
use std::time::Duration;

use bytes::Bytes;
use rustix::io::{Errno, writev};

use crate::{Attributes, NodeId, RequestId};

/// The result of an operation.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Attributes, with the time for which they are valid.
    Attributes(Attributes, Duration),
    /// A created and opened file.
    Created(Created),
    /// File data, the target of a symbolic link, or a [`crate::Listing`].
    Data(Bytes),
    /// Success without data.
    Done,
    /// An object from a lookup or a creation.
    Entry(Entry),
    /// An open file or directory.
    Opened(Opened),
    /// The space of the file system.
    Space(Space),
    /// The number of written bytes.
    Written(u32),
}

/// An object with its name. The kernel holds a reference to the object until FORGET.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The object; `None` if the name does not exist.
    pub node: Option<NodeId>,
    /// Distinguishes objects that have had the same node id one after the other.
    pub generation: u64,
    /// The time for which the name is valid.
    pub name_valid: Duration,
    /// The time for which the attributes are valid.
    pub attributes_valid: Duration,
    /// The attributes.
    pub attributes: Attributes,
}

/// The result of OPEN.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opened {
    /// The number by which the kernel refers to this open file.
    pub handle: u64,
    /// True if reads and writes bypass the kernel's cache.
    pub direct: bool,
    /// True if the cached data of the kernel is still valid.
    pub keep_cache: bool,
    /// True if the kernel may cache the listing.
    pub cache_listing: bool,
    /// True if a close needs no FLUSH. Kernels before 5.16 ignore this flag and send FLUSH.
    pub no_flush: bool,
}

/// The result of CREATE.
#[derive(Clone, Copy, Debug)]
pub struct Created {
    /// The new file.
    pub entry: Entry,
    /// The open file.
    pub opened: Opened,
}

/// The result of STATFS.
#[derive(Clone, Copy, Debug, Default)]
pub struct Space {
    /// The size in blocks.
    pub blocks: u64,
    /// The number of free blocks.
    pub free: u64,
    /// The number of free blocks for ordinary users.
    pub available: u64,
    /// The maximum number of files.
    pub files: u64,
    /// The number of files that can still be created.
    pub free_files: u64,
    /// The size of a block, in bytes.
    pub block_bytes: u32,
    /// The maximum length of a name, in bytes.
    pub name_bytes_max: u32,
}

/// The length of the reply head.
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
    /// Encodes the part of a reply that is copied into one buffer, which excludes file data.
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

/// Sends a reply. The kernel accepts a message completely or not at all.
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

/// Sends a message. The start of `body` is space for the header.
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
