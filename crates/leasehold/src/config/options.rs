//! Every option of the configuration file, defined once: from here come its parsing, the commented
//! file that `leasehold config init` writes, the reference in `docs/reference`, and for what can be
//! said on the command line too, that and its help.
//!
//! The first paragraph of each comment says what an option does, the others what to know. `init` is
//! what the commented file has for it: its default where there is one, else an example.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use tracing_subscriber::filter::LevelFilter;

use super::values::{Limit, Portmap, Size, limit, log_level, portmap};
use crate::binding::BindAt;
use crate::cluster::group::Search;
use crate::options::{HOW, WHAT, WHERE};

/// The whole file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct File {
    /// How the server runs.
    #[serde(default)]
    pub(crate) server: Server,
    /// What clients may use up.
    #[serde(default)]
    pub(crate) limits: Limits,
    /// What `leasehold iod` keeps.
    #[schemars(with = "Option<Iod>")]
    pub(crate) iod: Option<Spanned<Iod>>,
    /// A directory that is served. There may be many.
    #[serde(default)]
    #[schemars(with = "Vec<Export>")]
    pub(crate) export: Vec<Spanned<Export>>,
}

/// What can be said in the file under `[server]` and on the command line, which goes before it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct Server {
    /// When a change counts as safe: on `disk` or in `memory` [default: disk]
    ///
    /// With `disk`, what is answered as stable is on stable storage. With `memory` nothing is
    /// synced: faster, and a crash of the machine loses what was written last.
    #[arg(long, value_enum, hide_possible_values = true, value_name = "WHERE", help_heading = WHAT)]
    #[schemars(extend("init" = "disk"))]
    pub(crate) durability: Option<Durability>,

    /// Answer changes when a log on a small fast device has them: a file or a block device
    ///
    /// Stable writes and changes of names and attributes then need not wait for the disk that the
    /// served directory is on, which gets them within seconds. The log belongs to that directory, so
    /// there must be one only: after a crash the server must be started with the log again. A file
    /// is made where there is none. Example: `--stable-log /dev/pmem0`
    #[arg(long, value_name = "PATH", help_heading = WHAT)]
    #[schemars(extend("init" = "/dev/pmem0"))]
    pub(crate) stable_log: Option<PathBuf>,

    /// The size of a new log, in MiB: 8 at least [default: 64]
    ///
    /// When half of it is full, that half is put on the disk. With a unit: `"1 GiB"`.
    #[arg(
        long,
        value_name = "MIB",
        requires = "stable_log",
        hide_short_help = true,
        help_heading = WHAT
    )]
    #[schemars(with = "String", extend("init" = "64 MiB"))]
    pub(crate) stable_log_size: Option<Size>,

    /// Let programs of this machine go on at once where clients hold leases, and tell no client
    ///
    /// Otherwise a program that opens a file waits until the clients whose caches do not go with
    /// that have given them up (the kernel's own leases: 45 seconds at most), and clients are told
    /// of names that programs change. Clients without leases are not concerned.
    #[arg(long, hide_short_help = true, help_heading = WHAT)]
    #[schemars(extend("init" = false))]
    pub(crate) no_local_coherence: bool,

    /// Address to serve on, TCP and UDP; may be given several times [default: 127.0.0.1:2049]
    ///
    /// Port 0 has the system pick one, the same for TCP and UDP. To serve other machines, give an
    /// address of this one, or 0.0.0.0:2049 for all. A port alone is one of 127.0.0.1. Example:
    /// `--listen [::1]:2049`
    #[arg(
        long,
        value_name = "ADDR:PORT",
        value_parser = super::values::listen,
        help_heading = WHERE
    )]
    #[schemars(with = "Vec<String>", extend("init" = ["127.0.0.1:2049"]))]
    pub(crate) listen: Vec<SocketAddr>,

    /// Answer calls by UDP, too [default: true]
    ///
    /// With false the server takes no datagram, and clients mount by TCP, as Linux does unless an
    /// option says otherwise. A datagram proves no address of its sender: lists of exports and
    /// mounts are cut to 256 bytes by UDP, but a READ of a client that a rule names is answered
    /// with its data. Example: `--udp false`
    #[arg(long, value_name = "BOOL", hide_short_help = true, help_heading = WHERE)]
    #[schemars(with = "bool", extend("init" = true))]
    pub(crate) udp: Option<bool>,

    /// Tell clients where this server is, on port 111 or as named: a portmapper of its own
    ///
    /// Clients then mount without naming ports. For machines where no rpcbind runs; it tells of
    /// this server only. In the file: true, or an address. Example: `--portmap=0.0.0.0:111`
    #[arg(
        long,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "ADDR:PORT",
        value_parser = clap::value_parser!(Portmap),
        help_heading = WHERE
    )]
    #[serde(deserialize_with = "portmap")]
    #[schemars(with = "String", extend("init" = true))]
    pub(crate) portmap: Option<Portmap>,

    /// Have the rpcbind of this machine tell clients where this server is
    ///
    /// Clients then mount without naming ports. It is taken back when the server ends.
    #[arg(long, conflicts_with = "portmap", help_heading = WHERE)]
    #[schemars(extend("init" = false))]
    pub(crate) register: bool,

    /// Announce the exports on the local network (DNS-SD): `leasehold find` and others list them
    ///
    /// By the name of this machine, on the networks of the addresses that are served on, as the
    /// exports are at the start. One of several metaservers also by the name of its volume, of which
    /// clients take the least busy.
    #[arg(long, hide_short_help = true, help_heading = WHERE)]
    #[schemars(extend("init" = false))]
    pub(crate) announce: bool,

    /// Have this server bound to a name in the database of `leasehold names` there
    ///
    /// By the name of this machine unless one is given, with the address that the database is
    /// reached from, which must be served on; it is taken back at the end. The database believes
    /// root and its own user on its machine, and a port below 1024 of others. A server that cannot
    /// be bound serves none the less. Port 20490 unless named. Example: `--bind-at files@192.0.2.9`
    #[arg(long, value_name = "[NAME@]HOST[:PORT]", hide_short_help = true, help_heading = WHERE)]
    #[schemars(with = "String", extend("init" = "files@192.0.2.9:20490"))]
    pub(crate) bind_at: Option<BindAt>,

    /// Directory for what must survive a restart
    ///
    /// Unless named: a folder for each server in /var/lib/leasehold/servers for root, else in
    /// $XDG_STATE_HOME/leasehold/servers or ~/.local/state/leasehold/servers. The folder goes with the
    /// directory that is served, also when that is renamed; with a configuration file, with the path
    /// of the file. It holds the key that file handles are made with: with another key all mounts are
    /// stale. It must lie outside the served directories, out of the reach of clients, and belong to the
    /// server's user alone. One server at a time uses it.
    #[arg(long, value_name = "DIR", help_heading = HOW)]
    #[schemars(extend("init" = "/var/lib/leasehold/servers/files"))]
    pub(crate) state: Option<PathBuf>,

    /// Show the live view to browsers and metrics to Prometheus at this address
    ///
    /// `/` is the page, `/metrics` is for Prometheus (METRICS.md lists what it gives), `/live.json`
    /// for programs.
    /// Whoever reaches the address can read them. Example: `--http 127.0.0.1:9049`
    #[arg(long, value_name = "ADDR:PORT", help_heading = HOW)]
    #[schemars(with = "String", extend("init" = "127.0.0.1:9049"))]
    pub(crate) http: Option<SocketAddr>,

    /// A name that the live view is asked by, besides addresses, localhost and this machine's own
    ///
    /// To be given once for each. By another name no browser is answered: a page of another site
    /// could have given the name to this machine's address. Example: `--http-name files.example.org`
    #[arg(long, value_name = "NAME", hide_short_help = true, help_heading = HOW)]
    #[schemars(with = "Vec<String>", extend("init" = ["files.example.org"]))]
    pub(crate) http_name: Vec<String>,

    /// Threads that serve [default: one per processor]
    #[arg(long, value_name = "N", help_heading = HOW)]
    #[schemars(extend("init" = 4))]
    pub(crate) threads: Option<NonZeroUsize>,

    /// What to log to stderr: off, error, warn, info, debug, trace [default: info]
    #[arg(long, value_name = "LEVEL", env = "LEASEHOLD_LOG", help_heading = HOW)]
    #[serde(deserialize_with = "log_level")]
    #[schemars(with = "String", extend("init" = "info"))]
    pub(crate) log: Option<LevelFilter>,

    /// How lines of the log look: `plain` or `json` [default: plain]
    #[arg(
        long,
        value_enum,
        hide_possible_values = true,
        hide_short_help = true,
        value_name = "FORMAT",
        help_heading = HOW
    )]
    #[schemars(extend("init" = "plain"))]
    pub(crate) log_format: Option<LogFormat>,
}

/// What clients may use up.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct Limits {
    /// Connections at one time [default: 16384]
    ///
    /// A further one takes the place of one from an address that has more, or is closed. No more
    /// are taken than half of the descriptors that the process may have.
    #[serde(deserialize_with = "limit")]
    #[schemars(with = "u32", extend("init" = 16384))]
    pub(crate) connections: Option<Limit>,

    /// Connections of one client at one time [default: as many as of all]
    ///
    /// A further one is closed at once. A Linux client with `nconnect=N` has N for each server.
    #[serde(deserialize_with = "limit")]
    #[schemars(with = "u32", extend("init" = 64))]
    pub(crate) connections_per_client: Option<Limit>,

    /// The largest READ or WRITE that clients are told to make [default: 1 MiB]
    ///
    /// From 4 KiB to 1 MiB. Clients ask when they mount. Over UDP it is 32 KiB at most, in version 2
    /// always 8 KiB.
    #[schemars(with = "String", extend("init" = "1 MiB"))]
    pub(crate) transfer_size: Option<Size>,
}

/// What `leasehold iod --config` takes from the file that describes its cluster.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Iod {
    /// The directory for stripes of `leasehold iod --config FILE`, on every machine that runs one
    ///
    /// Empty at first. It serves on the address of `iod` in `[[export]]` that is its machine's own, or
    /// on that of `--listen`, and has the `cluster-key` of that export. From `[server]` it has
    /// `durability`, `udp`, `threads`, `log` and `log-format`, and `[limits]`; nothing else, so that a
    /// metaserver may run beside it: its state goes with its directory, and not with the file.
    #[schemars(with = "PathBuf", extend("init" = "/srv/stripes"))]
    pub(crate) directory: Spanned<PathBuf>,
}

/// A directory that is served, and who may do what there.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Export {
    /// The directory to serve
    #[schemars(with = "PathBuf", extend("init" = "/srv/data"))]
    pub(crate) directory: Spanned<PathBuf>,

    /// The name to mount it by [default: the last part of the directory]
    ///
    /// Clients mount /NAME, or the directory's path; where they find a single export, / does as
    /// well.
    #[serde(default)]
    #[schemars(with = "Option<String>", extend("init" = "data"))]
    pub(crate) name: Option<Spanned<String>>,

    /// Refuse every change, whoever asks [default: false]
    #[serde(default)]
    #[schemars(extend("init" = false))]
    pub(crate) read_only: bool,

    /// Let clients enter the file systems that are mounted below, and subvolumes of btrfs [default: false]
    ///
    /// Each is a file system of its own to clients, under the rules of this export, and its handles
    /// last over a restart and over the next mount. Otherwise clients see an empty directory there.
    /// A file system in use within the last seconds needs `umount --lazy`. Not with stripes, iods or
    /// a stable log.
    #[serde(default)]
    #[schemars(extend("init" = false))]
    pub(crate) cross: bool,

    /// Spread the data of files over these directories, and keep only names in `directory`
    ///
    /// Best on disks of their own; with one copy (see `copies`) a directory that is lost takes a
    /// part of every large file along. `directory` must be empty at first, and all of them
    /// must be named at each start.
    #[serde(default)]
    #[schemars(with = "Vec<PathBuf>", extend("init" = ["/disk1/stripes", "/disk2/stripes"]))]
    pub(crate) stripe: Vec<Spanned<PathBuf>>,

    /// Spread the data of files over these I/O daemons (iods), in place of `stripe`
    ///
    /// HOST:PORT of a `leasehold iod`, or `nfs://HOST/EXPORT` of any NFSv3 server. All
    /// must be named at each start; one that is new is used for new files.
    #[serde(default)]
    #[schemars(with = "Vec<String>", extend("init" = ["iod1:2049", "nfs://filer/stripes"]))]
    pub(crate) iod: Vec<Spanned<String>>,

    /// The file with the key of the cluster that `leasehold iod` is given too; made if need be
    #[serde(default)]
    #[schemars(with = "PathBuf", extend("init" = "/etc/leasehold/cluster.key"))]
    pub(crate) cluster_key: Option<PathBuf>,

    /// Seconds that an iod, or another metaserver, may be silent before what needs it fails [default: 60]
    #[serde(default)]
    #[schemars(with = "u32", extend("init" = 60))]
    pub(crate) iod_timeout: Option<Spanned<u32>>,

    /// Seconds that the metaserver keeps stripes of no file before it removes them [default: 3600]
    ///
    /// A crash in the midst of a removal leaves such stripes. The metaserver looks for them after a
    /// crash, and removes those that two searches so far apart have found. With 0 it only counts
    /// them, for `leasehold cluster repair`. Several metaservers do not look.
    #[serde(default)]
    #[schemars(with = "u32", extend("init" = 3600))]
    pub(crate) scrub_after: Option<Spanned<u32>>,

    /// How many iods, or directories of `stripe`, have each stripe: 1 or 2 [default: 1]
    ///
    /// With 1, what is lost takes a part of every large file along; with 2 one may be lost. What lies
    /// otherwise is moved in the background, also what one missed while it was away.
    #[serde(default)]
    #[schemars(with = "u16", extend("init" = 1))]
    pub(crate) copies: Option<Spanned<u16>>,

    /// The numbers of iods to be left: their files are moved in the background
    #[serde(default)]
    #[schemars(with = "Vec<u16>", extend("init" = [1]))]
    pub(crate) drain: Option<Spanned<Vec<u16>>>,

    /// Move files that lie on fewer iods than there are [default: false]
    #[serde(default)]
    #[schemars(extend("init" = false))]
    pub(crate) rebalance: bool,

    /// The numbers of iods that are gone for good, with what only they had
    #[serde(default)]
    #[schemars(with = "Vec<u16>", extend("init" = [2]))]
    pub(crate) lost: Vec<u16>,

    /// All metaservers that serve this file system, as HOST:PORT, this one among them
    ///
    /// In the same order at all of them, which can have the same file: each is the one that has an
    /// address which it serves on, unless `number` says another. Clients may mount any, and move.
    /// `name`, `iod`, `cluster-key` and the options of stripes are the same as well; there is one copy
    /// of each stripe, and the server has no other export.
    #[serde(default)]
    #[schemars(with = "Vec<String>", extend("init" = ["meta1:2049", "meta2:2049"]))]
    pub(crate) peer: Vec<Spanned<String>>,

    /// Which `peer` this one is, the first being 0 [default: the one with an address served here]
    ///
    /// To be said where addresses are translated on the way, or a machine has those of several.
    #[serde(default)]
    #[schemars(with = "u32", extend("init" = 0))]
    pub(crate) number: Option<Spanned<u32>>,

    /// The numbers of metaservers that are gone, and not waited for at the start
    #[serde(default)]
    #[schemars(with = "Vec<u32>", extend("init" = [1]))]
    pub(crate) without: Vec<Spanned<u32>>,

    /// Show nothing that is older than the last answer of any metaserver [default: false]
    ///
    /// The same at all of them. Otherwise what another one changed is seen within `lazy-window`.
    #[serde(default)]
    #[schemars(with = "bool", extend("init" = false))]
    pub(crate) strict: Option<Spanned<bool>>,

    /// Whom of several metaservers is asked for a name that is not here [default: constant]
    ///
    /// `constant` asks the directory's home and then the object's; `sequential` one after the other by
    /// number, `nearest` who answers soonest first, `tree` two at once with half of the others behind
    /// each. Not with `strict`.
    #[serde(default)]
    #[schemars(with = "String", extend("init" = "constant"))]
    pub(crate) search: Option<Spanned<Search>>,

    /// Seconds for which what another metaserver said counts, from 1 to 60 [default: 3]
    ///
    /// The same at all of them.
    #[serde(default)]
    #[schemars(with = "u32", extend("init" = 3))]
    pub(crate) lazy_window: Option<Spanned<u32>>,

    /// The size of a stripe of new files, from 4 KiB to 1 GiB [default: 1 MiB]
    #[serde(default)]
    #[schemars(with = "String", extend("init" = "1 MiB"))]
    pub(crate) stripe_unit: Option<Spanned<Size>>,

    /// The largest file that is kept whole in `directory`, up to 1 MiB [default: 64 KiB]
    #[serde(default)]
    #[schemars(with = "String", extend("init" = "64 KiB"))]
    pub(crate) stripe_inline: Option<Spanned<Size>>,

    /// Who may do what. The first rule that has the client's address counts, and no other; from a
    /// client that no rule has, the export is hidden. Without any rule, everybody may read and
    /// change it, root of theirs as nobody.
    #[serde(default)]
    pub(crate) client: Vec<Client>,
}

/// What some clients may.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Client {
    /// Which clients: addresses, networks, names of hosts, or `*` for everybody
    ///
    /// Names are looked up at the start and every minute from then on.
    #[schemars(with = "Vec<String>", extend("init" = ["10.0.0.0/8", "fd00::/8", "build.example.org"]))]
    pub(crate) from: Spanned<Vec<Spanned<String>>>,

    /// Refuse their changes [default: false]
    #[serde(default)]
    #[schemars(extend("init" = false))]
    pub(crate) read_only: bool,

    /// Who becomes the anonymous user: `root`, `all` or `none` [default: root]
    #[serde(default)]
    #[schemars(extend("init" = "root"))]
    pub(crate) squash: Squash,

    /// The anonymous user: a number or a name of this machine [default: 65534]
    #[serde(default)]
    #[schemars(with = "u32", extend("init" = 65534))]
    pub(crate) anonuid: Option<Spanned<Id>>,

    /// The anonymous group: a number or a name of this machine [default: 65534]
    #[serde(default)]
    #[schemars(with = "u32", extend("init" = 65534))]
    pub(crate) anongid: Option<Spanned<Id>>,

    /// Users over there that are others here: `from` is a number or a range, `to` a number or a name
    /// of this machine that all become, or a range of the same length
    ///
    /// Users that no range has stay as they are. Whoever is squashed is not mapped. Owners that
    /// clients are shown are those of this machine: give users the same numbers where you can.
    #[serde(default)]
    #[schemars(with = "Vec<Mapping>", extend("init" = [
        { "from": "1000-1999", "to": "501000-501999" },
        { "from": 500, "to": "www-data" }
    ]))]
    pub(crate) uid_map: Vec<Spanned<Mapping>>,

    /// Groups over there that are others here, as in `uid-map`
    #[serde(default)]
    #[schemars(with = "Vec<Mapping>", extend("init" = [{ "from": "100", "to": "users" }]))]
    pub(crate) gid_map: Vec<Spanned<Mapping>>,

    /// Whose word counts about a user's groups: the `client`'s or the `server`'s [default: client]
    ///
    /// A client can name 16 groups beside the main one, no more. With `server`, this machine's own
    /// list has the groups of the user, any number, and what the client says of groups does not
    /// count. It is looked up again after a minute.
    #[serde(default)]
    #[schemars(extend("init" = "client"))]
    pub(crate) groups: Groups,

    /// Believe their word about users also from ports that take no privilege [default: false]
    ///
    /// Without it, a client on another machine is believed when it asks from a port below 1024, and
    /// is the anonymous user otherwise.
    #[serde(default)]
    #[schemars(extend("init" = false))]
    pub(crate) insecure: bool,
}

/// A number, or a text that holds one, a range, or a name.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a number up to 4294967294, a range such as \"1000-1999\", or a name"
)]
pub(crate) enum Id {
    /// A number.
    Number(u32),
    /// A text.
    Text(String),
}

/// Numbers over there and what they are here.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mapping {
    /// Over there.
    pub(crate) from: Id,
    /// Here.
    pub(crate) to: Id,
}

/// Who becomes the anonymous user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Squash {
    /// Everybody.
    All,
    /// Nobody.
    None,
    /// Root.
    #[default]
    Root,
}

/// Whose word counts about a user's groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Groups {
    /// The client's.
    #[default]
    Client,
    /// This machine's.
    Server,
}

/// When a change counts as safe.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Durability {
    /// When it is on stable storage.
    #[default]
    Disk,
    /// When it is in the server's memory.
    Memory,
}

/// How lines of the log look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Text for people.
    #[default]
    Plain,
    /// An object of JSON.
    Json,
}

impl Export {
    /// The numbers of iods that files are to leave.
    pub(crate) fn drained(&self) -> &[u16] {
        self.drain.as_ref().map_or(&[], |drain| drain.get_ref())
    }
}
