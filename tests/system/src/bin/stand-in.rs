//! A test file system behind a session with the kernel's FUSE, as a separate process: a test that
//! used a mount which it serves itself could deadlock.
//!
//! `leasehold-stand-in DIR` mounts and prints `ready`. It reads commands, one per line, and replies
//! to each with a line. It ends at the end of its input.

use std::fs;
use std::future::poll_fn;
use std::io::{Write as _, stdin, stdout};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use leasehold_fuse::{
    Answer, Attributes, Entry, Errno, FileSystem, Listing, ListingEntry, MountOptions, NodeId,
    Opened, Operation, Reply, Request, Session, mount, unmount,
};

/// The validity of attributes in the kernel: longer than any test takes.
const LIMIT: Duration = Duration::from_secs(60);

const FILE: NodeId = NodeId(2);

/// A directory with one file, `file`, that can block operations and panic.
#[derive(Default)]
struct Stand {
    content: Mutex<Vec<u8>>,
    held: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Stand {
    fn hold(&self) {
        self.held.store(true, Ordering::SeqCst);
    }

    fn release(&self) {
        self.held.store(false, Ordering::SeqCst);
        let mut waiting = self.waiting.lock().expect("nobody panics with it");
        let woken = core::mem::take(&mut *waiting);
        drop(waiting);
        woken.into_iter().for_each(Waker::wake);
    }

    async fn pass(&self) {
        poll_fn(|context| {
            let mut waiting = self.waiting.lock().expect("nobody panics with it");
            if !self.held.load(Ordering::SeqCst) {
                return Poll::Ready(());
            }
            waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn attributes(&self, node: NodeId) -> Attributes {
        let size = self.content.lock().expect("nobody panics with it").len() as u64;
        let (mode, size) = if node == NodeId::ROOT { (0o040_755, 4096) } else { (0o100_644, size) };
        let (links, block_bytes) = (1, 4096);
        Attributes { file: node.0 + 100, mode, size, links, block_bytes, ..Attributes::default() }
    }

    fn entry(&self, node: NodeId) -> Entry {
        Entry {
            node: Some(node),
            generation: 0,
            name_valid: Duration::ZERO,
            attributes_valid: LIMIT,
            attributes: self.attributes(node),
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "what nobody asks for fails the test")]
    fn answer(&self, request: Request) -> Result<Reply, Errno> {
        match request.operation {
            Operation::Lookup { name } if name == b"file" => Ok(Reply::Entry(self.entry(FILE))),
            Operation::Lookup { name } if name == b"panics" => panic!("as asked"),
            Operation::Lookup { .. } => Err(Errno::NOENT),
            Operation::Getattr { .. } | Operation::Setattr(_) => {
                Ok(Reply::Attributes(self.attributes(request.node), LIMIT))
            }
            Operation::Open { .. } | Operation::Opendir => Ok(Reply::Opened(Opened::default())),
            Operation::Read { offset, size, .. } => {
                let content = self.content.lock().expect("nobody panics with it");
                let start = content.len().min(length(offset));
                let end = content.len().min(start + length(size.into()));
                Ok(Reply::Data(Bytes::copy_from_slice(&content[start..end])))
            }
            Operation::Write { offset, data, .. } => {
                let mut content = self.content.lock().expect("nobody panics with it");
                let start = length(offset);
                let end = start + data.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[start..end].copy_from_slice(&data);
                Ok(Reply::Written(u32::try_from(data.len()).expect("the kernel has a limit")))
            }
            Operation::Readdir { offset, size, plus, .. } => {
                let mut listing = Listing::new(size);
                if offset == 0 {
                    let entry = ListingEntry { name: b"file", file: 102, next: 1, mode: 0o100_644 };
                    listing.push(entry, plus.then_some(Some(&self.entry(FILE))));
                }
                Ok(listing.reply())
            }
            Operation::Flush { .. }
            | Operation::Fsync { .. }
            | Operation::Release { .. }
            | Operation::Releasedir { .. } => Ok(Reply::Done),
            other => panic!("nobody asks for {}", other.name()),
        }
    }
}

/// Converts a position in a file that is held in memory.
fn length(of: u64) -> usize {
    usize::try_from(of).expect("the files are small")
}

impl FileSystem for Stand {
    fn call(self: Arc<Self>, request: Request) -> Answer {
        Box::pin(async move {
            // Requests that only notify the file system must not block: no process could be killed
            // to end them.
            if !matches!(
                request.operation,
                Operation::Release { .. } | Operation::Releasedir { .. }
            ) {
                self.pass().await;
            }
            self.answer(request)
        })
    }

    fn forget(&self, _: NodeId, _: u64) {}
}

fn main() {
    let folder = std::env::args_os().nth(1).expect("the directory is an argument");
    let options = MountOptions { source: "stand-in".to_owned(), ..MountOptions::default() };
    let device = mount(Path::new(&folder), &options).expect("root may mount");
    let stand = Arc::new(Stand::default());
    let session = Session::start(device, |_| Arc::clone(&stand)).expect("the kernel speaks FUSE");
    tell("ready");
    for line in stdin().lines() {
        let line = line.expect("it is text");
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("hold", _) => stand.hold(),
            ("release", _) => stand.release(),
            ("save", place) => {
                let content = stand.content.lock().expect("nobody panics with it");
                fs::write(place, &*content).expect("there is room");
            }
            ("waiting", _) => {
                let waiting = session.in_flight();
                let words: Vec<_> = waiting.iter().map(|request| request.operation).collect();
                tell(&words.join(" "));
                continue;
            }
            (order, _) => panic!("there is no order {order}"),
        }
        tell("done");
    }
    let _ = unmount(Path::new(&folder), true);
    // The end of this process closes the connection, even for blocked requests.
}

#[allow(clippy::print_stdout, reason = "it is asked by standard input and output")]
fn tell(line: &str) {
    println!("{line}");
    stdout().flush().expect("somebody listens");
}
