//! `leasehold cluster move-home`.

use leasehold_cluster as cluster;

use super::options::MoveHome;
use crate::checks;
use crate::failure::Failure;
use crate::output::say;

/// Moves the home role from one directory to another.
pub(crate) fn move_home(options: &MoveHome) -> Result<(), Failure> {
    let from = checks::directory(&options.directory)?;
    let to = checks::directory(&options.to)?;
    cluster::move_home(&from, &to)?;
    say(format!(
        "The home is now in {}, and cannot be served from {} any longer.\nServe it with its old \
         number; if its address differs, replace the old address in --peer at all metaservers, and \
         restart them.\nIf its clients may hold leases (--strict), serve it with its old state \
         directory, which records these clients, or start it two minutes after its end.\n",
        to.display(),
        from.display()
    ))
}
