//! The options of the command line: one definition yields parsing, help and errors.

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
use crate::defaults::{self, EXIT_CODES, HOW, WHAT, WHERE};
use crate::remote;
use crate::running::Which;

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

/// The command to run. The order is that of the groups in the help.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a directory to NFS clients, versions 3 and 2
    Serve(Serve),
    /// Report the exports and the activity of a running server
    Status(Status),
    /// Show the activity of a running server, live
    Top(Top),
    /// Show the clients that hold leases, and the requests that wait for them
    Leases(Leases),
    /// Stop waiting for a client with leases that will not return
    Forget(Forget),
    /// Show the clients of NFS versions 4.1 and 4.2, or end one
    Clients(Clients),
    /// Make a running server read its configuration file again
    Reload(Reload),
    Restart(Restart),
    Mount(crate::mount::options::Mount),
    Umount(crate::mount::options::Umount),
    #[command(subcommand)]
    Rescue(crate::rescue::Rescue),
    Ls(remote::List),
    Cat(remote::Cat),
    Stat(remote::Stat),
    Cp(remote::Copy),
    Meta(cluster::Meta),
    Iod(cluster::Iod),
    #[command(subcommand)]
    Cluster(cluster::Cluster),
    Layout(cluster::Layout),
    Find(Find),
    Names(Names),
    /// Explain the effect of a configuration, without starting a server
    Check(Check),
    /// Explain the rights of a client, as computed by the code of the server
    Why(Why),
    /// Find faults of this machine that impair a server or a mount
    Doctor(Doctor),
    Conform(leasehold_conform::Options),
    /// Write a configuration file
    #[command(subcommand)]
    Config(Config),
    Completions(Completions),
    Documents(Documents),
    /// Model a system: solve, simulate, plan, draw
    #[command(subcommand)]
    Lab(leasehold_lab_cli::Lab),
}

/// Serve a directory to NFS clients, versions 3 and 2
///
/// Prints the commands that mount the directory as soon as clients can mount it, and serves until
/// it receives SIGINT (Ctrl-C) or SIGTERM. With a configuration file, SIGHUP makes the server read
/// the file again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Serve {
    /// The directory to serve
    #[arg(value_name = "DIR", required_unless_present = "config")]
    pub(crate) directory: Option<PathBuf>,

    /// A configuration file with all options, in place of DIR
    ///
    /// `leasehold config init` writes a file that contains all options as comments. An option on
    /// the command line overrides the file.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["directory", "name", "read_only", "cross", "stripe", "insecure"],
        help_heading = WHAT
    )]
    pub(crate) config: Option<PathBuf>,

    /// The name under which clients mount the directory [default: the last part of DIR]
    ///
    /// Clients mount /NAME; with a single export, / works as well.
    #[arg(long, help_heading = WHAT)]
    pub(crate) name: Option<String>,

    /// Refuse all requests that change files
    #[arg(long, help_heading = WHAT)]
    pub(crate) read_only: bool,

    /// Let clients enter other file systems that are mounted below DIR, and subvolumes of btrfs
    ///
    /// Clients see each of these file systems as a separate file system. File handles in it stay
    /// valid after a restart of the server, and after an unmount and a new mount. Without this
    /// option clients see an empty directory in place of each of these file systems. To unmount a
    /// file system that clients used within the last seconds, run `umount --lazy`.
    #[arg(
        long,
        conflicts_with_all = ["stripe", "stable_log"],
        hide_short_help = true,
        help_heading = WHAT
    )]
    pub(crate) cross: bool,

    /// Store the data of files as stripes in these directories
    ///
    /// Give this option once for each directory, best on separate disks: the stripes of a file go
    /// to the directories in round-robin order. The server stores each stripe once, so the loss of
    /// a directory loses a part of every large file. DIR must be empty at the first start, and each
    /// start must name all directories.
    #[arg(long, value_name = "DIR", conflicts_with = "stable_log", help_heading = WHAT)]
    pub(crate) stripe: Vec<PathBuf>,

    /// The size of one stripe of a new file, in KiB
    #[arg(
        long,
        value_name = "KIB",
        default_value_t = defaults::UNIT_KIB,
        value_parser = clap::value_parser!(u32).range(defaults::UNITS_KIB),
        requires = "stripe",
        hide_short_help = true,
        help_heading = WHAT
    )]
    pub(crate) stripe_unit: u32,

    /// The maximum size of a file that is stored whole in DIR, without stripes, in KiB
    #[arg(
        long,
        value_name = "KIB",
        default_value_t = defaults::INLINE_KIB,
        value_parser = clap::value_parser!(u32).range(defaults::INLINES_KIB),
        requires = "stripe",
        hide_short_help = true,
        help_heading = WHAT
    )]
    pub(crate) stripe_inline: u32,

    /// Trust the user ids that every client sends
    ///
    /// Without this option, the server trusts a client on another machine only if its requests come
    /// from a port below 1024, which requires privilege there; otherwise it maps the client's users
    /// to the anonymous user. Over UDP the server trusts a client on this machine only from such a
    /// port, also with this option.
    #[arg(long, help_heading = WHERE)]
    pub(crate) insecure: bool,

    #[command(flatten)]
    pub(crate) server: Server,

    /// Print the addresses and exports as one line of JSON
    #[arg(long, help_heading = HOW)]
    pub(crate) json: bool,
}

/// Report the exports and the activity of a running server
#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// Query the mount on this directory instead of a server
    #[arg(long, value_name = "DIR", conflicts_with_all = ["state", "served"])]
    pub(crate) mount: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) which: Which,

    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the activity of a running server, live
///
/// Shows the requests of each client, their latency, the limits that were reached, and the leases
/// that delay requests. Keys: `c` clients, `e` exports, `o` operations, `s` sorts by the next
/// column, `/` filters the lines by a typed text, `p` pauses, `q` quits.
#[derive(Debug, clap::Args)]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) which: Which,

    /// Show a mount, named by its directory, instead of a server
    #[arg(long, value_name = "DIR", conflicts_with_all = ["state", "served"])]
    pub(crate) mount: Option<PathBuf>,

    /// The interval between samples, in seconds: 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub(crate) interval: Interval,

    /// Print the activity of each interval as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Stop after this number of lines of JSON
    #[arg(long, value_name = "N", requires = "json")]
    pub(crate) count: Option<u64>,
}

/// Find servers: announced on the network (DNS-SD), or in a database
///
/// Lists servers started with `leasehold serve --announce`, and others that announce `_nfs._tcp`:
/// the server's name, a URL for `ls`, `cat`, `stat` and `cp`, and the address. `leasehold mount
/// NAME DIR` accepts such a name as well, or the name of a volume, and then selects the least
/// loaded of its metaservers. Announcements are not authenticated. With --at, the command lists the
/// servers that are registered in a database of `leasehold names`. If the variable LEASEHOLD_NAMES
/// has the form `HOST[:PORT]`, commands that accept a name also query the database there: after the
/// system's resolver and before the announcements.
#[derive(Debug, clap::Args)]
pub(crate) struct Find {
    /// Query the database at this address instead of the network [default port: 20490]
    #[arg(
        long,
        value_name = "HOST[:PORT]",
        value_parser = binding::database,
        conflicts_with = "wait"
    )]
    pub(crate) at: Option<Database>,

    /// The time to wait for announcements, in seconds: 0.1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = interval)]
    pub(crate) wait: Interval,

    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Run a database that maps the names of servers to their addresses
///
/// Servers with `--bind-at` register when they start, and again every 20 seconds; an entry expires
/// after a minute. `leasehold find --at` lists the entries. Every client may query the database.
/// Registration requires root or the database's own user on this machine, or a port below 1024 on
/// another machine, which requires privilege there. The database binds a name only to the address
/// from which the name was registered. It stores entries in memory only; after a restart the
/// servers register again within 20 seconds. The database serves TCP only.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Names {
    /// Address to serve on; may be given several times [default: 127.0.0.1:20490]
    ///
    /// With port 0 the system chooses a port. To serve other machines, give an address of this
    /// machine, or 0.0.0.0:20490 for all addresses. An entry that was registered over the loopback
    /// is visible on the loopback only.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Vec<SocketAddr>,

    /// Let every program on every machine register its own address
    #[arg(long)]
    pub(crate) insecure: bool,
}

/// Print the completions of commands and options for a shell
///
/// The package installs them. Example, for bash: `source <(leasehold completions bash)`
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
    /// The directory for the output
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// The interval between samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval(pub(crate) Duration);

/// Parses an address with or without the brackets of an address with a port.
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
    /// The file to write; an existing file is not changed [default: stdout]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// Explain the effect of a configuration file: rights of clients, risks, and changes
///
/// The command starts no server. If a server runs with the same state directory, the command also
/// lists the changes that the configuration would cause there.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Check {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show the clients that hold leases, and the requests that wait for them
///
/// A lease lets a client cache data that other clients cannot change meanwhile. Conflicting calls
/// of other clients wait until the holder returns the lease, at most for the rest of the lease's
/// term. Files are listed by inode number within their export: `find DIR -inum NUMBER` finds the
/// path.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Leases {
    #[command(flatten)]
    pub(crate) which: Which,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Stop waiting for a client with leases that will not return
///
/// The client's leases end at once. Use this command only if the client's machine is off for good:
/// a client that only lost its connection continues to read stale data from its cache until its
/// leases expire, and the server may refuse its unwritten data.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Forget {
    /// The client: its id, a prefix of the id, or its name
    #[arg(value_name = "CLIENT")]
    pub(crate) client: String,

    #[command(flatten)]
    pub(crate) which: Which,
}

/// Show the clients of NFS versions 4.1 and 4.2, or end one
///
/// Each line has the id of a client, the name that the client gives itself, its address, its minor
/// version, the numbers of its sessions, opens and locks, and the time since it last renewed its
/// lease. A client whose lease has expired keeps its opens and locks for a day, unless another
/// client needs them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES, args_conflicts_with_subcommands = true)]
pub(crate) struct Clients {
    #[command(subcommand)]
    pub(crate) command: Option<ClientsCommand>,

    #[command(flatten)]
    pub(crate) which: Which,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The work on one client.
#[derive(Debug, Subcommand)]
pub(crate) enum ClientsCommand {
    Forget(ForgetClient),
}

/// End a client: its sessions, its opens and its locks
///
/// Other clients can then use the files that the client has open or locked. Use this command only
/// if the client's machine is off for good: a client that still runs opens its files again, loses
/// its locks, and its programs may receive I/O errors.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ForgetClient {
    /// The client: its id, a prefix of the id, or its name
    #[arg(value_name = "CLIENT")]
    pub(crate) client: String,

    #[command(flatten)]
    pub(crate) which: Which,
}

/// Make a running server read its configuration file again
///
/// The server applies the whole file or nothing: a file with an error changes nothing. Clients stay
/// connected.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Reload {
    #[command(flatten)]
    pub(crate) which: Which,

    /// Print the changes as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Replace a running server by the installed program without closing sockets
///
/// The sockets stay open, and the new process takes over the server's state: clients wait for a
/// moment, and no call runs twice. The command checks the program and the configuration file first.
/// SIGUSR2 has the same effect.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Restart {
    #[command(flatten)]
    pub(crate) which: Which,

    /// Print the result as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Find faults of this machine that impair a server or a mount
///
/// Checks ports, the portmapper, the firewall, the clock, capabilities, the file systems of the
/// directories to serve, and the options of mounts from NFS servers. The command changes nothing.
/// Run the command as the user who runs the server. The exit code is 1 if it finds a serious fault.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Doctor {
    /// A directory to serve
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,

    /// The configuration file of a server
    #[arg(long, value_name = "FILE", conflicts_with = "directory")]
    pub(crate) config: Option<PathBuf>,

    /// The state directory of the server [default: the state of the server of DIR or FILE]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Explain the rights of a client, as computed by the code of the server
///
/// The command queries the running server, or reads the rules from a file.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Why {
    /// Use the rules in this configuration file, instead of the rules of the running server
    #[arg(long, value_name = "FILE", conflicts_with = "state")]
    pub(crate) config: Option<PathBuf>,

    /// The state directory of the running server [default: the state of the server that serves
    /// PATH]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) question: Question,
}

/// The caller and the operation to explain.
#[derive(Clone, Debug, Serialize, Deserialize, clap::Args)]
pub(crate) struct Question {
    /// The client's address
    #[arg(long, value_name = "ADDR", value_parser = client_address)]
    pub(crate) client: IpAddr,

    /// The user id on the client
    #[arg(long, value_name = "NUMBER")]
    pub(crate) uid: u32,

    /// The group id on the client [default: the user id]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) gid: Option<u32>,

    /// Further group ids on the client
    #[arg(long, value_name = "NUMBER,...", value_delimiter = ',')]
    pub(crate) groups: Vec<u32>,

    /// Assume that the request comes from an unprivileged port (1024 or above)
    #[arg(long)]
    pub(crate) high_port: bool,

    /// The operation: mount, read, write, execute, list, lookup, create or remove
    #[arg(value_name = "OP", value_enum, hide_possible_values = true)]
    pub(crate) operation: Operation,

    /// The object: a path on this machine, or the path that clients mount
    #[arg(value_name = "PATH")]
    pub(crate) path: PathBuf,
}

/// The operations that `why` explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operation {
    /// Create a name in the directory of the path.
    Create,
    /// Run a file.
    Execute,
    /// List a directory.
    List,
    /// Look up a name in the directory of the path.
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
