//! All options of the configuration file, each defined once. The definitions yield the parser, the
//! commented file that `leasehold config init` writes, the reference in `docs/reference`, and the
//! command-line options with their help.
//!
//! The first paragraph of each comment describes the effect of the option; further paragraphs add
//! details. `init` is the value in the commented file: the default if the option has one, otherwise
//! an example.

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
use crate::cluster::search::Search;
use crate::defaults::{HOW, WHAT, WHERE};

/// The whole configuration file.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct File {
    /// The operation of the server.
    #[serde(default)]
    pub(crate) server: Server,
    /// Limits on the resources that clients use.
    #[serde(default)]
    pub(crate) limits: Limits,
    /// The storage of stripes by `leasehold iod`.
    #[schemars(with = "Option<Iod>")]
    pub(crate) iod: Option<Spanned<Iod>>,
    /// A directory to serve. The file may have several of these tables.
    #[serde(default)]
    #[schemars(with = "Vec<Export>")]
    pub(crate) export: Vec<Spanned<Export>>,
}

/// A version of NFS.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum NfsVersion {
    #[serde(rename = "2")]
    #[value(name = "2")]
    V2,
    #[serde(rename = "3")]
    #[value(name = "3")]
    V3,
    #[serde(rename = "4.1")]
    #[value(name = "4.1")]
    V4Minor1,
    #[serde(rename = "4.2")]
    #[value(name = "4.2")]
    V4Minor2,
}

/// The options of `[server]`; the same options on the command line override them.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct Server {
    /// The storage that a change must reach before it counts as stable: `disk` or `memory`
    /// [default: disk]
    ///
    /// With `disk`, the server syncs a change to the disk before it replies that the change is
    /// stable. With `memory` the server syncs nothing: it is faster, but a crash of the machine
    /// loses the latest changes.
    #[arg(long, value_enum, hide_possible_values = true, value_name = "WHERE", help_heading = WHAT)]
    #[schemars(extend("init" = "disk"))]
    pub(crate) durability: Option<Durability>,

    /// Acknowledge a change when a log on a small fast device has it: a file or a block device
    ///
    /// A stable write, or a change of names or attributes, then does not wait for the disk of the
    /// served directory: the server writes it to that disk within seconds. The log belongs to that
    /// directory, so the server can serve only one directory. After a crash, start the server with
    /// the same log again. If the file does not exist, the server creates it. Example:
    /// `--stable-log /dev/pmem0`
    #[arg(long, value_name = "PATH", help_heading = WHAT)]
    #[schemars(extend("init" = "/dev/pmem0"))]
    pub(crate) stable_log: Option<PathBuf>,

    /// The size of a new log, in MiB: at least 8 [default: 64]
    ///
    /// When half of the log is full, the server writes the changes in that half to the disk of the
    /// directory. A value with a unit is possible: `"1 GiB"`.
    #[arg(
        long,
        value_name = "MIB",
        requires = "stable_log",
        hide_short_help = true,
        help_heading = WHAT
    )]
    #[schemars(with = "String", extend("init" = "64 MiB"))]
    pub(crate) stable_log_size: Option<Size>,

    /// Do not protect clients' leases against programs on this machine, and do not notify clients
    ///
    /// Without this option, a program on this machine that opens a file waits until clients with
    /// conflicting leases have returned them (by kernel leases: at most 45 seconds), and the server
    /// notifies clients of names that programs change. The option has no effect on clients without
    /// leases.
    #[arg(long, hide_short_help = true, help_heading = WHAT)]
    #[schemars(extend("init" = false))]
    pub(crate) no_local_coherence: bool,

    /// An address to serve on, for TCP and UDP; may be given several times [default:
    /// 127.0.0.1:2049]
    ///
    /// With port 0 the system chooses a port, equal for TCP and UDP. To serve other machines, give
    /// an address of this machine, or 0.0.0.0:2049 for all addresses. A port without an address
    /// means 127.0.0.1. Example: `--listen [::1]:2049`
    #[arg(
        long,
        value_name = "ADDR:PORT",
        value_parser = super::values::listen,
        help_heading = WHERE
    )]
    #[schemars(with = "Vec<String>", extend("init" = ["127.0.0.1:2049"]))]
    pub(crate) listen: Vec<SocketAddr>,

    /// Serve UDP as well as TCP [default: true]
    ///
    /// With false the server receives no datagrams, and clients mount over TCP, which is the
    /// default of Linux. A datagram does not prove the address of its sender. Over UDP the server
    /// therefore cuts lists of exports and mounts to 256 bytes, but it still answers a READ whose
    /// sender address matches a rule, and sends the data to that address. Example: `--udp false`
    #[arg(long, value_name = "BOOL", hide_short_help = true, help_heading = WHERE)]
    #[schemars(with = "bool", extend("init" = true))]
    pub(crate) udp: Option<bool>,

    /// A version of NFS to serve: 2, 3, 4.1 or 4.2; may be given several times [default: 2, 3]
    ///
    /// Versions 4.1 and 4.2 are experimental: they have no delegations. One of several metaservers does
    /// not serve them, and clients then use version 3. MOUNT 1 and 2 belong to version 2, and MOUNT 3
    /// belongs to version 3. Example: `--versions 3,4.2`
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        hide_possible_values = true,
        hide_short_help = true,
        value_name = "VERSION",
        help_heading = WHERE
    )]
    #[schemars(with = "Vec<String>", extend("init" = ["2", "3"]))]
    pub(crate) versions: Vec<NfsVersion>,

    /// Run a portmapper for this server, on port 111 or at the given address
    ///
    /// Clients then need no port options in their mount commands. Use this option on machines
    /// without rpcbind; the portmapper lists only this server. In the file: true, or an address.
    /// Example: `--portmap=0.0.0.0:111`
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

    /// Register the ports of this server with the rpcbind of this machine
    ///
    /// Clients then need no port options in their mount commands. The server removes the
    /// registration when it ends.
    #[arg(long, conflicts_with = "portmap", help_heading = WHERE)]
    #[schemars(extend("init" = false))]
    pub(crate) register: bool,

    /// Announce the exports on the local network (DNS-SD), where `leasehold find` lists them
    ///
    /// The server announces the exports that exist at its start, under the name of this machine, on
    /// the networks of its addresses. If several metaservers serve one file system, each also
    /// announces the name of the file system; a client that mounts by this name uses the least
    /// loaded metaserver.
    #[arg(long, hide_short_help = true, help_heading = WHERE)]
    #[schemars(extend("init" = false))]
    pub(crate) announce: bool,

    /// Register this server under a name in the database of `leasehold names` at this address
    ///
    /// Without NAME, the server registers under the name of this machine. The registered address is
    /// the local address of the connection to the database, and the server must listen on it. The
    /// server removes the registration when it ends. The database accepts registrations by root and
    /// by its own user on its machine, and from ports below 1024 on other machines. If the
    /// registration fails, the server serves without it. The default port is 20490. Example:
    /// `--bind-at files@192.0.2.9`
    #[arg(long, value_name = "[NAME@]HOST[:PORT]", hide_short_help = true, help_heading = WHERE)]
    #[schemars(with = "String", extend("init" = "files@192.0.2.9:20490"))]
    pub(crate) bind_at: Option<BindAt>,

    /// The directory for the state of the server that must survive a restart
    ///
    /// The default is a folder for each server in /var/lib/leasehold/servers for root, otherwise in
    /// $XDG_STATE_HOME/leasehold/servers or ~/.local/state/leasehold/servers. The folder belongs to
    /// the served directory, also after a rename of the directory; with a configuration file, it
    /// belongs to the path of the file. The state contains the key of all file handles: with
    /// another key all mounts become stale. The state directory must lie outside the served
    /// directories, so that clients cannot reach it, and only the user who runs the server may own
    /// it. Only one server at a time can use it.
    #[arg(long, value_name = "DIR", help_heading = HOW)]
    #[schemars(extend("init" = "/var/lib/leasehold/servers/files"))]
    pub(crate) state: Option<PathBuf>,

    /// Serve a web page with live activity, and Prometheus metrics
    ///
    /// `/` is the page for browsers, `/metrics` is for Prometheus (METRICS.md lists the metrics),
    /// and `/live.json` is for programs. Every program that can connect to the address can read all
    /// of this data. Example: `--http 127.0.0.1:9049`
    #[arg(long, value_name = "ADDR:PORT", help_heading = HOW)]
    #[schemars(with = "String", extend("init" = "127.0.0.1:9049"))]
    pub(crate) http: Option<SocketAddr>,

    /// A further host name under which browsers may open the page of --http
    ///
    /// Give this option once for each name. The server always accepts IP addresses, localhost and
    /// the names of this machine. It rejects requests with another host name, because a page of
    /// another site could have mapped that name to this machine's address to read the data.
    /// Example: `--http-name files.example.org`
    #[arg(long, value_name = "NAME", hide_short_help = true, help_heading = HOW)]
    #[schemars(with = "Vec<String>", extend("init" = ["files.example.org"]))]
    pub(crate) http_name: Vec<String>,

    /// The number of threads that serve requests [default: one per processor]
    #[arg(long, value_name = "N", help_heading = HOW)]
    #[schemars(extend("init" = 4))]
    pub(crate) threads: Option<NonZeroUsize>,

    /// The log level for stderr: off, error, warn, info, debug, trace [default: info]
    #[arg(long, value_name = "LEVEL", env = "LEASEHOLD_LOG", help_heading = HOW)]
    #[serde(deserialize_with = "log_level")]
    #[schemars(with = "String", extend("init" = "info"))]
    pub(crate) log: Option<LevelFilter>,

    /// The format of log lines: `plain` or `json` [default: plain]
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

/// Limits on the resources that clients use.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct Limits {
    /// The maximum number of concurrent connections [default: 16384]
    ///
    /// When the limit is reached, a new connection replaces a connection of a client address that
    /// has more connections than the new client; otherwise the server closes the new connection.
    /// The limit is at most half of the process's limit on descriptors.
    #[serde(deserialize_with = "limit")]
    #[schemars(with = "u32", extend("init" = 16384))]
    pub(crate) connections: Option<Limit>,

    /// The maximum number of concurrent connections of one client [default: the limit for all
    /// clients]
    ///
    /// The server closes a further connection of the client at once. A Linux client with
    /// `nconnect=N` has N connections to each server.
    #[serde(deserialize_with = "limit")]
    #[schemars(with = "u32", extend("init" = 64))]
    pub(crate) connections_per_client: Option<Limit>,

    /// The maximum size of a READ or WRITE that the server offers to clients [default: 1 MiB]
    ///
    /// From 4 KiB to 1 MiB. Clients read the limit when they mount. Over UDP the limit is at most
    /// 32 KiB; in NFS version 2 it is always 8 KiB.
    #[schemars(with = "String", extend("init" = "1 MiB"))]
    pub(crate) transfer_size: Option<Size>,
}

/// The options of `leasehold iod --config FILE`, where FILE describes the whole cluster.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Iod {
    /// The directory in which `leasehold iod --config FILE` stores stripes, on every machine of the
    /// cluster that runs an iod
    ///
    /// The directory must be empty at the first start. The iod listens on the entry of `iod` in
    /// `[[export]]` that is an address of its machine, or on the address of `--listen`, and uses
    /// the `cluster-key` of that export. From `[server]` it takes only `durability`, `udp`,
    /// `threads`, `log` and `log-format`, and from the file also `[limits]`. A metaserver may run
    /// on the same machine: the state of an iod belongs to the iod's directory, and not to the
    /// file.
    #[schemars(with = "PathBuf", extend("init" = "/srv/stripes"))]
    pub(crate) directory: Spanned<PathBuf>,
}

/// A directory to serve, and the rights of clients in it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Export {
    /// The directory to serve
    #[schemars(with = "PathBuf", extend("init" = "/srv/data"))]
    pub(crate) directory: Spanned<PathBuf>,

    /// The name under which clients mount the directory [default: the last part of the directory]
    ///
    /// Clients mount /NAME, or the directory's path; if a client can see only one export, / works
    /// as well.
    #[serde(default)]
    #[schemars(with = "Option<String>", extend("init" = "data"))]
    pub(crate) name: Option<Spanned<String>>,

    /// Refuse all requests that change files [default: false]
    #[serde(default)]
    #[schemars(extend("init" = false))]
    pub(crate) read_only: bool,

    /// Let clients enter other file systems that are mounted below the directory, and subvolumes of
    /// btrfs [default: false]
    ///
    /// Clients see each of these file systems as a separate file system, under the rules of this
    /// export. File handles in it stay valid after a restart of the server, and after an unmount
    /// and a new mount. With false, clients see an empty directory in place of each of these file
    /// systems. To unmount a file system that clients used within the last seconds, run `umount
    /// --lazy`. This option excludes `stripe`, `iod` and `stable-log`.
    #[serde(default)]
    #[schemars(extend("init" = false))]
    pub(crate) cross: bool,

    /// Divide the data of files into stripes in these directories, and keep only names in
    /// `directory`
    ///
    /// Separate disks are best. With one copy (see `copies`) the loss of one of the directories
    /// loses a part of every large file. `directory` must be empty at the first start, and each
    /// start must name all directories.
    #[serde(default)]
    #[schemars(with = "Vec<PathBuf>", extend("init" = ["/disk1/stripes", "/disk2/stripes"]))]
    pub(crate) stripe: Vec<Spanned<PathBuf>>,

    /// Divide the data of files into stripes on these I/O daemons (iods), in place of `stripe`
    ///
    /// An entry is HOST:PORT of a `leasehold iod`, or `nfs://HOST/EXPORT` of any NFSv3 server. Each
    /// start must name all iods; the server uses an additional iod for new files.
    #[serde(default)]
    #[schemars(with = "Vec<String>", extend("init" = ["iod1:2049", "nfs://filer/stripes"]))]
    pub(crate) iod: Vec<Spanned<String>>,

    /// The file with the secret key that all servers of the cluster share; created if missing
    #[serde(default)]
    #[schemars(with = "PathBuf", extend("init" = "/etc/leasehold/cluster.key"))]
    pub(crate) cluster_key: Option<PathBuf>,

    /// Seconds for which operations wait for an unreachable iod or metaserver before they fail
    /// [default: 60]
    #[serde(default)]
    #[schemars(with = "u32", extend("init" = 60))]
    pub(crate) iod_timeout: Option<Spanned<u32>>,

    /// Seconds for which the metaserver keeps stripes that belong to no file [default: 3600]
    ///
    /// A crash during the removal of a file can leave such stripes. The metaserver searches for
    /// them after a crash, and removes the stripes that it finds in two searches with this interval
    /// between them. With 0 it only counts them, and `leasehold cluster repair` removes them. If
    /// several metaservers serve the file system, they do not search.
    #[serde(default)]
    #[schemars(with = "u32", extend("init" = 3600))]
    pub(crate) scrub_after: Option<Spanned<u32>>,

    /// The number of copies of each stripe, each on its own iod or directory: 1 or 2 [default: 1]
    ///
    /// With 1, the loss of one iod or directory loses a part of every large file; with 2, the data
    /// survives the loss of one. After a change of this option, the server adds or removes copies
    /// of existing files in the background. It also updates copies that missed changes.
    #[serde(default)]
    #[schemars(with = "u16", extend("init" = 1))]
    pub(crate) copies: Option<Spanned<u16>>,

    /// The numbers of iods to empty: the server moves their stripes to other iods in the background
    #[serde(default)]
    #[schemars(with = "Vec<u16>", extend("init" = [1]))]
    pub(crate) drain: Option<Spanned<Vec<u16>>>,

    /// Redistribute existing files over all iods, after iods were added [default: false]
    #[serde(default)]
    #[schemars(extend("init" = false))]
    pub(crate) rebalance: bool,

    /// The numbers of iods that are permanently lost, with all data that only they stored
    #[serde(default)]
    #[schemars(with = "Vec<u16>", extend("init" = [2]))]
    pub(crate) lost: Vec<u16>,

    /// All metaservers of this file system, as HOST:PORT, including this one
    ///
    /// The order must be equal at all metaservers. All metaservers can share one configuration
    /// file: each metaserver is the entry whose address it serves on, unless `number` names another
    /// entry. Clients may mount any of these metaservers, and change to another one. `name`, `iod`,
    /// `cluster-key` and the stripe options must be equal as well. Each stripe has one copy, and
    /// the server has no other export.
    #[serde(default)]
    #[schemars(with = "Vec<String>", extend("init" = ["meta1:2049", "meta2:2049"]))]
    pub(crate) peer: Vec<Spanned<String>>,

    /// The index of this metaserver in `peer`, from 0 [default: the entry with an address served
    /// here]
    ///
    /// Give this option if addresses are translated between the metaservers, or if one machine has
    /// the addresses of several entries.
    #[serde(default)]
    #[schemars(with = "u32", extend("init" = 0))]
    pub(crate) number: Option<Spanned<u32>>,

    /// The indexes of metaservers that are permanently lost: the start does not wait for them
    #[serde(default)]
    #[schemars(with = "Vec<u32>", extend("init" = [1]))]
    pub(crate) without: Vec<Spanned<u32>>,

    /// Never show data that is older than a reply of any metaserver [default: false]
    ///
    /// The value must be equal at all metaservers. With false, a change at another metaserver
    /// becomes visible within `lazy-window`.
    #[serde(default)]
    #[schemars(with = "bool", extend("init" = false))]
    pub(crate) strict: Option<Spanned<bool>>,

    /// The order in which to query other metaservers for a name that this metaserver does not have
    /// [default: constant]
    ///
    /// `constant` queries the home of the directory and then the home of the object, where the home
    /// is the metaserver that stores the metadata. `sequential` queries one metaserver after the
    /// other in the order of `peer`. `nearest` first queries the metaserver that recently replied
    /// fastest. `tree` queries two metaservers in parallel, and each of them queries half of the
    /// remaining ones. Not with `strict`.
    #[serde(default)]
    #[schemars(with = "String", extend("init" = "constant"))]
    pub(crate) search: Option<Spanned<Search>>,

    /// Seconds for which metadata of another metaserver may be used from the cache, from 1 to 60
    /// [default: 3]
    ///
    /// The value must be equal at all metaservers.
    #[serde(default)]
    #[schemars(with = "u32", extend("init" = 3))]
    pub(crate) lazy_window: Option<Spanned<u32>>,

    /// The size of one stripe of a new file, from 4 KiB to 1 GiB [default: 1 MiB]
    #[serde(default)]
    #[schemars(with = "String", extend("init" = "1 MiB"))]
    pub(crate) stripe_unit: Option<Spanned<Size>>,

    /// The maximum size of a file that is stored whole in `directory`, up to 1 MiB [default: 64
    /// KiB]
    #[serde(default)]
    #[schemars(with = "String", extend("init" = "64 KiB"))]
    pub(crate) stripe_inline: Option<Spanned<Size>>,

    /// The rights of clients. Only the first rule that matches the client's address applies; the
    /// export is hidden from a client that matches no rule. Without any rule, every client may read
    /// and change the export, and root of a client becomes the anonymous user.
    #[serde(default)]
    pub(crate) client: Vec<Client>,
}

/// The rights of some clients.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Client {
    /// The clients to which the rule applies: addresses, networks, host names, or `*` for all
    ///
    /// The server resolves host names when it starts and then every minute.
    #[schemars(with = "Vec<String>", extend("init" = ["10.0.0.0/8", "fd00::/8", "build.example.org"]))]
    pub(crate) from: Spanned<Vec<Spanned<String>>>,

    /// Refuse requests of these clients that change files [default: false]
    #[serde(default)]
    #[schemars(extend("init" = false))]
    pub(crate) read_only: bool,

    /// The users of the client that the server treats as the anonymous user: `root`, `all` or
    /// `none` [default: root]
    #[serde(default)]
    #[schemars(extend("init" = "root"))]
    pub(crate) squash: Squash,

    /// The anonymous user: a user id or a user name of this machine [default: 65534]
    #[serde(default)]
    #[schemars(with = "u32", extend("init" = 65534))]
    pub(crate) anonuid: Option<Spanned<Id>>,

    /// The anonymous group: a group id or a group name of this machine [default: 65534]
    #[serde(default)]
    #[schemars(with = "u32", extend("init" = 65534))]
    pub(crate) anongid: Option<Spanned<Id>>,

    /// Maps user ids of the client to user ids of this machine: `from` is an id or a range of ids,
    /// `to` is one id or user name, or a range of the same length
    ///
    /// Users outside the ranges keep their ids. The map does not apply to users that `squash` makes
    /// anonymous. Clients see the owners of files with the ids of this machine: use equal ids if
    /// you can.
    #[serde(default)]
    #[schemars(with = "Vec<Mapping>", extend("init" = [
        { "from": "1000-1999", "to": "501000-501999" },
        { "from": 500, "to": "www-data" }
    ]))]
    pub(crate) uid_map: Vec<Spanned<Mapping>>,

    /// Maps group ids of the client to group ids of this machine, as in `uid-map`
    #[serde(default)]
    #[schemars(with = "Vec<Mapping>", extend("init" = [{ "from": "100", "to": "users" }]))]
    pub(crate) gid_map: Vec<Spanned<Mapping>>,

    /// The source of a user's groups: the `client` or the `server` [default: client]
    ///
    /// A client can send at most 16 groups besides the primary group. With `server`, the server
    /// takes all groups of the user from this machine's own user database, and ignores the groups
    /// that the client sends. It reads the database again after a minute.
    #[serde(default)]
    #[schemars(extend("init" = "client"))]
    pub(crate) groups: Groups,

    /// Trust the user ids that these clients send from unprivileged ports [default: false]
    ///
    /// With false, the server trusts a client on another machine if its requests come from a port
    /// below 1024; otherwise it maps the client's users to the anonymous user.
    #[serde(default)]
    #[schemars(extend("init" = false))]
    pub(crate) insecure: bool,
}

/// An id, or a text with an id, a range of ids, or a name.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a number up to 4294967294, a range such as \"1000-1999\", or a name"
)]
pub(crate) enum Id {
    /// An id.
    Number(u32),
    /// A text with an id, a range of ids, or a name.
    Text(String),
}

/// Ids on the client and the corresponding ids on this machine.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mapping {
    /// The ids on the client.
    pub(crate) from: Id,
    /// The groups that the client sends.
    pub(crate) to: Id,
}

/// The users that become the anonymous user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Squash {
    /// All users.
    All,
    /// No user.
    None,
    /// Root.
    #[default]
    Root,
}

/// The source of a user's groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Groups {
    /// The client.
    #[default]
    Client,
    /// The groups in this machine's user database.
    Server,
}

/// The storage that makes a change stable.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Durability {
    /// The change is on stable storage.
    #[default]
    Disk,
    /// The change is in the server's memory.
    Memory,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Text for people.
    #[default]
    Plain,
    /// A JSON object.
    Json,
}

impl Export {
    /// Returns the numbers of the iods to empty.
    pub(crate) fn drained(&self) -> &[u16] {
        self.drain.as_ref().map_or(&[], |drain| drain.get_ref())
    }
}
