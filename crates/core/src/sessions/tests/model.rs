//! Exactly-once execution: a client sends requests over several connections, which lose, repeat and
//! reorder them.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// The number of connections of the client.
const CONNECTIONS: usize = 3;

/// A random number for the kind of step, and two for its arguments.
pub(super) type Move = (u8, u8, u8);

/// The number of kinds of steps.
pub(super) const KINDS: u8 = 12;

/// The target in the results of a SEQUENCE, and the number of earlier results. A client ignores the
/// target of results that are older than the ones that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    results: u32,
    slot: u32,
}

/// A client with one session, its network and its server.
struct World {
    sessions: Sessions,
    now: Time,
    client: ClientId,
    session: SessionId,
    /// The client's last request in each slot, and true if its reply is outstanding.
    slots: Vec<(Option<Sequence>, bool)>,
    /// The highest slot that the client uses.
    target: Target,
    /// The number of SEQUENCE results.
    results: u32,
    /// The requests in each connection.
    requests: Vec<Vec<Sequence>>,
    /// The replies to the client.
    replies: Vec<(Request, Bytes, Target)>,
    /// The reply of each request that has run, with its target.
    runs: BTreeMap<Request, (Bytes, Target)>,
    running: BTreeSet<Request>,
    /// The number and the result of each CREATE_SESSION.
    creations: BTreeMap<u32, Result<Created, Error>>,
}

impl World {
    fn new(mutant: Option<Mutant>) -> Self {
        let limits = Limits { sessions: 50, sessions_of_client: 50, ..LIMITS };
        let mut sessions = start(Time::ZERO, limits, 1, BTreeMap::new());
        let effects = &mut Vec::new();
        let exchanged = sessions.exchange_id(Time::ZERO, &exchange("a", 1), effects);
        let client = exchanged.expect("a new owner").client;
        let created = sessions.create_session(Time::ZERO, &create(client, 1, 0), effects);
        let created = created.expect("a first session");
        mutant.into_iter().for_each(|mutant| sessions.plant(mutant));
        Self {
            sessions,
            now: Time::ZERO,
            client,
            session: created.session,
            slots: vec![(None, false); 12],
            target: Target { results: 0, slot: created.fore.slots - 1 },
            results: 0,
            requests: vec![Vec::new(); CONNECTIONS],
            replies: Vec::new(),
            runs: BTreeMap::new(),
            running: BTreeSet::new(),
            creations: BTreeMap::new(),
        }
    }

    fn step(&mut self, (kind, first, second): Move) -> Result<(), String> {
        let connection = usize::from(second) % self.requests.len();
        let slot = u32::from(first) % (self.target.slot + 1);
        match kind {
            0 | 1 => self.send(slot, connection, first.is_multiple_of(2)),
            2 => self.resend(slot, connection),
            3..=5 => return self.deliver(connection, first, second > 4),
            6 | 7 => self.finish(first),
            8 | 9 => return self.receive(first),
            10 => self.disturb(first, connection),
            _ => return self.create(first),
        }
        Ok(())
    }

    /// The client sends a new request in a free slot.
    fn send(&mut self, slot: u32, connection: usize, keep: bool) {
        let at = slot as usize;
        if self.slots[at].1 {
            return;
        }
        let before = self.slots[at].0.as_ref().map_or(0, |request| request.sequence.0);
        let mut request = sequence(self.session, slot, before + 1, connection as u64);
        request.cache_this = keep;
        request.digest = u64::from(before) << 8 | u64::from(slot);
        self.slots[at] = (Some(request), true);
        self.resend(slot, connection);
    }

    /// The client sends an outstanding request, or a copy of it.
    fn resend(&mut self, slot: u32, connection: usize) {
        let outstanding = self.slots.iter().rposition(|(_, is_outstanding)| *is_outstanding);
        if let (Some(request), true) = &self.slots[slot as usize] {
            let mut request = request.clone();
            let highest = outstanding.and_then(|at| u32::try_from(at).ok()).unwrap_or(slot);
            request.highest = SlotId(highest);
            request.connection = connection_id(connection as u64);
            self.requests[connection].push(request);
        }
    }

    /// The server receives one of the requests in a connection, which may stay as a copy.
    fn deliver(&mut self, connection: usize, which: u8, copies: bool) -> Result<(), String> {
        let queue = &mut self.requests[connection];
        if queue.is_empty() {
            return Ok(());
        }
        let at = usize::from(which) % queue.len();
        let call = if copies { queue[at].clone() } else { queue.swap_remove(at) };
        let id = Request { session: call.session, slot: call.slot, sequence: call.sequence };
        let last = &self.slots[call.slot.0 as usize];
        let is_outstanding =
            last.1 && last.0.as_ref().is_some_and(|last| last.sequence == call.sequence);
        let has_ended = self.runs.contains_key(&id) && !self.running.contains(&id);
        match self.sessions.sequence(self.now, &call, &mut Vec::new()) {
            Ok(Admitted::Run { results, .. }) => {
                let reply = Bytes::from(format!("reply {}", self.runs.len()));
                self.running.insert(id);
                let target = self.target_of(results);
                match self.runs.insert(id, (reply, target)) {
                    Some(_) => Err(format!("{id:?} ran twice")),
                    None if is_outstanding => Ok(()),
                    None => Err(format!("{id:?} ran after its reply")),
                }
            }
            Ok(Admitted::Replay(reply)) if has_ended && self.runs[&id].0 == reply => {
                self.replies.push((id, reply, self.runs[&id].1));
                Ok(())
            }
            Ok(Admitted::Uncached(results)) if has_ended && !call.cache_this => {
                let target = self.target_of(results);
                self.replies.push((id, Bytes::new(), target));
                Ok(())
            }
            // The session has memory for a few replies only.
            Err(Error::Delay) if !has_ended => Ok(()),
            Err(_) if !is_outstanding => Ok(()),
            other => Err(format!("{other:?} for {id:?}")),
        }
    }

    const fn target_of(&mut self, results: Sequenced) -> Target {
        self.results += 1;
        Target { results: self.results, slot: results.target.0 }
    }

    /// The server finishes a running request; its reply is on its way.
    fn finish(&mut self, which: u8) {
        let at = usize::from(which) % self.running.len().max(1);
        if let Some(id) = self.running.iter().nth(at).copied() {
            self.running.remove(&id);
            let (reply, target) = self.runs[&id].clone();
            self.sessions.complete(id, Some(reply.clone()));
            self.replies.push((id, reply, target));
        }
    }

    /// The client receives one of the replies.
    fn receive(&mut self, which: u8) -> Result<(), String> {
        if self.replies.is_empty() {
            return Ok(());
        }
        let (id, reply, target) = self.replies.swap_remove(usize::from(which) % self.replies.len());
        let (request, is_outstanding) = &mut self.slots[id.slot.0 as usize];
        let is_current = request.as_ref().is_some_and(|last| last.sequence == id.sequence);
        if *is_outstanding && is_current {
            *is_outstanding = false;
            self.target = self.target.max(target);
            if !reply.is_empty() && self.runs[&id].0 != reply {
                return Err(format!("the reply of another request for {id:?}"));
            }
        }
        Ok(())
    }

    /// A connection is lost with its requests, the server limits the slots, or time passes.
    fn disturb(&mut self, which: u8, connection: usize) {
        self.now = self.now + Duration::from_secs(1);
        let event = match which % 4 {
            0 => {
                self.requests[connection].clear();
                Event::ConnectionLost(connection_id(connection as u64))
            }
            1 => Event::LimitSlots(self.session, SlotId(1)),
            2 => Event::LimitSlots(self.session, SlotId(9)),
            _ => Event::Tick,
        };
        self.sessions.step(self.now, event, &mut Vec::new());
    }

    /// The client sends CREATE_SESSION, or repeats the last one; each number has one result.
    fn create(&mut self, which: u8) -> Result<(), String> {
        let last = self.creations.keys().next_back().copied().unwrap_or(1);
        let number = if which.is_multiple_of(2) { last + 1 } else { last.max(2) };
        let call = create(self.client, number, 0);
        let result = self.sessions.create_session(self.now, &call, &mut Vec::new());
        let before = *self.creations.entry(number).or_insert(result);
        let is_refused = result == Err(Error::SequenceMisordered);
        if before == result && !is_refused {
            return Ok(());
        }
        Err(format!("CREATE_SESSION {number}: {before:?}, then {result:?}"))
    }
}

/// Plays steps, and returns the first violation of exactly-once execution.
pub(super) fn play_moves(moves: &[Move], mutant: Option<Mutant>) -> Result<(), String> {
    let mut world = World::new(mutant);
    for next in moves {
        world.step(*next)?;
        if mutant.is_none() {
            world.sessions.check();
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn each_request_runs_once_and_gets_its_own_reply(
        moves in prop::collection::vec((0..KINDS, any::<u8>(), 0..8_u8), 0..300)
    ) {
        prop_assert_eq!(play_moves(&moves, None), Ok(()));
    }
}
