//! Spritely NFS: a client reports each open and close to the server. The server tracks readers and
//! writers, disables caching during conflicts, and calls back the client with delayed writes.

use crate::attributes::Attributes;
use crate::trace::{Action, Event};
use crate::world::{Blocks, Call, World};
use crate::{Policy, Terms};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
struct Client {
    attributes: Attributes,
    blocks: Blocks,
    block_revision: BTreeMap<usize, u64>,
    uncached: BTreeSet<usize>,
}

/// The server's record of one file: opens by client, and the last writer.
#[derive(Clone, Debug, Default)]
struct Openings {
    readers: BTreeMap<usize, u32>,
    writers: BTreeMap<usize, u32>,
    last_writer: Option<usize>,
}

/// The state machine of the policy.
#[derive(Clone, Debug)]
pub(crate) struct Spritely {
    clients: Vec<Client>,
    files: BTreeMap<usize, Openings>,
}

impl Spritely {
    pub(crate) fn new(clients: usize, terms: Terms) -> Self {
        let client = Client {
            attributes: Attributes::new(terms.attributes),
            blocks: Blocks::default(),
            block_revision: BTreeMap::new(),
            uncached: BTreeSet::new(),
        };
        Self { clients: vec![client; clients], files: BTreeMap::new() }
    }

    fn push(&mut self, world: &mut World, client: usize, file: usize) {
        let holder = &mut self.clients[client];
        if let Some(revision) = holder.blocks.push(world, file) {
            holder.attributes.refresh(world, file);
            holder.block_revision.insert(file, revision);
        }
    }

    fn open(&mut self, world: &mut World, client: usize, file: usize, write: bool) {
        world.call(Call::Consistency);
        let mut openings = self.files.remove(&file).unwrap_or_default();
        if let Some(writer) = openings.last_writer.filter(|writer| *writer != client)
            && self.clients[writer].blocks.is_dirty(file)
        {
            world.call(Call::Callback);
            self.push(world, writer, file);
        }
        let side = if write { &mut openings.writers } else { &mut openings.readers };
        *side.entry(client).or_default() += 1;
        let users: BTreeSet<usize> =
            openings.readers.keys().chain(openings.writers.keys()).copied().collect();
        if !openings.writers.is_empty() && users.len() > 1 {
            for user in users {
                if self.clients[user].uncached.insert(file) && user != client {
                    world.call(Call::Callback);
                    self.push(world, user, file);
                }
                self.clients[user].blocks.drop_file(file);
            }
        } else {
            self.clients[client].uncached.remove(&file);
        }
        if write {
            openings.last_writer = Some(client);
        }
        self.files.insert(file, openings);
        let revision = world.revision(file);
        let holder = &mut self.clients[client];
        holder.attributes.refresh(world, file);
        if holder.block_revision.insert(file, revision) != Some(revision)
            && !holder.blocks.is_dirty(file)
        {
            holder.blocks.drop_file(file);
        }
    }

    fn close(&mut self, world: &mut World, client: usize, file: usize) {
        world.call(Call::Consistency);
        if let Some(openings) = self.files.get_mut(&file) {
            // A program that wrote closes its write open, otherwise its read open.
            let side = if openings.writers.contains_key(&client) {
                &mut openings.writers
            } else {
                &mut openings.readers
            };
            if let Some(count) = side.get_mut(&client) {
                *count -= 1;
                if *count == 0 {
                    side.remove(&client);
                }
            }
        }
    }

    fn read(&mut self, world: &mut World, client: usize, block: (usize, u32)) {
        let holder = &mut self.clients[client];
        let write = holder.blocks.get(block).unwrap_or_else(|| {
            world.call(Call::Read);
            world.stored(block)
        });
        if !holder.uncached.contains(&block.0) && holder.blocks.get(block).is_none() {
            holder.blocks.insert(block, write, false);
        }
        world.see(block, write);
    }

    fn crash(&mut self, world: &mut World, client: usize) {
        world.lose(self.clients[client].blocks.crash());
        self.clients[client].attributes.forget_all();
        for openings in self.files.values_mut() {
            let open = openings.readers.remove(&client).is_some();
            let open = openings.writers.remove(&client).is_some() || open;
            world.clean_up(usize::from(open));
        }
    }
}

impl Policy for Spritely {
    fn act(&mut self, world: &mut World, event: &Event) {
        let (client, file) = (event.client, event.file);
        match event.action {
            Action::Open { write } => {
                self.clients[client].attributes.resolve(world, file, false);
                self.open(world, client, file, write);
            }
            Action::Create => {
                self.clients[client].attributes.create(world, file);
                self.clients[client].blocks.drop_file(file);
                world.forget(file);
                self.open(world, client, file, true);
            }
            Action::Close => self.close(world, client, file),
            Action::Read { block } => self.read(world, client, (file, block)),
            Action::Write { block, .. } => {
                let write = world.write((file, block));
                if self.clients[client].uncached.contains(&file) {
                    world.call(Call::Write);
                    world.store((file, block), write);
                } else {
                    self.clients[client].blocks.insert((file, block), write, true);
                }
            }
            Action::Stat => {
                self.clients[client].attributes.resolve(world, file, false);
                self.clients[client].attributes.trust(world, file);
            }
            Action::Remove => {
                self.clients[client].blocks.drop_file(file);
                self.clients[client].attributes.remove(world, file);
                world.forget(file);
                self.files.remove(&file);
            }
            Action::List => self.clients[client].attributes.list(world, file),
            Action::Probe => world.call(Call::Lookup),
            Action::Device => world.refuse(),
            Action::Crash => self.crash(world, client),
        }
    }

    fn sync(&mut self, world: &mut World, client: usize) {
        for file in self.clients[client].blocks.dirty_files() {
            self.push(world, client, file);
        }
    }
}
