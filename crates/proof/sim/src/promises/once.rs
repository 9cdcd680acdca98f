//! A repeated call takes effect once, however often its client or the network repeats it.
//!
//! In a folder that only one program uses, one operation comes after another, so each has one
//! right outcome. A call that runs twice is told what it left itself (EXIST, NOENT), and one that
//! runs late undoes what came after it, which a later look shows. A crash may take what the server
//! knew of calls, so a call that outlives one may run once more. The end of the server's process
//! takes only calls that it had no reply to yet.

use super::owners;
use crate::fit::fit;
use crate::history::History;
use crate::model::folder::Folder;
use crate::op::Owner;

pub(super) fn check(history: &History) -> Result<(), String> {
    let own = owners(history).into_iter().filter(|owner| *owner != Owner::Shared);
    own.map(|owner| Folder::new(owner, history)).try_for_each(|folder| fit(&folder, history))
}
