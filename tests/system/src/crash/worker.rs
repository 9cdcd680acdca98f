//! A worker: does one operation after another, and checks afterwards what is left of them.

use std::fmt::Write as _;
use std::net::SocketAddr;

use leasehold_base::random::Random;

use leasehold_wire::nfs3::Status;

use super::draw::{Draw, Kind};
use super::op::Op;
use super::tree::{Places, Tree};
use crate::nfs::{Client, Lost, is_jukebox};
use crate::{Breaker, Site};

/// Something that must not be.
pub(crate) type Fault = String;

/// A worker; it outlives its connections.
pub(crate) struct Worker {
    pub(crate) number: usize,
    /// What it works on.
    pub(crate) site: Site,
    pub(crate) tree: Tree,
    pub(crate) draw: Draw,
    /// What was asked for and not answered, with the message as it was sent.
    pub(crate) in_flight: Option<(Op, Vec<u8>)>,
    /// What was done, and when the server was gone.
    pub(crate) log: String,
    client: Option<Client>,
}

/// Why a worker stops.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The server is gone.
    Lost,
    /// The server says that its disk is; whether the operation was done is open.
    Broken(Status),
    /// The server did what it must not.
    Fault(Fault),
}

impl From<Lost> for Stop {
    fn from(Lost: Lost) -> Self {
        Self::Lost
    }
}

impl Worker {
    pub(crate) fn new(number: usize, site: Site, places: Places, random: Random) -> Self {
        let tree = Tree::new(places, number);
        let draw = Draw::new(random, number, site.user == 0);
        let log = String::new();
        Self { number, site, tree, draw, in_flight: None, log, client: None }
    }

    /// Connects anew.
    pub(crate) fn connect(&mut self, server: SocketAddr) -> Result<Breaker, Lost> {
        let client = Client::connect(server, 0)?;
        let breaker = client.breaker();
        self.client = Some(client);
        Ok(breaker)
    }

    pub(crate) fn client(&mut self) -> &mut Client {
        self.client.as_mut().expect("it connects before it calls")
    }

    /// Does whatever is next.
    pub(crate) fn step(&mut self) -> Result<(), Stop> {
        let op = self.draw.next(&mut self.tree);
        self.perform(&op)
    }

    /// Gets ready for an operation of a kind and answers it: does what must come before.
    pub(crate) fn prepare(&mut self, kind: Kind) -> Result<Op, Stop> {
        loop {
            if self.tree.wanted.is_empty()
                && let Some(op) = self.draw.op(kind, &self.tree)
            {
                return Ok(op);
            }
            // Only what was written can be committed.
            let op = (kind == Kind::Commit && self.tree.wanted.is_empty())
                .then(|| self.draw.op(Kind::WriteUnstable, &self.tree))
                .flatten();
            match op {
                Some(op) => self.perform(&op)?,
                None => self.step()?,
            }
        }
    }

    /// Asks for an operation until all of it is answered; on a sound server each can be done.
    pub(crate) fn perform(&mut self, op: &Op) -> Result<(), Stop> {
        let mut left = self.ask(op)?;
        while let Some(op) = left {
            left = self.ask(&op)?;
        }
        Ok(())
    }

    /// Asks for an operation until it is answered; gives what is left of it.
    fn ask(&mut self, op: &Op) -> Result<Option<Op>, Stop> {
        self.tree.begin(op);
        let (procedure, args) = op.call(&self.tree);
        let mut was_put_off = false;
        loop {
            let message = self.client().call_message(procedure, &args);
            self.in_flight = Some((op.clone(), message.clone()));
            let results = self.client().exchange(&message)?;
            if is_jukebox(&results) {
                was_put_off = true;
                continue;
            }
            return match op.outcome(&results) {
                Ok(done) => {
                    self.in_flight = None;
                    let (part, left) = op.parts(&done);
                    if let Some(part) = part {
                        self.note(&format!("{part:?}"));
                        self.tree.settle(&part, &done);
                    }
                    Ok(left)
                }
                Err(Status::AlreadyExists) if was_put_off && op.may_find_itself() => {
                    self.in_flight = None;
                    self.note(&format!("found itself: {op:?}"));
                    let mut faults = Vec::new();
                    self.adopt(op, &mut faults)?;
                    faults.pop().map_or(Ok(None), |fault| Err(Stop::Fault(fault)))
                }
                Err(status @ (Status::Io | Status::ReadOnly)) => Err(Stop::Broken(status)),
                Err(status) => Err(Stop::Fault(format!("{op:?} is answered {status:?}"))),
            };
        }
    }

    /// Adds a line to the log.
    pub(crate) fn note(&mut self, line: &str) {
        let _ = writeln!(self.log, "worker {}: {line}", self.number);
    }
}
