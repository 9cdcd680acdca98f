//! The operations of programs, converted to calls and from replies of NFS version 3.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use leasehold_base::groups::Groups;
use leasehold_base::units::{Cookie, Xid};
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer, decode_all};
use leasehold_core::calls::Weight;
use leasehold_wire::list::List;
use leasehold_wire::nfs3::{
    self, DirectoryArgs, Handle, Name, Reply, SetAttributes, Status, commit, create, link, lookup,
    mkdir, read, readdir, remove, rename, rmdir, write,
};
use leasehold_wire::outcome;
use leasehold_wire::rpc::{AuthSys, Call, OpaqueAuth, flavor};
use leasehold_wire::{mount, nfs3::write::Stability};

/// The name of the export that all programs use.
pub(crate) const EXPORT: &str = "sim";

/// The user id under which all programs run.
pub(crate) const USER: u32 = 1000;

/// The number of bytes in one read or write.
const BLOCK_BYTES: u32 = 512;

/// The program that uses a folder or a file, or all programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Shared,
    Program(u8),
}

/// An object that exists before the programs start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Root,
    Folder(Owner),
    File(Owner),
}

impl Place {
    /// Returns the name of the object in the root.
    pub(crate) fn name(self) -> String {
        let (kind, owner) = match self {
            Self::Root => return String::new(),
            Self::Folder(owner) => ("folder", owner),
            Self::File(owner) => ("file", owner),
        };
        match owner {
            Owner::Shared => format!("{kind}-shared"),
            Owner::Program(program) => format!("{kind}-{program}"),
        }
    }
}

/// The mode of a CREATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Unchecked,
    Guarded,
    Exclusive,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Mount,
    Open(Place),
    Lookup { folder: Owner, name: u8 },
    Create { folder: Owner, name: u8, how: How },
    Mkdir { folder: Owner, name: u8 },
    Remove { folder: Owner, name: u8 },
    Rmdir { folder: Owner, name: u8 },
    Rename { folder: Owner, from: u8, to: u8 },
    Link { folder: Owner, name: u8, file: Owner },
    List { folder: Owner },
    Read { file: Owner, block: u8 },
    Write { file: Owner, block: u8, value: u64, stability: Stability },
    Commit { file: Owner },
}

/// The outcome of an operation, as its program received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Object(Handle),
    Names(BTreeSet<u8>),
    Data(u64),
    /// A block whose content no program wrote: it mixes several writes.
    Torn,
    Written {
        stability: Stability,
        verifier: [u8; 8],
    },
    Committed {
        verifier: [u8; 8],
    },
    Failed(Status),
}

/// The handles that a program has received.
pub(crate) type Handles = BTreeMap<Place, Handle>;

impl Op {
    /// Returns the number of units with which the call counts in the client's call table.
    pub(crate) const fn weight(&self) -> Weight {
        match self {
            Self::Read { .. } | Self::Write { .. } | Self::Commit { .. } => Weight::Heavy,
            Self::Mount
            | Self::Open(_)
            | Self::Lookup { .. }
            | Self::Create { .. }
            | Self::Mkdir { .. }
            | Self::Remove { .. }
            | Self::Rmdir { .. }
            | Self::Rename { .. }
            | Self::Link { .. }
            | Self::List { .. } => Weight::Light,
        }
    }

    /// Returns the object whose handle the operation requests.
    pub(crate) const fn opens(&self) -> Option<Place> {
        match *self {
            Self::Mount => Some(Place::Root),
            Self::Open(place) => Some(place),
            Self::Lookup { .. }
            | Self::Create { .. }
            | Self::Mkdir { .. }
            | Self::Remove { .. }
            | Self::Rmdir { .. }
            | Self::Rename { .. }
            | Self::Link { .. }
            | Self::List { .. }
            | Self::Read { .. }
            | Self::Write { .. }
            | Self::Commit { .. } => None,
        }
    }

    /// Returns the file that the operation reads or writes, and the block in it; no block for a
    /// COMMIT, which concerns every block.
    pub(crate) const fn data(&self) -> Option<(Owner, Option<u8>)> {
        match *self {
            Self::Read { file, block } | Self::Write { file, block, .. } => {
                Some((file, Some(block)))
            }
            Self::Commit { file } => Some((file, None)),
            Self::Mount
            | Self::Open(_)
            | Self::Lookup { .. }
            | Self::Create { .. }
            | Self::Mkdir { .. }
            | Self::Remove { .. }
            | Self::Rmdir { .. }
            | Self::Rename { .. }
            | Self::Link { .. }
            | Self::List { .. } => None,
        }
    }

    /// Returns the folder whose names the operation uses.
    pub(crate) const fn folder(&self) -> Option<Owner> {
        match *self {
            Self::Lookup { folder, .. }
            | Self::Create { folder, .. }
            | Self::Mkdir { folder, .. }
            | Self::Remove { folder, .. }
            | Self::Rmdir { folder, .. }
            | Self::Rename { folder, .. }
            | Self::Link { folder, .. }
            | Self::List { folder } => Some(folder),
            Self::Mount
            | Self::Open(_)
            | Self::Read { .. }
            | Self::Write { .. }
            | Self::Commit { .. } => None,
        }
    }

    /// Encodes the call, with the xid zero. `verifier` is the verifier of an exclusive CREATE.
    pub(crate) fn call(&self, handles: &Handles, verifier: u64) -> Vec<u8> {
        let place = |folder: Owner, name: &'static [u8]| DirectoryArgs {
            directory: handles[&Place::Folder(folder)],
            name: Name(name),
        };
        let file = |owner: Owner| handles[&Place::File(owner)];
        let attributes = SetAttributes { mode: Some(0o666), ..SetAttributes::default() };
        match *self {
            Self::Mount => {
                let path = mount::Path(EXPORT.as_bytes());
                message(mount::PROGRAM, mount::VERSION_3, mount::mnt::NUMBER, &path)
            }
            Self::Open(wanted) => {
                let name = wanted.name();
                let directory = handles[&Place::Root];
                nfs(lookup::NUMBER, &DirectoryArgs { directory, name: Name(name.as_bytes()) })
            }
            Self::Lookup { folder, name } => nfs(lookup::NUMBER, &place(folder, NAMES.of(name))),
            Self::Create { folder, name, how } => {
                let how = match how {
                    How::Unchecked => create::How::Unchecked(attributes),
                    How::Guarded => create::How::Guarded(attributes),
                    How::Exclusive => create::How::Exclusive(verifier.to_be_bytes()),
                };
                nfs(create::NUMBER, &create::Args { place: place(folder, NAMES.of(name)), how })
            }
            Self::Mkdir { folder, name } => {
                let place = place(folder, NAMES.of(name));
                let attributes = SetAttributes { mode: Some(0o777), ..attributes };
                nfs(mkdir::NUMBER, &mkdir::Args { place, attributes })
            }
            Self::Remove { folder, name } => nfs(remove::NUMBER, &place(folder, NAMES.of(name))),
            Self::Rmdir { folder, name } => nfs(rmdir::NUMBER, &place(folder, NAMES.of(name))),
            Self::Rename { folder, from, to } => {
                let (from, to) = (place(folder, NAMES.of(from)), place(folder, NAMES.of(to)));
                nfs(rename::NUMBER, &rename::Args { from, to })
            }
            Self::Link { folder, name, file: owner } => {
                let link = place(folder, NAMES.of(name));
                nfs(link::NUMBER, &link::Args { file: file(owner), link })
            }
            Self::List { folder } => {
                let directory = handles[&Place::Folder(folder)];
                let (cookie, verifier) = (Cookie(0), [0; 8]);
                nfs(readdir::NUMBER, &readdir::Args { directory, cookie, verifier, count: 8192 })
            }
            Self::Read { file: owner, block } => {
                let offset = u64::from(block) * u64::from(BLOCK_BYTES);
                let args = read::Args { file: file(owner), offset, count: BLOCK_BYTES };
                nfs(read::NUMBER, &args)
            }
            Self::Write { file: owner, block, value, stability } => {
                let offset = u64::from(block) * u64::from(BLOCK_BYTES);
                let data = Bytes::from(value.to_be_bytes().repeat(BLOCK_BYTES as usize / 8));
                let (file, count) = (file(owner), BLOCK_BYTES);
                nfs(write::NUMBER, &write::Args { file, offset, count, stability, data })
            }
            Self::Commit { file: owner } => {
                let args = commit::Args { file: file(owner), offset: 0, count: 0 };
                nfs(commit::NUMBER, &args)
            }
        }
    }

    /// Decodes the results of the operation's reply.
    ///
    /// # Errors
    /// Returns the decoder's error for malformed results.
    pub(crate) fn outcome(&self, reader: &mut Reader<'_>) -> Result<Outcome, Error> {
        match self {
            Self::Mount => {
                Ok(match decode_all(reader)? {
                    mount::mnt::Reply::Done(done) => Outcome::Object(done.directory),
                    // No mount fails in these worlds, so report a failure as a fault of the server.
                    outcome::Outcome::Failed(_) => Outcome::Failed(Status::ServerFault),
                })
            }
            Self::Open(_) | Self::Lookup { .. } => {
                outcome::<lookup::Done, _>(reader, |done| Outcome::Object(done.object))
            }
            Self::Create { .. } | Self::Mkdir { .. } => {
                outcome::<create::Done, _>(reader, |done| {
                    done.object.map_or(Outcome::Done, Outcome::Object)
                })
            }
            Self::Remove { .. } | Self::Rmdir { .. } => {
                outcome::<remove::Done, _>(reader, |_| Outcome::Done)
            }
            Self::Rename { .. } => failing_alike::<rename::Done>(reader),
            Self::Link { .. } => failing_alike::<link::Done>(reader),
            Self::List { .. } => {
                outcome::<readdir::Done<List<readdir::Entry<'_>>>, _>(reader, |done| {
                    let names = done.entries.0.iter().map(|entry| entry.name.0);
                    Outcome::Names(names.filter_map(|name| NAMES.index(name)).collect())
                })
            }
            Self::Read { .. } => outcome::<read::Done, _>(reader, |done| block(&done.data)),
            Self::Write { .. } => outcome::<write::Done, _>(reader, |done| Outcome::Written {
                stability: done.stability,
                verifier: done.verifier,
            }),
            Self::Commit { .. } => outcome::<commit::Done, _>(reader, |done| Outcome::Committed {
                verifier: done.verifier,
            }),
        }
    }
}

/// Decodes a reply whose failure contains attributes, from before and after the operation or only
/// from after it. The attributes are ignored.
fn outcome<'a, Done, F>(reader: &mut Reader<'a>, told: F) -> Result<Outcome, Error>
where
    Done: Decode<'a>,
    F: FnOnce(Done) -> Outcome,
{
    Ok(match Reply::<Done, Rest>::decode(reader)? {
        Reply::Done(done) => {
            reader.finish()?;
            told(done)
        }
        Reply::Failed(status, Rest) => Outcome::Failed(status),
    })
}

/// Decodes a reply whose results have the same form in success and in failure.
fn failing_alike<'a, Done: Decode<'a>>(reader: &mut Reader<'a>) -> Result<Outcome, Error> {
    Ok(match decode_all::<Reply<Done, Done>>(reader)? {
        Reply::Done(_) => Outcome::Done,
        Reply::Failed(status, _) => Outcome::Failed(status),
    })
}

/// The attributes in a failed reply, which are ignored.
struct Rest;

impl<'a> Decode<'a> for Rest {
    fn decode(_: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self)
    }
}

/// Returns the value of a block, which is zero beyond the end of the file; [`Outcome::Torn`] if the
/// parts of the block differ.
fn block(data: &[u8]) -> Outcome {
    let mut words = data.chunks(8).map(|word| word.iter().fold(0, |v, b| v << 8 | u64::from(*b)));
    let first = words.next().unwrap_or(0);
    if words.all(|word| word == first) { Outcome::Data(first) } else { Outcome::Torn }
}

/// The names that programs use.
struct Names(&'static [&'static [u8]]);

const NAMES: Names = Names(&[b"ant", b"bee", b"cat", b"dog"]);

/// The number of names in each folder, and the number of blocks in each file.
pub(crate) const NAME_COUNT: u8 = 4;
pub(crate) const BLOCK_COUNT: u8 = 3;

impl Names {
    fn of(&self, index: u8) -> &'static [u8] {
        self.0[usize::from(index)]
    }

    fn index(&self, name: &[u8]) -> Option<u8> {
        self.0.iter().position(|known| *known == name).and_then(|at| u8::try_from(at).ok())
    }
}

fn nfs(procedure: u32, args: &impl Encode) -> Vec<u8> {
    message(nfs3::PROGRAM, nfs3::VERSION, procedure, args)
}

fn message(program: u32, version: u32, procedure: u32, args: &impl Encode) -> Vec<u8> {
    let mut body = Writer::new();
    let groups = Groups::default();
    AuthSys { stamp: 0, machine_name: b"sim", uid: USER, gid: USER, groups }.encode(&mut body);
    let body = body.finish().into_bytes();
    let credential = OpaqueAuth { flavor: flavor::SYS, body: &body };
    let verifier = OpaqueAuth::NONE;
    let mut writer = Writer::new();
    Call { xid: Xid(0), program, version, procedure, credential, verifier }.encode(&mut writer);
    args.encode(&mut writer);
    writer.finish().into_bytes().into()
}
