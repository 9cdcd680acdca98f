//! The mutants: a check of exactly-once execution or of recovery finds each of them.

use leasehold_base::random::Random;

use super::model::{KINDS, Move, play_moves};
use super::*;

fn moves(random: &mut Random) -> Vec<Move> {
    let mut byte = |below: u64| u8::try_from(random.below(below)).expect("below 256");
    (0..300).map(|_| (byte(KINDS.into()), byte(256), byte(8))).collect()
}

/// Returns true if one of a few hundred random runs violates exactly-once execution.
fn is_found(mutant: Option<Mutant>) -> bool {
    let mut random = Random::from_seed(1);
    (0..300).any(|_| play_moves(&moves(&mut random), mutant).is_err())
}

#[test]
fn random_runs_find_violations_of_exactly_once_execution() {
    assert!(!is_found(None));
    let mutants = [
        Mutant::CachesCreationLate,
        Mutant::CountsErrors,
        Mutant::DropsReplies,
        Mutant::RunsCopies,
    ];
    mutants.into_iter().for_each(|mutant| assert!(is_found(Some(mutant)), "{mutant:?}"));
}

/// A server with stable storage.
struct Host {
    sessions: Sessions,
    epoch: u32,
    mutant: Option<Mutant>,
    writes: Vec<(Ticket, Owner, Record)>,
    records: BTreeMap<Owner, Record>,
}

impl Host {
    fn new(mutant: Option<Mutant>) -> Self {
        let sessions = start(Time::ZERO, LIMITS, 0, BTreeMap::new());
        let (writes, records) = (Vec::new(), BTreeMap::new());
        let mut host = Self { sessions, epoch: 0, mutant, writes, records };
        host.restart();
        host
    }

    /// Loses the writes that have not ended.
    fn restart(&mut self) {
        self.epoch += 1;
        self.writes.clear();
        self.sessions = start(Time::ZERO, LIMITS, self.epoch, self.records.clone());
        self.mutant.into_iter().for_each(|mutant| self.sessions.plant(mutant));
    }

    fn note(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Remember { owner, record, ticket } = effect {
                self.writes.push((ticket, owner, record));
            } else if let Effect::Forget(owner) = effect {
                self.records.remove(&owner);
            }
        }
    }

    fn event(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.sessions.step(Time::ZERO, event, &mut effects);
        self.note(effects);
    }

    /// Ends all writes.
    fn sync(&mut self) {
        for (ticket, owner, record) in core::mem::take(&mut self.writes) {
            self.records.insert(owner, record);
            self.event(Event::Persisted(ticket));
        }
    }

    fn join(&mut self, name: &str) -> ClientId {
        let mut effects = Vec::new();
        let exchanged = self.sessions.exchange_id(Time::ZERO, &exchange(name, 1), &mut effects);
        let client = exchanged.expect("a new owner").client;
        let created = self.sessions.create_session(Time::ZERO, &create(client, 1, 0), &mut effects);
        created.expect("a first session");
        self.note(effects);
        client
    }

    fn complete(&mut self, client: ClientId, one_file_system: bool) {
        let mut effects = Vec::new();
        let sessions = &mut self.sessions;
        let completed =
            sessions.reclaim_complete(Time::ZERO, client, one_file_system, &mut effects);
        completed.expect("the first RECLAIM_COMPLETE");
        self.note(effects);
    }

    /// Starts a server with one client that may hold state.
    fn with_client(mutant: Option<Mutant>) -> Self {
        let mut host = Self::new(mutant);
        host.event(Event::EndGrace);
        let client = host.join("a");
        host.complete(client, false);
        host.sync();
        host
    }
}

/// A client that was granted state before a crash may reclaim it after the restart.
fn granted_state_can_be_reclaimed(mutant: Option<Mutant>) -> bool {
    let mut host = Host::new(mutant);
    host.event(Event::EndGrace);
    let client = host.join("a");
    host.complete(client, false);
    let is_granted = host.sessions.may_grant(client).is_ok();
    host.restart();
    let client = host.join("a");
    !is_granted || host.sessions.may_reclaim(client).is_ok()
}

/// A client that reclaimed nothing in one grace period reclaims nothing in the next (the second edge
/// condition of RFC 8881 8.4.3).
fn lost_state_is_not_reclaimed(mutant: Option<Mutant>) -> bool {
    let mut host = Host::with_client(mutant);
    host.restart();
    host.event(Event::EndGrace);
    host.sync();
    assert!(!host.sessions.in_grace());
    host.restart();
    let client = host.join("a");
    host.sessions.may_reclaim(client).is_err()
}

/// A client that has completed the reclaims of one file system reclaims in the others.
fn reclaims_continue_in_other_file_systems(mutant: Option<Mutant>) -> bool {
    let mut host = Host::with_client(mutant);
    host.restart();
    let client = host.join("a");
    host.complete(client, true);
    host.sessions.may_reclaim(client).is_ok()
}

/// Returns true if a promise holds with a fault, if any.
type Check = fn(Option<Mutant>) -> bool;

#[test]
fn checks_of_recovery_find_their_mutants() {
    let checks: [(Check, Mutant); 3] = [
        (granted_state_can_be_reclaimed, Mutant::GrantsUnremembered),
        (lost_state_is_not_reclaimed, Mutant::ForgetsIncomplete),
        (reclaims_continue_in_other_file_systems, Mutant::CompletesOneFileSystem),
    ];
    for (holds, mutant) in checks {
        assert!(holds(None), "{mutant:?}");
        assert!(!holds(Some(mutant)), "{mutant:?}");
    }
}
