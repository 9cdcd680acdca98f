//! The options of the commands of a cluster.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use leasehold_store_striped::LayoutPolicy;

use super::IodAddress;
use super::group::{Search, WINDOW_S, WINDOWS_S};
use crate::checks;
use crate::config::Plan;
use crate::config::options::Server;
use crate::failure::{Failure, Kind};
use crate::options::{EXIT_CODES, HOW, WHAT, WHERE};
use crate::running::Which;
use crate::stripes;

const IODS: &str = "Placement of data";
const PEERS: &str = "Other metaservers";

/// Try and inspect clusters of a metaserver and its iods
#[derive(Debug, Subcommand)]
pub(crate) enum Cluster {
    Try(Try),
    Check(Check),
    Status(Status),
    Repair(Repair),
    Believe(Believe),
    MoveHome(MoveHome),
}

/// Run a whole cluster on this machine, as a trial
///
/// Starts iods and metaservers, each as a process with its own directory below DIR, prints the
/// commands that mount them, and ends them on SIGINT or SIGTERM. The written data stays in DIR.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Try {
    /// The directory for all data; created if missing
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// The number of iods
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=48))]
    pub(crate) iods: u16,

    /// The number of metaservers, of one file system
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub(crate) metaservers: u16,

    /// The address of the metaserver, or of the first metaserver
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:2049")]
    pub(crate) listen: SocketAddr,

    /// Mount the file system on this machine as well, by FUSE
    #[arg(long, value_name = "DIR")]
    pub(crate) mount: Option<PathBuf>,
}

/// The iods of a command.
#[derive(Debug, clap::Args)]
pub(crate) struct Iods {
    /// An iod, in the form that `meta` accepts; give this option once for each
    #[arg(long, value_name = "IOD")]
    iod: Vec<IodAddress>,

    /// The file with the key of the cluster
    #[arg(long, value_name = "FILE")]
    cluster_key: Option<PathBuf>,

    /// The configuration file with the iods, of `leasehold serve --config`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["iod", "cluster_key"])]
    config: Option<PathBuf>,
}

impl Iods {
    /// Returns the iods and the file with their key. From a configuration, it takes the export with
    /// this directory, or the first export with iods.
    pub(crate) fn found(
        &self,
        directory: Option<&Path>,
    ) -> Result<(Vec<IodAddress>, Option<PathBuf>), Failure> {
        let Some(config) = &self.config else {
            if self.iod.is_empty() {
                let text = "name the iods: --iod once for each, or --config FILE with the iods";
                return Err(Kind::Options.because(text));
            }
            return Ok((self.iod.clone(), self.cluster_key.clone()));
        };
        let directory = directory.map(checks::directory).transpose()?;
        let exports = Plan::read(config, &Server::default())?.exports.into_iter();
        let mut layouts = exports
            .filter(|export| directory.as_ref().is_none_or(|asked| *asked == export.directory))
            .map(|export| export.layout);
        let layout = layouts.find(|layout| !layout.iods.is_empty()).ok_or_else(|| {
            let text = format!("{} names no iods for this directory", config.display());
            Kind::Options.because(text)
        })?;
        Ok((layout.iods, layout.cluster_key))
    }
}

/// Report which iods reply, their versions and identities, and their free space
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) iods: Iods,

    /// Print a line of JSON for each iod
    #[arg(long)]
    pub(crate) json: bool,
}

/// Report the state of a running metaserver's iods, and the number of files to move
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) which: Which,

    /// Print one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Find stripes that belong to no file, and remove them
///
/// A crash during the removal of a file leaves its stripes behind: they occupy space and do no
/// other harm. The metaserver that serves DIR searches for them while clients use the files; if
/// none runs, this command searches itself and needs the iods. It removes nothing if any part of
/// DIR is unreadable, and it skips unreachable iods. If no file in DIR has stripes, or most stripes
/// belong to no file, DIR is probably not the whole directory of the volume: the removal then needs
/// a further option.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Repair {
    /// The metaserver's directory for names
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    #[command(flatten)]
    pub(crate) iods: Iods,

    /// Remove the stripes that were found, instead of only listing them
    #[arg(long)]
    pub(crate) remove: bool,

    /// Remove them even if most of all stripes belong to no file
    #[arg(long, requires = "remove")]
    pub(crate) even_most: bool,

    /// The directory of a running metaserver's state [default: the state of the server of DIR]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

/// Accept the data of an iod that was rolled back
///
/// A metaserver rejects the data of an iod that was restored from a backup: it rebuilds files with
/// a second copy, and other files of the iod fail with EIO. This command makes the metaserver that
/// serves DIR accept the data: files then contain old bytes or zeros in place of data that the
/// backup lacks. To avoid old bytes, restore the latest data of the iod instead, or remove the
/// files.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Believe {
    /// The metaserver's directory for names
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// The number of the iod, as shown by `leasehold cluster status`
    #[arg(value_name = "IOD")]
    pub(crate) iod: u16,

    /// The directory with the metaserver's state [default: the state of the server of DIR]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

/// Move the home role of one of several metaservers to another directory
///
/// Stop its metaserver first, so that no two metaservers are the home of one object. DIR cannot be
/// served afterwards, and peers refuse a metaserver that is started from a copy of it. The data
/// stays on the iods. You may copy TO unchanged to another machine before its first start, but only
/// once and to one machine. The state directory records the clients that hold leases: if you do not
/// move it too, wait two minutes before the start.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct MoveHome {
    /// The metaserver's directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// The directory to serve instead, with no home in it
    #[arg(value_name = "TO")]
    pub(crate) to: PathBuf,
}

/// Show the layout of a file, or set the layout of a file or directory
///
/// Without options the command only reads the metafile. With options, the running metaserver moves
/// the file to the new layout in the background. The layout of a directory applies to files and
/// directories that are created in it afterwards, and below them. Each property without an option
/// follows the volume.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Layout {
    /// The metafile, or a directory, in the metaserver's directory for names
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// The size of a stripe, in KiB
    #[arg(
        long,
        value_name = "KIB",
        value_parser = clap::value_parser!(u32).range(stripes::UNITS_KIB),
        help_heading = IODS
    )]
    unit: Option<u32>,

    /// The number of iods over which a file is spread
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=48), help_heading = IODS)]
    width: Option<u16>,

    /// The number of the iod with the first stripe [default: another one for each file]
    #[arg(long, value_name = "NUMBER", help_heading = IODS)]
    first: Option<u16>,

    /// The numbers of the iods that a file may use
    #[arg(long, value_name = "NUMBER,...", value_delimiter = ',', help_heading = IODS)]
    iods: Vec<u16>,

    /// The number of iods that store each stripe
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(stripes::COPIES),
        help_heading = IODS
    )]
    copies: Option<u16>,

    /// Reset the layout: use the defaults of the volume
    #[arg(
        long,
        conflicts_with_all = ["unit", "width", "first", "iods", "copies"],
        help_heading = IODS
    )]
    as_volume: bool,

    /// The directory with the metaserver's state [default: that of the server with FILE]
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

    /// Returns the requested layout; each missing property follows the volume.
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
/// A metaserver: clients use it like any other server. Owners, modes, times and names lie in DIR,
/// as plain files that record the location of the data; the data of all but small files is spread
/// over the iods. With one copy, the loss of an iod loses a part of every large file, and while an
/// iod is unreachable, clients wait for its data. With `--copies 2` clients do not notice either.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Meta {
    /// The directory for names; empty at first
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// An iod: HOST:PORT of a `leasehold iod`, or `nfs://HOST/EXPORT` of any NFSv3 server
    ///
    /// Give this option once for each iod, and all iods at each start; the metaserver uses an
    /// additional iod for new files. The export of another server must allow changes by this
    /// machine's user, and by no other.
    #[arg(long, value_name = "IOD", required = true, help_heading = IODS)]
    pub(crate) iod: Vec<IodAddress>,

    /// The file with the key of the cluster, shared with all its iods
    ///
    /// The metaserver creates a missing file.
    #[arg(long, value_name = "FILE", help_heading = IODS)]
    pub(crate) cluster_key: Option<PathBuf>,

    /// Seconds without a reply of an iod or a metaserver until operations that need it fail
    ///
    /// Until then the server replies NFS3ERR_JUKEBOX to clients of version 3, which retry every 2
    /// seconds.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = stripes::IOD_TIMEOUT_S,
        value_parser = clap::value_parser!(u32).range(stripes::IOD_TIMEOUTS_S),
        help_heading = IODS
    )]
    pub(crate) iod_timeout: u32,

    /// Seconds until the metaserver removes stripes that belong to no file; 0 keeps them
    ///
    /// A crash during a removal leaves such stripes. The metaserver searches for them after a
    /// crash, and removes stripes that two searches at this distance have found. With 0 it only
    /// counts them, for `leasehold cluster repair`. Several metaservers do not search.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = stripes::SCRUB_AFTER_S,
        value_parser = clap::value_parser!(u32).range(stripes::SCRUBS_AFTER_S),
        hide_short_help = true,
        help_heading = IODS
    )]
    pub(crate) scrub_after: u32,

    /// The number of iods that store each stripe: 1, or 2 to survive the loss of one
    ///
    /// The metaserver moves files with another number of copies in the background, and brings
    /// copies up to date that missed changes.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(stripes::COPIES),
        help_heading = IODS
    )]
    pub(crate) copies: u16,

    /// The number of an iod to empty: the metaserver moves its files in the background
    ///
    /// The iod must run meanwhile. `leasehold cluster status` reports when all files are moved:
    /// then give the iod up with `--lost`.
    #[arg(long, value_name = "NUMBER", help_heading = IODS)]
    pub(crate) drain: Vec<u16>,

    /// Move files that are spread over fewer iods than there are
    #[arg(long, help_heading = IODS)]
    pub(crate) rebalance: bool,

    /// The number of an iod that is lost for good, with all data that only it had
    ///
    /// The metaserver never assigns the number again. It prints the number of a missing iod.
    #[arg(long, value_name = "NUMBER", help_heading = IODS)]
    pub(crate) lost: Vec<u16>,

    /// The size of a stripe of new files, in KiB
    #[arg(
        long,
        value_name = "KIB",
        default_value_t = stripes::UNIT_KIB,
        value_parser = clap::value_parser!(u32).range(stripes::UNITS_KIB),
        hide_short_help = true,
        help_heading = IODS
    )]
    pub(crate) stripe_unit: u32,

    /// The largest file that is stored whole in DIR, in KiB
    #[arg(
        long,
        value_name = "KIB",
        default_value_t = stripes::INLINE_KIB,
        value_parser = clap::value_parser!(u32).range(stripes::INLINES_KIB),
        hide_short_help = true,
        help_heading = IODS
    )]
    pub(crate) stripe_inline: u32,

    #[command(flatten)]
    pub(crate) peers: Peers,

    /// The name under which clients mount the directory [default: the last part of DIR]
    #[arg(long, help_heading = WHAT)]
    pub(crate) name: Option<String>,

    /// Refuse every change
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
    /// Give this option once for each metaserver, including this one, in the same order at all of
    /// them. Clients may mount any of them, and move. All have the same iods, cluster key, name and
    /// options of stripes. There is one copy of each stripe, and DIR stores no data of files.
    #[arg(long, value_name = "HOST:PORT", help_heading = PEERS)]
    pub(crate) peer: Vec<IodAddress>,

    /// The index of this server in --peer, from 0 [default: the entry with an address served here]
    #[arg(long, value_name = "N", requires = "peer", help_heading = PEERS)]
    pub(crate) number: Option<u32>,

    /// The number of a peer that is gone; the start does not wait for it
    ///
    /// A metaserver serves after all peers have confirmed that they have no later metadata of it.
    /// With --strict it first waits three minutes, until all leases that it granted earlier have
    /// expired.
    #[arg(long, value_name = "N", requires = "peer", hide_short_help = true, help_heading = PEERS)]
    pub(crate) without: Vec<u32>,

    /// Never show data older than the last reply of any metaserver; equal at all of them
    ///
    /// Metaservers then cache metadata under leases whose term is `--lazy-window`. A change first
    /// recalls the other metaservers' leases, and the server acknowledges a WRITE only after the
    /// file's home has recorded it. Clients may hold leases on files. While a metaserver is
    /// unreachable, operations on its files and directories wait as for an iod, and operations on
    /// objects that its clients hold leases on wait three minutes.
    #[arg(long, requires = "peer", conflicts_with = "search", hide_short_help = true, help_heading = PEERS)]
    pub(crate) strict: bool,

    /// The metaservers to query for a name that this one does not have
    ///
    /// `constant` queries the home of the directory and then the home of the object, for any
    /// number of metaservers. `sequential` queries one after the other by number, `nearest` queries
    /// the fastest of late first, `tree` queries two in parallel, each responsible for half of the
    /// others. Not with --strict.
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = Search::Constant, hide_short_help = true, help_heading = PEERS)]
    pub(crate) search: Search,

    /// Seconds for which a reply of another metaserver stays valid in the cache; equal at all of
    /// them
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = WINDOW_S,
        value_parser = clap::value_parser!(u32).range(WINDOWS_S),
        hide_short_help = true,
        help_heading = PEERS
    )]
    pub(crate) lazy_window: u32,
}

/// Keep stripes for a metaserver: an I/O daemon (iod)
///
/// The iod serves only clients that have the key of its cluster, and stores everything as this
/// user. The key does not encrypt the traffic: put iods on a network of the cluster's machines
/// alone.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Iod {
    /// The directory for stripes; empty at first [default: that of `[iod]` in the file of --config]
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,

    /// The file with the key of the cluster, shared with its metaserver and all its iods
    ///
    /// The iod creates a missing file. The default is the key file that the file of --config names.
    #[arg(long, value_name = "FILE", help_heading = WHERE)]
    pub(crate) cluster_key: Option<PathBuf>,

    /// The configuration file of the cluster, equal on all its machines
    ///
    /// `[iod]` gives the directory, `[[export]]` the key. The iod finds its own entry in `iod` by
    /// an address of this machine, and serves there. An option on the command line overrides the
    /// file.
    #[arg(long, value_name = "FILE", help_heading = WHAT)]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) server: Server,

    /// Print the addresses as one line of JSON
    #[arg(long, help_heading = HOW)]
    pub(crate) json: bool,
}
