//! Random events in random order: the holder writes back all changes and returns each recalled
//! lease.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const OBJECTS: u64 = 2;

#[derive(Clone, Copy, Debug)]
enum Move {
    Use { object: u64, write: bool, space: u64 },
    Answer { which: usize, grant: Option<(bool, bool, u64, u64, u64)> },
    Evicted { object: u64, serial: u64 },
    Inquired { object: u64, serial: u64 },
    Withdrawn { object: u64 },
    Dirtied { object: u64 },
    Sync { object: u64 },
    Pushed { object: u64, refused: bool, before: u64 },
    Changing { object: u64 },
    Changed { object: u64, known: bool, before: u64 },
    Opened { object: u64, open: Open },
    Released { object: u64 },
    Restarted,
    Wait { millis: u64 },
}

fn any_move() -> impl Strategy<Value = Move> {
    let object = || 0..OBJECTS;
    let open = prop_oneof![Just(Open::No), Just(Open::Read), Just(Open::Write)];
    let grant = (any::<bool>(), any::<bool>(), 0..20_u64, 0..20_u64, 0..50_u64);
    prop_oneof![
        5 => (object(), any::<bool>(), 0..60_u64).prop_map(|(object, write, space)| {
            Move::Use { object, write, space }
        }),
        6 => (0..9_usize, proptest::option::weighted(0.8, grant)).prop_map(|(which, grant)| {
            Move::Answer { which, grant }
        }),
        2 => (object(), 0..20_u64).prop_map(|(object, serial)| Move::Evicted { object, serial }),
        1 => (object(), 0..20_u64).prop_map(|(object, serial)| Move::Inquired { object, serial }),
        3 => object().prop_map(|object| Move::Withdrawn { object }),
        4 => object().prop_map(|object| Move::Dirtied { object }),
        1 => object().prop_map(|object| Move::Sync { object }),
        3 => (object(), any::<bool>(), 0..20_u64).prop_map(|(object, refused, before)| {
            Move::Pushed { object, refused, before }
        }),
        1 => object().prop_map(|object| Move::Changing { object }),
        1 => (object(), any::<bool>(), 0..20_u64).prop_map(|(object, known, before)| {
            Move::Changed { object, known, before }
        }),
        1 => (object(), open).prop_map(|(object, open)| Move::Opened { object, open }),
        1 => object().prop_map(|object| Move::Released { object }),
        1 => Just(Move::Restarted),
        3 => (0..20_000_u64).prop_map(|millis| Move::Wait { millis }),
    ]
}

fn object(number: u64) -> Object {
    Object { file_system: FileSystemId(0), file: FileId(number) }
}

/// An owner that performs the effects with a delay.
#[derive(Default)]
struct Owner {
    holder: Holder,
    now: Time,
    next_ticket: u64,
    asked: Vec<Request>,
    withdrawing: BTreeSet<Object>,
    pushing: BTreeSet<Object>,
    dirty: BTreeSet<Object>,
    changing: Vec<Object>,
    returned: Vec<(Object, Serial)>,
}

impl Owner {
    fn step(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.holder.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Ask { request, .. } => self.asked.push(request),
                Effect::Withdraw(object) => {
                    assert!(self.withdrawing.insert(object), "one withdrawal at a time");
                }
                Effect::Push(object, ..) => {
                    assert!(self.dirty.contains(&object), "only a dirty object is pushed");
                    assert!(self.pushing.insert(object), "one push at a time");
                }
                Effect::Rescue(object, _) => drop(self.dirty.remove(&object)),
                Effect::Return(object, serial, _) => self.returned.push((object, serial)),
                Effect::Use(_)
                | Effect::Through(_)
                | Effect::Full(_)
                | Effect::Drop(_)
                | Effect::Report(..)
                | Effect::Reclaimed
                | Effect::Recovered => {}
            }
        }
    }

    fn pushed(&mut self, object: Object, refused: bool, before: u64) {
        if self.pushing.remove(&object) {
            if refused {
                self.step(Event::Refused(object));
            } else {
                self.dirty.remove(&object);
                self.step(Event::Wrote(object, Modrev(before), Modrev(before + 1)));
                self.step(Event::Pushed(object));
            }
        }
    }

    fn take_into_use(&mut self, object: Object, kind: Kind, space: u64) {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let event = Event::Use(ticket, object, kind, space);
        if self.holder.is_in_use(self.now, object, kind, space) {
            let (mut holder, mut effects) = (self.holder.clone(), Vec::new());
            holder.step(self.now, event, &mut effects);
            assert_eq!(effects, [Effect::Use(ticket)], "a usable object needs no wait");
        }
        self.step(event);
    }

    fn make(&mut self, one: Move) {
        match one {
            Move::Use { object: number, write, space } => {
                let kind = if write { Kind::Write } else { Kind::Read };
                self.take_into_use(object(number), kind, space);
            }
            Move::Answer { which, grant } if !self.asked.is_empty() => {
                let request = self.asked.swap_remove(which % self.asked.len());
                let grant = grant.map(|(write, cachable, serial, modrev, space)| {
                    let kind = if write { Kind::Write } else { Kind::Read };
                    let (term, serial) = (Duration::from_secs(30), Serial(serial));
                    (Grant { kind, cachable, term, serial, space }, Modrev(modrev))
                });
                self.step(Event::Answered(request, grant));
            }
            Move::Answer { .. } => {}
            Move::Evicted { object: number, serial } => {
                self.step(Event::Evicted(object(number), Serial(serial)));
            }
            Move::Inquired { object: number, serial } => {
                self.step(Event::Inquired(object(number), Serial(serial), 0));
            }
            Move::Withdrawn { object: number } => {
                if self.withdrawing.remove(&object(number)) {
                    self.step(Event::Withdrawn(object(number)));
                }
            }
            Move::Dirtied { object: number } => {
                // The test does not change an object during its write-back, because a dialogue
                // tests that case.
                let usable = self.holder.is_usable(self.now, object(number), Kind::Write);
                if usable && !self.pushing.contains(&object(number)) {
                    self.dirty.insert(object(number));
                    self.step(Event::Dirtied(object(number), 1));
                }
            }
            Move::Sync { object: number } => self.step(Event::Sync(object(number))),
            Move::Pushed { object: number, refused, before } => {
                self.pushed(object(number), refused, before);
            }
            Move::Changing { object: number } => {
                self.changing.push(object(number));
                self.step(Event::Changing(object(number)));
            }
            Move::Changed { object: number, known, before } => {
                let at = self.changing.iter().position(|one| *one == object(number));
                if let Some(at) = at {
                    self.changing.swap_remove(at);
                    let modrevs = known.then_some((Modrev(before), Modrev(before + 1)));
                    self.step(Event::Changed(object(number), modrevs));
                }
            }
            Move::Opened { object: number, open } => self.step(Event::Opened(object(number), open)),
            Move::Released { object: number } => self.step(Event::Released(object(number))),
            Move::Restarted => {
                self.pushing.clear();
                self.asked.clear();
                self.step(Event::Restarted);
            }
            Move::Wait { millis } => {
                self.now = self.now + Duration::from_millis(millis);
                self.step(Event::Tick);
            }
        }
    }

    /// Performs all pending effects, and refuses every pending lease request.
    fn finish(&mut self) {
        for _ in 0..20 {
            while let Some(request) = self.asked.pop() {
                self.step(Event::Answered(request, None));
            }
            while let Some(object) = self.withdrawing.pop_first() {
                self.step(Event::Withdrawn(object));
            }
            while let Some(object) = self.pushing.first().copied() {
                self.pushed(object, false, 50);
            }
        }
    }
}

proptest! {
    #[test]
    fn all_changes_are_written_back_and_all_leases_returned(moves in vec(any_move(), 1..120)) {
        let mut owner = Owner::default();
        for one in moves {
            owner.make(one);
        }
        owner.finish();
        // A recall of any lease must end with the return of the lease, and no lease may be held
        // afterwards.
        for number in 0..OBJECTS {
            owner.returned.clear();
            owner.step(Event::Evicted(object(number), Serial(u64::MAX)));
            owner.finish();
            prop_assert!(owner.returned.iter().any(|(one, _)| *one == object(number)));
            let held = owner.holder.held(owner.now, object(number));
            prop_assert!(held.is_none_or(|(_, _, cachable)| !cachable), "{held:?}");
        }
        owner.now = owner.now + Duration::from_secs(60);
        owner.step(Event::Tick);
        owner.finish();
        prop_assert!(owner.dirty.is_empty(), "{:?} stay changed", owner.dirty);
    }
}
