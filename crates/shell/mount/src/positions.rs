//! The positions in one opening of a directory, as programs receive them.
//!
//! A cookie of the server may have 64 bits, as the cookies of ext4 have. A 32-bit program has 31
//! bits for a position, and its library rejects a directory with larger positions. Programs
//! therefore receive a small number instead of a large cookie. The number maps to the same cookie
//! as long as the directory is open: POSIX guarantees no more for `telldir` and `seekdir`.

use std::collections::BTreeMap;

/// The first position that is assigned to a cookie. A cookie below this number is used as the
/// position itself.
const OWN: u64 = 1 << 30;

/// The maximum number of cookies with an assigned position for one open directory. Programs receive
/// further cookies unchanged, which only 64-bit programs can use.
const OWN_MAX: usize = 1 << 20;

/// The positions of one open directory.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    cookies: Vec<u64>,
    numbers: BTreeMap<u64, u64>,
}

impl Positions {
    /// Returns the position for a cookie.
    pub(crate) fn of(&mut self, cookie: u64) -> u64 {
        if cookie < OWN {
            return cookie;
        }
        if let Some(number) = self.numbers.get(&cookie) {
            return *number;
        }
        // If all positions are assigned, a cookie is used unchanged only if it is greater than all
        // assigned positions. Otherwise a program could not distinguish it from an assigned
        // position.
        if self.cookies.len() == OWN_MAX && cookie >= OWN + OWN_MAX as u64 {
            return cookie;
        }
        let number = OWN + self.cookies.len() as u64;
        self.cookies.push(cookie);
        self.numbers.insert(cookie, number);
        number
    }

    /// Returns the cookie of a position; `None` if the position was never assigned.
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
    fn large_cookies_have_stable_small_positions() {
        let mut positions = Positions::default();
        let cookies = [1, 7, OWN - 1, OWN, u64::MAX, u64::MAX / 2, 1 << 40];
        let told: Vec<u64> = cookies.iter().map(|cookie| positions.of(*cookie)).collect();
        assert!(told.iter().all(|position| *position < 1 << 31), "{told:?}");
        let again: Vec<u64> = cookies.iter().map(|cookie| positions.of(*cookie)).collect();
        assert_eq!(again, told, "a listing from the beginning has the same positions");
        let meant: Vec<_> = told.iter().map(|position| positions.cookie(*position)).collect();
        assert_eq!(meant, cookies.map(Some));
        assert_eq!(positions.cookie(OWN + 7), None, "the position was never assigned");
    }

    #[test]
    fn positions_use_bounded_memory() {
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
