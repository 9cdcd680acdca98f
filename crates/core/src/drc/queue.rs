//! The order in which replies are evicted.

use core::net::IpAddr;
use std::collections::BTreeMap;

use leasehold_base::units::Time;

use super::Harm;
use super::calls::Place;

/// Cached replies by the index of their call, oldest first: one list over all clients, and for each
/// client one list for each kind of harm.
///
/// The lists are linked and not sorted, because a reply is nearly always appended at the end: the
/// cost of an insertion and of a removal does not depend on the length.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    /// For each index, the time at which the reply was last sent.
    since: Vec<Time>,
    /// The links of the list of all replies, by index.
    in_all: Vec<Links>,
    /// The links of the lists of the clients, by index: a reply is in one of these lists.
    in_own: Vec<Links>,
    all: List,
    of_client: BTreeMap<IpAddr, Own>,
}

/// The neighbours of a reply in a list, as indexes.
#[derive(Clone, Copy, Debug, Default)]
struct Links {
    before: Option<Place>,
    after: Option<Place>,
}

#[derive(Clone, Copy, Debug, Default)]
struct List {
    first: Option<Place>,
    last: Option<Place>,
    count: usize,
}

/// The replies of one client, by harm.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    late: List,
    always: List,
}

impl Own {
    const fn count(&self) -> usize {
        self.late.count + self.always.count
    }

    const fn of(&mut self, harm: Harm) -> &mut List {
        match harm {
            Harm::Late => &mut self.late,
            Harm::Always => &mut self.always,
        }
    }
}

impl List {
    const fn new() -> Self {
        Self { first: None, last: None, count: 0 }
    }

    /// Inserts a reply after all replies that are as old or older.
    fn insert(&mut self, links: &mut [Links], since: &[Time], place: Place) {
        let (mut before, mut after) = (self.last, None);
        while let Some(other) = before.filter(|other| since[at(*other)] > since[at(place)]) {
            (before, after) = (links[at(other)].before, Some(other));
        }
        links[at(place)] = Links { before, after };
        *before.map_or(&mut self.first, |before| &mut links[at(before)].after) = Some(place);
        *after.map_or(&mut self.last, |after| &mut links[at(after)].before) = Some(place);
        self.count += 1;
    }

    fn remove(&mut self, links: &mut [Links], place: Place) {
        let Links { before, after } = links[at(place)];
        *before.map_or(&mut self.first, |before| &mut links[at(before)].after) = after;
        *after.map_or(&mut self.last, |after| &mut links[at(after)].before) = before;
        self.count -= 1;
    }

    /// Checks the order, and returns the indexes in this order.
    fn check(&self, links: &[Links], since: &[Time]) -> Vec<Place> {
        let after = |place: &Place| links[at(*place)].after;
        let places: Vec<Place> = core::iter::successors(self.first, after).collect();
        assert_eq!((places.last().copied(), places.len()), (self.last, self.count));
        for pair in places.windows(2) {
            assert_eq!(links[at(pair[1])].before, Some(pair[0]), "links lead both ways");
            assert!(since[at(pair[0])] <= since[at(pair[1])], "the oldest is first");
        }
        places
    }
}

const fn at(place: Place) -> usize {
    place as usize
}

impl Queue {
    pub(super) const fn new() -> Self {
        Self {
            since: Vec::new(),
            in_all: Vec::new(),
            in_own: Vec::new(),
            all: List::new(),
            of_client: BTreeMap::new(),
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.all.count
    }

    /// Returns the oldest reply, and the time at which it was last sent.
    pub(super) fn oldest(&self) -> Option<(Place, Time)> {
        self.all.first.map(|place| (place, self.since[at(place)]))
    }

    /// Returns the time at which a reply was last sent; the reply must exist.
    pub(super) fn since(&self, place: Place) -> Time {
        self.since[at(place)]
    }

    /// Returns the reply that rule 8 evicts: of the client with the most replies, the oldest reply
    /// to a call that does harm only late or, without such a reply, the oldest reply. The search
    /// examines every client: there are few clients, and a ranking at each call would cost more.
    pub(super) fn most_dispensable(&self) -> Option<Place> {
        let own = self.of_client.values().max_by_key(|own| own.count())?;
        own.late.first.or(own.always.first)
    }

    /// Inserts the reply to the call at the index `place`.
    pub(super) fn push(&mut self, since: Time, place: Place, client: IpAddr, harm: Harm) {
        if self.since.len() <= at(place) {
            let count = at(place) + 1;
            self.since.resize(count, Time::ZERO);
            self.in_all.resize(count, Links::default());
            self.in_own.resize(count, Links::default());
        }
        self.since[at(place)] = since;
        self.all.insert(&mut self.in_all, &self.since, place);
        let own = self.of_client.entry(client).or_default();
        own.of(harm).insert(&mut self.in_own, &self.since, place);
    }

    /// Removes a reply, which must exist and belong to this client.
    pub(super) fn remove(&mut self, place: Place, client: IpAddr, harm: Harm) {
        self.all.remove(&mut self.in_all, place);
        let own = self.of_client.get_mut(&client).expect("a kept reply has a client");
        own.of(harm).remove(&mut self.in_own, place);
        if own.count() == 0 {
            self.of_client.remove(&client);
        }
    }

    /// Checks that the lists agree; `whose` returns the client and the harm of the call at an
    /// index.
    pub(super) fn check(&self, whose: impl Fn(Place) -> (IpAddr, Harm)) {
        let all = self.all.check(&self.in_all, &self.since);
        let mut count = 0;
        for (client, own) in &self.of_client {
            assert!(own.count() > 0, "clients have replies");
            for (harm, list) in [(Harm::Late, own.late), (Harm::Always, own.always)] {
                let places = list.check(&self.in_own, &self.since);
                assert!(places.iter().all(|place| whose(*place) == (*client, harm)));
                count += places.len();
            }
        }
        assert_eq!(count, all.len(), "each reply is in its client's lists");
    }
}
