//! What several processes saw of one thing, and whether there is one order of it all.

use std::collections::BTreeSet;

/// An operation on one thing, by a clock that all who work on it share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// When it was begun.
    pub begin: u64,
    /// When it had ended.
    pub end: u64,
    /// What it was.
    pub what: What,
}

/// What an operation did to what it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It found this.
    Saw(u64),
    /// Whatever there was, it left this.
    Made(u64),
    /// It found the first and left the second.
    Turned(u64, u64),
    /// It found the first, or anything, and left the second; or nothing was done.
    Perhaps(Option<u64>, u64),
}

impl What {
    /// What may be left of a state; nothing if the operation is not possible there.
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

/// A way in which things may have gone so far: what is under way and not yet done, and the state.
type Way = (BTreeSet<usize>, u64);

/// Finds whether there is an order of all operations, each at some time between its begin and its
/// end, in which they do what they did (linearizability).
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

/// All ways to go on in which one operation is done, with whichever others before it.
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
    fn an_order_is_found_where_there_is_one() {
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
    fn what_was_perhaps_done_explains_either() {
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
