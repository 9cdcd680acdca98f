//! The positions in one opening of a directory, as programs receive them.
//!
//! A server's cookie may have 64 bits (cookies of ext4 do). A program of 32 bits has no more than
//! 31 bits for a position, and its library refuses a directory with larger positions. So the
//! program gets a small number of this opening's own for a large cookie. The number means the same
//! cookie for as long as the opening lasts: POSIX promises no more of `telldir` and `seekdir`.

use std::collections::BTreeMap;

/// Cookies below this number are positions themselves; numbers of our own begin here.
const OWN: u64 = 1 << 30;

/// The number of cookies that one opening has numbers for. Further cookies of the server go to the
/// program unchanged; programs of 64 bits can use them.
const OWN_MAX: usize = 1 << 20;

/// The positions of one opening.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    cookies: Vec<u64>,
    numbers: BTreeMap<u64, u64>,
}

impl Positions {
    /// The position that means a cookie.
    pub(crate) fn of(&mut self, cookie: u64) -> u64 {
        if cookie < OWN {
            return cookie;
        }
        if let Some(number) = self.numbers.get(&cookie) {
            return *number;
        }
        // A cookie that looks like a number of this opening must not reach a program.
        if self.cookies.len() == OWN_MAX && cookie >= OWN + OWN_MAX as u64 {
            return cookie;
        }
        let number = OWN + self.cookies.len() as u64;
        self.cookies.push(cookie);
        self.numbers.insert(cookie, number);
        number
    }

    /// The cookie that a position means; none where this opening has given out no such position.
    pub(crate) fn cookie(&self, position: u64) -> Option<u64> {
        match position.checked_sub(OWN).map(usize::try_from) {
            None => Some(position),
            Some(Ok(place)) if place < self.cookies.len() => self.cookies.get(place).copied(),
            Some(_) => (position >= OWN + OWN_MAX as u64).then_some(position),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_cookies_are_told_as_small_positions_that_stay() {
        let mut positions = Positions::default();
        let cookies = [1, 7, OWN - 1, OWN, u64::MAX, u64::MAX / 2, 1 << 40];
        let told: Vec<u64> = cookies.iter().map(|cookie| positions.of(*cookie)).collect();
        assert!(told.iter().all(|position| *position < 1 << 31), "{told:?}");
        let again: Vec<u64> = cookies.iter().map(|cookie| positions.of(*cookie)).collect();
        assert_eq!(again, told, "a listing from the beginning has the same positions");
        let meant: Vec<_> = told.iter().map(|position| positions.cookie(*position)).collect();
        assert_eq!(meant, cookies.map(Some));
        assert_eq!(positions.cookie(OWN + 7), None, "it was told to nobody");
    }

    #[test]
    fn positions_take_a_bounded_room() {
        let mut positions = Positions::default();
        let cookie = |number: usize| u64::MAX - number as u64;
        for number in 0..OWN_MAX + 5 {
            let position = positions.of(cookie(number));
            assert_eq!(positions.cookie(position), Some(cookie(number)));
        }
        assert_eq!(positions.cookies.len(), OWN_MAX);
        let like_a_number = positions.of(OWN + 3);
        assert_eq!(positions.cookie(like_a_number), Some(OWN + 3));
    }
}
