//! What is known of an object, for how long, and whether somebody else changed it.

use core::time::Duration;

use leasehold_base::attributes::{Attributes, Before, FileType, Wcc};
use leasehold_base::units::{FileTime, Time};

use super::{Asked, Options};

/// What tells one content of an object from another: what changes with every write. The change
/// time is none of it, as links and renames move that without a word to us.
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

/// Whether what is cached of an object's content is still good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Same,
    Changed,
}

/// What is known of one object.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    attributes: Option<Attributes>,
    /// When they were asked for, and how long they are trusted from then on; none when they are
    /// to be asked for again.
    trusted: Option<(Time, Duration)>,
    /// The content that is cached; none when that cannot be told.
    version: Option<Version>,
    /// Changes of ours that are on their way.
    changing: u32,
    /// Whether several of them were on their way at once, so that their order is not known.
    overlapping: bool,
    /// Changes of ours whose before is another's after, which is not here yet.
    loose: Vec<(Version, Attributes)>,
    /// What is known is no older: when the last change of ours was answered, or when it was asked
    /// for.
    seen: Option<Asked>,
    /// Up to where the server took data or made the file longer, of changes of ours that others
    /// overlap, or when nothing else was known of the file: what these bring may be from before.
    reached: u64,
    /// Whether a change of ours was answered without attributes.
    unclear: bool,
}

/// How many changes may wait for the one that they follow. More means that another's is between.
const LOOSE_MAX: usize = 256;

impl Known {
    pub(super) const fn attributes(&self) -> Option<&Attributes> {
        self.attributes.as_ref()
    }

    /// For how long the attributes can be trusted yet; zero when they cannot.
    pub(super) fn trusted_for(&self, now: Time) -> Duration {
        self.trusted.map_or(Duration::ZERO, |(since, span)| (since + span).since(now))
    }

    /// Whether there is something that content can be compared with.
    pub(super) const fn is_comparable(&self) -> bool {
        self.version.is_some()
    }

    /// Whether changes of ours are on their way.
    pub(super) const fn is_changing(&self) -> bool {
        self.changing > 0
    }

    /// Whether an answer to a question of that time is older than what is known.
    pub(super) fn is_outdated(&self, asked: Asked) -> bool {
        self.seen.is_some_and(|seen| asked < seen)
    }

    /// The attributes are to be asked for before they are used again.
    pub(super) const fn distrust(&mut self) {
        self.trusted = None;
    }

    /// The object may be another than was known, and answers to questions of before tell nothing.
    pub(super) const fn replaced(&mut self, now: Asked) {
        (self.trusted, self.version) = (None, None);
        (self.seen, self.reached) = (Some(now), 0);
    }

    /// Attributes that a question of ours was answered with.
    pub(super) fn observe(
        &mut self,
        options: &Options,
        asked: Asked,
        attributes: &Attributes,
    ) -> Content {
        if self.is_outdated(asked) {
            // Of one of whom nothing is known this is better than nothing.
            self.attributes.get_or_insert(Attributes {
                size: attributes.size.max(self.reached),
                ..*attributes
            });
            return Content::Same;
        }
        // Of what was answered before it was asked it knows.
        (self.seen, self.reached) = (Some(asked), 0);
        if self.changing > 0 {
            // Whose change they show cannot be told before ours have been answered.
            self.attributes = Some(*attributes);
            return Content::Same;
        }
        let time = asked.time;
        let version = Some(Version::of(attributes));
        let (min, max) = options.trust(attributes.file_type);
        let same = self.version == version;
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

    /// A change of ours is sent.
    pub(super) const fn begin_change(&mut self) {
        self.overlapping |= self.changing > 0;
        self.changing += 1;
    }

    /// A change of ours was answered; none of the attributes need be there.
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

    /// Attributes that a change of ours was answered with, and what was before, if that was told.
    fn see_change(
        &mut self,
        options: &Options,
        now: Asked,
        (before, after): (Option<Before>, Attributes),
    ) {
        // Within one tick of the server's clock the latest is the newest, where it can be told.
        let newer = self.attributes.as_ref().is_none_or(|old| {
            is_newer(&after, old) || (!self.overlapping && after.changed == old.changed)
        });
        if newer {
            // Not newer than each change that was answered before.
            self.attributes = Some(Attributes { size: after.size.max(self.reached), ..after });
            let (min, _) = options.trust(after.file_type);
            self.trusted = Some((now.time, min));
        }
        match (before, self.version) {
            (Some(before), Some(_)) => {
                let before = Version { size: before.size, modified: before.modified };
                self.loose.push((before, after));
            }
            // A server that does not say what was before is taken to have seen no change but ours.
            (None, Some(version)) if newer => self.loose.push((version, after)),
            (None, Some(_)) => {}
            (_, None) => self.unclear = true,
        }
    }

    /// Follows the changes from the content that is known, each before being another's after.
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
        let foreign = !core::mem::take(&mut self.loose).is_empty();
        if core::mem::take(&mut self.unclear) || foreign {
            // Somebody else was there in between, or that cannot be told.
            (self.version, self.trusted) = (None, None);
            return Content::Changed;
        }
        let Some(last) = last else { return Content::Same };
        // Within one tick of the server's clock the last of our changes may look older.
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

    /// The server cut the file or made it longer, though it sent no attributes.
    pub(super) const fn resize(&mut self, size: u64) {
        self.reached = size;
        if let Some(attributes) = &mut self.attributes {
            attributes.size = size;
        }
    }

    /// The server took data up to there, though it sent no attributes.
    pub(super) fn reaches(&mut self, end: u64) {
        self.reached = self.reached.max(end);
        if let Some(attributes) = &mut self.attributes {
            attributes.size = attributes.size.max(end);
        }
    }
}

/// Whether attributes show a later state. Several WRITEs within one tick of the server's clock
/// differ in size alone.
fn is_newer(new: &Attributes, old: &Attributes) -> bool {
    let is_file = new.file_type == FileType::Regular;
    new.changed > old.changed || (new.changed == old.changed && (!is_file || new.size >= old.size))
}
