//! The replica program, as it is served.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use futures_channel::oneshot;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use leasehold_base::xdr::{Decode as _, Encode as _, Message, Reader, Writer};
use leasehold_core::replica::Stamp;
use leasehold_fs::Answer as Response;
use leasehold_wire::replica::{Caller, PROGRAM, VERSION};
use leasehold_wire::rpc::{AuthStatus, AuthSys, Call, Reply, ReplyStatus, Versions, flavor, null};

use crate::Metaserver;
use crate::message::{Answer, Ask};

/// How many calls are remembered, so that one that comes twice is done once.
const SEEN_MAX: usize = 4096;

type Answering = Shared<BoxFuture<'static, (Stamp, Answer)>>;

/// Calls that have an effect, with their answers: by caller, its epoch and the call's number.
#[derive(Default)]
pub(crate) struct Seen {
    answers: BTreeMap<(u32, u64, u32), Answering>,
    order: VecDeque<(u32, u64, u32)>,
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
            let (stamp, answer) = answering.await;
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
        let begin = || {
            let (sender, receiver) = oneshot::channel();
            let told = receiver.map(|told| told.unwrap_or((Stamp::default(), Answer::Later)));
            (sender, told.boxed().shared())
        };
        if !has_effect {
            let (sender, answering) = begin();
            self.with(|node| node.receive(caller, ask, sender));
            return answering;
        }
        let key = (caller.peer, caller.epoch, xid);
        let mut seen = self.shared.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(answering) = seen.answers.get(&key) {
            return answering.clone();
        }
        let (sender, answering) = begin();
        seen.answers.insert(key, answering.clone());
        seen.order.push_back(key);
        if seen.order.len() > SEEN_MAX
            && let Some(oldest) = seen.order.pop_front()
        {
            seen.answers.remove(&oldest);
        }
        drop(seen);
        self.with(|node| node.receive(caller, ask, sender));
        answering
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
