//! The true state (the oracle), and the checks of shown states against it.

use core::time::Duration;

use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::{FileId, Time};
use leasehold_core::replica::{Place, Stamp};

use crate::Broken;

use super::message::Metafile;
use super::node::{Asker, BOUNDS, ROOT};

/// The largest difference between two clocks, in millionths of the elapsed time.
pub(super) const DRIFT_PPM_MAX: u32 = 2_000;

/// A state of an object, with the time of its begin.
#[derive(Clone, Debug)]
struct State {
    since: Time,
    version: Stamp,
    /// `None` after the object is gone.
    is: Option<Metafile>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    pub(super) broken: Vec<Broken>,
    objects: BTreeMap<FileId, Vec<State>>,
    done: BTreeSet<Asker>,
    contents: BTreeSet<u64>,
    /// The objects that a client requested to remove, or to replace.
    may_go: BTreeSet<FileId>,
    /// The objects among them whose name may be free when they are gone.
    may_leave: BTreeSet<FileId>,
    /// The objects that have lost their name to an object of another home, where their own home may
    /// not have stored it yet.
    replaced: BTreeSet<FileId>,
    /// Names of objects that are removed at this moment; each needs a new object at its end.
    to_be_had: Vec<Place>,
    /// Objects that a metaserver has reported as gone, or has learned to be gone.
    gone: BTreeSet<(u32, FileId)>,
}

impl Truth {
    pub(super) fn new() -> Self {
        let root = Metafile::root();
        let state = State { since: Time::ZERO, version: Stamp(0), is: Some(root) };
        Self { objects: BTreeMap::from([(ROOT, vec![state])]), ..Self::default() }
    }

    pub(super) fn broke(&mut self, promise: &'static str, how: impl FnOnce() -> String) {
        if self.broken.len() < 10 {
            self.broken.push(Broken { promise, how: how() });
        }
    }

    /// Returns every existing object.
    pub(super) fn standing(&self) -> impl Iterator<Item = &Metafile> + '_ {
        self.objects.values().filter_map(|states| states.last()?.is.as_ref())
    }

    pub(super) fn is(&self, object: FileId) -> Option<&Metafile> {
        self.objects.get(&object)?.last()?.is.as_ref()
    }

    /// Returns every object that ever existed, so that clients may use removed ones.
    pub(super) fn ever(&self) -> Vec<FileId> {
        self.objects.keys().copied().collect()
    }

    /// A client requests to remove an object, or to replace it, in one step or not.
    pub(super) fn asked_away(&mut self, object: FileId, in_one_step: bool) {
        self.may_go.insert(object);
        if !in_one_step {
            self.may_leave.insert(object);
        }
    }

    /// A home changed an object on its disk.
    pub(super) fn stored(
        &mut self,
        now: Time,
        object: FileId,
        is: Option<Metafile>,
        asker: Option<Asker>,
        version: Stamp,
    ) {
        if let Some(asker) = asker.filter(|asker| !self.done.insert(*asker)) {
            self.broke("once", || format!("{asker:?} ran again"));
        }
        if is.is_none() && !self.may_go.contains(&object) {
            self.broke("no-file-lost", || format!("{object:?} is gone without a request"));
        }
        if is.is_none() && !self.may_leave.contains(&object) {
            let place = self.is(object).and_then(|was| was.place.clone());
            self.to_be_had.extend(place);
        }
        self.contents.extend(is.iter().map(|metafile| metafile.content));
        if self.replaced.contains(&object) {
            return;
        }
        self.objects.entry(object).or_default().push(State { since: now, version, is });
        self.is_tree();
    }

    /// An object has lost its name to an object that another home stores at this moment.
    pub(super) fn replaced(&mut self, now: Time, object: FileId) {
        let last = self.objects.get(&object).and_then(|states| states.last());
        let version = last.map(|state| state.version).unwrap_or_default();
        self.stored(now, object, None, None, version);
        self.replaced.insert(object);
    }

    /// A moment has ended: each replaced name has its new object.
    pub(super) fn names_stay(&mut self) {
        for place in core::mem::take(&mut self.to_be_had) {
            if !self.standing().any(|metafile| metafile.place.as_ref() == Some(&place)) {
                self.broke("name-stays", || {
                    format!("{place:?} has no object, and its object was only to be replaced")
                });
            }
        }
    }

    /// Checks that each object has an existing directory as its parent, that no two have one place,
    /// and that all paths upwards end at the root.
    fn is_tree(&mut self) {
        let mut broken = Vec::new();
        let mut places: BTreeMap<&Place, FileId> = BTreeMap::new();
        for metafile in self.standing().filter(|metafile| metafile.object != ROOT) {
            let (mut at, mut steps) = (metafile, 0);
            while let (Some(place), true) = (&at.place, steps < 1000) {
                let Some(parent) = self.is(place.directory).filter(|parent| parent.is_directory)
                else {
                    broken.push(("tree", format!("{} has no parent, at {place:?}", at.object.0)));
                    break;
                };
                at = parent;
                steps += 1;
            }
            if steps == 1000 {
                broken.push(("tree", format!("{} is its own ancestor", metafile.object.0)));
            }
            let place = metafile.place.as_ref().expect("only the root has no place");
            if let Some(other) = places.insert(place, metafile.object) {
                let objects = [metafile.object.0, other.0];
                broken.push(("one-name", format!("{objects:?} are at {place:?}")));
            }
        }
        broken.into_iter().for_each(|(promise, how)| self.broke(promise, || how));
    }

    /// A state that was true at the returned time or later may be shown now.
    pub(super) fn oldest(now: Time) -> Time {
        let window = BOUNDS.window + BOUNDS.window * DRIFT_PPM_MAX / 1_000_000;
        let before = now.since(Time::ZERO).saturating_sub(window);
        Time::ZERO + before
    }

    /// A metaserver has shown this state of an object, which must have been true at this time or
    /// later.
    pub(super) fn saw(&mut self, (oldest, now): (Time, Time), peer: u32, seen: &Metafile) {
        let states = self.objects.get(&seen.object).map(Vec::as_slice).unwrap_or_default();
        let at = states.iter().position(|state| state.version == seen.version);
        let until = at.map(|at| states.get(at + 1).map(|next| next.since));
        match until {
            Some(Some(until)) if until < oldest => {
                let age = now.since(until);
                self.broke("bounded-staleness", || {
                    format!("{peer} showed {seen:?}, which is out of date by {age:?}")
                });
            }
            Some(_) => {}
            None => self.broke("bounded-staleness", || format!("{peer} showed {seen:?}, never so")),
        }
        if self.gone.contains(&(peer, seen.object)) {
            self.broke("gone", || format!("{peer} showed {seen:?} after reporting it as gone"));
        }
    }

    /// A metaserver has learned that an object is gone.
    pub(super) fn told_gone(&mut self, peer: u32, object: FileId) {
        self.gone.insert((peer, object));
    }

    /// A metaserver has reported that an object is gone.
    pub(super) fn saw_gone(&mut self, peer: u32, object: FileId) {
        if self.is(object).is_some() {
            self.broke("no-file-lost", || format!("{peer} showed {object:?} as gone"));
        }
        self.gone.insert((peer, object));
    }

    /// A metaserver has reported that no object has a name; this must have been true at some moment
    /// since then.
    pub(super) fn saw_nowhere(&mut self, (oldest, now): (Time, Time), peer: u32, place: &Place) {
        let mut taken: Vec<(Time, Time)> = Vec::new();
        for states in self.objects.values() {
            for (at, state) in states.iter().enumerate() {
                let until = states.get(at + 1).map_or(now, |next| next.since);
                if state.is.as_ref().is_some_and(|is| is.place.as_ref() == Some(place)) {
                    taken.push((state.since, until));
                }
            }
        }
        taken.sort_unstable();
        // A read may take no time at all.
        let (mut covered, mut is_taken) = (oldest, false);
        for (since, until) in taken {
            if since <= covered && until >= covered {
                covered = until;
                is_taken = true;
            }
        }
        if is_taken && covered >= now {
            self.broke("bounded-staleness", || {
                format!("{peer} showed nothing at {place:?}, which had an object all the time")
            });
        }
    }

    /// A metaserver has listed a directory: the listing must have all names that existed throughout
    /// it.
    pub(super) fn listed(
        &mut self,
        (began, now): (Time, Time),
        peer: u32,
        directory: FileId,
        listed: &[Metafile],
    ) {
        let missing = self.objects.iter().find(|(object, states)| {
            let before = states.iter().rposition(|state| state.since <= began);
            let Some(all) = before.map(|at| &states[at..]) else { return false };
            let place = all[0].is.as_ref().and_then(|is| is.place.clone());
            let stays = |state: &State| state.is.as_ref().is_some_and(|is| is.place == place);
            // The listing may have the replaced object instead, if that is not too old.
            place.as_ref().is_some_and(|place| place.directory == directory)
                && all.iter().all(stays)
                && !listed.iter().any(|one| one.object == **object || one.place == place)
        });
        if let Some(missing) = missing.map(|(object, _)| *object) {
            self.broke("no-file-lost", || {
                format!(
                    "{peer} did not list {missing:?} in {directory:?} from {began:?} to {now:?}"
                )
            });
        }
    }

    /// A COMMIT of this data was answered.
    pub(super) fn committed(&mut self, object: FileId, id: u64) {
        if !self.contents.contains(&id) && self.is(object).is_some() {
            self.broke("released", || format!("{id} of {object:?} was committed, and is lost"));
        }
    }
}

/// The longest time of any operation in progress, and a margin.
pub(super) const SETTLE: Duration = Duration::from_secs(12);
