//! Random requests, compared with a model that has one lock for each byte and owner.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// The number of bytes of the model; its last byte stands for the end of the file.
const BYTES: u64 = 16;

#[derive(Clone, Copy, Debug)]
enum Move {
    Lock { owner: u64, file: u64, range: Range, kind: Kind, under: u64, waits: u8 },
    Unlock { owner: u64, file: u64, range: Range },
    Cancel { owner: u64, file: u64, range: Range, kind: Kind },
    ReleaseOwner { owner: u64, file: u64, under: Option<u64> },
    Release { client: u64 },
    Silence { client: u64 },
    Heard { client: u64 },
    Wait { seconds: u64 },
}

fn any_range() -> impl Strategy<Value = Range> {
    (0..BYTES, 1..BYTES).prop_map(|(offset, length)| {
        if offset + length >= BYTES {
            Range::to_end(offset)
        } else {
            Range::new(offset, length).expect("a valid range")
        }
    })
}

fn any_move() -> impl Strategy<Value = Move> {
    let kind = || prop_oneof![Just(Kind::Read), Just(Kind::Write)];
    prop_oneof![
        8 => (0..6_u64, 0..2_u64, any_range(), kind(), 0..2_u64, 0..3_u8).prop_map(
            |(owner, file, range, kind, under, waits)| {
                Move::Lock { owner, file, range, kind, under, waits }
            }
        ),
        5 => (0..6_u64, 0..2_u64, any_range())
            .prop_map(|(owner, file, range)| Move::Unlock { owner, file, range }),
        1 => (0..6_u64, 0..2_u64, any_range(), kind())
            .prop_map(|(owner, file, range, kind)| Move::Cancel { owner, file, range, kind }),
        1 => (0..6_u64, 0..2_u64, proptest::option::of(0..2_u64))
            .prop_map(|(owner, file, under)| Move::ReleaseOwner { owner, file, under }),
        1 => (0..3_u64).prop_map(|client| Move::Release { client }),
        1 => (0..3_u64).prop_map(|client| Move::Silence { client }),
        1 => (0..3_u64).prop_map(|client| Move::Heard { client }),
        1 => (0..40_u64).prop_map(|seconds| Move::Wait { seconds }),
    ]
}

/// Each client has two owners.
fn number_owner(number: u64) -> Owner {
    named(Locker::Client(Client(number / 2)), &number.to_string())
}

type Lock = (Kind, u64);

/// The locks of each byte, and the requests that block.
#[derive(Default)]
struct Model {
    bytes: BTreeMap<(u64, u64, u64), Lock>,
    blocked: BTreeMap<Ticket, (u64, u64, Range, Lock)>,
}

fn bytes(range: Range) -> std::ops::RangeInclusive<u64> {
    range.offset()..=range.last().unwrap_or(BYTES - 1).min(BYTES - 1)
}

impl Model {
    fn set(&mut self, file: u64, owner: u64, range: Range, lock: Option<Lock>) {
        for byte in bytes(range) {
            match lock {
                Some(lock) => self.bytes.insert((file, owner, byte), lock),
                None => self.bytes.remove(&(file, owner, byte)),
            };
        }
    }

    fn conflicts(&self, file: u64, owner: u64, range: Range, kind: Kind) -> bool {
        self.bytes.iter().any(|((other_file, other, byte), (held, _))| {
            *other_file == file
                && *other != owner
                && bytes(range).contains(byte)
                && (*held == Kind::Write || kind == Kind::Write)
        })
    }

    fn release(&mut self, client: u64) {
        self.bytes.retain(|(_, owner, _), _| owner / 2 != client);
        self.blocked.retain(|_, (owner, ..)| *owner / 2 != client);
    }
}

struct Pair {
    locks: Locks,
    model: Model,
    now: Time,
    next_ticket: u64,
}

impl Pair {
    fn make(&mut self, one: Move) -> Result<(), TestCaseError> {
        let mut effects = Vec::new();
        match one {
            Move::Lock { .. } => self.lock(one, &mut effects)?,
            Move::Unlock { owner, file, range } => {
                let name = number_owner(owner);
                let done = self.locks.unlock(self.now, object(file), &name, range, &mut effects);
                prop_assert_eq!(done, Ok(()));
                self.model.set(file, owner, range, None);
            }
            Move::Cancel { owner, file, range, kind } => {
                let (name, wanted) = (number_owner(owner), (range, kind));
                self.locks.cancel(self.now, object(file), &name, wanted, &mut effects);
                self.model.blocked.retain(|_, (other, at, bytes, (with, _))| {
                    (*other, *at, *bytes, *with) != (owner, file, range, kind)
                });
            }
            Move::ReleaseOwner { owner, file, under } => {
                let (name, open) = (number_owner(owner), under.map(Under));
                self.locks.release_owner(self.now, object(file), &name, open, &mut effects);
                let goes = |of: u64, at: u64, open: u64| {
                    of == owner && at == file && under.is_none_or(|under| under == open)
                };
                self.model.bytes.retain(|(at, of, _), (_, open)| !goes(*of, *at, *open));
                self.model.blocked.retain(|_, (of, at, _, (_, open))| !goes(*of, *at, *open));
            }
            Move::Release { client } => {
                self.locks.release(self.now, Locker::Client(Client(client)), &mut effects);
                self.model.release(client);
            }
            Move::Silence { client } => {
                let client = Client(client);
                self.locks.silence(self.now, client, &mut effects);
                self.model.blocked.retain(|_, (owner, ..)| *owner / 2 != client.0);
            }
            Move::Heard { client } => self.locks.heard(Client(client)),
            Move::Wait { seconds } => {
                self.now = self.now + Duration::from_secs(seconds);
                self.locks.tick(self.now, &mut effects);
            }
        }
        self.perform(effects)
    }

    fn lock(&mut self, one: Move, effects: &mut Vec<Effect>) -> Result<(), TestCaseError> {
        let Move::Lock { owner, file, range, kind, under, waits } = one else { return Ok(()) };
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let wait = [Wait::No, Wait::Poll, Wait::Block(ticket)][usize::from(waits)];
        let request = Request {
            under: Under(under),
            kind,
            wait,
            ..simple(file, &number_owner(owner), range)
        };
        let answer = self.locks.lock(self.now, &request, effects);
        if answer == Ok(Answer::Blocked) {
            // A repeated request replaces the request in the queue.
            self.model.blocked.retain(|_, (other, at, bytes, (with, _))| {
                (*other, *at, *bytes, *with) != (owner, file, range, kind)
            });
            self.model.blocked.insert(ticket, (owner, file, range, (kind, under)));
        }
        self.expire(effects);
        if answer == Ok(Answer::Granted) {
            prop_assert!(!self.model.conflicts(file, owner, range, kind));
            self.model.set(file, owner, range, Some((kind, under)));
        } else if let Err(Refusal::Denied(denied)) = &answer {
            prop_assert!(denied.owner != number_owner(owner));
        } else {
            let refused = matches!(answer, Err(Refusal::Deadlock) | Ok(Answer::Blocked));
            prop_assert!(refused, "{answer:?}");
            prop_assert!(waits == 2);
        }
        Ok(())
    }

    /// Removes the expired clients from the model, before a request of another client is compared.
    fn expire(&mut self, effects: &[Effect]) {
        let first_grant = effects.iter().position(|effect| matches!(effect, Effect::Granted(_)));
        for effect in &effects[..first_grant.unwrap_or(effects.len())] {
            if let Effect::Expire(client) = effect {
                self.model.release(client.0);
            }
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) -> Result<(), TestCaseError> {
        for effect in effects {
            match effect {
                Effect::Expire(client) => {
                    let is_silent = self.locks.silent.contains(&client);
                    prop_assert!(!is_silent, "an expired client is no longer silent");
                    self.model.release(client.0);
                }
                Effect::Granted(ticket) => {
                    let request = self.model.blocked.remove(&ticket);
                    let (owner, file, range, lock) = request.expect("a granted request waited");
                    prop_assert!(!self.model.conflicts(file, owner, range, lock.0));
                    self.model.set(file, owner, range, Some(lock));
                }
                Effect::Notify(..) => {}
                Effect::Refused(_) => prop_assert!(false, "the limits are not reached"),
            }
        }
        self.locks.check();
        let mut held = BTreeMap::new();
        for (file, ranges) in &self.locks.files {
            for lock in ranges.iter() {
                let name = &self.locks.owners.key(lock.owner).name;
                let number = String::from_utf8_lossy(name.bytes()).parse().expect("a number");
                for byte in bytes(lock.range) {
                    held.insert((file.file.0, number, byte), (lock.kind, lock.under.0));
                }
            }
        }
        prop_assert_eq!(&held, &self.model.bytes);
        let blocked = self.locks.queues.iter().flat_map(|(_, queue)| queue);
        let blocked = blocked.filter(|waiter| matches!(waiter.stage, Stage::Blocks(_)));
        prop_assert!(blocked.count() <= self.model.blocked.len());
        Ok(())
    }
}

proptest! {
    #[test]
    fn locks_agree_with_a_model_of_bytes(moves in vec(any_move(), 1..80)) {
        let locks = Locks::new(Limits::DEFAULT);
        let mut pair =
            Pair { locks, model: Model::default(), now: Time::ZERO, next_ticket: 0 };
        for one in moves {
            pair.make(one)?;
        }
        // Once every client is gone and time has passed, nothing is left.
        for client in 0..3 {
            pair.make(Move::Release { client })?;
        }
        prop_assert!(pair.locks.is_empty());
        prop_assert_eq!(pair.locks.waiting(), 0);
        prop_assert_eq!(pair.locks.next_wake(), None);
    }
}
