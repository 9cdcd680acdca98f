//! The configuration of a server, from a file or from the command line.

mod conflicts;
mod facts;
mod init;
mod iods;
pub(crate) mod options;
mod peers;
mod rules;
mod source;
mod values;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use leasehold_base::limits::{TRANSFER_BYTES_MAX, TRANSFER_V2_BYTES_MAX};
use leasehold_cluster::{Key, Layout, check_names, noted_epochs};
use leasehold_fs::ClientKey;
use leasehold_serve::access::{Access, Identity, Rule, Squash, User};
use leasehold_serve::{Epoch, EpochKey, HandleKey, NfsVersions};
use leasehold_shell::process;
use toml::Spanned;

pub(crate) use self::facts::{Difference, Facts, grant};
pub(crate) use self::init::run as init;
use self::iods::Keeper;
use self::options::{Durability, Export, Limits, NfsVersion, Server};
use self::rules::{Wrong, rule, without_any};
pub(crate) use self::rules::{is_name, look_up};
use self::source::Source;
use self::values::{Portmap, Size};
use crate::checks;
use crate::cluster::options::{Iod, Meta};
use crate::defaults::{self, STABLE_LOG_MIB, TRANSFER_BYTES_MIN};
use crate::failure::{Failure, Kind};
use crate::options::Serve;
use crate::place;
use crate::stripes;

/// The notice of a metaserver whose options request version 4.
pub(crate) const LACKS_V4: &str = "one of several metaservers does not serve NFS version 4: a \
                                   mount without a version uses version 3";

const _: () = assert!(TRANSFER_BYTES_MIN <= TRANSFER_V2_BYTES_MAX as u64);

/// The configuration of a server, checked as far as possible before the start.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The configuration file.
    pub(crate) file: Option<PathBuf>,
    pub(crate) server: Server,
    /// True if the options request version 4 of NFS, which one of several metaservers does not
    /// serve.
    pub(crate) lacks_v4: bool,
    pub(crate) limits: Limits,
    pub(crate) stable_log_mib: u32,
    pub(crate) transfer_bytes_max: u32,
    pub(crate) state: PathBuf,
    pub(crate) exports: Vec<Planned>,
    /// The directory in which iods that use the same file store stripes.
    pub(crate) iod_directory: Option<PathBuf>,
}

/// A planned export.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    /// The absolute path of the directory, without symbolic links.
    pub(crate) directory: PathBuf,
    /// The path that clients mount: `/name`.
    pub(crate) name: String,
    pub(crate) read_only: bool,
    /// True if clients may enter the file systems that are mounted below the directory.
    pub(crate) cross: bool,
    /// The distribution of the files' data over directories or iods.
    pub(crate) layout: Layout,
    /// The rules for clients. The rules name hosts without addresses until [`Plan::look_up`]
    /// resolves the names.
    pub(crate) rules: Vec<Rule>,
    /// The only path that mounts the export, if the export is hidden from all clients that do not
    /// know this path.
    pub(crate) secret: Option<String>,
}

/// The keys and epochs by which an iod authenticates its callers.
pub(crate) struct IodCallers {
    /// The key of the authentication tokens of metaservers.
    pub(crate) key: EpochKey,
    /// The epochs that metaservers have recorded.
    pub(crate) noted: Vec<Epoch>,
    /// The key from which the owner numbers for direct data access derive; `None` if the iod cannot
    /// serve clients.
    pub(crate) clients: Option<ClientKey>,
}

impl Plan {
    /// Plans the server of a command line, with its configuration file.
    pub(crate) fn of(options: &Serve) -> Result<Self, Failure> {
        match (&options.config, &options.directory) {
            (Some(file), _) => Self::read(file, &options.server),
            (None, Some(directory)) => Self::of_directory(directory, options),
            (None, None) => {
                let text = "name a directory to serve, or a file with --config FILE";
                Err(Kind::Options.because(text))
            }
        }
    }

    /// Plans the server of a file; the options in `server` override the file.
    pub(crate) fn read(path: &Path, server: &Server) -> Result<Self, Failure> {
        let (source, file) = Source::read(path)?;
        let at = |wrong: Wrong| source.at(&wrong);
        if file.export.is_empty() {
            let shown = path.display();
            let text = format!("{shown} serves nothing: add [[export]] with a `directory`");
            return Err(Kind::Options.because(text));
        }
        let iod_directory = iods::directory(&file).map_err(at)?;
        let server = merged(server, file.server);
        conflicts::find(&server, &file.limits).map_err(|conflict| source.conflict(conflict))?;
        let mut exports = Vec::new();
        let mut taken = BTreeSet::new();
        for export in &file.export {
            let planned = planned(export.get_ref(), &server.listen).map_err(at)?;
            for (what, is_new) in [
                ("name", taken.insert(planned.name.clone())),
                ("directory", taken.insert(format!("\0{}", planned.directory.display()))),
            ] {
                if !is_new {
                    let text = format!("another export has this {what}: each must have its own");
                    return Err(at(Wrong::at(export, text)));
                }
            }
            exports.push(planned);
        }
        let mut several = file.export.iter().filter(|export| !export.get_ref().peer.is_empty());
        if let (true, Some(export)) = (exports.len() > 1, several.next()) {
            let text = "one of several metaservers serves nothing else: give other exports a \
                        server of their own";
            return Err(at(Wrong::at(export, text)));
        }
        let plan = Self::new(Some(path.to_path_buf()), server, file.limits, exports)?;
        Ok(Self { iod_directory, ..plan })
    }

    /// Plans the server of a file, with all checks that a start would run.
    pub(crate) fn checked(path: &Path) -> Result<Self, Failure> {
        let plan = Self::read(path, &Server::default())?;
        conflicts::look(path)?;
        Ok(plan)
    }

    /// Plans a metaserver.
    pub(crate) fn of_meta(options: &Meta) -> Result<Self, Failure> {
        let directory = checks::directory(&options.directory)?;
        let layout = Layout {
            iods: options.iod.clone(),
            cluster_key: options.cluster_key.clone(),
            iod_timeout_s: options.iod_timeout,
            scrub_after_s: options.scrub_after,
            lost: options.lost.clone(),
            drain: options.drain.clone(),
            copies: options.copies,
            rebalance: options.rebalance,
            unit_kib: options.stripe_unit,
            inline_kib: options.stripe_inline,
            group: peers::of_options(&options.peers, &options.server.listen)?,
            ..Layout::default()
        };
        let moves = options.copies > 1 || options.rebalance || !options.drain.is_empty();
        if layout.group.is_some() && moves {
            let text = "with --peer each stripe has one copy that never moves, because other \
                        metaservers would not learn of a move";
            return Err(Kind::Options.because(text));
        }
        let name = checks::name(options.name.as_deref(), &options.directory, &directory)?;
        let rules = Access::everybody(options.insecure).rules().to_vec();
        let (read_only, cross) = (options.read_only, false);
        let export = Planned { directory, name, read_only, cross, layout, rules, secret: None };
        Self::new(None, options.server.clone(), Limits::default(), vec![export])
    }

    /// Plans an iod. Only a metaserver of the cluster may act as the user that runs the iod
    /// (`Service::as_iod`).
    pub(crate) fn of_iod(options: &Iod) -> Result<Self, Failure> {
        let Keeper { directory, cluster_key, server, limits } = Keeper::of(options)?;
        checks::cluster_key(Some(&cluster_key), &directory)?;
        let key = Key::of(&cluster_key)?;
        let anonymous = User {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        };
        let identity = Identity { squash: Squash::All, anonymous, ..Identity::default() };
        let rules = Access::everybody(true).rules().to_vec();
        let rules = rules.into_iter().map(|rule| Rule { identity: identity.clone(), ..rule });
        let export = Planned {
            directory,
            name: "/iod".to_owned(),
            read_only: false,
            cross: false,
            layout: Layout { cluster_key: Some(cluster_key), ..Layout::default() },
            rules: rules.collect(),
            secret: Some(key.path()),
        };
        // The file describes another server than the iod, so the iod has no file to reload.
        Self::new(None, server, limits, vec![export])
    }

    /// Plans a server of one directory with default options.
    pub(crate) fn of_plain(directory: &Path, server: &Server) -> Result<Self, Failure> {
        let said = directory;
        let directory = checks::directory(said)?;
        let name = checks::name(None, said, &directory)?;
        let rules = Access::everybody(false).rules().to_vec();
        let layout = Layout::default();
        let (read_only, cross) = (false, false);
        let export = Planned { directory, name, read_only, cross, layout, rules, secret: None };
        Self::new(None, server.clone(), Limits::default(), vec![export])
    }

    fn of_directory(directory: &Path, options: &Serve) -> Result<Self, Failure> {
        let said = directory;
        let directory = checks::directory(said)?;
        let name = checks::name(options.name.as_deref(), said, &directory)?;
        let rules = Access::everybody(options.insecure).rules().to_vec();
        let paths = options.stripe.iter().map(|path| checks::directory(path));
        let layout = Layout {
            paths: paths.collect::<Result<_, _>>()?,
            unit_kib: options.stripe_unit,
            inline_kib: options.stripe_inline,
            ..Layout::default()
        };
        let (read_only, cross) = (options.read_only, options.cross);
        let export = Planned { directory, name, read_only, cross, layout, rules, secret: None };
        Self::new(None, options.server.clone(), Limits::default(), vec![export])
    }

    fn new(
        file: Option<PathBuf>,
        mut server: Server,
        limits: Limits,
        exports: Vec<Planned>,
    ) -> Result<Self, Failure> {
        let is_one_of_several = exports.iter().any(|export| export.layout.group.is_some());
        let lacks_v4 = is_one_of_several && server.drop_v4();
        let wrong = |text: &str| Err(Kind::Options.because(text));
        conflicts::find(&server, &limits)?;
        let mib = server.stable_log_size.map_or(u64::from(STABLE_LOG_MIB), |size| size.0 >> 20);
        let Ok(stable_log_mib) = u32::try_from(mib) else {
            return wrong("the size of a stable log must be below 4 PiB");
        };
        if server.stable_log.is_some() && exports.len() > 1 {
            return wrong("a stable log belongs to one directory: serve only one export");
        }
        if server.stable_log.is_some() && exports.iter().any(|one| one.layout.is_spread()) {
            return wrong("a stable log and stripes exclude each other: choose one");
        }
        if server.stable_log.is_some() && exports.iter().any(|one| one.cross) {
            return wrong("a stable log and `cross` exclude each other: choose one");
        }
        stripes::check(&exports)?;
        for export in &exports {
            check_names(&export.directory, &export.layout)?;
            checks::cluster_key(export.layout.cluster_key.as_deref(), &export.directory)?;
        }
        // A size above the maximum has been rejected as a conflict, so the conversion loses no
        // valid size.
        let transfer_size = limits.transfer_size.and_then(|size| u32::try_from(size.0).ok());
        let transfer_bytes_max = transfer_size.unwrap_or(TRANSFER_BYTES_MAX);
        let served: Vec<_> = exports.iter().map(|export| export.directory.as_path()).collect();
        let usual = || place::usual(file.as_deref(), served.first().copied()?);
        let state = checks::state(server.state.clone().or_else(usual), &served)?;
        let iod_directory = None;
        Ok(Self {
            file,
            server,
            lacks_v4,
            limits,
            stable_log_mib,
            transfer_bytes_max,
            state,
            exports,
            iod_directory,
        })
    }

    /// Returns the key of handles: the key of the cluster if other metaservers accept the handles
    /// too.
    pub(crate) fn handle_key(&self, state: &Path) -> Result<HandleKey, Failure> {
        let own = checks::handle_key(state)?;
        let mut layouts = self.exports.iter().map(|export| &export.layout);
        let shared = layouts.find(|layout| layout.group.is_some());
        let key = shared.and_then(|layout| layout.cluster_key.as_deref()).map(Key::of);
        Ok(key.transpose()?.map_or(own, Key::of_handles))
    }

    /// Formats the served directories, and the configuration file if there is one.
    pub(crate) fn served(&self) -> String {
        let directories = self.exports.iter().map(|export| export.directory.display().to_string());
        let directories: Vec<_> = directories.collect();
        let directories = directories.join(", ");
        match &self.file {
            Some(file) => format!("{directories} by the file {}", file.display()),
            None => directories,
        }
    }

    /// Returns the addresses to serve on.
    pub(crate) fn listen(&self) -> Vec<SocketAddr> {
        match self.server.listen.as_slice() {
            [] => vec![SocketAddr::from(([127, 0, 0, 1], 2049))],
            listen => listen.to_vec(),
        }
    }

    /// Returns true for an iod.
    pub(crate) fn is_iod(&self) -> bool {
        self.exports.iter().any(|export| export.secret.is_some())
    }

    /// Returns the keys and epochs by which an iod authenticates its callers; `None` for other
    /// servers.
    pub(crate) fn callers(&self) -> Result<Option<IodCallers>, Failure> {
        let mut iods = self.exports.iter().filter(|export| export.secret.is_some());
        let Some(Planned { directory, layout, .. }) = iods.next() else { return Ok(None) };
        let Some(key) = &layout.cluster_key else { return Ok(None) };
        let key = Key::of(key)?;
        let noted = noted_epochs(directory, key.of_epochs())?;
        // An iod that cannot act as other users cannot give stripe objects to the owner numbers of
        // clients. Such an iod would run every call as its own user, so it accepts no clients.
        let clients = process::can_act_as_others().then(|| key.of_clients());
        Ok(Some(IodCallers { key: key.of_epochs(), noted, clients }))
    }

    pub(crate) fn durability(&self) -> Durability {
        self.server.durability.unwrap_or_default()
    }

    /// Resolves the host names in the rules; returns the names without an address.
    pub(crate) fn look_up(&mut self) -> Vec<String> {
        self.exports.iter_mut().flat_map(|export| look_up(&mut export.rules)).collect()
    }
}

impl Server {
    /// Returns the address of the server's own portmapper; the outer `None` means that the server
    /// has no portmapper.
    pub(crate) fn portmap(&self) -> Option<Option<SocketAddr>> {
        self.portmap.map(|portmap| match portmap {
            Portmap::Usual => None,
            Portmap::At(address) => Some(address),
        })
    }

    /// Returns true if the server serves UDP.
    pub(crate) fn answers_datagrams(&self) -> bool {
        self.udp.unwrap_or(true)
    }

    /// Returns the versions of NFS to serve.
    pub(crate) fn versions(&self) -> NfsVersions {
        let has = |version| self.versions.contains(&version);
        match self.versions.is_empty() {
            true => NfsVersions::default(),
            false => NfsVersions {
                v2: has(NfsVersion::V2),
                v3: has(NfsVersion::V3),
                v4_1: has(NfsVersion::V4Minor1),
                v4_2: has(NfsVersion::V4Minor2),
            },
        }
    }

    /// Removes version 4 from the versions of NFS to serve; versions 2 and 3 remain if the options
    /// name no other version. Returns true if the options request version 4.
    fn drop_v4(&mut self) -> bool {
        let has_v4 = self.versions().has_v4();
        let is_v4 = |one: &NfsVersion| matches!(one, NfsVersion::V4Minor1 | NfsVersion::V4Minor2);
        self.versions.retain(|one| !is_v4(one));
        has_v4
    }

    /// Returns the versions of NFS to serve as text, the highest first.
    pub(crate) fn versions_text(&self) -> String {
        let NfsVersions { v2, v3, v4_1, v4_2 } = self.versions();
        let served = [(v4_2, "4.2"), (v4_1, "4.1"), (v3, "3"), (v2, "2")];
        let texts: Vec<_> = served.iter().filter(|(is, _)| *is).map(|(_, text)| *text).collect();
        match texts.as_slice() {
            [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
            texts => texts.concat(),
        }
    }

    pub(crate) fn threads(&self) -> Option<NonZeroUsize> {
        self.threads
    }

    /// Returns the number of event loops.
    pub(crate) fn loops(&self) -> NonZeroUsize {
        self.threads.unwrap_or_else(leasehold_shell::usual_loops)
    }
}

/// Merges the options: the command line overrides the file.
fn merged(said: &Server, file: Server) -> Server {
    let said = said.clone();
    let tells = said.portmap.is_some() || said.register;
    Server {
        durability: said.durability.or(file.durability),
        stable_log: said.stable_log.or(file.stable_log),
        stable_log_size: said.stable_log_size.or(file.stable_log_size),
        no_local_coherence: said.no_local_coherence || file.no_local_coherence,
        listen: if said.listen.is_empty() { file.listen } else { said.listen },
        udp: said.udp.or(file.udp),
        versions: if said.versions.is_empty() { file.versions } else { said.versions },
        portmap: if tells { said.portmap } else { file.portmap },
        register: if tells { said.register } else { file.register },
        announce: said.announce || file.announce,
        bind_at: said.bind_at.or(file.bind_at),
        state: said.state.or(file.state),
        http: said.http.or(file.http),
        http_name: if said.http_name.is_empty() { file.http_name } else { said.http_name },
        threads: said.threads.or(file.threads),
        log: said.log.or(file.log),
        log_format: said.log_format.or(file.log_format),
    }
}

fn planned(export: &Export, listen: &[SocketAddr]) -> Result<Planned, Wrong> {
    let place = &export.directory;
    let directory =
        checks::directory(place.get_ref()).map_err(|error| Wrong::at(place, error.to_string()))?;
    let asked = export.name.as_ref();
    let asked_name = asked.map(|name| name.get_ref().as_str());
    let name = checks::name(asked_name, place.get_ref(), &directory);
    let name = name.map_err(|error| Wrong {
        span: asked.map_or(place.span(), Spanned::span),
        text: error.to_string(),
    })?;
    let mut rules: Vec<Rule> = export.client.iter().map(rule).collect::<Result<_, _>>()?;
    if rules.is_empty() {
        rules.push(without_any());
    }
    let layout = layout(export, listen)?;
    let &Export { read_only, cross, .. } = export;
    if cross && layout.is_spread() {
        let text = "`cross` and stripes or iods exclude each other: choose one";
        return Err(Wrong::at(place, text.to_owned()));
    }
    Ok(Planned { directory, name, read_only, cross, layout, rules, secret: None })
}

fn layout(export: &Export, listen: &[SocketAddr]) -> Result<Layout, Wrong> {
    let path = |place: &Spanned<PathBuf>| {
        checks::directory(place.get_ref()).map_err(|error| Wrong::at(place, error.to_string()))
    };
    let kib = |asked: Option<&Spanned<Size>>, usual: u32, may: RangeInclusive<i64>| {
        let Some(asked) = asked else { return Ok(usual) };
        let Size(bytes) = *asked.get_ref();
        let kib = u32::try_from(bytes >> 10).ok().filter(|kib| may.contains(&i64::from(*kib)));
        kib.ok_or_else(|| {
            let size = |kib: i64| Size(kib.unsigned_abs() << 10);
            let text = format!("must be {} to {}", size(*may.start()), size(*may.end()));
            Wrong::at(asked, text)
        })
    };
    let inline = export.stripe_inline.as_ref();
    let iod = |address: &Spanned<String>| {
        let parsed = address.get_ref().parse();
        parsed.map_err(|text: String| Wrong::at(address, text))
    };
    if let ([first, ..], [_, ..]) = (&*export.iod, &*export.stripe) {
        return Err(Wrong::at(first, "`iod` and `stripe` exclude each other".to_owned()));
    }
    let timeout = export.iod_timeout.as_ref();
    let iod_timeout_s = timeout.map_or(defaults::IOD_TIMEOUT_S, |it| *it.get_ref());
    if let Some(timeout) = timeout
        && !defaults::IOD_TIMEOUTS_S.contains(&i64::from(iod_timeout_s))
    {
        return Err(Wrong::at(timeout, "must be 1 second to a day".to_owned()));
    }
    let scrub = export.scrub_after.as_ref();
    let scrub_after_s = scrub.map_or(defaults::SCRUB_AFTER_S, |it| *it.get_ref());
    if let Some(scrub) = scrub
        && !defaults::SCRUBS_AFTER_S.contains(&i64::from(scrub_after_s))
    {
        return Err(Wrong::at(scrub, "must be 0 seconds to 30 days".to_owned()));
    }
    Ok(Layout {
        iods: export.iod.iter().map(iod).collect::<Result<_, _>>()?,
        cluster_key: export.cluster_key.clone(),
        iod_timeout_s,
        scrub_after_s,
        lost: export.lost.clone(),
        drain: drained(export)?,
        copies: copies(export)?,
        rebalance: export.rebalance,
        paths: export.stripe.iter().map(path).collect::<Result<_, _>>()?,
        unit_kib: kib(export.stripe_unit.as_ref(), defaults::UNIT_KIB, defaults::UNITS_KIB)?,
        inline_kib: kib(inline, defaults::INLINE_KIB, defaults::INLINES_KIB)?,
        group: peers::group(export, listen)?,
    })
}

fn copies(export: &Export) -> Result<u16, Wrong> {
    let Some(asked) = &export.copies else { return Ok(1) };
    let copies = *asked.get_ref();
    if !defaults::COPIES.contains(&i64::from(copies)) {
        return Err(Wrong::at(asked, "must be 1 or 2".to_owned()));
    }
    if copies > 1 && export.peer.is_empty() && used_count(export) < usize::from(copies) {
        let text = "two copies of a stripe need two iods, or two directories of `stripe`, that \
                    are not drained: name more";
        return Err(Wrong::at(asked, text.to_owned()));
    }
    Ok(copies)
}

/// Returns the numbers of the iods to empty.
fn drained(export: &Export) -> Result<Vec<u16>, Wrong> {
    let Some(asked) = &export.drain else { return Ok(Vec::new()) };
    if export.peer.is_empty() && used_count(export) == 0 {
        let text = "all iods are drained: leave at least one for the files";
        return Err(Wrong::at(asked, text.to_owned()));
    }
    Ok(asked.get_ref().clone())
}

/// Returns the number of iods, or of directories for stripes, that accept new files. They are
/// numbered from 0. The configuration no longer lists a lost iod, but the number of the lost iod
/// stays reserved.
fn used_count(export: &Export) -> usize {
    let places = export.stripe.len() + export.iod.len();
    let numbers = 0..places + export.lost.len();
    let drained: BTreeSet<u16> = export.drained().iter().copied().collect();
    let counts =
        |number: &&u16| !export.lost.contains(number) && numbers.contains(&usize::from(**number));
    places.saturating_sub(drained.iter().filter(counts).count())
}

#[cfg(test)]
mod tests;
