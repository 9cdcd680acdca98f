//! The server of the RPC program `replica`, by which metaservers call each other.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{MutexGuard, PoisonError};

use bytes::Bytes;
use futures_channel::oneshot;
use leasehold_base::xdr::{Decode as _, Encode as _, Message, Reader, Writer};
use leasehold_core::replica::Stamp;
use leasehold_fs::MaybeReady;
use leasehold_session::spawn;
use leasehold_wire::replica::{Caller, PROGRAM, VERSION};
use leasehold_wire::rpc::{AuthStatus, AuthSys, Call, Reply, ReplyStatus, Versions, flavor, null};

use crate::Metaserver;
use crate::change_slots::SLOTS;
use crate::message::{Answer, Ask};

/// The maximum number of cached replies to calls without change numbers.
const SEEN_MAX: usize = 4096;

/// The receiver of the answer to a call.
type Answering = oneshot::Receiver<(Stamp, Answer)>;

/// The sender of the answer to the task that waits for the call.
type Telling = oneshot::Sender<(Stamp, Answer)>;

/// The identification of a call, equal for all its retransmissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Same {
    Xid(u32),
    /// The change number: a retry of the change has an equal change number, but may have another
    /// xid.
    Number(u64),
}

/// A caller, and the slot of the caller's change number.
type Slot = (u32, u64);

fn slot(key: &Key) -> Option<Slot> {
    match key {
        (caller, .., Same::Number(number)) => Some((*caller, number % SLOTS)),
        (.., Same::Xid(_)) => None,
    }
}

/// The key of a cache entry: the caller, the epochs of caller and callee, and the identification of
/// the call.
type Key = (u32, u64, u64, Same);

/// The state of a call in the cache.
enum Kept {
    /// The call is running.
    Waiting(Telling),
    Answered(Stamp, Answer),
}

/// The state in which the cache was when a call arrived.
enum Before {
    Nothing,
    /// The call is running. The value is the sender for the previous transmission of the call,
    /// which needs no reply any more.
    UnderWay(Telling),
    Answered,
    /// A later call has used the same slot, so no operation of the caller waits for this call.
    Over,
}

/// The duplicate request cache: calls that have an effect, with their answers. A retransmitted call
/// runs once.
#[derive(Default)]
pub(crate) struct Seen {
    calls: BTreeMap<Key, Kept>,
    /// The answered calls without change numbers, in the order of their answers.
    answered: VecDeque<Key>,
    /// The last call of each slot. A caller has at most one call at a time in a slot. So the cache
    /// keeps the answer until the next call in the slot arrives, however many other calls are
    /// answered and however long the caller retries.
    last: BTreeMap<Slot, Key>,
}

impl Seen {
    /// Returns the number of calls in the cache.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Records an arriving call. Returns a receiver for the answer, and the state of the cache
    /// before the call.
    fn wait(&mut self, key: Key) -> (Answering, Before) {
        let (sender, answering) = oneshot::channel();
        if let Some(slot) = slot(&key)
            && let Some(last) = self.last.insert(slot, key)
            && last != key
        {
            if key < last {
                self.last.insert(slot, last);
                return (answering, Before::Over);
            }
            self.calls.remove(&last);
        }
        let before = match self.calls.get_mut(&key) {
            Some(Kept::Waiting(last)) => Before::UnderWay(core::mem::replace(last, sender)),
            Some(Kept::Answered(stamp, answer)) => {
                // The send cannot fail, because this function holds the receiver.
                let _ = sender.send((*stamp, answer.clone()));
                Before::Answered
            }
            None => {
                self.calls.insert(key, Kept::Waiting(sender));
                Before::Nothing
            }
        };
        (answering, before)
    }

    /// Stores the answer to a call. Returns the sender for the task that waits for the answer, if
    /// there is one.
    fn answered(&mut self, key: Key, (stamp, answer): (Stamp, Answer)) -> Option<Telling> {
        // If the call has no entry any more, a later call has used its slot, and the caller no
        // longer needs the answer.
        let kept = self.calls.get_mut(&key)?;
        let before = core::mem::replace(kept, Kept::Answered(stamp, answer));
        if slot(&key).is_none() {
            self.answered.push_back(key);
        }
        if self.answered.len() > SEEN_MAX
            && let Some(oldest) = self.answered.pop_front()
        {
            self.calls.remove(&oldest);
        }
        if let Kept::Waiting(telling) = before { Some(telling) } else { None }
    }

    /// Removes the entry of a call that had no effect, so that a retry runs the call. Returns the
    /// sender for the task that waits for the answer, if there is one.
    fn forget(&mut self, key: Key) -> Option<Telling> {
        let kept = self.calls.remove(&key)?;
        if let Kept::Waiting(telling) = kept { Some(telling) } else { None }
    }
}

impl Metaserver {
    /// Answers one RPC message of a stream. Returns `None` if the message is not a call or must not
    /// be answered.
    pub fn answer(&self, message: &Bytes, writer: Writer) -> MaybeReady<'static, Option<Message>> {
        let mut reader = Reader::new(message);
        let call = match Call::decode(&mut reader) {
            Ok(call) => call,
            Err(error) => {
                return MaybeReady::now(error.reply().map(|reply| written(&reply, writer)));
            }
        };
        let xid = call.xid;
        let refused =
            |status| MaybeReady::now(Some(written(&Reply { xid, status }, Writer::new())));
        let (caller, ask) = match self.call(&call, &mut reader) {
            Ok(Some(asked)) => asked,
            Ok(None) => {
                let status = ReplyStatus::Success;
                return MaybeReady::now(Some(written(&Reply { xid, status }, writer)));
            }
            Err(status) => return refused(status),
        };
        let answering = self.answering(caller, xid.0, ask);
        MaybeReady::later(async move {
            // The sender was dropped: a later transmission of the call receives the answer, or the
            // result is unknown. Do not reply.
            let Ok((stamp, answer)) = answering.await else { return None };
            let mut writer = writer;
            Reply { xid, status: ReplyStatus::Success }.encode(&mut writer);
            answer.encode(stamp, &mut writer);
            Some(writer.finish())
        })
    }

    /// Decodes a call. Returns `None` for the NULL procedure.
    fn call(
        &self,
        call: &Call<'_>,
        reader: &mut Reader<'_>,
    ) -> Result<Option<(Caller, Ask)>, ReplyStatus> {
        if call.program != PROGRAM {
            return Err(ReplyStatus::ProgramUnavailable);
        }
        if call.version != VERSION {
            return Err(ReplyStatus::ProgramMismatch(Versions { low: VERSION, high: VERSION }));
        }
        if call.procedure == null::NUMBER {
            return Ok(None);
        }
        let body = call.credential.body;
        let said = AuthSys::decode(&mut Reader::of_part(body));
        let word = self.shared.options.word.as_bytes();
        let is_known = said.is_ok_and(|said| is_same(said.machine_name, word));
        if call.credential.flavor != flavor::SYS || !is_known {
            return Err(ReplyStatus::AuthError(AuthStatus::RejectedCredential));
        }
        match Ask::decode(call.procedure, reader) {
            Ok(Some((caller, _))) if caller.peer >= self.shared.options.count => {
                Err(ReplyStatus::GarbageArguments)
            }
            Ok(Some(asked)) => Ok(Some(asked)),
            Ok(None) => Err(ReplyStatus::ProcedureUnavailable),
            Err(_) => Err(ReplyStatus::GarbageArguments),
        }
    }

    fn answering(&self, caller: Caller, xid: u32, ask: Ask) -> Answering {
        let (sender, receiver) = oneshot::channel();
        if !ask.has_effect() {
            self.with(|node| node.receive(caller, ask, sender));
            return receiver;
        }
        let number = if let Ask::Place { number, .. } = &ask { Some(*number) } else { None };
        let same = number.map_or(Same::Xid(xid), Same::Number);
        let key = (caller.peer, caller.epoch, caller.callee_epoch, same);
        let (answering, before) = self.seen().wait(key);
        match before {
            Before::Nothing => {
                self.with(|node| node.receive(caller, ask, sender));
                let this = self.clone();
                spawn(async move {
                    let Ok(answer) = receiver.await else {
                        // The node has dropped the call without an answer. Remove the entry, so
                        // that a retry runs the call.
                        drop(this.seen().forget(key));
                        return;
                    };
                    // The call was not executed because of an outdated epoch. Do not cache the
                    // answer: the caller repeats the call with the current epoch, possibly under an
                    // equal key.
                    let is_void = matches!(answer.1, Answer::Epoch(_));
                    let telling = if is_void {
                        this.seen().forget(key)
                    } else {
                        this.seen().answered(key, answer.clone())
                    };
                    if let Some(telling) = telling {
                        // Ignore an error: the waiting task may have been dropped.
                        let _ = telling.send(answer);
                    }
                });
            }
            Before::UnderWay(last) => drop(last),
            Before::Answered | Before::Over => {}
        }
        answering
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Compares two secrets in constant time.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && differences == 0
}

fn written(reply: &Reply, mut writer: Writer) -> Message {
    reply.encode(&mut writer);
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn key(same: Same) -> Key {
        (1, 2, 3, same)
    }

    const fn told(version: u64) -> (Stamp, Answer) {
        (Stamp(version), Answer::Version(Stamp(version)))
    }

    #[test]
    fn a_call_of_another_epoch_runs_when_it_is_retried() {
        let mut seen = Seen::default();
        for same in [Same::Xid(1), Same::Number(1)] {
            let (_answering, before) = seen.wait(key(same));
            assert!(matches!(before, Before::Nothing));
            assert!(seen.forget(key(same)).is_some());
            run(&mut seen, key(same));
        }
    }

    /// Records and answers a new call.
    fn run(seen: &mut Seen, key: Key) {
        let (_answering, before) = seen.wait(key);
        assert!(matches!(before, Before::Nothing));
        assert!(seen.answered(key, told(1)).is_some());
    }

    /// A change may wait for minutes for clients' leases, and its caller may still retry after its
    /// completion. Meanwhile many other calls are answered, in other slots and without change
    /// numbers. The answer to the change must stay in the cache.
    #[test]
    fn a_numbered_call_stays_cached_however_many_others_are_answered() {
        let mut seen = Seen::default();
        let first = key(Same::Number(SLOTS));
        let mut rounds = 2..;
        let mut others = |seen: &mut Seen| {
            for round in rounds.by_ref().take(2 * SEEN_MAX) {
                run(seen, key(Same::Number(u64::from(round) * SLOTS + 1)));
                run(seen, key(Same::Xid(round)));
            }
            assert!(seen.calls.len() <= SEEN_MAX + 2 && seen.answered.len() <= SEEN_MAX);
        };
        let (_first, before) = seen.wait(first);
        assert!(matches!(before, Before::Nothing));
        others(&mut seen);
        let (mut again, before) = seen.wait(first);
        assert!(matches!(before, Before::UnderWay(_)));
        let telling = seen.answered(first, told(7)).expect("a call waits");
        assert_eq!(telling.send(told(7)), Ok(()));
        assert_eq!(again.try_recv(), Ok(Some(told(7))));
        others(&mut seen);
        let (mut once_more, before) = seen.wait(first);
        assert!(matches!(before, Before::Answered));
        assert_eq!(once_more.try_recv(), Ok(Some(told(7))));
    }

    /// A new call in a slot shows that the caller no longer retries the earlier call of the slot,
    /// so the cache drops the earlier call.
    #[test]
    fn a_slot_has_one_call() {
        let mut seen = Seen::default();
        let [one, two] = [key(Same::Number(SLOTS)), key(Same::Number(2 * SLOTS))];
        let (mut given_up, _) = seen.wait(one);
        run(&mut seen, two);
        assert!(given_up.try_recv().is_err(), "it is not answered");
        assert!(seen.answered(one, told(7)).is_none());
        // A delayed retransmission of the earlier call must not run.
        let (mut late, before) = seen.wait(one);
        assert!(matches!(before, Before::Over));
        assert!(late.try_recv().is_err());
        assert!(matches!(seen.wait(two).1, Before::Answered));
        assert_eq!((seen.calls.len(), seen.last.len()), (1, 1));
        // In a later epoch the change numbers may start lower.
        run(&mut seen, (1, 3, 3, Same::Number(0)));
        assert_eq!(seen.calls.len(), 1);
    }
}
