//! Directory positions in the 4 bytes that version 2 has for them.
//!
//! A store's positions have 64 bits. One that fits 31 bits stays as it is. Any other is told as
//! 31 bits made of it, with the top bit set; what it stood for is remembered for a while, and
//! found again by listing the directory from its start once it is forgotten. Two positions of one
//! directory that come to the same 31 bits are told apart only while they are remembered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use leasehold_base::units::Cookie;
use leasehold_fs::{Allowance, Budget, ExportId, FsError, ObjectId, Wanted, ops};
use leasehold_wire::nfs2;

use crate::context::Target;

const MADE: u32 = 1 << 31;

/// How many positions are remembered: those of some hundred listings under way.
const REMEMBERED_MAX: usize = 64 << 10;

/// How many bytes of names one step of a search takes.
const SEARCH_BYTES: u32 = 64 << 10;

/// The positions that were told in 31 bits.
#[derive(Default)]
pub(crate) struct Cookies(Mutex<Remembered>);

type Key = (ExportId, ObjectId, u32);

#[derive(Default)]
struct Remembered {
    cookies: BTreeMap<Key, Cookie>,
    oldest: VecDeque<Key>,
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
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
    /// [`FsError::BadCookie`] when no name of the directory has it; else those of listing it.
    pub(super) async fn widen(
        &self,
        directory: &Target<'_>,
        nfs2::Cookie(narrow): nfs2::Cookie,
    ) -> Result<Cookie, FsError> {
        if narrow & MADE == 0 {
            return Ok(Cookie(narrow.into()));
        }
        let key = (directory.request.export.id, directory.object, narrow);
        let known = {
            let remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            remembered.cookies.get(&key).copied()
        };
        match known {
            Some(cookie) => Ok(cookie),
            None => search(directory, narrow).await,
        }
    }
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
    loop {
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
            return Err(FsError::BadCookie);
        }
    }
}
