//! The replica program, as it is served.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{MutexGuard, PoisonError};

use bytes::Bytes;
use futures_channel::oneshot;
use leasehold_base::xdr::{Decode as _, Encode as _, Message, Reader, Writer};
use leasehold_core::replica::Stamp;
use leasehold_fs::Answer as Response;
use leasehold_session::spawn;
use leasehold_wire::replica::{Caller, PROGRAM, VERSION};
use leasehold_wire::rpc::{AuthStatus, AuthSys, Call, Reply, ReplyStatus, Versions, flavor, null};

use crate::Metaserver;
use crate::message::{Answer, Ask};
use crate::placing::SLOTS;

/// How many answers to calls without numbers are remembered, so that one that comes twice is done once.
const SEEN_MAX: usize = 4096;

/// Waits for an answer.
type Answering = oneshot::Receiver<(Stamp, Answer)>;

/// Who waits is told by this.
type Telling = oneshot::Sender<(Stamp, Answer)>;

/// By what a call is known where it is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Same {
    Xid(u32),
    /// It may have another xid.
    Number(u64),
}

/// Which of its slots a caller numbered a call in.
type Slot = (u32, u64);

fn slot(key: &Key) -> Option<Slot> {
    match key {
        (caller, .., Same::Number(number)) => Some((*caller, number % SLOTS)),
        (.., Same::Xid(_)) => None,
    }
}

/// A call that has an effect: by caller, the epochs of both, and what it is known by.
type Key = (u32, u64, u64, Same);

/// What a call that was remembered is answered.
enum Kept {
    /// It is under way.
    Waiting(Telling),
    Answered(Stamp, Answer),
}

/// What there was of a call before.
enum Before {
    Nothing,
    /// It is under way, and who waited for it does no longer.
    UnderWay(Telling),
    Answered,
    /// There was a later one in its slot: nobody waits for it.
    Over,
}

/// Calls that have an effect, with their answers.
#[derive(Default)]
pub(crate) struct Seen {
    calls: BTreeMap<Key, Kept>,
    /// Those that are answered and have no number, the oldest first.
    answered: VecDeque<Key>,
    /// The last of each slot. Who asks has one at a time in a slot, so its answer is kept until the next
    /// comes there, whatever else is answered meanwhile and however long it is asked for.
    last: BTreeMap<Slot, Key>,
}

impl Seen {
    /// How many are remembered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Waits for the answer to a call.
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
                // The other end is here.
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

    /// Takes note of an answer, and gives who waits for it.
    fn answered(&mut self, key: Key, (stamp, answer): (Stamp, Answer)) -> Option<Telling> {
        // Nobody asks for it any more if it is not there.
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

    /// The same of a call that had no effect, and is done if it is made again.
    fn forget(&mut self, key: Key) -> Option<Telling> {
        let kept = self.calls.remove(&key)?;
        if let Kept::Waiting(telling) = kept { Some(telling) } else { None }
    }
}

impl Metaserver {
    /// Answers one RPC message, which a stream carried; with nothing, when it is none or must not
    /// be answered.
    pub fn answer(&self, message: &Bytes, writer: Writer) -> Response<'static, Option<Message>> {
        let mut reader = Reader::new(message);
        let call = match Call::decode(&mut reader) {
            Ok(call) => call,
            Err(error) => {
                return Response::now(error.reply().map(|reply| written(&reply, writer)));
            }
        };
        let xid = call.xid;
        let refused = |status| Response::now(Some(written(&Reply { xid, status }, Writer::new())));
        let (caller, ask) = match self.call(&call, &mut reader) {
            Ok(Some(asked)) => asked,
            Ok(None) => {
                let status = ReplyStatus::Success;
                return Response::now(Some(written(&Reply { xid, status }, writer)));
            }
            Err(status) => return refused(status),
        };
        let answering = self.answering(caller, xid.0, ask);
        Response::later(async move {
            // It was made again, and that is answered; or nobody knows any more what came of it.
            let Ok((stamp, answer)) = answering.await else { return None };
            let mut writer = writer;
            Reply { xid, status: ReplyStatus::Success }.encode(&mut writer);
            answer.encode(stamp, &mut writer);
            Some(writer.finish())
        })
    }

    /// What is called; nothing where that is NULL.
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
                        // Nobody will be told.
                        drop(this.seen().forget(key));
                        return;
                    };
                    // Who is told of another epoch asks again by it, and may mean the same one.
                    let is_void = matches!(answer.1, Answer::Epoch(_));
                    let telling = if is_void {
                        this.seen().forget(key)
                    } else {
                        this.seen().answered(key, answer.clone())
                    };
                    if let Some(telling) = telling {
                        // Who asked may be gone.
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

/// Whether two words are the same, in a time that does not say where they differ.
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
    fn a_call_of_another_epoch_is_done_when_it_comes_again() {
        let mut seen = Seen::default();
        for same in [Same::Xid(1), Same::Number(1)] {
            let (_answering, before) = seen.wait(key(same));
            assert!(matches!(before, Before::Nothing));
            assert!(seen.forget(key(same)).is_some());
            run(&mut seen, key(same));
        }
    }

    /// Has a new call answered.
    fn run(seen: &mut Seen, key: Key) {
        let (_answering, before) = seen.wait(key);
        assert!(matches!(before, Before::Nothing));
        assert!(seen.answered(key, told(1)).is_some());
    }

    /// A change waits for minutes where clients hold leases, and may be asked for still when it is done:
    /// others are done meanwhile, those of other slots and those without numbers.
    #[test]
    fn what_is_asked_for_is_not_forgotten_however_many_are_answered() {
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
        let telling = seen.answered(first, told(7)).expect("somebody waits");
        assert_eq!(telling.send(told(7)), Ok(()));
        assert_eq!(again.try_recv(), Ok(Some(told(7))));
        others(&mut seen);
        let (mut once_more, before) = seen.wait(first);
        assert!(matches!(before, Before::Answered));
        assert_eq!(once_more.try_recv(), Ok(Some(told(7))));
    }

    /// Who asks in a slot asks for nothing any more that it asked for there before.
    #[test]
    fn a_slot_has_one_call() {
        let mut seen = Seen::default();
        let [one, two] = [key(Same::Number(SLOTS)), key(Same::Number(2 * SLOTS))];
        let (mut given_up, _) = seen.wait(one);
        run(&mut seen, two);
        assert!(given_up.try_recv().is_err(), "it is not answered");
        assert!(seen.answered(one, told(7)).is_none());
        // What was long on its way is not done again.
        let (mut late, before) = seen.wait(one);
        assert!(matches!(before, Before::Over));
        assert!(late.try_recv().is_err());
        assert!(matches!(seen.wait(two).1, Before::Answered));
        assert_eq!((seen.calls.len(), seen.last.len()), (1, 1));
        // Numbers of a later epoch may be lower.
        run(&mut seen, (1, 3, 3, Same::Number(0)));
        assert_eq!(seen.calls.len(), 1);
    }
}
