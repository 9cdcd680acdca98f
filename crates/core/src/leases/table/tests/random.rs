//! Random events in random order: the table stays consistent and lets every call run.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// The next action; a message about a lease may name any lease.
#[derive(Clone, Copy, Debug)]
enum Move {
    Call { object: u64, client: Option<u32>, access: Access, under: u64, ask: Option<Ask> },
    Done { which: usize, void: bool, used: u64 },
    GivenUp { which: usize },
    Said(Event),
    Wait { millis: u64 },
}

fn any_ask() -> impl Strategy<Value = Ask> {
    let kind = prop_oneof![Just(Kind::Read), Just(Kind::Write)];
    (kind, 0..70_u64, any::<bool>(), 0..50_u64, any::<bool>(), any::<bool>()).prop_map(
        |(kind, seconds, opportune, space, reclaim, reports)| {
            let term = Duration::from_secs(seconds);
            Ask { kind, term, opportune, space, reclaim, reports }
        },
    )
}

fn any_said() -> impl Strategy<Value = Event> {
    let lease = || {
        let object = (0..3_u64).prop_map(object);
        ((0..4_u32).prop_map(Client), object, (0..30_u64).prop_map(Serial))
    };
    let open = prop_oneof![Just(Open::No), Just(Open::Read), Just(Open::Write)];
    let told =
        any::<bool>().prop_map(|told| told.then_some(Told { size: 1, modified: 0, set: None }));
    prop_oneof![
        lease().prop_map(|(client, object, serial)| Event::Received(client, object, serial)),
        (lease(), open).prop_map(|((client, object, serial), open)| {
            Event::Returned(client, object, serial, open)
        }),
        (lease(), 0..30_u64, told).prop_map(|((client, object, serial), round, told)| {
            Event::Reported(client, object, serial, round, told)
        }),
        (0..4_u32).prop_map(|client| Event::Reconnected(Client(client))),
        (0..4_u32).prop_map(|client| Event::Forgotten(Client(client))),
        (0..4_u32, 0..2_u64)
            .prop_map(|(client, origin)| Event::Met(Client(client), Origin(origin))),
        (0..3_u64).prop_map(|number| Event::Gone(object(number))),
        any::<bool>().prop_map(Event::Backlog),
        (0..100_u64).prop_map(|bytes| Event::Space(object(0).file_system, bytes)),
        Just(Event::Reclaimed),
        Just(Event::Opened),
    ]
}

fn any_move() -> impl Strategy<Value = Move> {
    let access = prop_oneof![
        Just(Access::Nothing),
        Just(Access::Look),
        Just(Access::Read),
        Just(Access::Write)
    ];
    let client = prop_oneof![1 => Just(None), 3 => (0..4_u32).prop_map(Some)];
    let ask = proptest::option::of(any_ask());
    prop_oneof![
        6 => (0..3_u64, client, access, 0..30_u64, ask).prop_map(
            |(object, client, access, under, ask)| {
                Move::Call { object, client, access, under, ask }
            }
        ),
        5 => (0..9_usize, any::<bool>(), 0..50_u64).prop_map(|(which, void, used)| {
            Move::Done { which, void, used }
        }),
        1 => (0..9_usize).prop_map(|which| Move::GivenUp { which }),
        4 => any_said().prop_map(Move::Said),
        2 => (0..40_000_u64).prop_map(|millis| Move::Wait { millis }),
    ]
}

/// An owner that performs all effects.
struct Owner {
    table: Table,
    now: Time,
    next_ticket: u64,
    waiting: BTreeSet<(Ticket, Object)>,
    running: Vec<(Ticket, Object)>,
}

impl Owner {
    fn step(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.table.step(self.now, event, &mut effects);
        self.table.check();
        for effect in effects {
            let (ticket, runs) = match effect {
                Effect::Run(run) => (run.ticket, true),
                Effect::Later(ticket) => (ticket, false),
                Effect::Evict(..) | Effect::Inquire(..) => continue,
            };
            let waited = self.waiting.iter().copied().find(|(one, _)| *one == ticket);
            let waited = waited.expect("a call that runs or is refused waited once");
            self.waiting.remove(&waited);
            self.running.extend(runs.then_some(waited));
        }
    }

    fn make(&mut self, one: Move) {
        match one {
            Move::Call { object: number, client, access, under, ask } => {
                let (ticket, object) = (Ticket(self.next_ticket), object(number));
                self.next_ticket += 1;
                self.waiting.insert((ticket, object));
                let (client, under) = (client.map(Client), Some(Serial(under)));
                self.step(Event::Call(Call { ticket, object, client, access, under, ask }));
            }
            Move::Done { which, void, used } if !self.running.is_empty() => {
                let (ticket, object) = self.running.swap_remove(which % self.running.len());
                self.step(Event::Done(object, ticket, Outcome { used, void }));
            }
            Move::Done { .. } => {}
            Move::GivenUp { which } => {
                let given_up = self.waiting.iter().copied().nth(which);
                if let Some((ticket, object)) = given_up {
                    self.waiting.remove(&(ticket, object));
                    self.step(Event::GivenUp(object, ticket));
                }
            }
            Move::Said(event) => self.step(event),
            Move::Wait { millis } => {
                self.now = self.now + Duration::from_millis(millis);
                self.step(Event::Tick);
            }
        }
    }

    /// Lets time pass and ends the running calls; no client sends any message.
    fn settle(&mut self) {
        self.step(Event::Opened);
        let last = self.now + Duration::from_secs(600);
        while !(self.waiting.is_empty() && self.running.is_empty() && self.table.is_empty()) {
            while let Some((ticket, object)) = self.running.pop() {
                self.step(Event::Done(object, ticket, Outcome::default()));
            }
            let wake = self.table.next_wake();
            let Some(wake) = wake.filter(|wake| *wake <= last) else { break };
            self.now = self.now.max(wake);
            self.step(Event::Tick);
        }
    }
}

proptest! {
    #[test]
    fn every_call_runs_in_the_end(
        moves in vec(any_move(), 1..80),
        most in 1..6_usize,
        recovering: bool,
    ) {
        let mut owner = Owner {
            table: Table::new(Terms::DEFAULT, most, 0, recovering),
            now: Time::ZERO,
            next_ticket: 0,
            waiting: BTreeSet::new(),
            running: Vec::new(),
        };
        for one in moves {
            owner.make(one);
        }
        owner.settle();
        prop_assert!(owner.waiting.is_empty(), "{:?} still wait", owner.waiting);
        prop_assert!(owner.table.is_empty(), "{} leases", owner.table.len());
        prop_assert_eq!(owner.table.reserved_bytes(object(0).file_system), 0);
    }
}
