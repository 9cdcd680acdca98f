//! The changes of attributes that SETATTR requests.

use leasehold_base::units::FileTime;
use leasehold_fs::permission::{SET_GROUP, without_set_ids};
use leasehold_fs::{Attributes, Caller, FileType, Mode, SUPERUSER, SetAttributes, SetTime};
use leasehold_wire::nfs3;

use crate::metafile::Metafile;

/// A requested change of attributes, as a message encodes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) set: nfs3::SetAttributes,
    /// True if the change clears the set-user-ID and set-group-ID bits, unless it also sets a mode.
    /// The home clears the bits, because only the home has the current mode at the time of the
    /// change.
    pub(crate) clear_set_ids: bool,
}

/// Converts a SETATTR for which the caller has permission to a [`Setting`].
pub(crate) fn wanted(attributes: &Attributes, caller: &Caller, changes: &SetAttributes) -> Setting {
    let gid = changes.gid.unwrap_or(attributes.gid);
    let is_member = caller.uid == SUPERUSER || caller.in_group(gid);
    let given = changes.uid.is_some() || changes.gid.is_some();
    let is_cut = changes.size.is_some() && caller.uid != SUPERUSER;
    let is_directory = attributes.file_type == FileType::Directory;
    let mode = match changes.mode {
        Some(mode) if is_member => Some(mode.bits()),
        Some(mode) => Some(mode.bits() & !SET_GROUP),
        None => None,
    };
    let clear_set_ids = (given || is_cut) && !is_directory;
    let (uid, gid, size) = (changes.uid, changes.gid, changes.size);
    let (accessed, modified) = (time(changes.accessed), time(changes.modified));
    let set = nfs3::SetAttributes { mode, uid, gid, size, accessed, modified };
    Setting { set, clear_set_ids }
}

fn time(how: SetTime) -> nfs3::SetTime {
    match how {
        SetTime::Keep => nfs3::SetTime::Keep,
        SetTime::Now => nfs3::SetTime::Now,
        SetTime::To(time) => nfs3::SetTime::To(time.into()),
    }
}

/// Applies a setting to a metafile.
pub(crate) fn set(metafile: &mut Metafile, wanted: &Setting, now: FileTime) {
    if *wanted == Setting::default() {
        return;
    }
    let Setting { set: wanted, clear_set_ids } = wanted;
    metafile.change_at(now);
    metafile.forget_verifier();
    let changed = metafile.attributes.changed;
    if let Some(size) = wanted.size {
        let size = usize::try_from(size).expect("it was checked to fit");
        metafile.content.resize(size, 0);
        metafile.attributes.modified = changed;
    }
    let of = &mut metafile.attributes;
    let kept = Mode::from_bits(of.mode);
    let kept = if *clear_set_ids { without_set_ids(kept) } else { kept };
    of.mode = wanted.mode.unwrap_or(kept.bits());
    of.uid = wanted.uid.unwrap_or(of.uid);
    of.gid = wanted.gid.unwrap_or(of.gid);
    let times = [(&mut of.accessed, wanted.accessed), (&mut of.modified, wanted.modified)];
    for (time, how) in times {
        match how {
            nfs3::SetTime::Keep => {}
            nfs3::SetTime::Now => *time = changed,
            nfs3::SetTime::To(moment) => *time = moment,
        }
    }
}
