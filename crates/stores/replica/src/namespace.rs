//! Creation, removal, rename and link.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "an answer of any other kind is no result of the request"
)]

use leasehold_base::units::{FileId, FileSystemId};
use leasehold_core::replica::moves::DEPTH_MAX;
use leasehold_core::replica::{Place as At, Stamp, home};
use leasehold_fs::permission::{SET_GROUP, access, may_set, rights, sticky_forbids};
use leasehold_fs::{
    Attributes, Caller, Changed, FileType, Found, FsError, Linked, NewFile, NewNode, Place,
    Renamed, SUPERUSER, SetAttributes, Wcc,
};
use leasehold_wire::nfs3;

use crate::attributes::{Setting, set, wanted};
use crate::lookup::{id, object};
use crate::message::Answer;
use crate::metafile::{Metafile, wire_type};
use crate::node::Node;
use crate::{FILE_BYTES_MAX, Metaserver};

/// The maximum number of names of one object.
pub(crate) const LINK_MAX: u32 = 1000;

/// The maximum number of attempts to create or rename if other clients use the same name at the
/// same time.
const TRIES: usize = 5;

const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
const SYMLINK_MODE: u32 = 0o777;

/// The parameters of a new object.
struct New<'a> {
    file_type: FileType,
    mode: u32,
    device: nfs3::Device,
    content: Vec<u8>,
    set: &'a SetAttributes,
    verifier: Option<[u8; 8]>,
}

pub(crate) fn found(metafile: &Metafile) -> Found {
    Found { object: id(metafile.object), attributes: metafile.seen(), directory: None }
}

/// Returns the directory and the name of a [`Place`] as a key of this store.
pub(crate) fn at(place: Place<'_>) -> Result<At, FsError> {
    let name = place.name.as_bytes().to_vec();
    if name.len() > crate::store::NAME_BYTES_MAX as usize {
        return Err(FsError::NameTooLong);
    }
    Ok(At { directory: object(&place.directory)?, name })
}

impl Metaserver {
    /// Returns the attributes of a directory; fails if the caller has no search permission.
    pub(crate) async fn searched(
        &self,
        caller: &Caller,
        directory: FileId,
    ) -> Result<Attributes, FsError> {
        let metafile = self.good(directory).await?;
        if !metafile.is_directory() {
            return Err(FsError::NotDirectory);
        }
        let attributes = metafile.seen();
        let may = rights(&attributes, caller).execute;
        if may { Ok(attributes) } else { Err(FsError::Access) }
    }

    /// Returns the attributes of a directory; fails if the caller may not change names in the
    /// directory.
    async fn changeable(&self, caller: &Caller, directory: FileId) -> Result<Attributes, FsError> {
        let attributes = self.searched(caller, directory).await?;
        let may = access(&attributes, rights(&attributes, caller)).modify;
        if may { Ok(attributes) } else { Err(FsError::Access) }
    }

    /// Returns the attributes of a directory for the reply to a change of names, if this metaserver
    /// is the home of the directory.
    fn directory_after(&self, directory: FileId) -> Wcc {
        let mine = self.with(|node| node.is_mine(directory).then(|| node.view(directory)));
        Wcc { before: None, after: mine.flatten().map(|metafile| metafile.seen()) }
    }

    fn changed<T>(&self, place: Place<'_>, result: Result<T, FsError>) -> Changed<T> {
        let wcc = object(&place.directory).map(|directory| self.directory_after(directory));
        Changed { result, wcc: wcc.unwrap_or_default() }
    }

    pub(crate) async fn create_file(
        &self,
        caller: &Caller,
        place: Place<'_>,
        file: &NewFile,
    ) -> Changed<Found> {
        let result = self.created(caller, place, file).await;
        self.changed(place, result.map(|metafile| found(&metafile)))
    }

    async fn created(
        &self,
        caller: &Caller,
        place: Place<'_>,
        file: &NewFile,
    ) -> Result<Metafile, FsError> {
        let at = at(place)?;
        let directory = self.searched(caller, at.directory).await?;
        let (set, verifier) = file.parts();
        let mut known = self.known(&at);
        for _ in 0..TRIES {
            if let Some(there) = known.take() {
                let there = self.good(there).await;
                if let Ok(there) = there
                    && there.stands_at(&at)
                {
                    return self.take_existing(caller, there, file).await;
                }
            }
            self.changeable(caller, at.directory).await?;
            let content = (self.shared.options.content)().to_vec();
            let file_type = FileType::Regular;
            let device = nfs3::Device::default();
            let new = New { file_type, mode: FILE_MODE, device, content, set: &set, verifier };
            match self.enter(caller, &directory, &at, new).await {
                Err(FsError::AlreadyExists) => {
                    let there = self.find_anew(&at).await?.map(|there| there.object);
                    known = there;
                }
                made => return made,
            }
        }
        Err(FsError::Delay)
    }

    /// Returns the object that has the name according to the objects of this home and the cached
    /// copies, without a call.
    fn known(&self, at: &At) -> Option<FileId> {
        self.with(|node| node.disk.standing_at(at).or_else(|| node.kept_at(at)))
    }

    async fn take_existing(
        &self,
        caller: &Caller,
        there: Metafile,
        file: &NewFile,
    ) -> Result<Metafile, FsError> {
        let seen = there.seen();
        if seen.file_type != FileType::Regular {
            return Err(FsError::AlreadyExists);
        }
        match file {
            NewFile::Unchecked(set) => {
                let changes = SetAttributes { size: set.size, ..SetAttributes::default() };
                may_set(&seen, caller, &changes, FILE_BYTES_MAX)?;
                if changes.size.is_some() {
                    let wanted = wanted(&seen, caller, &changes);
                    return self.set_at_home(there.object, wanted).await;
                }
                Ok(there)
            }
            NewFile::Exclusive { verifier, .. } if there.has_verifier(*verifier) => Ok(there),
            NewFile::Guarded(_) | NewFile::Exclusive { .. } => Err(FsError::AlreadyExists),
        }
    }

    pub(crate) async fn make_node(
        &self,
        caller: &Caller,
        place: Place<'_>,
        node: &NewNode<'_>,
        attributes: &SetAttributes,
    ) -> Changed<Found> {
        let result = self.made(caller, place, node, attributes).await;
        self.changed(place, result.map(|metafile| found(&metafile)))
    }

    async fn made(
        &self,
        caller: &Caller,
        place: Place<'_>,
        node: &NewNode<'_>,
        attributes: &SetAttributes,
    ) -> Result<Metafile, FsError> {
        let at = at(place)?;
        let directory = self.searched(caller, at.directory).await?;
        if let Some(there) = self.known(&at)
            && self.good(there).await.is_ok_and(|there| there.stands_at(&at))
        {
            return Err(FsError::AlreadyExists);
        }
        self.changeable(caller, at.directory).await?;
        let mut set = SetAttributes { size: None, ..*attributes };
        let plain = |file_type| (file_type, FILE_MODE, nfs3::Device::default(), Vec::new());
        let device = |file_type, of: leasehold_fs::Device| {
            (file_type, FILE_MODE, nfs3::Device { major: of.major, minor: of.minor }, Vec::new())
        };
        let (file_type, mode, device, content) = match *node {
            NewNode::Directory => {
                (FileType::Directory, DIRECTORY_MODE, nfs3::Device::default(), Vec::new())
            }
            NewNode::Symlink(target) => {
                set.mode = None;
                let none = nfs3::Device::default();
                (FileType::Symlink, SYMLINK_MODE, none, target.to_vec())
            }
            NewNode::BlockDevice(_) | NewNode::CharacterDevice(_) if caller.uid != SUPERUSER => {
                return Err(FsError::NotOwner);
            }
            NewNode::BlockDevice(of) => device(FileType::BlockDevice, of),
            NewNode::CharacterDevice(of) => device(FileType::CharacterDevice, of),
            NewNode::Socket => plain(FileType::Socket),
            NewNode::Fifo => plain(FileType::Fifo),
        };
        let new = New { file_type, mode, device, content, set: &set, verifier: None };
        self.enter(caller, &directory, &at, new).await
    }

    /// Creates an object with its home here and a name that must be free.
    async fn enter(
        &self,
        caller: &Caller,
        above: &Attributes,
        at: &At,
        new: New<'_>,
    ) -> Result<Metafile, FsError> {
        let inherited = above.mode.bits() & SET_GROUP;
        let gid = if inherited != 0 { above.gid } else { caller.gid };
        let is_directory = new.file_type == FileType::Directory;
        let now = self.shared.outside.wall();
        let Some(object) = self.with(Node::new_id) else { return Err(FsError::Delay) };
        let attributes = nfs3::Attributes {
            file_type: wire_type(new.file_type),
            mode: new.mode,
            link_count: 1,
            uid: caller.uid,
            gid,
            size: 0,
            used: 0,
            device: new.device,
            file_system: FileSystemId(self.shared.options.owner.file_system),
            file_id: object,
            accessed: now.into(),
            modified: now.into(),
            changed: now.into(),
        };
        let (version, places, content) = (Stamp::default(), Vec::new(), new.content);
        let mut metafile = Metafile { object, version, places, attributes, content };
        let asked = SetAttributes { size: None, ..*new.set };
        may_set(&metafile.seen(), caller, &asked, FILE_BYTES_MAX)?;
        let wanted = wanted(&metafile.seen(), caller, &asked);
        set(&mut metafile, &wanted, now);
        if is_directory {
            metafile.attributes.mode |= inherited;
        }
        if let Some(verifier) = new.verifier {
            metafile.keep_verifier(verifier);
        }
        let to = Some(at.clone());
        let born = metafile.clone();
        let answer = self.run(|node, ticket| {
            node.births.insert(object, metafile);
            let over = None;
            let change = home::Change { object, is_directory, from: None, to, over };
            node.home(home::Event::Change(ticket, change));
        });
        let answer = answer.await;
        let made = self.with(|node| {
            node.births.remove(&object);
            node.suspect(at.directory);
            node.view(object)
        });
        match answer {
            // `made` is `None` if another client has already removed the object. Report success
            // nevertheless: after an error the client would create a second object, although its
            // program creates only one.
            Answer::Version(version) => {
                Ok(made.unwrap_or(Metafile { version, places: vec![at.clone()], ..born }))
            }
            Answer::Exists => Err(FsError::AlreadyExists),
            Answer::Gone => Err(FsError::Stale),
            _ => Err(self.not_named_yet(at).await),
        }
    }

    /// Returns the object of a name; fails if the caller may not remove the name from the
    /// directory.
    async fn removable(&self, caller: &Caller, at: &At) -> Result<Metafile, FsError> {
        self.searched(caller, at.directory).await?;
        let there = self.find(at).await?.ok_or(FsError::NotFound)?;
        let directory = self.changeable(caller, at.directory).await?;
        if sticky_forbids(&directory, &there.seen(), caller) {
            return Err(FsError::Access);
        }
        Ok(there)
    }

    pub(crate) async fn remove_name(
        &self,
        caller: &Caller,
        place: Place<'_>,
        directory: bool,
    ) -> Changed<()> {
        let result = async {
            let at = at(place)?;
            let there = self.removable(caller, &at).await?;
            match (directory, there.is_directory()) {
                (false, true) => return Err(FsError::IsDirectory),
                (true, false) => return Err(FsError::NotDirectory),
                (true, true) | (false, false) => {}
            }
            self.place(there.object, Some(&at), None, None).await
        };
        let result = result.await;
        self.changed(place, result)
    }

    pub(crate) async fn give_name(
        &self,
        caller: &Caller,
        from: Place<'_>,
        to: Place<'_>,
    ) -> Renamed {
        let result = self.renamed(caller, from, to).await;
        let [from, to] = [from, to].map(|place| self.changed(place, Ok(())).wcc);
        Renamed { result, from, to }
    }

    async fn renamed(
        &self,
        caller: &Caller,
        from: Place<'_>,
        to: Place<'_>,
    ) -> Result<(), FsError> {
        let (from, to) = (at(from)?, at(to)?);
        let source = self.removable(caller, &from).await?;
        self.changeable(caller, to.directory).await?;
        // A rename into another directory changes the `..` entry of the renamed directory, so the
        // caller needs write permission for the directory itself.
        let moves = source.is_directory() && from.directory != to.directory;
        if moves && !rights(&source.seen(), caller).write {
            return Err(FsError::Access);
        }
        let mut replaced = self.find(&to).await?;
        let mut over = None;
        for _ in 0..TRIES {
            if let Some(replaced) = replaced.take() {
                if replaced.object == source.object {
                    return Ok(());
                }
                self.removable(caller, &to).await?;
                match (source.is_directory(), replaced.is_directory()) {
                    (false, true) => return Err(FsError::IsDirectory),
                    (true, false) => return Err(FsError::NotDirectory),
                    (true, true) | (false, false) => {}
                }
                if source.is_directory() && self.is_within(to.directory, source.object).await? {
                    return Err(FsError::Invalid);
                }
                // Replace the object in one change of its home, or as a two-phase rename for a file
                // of another home. A directory of another home is removed in a separate change
                // before the rename: it is empty, so no contents are lost if the rename fails.
                if !source.is_directory() || self.has_one_home(source.object, replaced.object) {
                    over = Some(replaced.object);
                } else {
                    match self.place(replaced.object, Some(&to), None, None).await {
                        Ok(()) | Err(FsError::NotFound) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            match self.place(source.object, Some(&from), Some(&to), over.take()).await {
                Err(FsError::AlreadyExists) => replaced = self.find_anew(&to).await?,
                done => return done,
            }
        }
        Err(FsError::Delay)
    }

    /// Returns true if both objects have the same home, which can replace one by the other in one
    /// change.
    fn has_one_home(&self, one: FileId, other: FileId) -> bool {
        self.with(|node| node.homes.of(one) == node.homes.of(other))
    }

    /// Returns true if a directory is `above` or one of its descendants, according to cached
    /// metafiles. The home of the root verifies this again when it grants the permission for the
    /// rename.
    async fn is_within(&self, mut directory: FileId, above: FileId) -> Result<bool, FsError> {
        for _ in 0..DEPTH_MAX {
            if directory == above {
                return Ok(true);
            }
            let parent = self.good(directory).await?.parent();
            if parent == directory {
                return Ok(false);
            }
            directory = parent;
        }
        Err(FsError::Io)
    }

    pub(crate) async fn give_link(
        &self,
        caller: &Caller,
        target: FileId,
        place: Place<'_>,
    ) -> Linked {
        let result = async {
            let at = at(place)?;
            self.changeable(caller, at.directory).await?;
            let there = self.good(target).await?;
            if there.is_directory() {
                return Err(FsError::Invalid);
            }
            if there.attributes.link_count >= LINK_MAX {
                return Err(FsError::TooManyLinks);
            }
            self.place(target, None, Some(&at), None).await.map_err(|error| match error {
                // `place` reports that the object or the directory does not exist, and LINK names
                // both by handle. So the handle is stale.
                FsError::NotFound => FsError::Stale,
                error => error,
            })
        };
        let result = result.await;
        let attributes = self.good(target).await.ok().map(|target| target.seen());
        Linked { result, attributes, directory: self.changed(place, Ok(())).wcc }
    }

    /// Sends a change of attributes to the object's home, and returns the new metafile.
    pub(crate) async fn set_at_home(
        &self,
        object: FileId,
        wanted: Setting,
    ) -> Result<Metafile, FsError> {
        self.released(object).await?;
        let ask = crate::message::Ask::Change { object, wanted, wrote: None };
        match self.ask_home(object, ask).await {
            Answer::Version(version) => {
                self.with(|node| node.has_changed(object, version, None));
                self.fresh(object).await
            }
            Answer::Gone => Err(FsError::Stale),
            _ => Err(self.not_yet(&[object])),
        }
    }
}
