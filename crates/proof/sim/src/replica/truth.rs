//! The true state (the oracle), and the checks of the states that metaservers show against it.

use core::time::Duration;

use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::{FileId, Time};
use leasehold_core::replica::{Place, Stamp};

use crate::Broken;

use super::message::Metafile;
use super::node::{Asker, BOUNDS, ROOT};

/// The maximum difference between two clocks, in millionths of the elapsed time.
pub(super) const DRIFT_PPM_MAX: u32 = 2_000;

/// A state of an object, with the time at which it began.
#[derive(Clone, Debug)]
struct State {
    since: Time,
    version: Stamp,
    /// The metafile; `None` after the object was removed.
    is: Option<Metafile>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    pub(super) broken: Vec<Broken>,
    objects: BTreeMap<FileId, Vec<State>>,
    done: BTreeSet<Asker>,
    contents: BTreeSet<u64>,
    /// The objects whose removal or replacement a client has requested.
    may_go: BTreeSet<FileId>,
    /// The objects of `may_go` after whose removal the name may be free for some time.
    may_leave: BTreeSet<FileId>,
    /// The objects that have lost their name to an object of another home. Their own home may not
    /// have stored this yet.
    replaced: BTreeSet<FileId>,
    /// The names of objects that are removed in the current step. At the end of the step each name
    /// must have a new object.
    to_be_had: Vec<Place>,
    /// The objects that a metaserver has reported as removed, or has learned to be removed, with
    /// the number of the metaserver.
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

    /// Returns every object that ever existed, so that clients may also use removed objects.
    pub(super) fn ever(&self) -> Vec<FileId> {
        self.objects.keys().copied().collect()
    }

    /// Records that a client requests to remove or replace an object. `in_one_step` is true for a
    /// replacement in one step, after which the name must have another object.
    pub(super) fn asked_away(&mut self, object: FileId, in_one_step: bool) {
        self.may_go.insert(object);
        if !in_one_step {
            self.may_leave.insert(object);
        }
    }

    /// Records and checks a change of an object on its home's disk.
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

    /// Records that an object has lost its name to an object that another home stores in the same
    /// step.
    pub(super) fn replaced(&mut self, now: Time, object: FileId) {
        let last = self.objects.get(&object).and_then(|states| states.last());
        let version = last.map(|state| state.version).unwrap_or_default();
        self.stored(now, object, None, None, version);
        self.replaced.insert(object);
    }

    /// Checks at the end of a step that each replaced name has its new object.
    pub(super) fn names_stay(&mut self) {
        for place in core::mem::take(&mut self.to_be_had) {
            if !self.standing().any(|metafile| metafile.place.as_ref() == Some(&place)) {
                self.broke("name-stays", || {
                    format!("{place:?} has no object, and its object was only to be replaced")
                });
            }
        }
    }

    /// Checks that the parent of each object is an existing directory, that no two objects have the
    /// same name, and that each path upwards ends at the root.
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

    /// Returns the oldest time whose state a metaserver may show now.
    pub(super) fn oldest(now: Time) -> Time {
        let window = BOUNDS.window + BOUNDS.window * DRIFT_PPM_MAX / 1_000_000;
        let before = now.since(Time::ZERO).saturating_sub(window);
        Time::ZERO + before
    }

    /// Checks a state of an object that a metaserver has shown. It must have been true at `oldest`
    /// or later.
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

    /// Records that a metaserver has learned that an object was removed.
    pub(super) fn told_gone(&mut self, peer: u32, object: FileId) {
        self.gone.insert((peer, object));
    }

    /// Checks and records that a metaserver has reported an object as removed.
    pub(super) fn saw_gone(&mut self, peer: u32, object: FileId) {
        if self.is(object).is_some() {
            self.broke("no-file-lost", || format!("{peer} showed {object:?} as gone"));
        }
        self.gone.insert((peer, object));
    }

    /// Checks a metaserver's report that no object has a name. This must have been true at some
    /// moment since `oldest`.
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
        // The interval of an operation may have no length, so compare also with equality.
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

    /// Checks a listing of a directory: it must contain all names that existed during the whole
    /// listing.
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
            // If an object was replaced, the listing may contain the replaced object in its place.
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

    /// Checks data whose COMMIT was acknowledged: it must be stored at the home.
    pub(super) fn committed(&mut self, object: FileId, id: u64) {
        if !self.contents.contains(&id) && self.is(object).is_some() {
            self.broke("released", || format!("{id} of {object:?} was committed, and is lost"));
        }
    }
}

/// The maximum time of any operation in progress, with a margin.
pub(super) const SETTLE: Duration = Duration::from_secs(12);
