//! The epoch that a metaserver says in its calls, by which an iod refuses one that is over.
//!
//! It stands in the name of the machine of an AUTH_SYS credential, which no other server looks at,
//! with a keyed sum; so the epoch costs no call, and no other machine can make one up. A command,
//! and a metaserver that has not begun its epoch, says the word of a member
//! ([`EpochKey::member_word`]), which an iod compares with no epoch. An iod takes a caller without
//! a word for a client (`iods`). `core::replica::epochs` has the rules.

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
use leasehold_fs::Answer;
use leasehold_wire::rpc::{AuthStatus, Call, Reply, ReplyStatus, flavor};
use siphasher::sip::SipHasher24;

use crate::{Arrival, Event, Response, Service};

/// What a word of an epoch begins with.
const FIRST: &str = "leasehold-epoch";

/// How long a word is.
const WORD_BYTES: usize = 75;

/// The beginning of the word of a member of the cluster.
const MEMBER: &str = "leasehold-member";

/// The length of the word of a member: [`MEMBER`], a space and a sum in 16 digits.
const MEMBER_BYTES: usize = MEMBER.len() + 17;
/// The beginning of the word that lets clients in.
const LETS_IN: &str = "leasehold-turn";

/// The bytes of the word that lets clients in.
const LETS_IN_BYTES: usize = 48;

/// The key of the sums in words of epochs; whoever knows it can begin one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EpochKey(pub [u8; 16]);

impl EpochKey {
    /// The word of a caller that belongs to the cluster, of no epoch. An iod of an earlier version
    /// takes the word for the name of a machine.
    #[must_use]
    pub fn member_word(self) -> String {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(MEMBER.as_bytes());
        format!("{MEMBER} {:016x}", hasher.finish())
    }

    /// The word of a metaserver that lets clients in where this turn is noted. An iod of an earlier
    /// version takes the word for the name of a machine.
    #[must_use]
    pub fn turn_word(self, turn: u64) -> String {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(LETS_IN.as_bytes());
        hasher.write(&turn.to_be_bytes());
        format!("{LETS_IN} {turn:016x} {:016x}", hasher.finish())
    }

    /// The turn in a word that lets clients in; none where no holder of the key has written the
    /// word.
    fn turn_of(self, word: &[u8]) -> Option<u64> {
        if word.len() != LETS_IN_BYTES || !word.starts_with(LETS_IN.as_bytes()) {
            return None;
        }
        let said = core::str::from_utf8(word).ok()?.split(' ').nth(1)?;
        let turn = u64::from_str_radix(said, 16).ok()?;
        is_same(self.turn_word(turn).as_bytes(), word).then_some(turn)
    }

    /// Returns true if this is the word of a member.
    fn is_member(self, word: &[u8]) -> bool {
        // The words of most callers are names of machines, which need no sum.
        word.len() == MEMBER_BYTES
            && word.starts_with(MEMBER.as_bytes())
            && is_same(self.member_word().as_bytes(), word)
    }
}

/// Compares two words in a time that does not depend on the first difference.
fn is_same(own: &[u8], word: &[u8]) -> bool {
    let differing = own.iter().zip(word).fold(0, |all, (one, other)| all | (one ^ other));
    own.len() == word.len() && differing == 0
}

/// An epoch of a metaserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// The volume that it serves.
    pub volume: u64,
    /// Its number there, or [`Epoch::ALONE`].
    pub metaserver: u32,
    /// Greater with each start.
    pub number: u64,
}

impl Epoch {
    /// The number of the only metaserver of a volume.
    pub const ALONE: u32 = u32::MAX;

    /// The word that says it.
    #[must_use]
    pub fn word(&self, key: EpochKey) -> String {
        let Self { volume, metaserver, number } = self;
        format!("{FIRST} {volume:016x} {metaserver:08x} {number:016x} {:016x}", self.sum(key))
    }

    /// What a word says; none where nobody with the key has written it.
    #[must_use]
    pub fn of_word(word: &[u8], key: EpochKey) -> Option<Self> {
        if word.len() != WORD_BYTES || !word.starts_with(FIRST.as_bytes()) {
            return None;
        }
        let mut parts = core::str::from_utf8(word).ok()?.split(' ').skip(1);
        let mut part = || u64::from_str_radix(parts.next()?, 16).ok();
        let (volume, metaserver, number) = (part()?, part()?, part()?);
        let said = Self { volume, metaserver: u32::try_from(metaserver).ok()?, number };
        // No part of it is compared before another.
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

/// The epochs of all metaservers that call a service.
pub(crate) struct Fence {
    key: EpochKey,
    state: Mutex<State>,
    /// Calls that were refused.
    refused: AtomicU64,
}

#[derive(Default)]
struct State {
    core: Epochs,
    last_ticket: u64,
    waiting: BTreeMap<Ticket, oneshot::Sender<()>>,
}

/// The word of a call.
enum Said {
    Epoch(Xid, Epoch),
    Member,
    /// The turn that lets clients in.
    Turn(u64),
    Nothing,
}

/// What becomes of a call.
enum Admitted {
    Goes(UnderWay),
    Waits(UnderWay, oneshot::Receiver<()>),
    Refused,
}

impl Fence {
    /// Knows of these that they were begun.
    pub(crate) fn new(key: EpochKey, noted: &[Epoch]) -> Self {
        let mut state = State::default();
        for epoch in noted {
            // Nobody calls yet, so nothing comes of it.
            state.core.step(Step::Noted(epoch.seat(), epoch.number), &mut Vec::new());
        }
        Self { key, state: Mutex::new(state), refused: AtomicU64::new(0) }
    }

    /// How many calls were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Answers as the service does what is of no epoch that is over.
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
                let reply = Answer::later(async move {
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
                let reply = Answer::later(async move {
                    if goes.await.is_err() {
                        return Some(fence.refuse(&service, (arrival.from, epoch), xid, writer));
                    }
                    call.ended(service.answer_any(arrival, message, writer, true).reply.await)
                });
                // Once it has begun it may have its effect, whoever waits for it.
                Response { reply, must_end: true }
            }
            Admitted::Refused => {
                let reply = self.refuse(service, (arrival.from, epoch), xid, writer);
                Answer::now(Some(reply)).into()
            }
        }
    }

    /// The reply to who is over: no session of its is taken any more.
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

    /// The word that a call says.
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
        // Nobody could be told any more whose calls are over.
        self.state.lock().expect("a core that panicked is not used again")
    }
}

/// The name of the machine in the credential of a call.
fn machine_name(message: &[u8]) -> Option<(Xid, &[u8])> {
    let call = Call::decode(&mut Reader::of_part(message)).ok()?;
    if call.credential.flavor != flavor::SYS {
        return None;
    }
    let mut credential = Reader::of_part(call.credential.body);
    // In the credential the name stands behind a number of the caller's choice.
    credential.u32().ok()?;
    Some((call.xid, credential.opaque(u32::MAX).ok()?))
}

impl State {
    /// Those that wait no more, and whether each goes.
    fn told(&mut self, effects: &[Effect]) -> Vec<(oneshot::Sender<()>, bool)> {
        let told = effects.iter().filter_map(|effect| {
            let (Effect::Go(ticket) | Effect::Refuse(ticket)) = effect;
            let goes = matches!(effect, Effect::Go(_));
            Some((self.waiting.remove(ticket)?, goes))
        });
        told.collect()
    }
}

/// Tells them so, with nothing locked: they may go on there and then.
fn tell(told: Vec<(oneshot::Sender<()>, bool)>) {
    for (sender, _) in told.into_iter().filter(|(_, goes)| *goes) {
        // Who waited may be gone. Who is refused learns it by the end of the sender.
        let _ = sender.send(());
    }
}

/// A call that was let in, until it has come to its end.
struct UnderWay {
    fence: Arc<Fence>,
    ticket: Ticket,
    epoch: Epoch,
}

impl UnderWay {
    /// Its reply, when it is over.
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
    fn the_word_of_a_member_has_the_key() {
        let word = KEY.member_word();
        assert!(KEY.is_member(word.as_bytes()));
        assert_eq!(Epoch::of_word(word.as_bytes(), KEY), None);
        for other in ["", MEMBER, &word[..word.len() - 1], &format!("{word}0")] {
            assert!(!KEY.is_member(other.as_bytes()), "{other}");
        }
        assert!(!EpochKey([4; 16]).is_member(word.as_bytes()));
    }

    #[test]
    fn the_word_that_lets_clients_in_has_the_key() {
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
    fn a_word_is_that_of_who_has_the_key() {
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
