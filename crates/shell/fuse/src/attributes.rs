//! Attributes in the kernel's format.

/// A time of day: seconds since 1970, negative before, and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Whole seconds.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanoseconds: u32,
}

/// The attributes of an object for `stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The file id that programs see (`st_ino`), which differs from the node id.
    pub file: u64,
    /// The size in bytes.
    pub size: u64,
    /// Allocated space, in units of 512 bytes.
    pub blocks: u64,
    /// The time of the last read.
    pub accessed: Moment,
    /// The time of the last change of the data.
    pub modified: Moment,
    /// The time of the last change of the attributes.
    pub changed: Moment,
    /// Type and permissions, `st_mode`.
    pub mode: u32,
    /// The number of names.
    pub links: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The device number of a special file, in the kernel's encoding.
    pub device: u32,
    /// The preferred unit of reads and writes, in bytes.
    pub block_bytes: u32,
}

impl Attributes {
    /// Appends the attributes as `struct fuse_attr`.
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
