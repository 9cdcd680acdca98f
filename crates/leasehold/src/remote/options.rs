//! The options of `ls`, `cat`, `stat` and `cp`.

use std::num::{NonZeroU16, NonZeroUsize};
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::{OsStringValueParser, TypedValueParser};
use leasehold_files::{Options, Place};
use leasehold_session::nfs::Version;
use leasehold_shell::client::Address;

use crate::find;

const SERVER: &str = "The server";

/// List a directory of a server, without a mount
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// The directories: `nfs://HOST[:PORT]/EXPORT/PATH`
    #[arg(value_name = "URL", required = true, value_parser = address())]
    pub(crate) addresses: Vec<Address>,

    /// Show type, mode, owner, size and time
    #[arg(short, long)]
    pub(crate) long: bool,

    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) how: How,
}

/// Show the attributes of files on a server, without a mount
#[derive(Debug, clap::Args)]
pub(crate) struct Stat {
    /// The files or directories: `nfs://HOST[:PORT]/EXPORT/PATH`
    #[arg(value_name = "URL", required = true, value_parser = address())]
    pub(crate) addresses: Vec<Address>,

    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) how: How,
}

/// Write files of a server to stdout, without a mount
#[derive(Debug, clap::Args)]
pub(crate) struct Cat {
    /// The files: `nfs://HOST[:PORT]/EXPORT/PATH`
    #[arg(value_name = "URL", required = true, value_parser = address())]
    pub(crate) addresses: Vec<Address>,

    #[command(flatten)]
    pub(crate) how: How,
}

/// Copy files to, from and between servers, without a mount
///
/// When the command ends, all data written to a server is on the server's stable storage; if the
/// server restarts meanwhile, the command writes the affected data again. Holes of files stay holes
/// in the copies. The command reads a pipe or a device that is named as a source, such as
/// /dev/stdin, to its end. It skips pipes and devices below a directory, and then exits with an
/// error code. It does not copy a directory with more than 1,048,576 names.
#[derive(Debug, clap::Args)]
pub(crate) struct Copy {
    /// The sources: local paths, and `nfs://HOST[:PORT]/EXPORT/PATH`
    #[arg(value_name = "SOURCE", required = true, value_parser = place())]
    pub(crate) sources: Vec<Place>,

    /// The destination: an existing directory, or the name of the copy
    #[arg(value_name = "DESTINATION", value_parser = place())]
    pub(crate) destination: Place,

    /// Copy directories with all their contents
    #[arg(short, long)]
    pub(crate) recursive: bool,

    /// Copy modes and times, but not the set-user-id and set-group-id bits
    #[arg(short, long)]
    pub(crate) preserve: bool,

    /// Do not show the progress
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Print a summary as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) how: How,
}

/// The options for finding and calling servers.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct How {
    /// The port of the MOUNT program [default: the port of NFS, or the port from the server's
    /// portmapper]
    #[arg(long, value_name = "PORT", help_heading = SERVER)]
    pub(crate) mount_port: Option<NonZeroU16>,

    /// The version of NFS: 3 or 2 [default: the newest version that the server supports]
    #[arg(long, value_name = "VERSION", hide_possible_values = true, help_heading = SERVER)]
    pub(crate) nfs_version: Option<NfsVersion>,

    /// Use UDP instead of TCP
    #[arg(long, help_heading = SERVER)]
    pub(crate) udp: bool,

    /// The number of connections to a server
    #[arg(long, value_name = "N", default_value = "1", help_heading = SERVER)]
    pub(crate) connections: NonZeroUsize,

    /// The number of concurrent requests on each connection
    #[arg(long, value_name = "N", default_value = "16", help_heading = SERVER)]
    pub(crate) in_flight: NonZeroUsize,

    /// Seconds without a reply after which the command fails; 0 waits without limit
    #[arg(long, value_name = "SECONDS", default_value_t = 60, help_heading = SERVER)]
    pub(crate) timeout: u32,
}

/// The versions of NFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NfsVersion {
    /// Version 2.
    #[value(name = "2")]
    Two,
    /// Version 3.
    #[value(name = "3")]
    Three,
}

impl How {
    /// Returns the options in the form of the client.
    pub(super) fn options(&self) -> Options {
        let timeout = Duration::from_secs(self.timeout.into());
        Options {
            mount_port: self.mount_port.map(Into::into),
            version: self.nfs_version.map(|version| match version {
                NfsVersion::Two => Version::V2,
                NfsVersion::Three => Version::V3,
            }),
            udp: self.udp,
            connections: self.connections,
            in_flight: self.in_flight,
            timeout: (!timeout.is_zero()).then_some(timeout),
            resolve: find::resolve,
        }
    }
}

/// Parses the address of a file on a server.
fn address() -> impl TypedValueParser<Value = Address> {
    OsStringValueParser::new().try_map(|text| Address::of(&text))
}

/// Parses the location of a file; file names need not be UTF-8.
fn place() -> impl TypedValueParser<Value = Place> {
    OsStringValueParser::new().try_map(|text| Place::of(&text))
}
