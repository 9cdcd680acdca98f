//! The command line's options.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::target::Target;

const WHICH: &str = "Selection of cases";
const WHO: &str = "Caller and connection";
const MORE: &str = "Further tests";
const REPORT: &str = "Report";

const EXIT_CODES: &str = "\
Exit codes:
  0    no case failed, except known failures
  1    a case failed, or a known failure passed
  2    wrong options
  3    the server cannot be tested, or the objects of the run cannot be removed
  130  interrupted; the objects of the run are removed";

/// Test an NFS server over the wire, without root and without mounting it
///
/// Calls NFS versions 3 and 2, MOUNT and portmap at the server, also in ways that no client does,
/// and compares the replies with the text of the standards. The run works in one directory that it
/// creates in the export and removes at the end.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct Options {
    /// The server and the directory: `nfs://HOST[:PORT]/EXPORT`
    ///
    /// Without a port the tester asks the server's portmap. With one, it tries MOUNT on the same
    /// port first.
    #[arg(value_name = "nfs://HOST[:PORT]/EXPORT", required_unless_present = "list")]
    pub target: Option<Target>,

    /// List the cases and the clauses that they test, and do nothing
    #[arg(long, help_heading = WHICH)]
    pub list: bool,

    /// Run only the cases of these groups
    #[arg(long, value_name = "GROUP", value_delimiter = ',', help_heading = WHICH)]
    pub group: Vec<String>,

    /// Run the cases whose name contains this text, or matches it if it has a `*`
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

    /// Treat advice as errors: fail if a standard only recommends a behaviour
    #[arg(long, help_heading = WHICH)]
    pub strict: bool,

    /// File with the cases that are known to fail, one a line
    ///
    /// A line is GROUP/CASE and a reason behind it. With ~ in front the case sometimes fails, with
    /// ! it ends the server and does not run.
    #[arg(long, value_name = "FILE", help_heading = WHICH)]
    pub known: Option<PathBuf>,

    /// User id of the calls [default: that of the current user]
    #[arg(long, help_heading = WHO)]
    pub uid: Option<u32>,

    /// Group id of the calls [default: that of the current user]
    #[arg(long, help_heading = WHO)]
    pub gid: Option<u32>,

    /// Call from ports below 1024, which requires privilege
    #[arg(long, help_heading = WHO)]
    pub reserved_port: bool,

    /// Port of MOUNT, if it is neither the port of NFS nor registered with portmap
    #[arg(long, value_name = "PORT", help_heading = WHO)]
    pub mount_port: Option<u16>,

    /// Port of portmap; also tests portmap if the address names a port
    #[arg(long, value_name = "PORT", help_heading = WHO)]
    pub portmap_port: Option<u16>,

    /// Random seed, to repeat a run
    #[arg(long, default_value_t = 1, help_heading = WHO)]
    pub seed: u64,

    /// Number of cases that run at the same time
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = WHO)]
    pub jobs: u16,

    /// Timeout of a reply, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, help_heading = WHO)]
    pub patience: u16,

    /// Command that restarts the server, for cases about restarts
    ///
    /// The tester passes it to `sh -c`. It must return when the server is starting.
    #[arg(long, value_name = "COMMAND", help_heading = MORE)]
    pub restart_command: Option<String>,

    /// The exported directory itself, if it is on this machine
    #[arg(long, value_name = "DIR", help_heading = MORE)]
    pub back_dir: Option<PathBuf>,

    /// Another server of the same files: further clients of a case call that server and this one in
    /// turn
    ///
    /// It accepts the same handles, like another metaserver of one file system.
    #[arg(long, value_name = "HOST:PORT", help_heading = MORE)]
    pub also: Option<String>,

    /// Print one JSON object a line for each case
    #[arg(long, help_heading = REPORT)]
    pub json: bool,

    /// Also write the results in the format of JUnit
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    pub junit: Option<PathBuf>,

    /// Print how long the calls of each procedure took
    #[arg(long, help_heading = REPORT)]
    pub timings: bool,

    /// Write the messages of each failed case to files in this directory
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
