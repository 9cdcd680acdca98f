//! The metaservers of one file system: where they are, and how this one is one of them.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use clap::ValueEnum;
use futures_channel::oneshot;
use leasehold_base::units::{FileTime, Time};
use leasehold_base::xdr::{Encode, Writer};
use leasehold_core::replica::{Bounds, Peer};
use leasehold_fs::Verifier;
use leasehold_session::{Credential, Error, Options as Calling, Procedure, Session, Weight};
use leasehold_shell::client::{Runtime, SourcePort};
use leasehold_shell::records::Records;
use leasehold_shell::{clock, state};
use leasehold_store_replica::{
    Later, Metaserver, NoResults, Notice, OpenError, Options, Order, Outside, Owner, PROGRAM,
    Traffic, Urgency, compacted,
};
use leasehold_store_striped as striped;
use serde::Deserialize;

use super::{IodAddress, Key};
use crate::config;
use crate::failure::{Failure, Kind};

/// The file in the metaserver's directory that holds all metafiles.
pub(crate) const NAME: &str = "leasehold-metafiles";

/// Its name when all of it is on its way to another directory, and for good.
pub(crate) const MOVED: &str = "leasehold-metafiles.moved";

/// Its name where it has come from another directory, and is still to be served elsewhere.
pub(crate) const COMING: &str = "leasehold-metafiles.coming";

/// The version of the replica program.
const VERSION: u32 = leasehold_wire::replica::VERSION;

/// How long a copy is good unless configured, and what that may be, in seconds.
pub(crate) const WINDOW_S: u32 = 3;
pub(crate) const WINDOWS_S: RangeInclusive<i64> = 1..=60;

/// This metaserver among all of one file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// All of them, in the order of their numbers.
    pub(crate) peers: Vec<IodAddress>,
    /// The number of this one.
    pub(crate) me: u32,
    /// Those that are not waited for.
    pub(crate) without: Vec<u32>,
    /// Whether copies are had by leases.
    pub(crate) strict: bool,
    /// Whom is asked for a name that is not here.
    pub(crate) search: Search,
    /// How long a copy is good, in seconds.
    pub(crate) window_s: u32,
}

/// Whom is asked for a name that is not here
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Search {
    /// The directory's home, then the object's: at most 2 messages
    Constant,
    /// One after the other, by number
    Sequential,
    /// One after the other, who answers soonest first
    Nearest,
    /// Two at once, each with half of the others behind it
    Tree,
}

impl Search {
    const fn order(self) -> Order {
        match self {
            Self::Constant => Order::Constant,
            Self::Sequential => Order::Sequential,
            Self::Nearest => Order::Nearest,
            Self::Tree => Order::Tree,
        }
    }
}

/// Whether a directory holds the metafiles of one among several metaservers.
pub(crate) fn is_one_of_several(directory: &Path) -> bool {
    [NAME, MOVED].iter().any(|name| directory.join(name).exists())
}

impl Group {
    /// The group that was named, if one was, for a server that listens there.
    pub(crate) fn of(
        options: &super::options::Peers,
        listen: &[SocketAddr],
    ) -> Result<Option<Self>, Failure> {
        let wrong = |text: &str| Err(Kind::Options.because(text));
        let super::options::Peers { peer, number, without, strict, search, lazy_window } = options;
        let count = u32::try_from(peer.len()).unwrap_or(u32::MAX);
        if peer.is_empty() {
            return Ok(None);
        }
        if peer.iter().any(|peer| matches!(peer, IodAddress::Export(_))) {
            return wrong("a --peer is HOST:PORT of a metaserver");
        }
        if (0..peer.len()).any(|at| peer[..at].contains(&peer[at])) {
            return wrong("a --peer is named twice: each metaserver has one place");
        }
        let me = match *number {
            Some(me) => me,
            None => config::own_number(peer, listen).map_err(|text| {
                let say = "or say with --number which --peer this one is";
                Kind::Options.because(format!("{text}; {say}"))
            })?,
        };
        if me >= count {
            return wrong("--number must be that of a --peer, from 0 on");
        }
        if without.iter().any(|other| *other >= count || *other == me) {
            return wrong("--without must be the number of another --peer");
        }
        let (peers, without) = (peer.clone(), without.clone());
        let (strict, search, window_s) = (*strict, *search, *lazy_window);
        Ok(Some(Self { peers, me, without, strict, search, window_s }))
    }

    /// What it is, in words.
    pub(crate) fn words(&self) -> String {
        let Self { peers, me, without, strict, search, window_s } = self;
        let peers: Vec<_> = peers.iter().map(ToString::to_string).collect();
        let how = match strict {
            true => "strict".to_owned(),
            false => format!("lazy, search {}", format!("{search:?}").to_lowercase()),
        };
        let without: Vec<_> = without.iter().map(|other| format!(", without {other}")).collect();
        let (peers, without) = (peers.join(" "), without.concat());
        format!("metaserver {me} of {peers}, {how}, window {window_s} s{without}")
    }

    /// Where each of them is, as far as that is known.
    pub(crate) fn addresses(&self) -> Vec<Option<SocketAddr>> {
        self.peers.iter().map(|peer| resolved(peer).ok()).collect()
    }

    fn bounds(&self) -> Bounds {
        let window = Duration::from_secs(self.window_s.into());
        Bounds { window, ..Bounds::DEFAULT }
    }

    /// Begins to be one of them.
    pub(crate) fn join(&self, place: Place<'_>) -> Result<Metaserver, Failure> {
        let Place { runtime, key, directory, sync, verifier, give_up, laid_out } = place;
        let failed = |error: &dyn std::fmt::Display| {
            let shown = directory.display();
            Kind::Directory.because(format!("cannot use the metafiles in {shown}: {error}"))
        };
        let compact = |records: Vec<Bytes>| {
            compacted(&records)
                .map_err(|_| io::Error::new(ErrorKind::InvalidData, "a record cannot be read"))
        };
        let path: PathBuf = directory.join(NAME);
        if directory.join(MOVED).exists() {
            return Err(failed(&format!(
                "they were moved to another directory, to be served from there; what was here is \
                 kept as {MOVED}"
            )));
        }
        let (records, found) =
            Records::open(&path, sync, None, compact).map_err(|error| failed(&error))?;
        let owner = fs::metadata(directory).map_err(|error| failed(&error))?;
        let owner = Owner {
            uid: owner.uid(),
            gid: owner.gid(),
            mode: owner.mode() & 0o7777,
            file_system: laid_out.volume,
        };
        let made = AtomicU64::new(0);
        let content = move || laid_out.new_file(made.fetch_add(1, Ordering::Relaxed));
        let options = Options {
            me: Peer(self.me),
            count: u32::try_from(self.peers.len()).expect("they are on a command line"),
            without: self.without.iter().copied().map(Peer).collect(),
            strict: self.strict,
            lends: self.strict,
            order: self.search.order(),
            bounds: self.bounds(),
            give_up,
            owner,
            verifier,
            content: Box::new(content),
            word: key.peers_word(),
        };
        let world = World::of(self, runtime, key, records)?;
        let random = state::random().map_err(|error| failed(&error))?;
        let random = u64::from_be_bytes(random);
        Metaserver::open(options, &found, Arc::new(world), random).map_err(|error| match error {
            OpenError::Damaged => failed(&"a record cannot be read"),
            OpenError::OfAnother(Some(other)) => {
                failed(&format!("they are those of the metaserver with --number {other}"))
            }
            OpenError::OfAnother(None) => failed(&"they are those of one that is no --peer"),
        })
    }
}

/// What a metaserver of a group is made of.
pub(crate) struct Place<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) key: Key,
    pub(crate) directory: &'a Path,
    pub(crate) sync: bool,
    pub(crate) verifier: Verifier,
    /// How long a home may be silent.
    pub(crate) give_up: Duration,
    pub(crate) laid_out: striped::Options,
}

/// The world as a metaserver has it.
struct World {
    /// The sessions with all peers; none with this one itself.
    sessions: Vec<Option<Session>>,
    /// No call is made by this session: it is there for its clock.
    clock: Session,
    who: Credential,
    records: Records,
}

impl World {
    fn of(group: &Group, runtime: &Runtime, key: Key, records: Records) -> Result<Self, Failure> {
        // Less than a window, so that no answer of a call outlives one.
        let patience = group.bounds().window * 5 / 6;
        let session = |to: SocketAddr| {
            let options = Calling::stream().impatient(patience);
            runtime.session(to, options, SourcePort::Any).map_err(|error| {
                Kind::Running.because(format!("cannot start to call metaservers: {error}"))
            })
        };
        let mut sessions = Vec::new();
        for (number, peer) in (0..).zip(&group.peers) {
            sessions.push(match number == group.me {
                true => None,
                false => Some(session(resolved(peer)?)?),
            });
        }
        let clock = session(SocketAddr::from(([127, 0, 0, 1], 1)))?;
        let who = Credential::system(&key.peers_word(), 0, 0, &[]);
        Ok(Self { sessions, clock, who, records })
    }
}

fn resolved(peer: &IodAddress) -> Result<SocketAddr, Failure> {
    let found = peer.addresses().into_iter().next();
    found.ok_or_else(|| Kind::Options.because(format!("the metaserver {peer} has no address")))
}

/// What an error says of the peer: one that refuses a call is there.
const fn no_results(error: &Error) -> NoResults {
    match error {
        Error::Denied(_) | Error::Garbled(_) | Error::Failed(_) => NoResults::Refused,
        Error::Busy | Error::Closed | Error::TimedOut | Error::Unreachable(_) => NoResults::Silence,
    }
}

/// Arguments that are encoded already.
struct Encoded(Bytes);

impl Encode for Encoded {
    fn encode(&self, writer: &mut Writer) {
        writer.fixed(&self.0);
    }
}

impl Outside for World {
    fn now(&self) -> Time {
        clock::now()
    }

    fn wall(&self) -> FileTime {
        clock::time_of_day()
    }

    fn sleep(&self, span: Duration) -> Later<()> {
        Box::pin(self.clock.sleep(span))
    }

    fn call(&self, peer: u32, procedure: u32, args: Bytes) -> Later<Result<Bytes, NoResults>> {
        let Some(Some(session)) = self.sessions.get(peer as usize) else {
            return Box::pin(async { Err(NoResults::Silence) });
        };
        let (program, version, number) = (PROGRAM, VERSION, procedure);
        let procedure = Procedure { program, version, number, weight: Weight::Light };
        let call = session.call(&self.who, procedure, &Encoded(args));
        Box::pin(async move {
            let results = call.await.map(|results| results.bytes().clone());
            results.map_err(|error| no_results(&error))
        })
    }

    fn traffic(&self, peer: u32) -> Traffic {
        let session = self.sessions.get(peer as usize).and_then(Option::as_ref);
        session.map_or_else(Traffic::default, Session::traffic)
    }

    fn append(&self, records: Vec<Vec<u8>>, urgency: Urgency) -> oneshot::Receiver<()> {
        self.records.append(records, urgency == Urgency::Now)
    }

    fn notice(&self, notice: &Notice) {
        match notice {
            Notice::Open => tracing::info!("all metaservers have answered: this one serves"),
            Notice::Over { peer, known, this } => tracing::error!(
                peer,
                known_epoch = known,
                this_epoch = this,
                "another has taken the place of this metaserver, as when its home was moved: \
                 nothing is served any more"
            ),
            Notice::Unlike { peer, strict } => {
                let (this, other) = if *strict { ("with", "without") } else { ("without", "with") };
                tracing::error!(
                    peer,
                    "this metaserver was started {this} --strict, and another {other}: nothing is \
                     served; start all in one way"
                );
            }
            Notice::Older { peer, known, stored } => tracing::error!(
                peer,
                known_epoch = known.0,
                known_stamp = known.1,
                stored_epoch = stored.0,
                stored_stamp = stored.1,
                "the metafiles here are older than another metaserver knows them, as those of an \
                 old backup are: nothing is served"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_base::xdr;
    use leasehold_wire::rpc::{AuthStatus, ReplyStatus, Versions};

    use super::*;

    /// Else one that was upgraded before the others, or has another key, would count as away.
    #[test]
    fn one_that_refuses_calls_is_there() {
        let statuses = [
            ReplyStatus::ProgramMismatch(Versions { low: 3, high: 3 }),
            ReplyStatus::AuthError(AuthStatus::RejectedCredential),
            ReplyStatus::GarbageArguments,
        ];
        for status in statuses {
            assert_eq!(no_results(&Error::Denied(status)), NoResults::Refused);
        }
        assert_eq!(no_results(&Error::Garbled(xdr::Error::BadValue)), NoResults::Refused);
        for error in [Error::Busy, Error::Closed, Error::TimedOut, Error::Unreachable("".into())] {
            assert_eq!(no_results(&error), NoResults::Silence);
        }
    }
}
