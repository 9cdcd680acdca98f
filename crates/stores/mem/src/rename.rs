//! Rename.

use leasehold_base::units::FileId;
use leasehold_fs::{Caller, FsError, Place, Renamed, Wcc};

use crate::LINK_MAX;
use crate::tree::Tree;

/// A rename that is permitted.
struct Plan {
    from: FileId,
    to: FileId,
    source: FileId,
    /// The object that has the new name.
    replaced: Option<FileId>,
}

impl Tree {
    pub(crate) fn rename(&mut self, caller: &Caller, from: Place<'_>, to: Place<'_>) -> Renamed {
        let directories = [from, to].map(|place| self.resolve(&place.directory));
        let before = directories.map(|id| id.ok().map(|id| self.attributes(id).before()));
        let plan = self.plan(caller, from, to);
        let result = plan.map(|plan| plan.map_or((), |plan| self.carry_out(&plan, from, to)));
        let after = directories.map(|id| id.ok().map(|id| self.attributes(id)));
        let wcc = |index: usize| Wcc { before: before[index], after: after[index] };
        Renamed { result, from: wcc(0), to: wcc(1) }
    }

    /// Returns the plan of a rename, or `None` if both names lead to one object.
    fn plan(
        &self,
        caller: &Caller,
        from_place: Place<'_>,
        to_place: Place<'_>,
    ) -> Result<Option<Plan>, FsError> {
        let from = self.resolve(&from_place.directory)?;
        let to = self.resolve(&to_place.directory)?;
        let source = self.removable(caller, from, from_place)?;
        let replaced = self.child(caller, to, to_place.name)?;
        if replaced == Some(source) {
            return Ok(None);
        }
        self.may_change(caller, to)?;
        let moves_directory = self.is_directory(source);
        if moves_directory && self.is_within(to, source) {
            return Err(FsError::Invalid);
        }
        if let Some(replaced) = replaced {
            self.removable(caller, to, to_place)?;
            match (moves_directory, self.directory(replaced)) {
                (false, Ok(_)) => return Err(FsError::IsDirectory),
                (true, Err(error)) => return Err(error),
                (true, Ok(directory)) if !directory.is_empty() => return Err(FsError::NotEmpty),
                (true, Ok(_)) | (false, Err(_)) => {}
            }
        }
        // A directory that moves is itself changed: its `..` refers to another parent.
        if moves_directory && from != to && !self.rights(caller, source).write {
            return Err(FsError::Access);
        }
        let more_links = moves_directory && from != to && replaced.is_none();
        if more_links && self.node(to).link_count == LINK_MAX {
            return Err(FsError::TooManyLinks);
        }
        Ok(Some(Plan { from, to, source, replaced }))
    }

    /// Returns true if a directory is `above` or lies below it.
    fn is_within(&self, mut directory: FileId, above: FileId) -> bool {
        loop {
            if directory == above {
                return true;
            }
            match self.directory(directory) {
                Ok(it) if it.parent != directory => directory = it.parent,
                Ok(_) | Err(_) => return false,
            }
        }
    }

    fn carry_out(&mut self, plan: &Plan, from_place: Place<'_>, to_place: Place<'_>) {
        let &Plan { from, to, source, replaced } = plan;
        let stamp = self.stamp();
        let names = self.directory_mut(from).expect("the old name was found in it");
        names.remove(from_place.name.as_bytes());
        let names = self.directory_mut(to).expect("the new name was looked for in it");
        names.insert(to_place.name.as_bytes(), source);
        self.touch(from, stamp, true);
        self.touch(to, stamp, true);
        if let Some(replaced) = replaced {
            self.drop_link(to, replaced, stamp);
        }
        if let Ok(moved) = self.directory_mut(source) {
            moved.parent = to;
            self.node_mut(from).link_count -= 1;
            self.node_mut(to).link_count += 1;
        }
        self.touch(source, stamp, false);
    }
}
