//! The options of the commands of a cluster.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Subcommand;
use leasehold_cluster::IodAddress;
use leasehold_store_striped::LayoutPolicy;

use super::search::Search;
use crate::config::options::Server;
use crate::defaults::{self, EXIT_CODES, HOW, WHAT, WHERE};
use crate::running::Which;

const IODS: &str = "Placement of data";
const PEERS: &str = "Other metaservers";

/// Try, inspect and repair clusters of metaservers and I/O daemons (iods)
#[derive(Debug, Subcommand)]
pub(crate) enum Cluster {
    Try(Try),
    Check(Check),
    Status(Status),
    Repair(Repair),
    Believe(Believe),
    MoveHome(MoveHome),
}

/// Run a whole cluster as a trial, with all servers on this machine
///
/// Starts I/O daemons (iods) and metaservers, each as a process with its own directory below DIR,
/// prints the commands that mount the file system, and ends the processes on SIGINT or SIGTERM. The
/// written data stays in DIR.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Try {
    /// The directory for all data; created if missing
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// The number of iods, which store the data of files
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=48))]
    pub(crate) iods: u16,

    /// The number of metaservers, which serve the names of the file system together
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub(crate) metaservers: u16,

    /// The address of the metaserver, or of the first metaserver
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:2049")]
    pub(crate) listen: SocketAddr,

    /// Also mount the file system on this directory of this machine, by FUSE
    #[arg(long, value_name = "DIR")]
    pub(crate) mount: Option<PathBuf>,
}

/// The iods that a command uses.
#[derive(Debug, clap::Args)]
pub(crate) struct Iods {
    /// An iod, in the form that `leasehold meta` accepts; give this option once for each iod
    #[arg(long, value_name = "IOD")]
    pub(super) iod: Vec<IodAddress>,

    /// The file with the secret key that the servers of the cluster share
    #[arg(long, value_name = "FILE")]
    pub(super) cluster_key: Option<PathBuf>,

    /// The configuration file of the metaserver, which lists the iods and the cluster key
    #[arg(long, value_name = "FILE", conflicts_with_all = ["iod", "cluster_key"])]
    pub(super) config: Option<PathBuf>,
}

/// Report which I/O daemons (iods) reply, their versions and identities, and their free space
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) iods: Iods,

    /// Print a line of JSON for each iod
    #[arg(long)]
    pub(crate) json: bool,
}

/// Report the I/O daemons (iods) of a running metaserver, and the number of files still to be moved
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) which: Which,

    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Find stripes on iods that belong to no file, and remove them
///
/// A crash during the removal of a file leaves the file's stripes behind: they occupy space and do
/// no other harm. The metaserver that serves DIR searches for them while clients use the files; if
/// no metaserver runs, this command searches itself and needs the iods. It removes nothing if any
/// part of DIR is unreadable, and it skips unreachable iods. If no file in DIR has stripes, or most
/// stripes belong to no file, DIR is probably not the whole directory of the file system: the
/// removal then also needs --even-most.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Repair {
    /// The directory in which the metaserver stores names
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    #[command(flatten)]
    pub(crate) iods: Iods,

    /// Remove the stripes that were found, instead of only listing them
    #[arg(long)]
    pub(crate) remove: bool,

    /// Remove the stripes even if more than half of all stripes belong to no file
    #[arg(long, requires = "remove")]
    pub(crate) even_most: bool,

    /// The state directory of a running metaserver [default: the state of the server of DIR]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

/// Accept the data of an I/O daemon (iod) that was restored from an old copy
///
/// A metaserver rejects the data of an iod that was restored from a backup: it rebuilds the iod's
/// part of each file that has a second copy, and accesses to all other files of the iod fail with
/// EIO. This command makes the metaserver that serves DIR accept the data: files then contain old
/// bytes or zeros in place of data that the backup lacks. To avoid old bytes, restore the latest
/// data of the iod instead, or remove the files.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Believe {
    /// The directory in which the metaserver stores names
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// The number of the iod, as shown by `leasehold cluster status`
    #[arg(value_name = "IOD")]
    pub(crate) iod: u16,

    /// The state directory of the metaserver [default: the state of the server of DIR]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

/// Move the metadata that one of several metaservers owns to another directory
///
/// The home of a file is the one metaserver that stores and changes its metadata. Stop the
/// metaserver of DIR first, so that no two metaservers are the home of one file. DIR cannot be
/// served afterwards, and the other metaservers reject a metaserver that is started from a copy of
/// DIR. The data of files stays on the iods. You may copy TO unchanged to another machine before
/// its first start, but only once and to one machine. The state directory records the clients that
/// hold leases: if you do not move it too, wait two minutes before the start.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct MoveHome {
    /// The old directory of the metaserver
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// The new directory to serve, without metadata of a metaserver
    #[arg(value_name = "TO")]
    pub(crate) to: PathBuf,
}

/// Show the layout of a file, or set the layout of a file or directory
///
/// The layout determines how the data of a file is distributed over the I/O daemons (iods). Without
/// options the command only reads the file's metadata. With options, the running metaserver moves
/// the data of the file to the new layout in the background. The layout of a directory applies to
/// all files and directories that are created in or below it afterwards. A property without an
/// option has the default of the file system.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Layout {
    /// A file or directory in the directory in which the metaserver stores names
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The size of a stripe, in KiB
    #[arg(
        long,
        value_name = "KIB",
        value_parser = clap::value_parser!(u32).range(defaults::UNITS_KIB),
        help_heading = IODS
    )]
    unit: Option<u32>,

    /// The number of iods that store the stripes of a file
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=48), help_heading = IODS)]
    width: Option<u16>,

    /// The number of the iod that stores the first stripe [default: a different iod for each file]
    #[arg(long, value_name = "NUMBER", help_heading = IODS)]
    first: Option<u16>,

    /// The numbers of the iods that may store the stripes of a file
    #[arg(long, value_name = "NUMBER,...", value_delimiter = ',', help_heading = IODS)]
    iods: Vec<u16>,

    /// The number of copies of each stripe, each on its own iod
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(defaults::COPIES),
        help_heading = IODS
    )]
    copies: Option<u16>,

    /// Reset the layout: use the defaults of the file system
    #[arg(
        long,
        conflicts_with_all = ["unit", "width", "first", "iods", "copies"],
        help_heading = IODS
    )]
    as_volume: bool,

    /// The state directory of the metaserver [default: the state of the server of FILE]
    #[arg(long, value_name = "DIR", help_heading = HOW)]
    pub(crate) state: Option<PathBuf>,

    /// Print one line of JSON
    #[arg(long, help_heading = HOW)]
    pub(crate) json: bool,
}

impl Layout {
    /// Returns true if the options request another layout.
    pub(crate) fn says_something(&self) -> bool {
        self.as_volume || self.shape() != LayoutPolicy::default()
    }

    /// Returns the requested layout; the volume's default applies to each missing property.
    pub(crate) fn shape(&self) -> LayoutPolicy {
        let Self { unit, width, first, copies, .. } = *self;
        LayoutPolicy {
            unit: unit.map(|kib| kib << 10),
            width,
            first,
            iods: self.iods.clone(),
            copies,
        }
    }
}

/// Serve names from a directory, and data from I/O daemons (iods)
///
/// Runs a metaserver: clients use it like any other NFS server. DIR contains names, owners, modes
/// and times, in plain files that also record the location of the data. The metaserver stores small
/// files in DIR, and divides the data of larger files into stripes on the iods. With one copy, the
/// loss of an iod loses a part of every large file, and while an iod is unreachable, clients wait
/// for its data. With `--copies 2`, one lost or unreachable iod causes neither loss nor waits.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Meta {
    /// The directory for names; it must be empty at the first start
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// An iod: HOST:PORT of a `leasehold iod`, or `nfs://HOST/EXPORT` of any NFSv3 server
    ///
    /// Give this option once for each iod, and name all iods at each start; the metaserver uses an
    /// additional iod for new files. If an iod is an export of another NFS server, that server must
    /// allow changes by this machine's user, and by no other user.
    #[arg(long, value_name = "IOD", required = true, help_heading = IODS)]
    pub(crate) iod: Vec<IodAddress>,

    /// The file with the secret key that all servers of the cluster share
    ///
    /// If the file does not exist, the metaserver creates it with a new key. Copy the file to all
    /// iods.
    #[arg(long, value_name = "FILE", help_heading = IODS)]
    pub(crate) cluster_key: Option<PathBuf>,

    /// Seconds for which operations wait for an unreachable iod or metaserver before they fail
    ///
    /// During this time the server replies NFS3ERR_JUKEBOX to clients of version 3, and they retry
    /// every 2 seconds.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = defaults::IOD_TIMEOUT_S,
        value_parser = clap::value_parser!(u32).range(defaults::IOD_TIMEOUTS_S),
        help_heading = IODS
    )]
    pub(crate) iod_timeout: u32,

    /// Seconds for which the metaserver keeps stripes that belong to no file; 0 keeps them forever
    ///
    /// A crash during the removal of a file can leave such stripes. The metaserver searches for
    /// them after a crash, and removes the stripes that it finds in two searches with this interval
    /// between them. With 0 it only counts them, and `leasehold cluster repair` removes them. If
    /// several metaservers serve the file system, they do not search.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = defaults::SCRUB_AFTER_S,
        value_parser = clap::value_parser!(u32).range(defaults::SCRUBS_AFTER_S),
        hide_short_help = true,
        help_heading = IODS
    )]
    pub(crate) scrub_after: u32,

    /// The number of copies of each stripe: 1, or 2 to survive the loss of one iod
    ///
    /// Each copy is on another iod. After a change of this option, the metaserver adds or removes
    /// copies of existing files in the background. It also updates copies that missed changes.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(defaults::COPIES),
        help_heading = IODS
    )]
    pub(crate) copies: u16,

    /// The number of an iod to empty: the metaserver moves its stripes to other iods in the
    /// background
    ///
    /// The iod must run during the move. `leasehold cluster status` reports when the iod is empty:
    /// then remove it from the cluster with `--lost`.
    #[arg(long, value_name = "NUMBER", help_heading = IODS)]
    pub(crate) drain: Vec<u16>,

    /// Redistribute existing files over all iods, after iods were added
    #[arg(long, help_heading = IODS)]
    pub(crate) rebalance: bool,

    /// The number of an iod that is permanently lost, with all data that only this iod stored
    ///
    /// The metaserver never assigns the number again. If an iod is missing, the metaserver prints
    /// its number.
    #[arg(long, value_name = "NUMBER", help_heading = IODS)]
    pub(crate) lost: Vec<u16>,

    /// The size of one stripe of a new file, in KiB
    #[arg(
        long,
        value_name = "KIB",
        default_value_t = defaults::UNIT_KIB,
        value_parser = clap::value_parser!(u32).range(defaults::UNITS_KIB),
        hide_short_help = true,
        help_heading = IODS
    )]
    pub(crate) stripe_unit: u32,

    /// The maximum size of a file that is stored whole in DIR, without stripes, in KiB
    #[arg(
        long,
        value_name = "KIB",
        default_value_t = defaults::INLINE_KIB,
        value_parser = clap::value_parser!(u32).range(defaults::INLINES_KIB),
        hide_short_help = true,
        help_heading = IODS
    )]
    pub(crate) stripe_inline: u32,

    #[command(flatten)]
    pub(crate) peers: Peers,

    /// The name under which clients mount the directory [default: the last part of DIR]
    #[arg(long, help_heading = WHAT)]
    pub(crate) name: Option<String>,

    /// Refuse all requests that change files
    #[arg(long, help_heading = WHAT)]
    pub(crate) read_only: bool,

    /// Trust the user ids that every client sends, as with `serve`
    #[arg(long, help_heading = WHERE)]
    pub(crate) insecure: bool,

    #[command(flatten)]
    pub(crate) server: Server,

    /// Print the addresses and exports as one line of JSON
    #[arg(long, help_heading = HOW)]
    pub(crate) json: bool,
}

/// The metaservers of one file system
#[derive(Debug, clap::Args)]
pub(crate) struct Peers {
    /// A metaserver of the same file system, as HOST:PORT
    ///
    /// Give this option once for each metaserver, including this one, in the same order at all
    /// metaservers. Clients may mount any of these metaservers, and change to another one. All
    /// metaservers need the same iods, cluster key, name and stripe options. Each stripe has one
    /// copy, and DIR stores no data of files.
    #[arg(long, value_name = "HOST:PORT", help_heading = PEERS)]
    pub(crate) peer: Vec<IodAddress>,

    /// The index of this metaserver in --peer, from 0 [default: the entry with an address served
    /// here]
    #[arg(long, value_name = "N", requires = "peer", help_heading = PEERS)]
    pub(crate) number: Option<u32>,

    /// The index of a metaserver that is permanently lost: the start does not wait for it
    ///
    /// At its start, a metaserver serves only after all other metaservers have confirmed that they
    /// have no newer metadata of it. With --strict and this option it first waits three minutes,
    /// until all leases that it granted earlier have expired.
    #[arg(long, value_name = "N", requires = "peer", hide_short_help = true, help_heading = PEERS)]
    pub(crate) without: Vec<u32>,

    /// Never show data that is older than a reply of any metaserver; must be equal at all
    /// metaservers
    ///
    /// Metaservers then cache each other's metadata under leases of `--lazy-window` seconds. A
    /// change first recalls the leases of the other metaservers, and the server acknowledges a
    /// WRITE only after the home of the file, the metaserver that stores its metadata, has recorded
    /// the change. Clients may then hold leases on files. While a metaserver is unreachable,
    /// operations on its files and directories wait for `--iod-timeout`, and operations on objects
    /// that its clients hold leases on wait three minutes.
    #[arg(long, requires = "peer", conflicts_with = "search", hide_short_help = true, help_heading = PEERS)]
    pub(crate) strict: bool,

    /// The order in which to query other metaservers for a name that this metaserver does not have
    ///
    /// `constant` queries the home of the directory and then the home of the object, where the home
    /// is the metaserver that stores the metadata. `sequential` queries one metaserver after the
    /// other in the order of --peer. `nearest` first queries the metaserver that recently replied
    /// fastest. `tree` queries two metaservers in parallel, and each of them queries half of the
    /// remaining ones. Not with --strict.
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = Search::Constant, hide_short_help = true, help_heading = PEERS)]
    pub(crate) search: Search,

    /// Seconds for which metadata of another metaserver may be used from the cache; must be equal
    /// at all metaservers
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = defaults::WINDOW_S,
        value_parser = clap::value_parser!(u32).range(defaults::WINDOWS_S),
        hide_short_help = true,
        help_heading = PEERS
    )]
    pub(crate) lazy_window: u32,
}

/// Store stripes of files for a metaserver: an I/O daemon (iod)
///
/// The iod serves only programs that have the secret key of its cluster, and stores everything as
/// the user who runs it. The key does not encrypt the traffic: put iods on a network that only the
/// machines of the cluster can reach.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Iod {
    /// The directory for stripes; empty at the first start [default: `[iod]` in the file of
    /// --config]
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,

    /// The file with the secret key that all servers of the cluster share
    ///
    /// If the file does not exist, the iod creates it with a new key. The default is the key file
    /// that the configuration file names.
    #[arg(long, value_name = "FILE", help_heading = WHERE)]
    pub(crate) cluster_key: Option<PathBuf>,

    /// The configuration file of the cluster, which can be equal on all its machines
    ///
    /// The iod takes its directory from `[iod]` and the cluster key from `[[export]]`. It serves on
    /// the entry of `iod` that is an address of this machine. An option on the command line
    /// overrides the file.
    #[arg(long, value_name = "FILE", help_heading = WHAT)]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) server: Server,

    /// Print the addresses as one line of JSON
    #[arg(long, help_heading = HOW)]
    pub(crate) json: bool,
}
