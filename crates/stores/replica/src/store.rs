//! The operations of the trait `Store`.

use core::ops::Range;
use core::time::Duration;

use crate::attributes::{Setting, wanted};
use crate::disk::ROOT;
use crate::lookup::{ComesAgain, id, object};
use crate::message::Answer;
use crate::metafile::{Metafile, Wrote};
use crate::namespace::{LINK_MAX, at, found};
use crate::rpc_handler::CONTENT_BYTES_MAX;
use crate::{FILE_BYTES_MAX, Metaserver};
use bytes::Bytes;
use leasehold_base::limits::durations::{JUKEBOX_AFTER, METASERVER_RETRY_DELAY};
use leasehold_base::units::{Cookie, FileId, FileTime};
use leasehold_core::replica::changes;
use leasehold_fs::permission::{self, Rights, may_set, must_be_file, rights, without_set_ids};
use leasehold_fs::{
    Access, Attributes, Budget, Caller, Capabilities, Changed, Coherence, Committed,
    ExclusiveAccess, FileType, Found, FsError, Guard, Linked, MaybeReady, Name, NewFile, NewNode,
    ObjectId, Page, Place, Properties, ReadDone, Renamed, SUPERUSER, SetAttributes, Space,
    Stability, Store, Target, Wanted, Wcc, WriteDone,
};

/// The maximum length of a name in bytes, as on common file systems.
pub(crate) const NAME_BYTES_MAX: u32 = 255;

/// The number of free files that FSSTAT reports: larger than any real number of files.
const FILES_MAX: u64 = 1 << 40;

/// Repeats an operation until it succeeds, fails permanently, or reaches the timeout of a client.
macro_rules! patiently {
    ($this:ident, $try:expr) => {
        MaybeReady::later(async move {
            let until = $this.shared.outside.now() + JUKEBOX_AFTER;
            loop {
                let done = $try.await;
                if !done.comes_again() || $this.shared.outside.now() >= until {
                    break done;
                }
                $this.shared.outside.sleep(METASERVER_RETRY_DELAY).await;
            }
        })
    };
}

impl Metaserver {
    async fn attributes_of(&self, of: &ObjectId) -> Result<Attributes, FsError> {
        Ok(self.good(object(of)?).await?.seen())
    }

    async fn set(
        &self,
        caller: &Caller,
        of: &ObjectId,
        changes: &SetAttributes,
        guard: Option<FileTime>,
    ) -> Changed<()> {
        let set = async {
            let object = object(of)?;
            let metafile = match guard {
                // Fetch the metafile from its home, because the guard must be compared with the
                // current change time.
                Some(_) => self.fresh(object).await?,
                None => self.good(object).await?,
            };
            let seen = metafile.seen();
            if guard.is_some_and(|changed| changed != seen.changed) {
                return Err(FsError::NotSynchronized);
            }
            may_set(&seen, caller, changes, FILE_BYTES_MAX)?;
            if *changes == SetAttributes::default() {
                return Ok(metafile);
            }
            if changes.size.is_some_and(|size| size > CONTENT_BYTES_MAX) {
                return Err(FsError::FileTooBig);
            }
            self.set_at_home(object, wanted(&seen, caller, changes)).await
        };
        match set.await {
            Ok(after) => {
                Changed { result: Ok(()), wcc: Wcc { before: None, after: Some(after.seen()) } }
            }
            Err(error) => Changed::failed(error),
        }
    }

    async fn look_up(
        &self,
        caller: &Caller,
        directory: &ObjectId,
        name: Name<'_>,
    ) -> Result<Found, FsError> {
        let at = at(Place { directory: *directory, name })?;
        let above = self.searched(caller, at.directory).await?;
        let there = self.find(&at).await?.ok_or(FsError::NotFound)?;
        Ok(Found { directory: Some(above), ..found(&there) })
    }

    async fn above(&self, caller: &Caller, directory: &ObjectId) -> Result<Found, FsError> {
        let directory = object(directory)?;
        let attributes = self.searched(caller, directory).await?;
        let parent = self.good(directory).await?.parent();
        let parent = self.good(parent).await?;
        Ok(Found { directory: Some(attributes), ..found(&parent) })
    }

    async fn granted(
        &self,
        caller: &Caller,
        object: &ObjectId,
        wanted: Access,
    ) -> Result<(Access, Attributes), FsError> {
        let attributes = self.attributes_of(object).await?;
        let has = permission::access(&attributes, rights(&attributes, caller));
        Ok((has.and(wanted), attributes))
    }

    async fn target(&self, of: &ObjectId) -> Result<(Target, Attributes), FsError> {
        let metafile = self.good(object(of)?).await?;
        let seen = metafile.seen();
        if seen.file_type != FileType::Symlink {
            return Err(FsError::Invalid);
        }
        Ok((metafile.content, seen))
    }

    async fn read_content(
        &self,
        caller: &Caller,
        of: &ObjectId,
        offset: u64,
        count: u32,
    ) -> Result<ReadDone, FsError> {
        let metafile = self.file(of).await?;
        // Execute permission suffices for READ, because a client reads the pages of a program with
        // READ (RFC 1813 4.4).
        let attributes = checked(&metafile, caller, |rights| rights.read || rights.execute)?;
        let length = metafile.content.len();
        let start = usize::try_from(offset).unwrap_or(length).min(length);
        let end = start.saturating_add(count as usize).min(length);
        let data = Bytes::copy_from_slice(&metafile.content[start..end]);
        Ok(ReadDone { data, end: end == length, attributes })
    }

    async fn file(&self, of: &ObjectId) -> Result<Metafile, FsError> {
        let metafile = self.good(object(of)?).await?;
        must_be_file(metafile.seen().file_type)?;
        Ok(metafile)
    }

    async fn write_content(
        &self,
        caller: &Caller,
        of: &ObjectId,
        offset: u64,
        data: &Bytes,
        stability: Stability,
    ) -> Changed<WriteDone> {
        let write = async {
            let metafile = self.file(of).await?;
            let mut seen = checked(&metafile, caller, |rights| rights.write)?;
            let object = metafile.object;
            let end = offset.checked_add(data.len() as u64).ok_or(FsError::FileTooBig)?;
            if !data.is_empty() {
                if end > CONTENT_BYTES_MAX {
                    return Err(FsError::FileTooBig);
                }
                let wall = self.shared.outside.wall();
                let mode = without_set_ids(seen.mode);
                if caller.uid != SUPERUSER && mode != seen.mode {
                    let wanted = Setting { clear_set_ids: true, ..Setting::default() };
                    self.set_at_home(object, wanted).await?;
                }
                seen = self.with(|node| {
                    let view = node.view(object);
                    let mut metafile = view.unwrap_or_else(|| node.with_dirty(metafile));
                    let modified = wall.max(metafile.seen().changed);
                    metafile.write(&Wrote { offset, data: data.to_vec(), modified });
                    let wrote = whole(&metafile, node.dirty.get(&object), offset..end);
                    node.dirty.insert(object, wrote);
                    node.changes(changes::Event::Wrote(object));
                    metafile.seen()
                });
                if stability > Stability::Unstable || self.shared.options.strict {
                    self.released(object).await?;
                }
            }
            let count = u32::try_from(data.len()).expect("a message is far shorter");
            let verifier = self.shared.options.verifier;
            Ok((WriteDone { count, stability, verifier }, seen))
        };
        match write.await {
            Ok((done, after)) => {
                Changed { result: Ok(done), wcc: Wcc { before: None, after: Some(after) } }
            }
            Err(error) => Changed::failed(error),
        }
    }

    /// Sends the data that was written here to the object's home, and waits until the home has
    /// stored the data.
    pub(crate) async fn released(&self, object: FileId) -> Result<(), FsError> {
        let commit = self.run(|node, ticket| {
            node.changes(changes::Event::Commit(ticket, object));
        });
        if commit.await == Answer::Done { Ok(()) } else { Err(self.not_yet(&[object])) }
    }

    async fn commit_content(&self, of: &ObjectId) -> Changed<Committed> {
        let commit = async {
            let metafile = self.file(of).await?;
            self.released(metafile.object).await?;
            let after = self.good(metafile.object).await?.seen();
            Ok((Committed { verifier: self.shared.options.verifier }, after))
        };
        match commit.await {
            Ok((done, after)) => {
                Changed { result: Ok(done), wcc: Wcc { before: None, after: Some(after) } }
            }
            Err(error) => Changed::failed(error),
        }
    }

    async fn room(&self, of: &ObjectId) -> Result<(Space, Attributes), FsError> {
        let attributes = self.attributes_of(of).await?;
        let files = FILES_MAX;
        let space = Space { files, free_files: files, available_files: files, ..Space::default() };
        Ok((space, attributes))
    }
}

/// Returns the part of a content to send to its home: the smallest range that contains the last
/// WRITE and the earlier WRITEs that are not sent yet.
fn whole(metafile: &Metafile, before: Option<&Wrote>, last: Range<u64>) -> Wrote {
    let before = before.map(|it| it.offset..it.offset + it.data.len() as u64);
    let before = before.unwrap_or(last.clone());
    let (offset, end) = (last.start.min(before.start), last.end.max(before.end));
    let bytes = |at: u64| usize::try_from(at).expect("it was checked to fit");
    let data = metafile.content[bytes(offset)..bytes(end)].to_vec();
    Wrote { offset, data, modified: metafile.attributes.changed.into() }
}

/// Returns the attributes of a file; fails if the caller lacks the permission. The owner always has
/// access, since a program may have opened the file before the owner changed the mode.
fn checked(
    metafile: &Metafile,
    caller: &Caller,
    has: impl FnOnce(Rights) -> bool,
) -> Result<Attributes, FsError> {
    let seen = metafile.seen();
    let may = caller.uid == seen.uid || has(rights(&seen, caller));
    if may { Ok(seen) } else { Err(FsError::Access) }
}

impl Store for Metaserver {
    fn root(&self) -> ObjectId {
        id(ROOT)
    }

    fn identity(&self, object: &ObjectId) -> ObjectId {
        *object
    }

    /// Returns the path of an object, or `None` if a directory on the path has another home,
    /// because the cached copy of such a directory may be out of date.
    fn path(&self, of: &ObjectId) -> Option<Vec<u8>> {
        let of = object(of).ok()?;
        self.with(|node| node.path(of))
    }

    fn properties(&self, _object: &ObjectId) -> Properties {
        Properties {
            file_bytes_max: FILE_BYTES_MAX,
            name_bytes_max: NAME_BYTES_MAX,
            link_max: LINK_MAX,
            time_step: Duration::from_nanos(1),
            case_insensitive: false,
            chown_restricted: true,
            can_set_time: true,
            symlinks: true,
            links: true,
            leases_names: self.lends(),
        }
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            local_guard: None,
            coherence: Some(self),
            direct_layouts: None,
            layout_policies: None,
            local_metadata: None,
            reservations: None,
            open_files: None,
            extended_attributes: None,
            ranges: None,
        }
    }

    fn getattr<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Attributes, FsError>> {
        patiently!(self, self.attributes_of(object))
    }

    fn setattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        changes: &'a SetAttributes,
        guard: Option<FileTime>,
    ) -> MaybeReady<'a, Changed<()>> {
        patiently!(self, self.set(caller, object, changes, guard))
    }

    fn lookup<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        name: Name<'a>,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        patiently!(self, self.look_up(caller, directory, name))
    }

    fn parent<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        patiently!(self, self.above(caller, directory))
    }

    fn access<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        wanted: Access,
    ) -> MaybeReady<'a, Result<(Access, Attributes), FsError>> {
        patiently!(self, self.granted(caller, object, wanted))
    }

    fn readlink<'a>(
        &'a self,
        _caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Target, Attributes), FsError>> {
        patiently!(self, self.target(object))
    }

    fn read<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'a, Result<ReadDone, FsError>> {
        patiently!(self, self.read_content(caller, object, offset, count))
    }

    fn write<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'a, Changed<WriteDone>> {
        patiently!(self, self.write_content(caller, object, offset, &data, stability))
    }

    fn create<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        file: &'a NewFile,
    ) -> MaybeReady<'a, Changed<Found>> {
        patiently!(self, self.create_file(caller, place, file))
    }

    fn make<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        node: &'a NewNode<'a>,
        attributes: &'a SetAttributes,
    ) -> MaybeReady<'a, Changed<Found>> {
        patiently!(self, self.make_node(caller, place, node, attributes))
    }

    fn remove<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        patiently!(self, self.remove_name(caller, place, false))
    }

    fn rmdir<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        patiently!(self, self.remove_name(caller, place, true))
    }

    fn rename<'a>(
        &'a self,
        caller: &'a Caller,
        from: Place<'a>,
        to: Place<'a>,
    ) -> MaybeReady<'a, Renamed> {
        patiently!(self, self.give_name(caller, from, to))
    }

    fn link<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        place: Place<'a>,
    ) -> MaybeReady<'a, Linked> {
        let target = crate::lookup::object(object);
        MaybeReady::later(async move {
            match target {
                Ok(target) => patiently!(self, self.give_link(caller, target, place)).await,
                Err(error) => {
                    Linked { result: Err(error), attributes: None, directory: Wcc::default() }
                }
            }
        })
    }

    fn readdir<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        cookie: Cookie,
        budget: Budget,
        wanted: Wanted,
    ) -> MaybeReady<'a, Result<Page, FsError>> {
        patiently!(self, self.list(caller, directory, cookie, budget, wanted))
    }

    fn space<'a>(
        &'a self,
        _caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Space, Attributes), FsError>> {
        patiently!(self, self.room(object))
    }

    fn commit<'a>(
        &'a self,
        _caller: &'a Caller,
        object: &'a ObjectId,
        _offset: u64,
        _length: u32,
    ) -> MaybeReady<'a, Changed<Committed>> {
        patiently!(self, self.commit_content(object))
    }
}

impl Coherence for Metaserver {
    fn acquire<'a>(
        &'a self,
        object: &'a ObjectId,
        guard: Guard,
        opportunistic: bool,
    ) -> MaybeReady<'a, Result<(), FsError>> {
        MaybeReady::later(self.lend(object, guard, opportunistic))
    }

    fn exclusive<'a>(
        &'a self,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<ExclusiveAccess, FsError>> {
        MaybeReady::later(self.keep_alone(object))
    }
}
