//! What can be said to the roles of a cluster.

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

const IODS: &str = "Where the data lies";
const PEERS: &str = "Other metaservers";

/// Try, and look at, clusters of a metaserver and its iods
#[derive(Debug, Subcommand)]
pub(crate) enum Cluster {
    Try(Try),
    Check(Check),
    Status(Status),
    Repair(Repair),
    Believe(Believe),
    MoveHome(MoveHome),
}

/// Run a whole cluster on this machine, to see what it is like
///
/// Starts iods and metaservers, each a process over a directory of its own below DIR, prints how to
/// mount them, and ends them when it is asked to end. What is written stays in DIR.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Try {
    /// The directory for all; made if need be
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// How many iods
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=48))]
    pub(crate) iods: u16,

    /// How many metaservers, of one file system
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub(crate) metaservers: u16,

    /// Where the metaserver listens, or the first of them
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:2049")]
    pub(crate) listen: SocketAddr,

    /// Mount it on this machine as well, by FUSE
    #[arg(long, value_name = "DIR")]
    pub(crate) mount: Option<PathBuf>,
}

/// The iods that a command is about.
#[derive(Debug, clap::Args)]
pub(crate) struct Iods {
    /// An iod, as `meta` is told of it; to be given once for each
    #[arg(long, value_name = "IOD")]
    iod: Vec<IodAddress>,

    /// The file with the key of the cluster
    #[arg(long, value_name = "FILE")]
    cluster_key: Option<PathBuf>,

    /// The configuration file that has them, of `leasehold serve --config`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["iod", "cluster_key"])]
    config: Option<PathBuf>,
}

impl Iods {
    /// The iods, and the file with their key; of a configuration those of the export that has this
    /// directory, or of the first with any.
    pub(crate) fn found(
        &self,
        directory: Option<&Path>,
    ) -> Result<(Vec<IodAddress>, Option<PathBuf>), Failure> {
        let Some(config) = &self.config else {
            if self.iod.is_empty() {
                let text = "say which iods: --iod once for each, or --config FILE that has them";
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
            let text = format!("{} has no iods for that", config.display());
            Kind::Options.because(text)
        })?;
        Ok((layout.iods, layout.cluster_key))
    }
}

/// Say which iods are there, what each is, and what room it has
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) iods: Iods,

    /// Say it as a line of JSON for each iod
    #[arg(long)]
    pub(crate) json: bool,
}

/// Say how the iods of a running metaserver are, and whether files are still to be moved
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) which: Which,

    /// Say it as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Find stripes that no file has any more, and remove them
///
/// A crash in the midst of removing a file leaves its stripes behind: they take room, and do no
/// other harm. The metaserver that serves DIR looks for them while clients use the files; where
/// none does, this command does so itself, and has to know the iods. Nothing is removed where
/// anything in DIR cannot be read, and what an iod has that is away is left. Where nothing in DIR
/// has stripes, or most objects are of no file, DIR is hardly the whole directory of the volume:
/// that needs another word.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Repair {
    /// The metaserver's directory for names
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    #[command(flatten)]
    pub(crate) iods: Iods,

    /// Remove what was found, rather than only say it
    #[arg(long)]
    pub(crate) remove: bool,

    /// Remove it even where most of all objects are of no file
    #[arg(long, requires = "remove")]
    pub(crate) even_most: bool,

    /// The directory with the metaserver's state, where one runs [default: that of the server of DIR]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

/// Use the data of an iod that is older than its metaserver knows it
///
/// The metaserver uses no data of an iod that was restored from a backup: files with a second copy
/// are made whole again, and other files of the iod fail with EIO. This command has the metaserver
/// that serves DIR use the data all the same: files then have old bytes or zeros in the place of
/// data that the backup lacks. To have no old bytes, put the present data of the iod back instead,
/// or remove the files.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Believe {
    /// The metaserver's directory for names
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// The number of the iod, as `leasehold cluster status` says it
    #[arg(value_name = "IOD")]
    pub(crate) iod: u16,

    /// The directory with the metaserver's state [default: the state of the server of DIR]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

/// Move what one of several metaservers is the home of to another directory, to be served there
///
/// Its metaserver must not run: that is what keeps two from being the home of the same. DIR is not
/// served any more afterwards, and peers refuse what is started from a copy of it. Data stays on the
/// iods. TO may be copied to another machine, as it is, before it is first served: once, to one. Which
/// clients hold leases stands in the state directory: where that does not go along, wait two minutes.
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

/// Say where the data of a file lies, or where it is to lie
///
/// Without options it reads the metafile alone. With one, the running metaserver moves the file to
/// where it is to lie, in the background; what is said of a directory is for files and directories
/// that are made in it from then on, and below. What is not said is as for the whole volume.
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

    /// Over how many iods a file is spread
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=48), help_heading = IODS)]
    width: Option<u16>,

    /// The number of the iod with the first stripe: else it is another for each file
    #[arg(long, value_name = "NUMBER", help_heading = IODS)]
    first: Option<u16>,

    /// The numbers of the iods that a file may use
    #[arg(long, value_name = "NUMBER,...", value_delimiter = ',', help_heading = IODS)]
    iods: Vec<u16>,

    /// How many iods have each stripe
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(stripes::COPIES),
        help_heading = IODS
    )]
    copies: Option<u16>,

    /// Take back what was said: as for the whole volume
    #[arg(
        long,
        conflicts_with_all = ["unit", "width", "first", "iods", "copies"],
        help_heading = IODS
    )]
    as_volume: bool,

    /// The directory with the metaserver's state [default: that of the server with FILE]
    #[arg(long, value_name = "DIR", help_heading = HOW)]
    pub(crate) state: Option<PathBuf>,

    /// Say it as one line of JSON
    #[arg(long, help_heading = HOW)]
    pub(crate) json: bool,
}

impl Layout {
    /// Whether something is to lie otherwise.
    pub(crate) fn says_something(&self) -> bool {
        self.as_volume || self.shape() != LayoutPolicy::default()
    }

    /// What is said, all else being as for the volume.
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
/// A metaserver: to its clients a server like any other. Owners, modes, times and names lie in DIR,
/// as plain files that say where the data is; the data of all but small files is spread over the
/// iods. With one copy an iod that is lost takes a part of every large file along, and while one is
/// away, clients wait for what lies there. With `--copies 2` they do not notice.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Meta {
    /// The directory for names; empty at first
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// An iod: HOST:PORT of a `leasehold iod`, or `nfs://HOST/EXPORT` of any NFSv3 server
    ///
    /// To be given once for each, and all at each start; one that is new is used for new files.
    /// Another server's export must let this machine's user change it, and nobody else.
    #[arg(long, value_name = "IOD", required = true, help_heading = IODS)]
    pub(crate) iod: Vec<IodAddress>,

    /// The file with the key of the cluster: the same for all its iods
    ///
    /// One that is not there is made.
    #[arg(long, value_name = "FILE", help_heading = IODS)]
    pub(crate) cluster_key: Option<PathBuf>,

    /// Seconds that an iod, or another metaserver, may be silent before what needs it fails
    ///
    /// Until then clients of version 3 are told every 2 seconds to come again.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = stripes::IOD_TIMEOUT_S,
        value_parser = clap::value_parser!(u32).range(stripes::IOD_TIMEOUTS_S),
        help_heading = IODS
    )]
    pub(crate) iod_timeout: u32,

    /// Seconds that stripes of no file are kept before they are removed; 0 keeps them
    ///
    /// A crash in the midst of a removal leaves such stripes. The metaserver looks for them after a
    /// crash, and removes those that two searches so far apart have found. With 0 it only counts
    /// them, for `leasehold cluster repair`. Several metaservers do not look.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = stripes::SCRUB_AFTER_S,
        value_parser = clap::value_parser!(u32).range(stripes::SCRUBS_AFTER_S),
        hide_short_help = true,
        help_heading = IODS
    )]
    pub(crate) scrub_after: u32,

    /// How many iods have each stripe: 1, or 2 so that one may be lost
    ///
    /// What lies otherwise is moved in the background, also what an iod missed while it was away.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(stripes::COPIES),
        help_heading = IODS
    )]
    pub(crate) copies: u16,

    /// The number of an iod to be left: its files are moved in the background
    ///
    /// It must be there meanwhile. `leasehold cluster status` says when all is done: then it can be
    /// given up with `--lost`.
    #[arg(long, value_name = "NUMBER", help_heading = IODS)]
    pub(crate) drain: Vec<u16>,

    /// Move files that lie on fewer iods than there are
    #[arg(long, help_heading = IODS)]
    pub(crate) rebalance: bool,

    /// The number of an iod that is gone for good, with what only it had
    ///
    /// Its number stays its own: the metaserver says it where one is missing.
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

    /// The largest file that is kept whole in DIR, in KiB
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

    /// The name to mount it by [default: the last part of DIR]
    #[arg(long, help_heading = WHAT)]
    pub(crate) name: Option<String>,

    /// Refuse every change
    #[arg(long, help_heading = WHAT)]
    pub(crate) read_only: bool,

    /// Believe every client's word about its user, as with `serve`
    #[arg(long, help_heading = WHERE)]
    pub(crate) insecure: bool,

    #[command(flatten)]
    pub(crate) server: Server,

    /// Say where it serves as one line of JSON
    #[arg(long, help_heading = HOW)]
    pub(crate) json: bool,
}

/// The metaservers of one file system
#[derive(Debug, clap::Args)]
pub(crate) struct Peers {
    /// A metaserver of the same file system, as HOST:PORT
    ///
    /// To be given for each of them, this one among them, in the same order at all of them. Clients
    /// may mount any, and move. All have the same iods, cluster key, name and options of stripes,
    /// one copy of each stripe, and no file is kept in DIR itself.
    #[arg(long, value_name = "HOST:PORT", help_heading = PEERS)]
    pub(crate) peer: Vec<IodAddress>,

    /// Which --peer this one is, the first being 0 [default: that of an address served here]
    #[arg(long, value_name = "N", requires = "peer", help_heading = PEERS)]
    pub(crate) number: Option<u32>,

    /// The number of a peer that is gone, and not waited for at the start
    ///
    /// A metaserver serves when all others have said that they know no later metadata of it. With
    /// --strict it waits three minutes first, until nobody goes by a lease of before.
    #[arg(long, value_name = "N", requires = "peer", hide_short_help = true, help_heading = PEERS)]
    pub(crate) without: Vec<u32>,

    /// Show nothing that is older than the last answer of any metaserver: the same at all of them
    ///
    /// Copies are had by leases then, of which the window is the term: who changes what others have a
    /// lease on takes it back first, and a WRITE is answered when it is known at the home of its file.
    /// Clients may hold leases on files. While a metaserver is away its files and directories are
    /// waited for as those on an iod are, and what its clients held leases on for three minutes.
    #[arg(long, requires = "peer", conflicts_with = "search", hide_short_help = true, help_heading = PEERS)]
    pub(crate) strict: bool,

    /// Whom is asked for a name that is not here
    ///
    /// `constant` asks the directory's home and then the object's, whatever the number of metaservers.
    /// `sequential` asks one after the other by number, `nearest` who answered soonest lately first,
    /// `tree` two at once, each with half of the others behind it. Not with --strict.
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = Search::Constant, hide_short_help = true, help_heading = PEERS)]
    pub(crate) search: Search,

    /// Seconds for which what another metaserver said counts: the same at all of them
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
/// Answers only who has the key of its cluster, and keeps everything as this user. The key does not
/// hide what passes on the wire: put iods where only the cluster's machines are.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Iod {
    /// The directory for stripes; empty at first [default: that of `[iod]` in the file of --config]
    #[arg(value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,

    /// The file with the key of the cluster: the same for its metaserver and all its iods
    ///
    /// One that is not there is made. Unless named it is the one that the file of --config has.
    #[arg(long, value_name = "FILE", help_heading = WHERE)]
    pub(crate) cluster_key: Option<PathBuf>,

    /// The configuration file of the cluster, the same at all its machines
    ///
    /// `[iod]` has the directory, `[[export]]` the key; this iod is the one of `iod` that has an address
    /// of this machine, and serves there. What is said on the command line counts before it.
    #[arg(long, value_name = "FILE", help_heading = WHAT)]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) server: Server,

    /// Say where it serves as one line of JSON
    #[arg(long, help_heading = HOW)]
    pub(crate) json: bool,
}
