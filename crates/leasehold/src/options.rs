//! What can be said on the command line: one definition gives parsing, help and errors.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use leasehold_shell::binding::Database;
use serde::{Deserialize, Serialize};

use crate::config::options::Server;
pub(crate) use crate::config::options::{Durability, LogFormat};

use crate::binding;
use crate::cluster::options as cluster;
use crate::remote;
use crate::running::Which;
use crate::stripes;

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

pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  ended as asked        2  wrong options                   4  an address cannot be had
  1  failed while running  3  the directory cannot be served  5  the state cannot be kept";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a directory to NFS clients, versions 3 and 2
    Serve(Serve),
    Meta(cluster::Meta),
    Iod(cluster::Iod),
    #[command(subcommand)]
    Cluster(cluster::Cluster),
    Layout(cluster::Layout),
    Mount(crate::mount::options::Mount),
    Umount(crate::mount::options::Umount),
    #[command(subcommand)]
    Rescue(crate::rescue::Rescue),
    /// Say what a running server serves, and what it did
    Status(Status),
    /// Show what a running server does, live
    Top(Top),
    Ls(remote::List),
    Cat(remote::Cat),
    Stat(remote::Stat),
    Cp(remote::Copy),
    /// Say what a configuration means, without starting anything
    Check(Check),
    /// Explain what a client may do, by the code that serves
    Why(Why),
    /// Have a running server read its configuration file again
    Reload(Reload),
    Restart(Restart),
    /// Show which clients hold leases, and who waits for whom
    Leases(Leases),
    /// Wait no more for a client with leases that will not return
    Forget(Forget),
    /// Look for what keeps a server or a mount on this machine from working well
    Doctor(Doctor),
    /// Write a configuration file
    #[command(subcommand)]
    Config(Config),
    Conform(leasehold_conform::Options),
    Find(Find),
    Names(Names),
    Completions(Completions),
    Documents(Documents),
    /// Model a system: solve, simulate, plan, draw
    #[command(subcommand)]
    Lab(leasehold_lab_cli::Lab),
}

pub(crate) const WHAT: &str = "What is served";
pub(crate) const WHERE: &str = "To whom";
pub(crate) const HOW: &str = "How it runs";

/// Serve a directory to NFS clients, versions 3 and 2
///
/// Prints the commands that mount it as soon as it can be mounted, and serves until it gets
/// SIGINT (Ctrl-C) or SIGTERM. With a file, SIGHUP has it read again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Serve {
    /// The directory to serve
    #[arg(value_name = "DIR", required_unless_present = "config")]
    pub(crate) directory: Option<PathBuf>,

    /// A file with exports, rules for clients, and all else; instead of DIR
    ///
    /// `leasehold config init` writes one with all options in comments. What is said on the command
    /// line too counts before the file.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["directory", "name", "read_only", "cross", "stripe", "insecure"],
        help_heading = WHAT
    )]
    pub(crate) config: Option<PathBuf>,

    /// The name to mount it by [default: the last part of DIR]
    ///
    /// Clients mount /NAME; with a single export, / does as well.
    #[arg(long, help_heading = WHAT)]
    pub(crate) name: Option<String>,

    /// Refuse every change
    #[arg(long, help_heading = WHAT)]
    pub(crate) read_only: bool,

    /// Let clients enter the file systems that are mounted below, and subvolumes of btrfs
    ///
    /// Each is a file system of its own to clients, and its handles last over a restart and over the
    /// next mount. Otherwise clients see an empty directory there. A file system in use
    /// within the last seconds needs `umount --lazy`.
    #[arg(
        long,
        conflicts_with_all = ["stripe", "stable_log"],
        hide_short_help = true,
        help_heading = WHAT
    )]
    pub(crate) cross: bool,

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
        default_value_t = stripes::UNIT_KIB,
        value_parser = clap::value_parser!(u32).range(stripes::UNITS_KIB),
        requires = "stripe",
        hide_short_help = true,
        help_heading = WHAT
    )]
    pub(crate) stripe_unit: u32,

    /// The largest file that is kept whole in DIR, in KiB
    #[arg(
        long,
        value_name = "KIB",
        default_value_t = stripes::INLINE_KIB,
        value_parser = clap::value_parser!(u32).range(stripes::INLINES_KIB),
        requires = "stripe",
        hide_short_help = true,
        help_heading = WHAT
    )]
    pub(crate) stripe_inline: u32,

    /// Believe every client's word about its user
    ///
    /// Without it, a client on another machine is believed when it asks from a port below 1024,
    /// which takes privilege there, and is nobody otherwise. Over UDP
    /// a client on this machine is believed only from such a port, also with this option.
    #[arg(long, help_heading = WHERE)]
    pub(crate) insecure: bool,

    #[command(flatten)]
    pub(crate) server: Server,

    /// Say where it serves as one line of JSON
    #[arg(long, help_heading = HOW)]
    pub(crate) json: bool,
}

/// Say what a running server serves, and what it did
#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// Ask the mount on this directory instead of a server
    #[arg(long, value_name = "DIR", conflicts_with_all = ["state", "served"])]
    pub(crate) mount: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) which: Which,

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
    #[command(flatten)]
    pub(crate) which: Which,

    /// Look at a mount, by its directory, instead of a server
    #[arg(long, value_name = "DIR", conflicts_with_all = ["state", "served"])]
    pub(crate) mount: Option<PathBuf>,

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

/// Find servers: announced on the network (DNS-SD), or bound in a database
///
/// Ours with `leasehold serve --announce`, and others that announce `_nfs._tcp`: the server's name,
/// a URL for `ls`, `cat`, `stat` and `cp`, and where it is. `leasehold mount NAME DIR` takes the name
/// too, or the name of a volume, of whose metaservers it takes the least busy. An announcement is
/// anybody's word. With --at, the servers that a database of `leasehold names` has. Commands that
/// take a name look there too where the variable LEASEHOLD_NAMES says `HOST[:PORT]`: behind what the
/// system knows, and before what is announced.
#[derive(Debug, clap::Args)]
pub(crate) struct Find {
    /// Ask the database there instead of the network [default port: 20490]
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        value_parser = binding::database,
        conflicts_with = "wait"
    )]
    pub(crate) at: Option<Database>,

    /// How long to listen, in seconds: 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = interval)]
    pub(crate) wait: Interval,

    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Keep a database of where servers are, by their names
///
/// Servers with `--bind-at` register there when they start, and again every 20 seconds; a name is
/// bound for a minute. `leasehold find --at` lists them. Everybody may ask. To register takes this
/// machine's root or the user that runs this, or a port below 1024 of another machine, which takes
/// privilege there; a name is bound to the address that it is registered from, and to no other. All
/// is kept in memory: after a restart it is known again within 20 seconds. It answers by TCP only.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Names {
    /// Address to serve on; may be given several times [default: 127.0.0.1:20490]
    ///
    /// Port 0 has the system pick one. For other machines, give an address of this one, or
    /// 0.0.0.0:20490 for all. What is registered by the loopback is told on the loopback only.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Vec<SocketAddr>,

    /// Let every program of every machine register its own address
    #[arg(long)]
    pub(crate) insecure: bool,
}

/// Print what a shell completes commands and options by
///
/// The package has them installed already. Example, for bash:
/// `source <(leasehold completions bash)`
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Write manual pages, completions and the reference of all commands
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct Documents {
    /// Where to
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// How often to look anew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval(pub(crate) Duration);

/// Reads an address with or without the brackets that an address with a port has.
fn client_address(text: &str) -> Result<IpAddr, String> {
    let plain = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    plain.parse().map_err(|_| "give the client's address, such as 192.0.2.7 or ::1".to_owned())
}

fn interval(text: &str) -> Result<Interval, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    let seconds = seconds.ok_or("give a number of seconds from 0.1 to 3600")?;
    Ok(Interval(Duration::from_secs_f64(seconds)))
}

/// Read, write or check a configuration file
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Write a file with all options in comments
    Init(Init),
}

/// Write a configuration file with all options in comments
#[derive(Debug, clap::Args)]
pub(crate) struct Init {
    /// Where to write it; what is there is left alone [default: stdout]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// Say what a configuration means: who may do what, what is risky, what would change
///
/// Nothing is started. Where a server runs with the same state directory, what would change there
/// is said too.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Check {
    /// The file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,

    /// Say it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show which clients hold leases, and who waits for whom
///
/// A client with a lease has in its cache what nobody else may change meanwhile. Calls of others
/// wait until it has vacated, for the rest of its term at the longest. A file is told by its number
/// within its export: `find DIR -inum NUMBER` finds it there.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Leases {
    #[command(flatten)]
    pub(crate) which: Which,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Wait no more for a client with leases that will not return
///
/// Its leases end at once. Do so only when its machine is off for good: a client that is only cut
/// off still reads in its cache what others change from now on, until its leases run out, and what
/// it has not written yet may be refused.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Forget {
    /// The client, by its id, the beginning of that, or its name
    #[arg(value_name = "CLIENT")]
    pub(crate) client: String,

    #[command(flatten)]
    pub(crate) which: Which,
}

/// Have a running server read its configuration file again
///
/// All of it or nothing: a file with a mistake changes nothing. Clients do not notice.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Reload {
    #[command(flatten)]
    pub(crate) which: Which,

    /// Say what changed as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Have a running server go on as the program that is installed by now
///
/// Its sockets stay open and what it remembers is kept: clients wait for a moment, and nothing is
/// done twice. The program and the configuration file are checked before the server is touched.
/// SIGUSR2 does the same.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Restart {
    #[command(flatten)]
    pub(crate) which: Which,

    /// Say how it went as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Look for what keeps a server or a mount on this machine from working well
///
/// Ports, the portmapper, the firewall, the clock, powers, the file systems of what is to be served,
/// and the options of what is mounted here from NFS servers. Nothing is changed. Run it as the user
/// who runs the server. The exit code is 1 where something is bad.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Doctor {
    /// A directory that is to be served
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,

    /// A file that a server is to be started with
    #[arg(long, value_name = "FILE", conflicts_with = "directory")]
    pub(crate) config: Option<PathBuf>,

    /// The state directory of the server [default: that of the server of DIR or FILE]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,

    /// Say it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Explain what a client may do, by the code that serves
///
/// It asks the running server, or takes the rules from a file.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Why {
    /// Answer as a server would that is started with this file
    #[arg(long, value_name = "FILE", conflicts_with = "state")]
    pub(crate) config: Option<PathBuf>,

    /// The state directory of the running server [default: that of the server with PATH]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,

    /// Say it as JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) question: Question,
}

/// Who wants to do what.
#[derive(Clone, Debug, Serialize, Deserialize, clap::Args)]
pub(crate) struct Question {
    /// The client's address
    #[arg(long, value_name = "ADDR", value_parser = client_address)]
    pub(crate) client: IpAddr,

    /// The user over there
    #[arg(long, value_name = "NUMBER")]
    pub(crate) uid: u32,

    /// The user's group over there [default: as the user]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) gid: Option<u32>,

    /// Further groups over there
    #[arg(long, value_name = "NUMBER,...", value_delimiter = ',')]
    pub(crate) groups: Vec<u32>,

    /// As if it asked from a port that takes no privilege
    #[arg(long)]
    pub(crate) high_port: bool,

    /// What is to be done: mount, read, write, execute, list, lookup, create or remove
    #[arg(value_name = "OP", value_enum, hide_possible_values = true)]
    pub(crate) operation: Operation,

    /// On what: a path on this machine, or as clients mount it
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
}

/// What may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operation {
    /// Make a name in the directory of the path.
    Create,
    /// Run a file.
    Execute,
    /// List a directory.
    List,
    /// Find a name in the directory of the path.
    Lookup,
    /// Mount a directory.
    Mount,
    /// Read a file.
    Read,
    /// Remove the path's name from its directory.
    Remove,
    /// Write a file.
    Write,
}
