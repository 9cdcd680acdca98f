//! A worker: performs operations, and checks their effects after an outage.

use std::fmt::Write as _;
use std::net::SocketAddr;

use leasehold_base::random::Random;

use leasehold_wire::nfs3::Status;

use super::draw::{Draw, Kind};
use super::op::Op;
use super::tree::{Places, Tree};
use crate::nfs::{Client, Lost, is_jukebox};
use crate::{Breaker, Site};

/// A violation of a guarantee.
pub(crate) type Fault = String;

/// A worker; it survives its connections.
pub(crate) struct Worker {
    pub(crate) number: usize,
    /// The site under test.
    pub(crate) site: Site,
    pub(crate) tree: Tree,
    pub(crate) draw: Draw,
    /// The operation without a reply, with its message.
    pub(crate) in_flight: Option<(Op, Vec<u8>)>,
    /// The log of operations and outages.
    pub(crate) log: String,
    client: Option<Client>,
}

/// The reasons for which a worker stops.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The server is gone.
    Lost,
    /// The server reports a broken disk; the operation may have been done.
    Broken(Status),
    /// The server violated a guarantee.
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

    /// Reconnects.
    pub(crate) fn connect(&mut self, server: SocketAddr) -> Result<Breaker, Lost> {
        let client = Client::connect(server, 0)?;
        let breaker = client.breaker();
        self.client = Some(client);
        Ok(breaker)
    }

    pub(crate) fn client(&mut self) -> &mut Client {
        self.client.as_mut().expect("it connects before it calls")
    }

    /// Performs the next operation.
    pub(crate) fn step(&mut self) -> Result<(), Stop> {
        let op = self.draw.next(&mut self.tree);
        self.perform(&op)
    }

    /// Prepares an operation of a kind and returns it: performs the required earlier operations.
    pub(crate) fn prepare(&mut self, kind: Kind) -> Result<Op, Stop> {
        loop {
            if self.tree.wanted.is_empty()
                && let Some(op) = self.draw.op(kind, &self.tree)
            {
                return Ok(op);
            }
            // Only written data can be committed.
            let op = (kind == Kind::Commit && self.tree.wanted.is_empty())
                .then(|| self.draw.op(Kind::WriteUnstable, &self.tree))
                .flatten();
            match op {
                Some(op) => self.perform(&op)?,
                None => self.step()?,
            }
        }
    }

    /// Repeats an operation until all of it is done; on a correct server each operation can
    /// succeed.
    pub(crate) fn perform(&mut self, op: &Op) -> Result<(), Stop> {
        let mut left = self.ask(op)?;
        while let Some(op) = left {
            left = self.ask(&op)?;
        }
        Ok(())
    }

    /// Sends an operation until its reply arrives; returns the remaining part.
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
