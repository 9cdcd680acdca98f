//! The commands on files on a server without a mount: `ls`, `cat`, `stat` and `cp` of `nfs://`
//! addresses.

mod copy;
mod list;
mod options;
mod progress;

use std::io;

use leasehold_files::{self as files, Cause, Error, Follow, Place, Servers};
use leasehold_shell::client::block_on;
use leasehold_wire::nfs3::FileType;

use crate::failure::{Failure, Kind};

pub(crate) use copy::cp;
pub(crate) use list::{ls, stat};
pub(crate) use options::{Cat, Copy, List, Stat};

/// Writes files to stdout.
pub(crate) fn cat(options: &Cat) -> Result<(), Failure> {
    let servers = Servers::new(options.how.options())?;
    for address in &options.addresses {
        block_on(async {
            let file = servers.find(address, Follow::Last).await?;
            let failed = |cause| files::Failure::At(Box::new(Place::There(address.clone())), cause);
            if file.file_type() == FileType::Directory {
                return Err(Failure::from(failed(Cause::Directory)));
            }
            match files::write_out(file, servers.in_flight(), &mut io::stdout().lock()).await {
                // The reader of stdout has closed the pipe because it needs no more data, so this
                // is not a failure.
                Err(Error::Here(it)) if it.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                done => Ok(done.map_err(|error| failed(error.into()))?),
            }
        })?;
    }
    Ok(())
}

impl From<files::Failure> for Failure {
    fn from(failure: files::Failure) -> Self {
        let kind = if failure.is_usage() { Kind::Options } else { Kind::Running };
        kind.because(failure.to_string())
    }
}
