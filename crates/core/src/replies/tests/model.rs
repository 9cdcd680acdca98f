//! The reply cache as a plain list, searched from end to end.

use super::*;

#[derive(Debug)]
struct Row {
    origin: Origin,
    call: Call,
    closed: bool,
    harm: Harm,
    state: RowState,
}

#[derive(Debug)]
enum RowState {
    Running { ticket: Ticket, waited_for: bool },
    Kept { since: Time, number: u64, reply: Bytes },
}

/// Rules 1 to 8, as they are written.
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
            Event::Call { origin, call, harm } => vec![self.call(now, origin, call, harm)],
            Event::Done { ticket, reply } => {
                self.kept += 1;
                let number = self.kept;
                let row = self.rows.iter_mut().find(|row| row.ticket() == Some(ticket));
                let row = row.expect("it runs");
                let waited_for = row.waited_for();
                row.state = RowState::Kept { since: now, number, reply: reply.clone() };
                while self.bytes() > self.limits.bytes {
                    self.evict();
                }
                if waited_for { vec![Effect::Release(ticket, Some(reply))] } else { vec![] }
            }
            Event::Abandoned { ticket } => {
                let at = self.rows.iter().position(|row| row.ticket() == Some(ticket));
                let row = self.rows.remove(at.expect("it runs"));
                if row.waited_for() { vec![Effect::Release(ticket, None)] } else { vec![] }
            }
            Event::ConnectionClosed { from } => {
                for row in self.rows.iter_mut().filter(|row| row.origin == Origin::stream(from)) {
                    row.closed = true;
                }
                vec![]
            }
            Event::Tick => vec![],
        }
    }

    fn call(&mut self, now: Time, origin: Origin, call: Call, harm: Harm) -> Effect {
        let Some(at) = self.find(origin, call) else {
            let own = self.rows.iter().filter(|row| row.origin.client == origin.client);
            let running = own.filter(|row| row.ticket().is_some()).count();
            if running >= self.limits.running_of_client
                || self.rows.len() == self.limits.entries && !self.evict()
            {
                return Effect::Refuse;
            }
            let ticket = Ticket(self.tickets);
            self.tickets += 1;
            let state = RowState::Running { ticket, waited_for: false };
            self.rows.push(Row { origin, call, closed: false, harm, state });
            return Effect::Execute(ticket);
        };
        let row = &mut self.rows[at];
        (row.origin, row.closed) = (origin, false);
        match &mut row.state {
            RowState::Running { .. } if matches!(origin.port, Port::Datagram(_)) => Effect::Drop,
            RowState::Running { ticket, waited_for } => {
                *waited_for = true;
                Effect::Wait(*ticket)
            }
            RowState::Kept { since, number, reply } => {
                self.kept += 1;
                (*since, *number) = (now, self.kept);
                Effect::Resend(reply.clone())
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
            [only] if self.rows[only].closed || self.rows[only].ticket().is_some() => Some(only),
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

    fn age(&self) -> Option<(Time, u64)> {
        match self.state {
            RowState::Running { .. } => None,
            RowState::Kept { since, number, .. } => Some((since, number)),
        }
    }
}
