//! RFS: the server executes the system calls, including whole paths. Cached data is always valid: a
//! write is sent to the server, and before the reply the server invalidates the file at all other
//! clients. Devices and pipes work, because they are opened at the server.

use crate::Policy;
use crate::trace::{Action, Event};
use crate::world::{Blocks, Call, World};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default)]
struct Client {
    blocks: Blocks,
    block_revision: BTreeMap<usize, u64>,
    /// Opens that the server records for this client, with write opens separate.
    open: BTreeMap<usize, u32>,
    writing: BTreeSet<usize>,
}

/// The state machine of the policy.
#[derive(Clone, Debug)]
pub(crate) struct Rfs {
    clients: Vec<Client>,
}

impl Rfs {
    pub(crate) fn new(clients: usize) -> Self {
        Self { clients: vec![Client::default(); clients] }
    }

    fn open(&mut self, world: &mut World, client: usize, file: usize, write: bool) {
        world.call(Call::Consistency);
        let revision = world.revision(file);
        let holder = &mut self.clients[client];
        *holder.open.entry(file).or_default() += 1;
        if write {
            holder.writing.insert(file);
        }
        // The version number shows if cached data is still valid.
        if holder.block_revision.insert(file, revision) != Some(revision) {
            holder.blocks.drop_file(file);
        }
    }

    /// Returns false if another client writes the file.
    fn may_cache(&self, client: usize, file: usize) -> bool {
        let others = self.clients.iter().enumerate().filter(|(other, _)| *other != client);
        others.into_iter().all(|(_, other)| !other.writing.contains(&file))
    }

    fn write(&mut self, world: &mut World, client: usize, block: (usize, u32)) {
        world.call(Call::Write);
        let write = world.write(block);
        for (other, holder) in self.clients.iter_mut().enumerate() {
            if other != client && holder.open.contains_key(&block.0) && holder.blocks.has(block.0) {
                world.call(Call::Callback);
                holder.blocks.drop_file(block.0);
            }
        }
        let revision = world.store(block, write);
        let holder = &mut self.clients[client];
        holder.blocks.insert(block, write, false);
        holder.block_revision.insert(block.0, revision);
    }

    fn read(&mut self, world: &mut World, client: usize, block: (usize, u32)) {
        let may_cache = self.may_cache(client, block.0);
        let holder = &mut self.clients[client];
        let write = holder.blocks.get(block).filter(|_| may_cache).unwrap_or_else(|| {
            world.call(Call::Read);
            world.stored(block)
        });
        if may_cache {
            holder.blocks.insert(block, write, false);
        }
        world.see(block, write);
    }
}

impl Policy for Rfs {
    fn act(&mut self, world: &mut World, event: &Event) {
        let (client, file) = (event.client, event.file);
        match event.action {
            Action::Open { write } => self.open(world, client, file, write),
            Action::Create => {
                world.forget(file);
                world.touch(file);
                world.touch(world.directories[file]);
                self.open(world, client, file, true);
            }
            Action::Close => {
                world.call(Call::Consistency);
                let holder = &mut self.clients[client];
                if let Some(count) = holder.open.get_mut(&file) {
                    *count -= 1;
                    if *count == 0 {
                        holder.open.remove(&file);
                        holder.writing.remove(&file);
                    }
                }
            }
            Action::Read { block } => self.read(world, client, (file, block)),
            Action::Write { block, .. } => self.write(world, client, (file, block)),
            Action::Stat => world.call(Call::Getattr),
            Action::Remove => {
                world.call(Call::Other);
                world.touch(world.directories[file]);
                world.forget(file);
                self.clients[client].blocks.drop_file(file);
            }
            Action::Probe => world.call(Call::Consistency),
            Action::List | Action::Device => world.call(Call::Other),
            Action::Crash => {
                // The connection breaks; the server closes the client's open files.
                world.clean_up(self.clients[client].open.len());
                self.clients[client] = Client::default();
            }
        }
    }

    fn sync(&mut self, _world: &mut World, _client: usize) {}
}
