//! Version 2 as cases call it: one method for each procedure, and shorter ones for frequent
//! operations.

use bytes::Bytes;
use leasehold_base::xdr::{Decode, Encode, Reader};
use leasehold_wire::nfs2::{
    Attributes, Cookie, DirectoryArgs, Found, Handle, Name, Path, SetAttributes, Status, create,
    getattr, link, lookup, mkdir, read, readdir, readlink, remove, rename, rmdir, setattr, statfs,
    symlink, write,
};
use leasehold_wire::outcome::Outcome;
use leasehold_wire::{nfs2, rpc};

use crate::answer::{Answered, Answered2};
use crate::case::{Stop, ensure};
use crate::client::Client;
use crate::talk::{Procedure, procedure_name};
use crate::v3::{Course, readable};

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) file_id: u32,
    pub(crate) cookie: Cookie,
}

/// One page of a listing.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) entries: Vec<Entry>,
    pub(crate) end: bool,
    /// The size of the results behind the status.
    pub(crate) bytes: usize,
}

impl<'a> Decode<'a> for Page {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, leasehold_base::xdr::Error> {
        let bytes = reader.rest().len();
        let done = readdir::Done::<leasehold_wire::list::List<readdir::Entry<'_>>>::decode(reader)?;
        let entry = |entry: &readdir::Entry<'_>| Entry {
            name: entry.name.0.to_vec(),
            file_id: entry.file_id.0,
            cookie: entry.cookie,
        };
        Ok(Self { entries: done.entries.0.iter().map(entry).collect(), end: done.end, bytes })
    }
}

/// The text of a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target(pub(crate) Vec<u8>);

impl<'a> Decode<'a> for Target {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, leasehold_base::xdr::Error> {
        Path::decode(reader).map(|path| Self(path.0.to_vec()))
    }
}

/// A client of version 2.
pub(crate) struct V2 {
    pub(crate) client: Client,
}

/// Returns the procedure with a number.
pub(crate) const fn procedure(number: u32) -> Procedure {
    Procedure { program: nfs2::PROGRAM, version: nfs2::VERSION, number }
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
pub(crate) fn size(size: u32) -> SetAttributes {
    SetAttributes { size: Some(size), ..SetAttributes::default() }
}

impl V2 {
    fn ask<Done: for<'a> Decode<'a>>(
        &mut self,
        number: u32,
        args: &impl Encode,
    ) -> Result<Answered2<Done>, Stop> {
        let results = self.client.call(procedure(number), args)?;
        let name = procedure_name(procedure(number));
        let reply = readable::<Outcome<Done, Status>>(&name, &results)?;
        Ok(Answered::plain(name, reply))
    }

    pub(crate) fn null(&mut self) -> Result<(), Stop> {
        let results = self.client.call(procedure(rpc::null::NUMBER), &())?;
        ensure!(results.is_empty(), "the reply to NULL has {} bytes of results", results.len());
        Ok(())
    }

    pub(crate) fn getattr(&mut self, object: Handle) -> Result<Answered2<Attributes>, Stop> {
        self.ask(getattr::NUMBER, &object)
    }

    pub(crate) fn setattr(
        &mut self,
        object: Handle,
        attributes: SetAttributes,
    ) -> Result<Answered2<Attributes>, Stop> {
        self.ask(setattr::NUMBER, &setattr::Args { object, attributes })
    }

    pub(crate) fn lookup(
        &mut self,
        directory: Handle,
        name: impl AsRef<[u8]>,
    ) -> Result<Answered2<Found>, Stop> {
        self.ask(lookup::NUMBER, &place(directory, &name))
    }

    pub(crate) fn readlink(&mut self, symlink: Handle) -> Result<Answered2<Target>, Stop> {
        self.ask(readlink::NUMBER, &symlink)
    }

    pub(crate) fn read(
        &mut self,
        file: Handle,
        offset: u32,
        count: u32,
    ) -> Result<Answered2<read::Done>, Stop> {
        self.ask(read::NUMBER, &read::Args { file, offset, count, total_count: 0 })
    }

    pub(crate) fn write(
        &mut self,
        file: Handle,
        offset: u32,
        data: impl AsRef<[u8]>,
    ) -> Result<Answered2<Attributes>, Stop> {
        let data = Bytes::copy_from_slice(data.as_ref());
        let args = write::Args { file, begin_offset: 0, offset, total_count: 0, data };
        self.ask(write::NUMBER, &args)
    }

    pub(crate) fn create(
        &mut self,
        directory: Handle,
        name: impl AsRef<[u8]>,
        attributes: SetAttributes,
    ) -> Result<Answered2<Found>, Stop> {
        self.ask(create::NUMBER, &create::Args { place: place(directory, &name), attributes })
    }

    pub(crate) fn remove(
        &mut self,
        directory: Handle,
        name: impl AsRef<[u8]>,
    ) -> Result<Answered2<()>, Stop> {
        self.ask(remove::NUMBER, &place(directory, &name))
    }

    pub(crate) fn rename(
        &mut self,
        from: (Handle, impl AsRef<[u8]>),
        to: (Handle, impl AsRef<[u8]>),
    ) -> Result<Answered2<()>, Stop> {
        let args = rename::Args { from: place(from.0, &from.1), to: place(to.0, &to.1) };
        self.ask(rename::NUMBER, &args)
    }

    pub(crate) fn link(
        &mut self,
        file: Handle,
        directory: Handle,
        name: impl AsRef<[u8]>,
    ) -> Result<Answered2<()>, Stop> {
        self.ask(link::NUMBER, &link::Args { file, link: place(directory, &name) })
    }

    pub(crate) fn symlink(
        &mut self,
        directory: Handle,
        name: impl AsRef<[u8]>,
        target: impl AsRef<[u8]>,
    ) -> Result<Answered2<()>, Stop> {
        let (attributes, target) = (SetAttributes::default(), Path(target.as_ref()));
        let args = symlink::Args { place: place(directory, &name), target, attributes };
        self.ask(symlink::NUMBER, &args)
    }

    pub(crate) fn mkdir(
        &mut self,
        directory: Handle,
        name: impl AsRef<[u8]>,
        attributes: SetAttributes,
    ) -> Result<Answered2<Found>, Stop> {
        self.ask(mkdir::NUMBER, &create::Args { place: place(directory, &name), attributes })
    }

    pub(crate) fn rmdir(
        &mut self,
        directory: Handle,
        name: impl AsRef<[u8]>,
    ) -> Result<Answered2<()>, Stop> {
        self.ask(rmdir::NUMBER, &place(directory, &name))
    }

    pub(crate) fn readdir(
        &mut self,
        directory: Handle,
        cookie: Cookie,
        count: u32,
    ) -> Result<Answered2<Page>, Stop> {
        self.ask(readdir::NUMBER, &readdir::Args { directory, cookie, count })
    }

    pub(crate) fn statfs(&mut self, root: Handle) -> Result<Answered2<statfs::Done>, Stop> {
        self.ask(statfs::NUMBER, &root)
    }
}

/// Frequent operations.
impl V2 {
    /// The attributes of an object.
    pub(crate) fn attributes(&mut self, object: Handle) -> Result<Attributes, Stop> {
        self.getattr(object)?.done()
    }

    /// The object of a name.
    pub(crate) fn find(
        &mut self,
        directory: Handle,
        name: impl AsRef<[u8]>,
    ) -> Result<Handle, Stop> {
        Ok(self.lookup(directory, name)?.done()?.object)
    }

    /// Creates a file with contents, mode 0644.
    pub(crate) fn file(
        &mut self,
        directory: Handle,
        name: impl AsRef<[u8]>,
        data: impl AsRef<[u8]>,
    ) -> Result<Handle, Stop> {
        let file = self.create(directory, name, mode(0o644))?.done()?.object;
        if !data.as_ref().is_empty() {
            self.write(file, 0, data)?.done()?;
        }
        Ok(file)
    }

    /// Creates a directory, mode 0755.
    pub(crate) fn directory(
        &mut self,
        directory: Handle,
        name: impl AsRef<[u8]>,
    ) -> Result<Handle, Stop> {
        Ok(self.mkdir(directory, name, mode(0o755))?.done()?.object)
    }

    /// All entries of a directory, with replies of at most `count` bytes.
    pub(crate) fn list(&mut self, directory: Handle, count: u32) -> Result<Vec<Entry>, Stop> {
        let (mut entries, mut from) = (Vec::new(), Cookie(0));
        let mut course = Course::new();
        loop {
            let page = self.readdir(directory, from, count)?.done()?;
            let last = page.entries.last().map(|last| last.cookie);
            entries.extend(page.entries);
            match course.next(last, page.end, entries.len())? {
                Some(cookie) => from = cookie,
                None => return Ok(entries),
            }
        }
    }
}
