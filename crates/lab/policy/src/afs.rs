//! Andrew: clients cache whole files (and whole directories) under the server's promise of a
//! call-back before a change; a client sends a changed file to the server at close.

use crate::Policy;
use crate::trace::{Action, Event};
use crate::world::{Blocks, Call, World};
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default)]
struct Client {
    blocks: Blocks,
    /// Files with cached contents, and files with a call-back promise.
    contents: BTreeSet<usize>,
    promised: BTreeSet<usize>,
}

/// The state machine of the policy; the server's promises are the union of its clients' promises.
#[derive(Clone, Debug)]
pub(crate) struct Afs {
    clients: Vec<Client>,
}

impl Afs {
    pub(crate) fn new(clients: usize) -> Self {
        Self { clients: vec![Client::default(); clients] }
    }

    /// Breaks the promises of all other clients for a changed file.
    fn break_promises(&mut self, world: &mut World, client: usize, file: usize) {
        for (other, holder) in self.clients.iter_mut().enumerate() {
            if other != client && holder.promised.remove(&file) {
                world.call(Call::Callback);
                holder.contents.remove(&file);
            }
        }
    }

    /// Fetches a whole file or directory unless it is cached.
    fn have(&mut self, world: &mut World, client: usize, file: usize) {
        let holder = &mut self.clients[client];
        if !(holder.promised.contains(&file) && holder.contents.contains(&file)) {
            world.call(Call::Read);
            holder.blocks.drop_file(file);
            holder.promised.insert(file);
            holder.contents.insert(file);
        }
    }

    /// Resolves names in directories, which are cached like files.
    fn resolve(&mut self, world: &mut World, client: usize, file: usize) {
        let directory = world.directories[file];
        if directory != file {
            self.have(world, client, directory);
        }
    }

    fn change_directory(&mut self, world: &mut World, client: usize, file: usize) {
        let directory = world.directories[file];
        world.call(Call::Other);
        world.touch(directory);
        self.break_promises(world, client, directory);
    }

    /// Stores a whole changed file at the server.
    fn store(&mut self, world: &mut World, client: usize, file: usize) {
        if !self.clients[client].blocks.is_dirty(file) {
            return;
        }
        // One call stores the whole file; `push` would count one call for each block.
        world.call(Call::Write);
        for (block, write) in self.clients[client].blocks.take_dirty(file) {
            world.store(block, write);
        }
        self.break_promises(world, client, file);
        self.clients[client].promised.insert(file);
    }
}

impl Policy for Afs {
    fn act(&mut self, world: &mut World, event: &Event) {
        let (client, file) = (event.client, event.file);
        match event.action {
            Action::Open { .. } => {
                self.resolve(world, client, file);
                self.have(world, client, file);
            }
            Action::Create => {
                self.resolve(world, client, file);
                self.change_directory(world, client, file);
                self.break_promises(world, client, file);
                self.clients[client].blocks.drop_file(file);
                self.clients[client].promised.insert(file);
                self.clients[client].contents.insert(file);
                world.forget(file);
            }
            Action::Close => self.store(world, client, file),
            Action::Read { block } => {
                let block = (file, block);
                let holder = &mut self.clients[client];
                let write = holder.blocks.get(block).unwrap_or_else(|| world.stored(block));
                // The open fetched the contents of that time; the client does not see later
                // changes.
                if holder.blocks.get(block).is_none() {
                    holder.blocks.insert(block, write, false);
                }
                world.see(block, write);
            }
            Action::Write { block, .. } => {
                let write = world.write((file, block));
                self.clients[client].blocks.insert((file, block), write, true);
            }
            Action::Stat => {
                self.resolve(world, client, file);
                if self.clients[client].promised.insert(file) {
                    world.call(Call::Getattr);
                }
            }
            Action::Remove => {
                self.change_directory(world, client, file);
                self.break_promises(world, client, file);
                self.clients[client].blocks.drop_file(file);
                world.forget(file);
            }
            // A directory is cached whole, including the absence of names.
            Action::List | Action::Probe => self.have(world, client, file),
            Action::Device => world.refuse(),
            Action::Crash => {
                // The disk cache survives, but not the promises; open files are lost.
                let holder = &mut self.clients[client];
                world.lose(holder.blocks.crash());
                world.clean_up(holder.promised.len());
                *holder = Client::default();
            }
        }
    }

    fn sync(&mut self, _world: &mut World, _client: usize) {}
}
