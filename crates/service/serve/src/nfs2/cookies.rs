//! Directory positions in the 4 bytes that version 2 has for them.
//!
//! A store's positions have 64 bits. One that fits 31 bits stays as it is. Any other is told as
//! 31 bits made of it, with the top bit set; what it stood for is remembered for a while, and
//! found again by listing the directory from its start once it is forgotten. Two positions of one
//! directory that come to the same 31 bits are told apart only while they are remembered.

use core::future::{Future, poll_fn};
use core::task::Poll;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_base::units::Cookie;
use leasehold_fs::{Allowance, Budget, ExportId, FsError, ObjectId, Wanted, ops};
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

/// The 4 bytes of a position.
pub(super) fn narrow(cookie: Cookie) -> nfs2::Cookie {
    nfs2::Cookie(match u32::try_from(cookie.0) {
        Ok(small) if small & MADE == 0 => small,
        _ => MADE | mixed(cookie.0),
    })
}

/// 31 bits to which every bit of a position comes (the constant is SplitMix64's).
fn mixed(cookie: u64) -> u32 {
    let [a, b, c, d, ..] = cookie.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    u32::from_be_bytes([a, b, c, d]) >> 1
}

impl Cookies {
    /// Keeps what positions will stand for, where their 4 bytes do not say it.
    pub(super) fn remember(&self, directory: &Target<'_>, cookies: impl Iterator<Item = Cookie>) {
        let mut remembered = self.lock();
        for cookie in cookies {
            let nfs2::Cookie(narrow) = narrow(cookie);
            if narrow & MADE != 0 {
                remembered.keep((directory.request.export.id, directory.object, narrow), cookie);
            }
        }
    }

    /// The position that 4 bytes stand for.
    ///
    /// # Errors
    /// [`FsError::BadCookie`] when no name of the directory has it, [`FsError::Later`] while the
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

/// Lets all others go first.
fn others_first() -> impl Future<Output = ()> + Send {
    let mut they_were = false;
    poll_fn(move |context| {
        if core::mem::replace(&mut they_were, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

impl Remembered {
    fn keep(&mut self, key: Key, cookie: Cookie) {
        if self.cookies.insert(key, cookie).is_none() {
            self.oldest.push_back(key);
        }
        if self.oldest.len() > REMEMBERED_MAX
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.cookies.remove(&oldest);
        }
    }
}

async fn search(directory: &Target<'_>, wanted: u32) -> Result<Cookie, FsError> {
    let reply = Allowance { bytes: SEARCH_BYTES, entry_bytes: 16 };
    let budget = Budget { reply, names: Allowance::UNLIMITED };
    let mut cookie = Cookie::default();
    for _ in 0..SEARCH_STEPS_MAX {
        let object = &directory.object;
        let page = ops::readdir(&directory.request, object, cookie, budget, Wanted::Names)
            .await
            .map_err(|failed| failed.error)?;
        for entry in page.entries.iter() {
            if narrow(entry.cookie).0 == wanted {
                return Ok(entry.cookie);
            }
            cookie = entry.cookie;
        }
        if page.end || page.entries.is_empty() {
            break;
        }
        others_first().await;
    }
    Err(FsError::BadCookie)
}
