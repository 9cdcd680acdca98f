//! A walk of a tree as find(1) on a client makes it.
//!
//! For each directory the client requests its file system, its attributes (they may have changed
//! since they were cached) and the user's access; then its names, and the attributes of each:
//! READDIRPLUS returns them with the names, otherwise the client looks up each name.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_base::limits::HANDLE_V2_BYTES;
use leasehold_base::units::Cookie;
use leasehold_base::xdr::Encode;
use leasehold_wire::{nfs2, nfs3};

use crate::Error;
use crate::connection::{Connection, NFS, NFS_2, Program, decode};

/// The protocol of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walker {
    /// Version 2.
    Version2,
    /// Version 3 with READDIRPLUS.
    Version3,
    /// Version 3 without READDIRPLUS.
    Version3Plain,
}

/// The results of a walk.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    /// Calls by the procedure's name.
    pub calls: BTreeMap<&'static str, u64>,
    /// Visited directories.
    pub directories: u64,
    /// Visited objects that are not directories.
    pub files: u64,
    /// Bytes of calls with their record marks.
    pub sent_bytes: u64,
    /// Bytes of replies with their record marks.
    pub received_bytes: u64,
    /// The elapsed time.
    pub time: Duration,
}

impl Walk {
    /// Returns the number of all calls.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.calls.values().sum()
    }
}

/// The number of bytes of a directory in one request, as in clients of that time.
const PAGE_BYTES: u32 = 8192;

type HandleBytes = [u8; HANDLE_V2_BYTES];

/// Walks the tree below a directory.
///
/// # Errors
/// The connection fails or the server sends a wrong reply.
pub fn walk(server: SocketAddr, root: HandleBytes, by: Walker) -> Result<Walk, Error> {
    let connection = Connection::open(server)?;
    let mut walking = Walking { connection, seen: Walk::default() };
    let start = Instant::now();
    let mut directories = vec![root];
    while let Some(directory) = directories.pop() {
        walking.seen.directories += 1;
        match by {
            Walker::Version2 => walking.version_2(directory, &mut directories)?,
            Walker::Version3 => walking.version_3(directory, true, &mut directories)?,
            Walker::Version3Plain => walking.version_3(directory, false, &mut directories)?,
        }
    }
    walking.seen.time = start.elapsed();
    Ok(walking.seen)
}

struct Walking {
    connection: Connection,
    seen: Walk,
}

impl Walking {
    fn version_2(&mut self, at: HandleBytes, below: &mut Vec<HandleBytes>) -> Result<(), Error> {
        use nfs2::{getattr, lookup, readdir, statfs};
        let directory = nfs2::Handle(at);
        self.call::<statfs::Reply>("STATFS", NFS_2, statfs::NUMBER, &directory)?;
        self.call::<getattr::Reply>("GETATTR", NFS_2, getattr::NUMBER, &directory)?;
        let mut cookie = nfs2::Cookie(0);
        loop {
            let args = readdir::Args { directory, cookie, count: PAGE_BYTES };
            let page = self.ask("READDIR", NFS_2, readdir::NUMBER, &args)?;
            let readdir::Listing::Done(page) = decode(&page)? else { return unexpected() };
            for entry in page.entries.0 {
                cookie = entry.cookie;
                let name = entry.name;
                if [&b"."[..], b".."].contains(&name.0) {
                    continue;
                }
                let place = nfs2::DirectoryArgs { directory, name };
                let found = self.call("LOOKUP", NFS_2, lookup::NUMBER, &place)?;
                let lookup::Reply::Done(found) = found else { return unexpected() };
                if found.attributes.file_type == nfs2::FileType::Directory {
                    below.push(found.object.0);
                } else {
                    self.seen.files += 1;
                }
            }
            if page.end {
                return Ok(());
            }
        }
    }

    fn version_3(
        &mut self,
        at: HandleBytes,
        plus: bool,
        below: &mut Vec<HandleBytes>,
    ) -> Result<(), Error> {
        use nfs3::{access, fsstat, getattr};
        let directory = nfs3::Handle::from(at);
        let root = fsstat::Args { root: directory };
        self.call::<fsstat::Reply>("FSSTAT", NFS, fsstat::NUMBER, &root)?;
        let object = getattr::Args { object: directory };
        self.call::<getattr::Reply>("GETATTR", NFS, getattr::NUMBER, &object)?;
        // One ACCESS to search, and one to list.
        for (read, lookup) in [(false, true), (true, false)] {
            let access = access::Access { read, lookup, ..access::Access::default() };
            let args = access::Args { object: directory, access };
            self.call::<access::Reply>("ACCESS", NFS, access::NUMBER, &args)?;
        }
        let (mut cookie, mut verifier) = (Cookie(0), [0; 8]);
        loop {
            let mut page = Page { cookie, verifier, end: true };
            let names = if plus {
                self.page_plus(directory, &mut page)?
            } else {
                self.page_plain(directory, &mut page)?
            };
            for (name, is_directory) in names {
                if is_directory == Some(false) {
                    self.seen.files += 1;
                } else {
                    self.look_up(directory, &name, below)?;
                }
            }
            (cookie, verifier) = (page.cookie, page.verifier);
            if page.end {
                return Ok(());
            }
        }
    }

    /// Reads the names of a page, with the kind of each object.
    fn page_plus(&mut self, directory: nfs3::Handle, page: &mut Page) -> Result<Names, Error> {
        use nfs3::readdirplus as plus;
        let Page { cookie, verifier, .. } = *page;
        let (names_count, count) = (PAGE_BYTES, PAGE_BYTES);
        let args = plus::Args { directory, cookie, verifier, names_count, count };
        let results = self.ask("READDIRPLUS", NFS, plus::NUMBER, &args)?;
        let plus::Listing::Done(done) = decode(&results)? else { return unexpected() };
        let names = done.entries.0.iter().filter(|entry| !is_dots(entry.name.0)).map(|entry| {
            let is_directory =
                entry.attributes.map(|seen| seen.file_type == nfs3::FileType::Directory);
            (entry.name.0.to_vec(), is_directory)
        });
        let names = names.collect();
        page.turn(done.entries.0.last().map(|entry| entry.cookie), done.verifier, done.end);
        Ok(names)
    }

    fn page_plain(&mut self, directory: nfs3::Handle, page: &mut Page) -> Result<Names, Error> {
        use nfs3::readdir as plain;
        let Page { cookie, verifier, .. } = *page;
        let args = plain::Args { directory, cookie, verifier, count: PAGE_BYTES };
        let results = self.ask("READDIR", NFS, plain::NUMBER, &args)?;
        let plain::Listing::Done(done) = decode(&results)? else { return unexpected() };
        let names = done.entries.0.iter().filter(|entry| !is_dots(entry.name.0));
        let names = names.map(|entry| (entry.name.0.to_vec(), None)).collect();
        page.turn(done.entries.0.last().map(|entry| entry.cookie), done.verifier, done.end);
        Ok(names)
    }

    fn look_up(
        &mut self,
        directory: nfs3::Handle,
        name: &[u8],
        below: &mut Vec<HandleBytes>,
    ) -> Result<(), Error> {
        use nfs3::lookup;
        let place = nfs3::DirectoryArgs { directory, name: nfs3::Name(name) };
        let found = self.call("LOOKUP", NFS, lookup::NUMBER, &place)?;
        let lookup::Reply::Done(found) = found else { return unexpected() };
        let file_type = found.attributes.map(|seen| seen.file_type);
        if file_type == Some(nfs3::FileType::Directory) {
            let handle = found.object.as_bytes().try_into();
            below.push(handle.map_err(|_| Error::Wrong("a handle of another size".to_owned()))?);
        } else {
            self.seen.files += 1;
        }
        Ok(())
    }

    fn call<T: for<'a> leasehold_base::xdr::Decode<'a>>(
        &mut self,
        name: &'static str,
        program: Program,
        procedure: u32,
        args: &impl Encode,
    ) -> Result<T, Error> {
        decode(&self.ask(name, program, procedure, args)?)
    }

    fn ask(
        &mut self,
        name: &'static str,
        program: Program,
        procedure: u32,
        args: &impl Encode,
    ) -> Result<Bytes, Error> {
        *self.seen.calls.entry(name).or_default() += 1;
        let xid = u32::try_from(self.seen.total()).unwrap_or(0);
        self.seen.sent_bytes += self.connection.queue(xid, program, procedure, args) as u64;
        self.connection.flush()?;
        let (_, results) = self.connection.reply(true)?.expect("waits until there is one");
        self.seen.received_bytes += (REPLY_HEAD_BYTES + results.len()) as u64;
        Ok(results)
    }
}

/// The record mark and head of a successful reply without a verifier.
const REPLY_HEAD_BYTES: usize = 4 + 24;

type Names = Vec<(Vec<u8>, Option<bool>)>;

/// The position of a listing.
struct Page {
    cookie: Cookie,
    verifier: [u8; 8],
    end: bool,
}

impl Page {
    fn turn(&mut self, last: Option<Cookie>, verifier: [u8; 8], end: bool) {
        *self = Self { cookie: last.unwrap_or(self.cookie), verifier, end };
    }
}

fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

fn unexpected<T>() -> Result<T, Error> {
    Err(Error::Wrong("a directory cannot be read".to_owned()))
}
