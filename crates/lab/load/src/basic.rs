//! The ten basic tests of the Connectathon suite, as the calls of a client.
//!
//! The client caches the attributes and names from replies, and requests only the missing ones.
//! Replies of version 2 contain no attributes of a changed directory or of a linked or renamed
//! object, so the client requests them after each change; replies of version 3 contain them. With
//! version 3 the client also requests the permitted access once for each directory, and commits
//! written data. One call is in flight at a time, except for the WRITEs of test 5a, which
//! [`crate::sequence()`] makes.

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

/// The NFS version of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 2.
    Two,
    /// 3.
    Three,
}

/// The result of a test.
#[derive(Clone, Debug)]
pub struct Basic {
    /// Its number in the suite, and its description.
    pub name: &'static str,
    /// How long it took.
    pub time: Duration,
    /// Its calls by the procedure's name.
    pub calls: BTreeMap<&'static str, u64>,
}

type HandleBytes = [u8; HANDLE_V2_BYTES];

/// Test 1: levels below the root, files in each directory except in the last level, and
/// subdirectories in each directory: 155 files and 62 directories.
const LEVELS: u32 = 5;
const FILES: u32 = 5;
const DIRECTORIES: u32 = 2;

/// The size of a file of test 5, and the size of one READ.
pub const FILE_BYTES: u32 = 1 << 20;
const PIECE_BYTES: u32 = 8192;

/// The number of times that test 5 writes and reads a file.
pub const TIMES: u32 = 10;

/// The number of bytes of a directory in one request.
const PAGE_BYTES: u32 = 8192;

/// Runs all tests except test 5a, whose files, with names from `0` on, exist already; in their
/// order.
///
/// # Errors
/// The connection fails or the server sends a wrong reply.
pub fn basic(server: SocketAddr, root: HandleBytes, version: Version) -> Result<Vec<Basic>, Error> {
    let mut client = Client {
        connection: Connection::open(server)?,
        version,
        calls: BTreeMap::new(),
        number: 0,
    };
    let tests: [(&'static str, Test); 9] = [
        ("1: 155 files and 62 directories made", |client, root| client.make_tree(root, LEVELS)),
        ("2: the same removed", |client, root| client.remove_tree(root, LEVELS)),
        ("3: 500 getwd and stat", Client::look),
        ("4: 1000 chmod and stat on 10 files", Client::change_modes),
        ("5b: a file of 1 MB read 10 times", Client::read_files),
        ("6: 20500 entries read of 200 files", Client::list),
        ("7: 200 renames and links on 10 files", Client::rename_and_link),
        ("8: 400 symlinks and readlinks on 10 files", Client::symlinks),
        ("9: 1500 statfs", Client::ask_for_room),
    ];
    let mut done = Vec::new();
    for (name, test) in tests {
        let start = Instant::now();
        test(&mut client, root)?;
        let calls = core::mem::take(&mut client.calls);
        done.push(Basic { name, time: start.elapsed(), calls });
    }
    Ok(done)
}

type Test = fn(&mut Client, HandleBytes) -> Result<(), Error>;

struct Client {
    connection: Connection,
    version: Version,
    calls: BTreeMap<&'static str, u64>,
    number: u32,
}

/// Returns the name of a directory entry in version 2.
fn place_2(at: HandleBytes, name: &[u8]) -> nfs2::DirectoryArgs<'_> {
    nfs2::DirectoryArgs { directory: nfs2::Handle(at), name: nfs2::Name(name) }
}

fn place_3(at: HandleBytes, name: &[u8]) -> nfs3::DirectoryArgs<'_> {
    nfs3::DirectoryArgs { directory: nfs3::Handle::from(at), name: nfs3::Name(name) }
}

impl Client {
    fn make_tree(&mut self, at: HandleBytes, levels: u32) -> Result<(), Error> {
        self.may(at)?;
        for file in 0..FILES {
            self.create(at, &format!("file.{file}"))?;
        }
        for directory in 0..DIRECTORIES {
            let below = self.make_directory(at, &format!("dir.{directory}"))?;
            if levels > 1 {
                self.make_tree(below, levels - 1)?;
            }
        }
        Ok(())
    }

    fn remove_tree(&mut self, at: HandleBytes, levels: u32) -> Result<(), Error> {
        self.may(at)?;
        for file in 0..FILES {
            self.look_up(at, &format!("file.{file}"))?;
            self.remove(at, &format!("file.{file}"))?;
        }
        for directory in 0..DIRECTORIES {
            let name = format!("dir.{directory}");
            let below = self.look_up(at, &name)?;
            if levels > 1 {
                self.remove_tree(below, levels - 1)?;
            }
            match self.version {
                Version::Two => {
                    let args = place_2(at, name.as_bytes());
                    self.done("RMDIR", NFS_2, nfs2::rmdir::NUMBER, &args)?;
                }
                Version::Three => {
                    let args = place_3(at, name.as_bytes());
                    self.done("RMDIR", NFS, nfs3::rmdir::NUMBER, &args)?;
                }
            }
            self.has_changed(at)?;
        }
        Ok(())
    }

    fn look(&mut self, root: HandleBytes) -> Result<(), Error> {
        // Both versions check that the cached attributes are still valid.
        (0..500).try_for_each(|_| self.get_attributes(root))
    }

    fn change_modes(&mut self, root: HandleBytes) -> Result<(), Error> {
        let files = self.ten_files(root)?;
        for turn in 0..1000 {
            let mode = Some(if turn % 2 == 0 { 0 } else { 0o666 });
            let file = files[turn % files.len()];
            // Both replies contain attributes, which serve the stat.
            match self.version {
                Version::Two => {
                    let attributes = nfs2::SetAttributes { mode, ..Default::default() };
                    let args = nfs2::setattr::Args { object: nfs2::Handle(file), attributes };
                    self.done("SETATTR", NFS_2, nfs2::setattr::NUMBER, &args)?;
                }
                Version::Three => {
                    let attributes = nfs3::SetAttributes { mode, ..Default::default() };
                    let object = nfs3::Handle::from(file);
                    let args = nfs3::setattr::Args { object, attributes, guard: None };
                    self.done("SETATTR", NFS, nfs3::setattr::NUMBER, &args)?;
                }
            }
        }
        self.remove_ten(root)
    }

    fn read_files(&mut self, root: HandleBytes) -> Result<(), Error> {
        for time in 0..TIMES {
            let file = self.look_up(root, &time.to_string())?;
            self.get_attributes(file)?;
            for offset in (0..FILE_BYTES).step_by(PIECE_BYTES as usize) {
                let count = PIECE_BYTES;
                match self.version {
                    Version::Two => {
                        let file = nfs2::Handle(file);
                        let args =
                            nfs2::read::Args { file, offset, count, total_count: FILE_BYTES };
                        self.done("READ", NFS_2, nfs2::read::NUMBER, &args)?;
                    }
                    Version::Three => {
                        let (file, offset) = (nfs3::Handle::from(file), offset.into());
                        let args = nfs3::read::Args { file, offset, count };
                        self.done("READ", NFS, nfs3::read::NUMBER, &args)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn list(&mut self, root: HandleBytes) -> Result<(), Error> {
        let directory = self.make_directory(root, "listed")?;
        for file in 0..200 {
            self.create(directory, &format!("file.{file}"))?;
        }
        let mut entries = 0;
        for file in 0..200 {
            entries += self.count_entries(directory)?;
            self.remove(directory, &format!("file.{file}"))?;
        }
        if entries == 20_500 {
            return Ok(());
        }
        Err(Error::Wrong(format!("{entries} entries were listed")))
    }

    fn rename_and_link(&mut self, root: HandleBytes) -> Result<(), Error> {
        let files = self.ten_files(root)?;
        for turn in 0..100 {
            let number = turn % files.len();
            let (old, new) = (format!("file.{number}"), format!("new.{number}"));
            match self.version {
                Version::Two => {
                    let (from, to) = (place_2(root, old.as_bytes()), place_2(root, new.as_bytes()));
                    let args = nfs2::rename::Args { from, to };
                    self.done("RENAME", NFS_2, nfs2::rename::NUMBER, &args)?;
                    self.has_changed(root)?;
                    let args = nfs2::link::Args { file: nfs2::Handle(files[number]), link: from };
                    self.done("LINK", NFS_2, nfs2::link::NUMBER, &args)?;
                    self.get_attributes(files[number])?;
                }
                Version::Three => {
                    let (from, to) = (place_3(root, old.as_bytes()), place_3(root, new.as_bytes()));
                    let args = nfs3::rename::Args { from, to };
                    self.done("RENAME", NFS, nfs3::rename::NUMBER, &args)?;
                    let file = nfs3::Handle::from(files[number]);
                    let args = nfs3::link::Args { file, link: from };
                    self.done("LINK", NFS, nfs3::link::NUMBER, &args)?;
                }
            }
            self.has_changed(root)?;
            self.remove(root, &new)?;
        }
        self.remove_ten(root)
    }

    fn symlinks(&mut self, root: HandleBytes) -> Result<(), Error> {
        const TARGET: &[u8] = b"/this/is/a/symlink";
        for turn in 0..200 {
            let name = format!("link.{}", turn % 10);
            let symlink = match self.version {
                Version::Two => {
                    let (place, target) = (place_2(root, name.as_bytes()), nfs2::Path(TARGET));
                    let attributes = nfs2::SetAttributes::default();
                    let args = nfs2::symlink::Args { place, target, attributes };
                    self.done("SYMLINK", NFS_2, nfs2::symlink::NUMBER, &args)?;
                    self.has_changed(root)?;
                    let symlink = self.look_up(root, &name)?;
                    let args = nfs2::Handle(symlink);
                    self.done("READLINK", NFS_2, nfs2::readlink::NUMBER, &args)?;
                    None
                }
                Version::Three => {
                    let (place, target) = (place_3(root, name.as_bytes()), nfs3::Path(TARGET));
                    let attributes = nfs3::SetAttributes::default();
                    let args = nfs3::symlink::Args { place, attributes, target };
                    let results = self.done("SYMLINK", NFS, nfs3::symlink::NUMBER, &args)?;
                    Some(made_3(&results)?)
                }
            };
            if let Some(symlink) = symlink {
                let args = nfs3::readlink::Args { symlink: nfs3::Handle::from(symlink) };
                self.done("READLINK", NFS, nfs3::readlink::NUMBER, &args)?;
            }
            self.remove(root, &name)?;
        }
        Ok(())
    }

    fn ask_for_room(&mut self, root: HandleBytes) -> Result<(), Error> {
        for _ in 0..1500 {
            match self.version {
                Version::Two => {
                    let args = nfs2::Handle(root);
                    self.done("STATFS", NFS_2, nfs2::statfs::NUMBER, &args)?;
                }
                Version::Three => {
                    let args = nfs3::fsstat::Args { root: nfs3::Handle::from(root) };
                    self.done("FSSTAT", NFS, nfs3::fsstat::NUMBER, &args)?;
                }
            }
        }
        Ok(())
    }

    fn ten_files(&mut self, root: HandleBytes) -> Result<Vec<HandleBytes>, Error> {
        (0..10).map(|number| self.create(root, &format!("file.{number}"))).collect()
    }

    fn remove_ten(&mut self, root: HandleBytes) -> Result<(), Error> {
        (0..10).try_for_each(|number| self.remove(root, &format!("file.{number}")))
    }

    /// Requests the permitted access to a directory at its first use, in version 3.
    fn may(&mut self, at: HandleBytes) -> Result<(), Error> {
        if self.version == Version::Three {
            let access = nfs3::access::Access { lookup: true, modify: true, ..Default::default() };
            let args = nfs3::access::Args { object: nfs3::Handle::from(at), access };
            self.done("ACCESS", NFS, nfs3::access::NUMBER, &args)?;
        }
        Ok(())
    }

    /// Records a change of a directory: uses the attributes from the reply, or requests them.
    fn has_changed(&mut self, at: HandleBytes) -> Result<(), Error> {
        match self.version {
            Version::Two => self.get_attributes(at),
            Version::Three => Ok(()),
        }
    }

    fn get_attributes(&mut self, of: HandleBytes) -> Result<(), Error> {
        match self.version {
            Version::Two => {
                self.done("GETATTR", NFS_2, nfs2::getattr::NUMBER, &nfs2::Handle(of))?;
            }
            Version::Three => {
                let args = nfs3::getattr::Args { object: nfs3::Handle::from(of) };
                self.done("GETATTR", NFS, nfs3::getattr::NUMBER, &args)?;
            }
        }
        Ok(())
    }

    fn create(&mut self, at: HandleBytes, name: &str) -> Result<HandleBytes, Error> {
        let name = name.as_bytes();
        let made = match self.version {
            Version::Two => {
                let attributes = nfs2::SetAttributes { mode: Some(0o666), ..Default::default() };
                let args = nfs2::create::Args { place: place_2(at, name), attributes };
                made_2(&self.done("CREATE", NFS_2, nfs2::create::NUMBER, &args)?)
            }
            Version::Three => {
                let attributes = nfs3::SetAttributes { mode: Some(0o666), ..Default::default() };
                let how = nfs3::create::How::Unchecked(attributes);
                let args = nfs3::create::Args { place: place_3(at, name), how };
                made_3(&self.done("CREATE", NFS, nfs3::create::NUMBER, &args)?)
            }
        }?;
        self.has_changed(at)?;
        Ok(made)
    }

    fn make_directory(&mut self, at: HandleBytes, name: &str) -> Result<HandleBytes, Error> {
        let name = name.as_bytes();
        let made = match self.version {
            Version::Two => {
                let attributes = nfs2::SetAttributes { mode: Some(0o777), ..Default::default() };
                let args = nfs2::create::Args { place: place_2(at, name), attributes };
                made_2(&self.done("MKDIR", NFS_2, nfs2::mkdir::NUMBER, &args)?)
            }
            Version::Three => {
                let attributes = nfs3::SetAttributes { mode: Some(0o777), ..Default::default() };
                let args = nfs3::mkdir::Args { place: place_3(at, name), attributes };
                made_3(&self.done("MKDIR", NFS, nfs3::mkdir::NUMBER, &args)?)
            }
        }?;
        self.has_changed(at)?;
        Ok(made)
    }

    fn remove(&mut self, at: HandleBytes, name: &str) -> Result<(), Error> {
        let name = name.as_bytes();
        match self.version {
            Version::Two => {
                self.done("REMOVE", NFS_2, nfs2::remove::NUMBER, &place_2(at, name))?;
            }
            Version::Three => {
                self.done("REMOVE", NFS, nfs3::remove::NUMBER, &place_3(at, name))?;
            }
        }
        self.has_changed(at)
    }

    fn look_up(&mut self, at: HandleBytes, name: &str) -> Result<HandleBytes, Error> {
        let name = name.as_bytes();
        match self.version {
            Version::Two => {
                let args = place_2(at, name);
                made_2(&self.done("LOOKUP", NFS_2, nfs2::lookup::NUMBER, &args)?)
            }
            Version::Three => {
                let args = place_3(at, name);
                let results = self.done("LOOKUP", NFS, nfs3::lookup::NUMBER, &args)?;
                match decode(&results)? {
                    nfs3::lookup::Reply::Done(done) => bytes_of(done.object),
                    nfs3::lookup::Reply::Failed(..) => Err(other()),
                }
            }
        }
    }

    fn count_entries(&mut self, directory: HandleBytes) -> Result<usize, Error> {
        let (mut count, mut cookie, mut verifier) = (0, 0, [0; 8]);
        loop {
            let end = match self.version {
                Version::Two => {
                    use nfs2::readdir;
                    let cookie_2 = nfs2::Cookie(u32::try_from(cookie).map_err(|_| other())?);
                    let directory = nfs2::Handle(directory);
                    let args = readdir::Args { directory, cookie: cookie_2, count: PAGE_BYTES };
                    let results = self.done("READDIR", NFS_2, readdir::NUMBER, &args)?;
                    let readdir::Listing::Done(page) = decode(&results)? else {
                        return Err(other());
                    };
                    count += page.entries.0.len();
                    cookie = page.entries.0.last().map_or(cookie, |last| last.cookie.0.into());
                    page.end
                }
                Version::Three => {
                    use nfs3::readdir;
                    let directory = nfs3::Handle::from(directory);
                    let cookie_3 = Cookie(cookie);
                    let count_max = PAGE_BYTES;
                    let args =
                        readdir::Args { directory, cookie: cookie_3, verifier, count: count_max };
                    let results = self.done("READDIR", NFS, readdir::NUMBER, &args)?;
                    let readdir::Listing::Done(page) = decode(&results)? else {
                        return Err(other());
                    };
                    count += page.entries.0.len();
                    cookie = page.entries.0.last().map_or(cookie, |last| last.cookie.0);
                    verifier = page.verifier;
                    page.end
                }
            };
            if end {
                return Ok(count);
            }
        }
    }

    /// Calls the server, and returns the results of a success.
    fn done(
        &mut self,
        name: &'static str,
        program: Program,
        procedure: u32,
        args: &impl Encode,
    ) -> Result<Bytes, Error> {
        *self.calls.entry(name).or_default() += 1;
        self.number += 1;
        self.connection.queue(self.number, program, procedure, args);
        self.connection.flush()?;
        let (_, results) = self.connection.reply(true)?.expect("waits until there is one");
        if results.first_chunk() == Some(&[0; 4]) {
            return Ok(results);
        }
        Err(Error::Wrong(format!("{name}: {:?}", results.get(..4))))
    }
}

fn made_2(results: &Bytes) -> Result<HandleBytes, Error> {
    match decode(results)? {
        nfs2::lookup::Reply::Done(found) => Ok(found.object.0),
        nfs2::lookup::Reply::Failed(_) => Err(other()),
    }
}

fn made_3(results: &Bytes) -> Result<HandleBytes, Error> {
    match decode(results)? {
        nfs3::create::Reply::Done(made) => bytes_of(made.object.ok_or_else(other)?),
        nfs3::create::Reply::Failed(..) => Err(other()),
    }
}

fn bytes_of(handle: nfs3::Handle) -> Result<HandleBytes, Error> {
    handle.as_bytes().try_into().map_err(|_| other())
}

fn other() -> Error {
    Error::Wrong("a reply that no basic test expects".to_owned())
}
