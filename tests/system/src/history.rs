//! Histories of operations by several processes on one value, and the check for a linear order.

use std::collections::BTreeSet;

/// An operation on one value, timed by a clock that all participants share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The time of its start.
    pub begin: u64,
    /// The time of its end.
    pub end: u64,
    /// Its kind.
    pub what: What,
}

/// The effect of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It observed this value.
    Saw(u64),
    /// It stored this value, independent of the old one.
    Made(u64),
    /// It observed the first value and stored the second.
    Turned(u64, u64),
    /// It observed the first value, or any, and stored the second; or it had no effect.
    Perhaps(Option<u64>, u64),
}

impl What {
    /// Returns the possible states after the operation; empty if it is impossible in this state.
    fn applied(self, state: u64) -> impl Iterator<Item = u64> {
        let (one, other) = match self {
            Self::Saw(found) => ((found == state).then_some(state), None),
            Self::Made(left) => (Some(left), None),
            Self::Turned(found, left) => ((found == state).then_some(left), None),
            Self::Perhaps(found, left) => {
                (found.is_none_or(|found| found == state).then_some(left), Some(state))
            }
        };
        one.into_iter().chain(other)
    }
}

/// A possible history so far: the started operations without effect so far, and the state.
type Way = (BTreeSet<usize>, u64);

/// Checks that an order of all operations exists, each at a time between its start and end, that
/// explains their effects (linearizability).
///
/// # Errors
/// The first operation that no order explains.
pub fn explained(history: &[Done], first: u64) -> Result<(), Done> {
    let begins = history.iter().enumerate().map(|(at, done)| (done.begin, false, at));
    let ends = history.iter().enumerate().map(|(at, done)| (done.end, true, at));
    let mut events: Vec<_> = begins.chain(ends).collect();
    events.sort_unstable();
    let mut ways = BTreeSet::from([(BTreeSet::new(), first)]);
    for (_, has_ended, at) in events {
        ways = match has_ended {
            false => ways.into_iter().map(|way: Way| with(way, at)).collect(),
            true => ways.into_iter().flat_map(|way| through(history, way, at)).collect(),
        };
        if ways.is_empty() {
            return Err(history[at]);
        }
    }
    Ok(())
}

fn with((mut open, state): Way, at: usize) -> Way {
    open.insert(at);
    (open, state)
}

/// Returns all continuations in which one operation takes effect, after any others.
fn through(history: &[Done], way: Way, at: usize) -> BTreeSet<Way> {
    let (mut done, mut open) = (BTreeSet::new(), vec![way]);
    while let Some((left, state)) = open.pop() {
        if !left.contains(&at) {
            done.insert((left, state));
            continue;
        }
        for next in &left {
            for state in history[*next].what.applied(state) {
                let mut left = left.clone();
                left.remove(next);
                open.push((left, state));
            }
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(begin: u64, end: u64, what: What) -> Done {
        Done { begin, end, what }
    }

    #[test]
    fn an_existing_order_is_found() {
        let made = done(0, 10, What::Made(1));
        assert_eq!(
            explained(&[made, done(1, 2, What::Saw(1)), done(3, 4, What::Saw(1))], 0),
            Ok(())
        );
        let late = done(11, 12, What::Saw(0));
        assert_eq!(explained(&[made, late], 0), Err(late), "it is old");
        let back = done(3, 4, What::Saw(0));
        assert_eq!(explained(&[made, done(1, 2, What::Saw(1)), back], 0), Err(back));
        let (one, other) = (done(0, 5, What::Turned(0, 1)), done(2, 6, What::Turned(0, 1)));
        assert_eq!(explained(&[one, other], 0), Err(other), "both made it");
        assert_eq!(explained(&[one, other, done(1, 7, What::Turned(1, 0))], 0), Ok(()));
    }

    #[test]
    fn uncertain_operations_explain_both_results() {
        for found in [None, Some(0)] {
            let perhaps = done(0, 5, What::Perhaps(found, 1));
            for seen in [0, 1] {
                assert_eq!(explained(&[perhaps, done(6, 7, What::Saw(seen))], 0), Ok(()));
            }
            let late = done(8, 9, What::Saw(1));
            assert_eq!(explained(&[perhaps, done(6, 7, What::Saw(0)), late], 0), Err(late));
        }
        let other = done(0, 5, What::Perhaps(Some(2), 1));
        let late = done(6, 7, What::Saw(1));
        assert_eq!(explained(&[other, late], 0), Err(late), "it never was 2");
    }
}
