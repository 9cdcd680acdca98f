//! The cases, one file for each group.

mod back_dir;
mod cookies;
mod exclusive;
mod hostile;
mod limits;
mod mount;
mod portmap;
mod replies;
mod restart;
mod rpc;
mod several_clients;
mod stability;
mod v2_data;
mod v2_names;
mod v2_objects;
mod v3_access;
mod v3_create;
mod v3_getattr;
mod v3_link;
mod v3_lookup;
mod v3_mkdir;
mod v3_mknod;
mod v3_read;
mod v3_readdir;
mod v3_remove;
mod v3_rename;
mod v3_setattr;
mod v3_symlink;
mod v3_system;
mod v3_write;
mod versions;
mod wcc;

use leasehold_wire::nfs3::{Attributes, create};

use crate::bench::Bench;
use crate::case::{Group, Stop, Verdict, ensure, equal};

/// The items that most cases use.
mod prelude {
    pub(super) use leasehold_wire::nfs3::{SetAttributes, SetTime, Status, write::Stability};

    pub(super) use crate::bench::Bench;
    pub(super) use crate::case::{Company, Group, Needs, Stop, Verdict, cases, ensure, equal};
}

/// The items that cases of version 2 use.
mod prelude2 {
    pub(super) use crate::bench::Bench;
    pub(super) use crate::case::{Company, Group, Needs, Stop, Verdict, cases, ensure, equal};
}

/// The arguments of CREATE for a file that must be new, mode 0644.
fn plain_file() -> create::How {
    create::How::Guarded(crate::v3::mode(0o644))
}

/// Ends the case as failed unless attributes are equal except for the time of the last access,
/// which every access to an object may change, and which many servers store imprecisely.
fn same(what: &str, got: Attributes, expected: Attributes) -> Verdict {
    equal(what, Attributes { accessed: expected.accessed, ..got }, expected)
}

/// A name one byte longer than allowed.
fn too_long(b: &Bench<'_>) -> Result<Vec<u8>, Stop> {
    let limits = b.limits()?;
    if !limits.refuses_long_names {
        return Err(Stop::skip("PATHCONF reports that long names are truncated"));
    }
    let length = usize::try_from(limits.name_bytes_max).unwrap_or(usize::MAX);
    if length >= NAME_BYTES_MAX {
        return Err(Stop::skip("PATHCONF reports that names may be longer than 4 KiB"));
    }
    Ok(vec![b'n'; length + 1])
}

/// The longest name that is tried, in bytes.
const NAME_BYTES_MAX: usize = 4096;

/// Checks that the server creates no names with slashes, in any directory. The case tries no name
/// that a server could create outside of the directory of the run.
fn refuses_paths(
    b: &mut Bench<'_>,
    mut make: impl FnMut(&mut Bench<'_>, &str) -> Result<bool, Stop>,
) -> Verdict {
    let dir = b.dir()?;
    b.v3.directory(dir, "inner")?;
    for name in ["inner/x", "../escaped", "inner/", "inner/../x", "./x"] {
        let made = make(b, name)?;
        ensure!(!made, "the name {name} is taken");
    }
    Ok(())
}

/// Every group, in the order in which they are listed.
pub(crate) const GROUPS: &[&Group] = &[
    &rpc::GROUP,
    &portmap::GROUP,
    &mount::GROUP,
    &v3_getattr::GROUP,
    &v3_setattr::GROUP,
    &v3_lookup::GROUP,
    &v3_access::GROUP,
    &v3_read::GROUP,
    &v3_write::GROUP,
    &v3_symlink::GROUP,
    &v3_create::GROUP,
    &v3_mkdir::GROUP,
    &v3_mknod::GROUP,
    &v3_remove::GROUP,
    &v3_rename::GROUP,
    &v3_link::GROUP,
    &v3_readdir::GROUP,
    &v3_system::GROUP,
    &v2_objects::GROUP,
    &v2_data::GROUP,
    &v2_names::GROUP,
    &versions::GROUP,
    &stability::GROUP,
    &wcc::GROUP,
    &cookies::GROUP,
    &exclusive::GROUP,
    &replies::GROUP,
    &several_clients::GROUP,
    &hostile::GROUP,
    &limits::GROUP,
    &restart::GROUP,
    &back_dir::GROUP,
];
