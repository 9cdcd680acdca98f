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

/// How many calls are remembered, so that one that comes twice is done once.
const SEEN_MAX: usize = 4096;

/// Waits for an answer.
type Answering = oneshot::Receiver<(Stamp, Answer)>;

/// A call that has an effect: by caller, its epoch and the call's number.
type Key = (u32, u64, u32);

/// What a call that was remembered is answered.
enum Kept {
    /// It is under way: all these wait.
    Waiting(Vec<oneshot::Sender<(Stamp, Answer)>>),
    Answered(Stamp, Answer),
}

/// Calls that have an effect, with their answers.
#[derive(Default)]
pub(crate) struct Seen {
    answers: BTreeMap<Key, Kept>,
    order: VecDeque<Key>,
}

impl Seen {
    /// Waits for the answer to a call; whether it is a new one.
    fn wait(&mut self, key: Key) -> (Answering, bool) {
        let (sender, answering) = oneshot::channel();
        match self.answers.get_mut(&key) {
            Some(Kept::Waiting(waiting)) => waiting.push(sender),
            Some(Kept::Answered(stamp, answer)) => {
                // The other end is here.
                let _ = sender.send((*stamp, answer.clone()));
            }
            None => {
                self.answers.insert(key, Kept::Waiting(vec![sender]));
                self.order.push_back(key);
                if self.order.len() > SEEN_MAX
                    && let Some(oldest) = self.order.pop_front()
                {
                    match self.answers.get(&oldest) {
                        // It is still under way.
                        Some(Kept::Waiting(_)) => self.order.push_back(oldest),
                        Some(Kept::Answered(..)) | None => drop(self.answers.remove(&oldest)),
                    }
                }
                return (answering, true);
            }
        }
        (answering, false)
    }

    /// Takes note of an answer, and gives all who wait for it.
    fn answered(
        &mut self,
        key: Key,
        (stamp, answer): (Stamp, Answer),
    ) -> Vec<oneshot::Sender<(Stamp, Answer)>> {
        let kept = self.answers.get_mut(&key);
        match kept.map(|kept| core::mem::replace(kept, Kept::Answered(stamp, answer))) {
            Some(Kept::Waiting(waiting)) => waiting,
            Some(Kept::Answered(..)) | None => Vec::new(),
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
            let (stamp, answer) = answering.await.unwrap_or((Stamp::default(), Answer::Later));
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
        let key = (caller.peer, caller.epoch, xid);
        let (answering, is_new) = self.seen().wait(key);
        if is_new {
            self.with(|node| node.receive(caller, ask, sender));
            let this = self.clone();
            spawn(async move {
                let answer = receiver.await.unwrap_or((Stamp::default(), Answer::Later));
                let waiting = this.seen().answered(key, answer.clone());
                for sender in waiting {
                    // Who asked may be gone.
                    let _ = sender.send(answer.clone());
                }
            });
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
