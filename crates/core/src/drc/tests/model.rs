//! The duplicate request cache as a plain list with linear search.

use super::*;

#[derive(Debug)]
struct Row {
    origin: Origin,
    call: Call,
    connection: Option<ConnectionId>,
    harm: Harm,
    state: RowState,
}

#[derive(Debug)]
enum RowState {
    Running { ticket: Ticket, waited_for: bool, slot: Option<u32> },
    Kept { since: Time, number: u64, slot: Option<u32>, reply: Bytes },
}

/// A literal implementation of the rules 1 to 10.
#[derive(Debug)]
pub(super) struct Model {
    limits: Limits,
    rows: Vec<Row>,
    tickets: u64,
    kept: u64,
}

impl Model {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, rows: Vec::new(), tickets: 0, kept: 0 }
    }

    pub(super) fn running(&self) -> Vec<Ticket> {
        let mut running: Vec<Ticket> = self.rows.iter().filter_map(Row::ticket).collect();
        running.sort();
        running
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        self.rows.iter().filter_map(Row::age).min().map(|(since, _)| since + self.limits.age)
    }

    pub(super) fn step(&mut self, now: Time, event: Event) -> Vec<Effect> {
        let age = self.limits.age;
        self.rows.retain(|row| row.age().is_none_or(|(since, _)| now.since(since) < age));
        match event {
            Event::Call { origin, connection, call, harm } => {
                self.call(now, (origin, connection), call, harm)
            }
            Event::Done { ticket, reply } => self.done(now, ticket, &reply),
            Event::Made { ticket, reply } => self.made(now, ticket, &reply),
            Event::Recalled { slot, given, note } => {
                if now.since(given) < age && (slot as usize) < self.limits.entries {
                    self.recall(slot, given, note);
                }
                vec![]
            }
            Event::Abandoned { ticket } => {
                let at = self.rows.iter().position(|row| row.ticket() == Some(ticket));
                let row = self.rows.remove(at.expect("it runs"));
                if row.waited_for() { vec![Effect::Release(ticket, None)] } else { vec![] }
            }
            Event::ConnectionClosed { client, connection } => {
                for row in self.rows.iter_mut().filter(|row| row.origin.client == client) {
                    if row.connection == Some(connection) {
                        row.connection = None;
                    }
                }
                vec![]
            }
            Event::Tick => vec![],
        }
    }

    fn free_slot(&self) -> Option<u32> {
        (0..).find(|slot| self.rows.iter().all(|row| row.slot() != Some(*slot)))
    }

    fn made(&mut self, now: Time, ticket: Ticket, reply: &Bytes) -> Vec<Effect> {
        let free = self.free_slot();
        let row = self.rows.iter_mut().find(|row| row.ticket() == Some(ticket));
        let row = row.expect("it runs");
        if row.harm == Harm::Late || row.slot().is_some() {
            return vec![];
        }
        if let RowState::Running { slot, .. } = &mut row.state {
            *slot = free;
        }
        free.map(|slot| row.note(slot, now, reply, Standing::Made)).into_iter().collect()
    }

    fn done(&mut self, now: Time, ticket: Ticket, reply: &Bytes) -> Vec<Effect> {
        self.kept += 1;
        let number = self.kept;
        let free = self.free_slot();
        let row = self.rows.iter_mut().find(|row| row.ticket() == Some(ticket));
        let row = row.expect("it runs");
        let waited_for = row.waited_for();
        let slot = row.slot().or(free).filter(|_| row.harm == Harm::Always);
        let mut effects: Vec<Effect> =
            slot.map(|slot| row.note(slot, now, reply, Standing::Done)).into_iter().collect();
        row.state = RowState::Kept { since: now, number, slot, reply: reply.clone() };
        self.fit_bytes();
        if waited_for {
            effects.push(Effect::Release(ticket, Some(reply.clone())));
        }
        effects
    }

    fn recall(&mut self, slot: u32, given: Time, Note { origin, call, reply }: Note) {
        let exact = self.rows.iter().position(|row| row.origin == origin && row.call == call);
        match exact {
            Some(at) if self.rows[at].age().is_some_and(|(since, _)| since < given) => {
                self.rows.remove(at);
            }
            None if self.rows.len() < self.limits.entries => {}
            Some(_) | None => return,
        }
        let taken = self.rows.iter().any(|row| row.slot() == Some(slot));
        if !taken {
            self.kept += 1;
            let state = RowState::Kept { since: given, number: self.kept, slot: Some(slot), reply };
            let (connection, harm) = (None, Harm::Always);
            self.rows.push(Row { origin, call, connection, harm, state });
            self.fit_bytes();
        }
    }

    fn call(
        &mut self,
        now: Time,
        (origin, connection): (Origin, Option<ConnectionId>),
        call: Call,
        harm: Harm,
    ) -> Vec<Effect> {
        let Some(at) = self.find(origin, call) else {
            let own = self.rows.iter().filter(|row| row.origin.client == origin.client);
            let running = own.filter(|row| row.ticket().is_some()).count();
            if running >= self.limits.running_of_client
                || self.rows.len() == self.limits.entries && !self.evict()
            {
                return vec![Effect::Refuse];
            }
            let ticket = Ticket(self.tickets);
            self.tickets += 1;
            let state = RowState::Running { ticket, waited_for: false, slot: None };
            self.rows.push(Row { origin, call, connection, harm, state });
            return vec![Effect::Execute(ticket)];
        };
        let row = &mut self.rows[at];
        (row.origin, row.connection) = (origin, connection);
        match &mut row.state {
            RowState::Running { .. } if matches!(origin.port, Port::Datagram(_)) => {
                vec![Effect::Drop]
            }
            RowState::Running { ticket, waited_for, .. } => {
                *waited_for = true;
                vec![Effect::Wait(*ticket)]
            }
            RowState::Kept { since, number, slot, reply } => {
                self.kept += 1;
                (*since, *number) = (now, self.kept);
                let (slot, reply) = (*slot, reply.clone());
                let note = slot.map(|slot| row.note(slot, now, &reply, Standing::Done));
                note.into_iter().chain([Effect::Resend(reply)]).collect()
            }
        }
    }

    fn find(&self, origin: Origin, call: Call) -> Option<usize> {
        let exact = self.rows.iter().position(|row| row.origin == origin && row.call == call);
        let stream = |origin: Origin| matches!(origin.port, Port::Stream(_));
        let alike: Vec<usize> = (0..self.rows.len())
            .filter(|at| {
                let row = &self.rows[*at];
                let same_client = row.origin.client == origin.client;
                row.call == call && same_client && stream(row.origin) && stream(origin)
            })
            .collect();
        exact.or(match alike[..] {
            [only]
                if self.rows[only].connection.is_none() || self.rows[only].ticket().is_some() =>
            {
                Some(only)
            }
            _ => None,
        })
    }

    fn evict(&mut self) -> bool {
        let kept_of = |client: IpAddr| {
            let own = self.rows.iter().filter(|row| row.origin.client == client);
            own.filter(|row| row.age().is_some()).count()
        };
        let kept = self.rows.iter().filter(|row| row.age().is_some());
        let clients = kept.map(|row| (kept_of(row.origin.client), row.origin.client));
        let Some((_, most)) = clients.max() else { return false };
        let own = self.rows.iter().filter(|row| row.origin.client == most);
        let first = own.filter_map(|row| Some((row.harm, row.age()?))).min();
        let oldest = first.map(|(_, age)| age);
        self.rows.retain(|row| row.age().is_none() || row.age() != oldest);
        true
    }

    fn fit_bytes(&mut self) {
        while self.bytes() > self.limits.bytes {
            self.evict();
        }
    }

    fn bytes(&self) -> usize {
        let length = |row: &Row| match &row.state {
            RowState::Running { .. } => 0,
            RowState::Kept { reply, .. } => reply.len(),
        };
        self.rows.iter().map(length).sum()
    }
}

impl Row {
    fn ticket(&self) -> Option<Ticket> {
        match self.state {
            RowState::Running { ticket, .. } => Some(ticket),
            RowState::Kept { .. } => None,
        }
    }

    fn waited_for(&self) -> bool {
        matches!(self.state, RowState::Running { waited_for: true, .. })
    }

    fn slot(&self) -> Option<u32> {
        match self.state {
            RowState::Running { slot, .. } | RowState::Kept { slot, .. } => slot,
        }
    }

    fn note(&self, slot: u32, given: Time, reply: &Bytes, change: Standing) -> Effect {
        let note = Note { origin: self.origin, call: self.call, reply: reply.clone() };
        Effect::Note { slot, given, note, change }
    }

    fn age(&self) -> Option<(Time, u64)> {
        match self.state {
            RowState::Running { .. } => None,
            RowState::Kept { since, number, .. } => Some((since, number)),
        }
    }
}
