//! A world of clients that delay other callers. Some clients return recalled leases late or never,
//! hold leases one after the other, do not report to the server, or reconnect under other names.
//! Other clients return leases at once. The owner of the files is a caller without leases. If a
//! call of the owner must wait too long, the owner gives it up and repeats it.
//!
//! Promises:
//! - `bounded-wait`: if the owner repeats its call soon, no call waits longer than the longest term
//!   plus the time for which the server waits for late WRITEs of a lease holder.
//! - `bounded-share`: clients of one origin that only read can delay the owner by at most a fixed
//!   number of terms plus an eighth of the elapsed time, however long the world lasts.
//! - `prompt-holders`: a client that returns leases at once gets new leases.

use core::time::Duration;
use std::collections::BTreeMap;

use leasehold_base::limits::durations::JUKEBOX_AFTER;
use leasehold_base::random::Random;
use leasehold_base::units::{FileId, FileSystemId, Time};
use leasehold_core::leases::table::{
    Access, Ask, Call, Effect, Event, Origin, Outcome, Run, Table, Told,
};
use leasehold_core::leases::{Client, Kind, Object, Open, Serial, Terms, Ticket};

use super::LeaseOptions;
use crate::Broken;
use crate::queue::Queue;

const TERMS: Terms = Terms::DEFAULT;
const WORLD_TIME: Duration = Duration::from_secs(1800);
const OBJECTS: u64 = 2;

/// The maximum delay of a client that returns leases at once, and the maximum time of an operation.
const PROMPT: Duration = Duration::from_millis(50);

/// The time after which the server recalls the lease of a holder that does not report.
const REPORT: Duration = Duration::from_secs(4);
/// A margin for all delays.
const MARGIN: Duration = Duration::from_secs(2);

/// The maximum number of terms for which the clients of one origin can delay the owner: the terms
/// until the server stops granting them leases, and one more term that is still running then.
const TERMS_TAKEN: u32 = 5;

/// The reaction of a client to the recall of one of its leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Habit {
    Prompt,
    Late(Duration),
    Silent,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    client: Client,
    origin: Origin,
    habit: Habit,
    writes: bool,
    /// True if the client reconnects under another name from time to time.
    renames: bool,
    pause: Duration,
    granted: u64,
}

#[derive(Clone, Copy, Debug)]
enum Happening {
    Ask(usize),
    Return(Client, Object, Serial),
    Done(Object, Ticket),
    Owner,
    GiveUp(Ticket),
}

/// The object and the access that the owner waits for.
#[derive(Clone, Copy, Debug)]
struct Want {
    object: Object,
    access: Access,
    since: Time,
    /// The ticket of the call in progress; `None` while the owner waits before it repeats the call.
    ticket: Option<Ticket>,
}

struct World {
    now: Time,
    random: Random,
    queue: Queue<Happening>,
    table: Table,
    is_lonely: bool,
    holders: Vec<Holder>,
    last_client: u32,
    last_ticket: u64,
    /// The object of each call, and the holder that made it.
    calls: BTreeMap<Ticket, (Object, usize)>,
    want: Option<Want>,
    /// The time after which the owner repeats a call that it gave up.
    again: Duration,
    /// The total time for which lease holders have delayed the owner.
    taken: Duration,
    broken: Vec<Broken>,
}

/// Runs a world to its end, and returns the promises that the world broke.
pub(super) fn run(options: LeaseOptions) -> Vec<Broken> {
    let mut world = World::new(options);
    world.run();
    world.broken.truncate(1);
    world.broken
}

impl World {
    fn new(LeaseOptions { seed, mutant, .. }: LeaseOptions) -> Self {
        let mut random = Random::from_seed(seed ^ 0x5113_4e57);
        let mut table = Table::new(TERMS, 1000, 1, false);
        if let Some(mutant) = mutant.and_then(super::LeaseMutant::of_table) {
            table.plant(mutant);
        }
        let origins = 1 + u64::from(random.one_in(4));
        let writers = random.one_in(3);
        // In some worlds there is only one holder: it writes, renews its lease, and no other client
        // causes a recall.
        let is_lonely = random.one_in(8);
        let mut holders = Vec::new();
        for _ in 0..if is_lonely { 1 } else { 2 + random.below(6) } {
            let habit = if !is_lonely && random.one_in(3) {
                Habit::Late(Duration::from_millis(500 + random.below(30_000)))
            } else {
                Habit::Silent
            };
            holders.push(Holder {
                client: Client(0),
                origin: Origin(random.below(origins)),
                habit,
                writes: is_lonely || writers && random.one_in(2),
                renames: !is_lonely && random.one_in(2),
                pause: Duration::from_millis(300 + random.below(8000)),
                granted: 0,
            });
        }
        let pause = if is_lonely { WORLD_TIME } else { Duration::from_secs(5) };
        let origin = Origin(100);
        holders.push(Holder {
            client: Client(0),
            origin,
            habit: Habit::Prompt,
            writes: false,
            renames: false,
            pause,
            granted: 0,
        });
        let mut world = Self {
            now: Time::ZERO,
            again: Duration::from_millis(500 + random.below(9500)),
            random,
            queue: Queue::new(),
            table,
            is_lonely,
            holders,
            last_client: 0,
            last_ticket: 0,
            calls: BTreeMap::new(),
            want: None,
            taken: Duration::ZERO,
            broken: Vec::new(),
        };
        for holder in 0..world.holders.len() {
            world.name(holder);
            world.queue.schedule(Time::ZERO, Happening::Ask(holder));
        }
        world.queue.schedule(Time::ZERO + Duration::from_secs(1), Happening::Owner);
        world
    }

    fn run(&mut self) {
        let end = Time::ZERO + WORLD_TIME;
        loop {
            let next = self.queue.next_time().into_iter().chain(self.table.next_wake()).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            while self.queue.next_time().is_some_and(|time| time <= self.now)
                && let Some(happening) = self.queue.pop()
            {
                self.happen(happening);
            }
            self.step(Event::Tick);
            self.check_wait();
            if !self.broken.is_empty() {
                return;
            }
        }
        // Check the share only if no holder writes: a holder that continues to send written data to
        // the server may delay the owner by more than its share.
        if !self.holders.iter().any(|holder| holder.writes) {
            self.check_share();
        }
        let prompt = self.holders.last().expect("the last holder is prompt");
        if prompt.granted == 0 && !self.is_lonely {
            self.broke("prompt-holders", "the prompt holder got no lease".to_owned());
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Ask(holder) => self.ask(holder),
            Happening::Return(client, object, serial) => {
                self.step(Event::Returned(client, object, serial, Open::No));
            }
            Happening::Done(object, ticket) => {
                self.step(Event::Done(object, ticket, Outcome::default()));
            }
            Happening::Owner => self.owner(),
            Happening::GiveUp(ticket) => self.give_up(ticket),
        }
    }

    /// Gives a client another name, so that the server sees a new client.
    fn name(&mut self, holder: usize) {
        self.last_client += 1;
        let client = Client(self.last_client);
        self.holders[holder].client = client;
        self.step(Event::Met(client, self.holders[holder].origin));
    }

    fn ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        Ticket(self.last_ticket)
    }

    fn object(&mut self) -> Object {
        Object { file_system: FileSystemId(0), file: FileId(self.random.below(OBJECTS)) }
    }

    fn ask(&mut self, holder: usize) {
        if self.holders[holder].renames && self.random.one_in(20) {
            self.step(Event::Forgotten(self.holders[holder].client));
            self.name(holder);
        }
        let Holder { client, writes, pause, .. } = self.holders[holder];
        let (ticket, object) = (self.ticket(), self.object());
        let kind = if writes { Kind::Write } else { Kind::Read };
        let access = match self.random.below(3) {
            0 => Access::Nothing,
            1 if writes => Access::Write,
            _ => Access::Look,
        };
        let ask = Ask {
            kind,
            term: Duration::from_secs(self.random.below(70)),
            opportune: self.random.one_in(2),
            space: 0,
            reclaim: false,
            reports: true,
        };
        self.calls.insert(ticket, (object, holder));
        let client = Some(client);
        let call = Call { ticket, object, client, access, under: None, ask: Some(ask) };
        self.step(Event::Call(call));
        let pause = pause + Duration::from_millis(self.random.below(1000));
        self.queue.schedule(self.now + pause, Happening::Ask(holder));
    }

    /// Lets the owner begin an operation, or repeat a call that it gave up.
    fn owner(&mut self) {
        let (now, object) = (self.now, self.object());
        let access = match self.random.below(4) {
            0 => Access::Look,
            1 => Access::Read,
            _ => Access::Write,
        };
        let want = self.want.unwrap_or(Want { object, access, since: now, ticket: None });
        let ticket = self.ticket();
        self.want = Some(Want { ticket: Some(ticket), ..want });
        let Want { object, access, .. } = want;
        let call = Call { ticket, object, client: None, access, under: None, ask: None };
        self.step(Event::Call(call));
        self.queue.schedule(now + JUKEBOX_AFTER, Happening::GiveUp(ticket));
    }

    fn give_up(&mut self, ticket: Ticket) {
        if let Some(want) = self.want.as_mut().filter(|want| want.ticket == Some(ticket)) {
            want.ticket = None;
            let object = want.object;
            self.step(Event::GivenUp(object, ticket));
            self.queue.schedule(self.now + self.again, Happening::Owner);
        }
    }

    fn step(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.table.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Run(run) => self.runs(run),
                Effect::Later(_) => {}
                Effect::Evict(client, object, serial) => self.evicted(client, object, serial),
                Effect::Inquire(client, object, serial, round) => {
                    let is_prompt = |it: &Holder| it.client == client && it.habit == Habit::Prompt;
                    if self.holders.iter().any(is_prompt) {
                        let told = Told { size: 0, modified: 0, set: None };
                        let told = Event::Reported(client, object, serial, round, Some(told));
                        self.step(told);
                    }
                }
            }
        }
    }

    fn runs(&mut self, run: Run) {
        let took = Duration::from_micros(self.random.below(50_000));
        if let Some((object, holder)) = self.calls.remove(&run.ticket) {
            let is_cachable = run.grant.is_some_and(|grant| grant.cachable);
            self.holders[holder].granted += u64::from(is_cachable);
            self.queue.schedule(self.now + took, Happening::Done(object, run.ticket));
        } else if let Some(want) = self.want.take_if(|want| want.ticket == Some(run.ticket)) {
            let waited = self.now.since(want.since);
            self.taken += waited.saturating_sub(JUKEBOX_AFTER + self.again + MARGIN);
            self.queue.schedule(self.now + took, Happening::Done(want.object, run.ticket));
            let pause = Duration::from_millis(self.random.below(5000));
            self.queue.schedule(self.now + took + pause, Happening::Owner);
        }
    }

    fn evicted(&mut self, client: Client, object: Object, serial: Serial) {
        let holder = self.holders.iter().find(|holder| holder.client == client);
        let after = match holder.map(|holder| holder.habit) {
            Some(Habit::Prompt) => PROMPT,
            Some(Habit::Late(after)) => after,
            Some(Habit::Silent) | None => return,
        };
        self.queue.schedule(self.now + after, Happening::Return(client, object, serial));
    }

    fn check_wait(&mut self) {
        let Some(want) = self.want else { return };
        let drift = TERMS.longest_term * TERMS.drift_ppm / 1_000_000;
        let mut bound = TERMS.longest_term + drift + JUKEBOX_AFTER + self.again + MARGIN;
        if self.holders.iter().any(|holder| holder.writes) {
            bound += REPORT + TERMS.slack_max;
        }
        if self.now.since(want.since) > bound {
            self.broke("bounded-wait", format!("since {:?} waits {want:?}", want.since));
        }
    }

    fn check_share(&mut self) {
        let mut origins: Vec<Origin> = self.holders.iter().map(|holder| holder.origin).collect();
        origins.sort_unstable();
        origins.dedup();
        // The last origin belongs to the holder that returns leases at once, so it does not count.
        let origins = u32::try_from(origins.len() - 1).expect("origins are few");
        let most = (TERMS.longest_term * TERMS_TAKEN + WORLD_TIME / 8) * origins;
        if self.taken > most {
            let taken = self.taken;
            self.broke("bounded-share", format!("{taken:?} of {WORLD_TIME:?} were taken"));
        }
    }

    fn broke(&mut self, promise: &'static str, how: String) {
        self.broken.push(Broken { promise, how });
    }
}
