//! The session: the threads that read the device and dispatch its messages.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, io};

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, read};

use crate::init::Kernel;
use crate::reply::send_raw;
use crate::request::Incoming;
use crate::tasks::{Begun, Hub};
use crate::{FileSystem, Notifier, Operation, RequestId, TRANSFER_BYTES_MAX, init};

/// The number of threads that read the device. One thread is best for a single process; a second
/// thread prevents stalls while the first thread works on a request.
const READERS: usize = 2;
/// The number of worker threads. A worker continues parked requests that the waking thread cannot
/// continue.
const WORKERS: usize = 2;

/// The size of the largest message, which is a WRITE with its header.
const MESSAGE_BYTES_MAX: usize = TRANSFER_BYTES_MAX as usize + 4096;

/// The minimum length of WRITE data that is not copied out of its receive buffer. Shorter data is
/// copied, so that a small write does not keep a large buffer in use.
const HANDED_ON_MIN: usize = 64 * 1024;

/// The interval of checks for the end of the requests in progress, after the end of the mount.
const GLANCE: Duration = Duration::from_millis(5);

/// A mount in service.
pub struct Session {
    hub: Arc<Hub>,
    readers: Mutex<Vec<JoinHandle<Errno>>>,
    helpers: Vec<JoinHandle<()>>,
}

/// The reason why a mount ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The mount was unmounted, and no program uses the mount any more.
    Unmounted,
    /// The mount was cut off: by `umount --force`, or in the kernel's list of connections.
    CutOff,
    /// The device could not be read.
    Failed(Errno),
    /// A thread that reads the device has panicked.
    Panicked,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmounted => f.write_str("it was unmounted"),
            Self::CutOff => f.write_str("it was cut off, as by umount --force"),
            Self::Failed(errno) => write!(f, "the device cannot be read: {errno}"),
            Self::Panicked => f.write_str("a thread that reads the device has panicked"),
        }
    }
}

/// A waiting request.
#[derive(Clone, Debug)]
pub struct InFlight {
    /// The id of the request.
    pub id: RequestId,
    /// The operation.
    pub operation: &'static str,
    /// The requesting thread.
    pub thread: u32,
    /// The time since the request arrived.
    pub age: Duration,
}

impl Session {
    /// Negotiates with the kernel, then serves requests. `make_files` creates the file system; it
    /// receives the interface for notifications to the kernel.
    ///
    /// # Errors
    /// The kernel is too old, or the system cannot start a thread.
    pub fn start<F: FileSystem>(
        device: OwnedFd,
        make_files: impl FnOnce(Notifier) -> Arc<F>,
    ) -> io::Result<Self> {
        let hub = Arc::new(Hub::new(device));
        let files = make_files(Notifier { hub: Arc::downgrade(&hub) });
        greet(&hub, files.checks_pages())?;
        let mut session = Self { hub, readers: Mutex::default(), helpers: Vec::new() };
        let mut readers = Vec::new();
        for _ in 0..READERS {
            let (hub, files) = (Arc::clone(&session.hub), Arc::clone(&files));
            readers.push(start("fuse", move || serve(&hub, &files))?);
        }
        for _ in 0..WORKERS {
            let hub = Arc::clone(&session.hub);
            session.helpers.push(start("fuse-worker", move || hub.work())?);
        }
        let hub = Arc::clone(&session.hub);
        session.helpers.push(start("fuse-watch", move || hub.watch())?);
        let hub = Arc::clone(&session.hub);
        // The session does not join this thread at its end, because the thread may wait in the
        // kernel for a read that never completes.
        drop(start("fuse-notify", move || hub.tell())?);
        session.readers = Mutex::new(readers);
        Ok(session)
    }

    /// Returns the waiting requests, oldest first.
    #[must_use]
    pub fn in_flight(&self) -> Vec<InFlight> {
        let mut waiting: Vec<_> = self
            .hub
            .parked()
            .iter()
            .map(|task| InFlight {
                id: task.id,
                operation: task.name,
                thread: task.thread,
                age: task.since.elapsed(),
            })
            .collect();
        waiting.sort_by_key(|request| std::cmp::Reverse(request.age));
        waiting
    }

    /// Waits until the mount has ended, and then at most `patience` for requests in progress.
    /// Returns the reason for the end of the mount.
    pub fn wait(&self, patience: Duration) -> End {
        let readers =
            std::mem::take(&mut *self.readers.lock().unwrap_or_else(PoisonError::into_inner));
        let mut end = End::Unmounted;
        for reader in readers {
            match reader.join() {
                Ok(Errno::NODEV) => {}
                Ok(Errno::CONNABORTED) => end = End::CutOff,
                Ok(errno) => end = End::Failed(errno),
                Err(_) => end = End::Panicked,
            }
        }
        let since = Instant::now();
        while !self.hub.parked().is_empty() && since.elapsed() < patience {
            thread::sleep(GLANCE);
        }
        end
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.hub.finish();
        for helper in self.helpers.drain(..) {
            let _ = helper.join();
        }
    }
}

fn start<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    thread::Builder::new().name(name.to_owned()).spawn(work)
}

/// Reads the first message, which the kernel sends right after the mount.
fn greet(hub: &Hub, checks_pages: bool) -> io::Result<()> {
    let mut message = Vec::with_capacity(MESSAGE_BYTES_MAX);
    next(hub, &mut message)?;
    let Some(Incoming::Init { id, hello }) = Incoming::decode(&message) else {
        return Err(io::Error::other("the first message of the kernel is not FUSE INIT"));
    };
    hub.agree(Kernel::of(&hello));
    match init::answer(&hello, checks_pages) {
        Ok(body) => Ok(send_raw(&hub.device, id.0, 0, body, &[])?),
        Err(errno) => {
            send_raw(&hub.device, id.0, -errno.raw_os_error(), vec![0; 16], &[])?;
            let text = format!("the kernel supports FUSE {}.{}", hello.major, hello.minor);
            Err(io::Error::other(format!("{text}; version 7.31 or later is required")))
        }
    }
}

/// Reads the next message.
fn next(hub: &Hub, message: &mut Vec<u8>) -> Result<(), Errno> {
    loop {
        message.clear();
        match read(&hub.device, spare_capacity(message)) {
            Ok(_) => return Ok(()),
            // A signal interrupted the read, or the kernel withdrew the request during the read.
            // The loop reads again.
            Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Reads and starts requests until the mount has ended; returns the error by which the kernel
/// reports the end of the mount.
fn serve<F: FileSystem>(hub: &Arc<Hub>, files: &Arc<F>) -> Errno {
    let mut message = Vec::with_capacity(MESSAGE_BYTES_MAX);
    loop {
        match next(hub, &mut message) {
            Ok(()) => {}
            Err(errno) => return errno,
        }
        match Incoming::decode(&message) {
            Some(Incoming::Request(request)) => {
                let begun = Begun {
                    id: request.id,
                    name: request.operation.name(),
                    thread: request.caller.thread,
                    suspect: matches!(request.operation, Operation::Flush { .. }),
                    is_large: matches!(
                        request.operation,
                        Operation::Read { .. } | Operation::Readdir { .. }
                    ),
                };
                hub.begin(&begun, Arc::clone(files).call(request));
            }
            Some(Incoming::Write { mut request, size }) => {
                if let Operation::Write { data, .. } = &mut request.operation {
                    *data = take(&mut message, size);
                }
                let (id, thread) = (request.id, request.caller.thread);
                let begun = Begun { id, name: "write", thread, suspect: false, is_large: false };
                hub.begin(&begun, Arc::clone(files).call(request));
            }
            Some(Incoming::Forget(nodes)) => {
                for (node, lookups) in nodes {
                    files.forget(node, lookups);
                }
            }
            // If the request is not parked yet, the reply to its INTERRUPT is EAGAIN, and the
            // kernel repeats the INTERRUPT until the request is parked or answered.
            Some(Incoming::Interrupt { id, of }) => {
                if !hub.interrupt(of) {
                    hub.answer(id, &Err(Errno::AGAIN));
                }
            }
            Some(Incoming::Unknown { id, code }) => hub.answer(id, &Err(refusal(code))),
            Some(Incoming::Damaged { id } | Incoming::Init { id, .. }) => {
                hub.answer(id, &Err(Errno::IO));
            }
            None => tracing::error!("the kernel sent a message shorter than its head"),
        }
    }
}

/// Takes the data of a WRITE, the last `size` bytes of its message.
fn take(message: &mut Vec<u8>, size: usize) -> Bytes {
    let start = message.len() - size;
    if size < HANDED_ON_MIN {
        return Bytes::copy_from_slice(&message[start..]);
    }
    let whole = std::mem::replace(message, Vec::with_capacity(MESSAGE_BYTES_MAX));
    Bytes::from(whole).slice(start..)
}

/// Returns the error for an unsupported operation. After ENOSYS the kernel stops sending the
/// operation and returns EOPNOTSUPP or does without it.
fn refusal(code: u32) -> Errno {
    const IOCTL: u32 = 39;
    if code == IOCTL { Errno::NOTTY } else { Errno::NOSYS }
}
