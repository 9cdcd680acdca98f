//! Listing of directories.

use leasehold_base::units::{Cookie, FileId};
use leasehold_fs::{Budget, Caller, Entries, Entry, FsError, ObjectId, Page, Wanted};

use crate::node::Directory;
use crate::tree::Tree;

impl Tree {
    pub(crate) fn readdir(
        &mut self,
        caller: &Caller,
        object: &ObjectId,
        cookie: Cookie,
        budget: Budget,
        wanted: Wanted,
    ) -> Result<Page, FsError> {
        let id = self.resolve(object)?;
        let directory = self.directory(id)?;
        let rights = self.rights(caller, id);
        if !rights.read {
            return Err(FsError::Access);
        }
        if !directory.knows(cookie) {
            return Err(FsError::BadCookie);
        }
        // Without search permission a caller receives names, but no attributes or handles.
        let wanted = if rights.execute { wanted } else { Wanted::Names };
        let (entries, end) = self.page(id, directory, cookie, budget, wanted)?;
        self.accessed(id);
        Ok(Page { entries, end, attributes: self.attributes(id) })
    }

    fn page(
        &self,
        id: FileId,
        directory: &Directory,
        cookie: Cookie,
        mut budget: Budget,
        wanted: Wanted,
    ) -> Result<(Entries, bool), FsError> {
        let dots =
            [(Directory::THIS, &b"."[..], id), (Directory::PARENT, &b".."[..], directory.parent)];
        let dots = dots.into_iter().filter(|(dot, _, _)| *dot > cookie);
        let mut entries = Entries::default();
        for (cookie, name, target) in dots.chain(directory.behind(cookie.max(Directory::PARENT))) {
            if !budget.take(name) {
                let nothing = entries.is_empty();
                return if nothing { Err(FsError::TooSmall) } else { Ok((entries, false)) };
            }
            let (attributes, object) = match wanted {
                Wanted::Names => (None, None),
                Wanted::Everything => (Some(self.attributes(target)), Some(self.object(target))),
            };
            entries.push(&Entry { name, file_id: target, cookie, attributes, object });
        }
        Ok((entries, true))
    }
}
