//! The writer of the log: group commit, the alternation of the halves, and the handling of
//! failures.
//!
//! Criteria in order of weight:
//! - Durability: the record of a change is stable on the log's device before the client receives
//!   the answer, and stays there until the file system has the change on stable storage.
//! - Order: records have the order of their changes. A frame contains a record only if all earlier
//!   records are in the same frame or in earlier frames. So no change survives a crash without the
//!   changes that it depends on.
//! - Group commit: at most one sync of the log runs at a time. Changes that arrive during a sync
//!   share the next sync.
//! - No failure for lack of space: if both halves of the log are full, a change waits until the
//!   file system has stored the changes of one half.
//!
//! If the log's device fails, the journal syncs the file system for each batch of changes instead.
//! The journal first marks the log as out of date, because a later start would otherwise replay old
//! records over newer changes. The mark is in the log header, or in the state directory if the
//! device rejects the header. No change is answered before the mark is written. If the file system
//! fails to sync, the log contains the changes that the file system may have lost. So the journal
//! accepts no more changes until a start replays the log.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_channel::oneshot;
use leasehold_fs::{Blocking, FsError, ObjectId};

use crate::format::{FRAME_HEAD, FrameHead, Head, Layout, PAYLOAD_MAX, frame_bytes, seal};
use crate::media::Media;
use crate::record::Record;
use crate::{Event, Owned};

/// The writing side of a log.
pub(crate) struct Journal {
    media: Box<dyn Media>,
    layout: Layout,
    blocking: Arc<dyn Blocking>,
    owned: Owned,
    queue: Mutex<Queue>,
    writer: Mutex<Writer>,
    /// Notified when the other half can be overwritten, or when the journal stops using the log.
    freed: Condvar,
}

/// The entries that wait to be written.
struct Queue {
    waiting: VecDeque<Entry>,
    /// The number of the next record.
    next: u64,
    is_running: bool,
    /// For each object whose data or attributes the file system may not have on stable storage: the
    /// number of the last record about them.
    logged: BTreeMap<ObjectId, u64>,
}

struct Entry {
    /// The encoded record; empty for an entry that only waits for earlier entries.
    record: Vec<u8>,
    data: Bytes,
    answer: oneshot::Sender<Result<(), FsError>>,
}

struct Writer {
    head: Head,
    generation: u64,
    frame: u64,
    /// The offset of the next frame in the current half.
    position: u64,
    /// The number of the first record that is not written yet.
    next: u64,
    mode: Mode,
    /// True if the header on the log's device excludes all records from a replay.
    head_is_void: bool,
}

/// The storage that makes answered changes stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The log makes changes stable.
    Log,
    /// No change becomes stable: the log's device has failed, and the log could not be marked as
    /// out of date yet.
    Unmarked,
    /// A sync of the file system makes changes stable: the log's device has failed, and the log is
    /// marked as out of date.
    Disk,
    /// No change becomes stable any more: the file system has failed, or the log is closed.
    Nothing,
}

/// A complete generation, whose changes the next sync of the file system stores.
#[derive(Clone, Copy)]
struct Closed {
    generation: u64,
    /// The number of the first record after this generation.
    next: u64,
}

impl Journal {
    /// Starts the journal with the generation `head.oldest`, of which the log has no record yet.
    pub(crate) fn new(
        media: Box<dyn Media>,
        head: Head,
        layout: Layout,
        blocking: Arc<dyn Blocking>,
        owned: Owned,
    ) -> Self {
        let generation = head.oldest;
        let writer = Writer {
            head,
            generation,
            frame: 0,
            position: 0,
            next: 0,
            mode: Mode::Log,
            head_is_void: false,
        };
        let queue =
            Queue { waiting: VecDeque::new(), next: 0, is_running: false, logged: BTreeMap::new() };
        Self {
            media,
            layout,
            blocking,
            owned,
            queue: Mutex::new(queue),
            writer: Mutex::new(writer),
            freed: Condvar::new(),
        }
    }

    /// Adds the record of a completed change, followed by its data. The receiver completes when the
    /// record is stable.
    pub(crate) fn add(
        self: &Arc<Self>,
        record: &Record,
        data: Bytes,
    ) -> oneshot::Receiver<Result<(), FsError>> {
        let about = match record {
            Record::Set { object, .. } | Record::Written { object, .. } => Some(*object),
            Record::Made(made) => Some(made.object),
            Record::Linked { .. }
            | Record::Removed { .. }
            | Record::Renamed { .. }
            | Record::Synced { .. } => None,
        };
        self.enqueue(record.encode(), data, about)
    }

    /// Returns a receiver that completes when all earlier records are stable.
    pub(crate) fn barrier(self: &Arc<Self>) -> oneshot::Receiver<Result<(), FsError>> {
        self.enqueue(Vec::new(), Bytes::new(), None)
    }

    fn enqueue(
        self: &Arc<Self>,
        record: Vec<u8>,
        data: Bytes,
        about: Option<ObjectId>,
    ) -> oneshot::Receiver<Result<(), FsError>> {
        let (answer, receiver) = oneshot::channel();
        let mut queue = self.queue();
        if !record.is_empty() {
            let number = queue.next;
            queue.next += 1;
            if let Some(object) = about {
                queue.logged.insert(object, number);
            }
        }
        queue.waiting.push_back(Entry { record, data, answer });
        let is_first = !core::mem::replace(&mut queue.is_running, true);
        drop(queue);
        if is_first {
            let journal = Arc::clone(self);
            self.blocking.run(Box::new(move || journal.run()));
        }
        receiver
    }

    /// Returns the number of the next record if the file system may not have all changes of the
    /// object on stable storage; otherwise returns `None`.
    pub(crate) fn mark(&self, object: &ObjectId) -> Option<u64> {
        let queue = self.queue();
        queue.logged.contains_key(object).then_some(queue.next)
    }

    /// Writes batches until the queue is empty or a half is full. If a half is full, schedules two
    /// jobs and ends: one job syncs the file system to free the half, and one job continues to
    /// write. This job must not wait for the free half itself, because an executor with one thread
    /// starts the other job only after this job ends.
    fn run(self: &Arc<Self>) {
        while let Some(batch) = self.next_batch() {
            let (result, closed) = self.put(&batch);
            for entry in batch {
                // Ignore an error: the waiting call may have been dropped.
                let _ = entry.answer.send(result);
            }
            if let Some(closed) = closed {
                let (freeing, writing) = (Arc::clone(self), Arc::clone(self));
                self.blocking.run(Box::new(move || freeing.put_on_disk(closed)));
                self.blocking.run(Box::new(move || writing.run()));
                return;
            }
        }
    }

    /// Takes the entries off the queue that share the next sync.
    fn next_batch(&self) -> Option<Vec<Entry>> {
        let mut queue = self.queue();
        let mut bytes = 0;
        let fits = |entry: &&Entry| {
            bytes += entry.record.len() + entry.data.len();
            bytes <= PAYLOAD_MAX
        };
        let count = queue.waiting.iter().take_while(fits).count();
        queue.is_running = count > 0;
        (count > 0).then(|| queue.waiting.drain(..count).collect())
    }

    /// Makes a batch stable. Also returns the generation that ended because its half is full.
    fn put(&self, batch: &[Entry]) -> (Result<(), FsError>, Option<Closed>) {
        let mut writer = self.writer();
        let records = batch.iter().filter(|entry| !entry.record.is_empty()).count() as u64;
        if writer.mode == Mode::Nothing {
            return (Err(FsError::Io), None);
        }
        if records == 0 {
            // The batch has only barriers. All records before them are in earlier batches, which
            // are stable.
            return (Ok(()), None);
        }
        let frame = assemble(batch);
        let mut closed = None;
        if writer.mode == Mode::Log && !writer.has_room(&self.layout, &frame) {
            writer = self.wait_for_half(writer);
            if writer.mode == Mode::Log {
                closed = Some(writer.turn_over());
            }
        }
        let result = match writer.mode {
            Mode::Log => match self.write(&mut writer, frame) {
                Ok(()) => Ok(()),
                Err(error) => self.give_up_log(&mut writer, error),
            },
            Mode::Unmarked => self.mark_again(&mut writer),
            Mode::Disk => self.sync_file_system(&mut writer),
            Mode::Nothing => Err(FsError::Io),
        };
        writer.next += records;
        (result, closed.filter(|_| writer.mode == Mode::Log))
    }

    fn write(&self, writer: &mut Writer, frame: Vec<u8>) -> io::Result<()> {
        let Writer { generation, frame: number, next: first, .. } = *writer;
        let frame = seal(&writer.head.id, FrameHead { generation, number, first }, frame);
        self.media.write(self.layout.half(generation) + writer.position, &frame)?;
        self.media.sync()?;
        writer.position += frame.len() as u64;
        writer.frame += 1;
        Ok(())
    }

    /// Waits until the other half can be overwritten: the file system has all its changes on stable
    /// storage.
    fn wait_for_half<'a>(&'a self, writer: MutexGuard<'a, Writer>) -> MutexGuard<'a, Writer> {
        let waited = self.freed.wait_while(writer, |writer| {
            writer.mode == Mode::Log && writer.head.oldest < writer.generation
        });
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Syncs the file system, so that half of the log becomes free. The owner calls it every few
    /// seconds where blocking is permitted.
    pub(crate) fn checkpoint(&self) {
        let closed = {
            let mut writer = self.writer();
            let is_idle = writer.position == 0 || writer.head.oldest < writer.generation;
            if writer.mode != Mode::Log || is_idle {
                return;
            }
            writer.turn_over()
        };
        self.put_on_disk(closed);
    }

    fn put_on_disk(&self, closed: Closed) {
        let synced = (self.owned.sync_all)();
        let mut writer = self.writer();
        if writer.mode == Mode::Log {
            if synced.is_ok() {
                writer.head.oldest = closed.generation + 1;
                if let Err(error) = writer.head.write(&*self.media) {
                    // Ignore the result, for which no change waits. The next change receives the
                    // error.
                    let _ = self.give_up_log(&mut writer, error);
                }
                // Forget the records only if the header is written. Otherwise a start would still
                // replay them, so later COMMITs must be recorded.
                if writer.mode == Mode::Log {
                    self.queue().logged.retain(|_, number| *number >= closed.next);
                }
            } else {
                self.give_up_disk(&mut writer);
            }
        }
        self.freed.notify_all();
    }

    /// Stops using the log after a failure of its device, and syncs the file system instead.
    fn give_up_log(&self, writer: &mut Writer, error: io::Error) -> Result<(), FsError> {
        (self.owned.report)(Event::LogFailed(error));
        self.sync_file_system(writer)?;
        writer.mode = Mode::Unmarked;
        self.freed.notify_all();
        let marked = self.make_void(writer);
        marked.map_err(|error| {
            (self.owned.report)(Event::NotVoid(error));
            FsError::Io
        })
    }

    /// Tries again to mark the log as out of date, and then syncs the changes that were made in the
    /// meantime.
    fn mark_again(&self, writer: &mut Writer) -> Result<(), FsError> {
        self.make_void(writer).map_err(|_| FsError::Io)?;
        self.sync_file_system(writer)
    }

    /// Marks the log as out of date, so that no later start replays the log.
    fn make_void(&self, writer: &mut Writer) -> io::Result<()> {
        if !self.make_head_void(writer) {
            (self.owned.make_void)()?;
        }
        writer.mode = Mode::Disk;
        self.queue().logged.clear();
        Ok(())
    }

    /// Writes a log header that excludes all records from a replay. Returns true if the device has
    /// this header.
    fn make_head_void(&self, writer: &mut Writer) -> bool {
        if !writer.head_is_void {
            let mut head = writer.head.clone();
            (head.oldest, head.is_clean) = (writer.generation + 1, true);
            writer.head_is_void = head.write(&*self.media).is_ok();
        }
        writer.head_is_void
    }

    fn sync_file_system(&self, writer: &mut Writer) -> Result<(), FsError> {
        (self.owned.sync_all)().inspect_err(|_| self.give_up_disk(writer))
    }

    /// Stops the journal after a failure of the file system. The log still contains the changes
    /// that the file system may have lost.
    fn give_up_disk(&self, writer: &mut Writer) {
        if writer.mode != Mode::Nothing {
            (self.owned.report)(Event::DiskFailed);
        }
        if matches!(writer.mode, Mode::Log | Mode::Unmarked) {
            writer.head.is_owed = true;
            // Mark the log for a replay even in the same boot. Without this mark, a start in the
            // same boot would assume that the file system has all changes. Ignore an error: the
            // device has failed, too.
            let _ = writer.head.write(&*self.media);
        }
        writer.mode = Mode::Nothing;
        self.freed.notify_all();
    }

    /// Syncs the file system. The call may block.
    pub(crate) fn sync_all(&self) -> Result<(), FsError> {
        (self.owned.sync_all)().inspect_err(|_| self.owe())
    }

    /// Handles a failed COMMIT of an object that has records in the log: stops the journal.
    pub(crate) fn owe(&self) {
        self.give_up_disk(&mut self.writer());
    }

    /// Syncs all answered changes and closes the log. Returns true if both succeed, so that the log
    /// header alone shows that no replay is necessary.
    pub(crate) fn close(&self, names: &[u8]) -> bool {
        let mut writer = self.writer();
        match writer.mode {
            Mode::Log => {}
            // In these modes all answered changes are already synced. Only try to mark the log as
            // out of date in its header.
            Mode::Unmarked | Mode::Disk => return self.make_head_void(&mut writer),
            Mode::Nothing => return false,
        }
        if (self.owned.sync_all)().is_err() {
            self.give_up_disk(&mut writer);
            return false;
        }
        writer.mode = Mode::Nothing;
        writer.head.oldest = writer.generation + 2;
        writer.head.is_clean = true;
        // If this write fails, the next start syncs the file system or replays the log, which does
        // no harm.
        writer.head.write_names(&*self.media, &self.layout, names).is_ok()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    fn has_room(&self, layout: &Layout, frame: &[u8]) -> bool {
        self.position + frame_bytes(frame.len() - FRAME_HEAD) <= layout.half_bytes
    }

    /// Starts the next generation in the other half, which must be ready to be overwritten.
    fn turn_over(&mut self) -> Closed {
        let closed = Closed { generation: self.generation, next: self.next };
        self.generation += 1;
        self.frame = 0;
        self.position = 0;
        closed
    }
}

/// Returns the payload of a frame, preceded by space for the frame header.
fn assemble(batch: &[Entry]) -> Vec<u8> {
    let bytes: usize = batch.iter().map(|entry| entry.record.len() + entry.data.len()).sum();
    let room = usize::try_from(frame_bytes(bytes)).expect("a payload is bounded");
    let mut frame = Vec::with_capacity(room);
    frame.resize(FRAME_HEAD, 0);
    for entry in batch {
        frame.extend_from_slice(&entry.record);
        frame.extend_from_slice(&entry.data);
    }
    frame
}
