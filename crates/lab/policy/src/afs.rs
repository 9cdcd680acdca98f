//! Andrew: whole files (and whole directories) are cached under the server's promise to call back
//! before they change; a changed file goes to the server at close.

use crate::Policy;
use crate::trace::{Action, Event};
use crate::world::{Blocks, Call, World};
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default)]
struct Client {
    blocks: Blocks,
    /// Files whose contents are here, and files the server promised to call back for.
    contents: BTreeSet<usize>,
    promised: BTreeSet<usize>,
}

/// The policy's machine; the server's promises are the union of its clients'.
#[derive(Clone, Debug)]
pub(crate) struct Afs {
    clients: Vec<Client>,
}

impl Afs {
    pub(crate) fn new(clients: usize) -> Self {
        Self { clients: vec![Client::default(); clients] }
    }

    /// A file has changed: everybody else's promise is broken.
    fn break_promises(&mut self, world: &mut World, client: usize, file: usize) {
        for (other, holder) in self.clients.iter_mut().enumerate() {
            if other != client && holder.promised.remove(&file) {
                world.call(Call::Callback);
                holder.contents.remove(&file);
            }
        }
    }

    /// Makes sure that a whole file or directory is here.
    fn have(&mut self, world: &mut World, client: usize, file: usize) {
        let holder = &mut self.clients[client];
        if !(holder.promised.contains(&file) && holder.contents.contains(&file)) {
            world.call(Call::Read);
            holder.blocks.drop_file(file);
            holder.promised.insert(file);
            holder.contents.insert(file);
        }
    }

    /// Names are found in directories that are cached like files.
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

    /// Sends a changed file whole.
    fn store(&mut self, world: &mut World, client: usize, file: usize) {
        if !self.clients[client].blocks.is_dirty(file) {
            return;
        }
        // One call stores the whole file; `push` would count one for each block.
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
                // The open fetched the file as it was then; what came later is not seen.
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
            // A directory is cached whole, with what is not in it.
            Action::List | Action::Probe => self.have(world, client, file),
            Action::Device => world.refuse(),
            Action::Crash => {
                // The disk cache survives, the promises do not; open files are lost.
                let holder = &mut self.clients[client];
                world.lose(holder.blocks.crash());
                world.clean_up(holder.promised.len());
                *holder = Client::default();
            }
        }
    }

    fn sync(&mut self, _world: &mut World, _client: usize) {}
}
