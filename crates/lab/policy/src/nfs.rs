//! NFS with close-to-open consistency: an open requests the attributes and drops outdated blocks, a
//! close sends written data; between them attributes are trusted for some time.
//!
//! Like the client of 4.4BSD, it cannot distinguish its own writes from others by the modification
//! time, so it rereads a file after its own writes at the next open.

use crate::attributes::Attributes;
use crate::trace::{Action, Event};
use crate::world::{Blocks, Call, World};
use crate::{Policy, Terms};
use std::collections::{BTreeMap, BTreeSet};

/// One client.
#[derive(Clone, Debug)]
struct Client {
    attributes: Attributes,
    blocks: Blocks,
    /// By file: the revision of its blocks.
    block_revision: BTreeMap<usize, u64>,
    written: BTreeSet<usize>,
}

/// The state machine of the policy. The server is stateless.
#[derive(Clone, Debug)]
pub(crate) struct Nfs {
    clients: Vec<Client>,
}

impl Nfs {
    pub(crate) fn new(clients: usize, terms: Terms) -> Self {
        let client = Client {
            attributes: Attributes::new(terms.attributes),
            blocks: Blocks::default(),
            block_revision: BTreeMap::new(),
            written: BTreeSet::new(),
        };
        Self { clients: vec![client; clients] }
    }
}

impl Client {
    /// Drops the blocks of a file if its attributes show a change.
    fn check_blocks(&mut self, file: usize) {
        let seen = self.attributes.revision(file);
        if self.block_revision.insert(file, seen) != Some(seen) && !self.blocks.is_dirty(file) {
            self.blocks.drop_file(file);
        }
    }

    fn open(&mut self, world: &mut World, file: usize) {
        self.attributes.resolve(world, file, false);
        if !self.attributes.is_new(world, file) {
            self.attributes.fetch(world, file);
        }
        if self.written.remove(&file) {
            self.blocks.drop_file(file);
        }
        self.check_blocks(file);
    }

    fn read(&mut self, world: &mut World, file: usize, block: u32) {
        self.attributes.trust(world, file);
        self.check_blocks(file);
        let block = (file, block);
        let write = self.blocks.get(block).unwrap_or_else(|| {
            world.call(Call::Read);
            world.stored(block)
        });
        if self.blocks.get(block).is_none() {
            self.blocks.insert(block, write, false);
        }
        world.see(block, write);
    }

    fn push(&mut self, world: &mut World, file: usize) {
        if let Some(revision) = self.blocks.push(world, file) {
            self.attributes.refresh(world, file);
            self.block_revision.insert(file, revision);
        }
    }
}

impl Policy for Nfs {
    fn act(&mut self, world: &mut World, event: &Event) {
        let file = event.file;
        let client = &mut self.clients[event.client];
        match event.action {
            Action::Open { .. } => client.open(world, file),
            Action::Create => {
                client.attributes.create(world, file);
                client.blocks.drop_file(file);
                world.forget(file);
                client.block_revision.insert(file, world.revision(file));
            }
            Action::Close => client.push(world, file),
            Action::Read { block } => client.read(world, file, block),
            Action::Write { block, whole } => {
                let write = world.write((file, block));
                client.blocks.insert((file, block), write, true);
                client.written.insert(file);
                if whole {
                    client.push(world, file);
                }
            }
            Action::Stat => {
                client.attributes.resolve(world, file, false);
                client.attributes.trust(world, file);
            }
            Action::Remove => {
                client.attributes.remove(world, file);
                client.blocks.drop_file(file);
                world.forget(file);
            }
            Action::List => client.attributes.list(world, file),
            Action::Probe => world.call(Call::Lookup),
            Action::Device => world.refuse(),
            Action::Crash => {
                world.lose(client.blocks.crash());
                client.attributes.forget_all();
            }
        }
    }

    fn sync(&mut self, world: &mut World, client: usize) {
        let client = &mut self.clients[client];
        for file in client.blocks.dirty_files() {
            client.push(world, file);
        }
    }
}
