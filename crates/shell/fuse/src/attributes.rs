//! Attributes as the kernel takes them.

/// A time of day: seconds since 1970, negative before, and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Whole seconds.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanoseconds: u32,
}

/// What `stat` shows of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The number of the file, `st_ino`: apart from the number of the node.
    pub file: u64,
    /// Size in bytes.
    pub size: u64,
    /// Room on the disk, in units of 512 bytes.
    pub blocks: u64,
    /// Last read.
    pub accessed: Moment,
    /// Last change of the data.
    pub modified: Moment,
    /// Last change of the attributes.
    pub changed: Moment,
    /// Type and permissions, `st_mode`.
    pub mode: u32,
    /// How many names it has.
    pub links: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The device that a special file stands for, as the kernel encodes it.
    pub device: u32,
    /// The unit in which it is best read and written.
    pub block_bytes: u32,
}

impl Attributes {
    /// Appends them as `struct fuse_attr`.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        for word in [
            self.file,
            self.size,
            self.blocks,
            self.accessed.seconds.cast_unsigned(),
            self.modified.seconds.cast_unsigned(),
            self.changed.seconds.cast_unsigned(),
        ] {
            to.extend(word.to_ne_bytes());
        }
        for word in [
            self.accessed.nanoseconds,
            self.modified.nanoseconds,
            self.changed.nanoseconds,
            self.mode,
            self.links,
            self.uid,
            self.gid,
            self.device,
            self.block_bytes,
            0,
        ] {
            to.extend(word.to_ne_bytes());
        }
    }
}
