//! The authentication tokens of metaservers, by which an iod fences superseded metaservers.
//!
//! A token occupies the machine name of an AUTH_SYS credential, which other servers ignore, and
//! contains a keyed checksum. The epoch therefore costs no extra call, and no machine without the
//! key can forge a token. A command, or a metaserver that has not begun its epoch, sends the token
//! of a member ([`EpochKey::member_word`]), which contains no epoch. An iod treats a caller without
//! a token as a client (see `iods`). `core::replica::epochs` has the rules of epochs.

use core::hash::Hasher as _;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures_channel::oneshot;
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Encode as _, Message, Reader, Writer};
use leasehold_core::replica::Ticket;
use leasehold_core::replica::epochs::{Effect, Epochs, Event as Step, Seat};
use leasehold_fs::MaybeReady;
use leasehold_wire::rpc::{AuthStatus, Call, Reply, ReplyStatus, flavor};
use siphasher::sip::SipHasher24;

use crate::{Arrival, Event, Response, Service};

/// The prefix of a token with an epoch.
const FIRST: &str = "leasehold-epoch";

/// The length of a token with an epoch.
const WORD_BYTES: usize = 75;

/// The prefix of a member's token.
const MEMBER: &str = "leasehold-member";

/// The length of a member's token: [`MEMBER`], a space and a checksum of 16 digits.
const MEMBER_BYTES: usize = MEMBER.len() + 17;
/// The prefix of the token that contains a rollback counter and makes an iod accept clients.
const LETS_IN: &str = "leasehold-turn";

/// The length of the token with a rollback counter.
const LETS_IN_BYTES: usize = 48;

/// The cluster key, from which the server computes the checksums in tokens. A machine that has the
/// key can begin an epoch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EpochKey(pub [u8; 16]);

impl EpochKey {
    /// Returns the token of a member of the cluster, without an epoch. An iod of an earlier version
    /// takes the token for the name of a machine.
    #[must_use]
    pub fn member_word(self) -> String {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(MEMBER.as_bytes());
        format!("{MEMBER} {:016x}", hasher.finish())
    }

    /// Returns the token of a metaserver that contains a rollback counter. The iod accepts clients
    /// if it has stored the same counter. An iod of an earlier version takes the token for the name
    /// of a machine.
    #[must_use]
    pub fn turn_word(self, turn: u64) -> String {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(LETS_IN.as_bytes());
        hasher.write(&turn.to_be_bytes());
        format!("{LETS_IN} {turn:016x} {:016x}", hasher.finish())
    }

    /// Returns the rollback counter in a token; None if the token is of another kind or its
    /// checksum is wrong.
    fn turn_of(self, word: &[u8]) -> Option<u64> {
        if word.len() != LETS_IN_BYTES || !word.starts_with(LETS_IN.as_bytes()) {
            return None;
        }
        let said = core::str::from_utf8(word).ok()?.split(' ').nth(1)?;
        let turn = u64::from_str_radix(said, 16).ok()?;
        is_same(self.turn_word(turn).as_bytes(), word).then_some(turn)
    }

    /// Returns true if this is the token of a member.
    fn is_member(self, word: &[u8]) -> bool {
        // The length and the prefix exclude the name of a machine, which most callers send, without
        // a checksum.
        word.len() == MEMBER_BYTES
            && word.starts_with(MEMBER.as_bytes())
            && is_same(self.member_word().as_bytes(), word)
    }
}

/// Compares two tokens in a time that does not depend on the position of the first difference.
fn is_same(own: &[u8], word: &[u8]) -> bool {
    let differing = own.iter().zip(word).fold(0, |all, (one, other)| all | (one ^ other));
    own.len() == word.len() && differing == 0
}

/// An epoch of a metaserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// The volume of the metaserver.
    pub volume: u64,
    /// The metaserver's number in the volume, or [`Epoch::ALONE`].
    pub metaserver: u32,
    /// The number of the epoch, which grows with each start.
    pub number: u64,
}

impl Epoch {
    /// The metaserver number of the only metaserver of a volume.
    pub const ALONE: u32 = u32::MAX;

    /// Returns the token of the epoch.
    #[must_use]
    pub fn word(&self, key: EpochKey) -> String {
        let Self { volume, metaserver, number } = self;
        format!("{FIRST} {volume:016x} {metaserver:08x} {number:016x} {:016x}", self.sum(key))
    }

    /// Returns the epoch in a token; None if the checksum is wrong.
    #[must_use]
    pub fn of_word(word: &[u8], key: EpochKey) -> Option<Self> {
        if word.len() != WORD_BYTES || !word.starts_with(FIRST.as_bytes()) {
            return None;
        }
        let mut parts = core::str::from_utf8(word).ok()?.split(' ').skip(1);
        let mut part = || u64::from_str_radix(parts.next()?, 16).ok();
        let (volume, metaserver, number) = (part()?, part()?, part()?);
        let said = Self { volume, metaserver: u32::try_from(metaserver).ok()?, number };
        // The time of this comparison does not depend on the position of the first difference, so
        // it helps no guess.
        (said.sum(key) ^ part()? == 0).then_some(said)
    }

    fn sum(&self, EpochKey(key): EpochKey) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&key);
        hasher.write(&self.volume.to_be_bytes());
        hasher.write(&self.metaserver.to_be_bytes());
        hasher.write(&self.number.to_be_bytes());
        hasher.finish()
    }

    const fn seat(&self) -> Seat {
        Seat { volume: self.volume, number: self.metaserver }
    }
}

/// The fence: the epochs of all metaservers that call a service.
pub(crate) struct Fence {
    key: EpochKey,
    state: Mutex<State>,
    /// The number of refused calls.
    refused: AtomicU64,
}

#[derive(Default)]
struct State {
    core: Epochs,
    last_ticket: u64,
    waiting: BTreeMap<Ticket, oneshot::Sender<()>>,
}

/// The token of a call.
enum Said {
    Epoch(Xid, Epoch),
    Member,
    /// The rollback counter from a metaserver.
    Turn(u64),
    Nothing,
}

/// The fence's decision about a call.
enum Admitted {
    Goes(UnderWay),
    Waits(UnderWay, oneshot::Receiver<()>),
    Refused,
}

impl Fence {
    /// Creates a fence with epochs that have already begun.
    pub(crate) fn new(key: EpochKey, noted: &[Epoch]) -> Self {
        let mut state = State::default();
        for epoch in noted {
            // No call waits or runs yet, so the step has no effects.
            state.core.step(Step::Noted(epoch.seat(), epoch.number), &mut Vec::new());
        }
        Self { key, state: Mutex::new(state), refused: AtomicU64::new(0) }
    }

    /// Returns the number of refused calls.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Answers a message as the service does, or refuses the message if its epoch is superseded.
    pub(crate) fn answer(
        self: &Arc<Self>,
        service: &Arc<Service>,
        arrival: Arrival,
        message: Bytes,
        writer: Writer,
    ) -> Response {
        let (xid, epoch) = match self.said(&message) {
            Said::Epoch(xid, epoch) => (xid, epoch),
            Said::Member => return service.answer_any(arrival, message, writer, true),
            Said::Turn(turn) => {
                let from = arrival.from.ip();
                let answered = service.answer_any(arrival, message, writer, false);
                let service = Arc::clone(service);
                let reply = MaybeReady::later(async move {
                    service.heard_turn(from, turn).await;
                    answered.reply.await
                });
                return Response { reply, must_end: answered.must_end };
            }
            Said::Nothing => return service.answer_any(arrival, message, writer, false),
        };
        match self.admit(epoch) {
            Admitted::Goes(call) => {
                let answered = service.answer_any(arrival, message, writer, true);
                let Response { reply, must_end } = answered;
                Response { reply: reply.map(|reply| call.ended(reply)), must_end }
            }
            Admitted::Waits(call, goes) => {
                let (service, fence) = (Arc::clone(service), Arc::clone(self));
                let reply = MaybeReady::later(async move {
                    if goes.await.is_err() {
                        return Some(fence.refuse(&service, (arrival.from, epoch), xid, writer));
                    }
                    call.ended(service.answer_any(arrival, message, writer, true).reply.await)
                });
                // A running call may have its effect even if its caller is gone, and a successor
                // must wait for that effect. The future therefore runs to its end.
                Response { reply, must_end: true }
            }
            Admitted::Refused => {
                let reply = self.refuse(service, (arrival.from, epoch), xid, writer);
                MaybeReady::now(Some(reply)).into()
            }
        }
    }

    /// Encodes the refusal of a superseded metaserver.
    fn refuse(
        &self,
        service: &Service,
        (from, epoch): (SocketAddr, Epoch),
        xid: Xid,
        mut writer: Writer,
    ) -> Message {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let last = self.lock().core.last(epoch.seat());
        service.observer.event(&Event::EpochOver { from, epoch, last });
        let status = ReplyStatus::AuthError(AuthStatus::RejectedCredential);
        Reply { xid, status }.encode(&mut writer);
        writer.finish()
    }

    /// Returns the token of a call.
    fn said(&self, message: &[u8]) -> Said {
        let Some((xid, word)) = machine_name(message) else { return Said::Nothing };
        match Epoch::of_word(word, self.key) {
            Some(epoch) => Said::Epoch(xid, epoch),
            None if self.key.is_member(word) => Said::Member,
            None => self.key.turn_of(word).map_or(Said::Nothing, Said::Turn),
        }
    }

    fn admit(self: &Arc<Self>, epoch: Epoch) -> Admitted {
        let mut effects = Vec::new();
        let mut state = self.lock();
        state.last_ticket += 1;
        let ticket = Ticket(state.last_ticket);
        state.core.step(Step::Call(ticket, epoch.seat(), epoch.number), &mut effects);
        let under_way = || UnderWay { fence: Arc::clone(self), ticket, epoch };
        let admitted = if effects.contains(&Effect::Go(ticket)) {
            Admitted::Goes(under_way())
        } else if effects.contains(&Effect::Refuse(ticket)) {
            Admitted::Refused
        } else {
            let (sender, receiver) = oneshot::channel();
            state.waiting.insert(ticket, sender);
            Admitted::Waits(under_way(), receiver)
        };
        let told = state.told(&effects);
        drop(state);
        tell(told);
        admitted
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // After a panic the fence cannot determine which calls have ended, so the service must not
        // continue.
        self.state.lock().expect("a core that panicked is not used again")
    }
}

/// Returns the machine name in the credential of a call.
fn machine_name(message: &[u8]) -> Option<(Xid, &[u8])> {
    let call = Call::decode(&mut Reader::of_part(message)).ok()?;
    if call.credential.flavor != flavor::SYS {
        return None;
    }
    let mut credential = Reader::of_part(call.credential.body);
    // In an AUTH_SYS credential an arbitrary number, the stamp, precedes the machine name.
    credential.u32().ok()?;
    Some((call.xid, credential.opaque(u32::MAX).ok()?))
}

impl State {
    /// Returns the waiting calls with a decision, each with true if it is admitted.
    fn told(&mut self, effects: &[Effect]) -> Vec<(oneshot::Sender<()>, bool)> {
        let told = effects.iter().filter_map(|effect| {
            let (Effect::Go(ticket) | Effect::Refuse(ticket)) = effect;
            let goes = matches!(effect, Effect::Go(_));
            Some((self.waiting.remove(ticket)?, goes))
        });
        told.collect()
    }
}

/// Wakes the calls with a decision. The caller must not hold the mutex, because a woken call may
/// run inside `send` and acquire the mutex.
fn tell(told: Vec<(oneshot::Sender<()>, bool)>) {
    for (sender, _) in told.into_iter().filter(|(_, goes)| *goes) {
        // The send fails if the waiting call is gone. The drop of a sender without a send reports a
        // refusal.
        let _ = sender.send(());
    }
}

/// An admitted call, until it has ended.
struct UnderWay {
    fence: Arc<Fence>,
    ticket: Ticket,
    epoch: Epoch,
}

impl UnderWay {
    /// Ends the call and returns its reply.
    fn ended(self, reply: Option<Message>) -> Option<Message> {
        drop(self);
        reply
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let Self { fence, ticket, epoch } = self;
        let mut effects = Vec::new();
        let mut state = fence.lock();
        state.core.step(Step::Ended(*ticket, epoch.seat(), epoch.number), &mut effects);
        let given_up = state.waiting.remove(ticket);
        let told = state.told(&effects);
        drop(state);
        drop(given_up);
        tell(told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: EpochKey = EpochKey([3; 16]);

    #[test]
    fn member_token_depends_on_the_key() {
        let word = KEY.member_word();
        assert!(KEY.is_member(word.as_bytes()));
        assert_eq!(Epoch::of_word(word.as_bytes(), KEY), None);
        for other in ["", MEMBER, &word[..word.len() - 1], &format!("{word}0")] {
            assert!(!KEY.is_member(other.as_bytes()), "{other}");
        }
        assert!(!EpochKey([4; 16]).is_member(word.as_bytes()));
    }

    #[test]
    fn client_token_depends_on_the_key() {
        for turn in [0, 17, u64::MAX] {
            let word = KEY.turn_word(turn);
            assert_eq!(KEY.turn_of(word.as_bytes()), Some(turn));
            assert_eq!(EpochKey([4; 16]).turn_of(word.as_bytes()), None);
            assert!(!KEY.is_member(word.as_bytes()));
            for other in ["", LETS_IN, &word[1..], &word[..word.len() - 1], &format!("{word}0")] {
                assert_eq!(KEY.turn_of(other.as_bytes()), None, "{other}");
            }
        }
        let other = KEY.turn_word(17).replace("11 ", "12 ");
        assert_eq!(KEY.turn_of(other.as_bytes()), None);
    }

    #[test]
    fn only_holders_of_the_key_can_write_a_token() {
        let epoch = Epoch { volume: 0x0123_4567_89ab_cdef, metaserver: 2, number: 17 };
        let word = epoch.word(KEY);
        assert_eq!(
            word,
            "leasehold-epoch 0123456789abcdef 00000002 0000000000000011 2fba00bd9dc47539"
        );
        let read = |word: &str, key| Epoch::of_word(word.as_bytes(), key);
        assert_eq!(read(&word, KEY), Some(epoch));
        assert_eq!(read(&word, EpochKey([4; 16])), None);
        assert_eq!(read(&word.replace("11", "12"), KEY), None);
        for no_word in ["", "client", &word[1..], &word[..WORD_BYTES - 1], &format!("{word} ")] {
            assert_eq!(read(no_word, KEY), None, "{no_word}");
        }
        let alone = Epoch { metaserver: Epoch::ALONE, number: u64::MAX, ..epoch };
        assert_eq!(read(&alone.word(KEY), KEY), Some(alone));
    }
}
