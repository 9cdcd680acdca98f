//! A repeated call takes effect once, however often its client or the network repeats it.
//!
//! In a folder that only one program uses, operations are sequential, so each has one correct
//! outcome. A call that runs twice gets the result of its own first run (EXIST, NOENT), and one
//! that runs late undoes later operations, which a later read shows. A crash may lose the duplicate
//! request cache, so a call that outlives a crash may run once more. The end of the server's
//! process loses only calls without a reply.

use super::owners;
use crate::fit::fit;
use crate::history::History;
use crate::model::folder::Folder;
use crate::op::Owner;

pub(super) fn check(history: &History) -> Result<(), String> {
    let own = owners(history).into_iter().filter(|owner| *owner != Owner::Shared);
    own.map(|owner| Folder::new(owner, history)).try_for_each(|folder| fit(&folder, history))
}
