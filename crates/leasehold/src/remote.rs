//! Access to files on a server without a mount: `ls`, `cat`, `stat` and `cp` of `nfs://` addresses.

mod copy;
mod file;
mod holes;
mod list;
mod options;
mod progress;
mod server;
mod url;
mod volatile;

use std::io::{self, Write as _};

use futures_util::{StreamExt as _, stream};
use leasehold_shell::client::block_on;
use leasehold_wire::nfs3::FileType;

use crate::failure::{Failure, Kind};
use file::{Read, Reading, Source};
use server::{Follow, Servers};

pub(crate) use options::{Cat, Copy, List, Stat};
pub(crate) use url::Address;

/// Lists directories.
pub(crate) fn ls(options: &List) -> Result<(), Failure> {
    list::ls(options)
}

/// Prints the attributes of objects.
pub(crate) fn stat(options: &Stat) -> Result<(), Failure> {
    list::stat(options)
}

/// Copies files between this machine and servers.
pub(crate) fn cp(options: &Copy) -> Result<(), Failure> {
    copy::cp(options)
}

/// Writes files to stdout.
pub(crate) fn cat(options: &Cat) -> Result<(), Failure> {
    let servers = Servers::new(&options.how)?;
    for address in &options.addresses {
        block_on(async {
            let place = servers.find(address, Follow::Last).await?;
            if place.file_type() == FileType::Directory {
                return Err(Kind::Running.because(format!("{address}: is a directory")));
            }
            let in_flight = servers.in_flight();
            let reading = Reading::new(Source::Remote(place), in_flight);
            match write_out(&reading).await {
                // The reader of stdout has closed the pipe because it needs no more data, so this
                // is not a failure.
                Err(file::Error::Here(it)) if it.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                done => done.map_err(|it| Kind::Running.because(format!("{address}: {it}"))),
            }
        })?;
    }
    Ok(())
}

async fn write_out(reading: &Reading) -> Result<(), file::Error> {
    let mut out = io::stdout().lock();
    let pieces = stream::iter(reading.pieces()).map(|piece| reading.read(piece));
    let mut pieces = pieces.buffered(reading.in_flight());
    let (mut end, mut is_at_end) = (0, false);
    while let Some(piece) = pieces.next().await {
        let Read { at, data, is_last } = piece?;
        if at != end {
            // The file was truncated while the command read it, and this piece lies beyond the new
            // end: stop.
            break;
        }
        out.write_all(&data)?;
        end += data.len() as u64;
        is_at_end = is_last;
    }
    // Continue beyond the size that the server reported: the file may have grown meanwhile, and
    // some files, such as files in /proc, report no size.
    while !is_at_end {
        let Read { data, is_last, .. } = reading.read(reading.piece_at(end)).await?;
        is_at_end = is_last || data.is_empty();
        out.write_all(&data)?;
        end += data.len() as u64;
    }
    Ok(out.flush()?)
}
