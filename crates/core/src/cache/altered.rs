//! Mode, times and size that programs set here, and times that programs saw here, which the server
//! lacks.

use leasehold_base::attributes::{Attributes, SetAttributes, SetTime};
use leasehold_base::units::FileTime;

use super::{JobId, Serial};

/// The attributes that the cache must set for one file, after all data that was written before them
/// is saved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Altered {
    set: SetAttributes,
    /// The time at which a program last changed these attributes.
    at: FileTime,
    /// The serials of the oldest and the newest change of these attributes.
    oldest: Serial,
    newest: Serial,
    /// True if a program set mode, times or size; false if programs only saw times
    /// ([`Altered::fix`]).
    is_asked_for: bool,
    /// The call in transit, the serial of the newest change that the call carries, and the size
    /// that the call sets.
    sent: Option<(JobId, Serial, Option<u64>)>,
    /// The serial of the oldest change that the call in transit does not carry.
    next: Option<Serial>,
}

impl Altered {
    pub(super) const fn new(set: SetAttributes, at: FileTime, serial: Serial) -> Self {
        Self { set, at, oldest: serial, newest: serial, is_asked_for: true, sent: None, next: None }
    }

    /// Creates the state for times that programs saw, so that the cache sends these times to the
    /// server.
    pub(super) fn of_shown(shown: &Attributes, serial: Serial) -> Self {
        let modified = SetTime::To(shown.modified);
        let set = SetAttributes { modified, ..SetAttributes::default() };
        Self { is_asked_for: false, ..Self::new(set, shown.modified, serial) }
    }

    /// Adds attributes that a program has set, or replaces earlier values of them.
    pub(super) const fn set(&mut self, set: &SetAttributes, at: FileTime, serial: Serial) {
        if set.mode.is_some() {
            self.set.mode = set.mode;
        }
        if !matches!(set.accessed, SetTime::Keep) {
            self.set.accessed = set.accessed;
        }
        if !matches!(set.modified, SetTime::Keep) {
            self.set.modified = set.modified;
        }
        if set.size.is_some() {
            self.set.size = set.size;
        }
        self.is_asked_for = true;
        self.at = at;
        self.note(serial);
    }

    const fn note(&mut self, serial: Serial) {
        self.newest = serial;
        if self.sent.is_some() && self.next.is_none() {
            self.next = Some(serial);
        }
    }

    /// Records that programs saw these times: a later call sets the times as shown. If
    /// `was_written` is false, a modification time that no program set here stays the time of the
    /// server.
    pub(super) fn fix(&mut self, shown: &Attributes, was_written: bool, serial: Serial) {
        if matches!(self.set.accessed, SetTime::Now) {
            self.set.accessed = SetTime::To(shown.accessed);
        }
        let is_open = match self.set.modified {
            SetTime::Keep => was_written,
            SetTime::Now => true,
            SetTime::To(_) => false,
        };
        if is_open {
            self.set.modified = SetTime::To(shown.modified);
        }
        self.note(serial);
    }

    /// Returns true if a program requested the server's current time, so that the server chooses
    /// the access or modification time.
    pub(super) const fn leaves_times_open(&self) -> bool {
        matches!(self.set.accessed, SetTime::Now) || matches!(self.set.modified, SetTime::Now)
    }

    /// Returns true if the modification time is set, so that no later call moves it.
    pub(super) const fn fixes_modified(&self) -> bool {
        matches!(self.set.modified, SetTime::To(_))
    }

    /// Returns true if a program set a mode.
    pub(super) const fn sets_mode(&self) -> bool {
        self.set.mode.is_some()
    }

    /// Returns true if a program set mode, times or size; otherwise a refusal affects no program.
    pub(super) const fn is_asked_for(&self) -> bool {
        self.is_asked_for
    }

    /// Records a program's write up to `end`: the write determines the modification time, and a
    /// size that is sent later does not truncate the written data. Returns true if no attribute is
    /// left to set.
    pub(super) fn written(&mut self, end: u64) -> bool {
        self.set.modified = SetTime::Keep;
        self.set.size = self.set.size.map(|size| size.max(end));
        self.sent.is_none() && self.set == SetAttributes::default()
    }

    /// Replaces the given attributes by the values that programs on this client must see.
    pub(super) fn show(&self, attributes: &mut Attributes) {
        let shown = |set, known| match set {
            SetTime::Keep => known,
            SetTime::Now => self.at,
            SetTime::To(time) => time,
        };
        attributes.size = attributes.size.max(self.reach());
        attributes.mode = self.set.mode.unwrap_or(attributes.mode);
        attributes.accessed = shown(self.set.accessed, attributes.accessed);
        attributes.modified = shown(self.set.modified, attributes.modified);
        attributes.changed = attributes.changed.max(self.at);
    }

    /// Returns the size that the file must have at least.
    pub(super) fn reach(&self) -> u64 {
        self.set.size.unwrap_or(0)
    }

    /// Returns true if the server lacks a change up to this serial.
    pub(super) fn is_unsaved(&self, serial: Serial) -> bool {
        self.oldest <= serial
    }

    pub(super) const fn sent(&self) -> Option<JobId> {
        match self.sent {
            Some((job, ..)) => Some(job),
            None => None,
        }
    }

    /// Marks the attributes as sent with this call, and returns them.
    pub(super) const fn send(&mut self, job: JobId) -> SetAttributes {
        self.sent = Some((job, self.newest, self.set.size));
        self.set
    }

    /// Returns the size that is in transit.
    pub(super) fn sent_size(&self) -> Option<u64> {
        self.sent.and_then(|(.., size)| size)
    }

    /// Records that the call in transit was answered. If `is_over` is true, the attributes of the
    /// call need not be sent again. Returns true if no attribute is left to set.
    pub(super) fn end(&mut self, is_over: bool) -> bool {
        let (sent, next) = (self.sent.take(), self.next.take());
        if is_over && let Some(next) = next {
            self.oldest = next;
        }
        let is_empty = self.set == SetAttributes::default();
        is_empty || is_over && sent.is_some_and(|(_, newest, _)| newest == self.newest)
    }
}
