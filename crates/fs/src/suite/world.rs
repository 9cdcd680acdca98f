//! The environment of a case: its own directory, and short names for common steps.

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileTime};

use super::Subject;
use crate::{
    Allowance, Attributes, Budget, Caller, Changed, FileType, Found, FsError, Linked, Mode, Name,
    NewFile, NewNode, ObjectId, Page, Place, ReadDone, Renamed, SetAttributes, Stability, Step,
    Store, Wanted, Wcc, WriteDone,
};

/// A budget without limits.
pub(super) const UNLIMITED: Budget =
    Budget { reply: Allowance::UNLIMITED, names: Allowance::UNLIMITED };

/// The store under test with a fresh directory in it.
///
/// The methods use the credential of the subject's owner. They fail the case if the operation
/// fails, unless the name of the method contains the expected error.
pub struct World<'a> {
    pub(super) subject: &'a Subject,
    pub(super) store: &'a dyn Store,
    /// The case's own directory.
    pub(super) top: ObjectId,
}

impl<'a> World<'a> {
    /// Creates a directory with the name of a case.
    pub(super) async fn new(subject: &'a Subject, case: &str) -> Self {
        let store = &*subject.store;
        let attributes = mode(0o755);
        for turn in 0..1000 {
            let path = format!("{case}-{turn}");
            let place = Place { directory: store.root(), name: name(&path) };
            let made = store.make(&subject.owner, place, &NewNode::Directory, &attributes).await;
            match made.result {
                Ok(found) => return Self { subject, store, top: found.object },
                Err(FsError::AlreadyExists) => {}
                Err(error) => panic!("the owner makes a directory in the root: {error}"),
            }
        }
        panic!("the root is full of directories of earlier runs");
    }

    pub(super) fn owner(&self) -> &'a Caller {
        &self.subject.owner
    }

    pub(super) fn other(&self) -> &'a Caller {
        self.subject.other.as_ref().expect("the case needs another user")
    }

    pub(super) fn superuser(&self) -> &'a Caller {
        self.subject.superuser.as_ref().expect("the case needs the superuser")
    }

    pub(super) fn pass_time(&self) {
        (self.subject.pass_time)();
    }

    /// Returns a place in the directory of the case.
    pub(super) fn place<'n>(&self, file: &'n str) -> Place<'n> {
        Place { directory: self.top, name: name(file) }
    }

    pub(super) async fn create(&self, place: Place<'_>, file: NewFile) -> Changed<Found> {
        self.store.create(self.owner(), place, &file).await
    }

    /// Creates a file of mode 0644.
    pub(super) async fn file(&self, file: &str) -> ObjectId {
        let made = self.create(self.place(file), NewFile::Guarded(mode(0o644))).await;
        made.result.expect("a file can be made").object
    }

    /// Creates a file with data in it.
    pub(super) async fn file_of(&self, file: &str, data: &[u8]) -> ObjectId {
        let object = self.file(file).await;
        self.put(&object, 0, data).await;
        object
    }

    pub(super) async fn make(&self, place: Place<'_>, node: NewNode<'_>) -> Changed<Found> {
        self.store.make(self.owner(), place, &node, &mode(0o755)).await
    }

    /// Creates an object other than a file, of mode 0755.
    pub(super) async fn node(&self, file: &str, node: NewNode<'_>) -> ObjectId {
        self.make(self.place(file), node).await.result.expect("a node can be made").object
    }

    /// Creates a directory of mode 0755.
    pub(super) async fn directory(&self, file: &str) -> ObjectId {
        self.node(file, NewNode::Directory).await
    }

    /// Creates a directory and removes it.
    pub(super) async fn gone_directory(&self, file: &str) -> ObjectId {
        let object = self.directory(file).await;
        self.rmdir(self.place(file)).await.result.expect("it is empty");
        object
    }

    /// Creates a file and removes it.
    pub(super) async fn gone_file(&self, file: &str) -> ObjectId {
        let object = self.file(file).await;
        self.remove(self.place(file)).await.result.expect("it is there");
        object
    }

    pub(super) async fn attributes(&self, object: &ObjectId) -> Attributes {
        self.store.getattr(object).await.expect("it is there")
    }

    pub(super) async fn set(&self, object: &ObjectId, changes: SetAttributes) -> Changed<()> {
        self.store.setattr(self.owner(), object, &changes, None).await
    }

    pub(super) async fn set_mode(&self, object: &ObjectId, bits: u32) {
        self.set(object, mode(bits)).await.result.expect("the owner sets the mode");
    }

    pub(super) async fn find(&self, place: Place<'_>) -> Result<Found, FsError> {
        self.store.lookup(self.owner(), &place.directory, place.name).await
    }

    /// Returns true if a name identifies an object.
    pub(super) async fn leads(&self, place: Place<'_>, object: &ObjectId) -> bool {
        let found = self.find(place).await;
        found.is_ok_and(|found| self.same(&found.object, object))
    }

    /// Returns true if two ids identify one object.
    pub(super) fn same(&self, one: &ObjectId, other: &ObjectId) -> bool {
        self.store.identity(one) == self.store.identity(other)
    }

    pub(super) async fn write(
        &self,
        object: &ObjectId,
        offset: u64,
        data: &[u8],
        stability: Stability,
    ) -> Changed<WriteDone> {
        let data = Bytes::copy_from_slice(data);
        self.store.write(self.owner(), object, offset, data, stability).await
    }

    /// Writes all of the data.
    pub(super) async fn put(&self, object: &ObjectId, offset: u64, data: &[u8]) -> WriteDone {
        let done = self.write(object, offset, data, Stability::FileSync).await;
        let done = done.result.expect("data can be written");
        assert_eq!(done.count as usize, data.len(), "all is written");
        done
    }

    pub(super) async fn get(&self, object: &ObjectId, offset: u64, count: u32) -> ReadDone {
        let done = self.store.read(self.owner(), object, offset, count).await;
        done.expect("data can be read")
    }

    /// Returns the first MiB of a file.
    pub(super) async fn data(&self, object: &ObjectId) -> Vec<u8> {
        self.get(object, 0, 1 << 20).await.data.to_vec()
    }

    pub(super) async fn remove(&self, place: Place<'_>) -> Changed<()> {
        self.store.remove(self.owner(), place).await
    }

    pub(super) async fn rmdir(&self, place: Place<'_>) -> Changed<()> {
        self.store.rmdir(self.owner(), place).await
    }

    pub(super) async fn rename(&self, from: Place<'_>, to: Place<'_>) -> Renamed {
        self.store.rename(self.owner(), from, to).await
    }

    pub(super) async fn link(&self, object: &ObjectId, place: Place<'_>) -> Linked {
        self.store.link(self.owner(), object, place).await
    }

    pub(super) async fn page(
        &self,
        directory: &ObjectId,
        cookie: Cookie,
        budget: Budget,
    ) -> Result<Page, FsError> {
        self.store.readdir(self.owner(), directory, cookie, budget, Wanted::Names).await
    }

    /// Returns all names of a directory in order, without `.` and `..`.
    pub(super) async fn names(&self, directory: &ObjectId) -> Vec<Vec<u8>> {
        let (mut names, mut cookie) = (Vec::new(), Cookie(0));
        loop {
            let page = self.page(directory, cookie, UNLIMITED).await.expect("it can be listed");
            for entry in page.entries.iter() {
                cookie = entry.cookie;
                if entry.name != b"." && entry.name != b".." {
                    names.push(entry.name.to_vec());
                }
            }
            if page.end {
                names.sort();
                return names;
            }
            assert!(!page.entries.is_empty(), "a page that is not the last has entries");
        }
    }

    /// Fails unless the attributes that a change returned are correct; `before` is the state before
    /// the change.
    pub(super) async fn assert_wcc(&self, wcc: &Wcc, object: &ObjectId, before: &Attributes) {
        self.assert_wcc_kept(wcc, object, before).await;
        let is_directory = before.file_type == FileType::Directory;
        let Subject { files_are_its_own, names_are_its_own, .. } = self.subject;
        let is_its_own = if is_directory { *names_are_its_own } else { *files_are_its_own };
        assert!(wcc.before.is_some() || !is_its_own, "a change returns the attributes before it");
        let tells_after = !is_directory || *names_are_its_own;
        assert!(wcc.after.is_some() || !tells_after, "a change returns the attributes after it");
    }

    /// Fails if a failed change returned incorrect attributes.
    pub(super) async fn assert_wcc_kept(&self, wcc: &Wcc, object: &ObjectId, before: &Attributes) {
        if let Some(told) = wcc.before {
            assert_eq!(told, before.before(), "attributes before");
        }
        if let Some(told) = wcc.after {
            assert_eq!(lasting(told), lasting(self.attributes(object).await), "attributes after");
        }
    }
}

/// Removes the access time from attributes, because stores differ in updating it.
pub(super) fn lasting(attributes: Attributes) -> Attributes {
    Attributes { accessed: FileTime::default(), ..attributes }
}

/// Returns attributes that set only a mode.
pub(super) fn mode(bits: u32) -> SetAttributes {
    SetAttributes { mode: Some(Mode::from_bits(bits)), ..SetAttributes::default() }
}

/// Returns attributes that set only a size.
pub(super) fn size(bytes: u64) -> SetAttributes {
    SetAttributes { size: Some(bytes), ..SetAttributes::default() }
}

/// Returns a name in the directory of a case.
pub(super) fn name(text: &str) -> Name<'_> {
    raw_name(text.as_bytes())
}

/// Returns a name in the directory of a case. The name may be any bytes, not only UTF-8 text.
pub(super) fn raw_name(bytes: &[u8]) -> Name<'_> {
    match Step::parse(bytes) {
        Ok(Step::Child(name)) => name,
        step => panic!("{step:?} is no name"),
    }
}

/// Fails unless an operation failed with the given error.
#[track_caller]
pub(super) fn refused<T: core::fmt::Debug>(result: Result<T, FsError>, error: FsError) {
    match result {
        Err(got) => assert_eq!(got, error),
        Ok(done) => panic!("expected {error}, got {done:?}"),
    }
}

/// Returns a place in a directory.
pub(super) fn below<'n>(directory: &ObjectId, text: &'n str) -> Place<'n> {
    Place { directory: *directory, name: name(text) }
}

/// Requests a new file of mode 0644 that must not exist.
pub(super) fn new_file() -> NewFile {
    NewFile::Guarded(mode(0o644))
}
