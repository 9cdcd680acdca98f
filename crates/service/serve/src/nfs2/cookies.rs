//! Directory cookies in the 4 bytes of version 2.
//!
//! Cookies of stores have 64 bits. A cookie that fits in 31 bits stays unchanged. Any other cookie
//! becomes a 31-bit hash with the top bit set. The server remembers the original cookie of a hash
//! for a while; later it finds the original cookie by a search of the whole directory. If two
//! cookies have the same hash, the second cookie gets the next free value while the server
//! remembers both cookies. After that the server cannot distinguish the two cookies, and refuses
//! both. A listing therefore continues at the correct position or fails.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_base::units::Cookie;
use leasehold_fs::{Allowance, Budget, ExportId, FsError, ObjectId, Wanted, ops, yield_now};
use leasehold_wire::nfs2;

use crate::context::Target;

const MADE: u32 = 1 << 31;

/// The maximum number of remembered cookies: enough for some hundred concurrent listings.
const REMEMBERED_MAX: usize = 64 << 10;

/// The number of bytes of entries in one step of a search: less than a millisecond of work.
const SEARCH_BYTES: u32 = 16 << 10;

/// The maximum number of steps of a search, which visit some millions of names.
const SEARCH_STEPS_MAX: u32 = 8192;

/// The maximum number of concurrent searches, each in its own directory.
const SEARCHES_MAX: usize = 4;

/// The cookies that the server sent as hashes.
#[derive(Default)]
pub(crate) struct Cookies(Mutex<Remembered>);

type Key = (ExportId, ObjectId, u32);

#[derive(Default)]
struct Remembered {
    cookies: BTreeMap<Key, Cookie>,
    oldest: VecDeque<Key>,
    /// The directories with a running search.
    searched: BTreeSet<(ExportId, ObjectId)>,
}

/// Returns the 4 bytes of a cookie, without regard to collisions.
fn narrow(cookie: Cookie) -> u32 {
    match u32::try_from(cookie.0) {
        Ok(small) if small & MADE == 0 => small,
        _ => MADE | mixed(cookie.0),
    }
}

/// Returns a hash of 31 bits that depends on every bit of a cookie (the constant is from
/// SplitMix64).
fn mixed(cookie: u64) -> u32 {
    let [a, b, c, d, ..] = cookie.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    u32::from_be_bytes([a, b, c, d]) >> 1
}

impl Cookies {
    /// Returns the 4 bytes of each cookie, and remembers the originals of hashes.
    pub(super) fn tell(
        &self,
        directory: &Target<'_>,
        cookies: impl Iterator<Item = Cookie>,
    ) -> Vec<nfs2::Cookie> {
        let directory = (directory.request.export.id, directory.object);
        let mut remembered = self.lock();
        cookies.map(|cookie| nfs2::Cookie(remembered.keep(directory, cookie))).collect()
    }

    /// Returns the original cookie of a cookie of 4 bytes.
    ///
    /// # Errors
    /// [`FsError::BadCookie`] if no name of the directory has this cookie, or if several names have
    /// it; [`FsError::Delay`] while another call searches the directory, or while other calls
    /// search too many directories; and the errors of a listing.
    pub(super) async fn widen(
        &self,
        directory: &Target<'_>,
        nfs2::Cookie(narrow): nfs2::Cookie,
    ) -> Result<Cookie, FsError> {
        if narrow & MADE == 0 {
            return Ok(Cookie(narrow.into()));
        }
        let key = (directory.request.export.id, directory.object, narrow);
        let known = self.lock().cookies.get(&key).copied();
        if let Some(cookie) = known {
            return Ok(cookie);
        }
        let searching = self.begin_search((directory.request.export.id, directory.object));
        let _searching = searching.ok_or(FsError::Delay)?;
        search(directory, narrow).await
    }

    fn begin_search(&self, directory: (ExportId, ObjectId)) -> Option<Searching<'_>> {
        let mut remembered = self.lock();
        let may = remembered.searched.len() < SEARCHES_MAX && remembered.searched.insert(directory);
        may.then(|| Searching { cookies: self, directory })
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running search.
struct Searching<'a> {
    cookies: &'a Cookies,
    directory: (ExportId, ObjectId),
}

impl Drop for Searching<'_> {
    fn drop(&mut self) {
        self.cookies.lock().searched.remove(&self.directory);
    }
}

impl Remembered {
    /// Remembers a cookie, and returns its 4 bytes.
    fn keep(&mut self, (export, object): (ExportId, ObjectId), cookie: Cookie) -> u32 {
        let mut narrow = narrow(cookie);
        if narrow & MADE == 0 {
            return narrow;
        }
        loop {
            match self.cookies.get(&(export, object, narrow)) {
                None => break,
                Some(same) if *same == cookie => return narrow,
                // Another cookie has this value. The table is sparse, so one of the next values is
                // free.
                Some(_) => narrow = MADE | narrow.wrapping_add(1),
            }
        }
        let key = (export, object, narrow);
        self.cookies.insert(key, cookie);
        self.oldest.push_back(key);
        if self.oldest.len() > REMEMBERED_MAX
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.cookies.remove(&oldest);
        }
        narrow
    }
}

async fn search(directory: &Target<'_>, wanted: u32) -> Result<Cookie, FsError> {
    let reply = Allowance { bytes: SEARCH_BYTES, entry_bytes: 16 };
    let budget = Budget { reply, names: Allowance::UNLIMITED };
    let (mut cookie, mut found) = (Cookie::default(), None);
    for _ in 0..SEARCH_STEPS_MAX {
        let object = &directory.object;
        let page = ops::readdir(&directory.request, object, cookie, budget, Wanted::Names)
            .await
            .map_err(|failed| failed.error)?;
        for entry in page.entries.iter() {
            if narrow(entry.cookie) == wanted && found.replace(entry.cookie).is_some() {
                return Err(FsError::BadCookie);
            }
            cookie = entry.cookie;
        }
        if page.end || page.entries.is_empty() {
            return found.ok_or(FsError::BadCookie);
        }
        yield_now().await;
    }
    Err(FsError::BadCookie)
}
