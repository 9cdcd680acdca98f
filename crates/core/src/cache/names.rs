//! The names in directories and the objects that they lead to, including absent names.

use std::collections::{BTreeMap, BTreeSet};

use super::ObjectKey;

/// The source of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The name was requested, or created here.
    Asked,
    /// A listing contained the name.
    Listed,
}

/// The object that a name leads to: `None` if the name is known to be absent.
type Target = Option<ObjectKey>;

/// A cached name.
#[derive(Clone, Debug)]
struct Named {
    target: Target,
    source: Source,
    /// The counter of the last use: the name with the lowest counter is evicted first.
    turn: u64,
}

/// A name in a directory: the directory and the bytes of the name.
type Place = (ObjectKey, Box<[u8]>);

/// All names, with a bound: the least recently used name is evicted first. Names that came in
/// listings and were never requested get a quarter of the bound, so that the listing of one large
/// directory does not evict the names of others.
#[derive(Clone, Debug)]
pub(super) struct Names {
    max: usize,
    directories: BTreeMap<ObjectKey, BTreeMap<Box<[u8]>, Named>>,
    /// The names that were requested or created here, by the counter of their last use.
    asked: BTreeMap<u64, Place>,
    /// The names that only listings contained, by the counter of their insertion.
    listed: BTreeMap<u64, Place>,
    /// The names that lead to an object.
    leading: BTreeMap<ObjectKey, BTreeSet<Place>>,
    /// The directories of which all names are known.
    whole: BTreeSet<ObjectKey>,
    /// The counter of uses, which orders the names by their last use.
    turn: u64,
}

/// The maximum length of a name that the cache may report as absent without a request to the
/// server. The server must check a longer name, because it may refuse the name: of the file systems
/// in use, the strictest allows 143 bytes.
const SURE_BYTES_MAX: usize = 128;

impl Names {
    pub(super) const fn new(max: usize) -> Self {
        Self {
            max,
            directories: BTreeMap::new(),
            asked: BTreeMap::new(),
            listed: BTreeMap::new(),
            leading: BTreeMap::new(),
            whole: BTreeSet::new(),
            turn: 0,
        }
    }

    /// Returns the object that a name leads to, if it is known.
    pub(super) fn find(&mut self, directory: ObjectKey, name: &[u8]) -> Option<Target> {
        let named = self.directories.get(&directory).and_then(|names| names.get(name));
        let Some(named) = named else {
            // Rule 3: a directory that was created here contains only the known names.
            let is_whole = name.len() <= SURE_BYTES_MAX && self.whole.contains(&directory);
            return is_whole.then_some(None);
        };
        let target = named.target;
        self.remove(directory, name);
        self.put(directory, name, target, Source::Asked);
        Some(target)
    }

    /// Caches a name. Objects that no name leads to any more are added to `idle`.
    pub(super) fn insert(
        &mut self,
        place: (ObjectKey, &[u8]),
        target: Target,
        source: Source,
        idle: &mut Vec<ObjectKey>,
    ) {
        let (directory, name) = place;
        let known = self.directories.get(&directory).and_then(|names| names.get(name));
        // A listing does not count as a use of a name, so a name that was requested before keeps
        // its source.
        let source = known.map_or(source, |known| match known.source {
            Source::Asked => Source::Asked,
            Source::Listed => source,
        });
        let before = self.remove(directory, name).flatten();
        self.put(directory, name, target, source);
        self.note_idle(before, idle);
        // Rule 3: the number of names is bounded, and names from listings get a quarter of the
        // bound.
        while self.listed.len() > self.max / 4 {
            self.evict(Source::Listed, idle);
        }
        while self.asked.len() + self.listed.len() > self.max {
            self.evict(Source::Asked, idle);
        }
    }

    /// Records that all names in a directory are known.
    pub(super) fn complete(&mut self, directory: ObjectKey) {
        self.whole.insert(directory);
    }

    /// Forgets a name.
    pub(super) fn forget(&mut self, directory: ObjectKey, name: &[u8], idle: &mut Vec<ObjectKey>) {
        self.whole.remove(&directory);
        let before = self.remove(directory, name).flatten();
        self.note_idle(before, idle);
    }

    /// Forgets all names in a directory.
    pub(super) fn forget_all(&mut self, directory: ObjectKey, idle: &mut Vec<ObjectKey>) {
        self.whole.remove(&directory);
        while let Some((name, _)) =
            self.directories.get(&directory).and_then(BTreeMap::first_key_value)
        {
            let name = name.clone();
            self.forget(directory, &name, idle);
        }
    }

    /// Forgets the names that lead to an object.
    pub(super) fn forget_leading(&mut self, object: ObjectKey) {
        while let Some((directory, name)) = self.leading.get(&object).and_then(BTreeSet::first) {
            let (directory, name) = (*directory, name.clone());
            self.whole.remove(&directory);
            self.remove(directory, &name);
        }
    }

    /// Returns true if a name leads to an object.
    pub(super) fn lead_to(&self, object: ObjectKey) -> bool {
        self.leading.contains_key(&object)
    }

    /// Returns the number of names.
    pub(super) fn len(&self) -> usize {
        self.asked.len() + self.listed.len()
    }

    fn note_idle(&self, before: Target, idle: &mut Vec<ObjectKey>) {
        idle.extend(before.filter(|object| !self.lead_to(*object)));
    }

    fn evict(&mut self, source: Source, idle: &mut Vec<ObjectKey>) {
        let first = match source {
            Source::Asked => self.asked.first_key_value().or(self.listed.first_key_value()),
            Source::Listed => self.listed.first_key_value(),
        };
        let Some((_, (directory, name))) = first else { return };
        let (directory, name) = (*directory, name.clone());
        self.forget(directory, &name, idle);
    }

    fn put(&mut self, directory: ObjectKey, name: &[u8], target: Target, source: Source) {
        self.turn += 1;
        let turn = self.turn;
        let place: Place = (directory, name.into());
        if let Some(object) = target {
            self.leading.entry(object).or_default().insert(place.clone());
        }
        match source {
            Source::Asked => self.asked.insert(turn, place),
            Source::Listed => self.listed.insert(turn, place),
        };
        let names = self.directories.entry(directory).or_default();
        names.insert(name.into(), Named { target, source, turn });
    }

    fn remove(&mut self, directory: ObjectKey, name: &[u8]) -> Option<Target> {
        let names = self.directories.get_mut(&directory)?;
        let (name, named) = names.remove_entry(name)?;
        if names.is_empty() {
            self.directories.remove(&directory);
        }
        match named.source {
            Source::Asked => self.asked.remove(&named.turn),
            Source::Listed => self.listed.remove(&named.turn),
        };
        if let Some(object) = named.target {
            let places = self.leading.get_mut(&object).expect("a name is noted at its object");
            places.remove(&(directory, name));
            if places.is_empty() {
                self.leading.remove(&object);
            }
        }
        Some(named.target)
    }

    /// Audits the whole state.
    pub(super) fn check(&self) {
        assert!(self.len() <= self.max, "names are bounded");
        let named: usize = self.directories.values().map(BTreeMap::len).sum();
        assert_eq!(named, self.len(), "each name has a turn");
        for (directory, names) in &self.directories {
            for (name, named) in names {
                let place = (*directory, name.clone());
                let turns = match named.source {
                    Source::Asked => &self.asked,
                    Source::Listed => &self.listed,
                };
                assert_eq!(turns.get(&named.turn), Some(&place));
                let noted =
                    |object| self.leading.get(&object).is_some_and(|all| all.contains(&place));
                assert!(named.target.is_none_or(noted));
            }
        }
        let leading: usize = self.leading.values().map(BTreeSet::len).sum();
        let present = self.directories.values().flat_map(BTreeMap::values);
        assert_eq!(present.filter(|named| named.target.is_some()).count(), leading);
    }
}
