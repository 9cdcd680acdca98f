//! Promise: a repeated call takes effect once, no matter how often its client or the network
//! repeats it.
//!
//! The operations in a folder that only one program uses are sequential, so each has only one
//! correct outcome. A call that runs twice gets an error because of its own first run (EXIST,
//! NOENT). A call that runs late undoes later operations, and a later read shows this. A crash may
//! lose the duplicate request cache, so a call that began before a crash and ended after it may run
//! once more. The end of the server's process loses only calls without a reply.

use super::owners;
use crate::fit::fit;
use crate::history::History;
use crate::model::folder::Folder;
use crate::op::Owner;

pub(super) fn check(history: &History) -> Result<(), String> {
    let own = owners(history).into_iter().filter(|owner| *owner != Owner::Shared);
    own.map(|owner| Folder::new(owner, history)).try_for_each(|folder| fit(&folder, history))
}
