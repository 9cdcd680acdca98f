//! Not Quite NFS: a read lease lets a client use its cache, a write lease lets it delay writes.
//!
//! Lease requests are piggybacked on other calls; a client sends a separate request only if no
//! other call is due. A conflict recalls the leases of the other holders, which then send their
//! written data. Attributes age as in NFS, which is the variant of the paper's first table.

use crate::attributes::Attributes;
use crate::trace::{Action, Event};
use crate::world::{Blocks, Call, World};
use crate::{Policy, Terms};
use std::collections::BTreeMap;

/// A lease that a client holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    until: f64,
    write: bool,
    cachable: bool,
}

#[derive(Clone, Debug)]
struct Client {
    attributes: Attributes,
    blocks: Blocks,
    block_revision: BTreeMap<usize, u64>,
    leases: BTreeMap<usize, Held>,
}

/// The server's record of one file.
#[derive(Clone, Debug, Default)]
struct Record {
    until: f64,
    write: bool,
    shared_for_writing: bool,
    holders: Vec<usize>,
}

/// The state machine of the policy.
#[derive(Clone, Debug)]
pub(crate) struct Nqnfs {
    clients: Vec<Client>,
    records: BTreeMap<usize, Record>,
    term: f64,
}

impl Nqnfs {
    pub(crate) fn new(clients: usize, terms: Terms) -> Self {
        let client = Client {
            attributes: Attributes::new(terms.attributes),
            blocks: Blocks::default(),
            block_revision: BTreeMap::new(),
            leases: BTreeMap::new(),
        };
        Self { clients: vec![client; clients], records: BTreeMap::new(), term: terms.nqnfs_lease }
    }

    fn holds(&self, world: &World, client: usize, file: usize, write: bool) -> bool {
        let lease = self.clients[client].leases.get(&file);
        lease.is_some_and(|held| world.now < held.until && (held.write || !write))
    }

    /// Grants a lease at the server, and recalls conflicting leases.
    fn grant(&mut self, world: &mut World, client: usize, file: usize, write: bool) {
        let mut record = self.records.remove(&file).unwrap_or_default();
        if world.now >= record.until {
            record = Record::default();
        }
        let alone = record.holders.iter().all(|holder| *holder == client);
        if !alone && (record.write || write) && !record.shared_for_writing {
            record.shared_for_writing = true;
            for other in record.holders.drain(..).filter(|other| *other != client) {
                // The recall, and the reply after all data is sent.
                world.call(Call::Callback);
                self.push(world, other, file);
                self.clients[other].leases.remove(&file);
                world.call(Call::Callback);
            }
        }
        record.write |= write;
        record.until = world.now + self.term;
        if !record.holders.contains(&client) {
            record.holders.push(client);
        }
        let cachable = !record.shared_for_writing;
        self.records.insert(file, record);
        let revision = world.revision(file);
        let holder = &mut self.clients[client];
        holder.leases.insert(file, Held { until: world.now + self.term, write, cachable });
        let known = holder.block_revision.insert(file, revision);
        if !holder.blocks.is_dirty(file) && (known != Some(revision) || !cachable) {
            holder.blocks.drop_file(file);
        }
    }

    /// Acquires a lease; `riding` if another call to the server is due.
    fn need(&mut self, world: &mut World, client: usize, file: usize, write: bool, riding: bool) {
        if !self.holds(world, client, file, write) {
            if !riding {
                world.call(Call::Consistency);
                self.clients[client].attributes.refresh(world, file);
            }
            self.grant(world, client, file, write);
        }
    }

    /// Sends the written data of a client; its own writes do not invalidate its cache.
    fn push(&mut self, world: &mut World, client: usize, file: usize) {
        let holder = &mut self.clients[client];
        if let Some(revision) = holder.blocks.push(world, file) {
            holder.attributes.refresh(world, file);
            holder.block_revision.insert(file, revision);
        }
    }

    fn read(&mut self, world: &mut World, client: usize, block: (usize, u32)) {
        let cached = self.clients[client].blocks.get(block).is_some();
        self.need(world, client, block.0, false, !cached);
        let holder = &mut self.clients[client];
        let write = holder.blocks.get(block).unwrap_or_else(|| {
            world.call(Call::Read);
            world.stored(block)
        });
        holder.attributes.refresh(world, block.0);
        if holder.leases.get(&block.0).is_some_and(|held| held.cachable)
            && holder.blocks.get(block).is_none()
        {
            holder.blocks.insert(block, write, false);
        }
        world.see(block, write);
    }

    fn write(&mut self, world: &mut World, client: usize, block: (usize, u32)) {
        self.need(world, client, block.0, true, false);
        let write = world.write(block);
        let holder = &mut self.clients[client];
        let cachable = holder.leases.get(&block.0).is_some_and(|held| held.cachable);
        if cachable {
            holder.blocks.insert(block, write, true);
        } else {
            world.call(Call::Write);
            world.store(block, write);
        }
    }

    /// Expires leases at all clients: they send data that was written under them.
    fn expire(&mut self, world: &mut World) {
        for client in 0..self.clients.len() {
            self.expire_at(world, client);
        }
    }

    fn expire_at(&mut self, world: &mut World, client: usize) {
        let ended: Vec<usize> = self.clients[client]
            .leases
            .iter()
            .filter(|(_, held)| held.until <= world.now)
            .map(|(file, _)| *file)
            .collect();
        for file in ended {
            self.push(world, client, file);
            self.clients[client].leases.remove(&file);
        }
    }

    /// Fetches attributes that are no longer trusted, with a piggybacked request for a read lease.
    fn trust(&mut self, world: &mut World, client: usize, file: usize) {
        if !self.clients[client].attributes.is_fresh(world, file) {
            self.clients[client].attributes.fetch(world, file);
            if !self.holds(world, client, file, false) {
                self.grant(world, client, file, false);
            }
        }
    }

    fn resolve(&mut self, world: &mut World, client: usize, file: usize) {
        let directory = world.directories[file];
        let names_hold = self.holds(world, client, directory, false);
        self.clients[client].attributes.resolve(world, file, names_hold);
        if self.clients[client].attributes.is_new(world, directory) {
            self.grant(world, client, directory, false);
        }
    }
}

impl Policy for Nqnfs {
    fn act(&mut self, world: &mut World, event: &Event) {
        let (client, file) = (event.client, event.file);
        self.expire(world);
        match event.action {
            Action::Open { .. } => {
                self.resolve(world, client, file);
                if !self.holds(world, client, file, false) {
                    self.trust(world, client, file);
                }
            }
            Action::Create => {
                self.clients[client].attributes.create(world, file);
                self.clients[client].blocks.drop_file(file);
                world.forget(file);
                self.grant(world, client, world.directories[file], true);
            }
            Action::Close => {}
            Action::Read { block } => self.read(world, client, (file, block)),
            Action::Write { block, .. } => self.write(world, client, (file, block)),
            Action::Stat => {
                self.resolve(world, client, file);
                if !self.holds(world, client, file, true) {
                    self.trust(world, client, file);
                }
            }
            Action::Remove => {
                // Delayed writes of a removed file are never sent.
                self.clients[client].blocks.drop_file(file);
                self.clients[client].leases.remove(&file);
                self.clients[client].attributes.remove(world, file);
                world.forget(file);
                self.grant(world, client, world.directories[file], true);
            }
            Action::List => self.clients[client].attributes.list(world, file),
            Action::Probe => world.call(Call::Lookup),
            Action::Device => world.refuse(),
            Action::Crash => {
                // The server waits for the end of the leases; the delayed writes are lost.
                world.lose(self.clients[client].blocks.crash());
                self.clients[client].attributes.forget_all();
                self.clients[client].leases.clear();
            }
        }
    }

    fn sync(&mut self, world: &mut World, client: usize) {
        for file in self.clients[client].blocks.dirty_files() {
            self.push(world, client, file);
        }
    }
}
