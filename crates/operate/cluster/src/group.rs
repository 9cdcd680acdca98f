//! The group of metaservers that serve one file system: their addresses, and the index of this
//! metaserver.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
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

use crate::{Failure, IodAddress, Key, Kind};

/// The name of the file in the metaserver's directory that contains all its metafiles.
pub(crate) const NAME: &str = "leasehold-metafiles";

/// The name of the file after `leasehold cluster move-home` has moved all metafiles to another
/// directory. A directory with this file is never served again.
pub(crate) const MOVED: &str = "leasehold-metafiles.moved";

/// The name of the file after it was copied from another directory, until the old directory can no
/// longer be served.
pub(crate) const COMING: &str = "leasehold-metafiles.coming";

/// The version of the replica program.
const VERSION: u32 = leasehold_wire::replica::VERSION;

/// This metaserver and its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// All metaservers, in the order of their numbers.
    pub peers: Vec<IodAddress>,
    /// The number of this metaserver.
    pub me: u32,
    /// The numbers of the peers that the start does not wait for.
    pub without: Vec<u32>,
    /// True if leases keep cached copies current.
    pub strict: bool,
    /// The order in which this metaserver queries its peers for a name that it does not have.
    pub search: Order,
    /// The time for which a metaserver may use a cached copy, in seconds.
    pub window_s: u32,
}

/// Returns true if a directory contains the metafiles of one of several metaservers.
#[must_use]
pub fn is_one_of_several(directory: &Path) -> bool {
    [NAME, MOVED].iter().any(|name| directory.join(name).exists())
}

impl Group {
    /// Describes the group in a line for `check` and the log.
    #[must_use]
    pub fn words(&self) -> String {
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

    /// Returns the address of each metaserver; `None` for a host name that does not resolve now.
    pub(crate) fn addresses(&self) -> Vec<Option<SocketAddr>> {
        self.peers.iter().map(|peer| resolved(peer).ok()).collect()
    }

    fn bounds(&self) -> Bounds {
        let window = Duration::from_secs(self.window_s.into());
        Bounds { window, ..Bounds::DEFAULT }
    }

    /// Opens the metafiles and joins the group.
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
                "they were moved to another directory and must be served there; {MOVED} keeps the \
                 old file"
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
            order: self.search,
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
                failed(&format!("they belong to the metaserver with --number {other}"))
            }
            OpenError::OfAnother(None) => {
                failed(&"they belong to a metaserver that is not a --peer")
            }
        })
    }
}

/// The parts from which the metaserver of a group is built.
pub(crate) struct Place<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) key: Key,
    pub(crate) directory: &'a Path,
    pub(crate) sync: bool,
    pub(crate) verifier: Verifier,
    /// The time for which an operation waits for an unreachable home before the operation fails.
    pub(crate) give_up: Duration,
    pub(crate) laid_out: striped::Options,
}

/// The environment of a metaserver: its clock, network and stable storage.
struct World {
    /// The sessions with all peers; `None` for this metaserver itself.
    sessions: Vec<Option<Session>>,
    /// This session makes no calls; it only provides the clock.
    clock: Session,
    who: Credential,
    records: Records,
}

impl World {
    fn of(group: &Group, runtime: &Runtime, key: Key, records: Records) -> Result<Self, Failure> {
        // The timeout is shorter than the staleness bound (the window). A reply therefore arrives
        // within the window in which its call was sent, and a cached copy from it is never older
        // than the bound.
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
    found
        .ok_or_else(|| Kind::Configuration.because(format!("the metaserver {peer} has no address")))
}

/// Classifies a failed call: a peer that rejects a call is reachable.
const fn no_results(error: &Error) -> NoResults {
    match error {
        Error::Denied(_) | Error::Garbled(_) | Error::Failed(_) => NoResults::Refused,
        Error::Busy | Error::Closed | Error::TimedOut | Error::Unreachable(_) => NoResults::Silence,
    }
}

/// Encoded arguments, which are sent unchanged.
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
            Notice::Open => tracing::info!("all metaservers have replied: this one serves"),
            Notice::Over { peer, known, this } => tracing::error!(
                peer,
                known_epoch = known,
                this_epoch = this,
                "another metaserver has replaced this one, for example because its home was moved: \
                 this one serves nothing from now on"
            ),
            Notice::Unlike { peer, strict } => {
                let (this, other) = if *strict { ("with", "without") } else { ("without", "with") };
                tracing::error!(
                    peer,
                    "this metaserver was started {this} --strict, and another {other}: neither \
                     serves; start all with the same option"
                );
            }
            Notice::Older { peer, known, stored } => tracing::error!(
                peer,
                known_epoch = known.0,
                known_stamp = known.1,
                stored_epoch = stored.0,
                stored_stamp = stored.1,
                "the metafiles here are older than the version that another metaserver knows, as \
                 in an old backup: this metaserver does not serve"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_base::xdr;
    use leasehold_wire::rpc::{AuthStatus, ReplyStatus, Versions};

    use super::*;

    /// If a rejection counted as silence, the failure detector would consider a peer with another
    /// version or another key unreachable.
    #[test]
    fn peer_that_rejects_calls_counts_as_reachable() {
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
