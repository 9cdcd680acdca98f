//! What can be said to `ls`, `cat`, `stat` and `cp`.

use std::num::{NonZeroU16, NonZeroUsize};

use clap::ValueEnum;

use super::url::{self, Address, Place};

const SERVER: &str = "The server";

/// List a directory of a server, without a mount
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// What to list: `nfs://HOST[:PORT]/EXPORT/PATH`
    #[arg(value_name = "URL", required = true, value_parser = url::address())]
    pub(crate) addresses: Vec<Address>,

    /// Show type, mode, owner, size and time
    #[arg(short, long)]
    pub(crate) long: bool,

    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) how: How,
}

/// Say what a server knows of a file, without a mount
#[derive(Debug, clap::Args)]
pub(crate) struct Stat {
    /// The file or directory: `nfs://HOST[:PORT]/EXPORT/PATH`
    #[arg(value_name = "URL", required = true, value_parser = url::address())]
    pub(crate) addresses: Vec<Address>,

    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) how: How,
}

/// Write files of a server to stdout, without a mount
#[derive(Debug, clap::Args)]
pub(crate) struct Cat {
    /// The files: `nfs://HOST[:PORT]/EXPORT/PATH`
    #[arg(value_name = "URL", required = true, value_parser = url::address())]
    pub(crate) addresses: Vec<Address>,

    #[command(flatten)]
    pub(crate) how: How,
}

/// Copy files to, from and between servers, without a mount
///
/// What is written to a server is on its stable storage when this ends, and is written again where
/// the server was restarted in between. Holes of files are holes of their copies. Of a pipe or a
/// device that is named, such as /dev/stdin, its content is copied; those below a directory are left
/// out, and the exit code says so. No directory of more than 1,048,576 names is copied.
#[derive(Debug, clap::Args)]
pub(crate) struct Copy {
    /// What to copy: paths here, and `nfs://HOST[:PORT]/EXPORT/PATH`
    #[arg(value_name = "SOURCE", required = true, value_parser = url::place())]
    pub(crate) sources: Vec<Place>,

    /// Where to: a directory that is there, or the name of the copy
    #[arg(value_name = "DESTINATION", value_parser = url::place())]
    pub(crate) destination: Place,

    /// Copy directories with all that is in them
    #[arg(short, long)]
    pub(crate) recursive: bool,

    /// Keep modes and times, but not the bits that have a program run as its owner or group
    #[arg(short, long)]
    pub(crate) preserve: bool,

    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Say what was copied as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) how: How,
}

/// How servers are found and called.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct How {
    /// The port of MOUNT [default: that of NFS, or what the server's portmapper says]
    #[arg(long, value_name = "PORT", help_heading = SERVER)]
    pub(crate) mount_port: Option<NonZeroU16>,

    /// The version of NFS: 3 or 2 [default: the newest that the server speaks]
    #[arg(long, value_name = "VERSION", hide_possible_values = true, help_heading = SERVER)]
    pub(crate) nfs_version: Option<NfsVersion>,

    /// Use UDP instead of TCP
    #[arg(long, help_heading = SERVER)]
    pub(crate) udp: bool,

    /// Connections to a server
    #[arg(long, value_name = "N", default_value = "1", help_heading = SERVER)]
    pub(crate) connections: NonZeroUsize,

    /// Requests on their way at once, on each connection
    #[arg(long, value_name = "N", default_value = "16", help_heading = SERVER)]
    pub(crate) in_flight: NonZeroUsize,

    /// Seconds of silence after which a server is given up; 0 waits for ever
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
