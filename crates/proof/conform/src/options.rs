//! What can be said on the command line.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::target::Target;

const WHICH: &str = "Which cases";
const WHO: &str = "As whom, and how";
const MORE: &str = "What more can be tested";
const REPORT: &str = "What is reported";

const EXIT_CODES: &str = "\
Exit codes:
  0    no case failed, but those that are known to
  1    a case failed, or one that is known to fail passed
  2    wrong options
  3    the server cannot be tested, or what the run had made cannot be removed
  130  interrupted; what the run had made is removed";

/// Test an NFS server over the wire, without root and without mounting it
///
/// Speaks NFS versions 3 and 2, MOUNT and portmap to the server, also in ways that no client
/// does, and compares what comes back with the text of the standards. Everything happens in one
/// directory that is made in the export and removed in the end.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct Options {
    /// The server and the directory: `nfs://HOST[:PORT]/EXPORT`
    ///
    /// Without a port the server's portmap is asked. With one, MOUNT is asked for on the same
    /// port first.
    #[arg(value_name = "nfs://HOST[:PORT]/EXPORT", required_unless_present = "list")]
    pub target: Option<Target>,

    /// List the cases and the clauses that they test, and do nothing
    #[arg(long, help_heading = WHICH)]
    pub list: bool,

    /// Cases of these groups only
    #[arg(long, value_name = "GROUP", value_delimiter = ',', help_heading = WHICH)]
    pub group: Vec<String>,

    /// Cases whose name holds this text, or matches it where it has a `*`
    #[arg(long, value_name = "PATTERN", value_delimiter = ',', help_heading = WHICH)]
    pub case: Vec<String>,

    /// Versions of NFS to test
    #[arg(
        long,
        value_enum,
        value_name = "VERSION",
        value_delimiter = ',',
        default_value = "3,2",
        help_heading = WHICH
    )]
    pub versions: Vec<Version>,

    /// Take advice for law: fail where a standard only says what should be
    #[arg(long, help_heading = WHICH)]
    pub strict: bool,

    /// File with the cases that are known to fail, one a line
    ///
    /// A line is GROUP/CASE and a reason behind it. With ~ in front the case fails sometimes, with
    /// ! it ends the server and is not run.
    #[arg(long, value_name = "FILE", help_heading = WHICH)]
    pub known: Option<PathBuf>,

    /// User that calls are made as [default: the one who runs this]
    #[arg(long, help_heading = WHO)]
    pub uid: Option<u32>,

    /// Group that calls are made as [default: that of who runs this]
    #[arg(long, help_heading = WHO)]
    pub gid: Option<u32>,

    /// Call from ports below 1024, which takes privilege
    #[arg(long, help_heading = WHO)]
    pub reserved_port: bool,

    /// Port of MOUNT, where it is neither that of NFS nor known to portmap
    #[arg(long, value_name = "PORT", help_heading = WHO)]
    pub mount_port: Option<u16>,

    /// Port of portmap; also has portmap tested where the address names a port
    #[arg(long, value_name = "PORT", help_heading = WHO)]
    pub portmap_port: Option<u16>,

    /// Number that fixes all that is random, so that a run can be repeated
    #[arg(long, default_value_t = 1, help_heading = WHO)]
    pub seed: u64,

    /// Cases that run at the same time
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = WHO)]
    pub jobs: u16,

    /// Seconds that a reply is waited for
    #[arg(long, value_name = "SECONDS", default_value_t = 10, help_heading = WHO)]
    pub patience: u16,

    /// Command that restarts the server, for cases about what survives that
    ///
    /// It is given to `sh -c`, and must return when the server is on its way up again.
    #[arg(long, value_name = "COMMAND", help_heading = MORE)]
    pub restart_command: Option<String>,

    /// The exported directory itself, where it is on this machine
    #[arg(long, value_name = "DIR", help_heading = MORE)]
    pub back_dir: Option<PathBuf>,

    /// Another server of the same files: further clients of a case go there and here by turns
    ///
    /// It takes the same handles, as another metaserver of one file system does.
    #[arg(long, value_name = "HOST:PORT", help_heading = MORE)]
    pub also: Option<String>,

    /// Print one JSON object a line for each case
    #[arg(long, help_heading = REPORT)]
    pub json: bool,

    /// Write the results as JUnit does, too
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    pub junit: Option<PathBuf>,

    /// Print how long the calls of each procedure took
    #[arg(long, help_heading = REPORT)]
    pub timings: bool,

    /// Write what a failed case and the server said to each other to files in this directory
    #[arg(long, value_name = "DIR", help_heading = REPORT)]
    pub capture: Option<PathBuf>,
}

/// A version of NFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Version {
    /// Version 2 (RFC 1094).
    #[value(name = "2")]
    Two,
    /// Version 3 (RFC 1813).
    #[value(name = "3")]
    Three,
}
