//! V with leases (Gray, Cheriton 1989): a read lease on each used file; writes go to the server and
//! wait for the approval of the other holders. One call extends all leases of a client.

use crate::trace::{Action, Event};
use crate::world::{Blocks, Call, World};
use crate::{Policy, Terms};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
struct Client {
    blocks: Blocks,
    /// By file: the end of its lease and the revision of the cached data.
    leases: BTreeMap<usize, (f64, u64)>,
}

/// The state machine of the policy.
#[derive(Clone, Debug)]
pub(crate) struct V {
    clients: Vec<Client>,
    term: f64,
}

impl V {
    pub(crate) fn new(clients: usize, terms: Terms) -> Self {
        Self { clients: vec![Client::default(); clients], term: terms.v_lease }
    }

    fn is_held(&self, world: &World, client: usize, file: usize) -> bool {
        self.clients[client].leases.get(&file).is_some_and(|(until, _)| world.now < *until)
    }

    /// Grants or extends a lease with a reply, and drops outdated data.
    fn grant(&mut self, world: &World, client: usize, file: usize) {
        let revision = world.revision(file);
        let holder = &mut self.clients[client];
        let before = holder.leases.insert(file, (world.now + self.term, revision));
        if before.is_none_or(|(_, known)| known != revision) {
            holder.blocks.drop_file(file);
        }
    }

    /// Acquires a lease on a file or directory, and extends all other leases in the same call.
    fn need(&mut self, world: &mut World, client: usize, file: usize) {
        if self.is_held(world, client, file) {
            return;
        }
        let known = self.clients[client].leases.contains_key(&file);
        world.call(if known { Call::Consistency } else { Call::Lookup });
        let mut files: Vec<usize> = self.clients[client].leases.keys().copied().collect();
        files.push(file);
        for file in files {
            self.grant(world, client, file);
        }
    }

    /// Requests the approval of every other holder, which gives up its lease, before a file
    /// changes.
    fn approve(&mut self, world: &mut World, client: usize, file: usize) {
        for other in 0..self.clients.len() {
            if other != client && self.is_held(world, other, file) {
                world.call(Call::Callback);
                self.clients[other].leases.remove(&file);
                self.clients[other].blocks.drop_file(file);
            }
        }
    }

    fn resolve(&mut self, world: &mut World, client: usize, file: usize) {
        self.need(world, client, world.directories[file]);
        self.need(world, client, file);
    }

    fn change_directory(&mut self, world: &mut World, client: usize, file: usize) {
        let directory = world.directories[file];
        world.call(Call::Other);
        self.approve(world, client, directory);
        world.touch(directory);
        self.grant(world, client, directory);
    }
}

impl Policy for V {
    fn act(&mut self, world: &mut World, event: &Event) {
        let (client, file) = (event.client, event.file);
        match event.action {
            Action::Open { .. } | Action::Stat => self.resolve(world, client, file),
            Action::Create => {
                self.change_directory(world, client, file);
                self.approve(world, client, file);
                world.forget(file);
                world.touch(file);
                self.grant(world, client, file);
            }
            Action::Close => {}
            Action::Read { block } => {
                let block = (file, block);
                self.need(world, client, file);
                let holder = &mut self.clients[client];
                let write = holder.blocks.get(block).unwrap_or_else(|| {
                    world.call(Call::Read);
                    world.stored(block)
                });
                holder.blocks.insert(block, write, false);
                world.see(block, write);
            }
            Action::Write { block, .. } => {
                let block = (file, block);
                world.call(Call::Write);
                self.approve(world, client, file);
                // The reply grants a lease, and earlier cached data may be outdated.
                self.grant(world, client, file);
                let write = world.write(block);
                let revision = world.store(block, write);
                let holder = &mut self.clients[client];
                holder.blocks.insert(block, write, false);
                holder.leases.insert(file, (world.now + self.term, revision));
            }
            Action::Remove => {
                self.change_directory(world, client, file);
                self.approve(world, client, file);
                self.clients[client].blocks.drop_file(file);
                self.clients[client].leases.remove(&file);
                world.forget(file);
            }
            Action::Probe => self.need(world, client, file),
            Action::List => {
                let fresh = self.is_held(world, client, file);
                self.need(world, client, file);
                if !fresh {
                    world.call(Call::Other);
                }
            }
            Action::Device => world.refuse(),
            Action::Crash => self.clients[client] = Client::default(),
        }
    }

    fn sync(&mut self, _world: &mut World, _client: usize) {}
}
