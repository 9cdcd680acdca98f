//! Requests in the kernel's format.
//!
//! The messages have the layout of `linux/fuse.h`, in the byte order of the machine. The decoder
//! checks messages although they come from the kernel: a request that is too short is an error,
//! never a panic.

use bytes::Bytes;

use crate::Moment;

/// The node id by which the kernel identifies an object. The root has the id 1; the replies to
/// LOOKUP and similar requests assign all other ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The root of the mount.
    pub const ROOT: Self = Self(1);
}

/// Identifies a request until its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The identity of the requesting thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallerId {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The thread id; 0 if the thread is in a process namespace that this process cannot see.
    pub thread: u32,
}

/// A request.
#[derive(Debug)]
pub struct Request {
    /// The id of the request.
    pub id: RequestId,
    /// The object of the request.
    pub node: NodeId,
    /// The requesting thread.
    pub caller: CallerId,
    /// The operation.
    pub operation: Operation,
}

/// An operation. The field `handle` is the handle of an open file or directory, from the reply to
/// OPEN, CREATE or OPENDIR.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "linux/fuse.h describes the fields")]
pub enum Operation {
    /// Checks an access like `access(2)`.
    Access { mask: u32 },
    /// Creates a file and opens it.
    Create { name: Vec<u8>, mode: u32, flags: u32 },
    /// Handles the close of a descriptor. If the operation fails, `close(2)` returns the error.
    Flush { handle: u64 },
    /// Makes data durable.
    Fsync { handle: u64, data_only: bool },
    /// Makes the names of a directory durable.
    Fsyncdir,
    /// Returns the attributes.
    Getattr { handle: Option<u64> },
    /// Adds the name `name` in this directory to `object`.
    Link { object: NodeId, name: Vec<u8> },
    /// Looks up a name.
    Lookup { name: Vec<u8> },
    /// Creates a directory.
    Mkdir { name: Vec<u8>, mode: u32 },
    /// Creates an object other than a directory or a symbolic link.
    Mknod { name: Vec<u8>, mode: u32, device: u32 },
    /// Opens a file.
    Open { flags: u32 },
    /// Opens a directory.
    Opendir,
    /// Reads data.
    Read { handle: u64, offset: u64, size: u32 },
    /// Reads a part of a directory, with attributes if `plus`.
    Readdir { handle: u64, offset: u64, size: u32, plus: bool },
    /// Returns the target of a symbolic link.
    Readlink,
    /// Releases an open file after its last use.
    Release { handle: u64 },
    /// Releases an open directory after its last use.
    Releasedir { handle: u64 },
    /// Renames an object; `flags` are the flags of `renameat2(2)`.
    Rename { name: Vec<u8>, to: NodeId, new_name: Vec<u8>, flags: u32 },
    /// Removes an empty directory.
    Rmdir { name: Vec<u8> },
    /// Changes attributes.
    Setattr(AttributeChanges),
    /// Returns the space of the file system.
    Statfs,
    /// Creates a symbolic link.
    Symlink { name: Vec<u8>, target: Vec<u8> },
    /// Removes a name.
    Unlink { name: Vec<u8> },
    /// Writes data. `cached` is true for data from the kernel's page cache. Such a write must not
    /// fail, because the kernel drops its copy of the data afterwards. `append` is true for data
    /// that belongs at the current end of the file. `kill_privileges` is true if the set-user-id
    /// and set-group-id bits must be cleared.
    Write {
        handle: u64,
        offset: u64,
        data: Bytes,
        cached: bool,
        append: bool,
        kill_privileges: bool,
    },
}

/// The attribute changes of SETATTR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttributeChanges {
    /// The open file, if the change refers to one.
    pub handle: Option<u64>,
    /// The permissions.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The size.
    pub size: Option<u64>,
    /// The access time.
    pub accessed: Option<TimeChange>,
    /// The modification time.
    pub modified: Option<TimeChange>,
}

/// A new value of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeChange {
    /// The current time.
    Now,
    /// The given time.
    To(Moment),
}

/// A message from the device, usually a request.
#[derive(Debug)]
pub(crate) enum Incoming {
    Request(Request),
    /// A WRITE without its data, which is the last `size` bytes of the message.
    Write {
        request: Request,
        size: usize,
    },
    /// References to nodes that the kernel drops. The message has no reply.
    Forget(Vec<(NodeId, u64)>),
    /// A signal for the process of a request.
    Interrupt {
        id: RequestId,
        of: RequestId,
    },
    /// An unsupported operation. After the reply the kernel no longer sends this operation, or uses
    /// another operation instead.
    Unknown {
        id: RequestId,
        code: u32,
    },
    /// The start of the session.
    Init {
        id: RequestId,
        hello: Hello,
    },
    /// A message that is too short for its operation.
    Damaged {
        id: RequestId,
    },
}

/// The versions and features that the kernel supports, from its first message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hello {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) read_ahead: u32,
    pub(crate) flags: u64,
}

mod code {
    pub(super) const LOOKUP: u32 = 1;
    pub(super) const FORGET: u32 = 2;
    pub(super) const GETATTR: u32 = 3;
    pub(super) const SETATTR: u32 = 4;
    pub(super) const READLINK: u32 = 5;
    pub(super) const SYMLINK: u32 = 6;
    pub(super) const MKNOD: u32 = 8;
    pub(super) const MKDIR: u32 = 9;
    pub(super) const UNLINK: u32 = 10;
    pub(super) const RMDIR: u32 = 11;
    pub(super) const RENAME: u32 = 12;
    pub(super) const LINK: u32 = 13;
    pub(super) const OPEN: u32 = 14;
    pub(super) const READ: u32 = 15;
    pub(super) const WRITE: u32 = 16;
    pub(super) const STATFS: u32 = 17;
    pub(super) const RELEASE: u32 = 18;
    pub(super) const FSYNC: u32 = 20;
    pub(super) const FLUSH: u32 = 25;
    pub(super) const INIT: u32 = 26;
    pub(super) const OPENDIR: u32 = 27;
    pub(super) const READDIR: u32 = 28;
    pub(super) const RELEASEDIR: u32 = 29;
    pub(super) const FSYNCDIR: u32 = 30;
    pub(super) const ACCESS: u32 = 34;
    pub(super) const CREATE: u32 = 35;
    pub(super) const INTERRUPT: u32 = 36;
    pub(super) const BATCH_FORGET: u32 = 42;
    pub(super) const READDIRPLUS: u32 = 44;
    pub(super) const RENAME2: u32 = 45;
}

/// The error of a request that ends too early.
#[derive(Debug)]
struct TooShort;

/// The rest of a request.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], TooShort> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(TooShort)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, TooShort> {
        Ok(u32::from_ne_bytes(self.take(4)?.try_into().map_err(|_| TooShort)?))
    }

    fn u64(&mut self) -> Result<u64, TooShort> {
        Ok(u64::from_ne_bytes(self.take(8)?.try_into().map_err(|_| TooShort)?))
    }

    /// Reads a name, which ends with a zero byte.
    fn name(&mut self) -> Result<Vec<u8>, TooShort> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(TooShort)?;
        let name = self.take(end)?.to_vec();
        self.take(1)?;
        Ok(name)
    }
}

impl Incoming {
    /// Decodes a message from the device. Returns `None` if the message is shorter than a header.
    pub(crate) fn decode(message: &[u8]) -> Option<Self> {
        let mut rest = Rest(message);
        let head = Head::take(&mut rest).ok()?;
        Some(head.incoming(rest).unwrap_or(Self::Damaged { id: head.id }))
    }
}

struct Head {
    code: u32,
    id: RequestId,
    node: NodeId,
    caller: CallerId,
}

impl Head {
    fn take(rest: &mut Rest<'_>) -> Result<Self, TooShort> {
        let _length = rest.u32()?;
        let code = rest.u32()?;
        let (id, node) = (RequestId(rest.u64()?), NodeId(rest.u64()?));
        let caller = CallerId { uid: rest.u32()?, gid: rest.u32()?, thread: rest.u32()? };
        rest.take(4)?;
        Ok(Self { code, id, node, caller })
    }

    fn incoming(&self, mut rest: Rest<'_>) -> Result<Incoming, TooShort> {
        let (id, caller) = (self.id, self.caller);
        Ok(match self.code {
            code::FORGET => Incoming::Forget(vec![(self.node, rest.u64()?)]),
            code::BATCH_FORGET => {
                let count = rest.u32()?;
                rest.take(4)?;
                let one = |_| Ok((NodeId(rest.u64()?), rest.u64()?));
                Incoming::Forget((0..count).map(one).collect::<Result<_, _>>()?)
            }
            code::INTERRUPT => Incoming::Interrupt { id, of: RequestId(rest.u64()?) },
            code::INIT => Incoming::Init { id, hello: hello(&mut rest)? },
            code::WRITE => {
                let (operation, size) = write(&mut rest)?;
                Incoming::Write {
                    request: Request { id, node: self.node, caller, operation },
                    size,
                }
            }
            code => match operation(code, &mut rest)? {
                Some(operation) => {
                    Incoming::Request(Request { id, node: self.node, caller, operation })
                }
                None => Incoming::Unknown { id, code },
            },
        })
    }
}

fn hello(rest: &mut Rest<'_>) -> Result<Hello, TooShort> {
    let (major, minor, read_ahead) = (rest.u32()?, rest.u32()?, rest.u32()?);
    let low = u64::from(rest.u32()?);
    // The message of kernels before 5.17 ends before this field, which is then zero.
    let high = u64::from(rest.u32().unwrap_or(0));
    Ok(Hello { major, minor, read_ahead, flags: low | high << 32 })
}

/// Decodes a WRITE without its data. Returns the operation and the length of the data.
fn write(rest: &mut Rest<'_>) -> Result<(Operation, usize), TooShort> {
    const CACHED: u32 = 1;
    const KILL_PRIVILEGES: u32 = 4;
    /// The flag of `open(2)`.
    const APPEND: u32 = 0o2000;
    let (handle, offset, size) = (rest.u64()?, rest.u64()?, rest.u32()?);
    let flags = rest.u32()?;
    rest.take(8)?;
    let opened = rest.u32()?;
    rest.take(4)?;
    let size = usize::try_from(size).map_err(|_| TooShort)?;
    if rest.0.len() != size {
        return Err(TooShort);
    }
    let (cached, kill_privileges) = (flags & CACHED != 0, flags & KILL_PRIVILEGES != 0);
    let (append, data) = (!cached && opened & APPEND != 0, Bytes::new());
    Ok((Operation::Write { handle, offset, data, cached, append, kill_privileges }, size))
}

/// Decodes the operation of a code; `None` for an unsupported code.
fn operation(code: u32, rest: &mut Rest<'_>) -> Result<Option<Operation>, TooShort> {
    let operation = match code {
        code::SYMLINK => Operation::Symlink { name: rest.name()?, target: rest.name()? },
        code::MKNOD => {
            let (mode, device) = (rest.u32()?, rest.u32()?);
            rest.take(8)?;
            Operation::Mknod { name: rest.name()?, mode, device }
        }
        code::MKDIR => {
            let mode = rest.u32()?;
            rest.take(4)?;
            Operation::Mkdir { name: rest.name()?, mode }
        }
        code::RENAME => {
            let to = NodeId(rest.u64()?);
            Operation::Rename { name: rest.name()?, to, new_name: rest.name()?, flags: 0 }
        }
        code::RENAME2 => {
            let (to, flags) = (NodeId(rest.u64()?), rest.u32()?);
            rest.take(4)?;
            Operation::Rename { name: rest.name()?, to, new_name: rest.name()?, flags }
        }
        code::LINK => {
            let object = NodeId(rest.u64()?);
            Operation::Link { object, name: rest.name()? }
        }
        code::CREATE => {
            let (flags, mode) = (rest.u32()?, rest.u32()?);
            rest.take(8)?;
            Operation::Create { name: rest.name()?, mode, flags }
        }
        code::LOOKUP => Operation::Lookup { name: rest.name()? },
        code::UNLINK => Operation::Unlink { name: rest.name()? },
        code::RMDIR => Operation::Rmdir { name: rest.name()? },
        code::SETATTR => Operation::Setattr(changes(rest)?),
        code::READLINK => Operation::Readlink,
        code::STATFS => Operation::Statfs,
        code::ACCESS => Operation::Access { mask: rest.u32()? },
        code => return opened(code, rest),
    };
    Ok(Some(operation))
}

/// Decodes operations that open a file or use an open file.
fn opened(code: u32, rest: &mut Rest<'_>) -> Result<Option<Operation>, TooShort> {
    Ok(Some(match code {
        code::GETATTR => {
            const BY_HANDLE: u32 = 1;
            let flags = rest.u32()?;
            rest.take(4)?;
            let handle = rest.u64()?;
            Operation::Getattr { handle: (flags & BY_HANDLE != 0).then_some(handle) }
        }
        code::OPEN => Operation::Open { flags: rest.u32()? },
        code::OPENDIR => Operation::Opendir,
        code::READ => {
            Operation::Read { handle: rest.u64()?, offset: rest.u64()?, size: rest.u32()? }
        }
        code::READDIR | code::READDIRPLUS => Operation::Readdir {
            handle: rest.u64()?,
            offset: rest.u64()?,
            size: rest.u32()?,
            plus: code == code::READDIRPLUS,
        },
        code::RELEASE => Operation::Release { handle: rest.u64()? },
        code::RELEASEDIR => Operation::Releasedir { handle: rest.u64()? },
        code::FSYNC => Operation::Fsync { handle: rest.u64()?, data_only: rest.u32()? & 1 != 0 },
        code::FSYNCDIR => Operation::Fsyncdir,
        code::FLUSH => Operation::Flush { handle: rest.u64()? },
        _ => return Ok(None),
    }))
}

fn changes(rest: &mut Rest<'_>) -> Result<AttributeChanges, TooShort> {
    let valid = rest.u32()?;
    rest.take(4)?;
    let (handle, size, _lock_owner) = (rest.u64()?, rest.u64()?, rest.u64()?);
    let mut seconds = [0; 3];
    for part in &mut seconds {
        *part = rest.u64()?.cast_signed();
    }
    let mut nanoseconds = [0; 3];
    for part in &mut nanoseconds {
        *part = rest.u32()?;
    }
    let mode = rest.u32()?;
    rest.take(4)?;
    let (uid, gid) = (rest.u32()?, rest.u32()?);
    let given = |bit: u32| valid & (1 << bit) != 0;
    let time = |bit: u32, now_bit: u32, at: usize| {
        given(bit).then(|| match given(now_bit) {
            true => TimeChange::Now,
            false => TimeChange::To(Moment { seconds: seconds[at], nanoseconds: nanoseconds[at] }),
        })
    };
    Ok(AttributeChanges {
        mode: given(0).then_some(mode),
        uid: given(1).then_some(uid),
        gid: given(2).then_some(gid),
        size: given(3).then_some(size),
        accessed: time(4, 7, 0),
        modified: time(5, 8, 1),
        handle: given(6).then_some(handle),
    })
}

impl Operation {
    /// Returns the name of the operation for display.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Access { .. } => "access",
            Self::Create { .. } => "create",
            Self::Flush { .. } => "flush",
            Self::Fsync { .. } => "fsync",
            Self::Fsyncdir => "fsyncdir",
            Self::Getattr { .. } => "getattr",
            Self::Link { .. } => "link",
            Self::Lookup { .. } => "lookup",
            Self::Mkdir { .. } => "mkdir",
            Self::Mknod { .. } => "mknod",
            Self::Open { .. } => "open",
            Self::Opendir => "opendir",
            Self::Read { .. } => "read",
            Self::Readdir { .. } => "readdir",
            Self::Readlink => "readlink",
            Self::Release { .. } => "release",
            Self::Releasedir { .. } => "releasedir",
            Self::Rename { .. } => "rename",
            Self::Rmdir { .. } => "rmdir",
            Self::Setattr(_) => "setattr",
            Self::Statfs => "statfs",
            Self::Symlink { .. } => "symlink",
            Self::Unlink { .. } => "unlink",
            Self::Write { .. } => "write",
        }
    }
}
