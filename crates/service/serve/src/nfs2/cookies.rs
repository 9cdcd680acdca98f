//! Directory positions in the 4 bytes that version 2 has for them.
//!
//! A store's positions have 64 bits. One that fits 31 bits stays as it is. Any other is told as
//! 31 bits made of it, with the top bit set; what it stands for is remembered for a while, and
//! found again by listing the whole directory once it is forgotten. Of two positions that come to
//! the same 31 bits, one gets the next that are free while both are remembered. Once they are
//! forgotten nobody knows which was meant, and neither is taken for the other: listing goes on at
//! the right place or not at all.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_base::units::Cookie;
use leasehold_fs::{Allowance, Budget, ExportId, FsError, ObjectId, Wanted, ops, others_first};
use leasehold_wire::nfs2;

use crate::context::Target;

const MADE: u32 = 1 << 31;

/// How many positions are remembered: those of some hundred listings under way.
const REMEMBERED_MAX: usize = 64 << 10;

/// How many bytes of entries one step of a search takes: less than a millisecond's work.
const SEARCH_BYTES: u32 = 16 << 10;

/// How many steps a search takes at most: some millions of names.
const SEARCH_STEPS_MAX: u32 = 8192;

/// How many searches run at one time, each in another directory.
const SEARCHES_MAX: usize = 4;

/// The positions that were told in 31 bits.
#[derive(Default)]
pub(crate) struct Cookies(Mutex<Remembered>);

type Key = (ExportId, ObjectId, u32);

#[derive(Default)]
struct Remembered {
    cookies: BTreeMap<Key, Cookie>,
    oldest: VecDeque<Key>,
    /// The directories that are being searched.
    searched: BTreeSet<(ExportId, ObjectId)>,
}

/// The 4 bytes of a position, unless another one has them.
fn narrow(cookie: Cookie) -> u32 {
    match u32::try_from(cookie.0) {
        Ok(small) if small & MADE == 0 => small,
        _ => MADE | mixed(cookie.0),
    }
}

/// 31 bits to which every bit of a position comes (the constant is SplitMix64's).
fn mixed(cookie: u64) -> u32 {
    let [a, b, c, d, ..] = cookie.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    u32::from_be_bytes([a, b, c, d]) >> 1
}

impl Cookies {
    /// The 4 bytes of each position; keeps what they stand for, where they do not say it.
    pub(super) fn tell(
        &self,
        directory: &Target<'_>,
        cookies: impl Iterator<Item = Cookie>,
    ) -> Vec<nfs2::Cookie> {
        let directory = (directory.request.export.id, directory.object);
        let mut remembered = self.lock();
        cookies.map(|cookie| nfs2::Cookie(remembered.keep(directory, cookie))).collect()
    }

    /// The position that 4 bytes stand for.
    ///
    /// # Errors
    /// [`FsError::BadCookie`] when not just one name of the directory has it, [`FsError::Later`] while the
    /// directory, or too many others, are being searched; else those of listing it.
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
        let _searching = searching.ok_or(FsError::Later)?;
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

/// A search that runs.
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
    /// Keeps a position; which 4 bytes stand for it.
    fn keep(&mut self, (export, object): (ExportId, ObjectId), cookie: Cookie) -> u32 {
        let mut narrow = narrow(cookie);
        if narrow & MADE == 0 {
            return narrow;
        }
        loop {
            match self.cookies.get(&(export, object, narrow)) {
                None => break,
                Some(same) if *same == cookie => return narrow,
                // Few of so many are taken.
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
        others_first().await;
    }
    Err(FsError::BadCookie)
}
