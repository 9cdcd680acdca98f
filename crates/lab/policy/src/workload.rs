//! Workloads: one like the Modified Andrew Benchmark, and one of random sharing.
//!
//! The original scripts are not available, so the first workload follows their description (five
//! directories, seventy files of 200 KB in total, compiled and archived), with sizes for which
//! plain NFS makes about the calls that the paper counted. The counts of the other policies are not
//! fitted.

use crate::trace::{Action, Event, FileInfo, Trace};
use leasehold_base::random::Random;

/// The parameters that the benchmark's description leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MabSize {
    /// Sources that are compiled, out of the seventy files.
    pub sources: usize,
    /// Headers that each source includes.
    pub headers: usize,
    /// Failed lookups of headers for each source.
    pub probes: usize,
    /// Blocks of each object file.
    pub object_blocks: u32,
    /// Programs from the remote file system that a compilation runs.
    pub programs: usize,
    /// Blocks of each program.
    pub program_blocks: u32,
}

impl Default for MabSize {
    fn default() -> Self {
        Self {
            sources: 26,
            headers: 10,
            probes: 14,
            object_blocks: 5,
            programs: 5,
            program_blocks: 28,
        }
    }
}

/// Files of the benchmark's tree.
const TREE_FILES: usize = 70;
const TREE_DIRECTORIES: usize = 5;

/// Collects the events of one program.
struct Writer {
    trace: Trace,
    now: f64,
    client: usize,
}

impl Writer {
    fn file(&mut self, directory: usize, exists: bool) -> usize {
        self.trace.files.push(FileInfo { directory, exists });
        self.trace.files.len() - 1
    }

    /// Adds an operation, followed by a time of computation.
    fn act(&mut self, file: usize, action: Action, seconds: f64) {
        self.trace.events.push(Event { at: self.now, client: self.client, file, action });
        self.now += seconds;
    }

    fn read_whole(&mut self, file: usize, blocks: u32, seconds: f64) {
        self.act(file, Action::Open { write: false }, 0.001);
        for block in 0..blocks {
            self.act(file, Action::Read { block }, 0.001);
        }
        self.act(file, Action::Close, seconds);
    }

    fn write_whole(&mut self, file: usize, blocks: u32, seconds: f64) {
        self.act(file, Action::Create, 0.001);
        for block in 0..blocks {
            // The last block is usually partial.
            self.act(file, Action::Write { block, whole: block + 1 < blocks }, 0.001);
        }
        self.act(file, Action::Close, seconds);
    }
}

/// Returns a workload like the Modified Andrew Benchmark, by one client.
#[must_use]
pub fn mab(size: MabSize) -> Trace {
    let mut w = Writer { trace: Trace { clients: 1, ..Trace::default() }, now: 0.0, client: 0 };
    let root = w.file(0, true);
    let binaries = w.file(root, true);
    let programs: Vec<usize> = (0..size.programs).map(|_| w.file(binaries, true)).collect();
    // Phase 1: make the directories.
    let directories: Vec<usize> = (0..TREE_DIRECTORIES).map(|_| w.file(root, false)).collect();
    for directory in &directories {
        w.act(*directory, Action::Create, 0.01);
        w.act(*directory, Action::Close, 1.0);
    }
    // Phase 2: copy the tree, from a local disk. One file in five is two blocks long.
    let blocks_of = |index: usize| if index.is_multiple_of(5) { 2 } else { 1 };
    let files: Vec<usize> =
        (0..TREE_FILES).map(|i| w.file(directories[i % TREE_DIRECTORIES], false)).collect();
    for (index, file) in files.iter().enumerate() {
        w.write_whole(*file, blocks_of(index), 0.25);
    }
    // Phase 3: look at every file, twice.
    for _ in 0..2 {
        for directory in &directories {
            w.act(*directory, Action::List, 0.05);
        }
        for file in &files {
            w.act(*file, Action::Stat, 0.1);
        }
    }
    // Phase 4: read every file, twice.
    for _ in 0..2 {
        for directory in &directories {
            w.act(*directory, Action::List, 0.05);
        }
        for (index, file) in files.iter().enumerate() {
            w.act(*file, Action::Stat, 0.01);
            w.read_whole(*file, blocks_of(index), 0.1);
        }
    }
    compile(&mut w, size, &programs, &directories, &files);
    w.trace
}

/// Phase 5: compile the sources and archive the objects.
fn compile(
    w: &mut Writer,
    size: MabSize,
    programs: &[usize],
    directories: &[usize],
    files: &[usize],
) {
    let objects: Vec<usize> = (0..size.sources).map(|_| w.file(directories[0], false)).collect();
    for (index, object) in objects.iter().enumerate() {
        for program in programs {
            w.read_whole(*program, size.program_blocks, 0.1);
        }
        w.read_whole(files[index % files.len()], 1, 0.2);
        for _ in 0..size.probes {
            w.act(directories[1], Action::Probe, 0.01);
        }
        for header in 0..size.headers {
            w.read_whole(files[files.len() - 1 - header], 1, 0.05);
        }
        // The assembler's output is stripped into the object file and removed.
        let raw = w.file(directories[0], false);
        w.write_whole(raw, size.object_blocks, 1.0);
        w.read_whole(raw, size.object_blocks, 0.2);
        w.write_whole(*object, size.object_blocks, 0.5);
        w.act(raw, Action::Remove, 1.5);
    }
    let library = w.file(directories[0], false);
    w.act(library, Action::Create, 0.01);
    let mut next = 0;
    for object in &objects {
        w.act(*object, Action::Stat, 0.01);
        w.read_whole(*object, size.object_blocks, 0.02);
        for _ in 0..size.object_blocks {
            w.act(library, Action::Write { block: next, whole: true }, 0.005);
            next += 1;
        }
    }
    w.act(library, Action::Close, 0.5);
    // The table of contents is read and written in place.
    w.act(library, Action::Open { write: true }, 0.01);
    for block in 0..next / 8 {
        w.act(library, Action::Read { block }, 0.01);
    }
    w.act(library, Action::Write { block: 0, whole: true }, 0.01);
    w.act(library, Action::Close, 0.5);
    for object in objects {
        w.act(object, Action::Remove, 0.05);
    }
}

/// Returns random operations of several clients on a few shared files: opens, reads, writes,
/// closes, with occasional crashes and device operations.
#[must_use]
pub fn sharing(clients: usize, files: usize, events: usize, seed: u64) -> Trace {
    let mut random = Random::from_seed(seed);
    let mut below = |bound: usize| {
        usize::try_from(random.below(bound as u64)).expect("below a number that fits")
    };
    let mut trace = Trace { clients, ..Trace::default() };
    trace.files.push(FileInfo { directory: 0, exists: true });
    trace.files.extend((0..files).map(|_| FileInfo { directory: 0, exists: true }));
    let mut open: Vec<Option<(usize, bool)>> = vec![None; clients];
    let mut now = 0.0;
    while trace.events.len() < events {
        now += 0.01 * below(200) as f64;
        let client = below(clients);
        let block = u32::from(below(2) == 1);
        let (file, action) = match open[client] {
            None if below(300) == 0 => (0, Action::Device),
            None if below(4) == 0 => (1 + below(files), Action::Stat),
            None => {
                let (file, write) = (1 + below(files), below(4) == 0);
                open[client] = Some((file, write));
                (file, Action::Open { write })
            }
            Some((file, _)) if below(500) == 0 => {
                open[client] = None;
                (file, Action::Crash)
            }
            Some((file, _)) if below(4) == 0 => {
                open[client] = None;
                (file, Action::Close)
            }
            Some((file, true)) if below(2) == 0 => {
                (file, Action::Write { block, whole: below(2) == 0 })
            }
            Some((file, _)) => (file, Action::Read { block }),
        };
        trace.events.push(Event { at: now, client, file, action });
    }
    trace
}
