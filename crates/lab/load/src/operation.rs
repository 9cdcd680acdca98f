//! The operations of a load.

use bytes::Bytes;
use leasehold_base::units::Cookie;
use leasehold_base::xdr::Encode;
use leasehold_wire::nfs3::{
    DirectoryArgs, Name, SetAttributes, commit, create, getattr, lookup, read, readdirplus, remove,
    write,
};

use crate::Error;
use crate::connection::{Connection, NFS, decode};
use crate::setting::{FILE_BYTES, FILES, Setting, file_name, pattern};

/// The repeated operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// NULL.
    Null,
    /// GETATTR of one file.
    Getattr,
    /// LOOKUP of successive names.
    Lookup,
    /// READ of a number of bytes, sequentially through a file that stays in memory.
    Read(u32),
    /// WRITE sequentially through a file.
    Write {
        /// The number of bytes.
        bytes: u32,
        /// True if each WRITE is stable; otherwise one COMMIT ends the run.
        stable: bool,
    },
    /// READDIRPLUS of a directory; each call continues the previous call of its slot.
    Readdirplus,
    /// Alternating CREATE and REMOVE of a file; each counts.
    CreateRemove,
}

/// Successive calls on one slot of a connection, with one call in flight.
pub(crate) struct Slot {
    operation: Operation,
    /// Unique for each slot of a run.
    number: u32,
    /// The number of calls.
    turn: u64,
    cookie: Cookie,
    data: Bytes,
}

/// The contents of a reply, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Worth {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

impl Slot {
    pub(crate) fn new(operation: Operation, number: u32) -> Self {
        let bytes = if let Operation::Write { bytes, .. } = operation { bytes } else { 0 };
        let data = pattern(0, bytes).into();
        Self { operation, number, turn: 0, cookie: Cookie(0), data }
    }

    /// Adds the next call of the slot to the batch.
    pub(crate) fn call(&mut self, setting: &Setting, connection: &mut Connection, xid: u32) {
        let mut queue = |procedure, args: &dyn Encode| {
            connection.queue(xid, NFS, procedure, args);
        };
        match self.operation {
            Operation::Null => queue(0, &()),
            Operation::Getattr => {
                queue(getattr::NUMBER, &getattr::Args { object: setting.file });
            }
            Operation::Lookup => {
                let name = file_name(self.file_number());
                let place = DirectoryArgs { directory: setting.many, name: Name(&name) };
                queue(lookup::NUMBER, &place);
            }
            Operation::Read(count) => {
                let args = read::Args { file: setting.file, offset: self.offset(count), count };
                queue(read::NUMBER, &args);
            }
            Operation::Write { bytes, stable } => {
                let args = write::Args {
                    file: setting.target,
                    offset: self.offset(bytes),
                    count: bytes,
                    stability: stability(stable),
                    data: self.data.clone(),
                };
                queue(write::NUMBER, &args);
            }
            Operation::Readdirplus => {
                let args = readdirplus::Args {
                    directory: setting.many,
                    cookie: self.cookie,
                    verifier: [0; 8],
                    names_count: 32 << 10,
                    count: 32 << 10,
                };
                queue(readdirplus::NUMBER, &args);
            }
            Operation::CreateRemove => {
                let name = format!("scratch-{}", self.number).into_bytes();
                let place = DirectoryArgs { directory: setting.scratch, name: Name(&name) };
                let how = create::How::Unchecked(SetAttributes::default());
                if self.turn.is_multiple_of(2) {
                    queue(create::NUMBER, &create::Args { place, how });
                } else {
                    queue(remove::NUMBER, &place);
                }
            }
        }
        self.turn += 1;
    }

    /// Returns true if the number belongs to the slot's last call: numbers advance by the number of
    /// slots.
    pub(crate) fn is_answered_by(&self, xid: u32, slot_count: u32) -> bool {
        u64::from(xid / slot_count) + 1 == self.turn
    }

    /// Returns true if the slot has left no file on the server.
    pub(crate) fn is_tidy(&self) -> bool {
        self.operation != Operation::CreateRemove || self.turn.is_multiple_of(2)
    }

    /// Checks a reply.
    pub(crate) fn check(&mut self, results: &Bytes) -> Result<Worth, Error> {
        match self.operation {
            Operation::Null => decode::<()>(results)?,
            Operation::Getattr => {
                let reply: getattr::Reply = decode(results)?;
                let getattr::Reply::Done(done) = &reply else { return wrong(&reply) };
                if done.attributes.size != FILE_BYTES {
                    return wrong(&reply);
                }
            }
            Operation::Lookup => match decode(results)? {
                lookup::Reply::Done(_) => {}
                reply @ lookup::Reply::Failed(..) => return wrong(&reply),
            },
            Operation::Read(count) => match decode(results)? {
                read::Reply::Done(done) => return self.check_data(&done.data, count),
                reply @ read::Reply::Failed(..) => return wrong(&reply),
            },
            Operation::Write { bytes, stable } => {
                let reply: write::Reply = decode(results)?;
                let write::Reply::Done(done) = &reply else { return wrong(&reply) };
                if done.count != bytes || done.stability < stability(stable) {
                    return wrong(&reply);
                }
                return Ok(Worth { bytes: bytes.into(), entries: 0 });
            }
            Operation::Readdirplus => return self.check_listing(results),
            // CREATE and REMOVE both begin with the status. The number of the following bytes
            // determines their form; tests of the server check it.
            Operation::CreateRemove => {
                if results.first_chunk() != Some(&[0; 4]) {
                    return wrong(&results);
                }
            }
        }
        Ok(Worth::default())
    }

    fn check_data(&self, data: &Bytes, count: u32) -> Result<Worth, Error> {
        // The offset of the previous call, to which this reply belongs.
        let offset = self.offset_of(self.turn - 1, count);
        // The first word of each page contains its offset: a check of all data would cost more than
        // the read.
        let right = data.len() == count as usize
            && data.chunks(4096).zip(offset / 8..).all(|(page, _)| page.len() >= 8)
            && (0..u64::from(count)).step_by(4096).all(|at| {
                let word = usize::try_from(at).ok().and_then(|at| data.get(at..at + 8));
                word == Some(&((offset + at) / 8).to_be_bytes()[..])
            });
        if right {
            Ok(Worth { bytes: count.into(), entries: 0 })
        } else {
            wrong(&format!("{} bytes at {offset}", data.len()))
        }
    }

    fn check_listing(&mut self, results: &Bytes) -> Result<Worth, Error> {
        match decode(results)? {
            readdirplus::Listing::Done(done) => {
                let entries = done.entries.0;
                let last = entries.last().map_or(Cookie(0), |entry| entry.cookie);
                self.cookie = if done.end { Cookie(0) } else { last };
                Ok(Worth { bytes: 0, entries: entries.len() as u64 })
            }
            reply @ readdirplus::Listing::Failed(..) => wrong(&reply),
        }
    }

    fn file_number(&self) -> u32 {
        u32::try_from((self.turn + u64::from(self.number) * 7) % u64::from(FILES)).unwrap_or(0)
    }

    fn offset(&self, count: u32) -> u64 {
        self.offset_of(self.turn, count)
    }

    /// The slots proceed through the file in turn.
    fn offset_of(&self, turn: u64, count: u32) -> u64 {
        let pieces = FILE_BYTES / u64::from(count);
        (turn * 16 + u64::from(self.number)) % pieces * u64::from(count)
    }
}

const fn stability(stable: bool) -> write::Stability {
    if stable { write::Stability::FileSync } else { write::Stability::Unstable }
}

/// Commits the data of unstable writes.
pub(crate) fn commit(setting: &Setting, connection: &mut Connection) -> Result<(), Error> {
    let args = commit::Args { file: setting.target, offset: 0, count: 0 };
    match connection.call(NFS, commit::NUMBER, &args)? {
        commit::Reply::Done(_) => Ok(()),
        reply @ commit::Reply::Failed(..) => wrong(&reply).map(drop),
    }
}

fn wrong(reply: &impl std::fmt::Debug) -> Result<Worth, Error> {
    let mut text = format!("{reply:?}");
    text.truncate(200);
    Err(Error::Wrong(text))
}
