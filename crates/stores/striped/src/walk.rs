//! A walk over all files of a volume, while clients use the files.
//!
//! A walk could miss a file that is renamed meanwhile. Therefore a task that renames or links a
//! file or directory records it, and the walk ends only when all such tasks have made their records
//! and the walk has examined all recorded files and directories. See [`crate::search`].

use leasehold_fs::{FileType, FsError, ObjectId, Step};

use crate::Striped;
use crate::metafile::{Damaged, HEAD_BYTES, Placed};
use crate::search::{NOTED_MAX, SearchError};
use crate::visible::superuser;

/// The work of a walk at each file.
pub(crate) trait Visitor: Send {
    /// Examines a file whose metafile has a header. The walk may visit a file with several names,
    /// or a renamed file, more than once.
    fn visit(&mut self, file: ObjectId, placed: Placed) -> impl Future<Output = ()> + Send;
}

impl Striped {
    /// Returns all children of a directory; fails if the type of a child cannot be read.
    async fn all_children(
        &self,
        directory: &ObjectId,
    ) -> Result<Vec<(ObjectId, FileType)>, SearchError> {
        let listed = self.children(directory).await;
        let (mut children, unknown) = listed.map_err(|error| self.unread(directory, error))?;
        for name in unknown {
            let Ok(Step::Child(child)) = Step::parse(&name) else {
                return Err(self.unread(directory, FsError::Io));
            };
            match self.names.lookup(&superuser(), directory, child).await {
                Ok(found) => children.push((found.object, found.attributes.file_type)),
                Err(FsError::NotFound | FsError::Stale) => {}
                Err(error) => {
                    let above = self.names.path(directory);
                    let path = above.map(|above| [&above[..], b"/", &name].concat());
                    return Err(SearchError::Names(path, error));
                }
            }
        }
        Ok(children)
    }

    /// Reads a file's metafile.
    async fn read_placed(&self, object: &ObjectId) -> Result<Option<Placed>, FsError> {
        let length = u32::try_from(HEAD_BYTES).expect("it is small");
        let caller = superuser();
        let read = async || {
            let done = self.names.read(&caller, object, 0, length).await?;
            Placed::read(&done.data).map_err(|Damaged| FsError::Io)
        };
        match read().await {
            // The header may be damaged because another call is writing it right now. Wait for this
            // call by the lock of the file, and read again.
            Err(FsError::Io) => {
                let file = self.file(object);
                let _data = file.read().await;
                read().await
            }
            read => read,
        }
    }

    fn unread(&self, object: &ObjectId, error: FsError) -> SearchError {
        SearchError::Names(self.names.path(object), error)
    }
}

/// A walk over all names.
pub(crate) struct Walk<'a, V> {
    volume: &'a Striped,
    pub(crate) visitor: V,
    /// Directories that the walk has not examined yet.
    directories: Vec<ObjectId>,
    /// The number of directories that were renamed during the walk.
    renamed: usize,
}

impl<'a, V: Visitor> Walk<'a, V> {
    /// Creates a walk over the names of a volume. The recording of renamed files and directories
    /// must have begun.
    pub(crate) const fn new(volume: &'a Striped, visitor: V) -> Self {
        Self { volume, visitor, directories: Vec::new(), renamed: 0 }
    }

    /// Visits all files of the volume.
    pub(crate) async fn all(&mut self) -> Result<(), SearchError> {
        self.directories.push(self.volume.names.root());
        while !self.directories.is_empty() {
            while let Some(directory) = self.directories.pop() {
                for (object, file_type) in self.volume.all_children(&directory).await? {
                    self.visit(object, file_type).await?;
                    self.visit_renamed().await?;
                }
                if self.volume.tending.is_ending() {
                    return Err(SearchError::Ending);
                }
            }
            // Wait for the renames in progress, and examine the files and directories that they
            // recorded. A file that is renamed after this point was visited under its old name, so
            // the walk may end unless a recorded directory must be examined.
            self.volume.search.all_have_noted().await;
            self.visit_renamed().await?;
        }
        Ok(())
    }

    /// Examines the files and directories that were renamed or linked since the last call.
    async fn visit_renamed(&mut self) -> Result<(), SearchError> {
        for object in self.volume.search.noted()? {
            match self.volume.names.getattr(&object).await {
                Ok(attributes) => {
                    self.renamed += usize::from(attributes.file_type == FileType::Directory);
                    self.visit(object, attributes.file_type).await?;
                }
                // Another caller has removed the file or directory, so it needs no visit.
                Err(FsError::Stale) => {}
                Err(error) => return Err(self.volume.unread(&object, error)),
            }
        }
        if self.renamed > NOTED_MAX { Err(SearchError::Restless) } else { Ok(()) }
    }

    async fn visit(&mut self, object: ObjectId, file_type: FileType) -> Result<(), SearchError> {
        match file_type {
            FileType::Directory => self.directories.push(object),
            FileType::Regular => match self.volume.read_placed(&object).await {
                Ok(Some(placed)) => self.visitor.visit(object, placed).await,
                // A file without a header has no objects. A stale file was removed by another
                // caller.
                Ok(None) | Err(FsError::Stale) => {}
                Err(error) => return Err(self.volume.unread(&object, error)),
            },
            FileType::BlockDevice
            | FileType::CharacterDevice
            | FileType::Symlink
            | FileType::Socket
            | FileType::Fifo => {}
        }
        Ok(())
    }
}
