//! The writer of the log: group commit, the alternation of the halves, and the handling of
//! failures.
//!
//! Criteria in order of weight:
//! - Durability: the record of a change is on the log's device before its answer, and stays there
//!   until the file system has the change on stable storage.
//! - Order: records are added in the order of the changes. A frame contains a record only if
//!   earlier records are in the same or earlier frames, so no change survives without the changes
//!   that it depends on.
//! - At most one sync of the log runs. Changes that arrive during a sync share the next one.
//! - No change is dropped for lack of space: if both halves are full, it waits for the file system.
//!
//! When the log's device fails, the file system's own sync replaces the log. The log is marked as
//! out of date, so that no later start replays it over newer changes: in its own head, or in the
//! state directory if the device rejects the head. No change is answered before the mark is
//! written. When the file system fails to sync, the log contains the changes that may be lost: the
//! journal accepts no more changes until a start replays the log.

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
    /// Notified when the older half is writable again, or never will be.
    freed: Condvar,
}

/// The entries that wait to be written.
struct Queue {
    waiting: VecDeque<Entry>,
    /// The number of the next record.
    next: u64,
    is_running: bool,
    /// The last record about each object's data and attributes that the file system may not have
    /// synced.
    logged: BTreeMap<ObjectId, u64>,
}

struct Entry {
    /// The record. Empty for an entry that only waits for earlier entries.
    record: Vec<u8>,
    data: Bytes,
    answer: oneshot::Sender<Result<(), FsError>>,
}

struct Writer {
    head: Head,
    generation: u64,
    frame: u64,
    /// The offset of the next frame in its half.
    position: u64,
    /// The number of the first record that is not written.
    next: u64,
    mode: Mode,
    /// True if the head on the log's device excludes all records from replay.
    head_is_void: bool,
}

/// The storage that makes answered changes stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// The log.
    Log,
    /// No storage yet: the log's device failed, and the log is not marked as out of date.
    Unmarked,
    /// The file system: the log's device failed, and a later start will not replay the log.
    Disk,
    /// No storage: the file system failed, or the log is closed.
    Nothing,
}

/// A generation that is to be synced to the file system.
#[derive(Clone, Copy)]
struct Closed {
    generation: u64,
    /// The number of the first record after it.
    next: u64,
}

impl Journal {
    /// Starts the journal on a log without records of the generation `head.oldest`.
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

    /// Adds the record of a completed change, followed by its data. The receiver fires when the
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

    /// Returns a receiver that fires when all records so far are stable.
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

    /// Returns the number of the next record if the file system may not have all records about the
    /// object.
    pub(crate) fn mark(&self, object: &ObjectId) -> Option<u64> {
        let queue = self.queue();
        queue.logged.contains_key(object).then_some(queue.next)
    }

    /// Writes until the queue is empty or a half is full. At a full half the job ends and schedules
    /// two new jobs: an executor may start them only after this job ends, so this job must not wait
    /// for a half that one of them frees.
    fn run(self: &Arc<Self>) {
        while let Some(batch) = self.next_batch() {
            let (result, closed) = self.put(&batch);
            for entry in batch {
                // The receiver may have been dropped.
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

    /// Returns the entries that share the next sync.
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

    /// Makes a batch stable. Also returns the generation that was closed for lack of space.
    fn put(&self, batch: &[Entry]) -> (Result<(), FsError>, Option<Closed>) {
        let mut writer = self.writer();
        let records = batch.iter().filter(|entry| !entry.record.is_empty()).count() as u64;
        if writer.mode == Mode::Nothing {
            return (Err(FsError::Io), None);
        }
        if records == 0 {
            // All earlier records have been answered.
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

    /// Waits until the other half contains no record that a replay needs.
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
                    // No change waits for this result. The next change receives the error.
                    let _ = self.give_up_log(&mut writer, error);
                }
                // Without the new head a start replays the records before that head.
                if writer.mode == Mode::Log {
                    self.queue().logged.retain(|_, number| *number >= closed.next);
                }
            } else {
                self.give_up_disk(&mut writer);
            }
        }
        self.freed.notify_all();
    }

    /// Replaces the log by the file system's own sync, after a failure of the log's device.
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

    /// Retries to mark the log as out of date, and syncs the changes that were made meanwhile.
    fn mark_again(&self, writer: &mut Writer) -> Result<(), FsError> {
        self.make_void(writer).map_err(|_| FsError::Io)?;
        self.sync_file_system(writer)
    }

    /// Marks the log as out of date for a later start.
    fn make_void(&self, writer: &mut Writer) -> io::Result<()> {
        if !self.make_head_void(writer) {
            (self.owned.make_void)()?;
        }
        writer.mode = Mode::Disk;
        self.queue().logged.clear();
        Ok(())
    }

    /// Writes a head that excludes all records from replay. Returns true if the device has that
    /// head.
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

    /// Stops the journal: the log contains the changes that the file system may have lost.
    fn give_up_disk(&self, writer: &mut Writer) {
        if writer.mode != Mode::Nothing {
            (self.owned.report)(Event::DiskFailed);
        }
        if matches!(writer.mode, Mode::Log | Mode::Unmarked) {
            writer.head.is_owed = true;
            // Without this mark, a start in the same boot assumes that the file system has all
            // changes.
            let _ = writer.head.write(&*self.media);
        }
        writer.mode = Mode::Nothing;
        self.freed.notify_all();
    }

    /// Syncs the file system. It may block.
    pub(crate) fn sync_all(&self) -> Result<(), FsError> {
        (self.owned.sync_all)().inspect_err(|_| self.owe())
    }

    /// Handles a failure of the file system to store an object that has records in the log.
    pub(crate) fn owe(&self) {
        self.give_up_disk(&mut self.writer());
    }

    /// Syncs all answered changes and closes the log. Returns true if both succeed: then a later
    /// start needs no record in the state directory.
    pub(crate) fn close(&self, names: &[u8]) -> bool {
        let mut writer = self.writer();
        match writer.mode {
            Mode::Log => {}
            // All answered changes were synced.
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
        // If this write fails, the next start syncs or replays once more.
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

    /// Starts the next generation in the other half, which must be free.
    fn turn_over(&mut self) -> Closed {
        let closed = Closed { generation: self.generation, next: self.next };
        self.generation += 1;
        self.frame = 0;
        self.position = 0;
        closed
    }
}

/// Returns the payload of a frame, preceded by space for the frame's head.
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
