//! A file that is written from beginning to end, as the write-behind of a client does.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use leasehold_base::limits::HANDLE_V2_BYTES;
use leasehold_wire::{nfs2, nfs3};

use crate::Error;
use crate::connection::{Connection, NFS, NFS_2, decode};
use crate::setting::pattern;

/// The parameters of the write.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    /// The length of the file in bytes.
    pub bytes: u32,
    /// The size of one WRITE.
    pub piece_bytes: u32,
    /// The number of concurrent WRITEs.
    pub in_flight: u32,
    /// True if each WRITE is stable, as in version 2; otherwise one COMMIT follows the last WRITE,
    /// as in version 3.
    pub stable: bool,
}

/// Creates a file in a directory and writes it; returns the elapsed time.
///
/// # Errors
/// The connection fails or the server sends a wrong reply.
pub fn sequence(
    server: SocketAddr,
    directory: [u8; HANDLE_V2_BYTES],
    name: &str,
    how: Sequence,
) -> Result<Duration, Error> {
    let mut connection = Connection::open(server)?;
    let file = made(&mut connection, directory, name)?;
    let (start, mut sent, mut in_flight, mut xid) = (Instant::now(), 0, 0, 0);
    while sent < how.bytes || in_flight > 0 {
        while sent < how.bytes && in_flight < how.in_flight {
            let count = how.piece_bytes.min(how.bytes - sent);
            queue(&mut connection, xid, file, (sent, count), how.stable);
            (sent, in_flight, xid) = (sent + count, in_flight + 1, xid + 1);
        }
        connection.flush()?;
        let mut wait = true;
        while let Some((_, results)) = connection.reply(wait)? {
            // Both versions begin with the status.
            if results.first_chunk() != Some(&[0; 4]) {
                return Err(Error::Wrong(format!("WRITE: {results:?}")));
            }
            (wait, in_flight) = (false, in_flight - 1);
        }
    }
    if !how.stable {
        let args = nfs3::commit::Args { file: nfs3::Handle::from(file), offset: 0, count: 0 };
        match connection.call(NFS, nfs3::commit::NUMBER, &args)? {
            nfs3::commit::Reply::Done(_) => {}
            nfs3::commit::Reply::Failed(status, _) => {
                return Err(Error::Wrong(format!("COMMIT: {status:?}")));
            }
        }
    }
    Ok(start.elapsed())
}

fn made(
    connection: &mut Connection,
    directory: [u8; HANDLE_V2_BYTES],
    name: &str,
) -> Result<[u8; HANDLE_V2_BYTES], Error> {
    let place = nfs2::DirectoryArgs {
        directory: nfs2::Handle(directory),
        name: nfs2::Name(name.as_bytes()),
    };
    let attributes = nfs2::SetAttributes::default();
    let args = nfs2::create::Args { place, attributes };
    connection.queue(0, NFS_2, nfs2::create::NUMBER, &args);
    connection.flush()?;
    let (_, results) = connection.reply(true)?.expect("waits until there is one");
    match decode(&results)? {
        nfs2::create::Reply::Done(done) => Ok(done.object.0),
        nfs2::create::Reply::Failed(status) => {
            Err(Error::Wrong(format!("CREATE {name}: {status:?}")))
        }
    }
}

fn queue(
    connection: &mut Connection,
    xid: u32,
    file: [u8; HANDLE_V2_BYTES],
    (offset, count): (u32, u32),
    stable: bool,
) {
    let data = pattern(offset.into(), count).into();
    if stable {
        let file = nfs2::Handle(file);
        let args =
            nfs2::write::Args { file, begin_offset: offset, offset, total_count: count, data };
        connection.queue(xid, NFS_2, nfs2::write::NUMBER, &args);
    } else {
        let stability = nfs3::write::Stability::Unstable;
        let file = nfs3::Handle::from(file);
        let args = nfs3::write::Args { file, offset: offset.into(), count, stability, data };
        connection.queue(xid, NFS, nfs3::write::NUMBER, &args);
    }
}
