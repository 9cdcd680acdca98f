//! The known attributes of an object, how long they are trusted, and the detection of changes by
//! others.

use core::time::Duration;

use leasehold_base::attributes::{Attributes, Before, FileType, Wcc};
use leasehold_base::units::{FileTime, Time};

use super::{Asked, Options};

/// The attributes that distinguish one content of an object from another, because every write
/// changes them. The change time does not belong to them, because links and renames by other
/// clients also change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    size: u64,
    modified: FileTime,
}

impl Version {
    const fn of(attributes: &Attributes) -> Self {
        Self { size: attributes.size, modified: attributes.modified }
    }
}

/// The validity of the cached content of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Same,
    Changed,
}

/// The known state of one object.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    attributes: Option<Attributes>,
    /// The time of the request for the attributes, and the time for which they are trusted after
    /// that; `None` if the attributes must be requested again.
    trusted: Option<(Time, Duration)>,
    /// The version of the cached content; `None` if it is unknown.
    version: Option<Version>,
    /// The number of changes of our own in transit.
    changing: u32,
    /// True if several changes of our own were in transit at the same time, so that the order of
    /// these changes is unknown.
    overlapping: bool,
    /// Answered changes of our own that cannot be ordered yet: the attributes before the change,
    /// and after it. The reply to the change that precedes them has not arrived.
    loose: Vec<(Version, Attributes)>,
    /// The time from which the known state dates: the reply to our last change, or the request for
    /// the state. The known state is at least as new as this time.
    seen: Option<Asked>,
    /// The end of the data that the server accepted, or the size that it set, in our own changes.
    /// The replies to overlapping changes may contain older attributes, so the known size is at
    /// least this value.
    reached: u64,
    /// True if the reply to a change of our own contained no attributes.
    unclear: bool,
}

/// The maximum number of changes that may wait for the reply to the preceding change. A larger
/// number shows that another client made a change in between.
const LOOSE_MAX: usize = 256;

impl Known {
    pub(super) const fn attributes(&self) -> Option<&Attributes> {
        self.attributes.as_ref()
    }

    /// Returns the time for which the attributes are still trusted; zero if they are not trusted.
    pub(super) fn trusted_for(&self, now: Time) -> Duration {
        self.trusted.map_or(Duration::ZERO, |(since, span)| (since + span).since(now))
    }

    /// Returns true if the version of the content is known.
    pub(super) const fn is_comparable(&self) -> bool {
        self.version.is_some()
    }

    /// Returns true if changes of our own are in transit.
    pub(super) const fn is_changing(&self) -> bool {
        self.changing > 0
    }

    /// Returns true if the reply to a request of that time is older than the known state.
    pub(super) fn is_outdated(&self, asked: Asked) -> bool {
        self.seen.is_some_and(|seen| asked < seen)
    }

    /// Marks the attributes as to be requested before they are used again.
    pub(super) const fn distrust(&mut self) {
        self.trusted = None;
    }

    /// Marks the object as possibly changed; replies to earlier requests are void.
    pub(super) const fn replaced(&mut self, now: Asked) {
        (self.trusted, self.version) = (None, None);
        (self.seen, self.reached) = (Some(now), 0);
    }

    /// Records the attributes in the reply to a request.
    pub(super) fn observe(
        &mut self,
        options: &Options,
        asked: Asked,
        attributes: &Attributes,
    ) -> Content {
        // Rule 1: a reply to a call that was sent before a change of our own was answered does not
        // override that change.
        if self.is_outdated(asked) {
            // The attributes are out of date, so they are used only if no other attributes are
            // known.
            self.attributes.get_or_insert(Attributes {
                size: attributes.size.max(self.reached),
                ..*attributes
            });
            return Content::Same;
        }
        // The reply includes every change that was answered before the request, so its size needs
        // no correction.
        (self.seen, self.reached) = (Some(asked), 0);
        if self.changing > 0 {
            // The attributes may include our own pending changes or changes of other clients. They
            // cannot be compared with the version, so the content stays.
            self.attributes = Some(*attributes);
            return Content::Same;
        }
        let time = asked.time;
        let version = Some(Version::of(attributes));
        let (min, max) = options.trust(attributes.file_type);
        let same = self.version == version;
        // Rule 1: the time of trust doubles while the attributes are found unchanged, within
        // limits.
        let span = match self.trusted {
            Some((since, span)) if same && since + span <= time => (span * 2).min(max),
            Some((_, span)) if same => span,
            Some(_) | None => min,
        };
        self.trusted = Some((time, span));
        self.attributes = Some(*attributes);
        self.version = version;
        if same { Content::Same } else { Content::Changed }
    }

    /// Records that a change of our own was sent.
    pub(super) const fn begin_change(&mut self) {
        self.overlapping |= self.changing > 0;
        self.changing += 1;
    }

    /// Records the reply to a change of our own. The reply may lack the attributes before the
    /// change, after it, or both.
    pub(super) fn end_change(&mut self, options: &Options, now: Asked, wcc: &Wcc) -> Content {
        self.changing = self.changing.checked_sub(1).expect("the change was begun");
        self.seen = Some(now);
        match wcc.after {
            Some(after) => self.see_change(options, now, (wcc.before, after)),
            None => self.unclear = true,
        }
        let content = self.join();
        if self.changing == 0 && self.attributes.is_some() {
            self.reached = 0;
        }
        content
    }

    /// Records the attributes after a change of our own, and the attributes before it, if known.
    fn see_change(
        &mut self,
        options: &Options,
        now: Asked,
        (before, after): (Option<Before>, Attributes),
    ) {
        // Changes within one clock tick of the server have equal change times. If our changes did
        // not overlap, the last reply is then the newest.
        let newer = self.attributes.as_ref().is_none_or(|old| {
            is_newer(&after, old) || (!self.overlapping && after.changed == old.changed)
        });
        if newer {
            // The attributes may be older than changes that were answered before, so the size is
            // corrected.
            self.attributes = Some(Attributes { size: after.size.max(self.reached), ..after });
            let (min, _) = options.trust(after.file_type);
            self.trusted = Some((now.time, min));
        }
        match (before, self.version) {
            (Some(before), Some(_)) => {
                let before = Version { size: before.size, modified: before.modified };
                self.loose.push((before, after));
            }
            // If a server omits the attributes before the change, our change counts as the only
            // change.
            (None, Some(version)) if newer => self.loose.push((version, after)),
            (None, Some(_)) => {}
            (_, None) => self.unclear = true,
        }
    }

    /// Orders our own changes: starting from the known version, each change must begin with the
    /// attributes with which the previous change ended. If changes remain, another client changed
    /// the object in between.
    fn join(&mut self) -> Content {
        let mut last = None;
        while let Some(at) = self.loose.iter().position(|(before, _)| Some(*before) == self.version)
        {
            let (_, after) = self.loose.swap_remove(at);
            self.version = Some(Version::of(&after));
            last = Some(after);
        }
        if self.changing > 0 && self.loose.len() <= LOOSE_MAX {
            return Content::Same;
        }
        self.overlapping = self.changing > 0;
        // Rule 2: a change of our own that does not continue the known attributes shows that
        // another client changed the object.
        let foreign = !core::mem::take(&mut self.loose).is_empty();
        if core::mem::take(&mut self.unclear) || foreign {
            // Another client made a change in between, or may have made one, so the cached content
            // is not valid any more.
            (self.version, self.trusted) = (None, None);
            return Content::Changed;
        }
        let Some(last) = last else { return Content::Same };
        // Changes within one clock tick of the server have equal change times, so the last change
        // of the chain determines the attributes.
        let seen = self.attributes.get_or_insert(last);
        if seen.changed == last.changed {
            *seen = last;
        }
        if self.version == Some(Version::of(seen)) {
            return Content::Same;
        }
        self.version = Some(Version::of(seen));
        Content::Changed
    }

    /// Records a truncation or extension that the server made; the reply may lack attributes.
    pub(super) const fn resize(&mut self, size: u64) {
        self.reached = size;
        if let Some(attributes) = &mut self.attributes {
            attributes.size = size;
        }
    }

    /// Records that the server accepted data up to `end`; the reply may lack attributes.
    pub(super) fn reaches(&mut self, end: u64) {
        self.reached = self.reached.max(end);
        if let Some(attributes) = &mut self.attributes {
            attributes.size = attributes.size.max(end);
        }
    }
}

/// Returns true if `new` shows a later state. Several WRITEs within one clock tick of the server
/// differ only in size.
fn is_newer(new: &Attributes, old: &Attributes) -> bool {
    let is_file = new.file_type == FileType::Regular;
    new.changed > old.changed || (new.changed == old.changed && (!is_file || new.size >= old.size))
}
