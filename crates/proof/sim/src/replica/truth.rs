//! What is true, and whether what was shown is.

use core::time::Duration;

use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::{FileId, Time};
use leasehold_core::replica::{Place, Stamp};

use crate::Broken;

use super::message::Metafile;
use super::node::{Asker, BOUNDS, ROOT};

/// By how much two clocks may differ, in millionths of the time that has run.
pub(super) const DRIFT_PPM_MAX: u32 = 2_000;

/// A state of an object, from when on.
#[derive(Clone, Debug)]
struct State {
    since: Time,
    version: Stamp,
    /// None when it is gone.
    is: Option<Metafile>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    pub(super) broken: Vec<Broken>,
    objects: BTreeMap<FileId, Vec<State>>,
    done: BTreeSet<Asker>,
    contents: BTreeSet<u64>,
    /// What a client asked to be removed, or to be replaced.
    may_go: BTreeSet<FileId>,
    /// Those of them whose name may be nobody's when they are gone.
    may_leave: BTreeSet<FileId>,
    /// What has lost its name to what has another home, which its own home may not have stored yet.
    replaced: BTreeSet<FileId>,
    /// Names of what is gone in this moment, which somebody is to have at its end.
    to_be_had: Vec<Place>,
    /// What a metaserver has shown as gone, or was told.
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

    /// Every object that is there.
    pub(super) fn standing(&self) -> impl Iterator<Item = &Metafile> + '_ {
        self.objects.values().filter_map(|states| states.last()?.is.as_ref())
    }

    pub(super) fn is(&self, object: FileId) -> Option<&Metafile> {
        self.objects.get(&object)?.last()?.is.as_ref()
    }

    /// Every object that there ever was, so that clients may use what is gone.
    pub(super) fn ever(&self) -> Vec<FileId> {
        self.objects.keys().copied().collect()
    }

    /// A client asks that an object be removed, or that another take its place, in one step or not.
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
            self.broke("once", || format!("{asker:?} was done again"));
        }
        if is.is_none() && !self.may_go.contains(&object) {
            self.broke("no-file-lost", || format!("{object:?} is gone, which nobody asked for"));
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

    /// An object has lost its name to one that is stored in this moment by another home.
    pub(super) fn replaced(&mut self, now: Time, object: FileId) {
        let last = self.objects.get(&object).and_then(|states| states.last());
        let version = last.map(|state| state.version).unwrap_or_default();
        self.stored(now, object, None, None, version);
        self.replaced.insert(object);
    }

    /// A moment has ended: what took the place of another has its name.
    pub(super) fn names_stay(&mut self) {
        for place in core::mem::take(&mut self.to_be_had) {
            if !self.standing().any(|metafile| metafile.place.as_ref() == Some(&place)) {
                self.broke("name-stays", || {
                    format!("{place:?} is nobody's, of what was only to be replaced")
                });
            }
        }
    }

    /// Each object has a parent that is a directory and there, no two have one place, and all ways
    /// up end at the root.
    fn is_tree(&mut self) {
        let mut broken = Vec::new();
        let mut places: BTreeMap<&Place, FileId> = BTreeMap::new();
        for metafile in self.standing().filter(|metafile| metafile.object != ROOT) {
            let (mut at, mut steps) = (metafile, 0);
            while let (Some(place), true) = (&at.place, steps < 1000) {
                let Some(parent) = self.is(place.directory).filter(|parent| parent.is_directory)
                else {
                    broken.push(("tree", format!("{} is in nothing, at {place:?}", at.object.0)));
                    break;
                };
                at = parent;
                steps += 1;
            }
            if steps == 1000 {
                broken.push(("tree", format!("{} is above itself", metafile.object.0)));
            }
            let place = metafile.place.as_ref().expect("only the root has none");
            if let Some(other) = places.insert(place, metafile.object) {
                let objects = [metafile.object.0, other.0];
                broken.push(("one-name", format!("{objects:?} are at {place:?}")));
            }
        }
        broken.into_iter().for_each(|(promise, how)| self.broke(promise, || how));
    }

    /// What was true at this time or later may be shown now.
    pub(super) fn oldest(now: Time) -> Time {
        let window = BOUNDS.window + BOUNDS.window * DRIFT_PPM_MAX / 1_000_000;
        let before = now.since(Time::ZERO).saturating_sub(window);
        Time::ZERO + before
    }

    /// A metaserver has shown an object so, which must have been true at this time or later.
    pub(super) fn saw(&mut self, (oldest, now): (Time, Time), peer: u32, seen: &Metafile) {
        let states = self.objects.get(&seen.object).map(Vec::as_slice).unwrap_or_default();
        let at = states.iter().position(|state| state.version == seen.version);
        let until = at.map(|at| states.get(at + 1).map(|next| next.since));
        match until {
            Some(Some(until)) if until < oldest => {
                let age = now.since(until);
                self.broke("bounded-staleness", || {
                    format!("{peer} showed {seen:?}, which is not so for {age:?}")
                });
            }
            Some(_) => {}
            None => self.broke("bounded-staleness", || format!("{peer} showed {seen:?}, never so")),
        }
        if self.gone.contains(&(peer, seen.object)) {
            self.broke("gone", || format!("{peer} showed {seen:?} after it was gone there"));
        }
    }

    /// A metaserver was told that an object is gone.
    pub(super) fn told_gone(&mut self, peer: u32, object: FileId) {
        self.gone.insert((peer, object));
    }

    /// A metaserver has said that an object is gone.
    pub(super) fn saw_gone(&mut self, peer: u32, object: FileId) {
        if self.is(object).is_some() {
            self.broke("no-file-lost", || format!("{peer} showed {object:?} as gone"));
        }
        self.gone.insert((peer, object));
    }

    /// A metaserver has said that nobody has a name; there was a moment from then on when that was
    /// so.
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
        // A look may take no time at all.
        let (mut covered, mut is_taken) = (oldest, false);
        for (since, until) in taken {
            if since <= covered && until >= covered {
                covered = until;
                is_taken = true;
            }
        }
        if is_taken && covered >= now {
            self.broke("bounded-staleness", || {
                format!("{peer} showed nothing at {place:?}, where something was all the time")
            });
        }
    }

    /// A metaserver has listed a directory: all names of what stood in it meanwhile are there.
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
            // What it has replaced may be listed for it, if that is not too old.
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

    /// A COMMIT of this was answered.
    pub(super) fn committed(&mut self, object: FileId, id: u64) {
        if !self.contents.contains(&id) && self.is(object).is_some() {
            self.broke("released", || format!("{id} of {object:?} was committed, and is nowhere"));
        }
    }
}

/// How long anything takes at most that is under way, and then some.
pub(super) const SETTLE: Duration = Duration::from_secs(12);
