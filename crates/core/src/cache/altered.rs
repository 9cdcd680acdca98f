//! Mode, times and size that programs set here, and times that programs were shown here, of which
//! the server has none yet.

use leasehold_base::attributes::{Attributes, SetAttributes, SetTime};
use leasehold_base::units::FileTime;

use super::{JobId, Serial};

/// What was set of one file, behind all that was written of it before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Altered {
    set: SetAttributes,
    /// When programs last set something.
    at: FileTime,
    /// The oldest change, and the newest.
    oldest: Serial,
    newest: Serial,
    /// True if a program set mode, times or size; otherwise programs were only shown times
    /// ([`Altered::fix`]).
    is_asked_for: bool,
    /// The call by which it is on its way, the newest change that goes with it, and the size.
    sent: Option<(JobId, Serial, Option<u64>)>,
    /// The oldest change that does not.
    next: Option<Serial>,
}

impl Altered {
    pub(super) const fn new(set: SetAttributes, at: FileTime, serial: Serial) -> Self {
        Self { set, at, oldest: serial, newest: serial, is_asked_for: true, sent: None, next: None }
    }

    /// Times that programs were shown are to be the times of the file.
    pub(super) fn of_shown(shown: &Attributes, serial: Serial) -> Self {
        let modified = SetTime::To(shown.modified);
        let set = SetAttributes { modified, ..SetAttributes::default() };
        Self { is_asked_for: false, ..Self::new(set, shown.modified, serial) }
    }

    /// More is set.
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

    /// Programs were shown these times: the file gets the times as shown, whenever a call sets the
    /// times. Without `was_written`, a time that no program set here stays the server's time.
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

    /// True if the server is to choose a time that programs here see already.
    pub(super) const fn leaves_times_open(&self) -> bool {
        matches!(self.set.accessed, SetTime::Now) || matches!(self.set.modified, SetTime::Now)
    }

    /// True if the time of the last write is set, so that no later call moves the time.
    pub(super) const fn fixes_modified(&self) -> bool {
        matches!(self.set.modified, SetTime::To(_))
    }

    /// True if a program set a mode.
    pub(super) const fn sets_mode(&self) -> bool {
        self.set.mode.is_some()
    }

    /// True if a program set mode, times or size; otherwise no program loses by a refusal.
    pub(super) const fn is_asked_for(&self) -> bool {
        self.is_asked_for
    }

    /// A program writes up to there: its time of modification is that of the write, and what is set
    /// behind it cuts nothing of it off. Whether nothing is left.
    pub(super) fn written(&mut self, end: u64) -> bool {
        self.set.modified = SetTime::Keep;
        self.set.size = self.set.size.map(|size| size.max(end));
        self.sent.is_none() && self.set == SetAttributes::default()
    }

    /// As programs here are to see it.
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

    /// Up to where the file is to reach at least.
    pub(super) fn reach(&self) -> u64 {
        self.set.size.unwrap_or(0)
    }

    /// Whether something that was set up to then is not at the server.
    pub(super) fn is_unsaved(&self, serial: Serial) -> bool {
        self.oldest <= serial
    }

    pub(super) const fn sent(&self) -> Option<JobId> {
        match self.sent {
            Some((job, ..)) => Some(job),
            None => None,
        }
    }

    /// It goes out with this call.
    pub(super) const fn send(&mut self, job: JobId) -> SetAttributes {
        self.sent = Some((job, self.newest, self.set.size));
        self.set
    }

    /// The size that is on its way.
    pub(super) fn sent_size(&self) -> Option<u64> {
        self.sent.and_then(|(.., size)| size)
    }

    /// The call was answered, and what went with it is over with or not. Whether nothing is left.
    pub(super) fn end(&mut self, is_over: bool) -> bool {
        let (sent, next) = (self.sent.take(), self.next.take());
        if is_over && let Some(next) = next {
            self.oldest = next;
        }
        let is_empty = self.set == SetAttributes::default();
        is_empty || is_over && sent.is_some_and(|(_, newest, _)| newest == self.newest)
    }
}
