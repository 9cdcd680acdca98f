//! What can be said on the command line: one definition gives parsing, help and errors.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use serde::Serialize;
use tracing_subscriber::filter::LevelFilter;

use crate::remote;

/// Serves directories over NFS: no root, no configuration file, one port.
#[derive(Debug, Parser)]
#[command(
    name = "leasehold",
    version,
    max_term_width = 100,
    after_help = EXIT_CODES,
    disable_help_subcommand = true
)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  ended as asked          3  the directory cannot be served
  1  failed while running    4  an address cannot be had
  2  wrong options           5  the state cannot be kept";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a directory to NFS clients, versions 3 and 2
    Serve(Serve),
    Mount(crate::mount::options::Mount),
    Umount(crate::mount::options::Umount),
    /// Say what a running server serves, and what it did
    Status(Status),
    /// Show what a running server does, live
    Top(Top),
    Ls(remote::List),
    Cat(remote::Cat),
    Stat(remote::Stat),
    Cp(remote::Copy),
    Conform(leasehold_conform::Options),
    /// Model a system: solve, simulate, plan, draw
    #[command(subcommand)]
    Lab(leasehold_lab_cli::Lab),
}

const WHAT: &str = "What is served";
const WHERE: &str = "To whom";
const HOW: &str = "How it runs";

/// Serve a directory to NFS clients, versions 3 and 2
///
/// Prints the commands that mount it as soon as it can be mounted, and serves until it gets
/// SIGINT (Ctrl-C) or SIGTERM.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Serve {
    /// The directory to serve
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// The name to mount it by [default: the last part of DIR]
    ///
    /// Clients mount /NAME; with a single export, / does as well.
    #[arg(long, help_heading = WHAT)]
    pub(crate) name: Option<String>,

    /// Refuse every change
    #[arg(long, help_heading = WHAT)]
    pub(crate) read_only: bool,

    /// When a change counts as safe: on disk or in memory
    ///
    /// With `disk`, what is answered as stable is on stable storage. With `memory` nothing is
    /// synced: faster, and a crash of the machine loses what was written last.
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "WHERE",
        help_heading = WHAT
    )]
    pub(crate) durability: Durability,

    /// Answer changes when a log on a small fast device has them: a file or a block device
    ///
    /// Stable writes and changes of names and attributes then need not wait for the disk that DIR
    /// is on, which gets them within seconds. The log belongs to DIR: after a crash the server must
    /// be started with it again. A file is made where there is none. Example:
    /// `--stable-log /dev/pmem0`
    #[arg(long, value_name = "PATH", help_heading = WHAT)]
    pub(crate) stable_log: Option<PathBuf>,

    /// The size of a new log, in MiB: 8 at least
    ///
    /// When half of it is full, that half is put on the disk.
    #[arg(
        long,
        value_name = "MIB",
        default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(8..),
        requires = "stable_log",
        hide_short_help = true,
        help_heading = WHAT
    )]
    pub(crate) stable_log_size: u32,

    /// Spread the data of files over these directories, and keep only names in DIR
    ///
    /// To be given once for each, best on disks of their own; there is one copy of everything, so
    /// a directory that is lost takes a part of every large file along. DIR must be empty at first,
    /// and all directories must be named at each start.
    #[arg(long, value_name = "DIR", conflicts_with = "stable_log", help_heading = WHAT)]
    pub(crate) stripe: Vec<PathBuf>,

    /// The size of a stripe of new files, in KiB
    #[arg(
        long,
        value_name = "KIB",
        default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(4..=1 << 20),
        requires = "stripe",
        hide_short_help = true,
        help_heading = WHAT
    )]
    pub(crate) stripe_unit: u32,

    /// The largest file that is kept whole in DIR, in KiB
    #[arg(
        long,
        value_name = "KIB",
        default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(0..=1 << 10),
        requires = "stripe",
        hide_short_help = true,
        help_heading = WHAT
    )]
    pub(crate) stripe_inline: u32,

    /// Address to serve on, TCP and UDP; may be given several times
    ///
    /// Port 0 has the system pick one, the same for TCP and UDP. To serve other machines, give an
    /// address of this one, or 0.0.0.0:2049 for all. Example: `--listen [::1]:2049`
    #[arg(
        long,
        value_name = "ADDR:PORT",
        default_value = "127.0.0.1:2049",
        help_heading = WHERE
    )]
    pub(crate) listen: Vec<SocketAddr>,

    /// Tell clients where this server is, on port 111 or as named: a portmapper of its own
    ///
    /// Clients then mount without naming ports. For machines where no rpcbind runs; it tells of
    /// this server only. Example: `--portmap=0.0.0.0:111`
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        value_name = "ADDR:PORT",
        help_heading = WHERE
    )]
    pub(crate) portmap: Option<Option<SocketAddr>>,

    /// Have the rpcbind of this machine tell clients where this server is
    ///
    /// Clients then mount without naming ports. It is taken back when the server ends.
    #[arg(long, conflicts_with = "portmap", help_heading = WHERE)]
    pub(crate) register: bool,

    /// Believe every client's word about its user
    ///
    /// Without it, a client on another machine is believed when it asks from a port below 1024,
    /// which takes privilege there, and is nobody otherwise. Over UDP
    /// a client on this machine is believed only from such a port, also with this option.
    #[arg(long, help_heading = WHERE)]
    pub(crate) insecure: bool,

    /// Directory for what must survive a restart
    ///
    /// Unless named: /var/lib/leasehold for root, else $XDG_STATE_HOME/leasehold or
    /// ~/.local/state/leasehold. It holds the key that file handles are made with: with another key
    /// all mounts are stale, so it must lie outside DIR, out of the reach of clients.
    #[arg(long, value_name = "DIR", help_heading = HOW)]
    pub(crate) state: Option<PathBuf>,

    /// Show the live view to browsers and metrics to Prometheus at this address
    ///
    /// `/` is the page, `/metrics` is for Prometheus (METRICS.md lists what it gives), `/live.json`
    /// for programs.
    /// Whoever reaches the address can read them. Example: `--http 127.0.0.1:9049`
    #[arg(long, value_name = "ADDR:PORT", help_heading = HOW)]
    pub(crate) http: Option<SocketAddr>,

    /// Threads that serve [default: one per processor]
    #[arg(long, value_name = "N", help_heading = HOW)]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Say where it serves as one line of JSON
    #[arg(long, help_heading = HOW)]
    pub(crate) json: bool,

    /// What to log to stderr: off, error, warn, info, debug, trace
    #[arg(
        long,
        value_name = "LEVEL",
        env = "LEASEHOLD_LOG",
        default_value = "info",
        help_heading = HOW
    )]
    pub(crate) log: LevelFilter,

    /// How lines of the log look: plain or json
    #[arg(
        long,
        value_enum,
        default_value_t,
        hide_possible_values = true,
        hide_short_help = true,
        value_name = "FORMAT",
        help_heading = HOW
    )]
    pub(crate) log_format: LogFormat,
}

/// Say what a running server serves, and what it did
#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// Ask the mount on this directory instead of a server
    #[arg(long, value_name = "DIR", conflicts_with = "state")]
    pub(crate) mount: Option<PathBuf>,

    /// The state directory of the server [default: as of `serve`]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,

    /// Say it as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show what a running server does, live
///
/// Who asks what, how long it takes, which limits are met, and who keeps whom waiting. Keys: `c`
/// clients, `e` exports, `o` operations, `s` sorts by the next column, `/` shows only lines that
/// hold what is typed, `p` pauses, `q` ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Top {
    /// The state directory of the server [default: as of `serve`]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,

    /// How often to look anew, in seconds: 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub(crate) interval: Interval,

    /// Say what happened in each interval as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// End after so many lines of JSON
    #[arg(long, value_name = "N", requires = "json")]
    pub(crate) count: Option<u64>,
}

/// How often to look anew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval(pub(crate) Duration);

fn interval(text: &str) -> Result<Interval, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    let seconds = seconds.ok_or("give a number of seconds from 0.1 to 3600")?;
    Ok(Interval(Duration::from_secs_f64(seconds)))
}

/// How lines of the log look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Text for people.
    #[default]
    Plain,
    /// An object of JSON.
    Json,
}

/// When a change counts as safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Durability {
    /// When it is on stable storage.
    #[default]
    Disk,
    /// When it is in the server's memory.
    Memory,
}
