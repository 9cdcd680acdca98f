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

/// How many answers are remembered, so that a call that comes twice is done once.
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
}

/// Calls that have an effect, with their answers.
#[derive(Default)]
pub(crate) struct Seen {
    calls: BTreeMap<Key, Kept>,
    /// Those that are answered, the oldest first.
    answered: VecDeque<Key>,
}

impl Seen {
    /// Waits for the answer to a call.
    fn wait(&mut self, key: Key) -> (Answering, Before) {
        let (sender, answering) = oneshot::channel();
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
        let before = self.calls.insert(key, Kept::Answered(stamp, answer));
        self.answered.push_back(key);
        if self.answered.len() > SEEN_MAX
            && let Some(oldest) = self.answered.pop_front()
        {
            self.calls.remove(&oldest);
        }
        match before {
            Some(Kept::Waiting(telling)) => Some(telling),
            Some(Kept::Answered(..)) | None => None,
        }
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
        let has_effect =
            matches!(ask, Ask::Claim(..) | Ask::Change { .. } | Ask::Place { .. } | Ask::Move(_));
        let (sender, receiver) = oneshot::channel();
        if !has_effect {
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
                    let Ok(answer) = receiver.await else { return };
                    let telling = this.seen().answered(key, answer.clone());
                    if let Some(telling) = telling {
                        // Who asked may be gone.
                        let _ = telling.send(answer);
                    }
                });
            }
            Before::UnderWay(last) => drop(last),
            Before::Answered => {}
        }
        answering
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
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

    const fn key(number: u64) -> Key {
        (1, 2, 3, Same::Number(number))
    }

    /// A change waits for minutes where clients hold leases: others are done meanwhile.
    #[test]
    fn a_call_under_way_is_not_forgotten_however_many_are_answered() {
        let mut seen = Seen::default();
        let answer = |version| (Stamp(version), Answer::Version(Stamp(version)));
        let (_first, before) = seen.wait(key(0));
        assert!(matches!(before, Before::Nothing));
        for number in (1..).take(2 * SEEN_MAX) {
            let (_answering, before) = seen.wait(key(number));
            assert!(matches!(before, Before::Nothing));
            assert!(seen.answered(key(number), answer(number)).is_some());
        }
        assert!(seen.calls.len() <= SEEN_MAX + 1 && seen.answered.len() <= SEEN_MAX);
        let (mut again, before) = seen.wait(key(0));
        assert!(matches!(before, Before::UnderWay(_)));
        let telling = seen.answered(key(0), answer(7)).expect("somebody waits");
        assert_eq!(telling.send(answer(7)), Ok(()));
        assert_eq!(again.try_recv(), Ok(Some(answer(7))));
        // Its answer is as new as any other.
        let (mut once_more, before) = seen.wait(key(0));
        assert!(matches!(before, Before::Answered));
        assert_eq!(once_more.try_recv(), Ok(Some(answer(7))));
    }
}
