//! The files of a run: a directory of its own on the server.

use std::net::SocketAddr;

use bytes::Bytes;
use leasehold_wire::mount::{Path, mnt};
use leasehold_wire::nfs3::{
    DirectoryArgs, Handle, Name, Reply, SetAttributes, create, lookup, mkdir, remove, rmdir, write,
};

use crate::Error;
use crate::connection::{Connection, MOUNT, NFS};

/// The size of the file that runs read and write, in bytes: small enough to stay in memory.
pub const FILE_BYTES: u64 = 64 << 20;

/// The number of files in the directory for READDIRPLUS and LOOKUP.
pub const FILES: u32 = 2000;

/// The files of a run on the server; [`Setting::clear`] removes them.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub(crate) server: SocketAddr,
    pub(crate) root: Handle,
    /// The parent of all.
    pub(crate) directory: Handle,
    /// Contains [`FILES`] files and nothing else.
    pub(crate) many: Handle,
    /// The directory for CREATE and REMOVE.
    pub(crate) scratch: Handle,
    /// Contains [`FILE_BYTES`] of [`pattern`].
    pub(crate) file: Handle,
    /// The target of WRITE.
    pub(crate) target: Handle,
}

const DIRECTORY: &[u8] = b"leasehold-load";
const PIECE_BYTES: u32 = 512 << 10;

impl Setting {
    /// Creates the files in the export with this path; reuses the files of an earlier run.
    ///
    /// # Errors
    /// The server is unreachable or sends a wrong reply.
    pub fn make(server: SocketAddr, mount: SocketAddr, path: &str) -> Result<Self, Error> {
        let root = root(mount, path)?;
        let mut connection = Connection::open(server)?;
        let directory = made_directory(&mut connection, root, DIRECTORY)?;
        let many = made_directory(&mut connection, directory, b"many")?;
        let scratch = made_directory(&mut connection, directory, b"scratch")?;
        for number in 0..FILES {
            made_file(&mut connection, many, &file_name(number))?;
        }
        let file = made_file(&mut connection, directory, b"file")?;
        let target = made_file(&mut connection, directory, b"target")?;
        for file in [file, target] {
            fill(&mut connection, file)?;
        }
        Ok(Self { server, root, directory, many, scratch, file, target })
    }

    /// Returns the same files as seen through another server.
    #[must_use]
    pub const fn at(self, server: SocketAddr) -> Self {
        Self { server, ..self }
    }

    /// Removes the files.
    ///
    /// # Errors
    /// The server is unreachable or sends a wrong reply.
    pub fn clear(self) -> Result<(), Error> {
        let mut connection = Connection::open(self.server)?;
        for number in 0..FILES {
            gone(&mut connection, remove::NUMBER, self.many, &file_name(number))?;
        }
        for name in [&b"file"[..], b"target"] {
            gone(&mut connection, remove::NUMBER, self.directory, name)?;
        }
        for name in [&b"many"[..], b"scratch"] {
            gone(&mut connection, rmdir::NUMBER, self.directory, name)?;
        }
        gone(&mut connection, rmdir::NUMBER, self.root, DIRECTORY)
    }
}

/// Returns the name of one of [`FILES`] files.
pub(crate) fn file_name(number: u32) -> Vec<u8> {
    format!("file-{number:06}").into_bytes()
}

/// Returns the contents of a file at an offset: every 8 bytes contain their offset.
pub(crate) fn pattern(offset: u64, count: u32) -> Vec<u8> {
    (offset / 8..).flat_map(u64::to_be_bytes).take(count as usize).collect()
}

fn root(server: SocketAddr, path: &str) -> Result<Handle, Error> {
    let mut connection = Connection::open(server)?;
    connection.queue(0, MOUNT, mnt::NUMBER, &Path(path.as_bytes()));
    connection.flush()?;
    let (_, results) = connection.reply(true)?.expect("waits until there is one");
    match crate::connection::decode(&results)? {
        mnt::Reply::Done(done) => Ok(done.directory),
        mnt::Reply::Failed(status) => Err(Error::Wrong(format!("MNT {path}: {status:?}"))),
    }
}

fn made_directory(
    connection: &mut Connection,
    directory: Handle,
    name: &[u8],
) -> Result<Handle, Error> {
    let place = DirectoryArgs { directory, name: Name(name) };
    let attributes = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
    let _: mkdir::Reply =
        connection.call(NFS, mkdir::NUMBER, &mkdir::Args { place, attributes })?;
    looked_up(connection, place)
}

fn made_file(connection: &mut Connection, directory: Handle, name: &[u8]) -> Result<Handle, Error> {
    let place = DirectoryArgs { directory, name: Name(name) };
    let attributes = SetAttributes { mode: Some(0o644), ..SetAttributes::default() };
    let how = create::How::Unchecked(attributes);
    let _: create::Reply = connection.call(NFS, create::NUMBER, &create::Args { place, how })?;
    looked_up(connection, place)
}

pub(crate) fn looked_up(
    connection: &mut Connection,
    place: DirectoryArgs<'_>,
) -> Result<Handle, Error> {
    match connection.call(NFS, lookup::NUMBER, &place)? {
        lookup::Reply::Done(done) => Ok(done.object),
        lookup::Reply::Failed(status, _) => {
            let name = place.name.0.escape_ascii();
            Err(Error::Wrong(format!("LOOKUP {name}: {status:?}")))
        }
    }
}

fn fill(connection: &mut Connection, file: Handle) -> Result<(), Error> {
    for offset in (0..FILE_BYTES).step_by(PIECE_BYTES as usize) {
        let args = write::Args {
            file,
            offset,
            count: PIECE_BYTES,
            stability: write::Stability::Unstable,
            data: Bytes::from(pattern(offset, PIECE_BYTES)),
        };
        let reply: write::Reply = connection.call(NFS, write::NUMBER, &args)?;
        if !matches!(&reply, write::Reply::Done(done) if done.count == PIECE_BYTES) {
            return Err(Error::Wrong(format!("WRITE: {reply:?}")));
        }
    }
    Ok(())
}

fn gone(
    connection: &mut Connection,
    procedure: u32,
    directory: Handle,
    name: &[u8],
) -> Result<(), Error> {
    let place = DirectoryArgs { directory, name: Name(name) };
    match connection.call(NFS, procedure, &place)? {
        Reply::Done(_) => Ok(()),
        Reply::Failed::<remove::Done, _>(status, remove::Done { .. }) => {
            Err(Error::Wrong(format!("{}: {status:?}", name.escape_ascii())))
        }
    }
}
