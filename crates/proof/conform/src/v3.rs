//! Version 3 as cases call it: one method for each procedure, and shorter ones for frequent
//! operations.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_base::limits::TRANSFER_BYTES_MAX;
use leasehold_base::units::Cookie;
use leasehold_base::xdr::{Decode, Encode, Reader, decode_all};
use leasehold_wire::nfs3::write::Stability;
use leasehold_wire::nfs3::{
    Attributes, DirectoryArgs, FileType, Handle, Made, Name, Path, Reply, SetAttributes, Status,
    Time, Wcc, access, commit, create, fsinfo, fsstat, getattr, link, lookup, mkdir, mknod,
    pathconf, read, readdir, readdirplus, readlink, remove, rename, rmdir, setattr, symlink, write,
};
use leasehold_wire::{nfs3, rpc};

use crate::answer::Answered3;
use crate::case::{Stop, ensure};
use crate::client::Client;
use crate::talk::{Procedure, procedure_name};

/// The pause before a call that got JUKEBOX is repeated.
const JUKEBOX_PAUSE: Duration = Duration::from_millis(200);

/// The limit of entries: directories of cases, and the root of an export, are smaller.
const ENTRIES_MAX: usize = 1 << 18;

/// The largest size of a READ, in bytes; much longer replies are refused.
const READ_BYTES_MAX: u32 = TRANSFER_BYTES_MAX;

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) file_id: u64,
    pub(crate) cookie: Cookie,
    /// Only with READDIRPLUS, and optional.
    pub(crate) attributes: Option<Attributes>,
    /// Only with READDIRPLUS, and optional.
    pub(crate) object: Option<Handle>,
}

/// One page of a listing.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) attributes: Option<Attributes>,
    pub(crate) verifier: [u8; 8],
    pub(crate) entries: Vec<Entry>,
    pub(crate) end: bool,
    /// The size of the results behind the status.
    pub(crate) bytes: usize,
}

/// The cookies at which the pages of a listing have begun.
pub(crate) struct Course<Cookie>(BTreeSet<Cookie>);

impl<Cookie: Copy + Debug + Ord> Course<Cookie> {
    pub(crate) const fn new() -> Self {
        Self(BTreeSet::new())
    }

    /// Returns the position of the next page, if there is one; fails the case for a listing without
    /// end.
    pub(crate) fn next(
        &mut self,
        last: Option<Cookie>,
        end: bool,
        count: usize,
    ) -> Result<Option<Cookie>, Stop> {
        if end {
            return Ok(None);
        }
        let Some(last) = last else {
            return Err(Stop::fail("a page of a listing is empty before its end"));
        };
        ensure!(self.0.insert(last), "a listing returns to {last:?}");
        ensure!(count < ENTRIES_MAX, "a listing has no end");
        Ok(Some(last))
    }
}

/// The position of the next page of a listing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Position {
    pub(crate) cookie: Cookie,
    pub(crate) verifier: [u8; 8],
}

/// A client of version 3.
pub(crate) struct V3 {
    pub(crate) client: Client,
    /// The largest size of a WRITE.
    pub(crate) write_bytes_max: usize,
}

/// Returns the procedure with a number.
pub(crate) const fn procedure(number: u32) -> Procedure {
    Procedure { program: nfs3::PROGRAM, version: nfs3::VERSION, number }
}

/// A name in a directory.
pub(crate) fn place<'a>(
    directory: Handle,
    name: &'a (impl AsRef<[u8]> + ?Sized),
) -> DirectoryArgs<'a> {
    DirectoryArgs { directory, name: Name(name.as_ref()) }
}

/// Attributes with permission bits only.
pub(crate) fn mode(mode: u32) -> SetAttributes {
    SetAttributes { mode: Some(mode), ..SetAttributes::default() }
}

/// Attributes with a size only.
pub(crate) fn size(size: u64) -> SetAttributes {
    SetAttributes { size: Some(size), ..SetAttributes::default() }
}

impl V3 {
    /// Makes a call, and repeats it while it gets JUKEBOX.
    fn results(&mut self, number: u32, args: &impl Encode) -> Result<Bytes, Stop> {
        let end = Instant::now() + self.client.route.patience;
        loop {
            let results = self.client.call(procedure(number), args)?;
            let later = Status::decode(&mut Reader::new(&results)) == Ok(Status::Jukebox);
            if !later || Instant::now() > end {
                return Ok(results);
            }
            std::thread::sleep(JUKEBOX_PAUSE);
        }
    }

    /// Makes a call whose results outlive the message.
    fn ask<Done, Failed>(
        &mut self,
        number: u32,
        args: &impl Encode,
    ) -> Result<Answered3<Done, Failed>, Stop>
    where
        Done: for<'a> Decode<'a>,
        Failed: for<'a> Decode<'a>,
    {
        let results = self.results(number, args)?;
        let name = procedure_name(procedure(number));
        let reply = readable::<Reply<Done, Failed>>(&name, &results)?;
        Ok(Answered3::version3(name, reply))
    }

    pub(crate) fn null(&mut self) -> Result<(), Stop> {
        let results = self.client.call(procedure(rpc::null::NUMBER), &())?;
        ensure!(results.is_empty(), "the reply to NULL has {} bytes of results", results.len());
        Ok(())
    }

    pub(crate) fn getattr(&mut self, object: Handle) -> Result<Answered3<getattr::Done, ()>, Stop> {
        self.ask(getattr::NUMBER, &getattr::Args { object })
    }

    pub(crate) fn setattr(
        &mut self,
        object: Handle,
        attributes: SetAttributes,
    ) -> Result<Answered3<Wcc, Wcc>, Stop> {
        self.ask(setattr::NUMBER, &setattr::Args { object, attributes, guard: None })
    }

    pub(crate) fn setattr_guarded(
        &mut self,
        object: Handle,
        attributes: SetAttributes,
        guard: Time,
    ) -> Result<Answered3<Wcc, Wcc>, Stop> {
        self.ask(setattr::NUMBER, &setattr::Args { object, attributes, guard: Some(guard) })
    }

    pub(crate) fn lookup(
        &mut self,
        directory: Handle,
        name: impl AsRef<[u8]>,
    ) -> Result<Answered3<lookup::Done, Option<Attributes>>, Stop> {
        self.ask(lookup::NUMBER, &place(directory, &name))
    }

    pub(crate) fn access(
        &mut self,
        object: Handle,
        access: access::Access,
    ) -> Result<Answered3<access::Done, Option<Attributes>>, Stop> {
        self.ask(access::NUMBER, &access::Args { object, access })
    }

    pub(crate) fn readlink(
        &mut self,
        symlink: Handle,
    ) -> Result<Answered3<Target, Option<Attributes>>, Stop> {
        self.ask(readlink::NUMBER, &readlink::Args { symlink })
    }

    pub(crate) fn read(
        &mut self,
        file: Handle,
        offset: u64,
        count: u32,
    ) -> Result<Answered3<read::Done, Option<Attributes>>, Stop> {
        self.ask(read::NUMBER, &read::Args { file, offset, count })
    }

    pub(crate) fn write(
        &mut self,
        file: Handle,
        offset: u64,
        data: impl AsRef<[u8]>,
        stability: Stability,
    ) -> Result<Answered3<write::Done, Wcc>, Stop> {
        self.ask(write::NUMBER, &write_args(file, offset, data.as_ref(), stability))
    }

    pub(crate) fn create(
        &mut self,
        directory: Handle,
        name: impl AsRef<[u8]>,
        how: create::How,
    ) -> Result<Answered3<Made, Wcc>, Stop> {
        self.ask(create::NUMBER, &create::Args { place: place(directory, &name), how })
    }

    pub(crate) fn mkdir(
        &mut self,
        directory: Handle,
        name: impl AsRef<[u8]>,
        attributes: SetAttributes,
    ) -> Result<Answered3<Made, Wcc>, Stop> {
        self.ask(mkdir::NUMBER, &mkdir::Args { place: place(directory, &name), attributes })
    }

    pub(crate) fn symlink(
        &mut self,
        directory: Handle,
        name: impl AsRef<[u8]>,
        target: impl AsRef<[u8]>,
    ) -> Result<Answered3<Made, Wcc>, Stop> {
        let (attributes, target) = (SetAttributes::default(), Path(target.as_ref()));
        let args = symlink::Args { place: place(directory, &name), attributes, target };
        self.ask(symlink::NUMBER, &args)
    }

    pub(crate) fn mknod(
        &mut self,
        directory: Handle,
        name: impl AsRef<[u8]>,
        node: mknod::Node,
    ) -> Result<Answered3<Made, Wcc>, Stop> {
        self.ask(mknod::NUMBER, &mknod::Args { place: place(directory, &name), node })
    }

    pub(crate) fn remove(
        &mut self,
        directory: Handle,
        name: impl AsRef<[u8]>,
    ) -> Result<Answered3<Wcc, Wcc>, Stop> {
        self.ask(remove::NUMBER, &place(directory, &name))
    }

    pub(crate) fn rmdir(
        &mut self,
        directory: Handle,
        name: impl AsRef<[u8]>,
    ) -> Result<Answered3<Wcc, Wcc>, Stop> {
        self.ask(rmdir::NUMBER, &place(directory, &name))
    }

    pub(crate) fn rename(
        &mut self,
        from: (Handle, impl AsRef<[u8]>),
        to: (Handle, impl AsRef<[u8]>),
    ) -> Result<Answered3<rename::Done, rename::Done>, Stop> {
        let args = rename::Args { from: place(from.0, &from.1), to: place(to.0, &to.1) };
        self.ask(rename::NUMBER, &args)
    }

    pub(crate) fn link(
        &mut self,
        file: Handle,
        directory: Handle,
        name: impl AsRef<[u8]>,
    ) -> Result<Answered3<link::Done, link::Done>, Stop> {
        self.ask(link::NUMBER, &link::Args { file, link: place(directory, &name) })
    }

    pub(crate) fn readdir(
        &mut self,
        directory: Handle,
        from: Position,
        count: u32,
    ) -> Result<Answered3<Page, Option<Attributes>>, Stop> {
        let Position { cookie, verifier } = from;
        let args = readdir::Args { directory, cookie, verifier, count };
        let results = self.results(readdir::NUMBER, &args)?;
        let name = procedure_name(procedure(readdir::NUMBER));
        let reply = match readable::<readdir::Listing<'_>>(&name, &results)? {
            Reply::Failed(status, attributes) => Reply::Failed(status, attributes),
            Reply::Done(done) => Reply::Done(Page {
                attributes: done.attributes,
                verifier: done.verifier,
                entries: done.entries.0.iter().map(bare_entry).collect(),
                end: done.end,
                bytes: results.len() - 4,
            }),
        };
        Ok(Answered3::version3(name, reply))
    }

    pub(crate) fn readdirplus(
        &mut self,
        directory: Handle,
        from: Position,
        names_count: u32,
        count: u32,
    ) -> Result<Answered3<Page, Option<Attributes>>, Stop> {
        let Position { cookie, verifier } = from;
        let args = readdirplus::Args { directory, cookie, verifier, names_count, count };
        let results = self.results(readdirplus::NUMBER, &args)?;
        let name = procedure_name(procedure(readdirplus::NUMBER));
        let reply = match readable::<readdirplus::Listing<'_>>(&name, &results)? {
            Reply::Failed(status, attributes) => Reply::Failed(status, attributes),
            Reply::Done(done) => Reply::Done(Page {
                attributes: done.attributes,
                verifier: done.verifier,
                entries: done.entries.0.iter().map(full_entry).collect(),
                end: done.end,
                bytes: results.len() - 4,
            }),
        };
        Ok(Answered3::version3(name, reply))
    }

    pub(crate) fn fsstat(
        &mut self,
        root: Handle,
    ) -> Result<Answered3<fsstat::Done, Option<Attributes>>, Stop> {
        self.ask(fsstat::NUMBER, &fsstat::Args { root })
    }

    pub(crate) fn fsinfo(
        &mut self,
        root: Handle,
    ) -> Result<Answered3<fsinfo::Done, Option<Attributes>>, Stop> {
        self.ask(fsinfo::NUMBER, &fsinfo::Args { root })
    }

    pub(crate) fn pathconf(
        &mut self,
        object: Handle,
    ) -> Result<Answered3<pathconf::Done, Option<Attributes>>, Stop> {
        self.ask(pathconf::NUMBER, &pathconf::Args { object })
    }

    pub(crate) fn commit(
        &mut self,
        file: Handle,
        offset: u64,
        count: u32,
    ) -> Result<Answered3<commit::Done, Wcc>, Stop> {
        self.ask(commit::NUMBER, &commit::Args { file, offset, count })
    }
}

/// Frequent operations.
impl V3 {
    /// The attributes of an object.
    pub(crate) fn attributes(&mut self, object: Handle) -> Result<Attributes, Stop> {
        Ok(self.getattr(object)?.done()?.attributes)
    }

    /// The object of a name.
    pub(crate) fn find(
        &mut self,
        directory: Handle,
        name: impl AsRef<[u8]>,
    ) -> Result<Handle, Stop> {
        Ok(self.lookup(directory, name)?.done()?.object)
    }

    /// Returns the handle of a new object; if the server returned none, its name is looked up.
    pub(crate) fn made(
        &mut self,
        made: Answered3<Made, Wcc>,
        directory: Handle,
        name: impl AsRef<[u8]>,
    ) -> Result<Handle, Stop> {
        match made.done()?.object {
            Some(object) => Ok(object),
            None => self.find(directory, name),
        }
    }

    /// Creates a file with contents, mode 0644.
    pub(crate) fn file(
        &mut self,
        directory: Handle,
        name: impl AsRef<[u8]>,
        data: impl AsRef<[u8]>,
    ) -> Result<Handle, Stop> {
        let made = self.create(directory, &name, create::How::Guarded(mode(0o644)))?;
        let file = self.made(made, directory, &name)?;
        if !data.as_ref().is_empty() {
            self.put(file, 0, data)?;
        }
        Ok(file)
    }

    /// Creates a directory, mode 0755.
    pub(crate) fn directory(
        &mut self,
        directory: Handle,
        name: impl AsRef<[u8]>,
    ) -> Result<Handle, Stop> {
        let made = self.mkdir(directory, &name, mode(0o755))?;
        self.made(made, directory, &name)
    }

    /// Writes all of the data to stable storage; a server may accept less at a time.
    pub(crate) fn put(
        &mut self,
        file: Handle,
        offset: u64,
        data: impl AsRef<[u8]>,
    ) -> Result<(), Stop> {
        let (mut offset, mut rest) = (offset, data.as_ref());
        while !rest.is_empty() {
            let piece = &rest[..rest.len().min(self.write_bytes_max)];
            let count = self.write(file, offset, piece, Stability::FileSync)?.done()?.count;
            let written = usize::try_from(count).unwrap_or(usize::MAX);
            ensure!(
                written > 0 && written <= piece.len(),
                "the reply to a WRITE of {} bytes has a count of {count}",
                piece.len()
            );
            (offset, rest) = (offset + u64::from(count), &rest[written..]);
        }
        Ok(())
    }

    /// Reads this number of bytes, or up to the end; a server may return less at a time.
    pub(crate) fn get(&mut self, file: Handle, offset: u64, count: u32) -> Result<Vec<u8>, Stop> {
        let mut data = Vec::new();
        let wanted = usize::try_from(count).unwrap_or(usize::MAX);
        while data.len() < wanted {
            let left = u32::try_from(wanted - data.len()).unwrap_or(u32::MAX).min(READ_BYTES_MAX);
            let at = offset + data.len() as u64;
            let done = self.read(file, at, left)?.done()?;
            ensure!(
                done.data.len() as u64 == u64::from(done.count),
                "READ returns a count of {} and {} bytes",
                done.count,
                done.data.len()
            );
            data.extend_from_slice(&done.data);
            ensure!(done.end || !done.data.is_empty(), "READ returns no data before the end");
            if done.end {
                break;
            }
        }
        Ok(data)
    }

    /// All entries of a directory, by READDIR with replies of at most `count` bytes.
    pub(crate) fn list(&mut self, directory: Handle, count: u32) -> Result<Vec<Entry>, Stop> {
        self.list_by(|v3, from| v3.readdir(directory, from, count)?.done())
    }

    /// All entries of a directory, by READDIRPLUS.
    pub(crate) fn list_plus(
        &mut self,
        directory: Handle,
        names_count: u32,
        count: u32,
    ) -> Result<Vec<Entry>, Stop> {
        self.list_by(|v3, from| v3.readdirplus(directory, from, names_count, count)?.done())
    }

    fn list_by(
        &mut self,
        mut page: impl FnMut(&mut Self, Position) -> Result<Page, Stop>,
    ) -> Result<Vec<Entry>, Stop> {
        let (mut entries, mut from) = (Vec::new(), Position::default());
        let mut course = Course::new();
        loop {
            let page = page(self, from)?;
            let last = page.entries.last().map(|last| last.cookie);
            entries.extend(page.entries);
            match course.next(last, page.end, entries.len())? {
                Some(cookie) => from = Position { cookie, verifier: page.verifier },
                None => return Ok(entries),
            }
        }
    }

    /// Returns true if an object has a type.
    pub(crate) fn is(&mut self, object: Handle, kind: FileType) -> Result<bool, Stop> {
        Ok(self.attributes(object)?.file_type == kind)
    }
}

/// The text of a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) attributes: Option<Attributes>,
    pub(crate) target: Vec<u8>,
}

impl<'a> Decode<'a> for Target {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, leasehold_base::xdr::Error> {
        let done = readlink::Done::decode(reader)?;
        Ok(Self { attributes: done.attributes, target: done.target.0.to_vec() })
    }
}

/// The arguments of a WRITE.
pub(crate) fn write_args(
    file: Handle,
    offset: u64,
    data: &[u8],
    stability: Stability,
) -> write::Args {
    let count = u32::try_from(data.len()).expect("cases write little");
    write::Args { file, offset, count, stability, data: Bytes::copy_from_slice(data) }
}

fn bare_entry(entry: &readdir::Entry<'_>) -> Entry {
    Entry {
        name: entry.name.0.to_vec(),
        file_id: entry.file_id.0,
        cookie: entry.cookie,
        attributes: None,
        object: None,
    }
}

fn full_entry(entry: &readdirplus::Entry<'_>) -> Entry {
    Entry {
        name: entry.name.0.to_vec(),
        file_id: entry.file_id.0,
        cookie: entry.cookie,
        attributes: entry.attributes,
        object: entry.object,
    }
}

/// Decodes all results; malformed results fail the case.
pub(crate) fn readable<'a, T: Decode<'a>>(name: &str, results: &'a Bytes) -> Result<T, Stop> {
    decode_all(&mut Reader::new(results))
        .map_err(|error| Stop::fail(format!("the results of {name} are malformed: {error}")))
}
