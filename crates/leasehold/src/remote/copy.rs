//! `leasehold cp`.

use leasehold_files::{self as files, Cause, Copied, Servers};
use leasehold_shell::client::block_on;
use serde::Serialize;

use super::options::Copy;
use super::progress::Progress;
use crate::failure::{Failure, Kind};
use crate::output::say;

/// The summary of a copy in the JSON output.
#[derive(Serialize)]
struct Summary {
    files: u64,
    directories: u64,
    symlinks: u64,
    bytes: u64,
    bytes_written_again: u64,
    skipped: u64,
    failed: u64,
    seconds: f64,
}

/// Copies files between this machine and servers.
pub(crate) fn cp(options: &Copy) -> Result<(), Failure> {
    let servers = Servers::new(options.how.options())?;
    let progress = Progress::new(options.quiet || options.json);
    let wanted = files::Copy {
        sources: options.sources.clone(),
        destination: options.destination.clone(),
        recursive: options.recursive,
        preserve: options.preserve,
    };
    let copied = block_on(files::copy(&servers, &wanted, &progress)).map_err(failed)?;
    let seconds = progress.end();
    let Copied { files, directories, symlinks, bytes, bytes_written_again, skipped, failed } =
        copied;
    if options.json {
        let summary = Summary {
            files,
            directories,
            symlinks,
            bytes,
            bytes_written_again,
            skipped,
            failed,
            seconds,
        };
        let line = serde_json::to_string(&summary).expect("plain fields can be written");
        say(format!("{line}\n"))?;
    }
    let missing = failed + skipped;
    if missing > 0 {
        return Err(Kind::Running.because(format!("{missing} objects were not copied")));
    }
    Ok(())
}

fn failed(failure: files::Failure) -> Failure {
    match failure {
        failure @ files::Failure::At(_, Cause::Directory) => {
            Kind::Running.because(format!("{failure}: use --recursive"))
        }
        failure
        @ (files::Failure::At(..) | files::Failure::NoServer | files::Failure::Start(_)) => {
            failure.into()
        }
    }
}
