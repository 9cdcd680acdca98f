//! The true state of files, and the counters.

use crate::trace::Trace;
use serde::Serialize;
use std::collections::BTreeMap;

/// Kinds of remote calls, the columns of the paper's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Attributes.
    Getattr,
    /// A block, or a whole file for Andrew.
    Read,
    /// A block, or a whole file for Andrew.
    Write,
    /// A name.
    Lookup,
    /// Create, remove, list and the like.
    Other,
    /// Lease, open, close: calls for consistency alone.
    Consistency,
    /// A call from the server to a client, or its reply if the reply is a call.
    Callback,
}

impl Call {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Getattr,
        Self::Read,
        Self::Write,
        Self::Lookup,
        Self::Other,
        Self::Consistency,
        Self::Callback,
    ];

    /// Returns the server work relative to a small call: a data block costs about as much as five.
    const fn work(self) -> f64 {
        match self {
            Self::Getattr | Self::Lookup | Self::Other | Self::Consistency | Self::Callback => 1.0,
            Self::Read | Self::Write => 5.0,
        }
    }
}

/// The counts of a policy on a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Remote calls by kind, in the order of [`Call::ALL`].
    pub calls: [u64; 7],
    /// Server work in units of a small call.
    pub server_work: f64,
    /// Blocks that programs read.
    pub reads: u64,
    /// The number of reads that returned older data than an earlier write of any program.
    pub stale_reads: u64,
    /// The largest age of outdated data at a read, in seconds.
    pub stale_seconds_max: f64,
    /// Blocks that a program wrote and a client's crash lost.
    pub lost_blocks: u64,
    /// Device operations that the policy cannot execute.
    pub refused: u64,
    /// Open files and cached blocks that the server cleaned up after a client's crash.
    pub cleaned_up: u64,
}

impl Report {
    /// Returns the remote calls of one kind.
    #[must_use]
    pub fn of(&self, call: Call) -> u64 {
        Call::ALL.iter().zip(&self.calls).find(|(kind, _)| **kind == call).map_or(0, |(_, n)| *n)
    }

    /// Returns all remote calls.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.calls.iter().sum()
    }
}

/// A block of a file.
pub(crate) type Block = (usize, u32);

/// The server's files, the latest writes at any place, and the counters.
#[derive(Clone, Debug)]
pub struct World {
    pub(crate) now: f64,
    pub(crate) directories: Vec<usize>,
    /// At the server, by file: the revision and the time of the change.
    files: Vec<(u64, f64)>,
    /// At the server, by block: the number of its write.
    stored: BTreeMap<Block, u64>,
    /// At any place, by block: the latest write and its time.
    latest: BTreeMap<Block, (u64, f64)>,
    clock: u64,
    report: Report,
}

impl World {
    pub(crate) fn new(trace: &Trace) -> Self {
        Self {
            now: 0.0,
            directories: trace.files.iter().map(|file| file.directory).collect(),
            // Initial files have an old time of change.
            files: vec![(0, -1e6); trace.files.len()],
            stored: BTreeMap::new(),
            latest: BTreeMap::new(),
            clock: 0,
            report: Report::default(),
        }
    }

    pub(crate) fn report(self) -> Report {
        self.report
    }

    pub(crate) fn call(&mut self, call: Call) {
        let kinds = Call::ALL.iter().zip(&mut self.report.calls);
        kinds.filter(|(kind, _)| **kind == call).for_each(|(_, count)| *count += 1);
        self.report.server_work += call.work();
    }

    /// Returns the revision of a file at the server.
    pub(crate) fn revision(&self, file: usize) -> u64 {
        self.files[file].0
    }

    /// Returns the seconds since a file changed at the server.
    pub(crate) fn age(&self, file: usize) -> f64 {
        self.now - self.files[file].1
    }

    /// Changes a file at the server; returns its new revision.
    pub(crate) fn touch(&mut self, file: usize) -> u64 {
        self.clock += 1;
        self.files[file] = (self.clock, self.now);
        self.clock
    }

    /// Returns the write in a block at the server.
    pub(crate) fn stored(&self, block: Block) -> u64 {
        self.stored.get(&block).copied().unwrap_or(0)
    }

    /// Records a program's write of a block; returns the number of the write.
    pub(crate) fn write(&mut self, block: Block) -> u64 {
        self.clock += 1;
        self.latest.insert(block, (self.clock, self.now));
        self.clock
    }

    /// Stores a write at the server; returns the new revision of its file.
    pub(crate) fn store(&mut self, block: Block, write: u64) -> u64 {
        self.stored.insert(block, write);
        self.touch(block.0)
    }

    /// Records a program's read of a block; a write older than the latest one is stale.
    pub(crate) fn see(&mut self, block: Block, write: u64) {
        self.report.reads += 1;
        if let Some(&(latest, at)) = self.latest.get(&block)
            && write < latest
        {
            self.report.stale_reads += 1;
            self.report.stale_seconds_max = self.report.stale_seconds_max.max(self.now - at);
        }
    }

    /// Records delayed writes that a client's crash loses.
    pub(crate) fn lose(&mut self, blocks: impl IntoIterator<Item = Block>) {
        for block in blocks {
            self.report.lost_blocks += 1;
            let stored = self.stored(block);
            if let Some((latest, _)) = self.latest.get_mut(&block) {
                *latest = stored;
            }
        }
    }

    /// Truncates or removes a file, and forgets its blocks.
    pub(crate) fn forget(&mut self, file: usize) {
        self.latest.retain(|block, _| block.0 != file);
        self.stored.retain(|block, _| block.0 != file);
    }

    pub(crate) fn refuse(&mut self) {
        self.report.refused += 1;
    }

    pub(crate) fn clean_up(&mut self, things: usize) {
        self.report.cleaned_up += things as u64;
    }
}

/// Blocks in a client's cache: the write in each, and a flag for unsent data.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks(BTreeMap<Block, Held>);

#[derive(Clone, Copy, Debug)]
struct Held {
    write: u64,
    dirty: bool,
}

impl Blocks {
    pub(crate) fn get(&self, block: Block) -> Option<u64> {
        self.0.get(&block).map(|held| held.write)
    }

    pub(crate) fn insert(&mut self, block: Block, write: u64, dirty: bool) {
        self.0.insert(block, Held { write, dirty });
    }

    /// Drops the blocks of a file, including unsent ones.
    pub(crate) fn drop_file(&mut self, file: usize) {
        self.0.retain(|block, _| block.0 != file);
    }

    pub(crate) fn dirty_files(&self) -> Vec<usize> {
        let mut files: Vec<usize> =
            self.0.iter().filter(|(_, held)| held.dirty).map(|(block, _)| block.0).collect();
        files.dedup();
        files
    }

    pub(crate) fn is_dirty(&self, file: usize) -> bool {
        self.0.range((file, 0)..=(file, u32::MAX)).any(|(_, held)| held.dirty)
    }

    /// Sends every unsent block of a file; returns the revision after the last.
    pub(crate) fn push(&mut self, world: &mut World, file: usize) -> Option<u64> {
        let mut revision = None;
        for (block, write) in self.take_dirty(file) {
            world.call(Call::Write);
            revision = Some(world.store(block, write));
        }
        revision
    }

    /// Returns true if any block of a file is cached.
    pub(crate) fn has(&self, file: usize) -> bool {
        self.0.range((file, 0)..=(file, u32::MAX)).next().is_some()
    }

    /// Returns the unsent blocks of a file, and marks them as sent.
    pub(crate) fn take_dirty(&mut self, file: usize) -> Vec<(Block, u64)> {
        let blocks = self.0.range_mut((file, 0)..=(file, u32::MAX));
        blocks
            .filter_map(|(block, held)| {
                core::mem::take(&mut held.dirty).then_some((*block, held.write))
            })
            .collect()
    }

    /// Drops all blocks, as a crash does; returns the unsent ones.
    pub(crate) fn crash(&mut self) -> Vec<Block> {
        let all = core::mem::take(&mut self.0);
        all.into_iter().filter(|(_, held)| held.dirty).map(|(block, _)| block).collect()
    }
}
