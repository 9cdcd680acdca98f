//! The number of connections for each client address.

use core::net::IpAddr;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of connections for each address in each loop.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounts(Mutex<BTreeMap<IpAddr, BTreeMap<usize, usize>>>);

impl ConnectionCounts {
    pub(crate) fn add(&self, address: IpAddr, at: usize) {
        *self.counts().entry(address).or_default().entry(at).or_default() += 1;
    }

    pub(crate) fn remove(&self, address: IpAddr, at: usize) {
        let mut counts = self.counts();
        let Some(loops) = counts.get_mut(&address) else { return };
        if let Some(count) = loops.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                loops.remove(&at);
            }
        }
        if loops.is_empty() {
            counts.remove(&address);
        }
    }

    /// Returns the number of connections of an address.
    pub(crate) fn of(&self, address: IpAddr) -> usize {
        self.counts().get(&address).map_or(0, |loops| loops.values().sum())
    }

    /// Returns the address with the most connections, and the loop that has most of these
    /// connections. Returns `None` unless that address has at least two connections more than
    /// `address`.
    pub(crate) fn ahead_of(&self, address: IpAddr) -> Option<(IpAddr, usize)> {
        let counts = self.counts();
        let sum = |loops: &BTreeMap<usize, usize>| loops.values().sum::<usize>();
        let own = counts.get(&address).map_or(0, sum);
        let (most, loops) = counts.iter().max_by_key(|(_, loops)| sum(loops))?;
        let (at, _) = loops.iter().max_by_key(|(_, count)| **count)?;
        (sum(loops) > own + 1).then_some((*most, *at))
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<IpAddr, BTreeMap<usize, usize>>> {
        // The poison of the mutex is ignored, because no code panics between two dependent changes
        // of the counts.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_with_most_connections_yields() {
        let census = ConnectionCounts::default();
        let [a, b] = [1, 2].map(|last| IpAddr::from([127, 0, 0, last]));
        assert_eq!(census.ahead_of(a), None);
        [0, 1, 1].into_iter().for_each(|at| census.add(a, at));
        assert_eq!((census.ahead_of(a), census.ahead_of(b)), (None, Some((a, 1))));
        census.add(b, 0);
        assert_eq!(census.ahead_of(b), Some((a, 1)));
        census.remove(a, 1);
        assert_eq!(census.ahead_of(b), None, "it would have as many");
        [0, 1].into_iter().for_each(|at| census.remove(a, at));
        census.remove(b, 0);
        assert!(census.counts().is_empty());
    }
}
