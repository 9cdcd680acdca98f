//! The known calls. Each call has a fixed index in a list, and a hash of its identity finds it.

use std::collections::BTreeMap;

use super::{Entry, Key};

/// The index of a known call in the list of calls. The index does not change while the call is
/// known.
pub(super) type Place = u32;

/// The known calls: the running calls and the finished calls with a cached reply.
///
/// A small hash finds a call, so that a lookup is cheap; calls with an equal hash form a list.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    /// The calls by index; `None` at a free index.
    places: Vec<Option<Held>>,
    /// The free indexes.
    free: Vec<Place>,
    /// The index of the first call of each digest.
    first: BTreeMap<u64, Place>,
}

/// A known call, as an element of a linked list.
#[derive(Clone, Debug)]
struct Held {
    entry: Entry,
    /// The index of the next call with the same digest: the calls of one digest form a linked list.
    next: Option<Place>,
}

const KNOWN: &str = "a place belongs to a known call";

impl Calls {
    pub(super) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new(), first: BTreeMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(super) fn get(&self, place: Place) -> &Entry {
        &self.held(place).entry
    }

    pub(super) fn get_mut(&mut self, place: Place) -> &mut Entry {
        &mut self.places[place as usize].as_mut().expect(KNOWN).entry
    }

    fn held(&self, place: Place) -> &Held {
        self.places[place as usize].as_ref().expect(KNOWN)
    }

    /// Lists the calls with this identity from any port of their client.
    pub(super) fn alike(&self, wanted: Key) -> impl Iterator<Item = (Place, &Entry)> {
        let next = |place: &Place| self.held(*place).next;
        let places = core::iter::successors(self.first.get(&wanted.digest).copied(), next);
        let entries = places.map(|place| (place, self.get(place)));
        entries.filter(move |(_, entry)| {
            (entry.key.client, entry.key.call) == (wanted.client, wanted.call)
        })
    }

    pub(super) fn insert(&mut self, entry: Entry) -> Place {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            Place::try_from(self.places.len() - 1).expect("limits are far below 2^32 calls")
        });
        let next = self.first.insert(entry.key.digest, place);
        self.places[place as usize] = Some(Held { entry, next });
        place
    }

    /// Removes a known call.
    pub(super) fn remove(&mut self, place: Place) -> Entry {
        let Held { entry, next } = self.places[place as usize].take().expect(KNOWN);
        self.free.push(place);
        let digest = entry.key.digest;
        let first = self.first.get_mut(&digest).expect("the digest of a known call has an entry");
        if *first != place {
            let mut before = *first;
            while let Some(other) = self.held(before).next.filter(|other| *other != place) {
                before = other;
            }
            self.places[before as usize].as_mut().expect(KNOWN).next = next;
        } else if let Some(next) = next {
            *first = next;
        } else {
            self.first.remove(&digest);
        }
        entry
    }

    /// Lists all calls in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Place, &Entry)> {
        let places = (0..).zip(&self.places);
        places.filter_map(|(place, held)| Some((place, &held.as_ref()?.entry)))
    }

    /// Checks that each call is found once.
    pub(super) fn check(&self) {
        for (place, entry) in self.iter() {
            let alike = self.alike(entry.key).filter(|(_, other)| other.key == entry.key);
            assert!(alike.map(|(place, _)| place).eq([place]), "each call is found once");
        }
        assert!(self.first.len() <= self.len(), "each digest belongs to a call");
    }
}
