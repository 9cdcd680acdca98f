//! CREATE, MKDIR, SYMLINK and MKNOD.
//!
//! An exclusive create stores its verifier with the file, so that the store recognises a retry even
//! after a restart. The verifier is in an extended user attribute, which the next SETATTR removes.
//! On a file system without such attributes the verifier is stored as the file's times, as is usual
//! in NFS servers; the client then sets the times. On such a file system an exclusive create cannot
//! set times itself.

use std::os::fd::AsFd;
use std::sync::Arc;

use leasehold_base::units::FileTime;
use leasehold_fs::{
    Attributes, Caller, Changed, Device, FileType, Found, FsError, MaybeReady, Mode, NewFile,
    NewNode, SetAttributes, SetTime,
};
use rustix::fs::{
    AtFlags, FileType as Kind, OFlags, Timespec, Timestamps, XattrFlags, fsetxattr, futimens,
    getxattr, linkat, makedev, mkdirat, mknodat, openat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::change_detector::Trace;
use crate::errors::meaning;
use crate::names::{LOOK_TRIES, Spot};
use crate::object::{Descriptor, Object, Reach};
use crate::sync::Change;
use crate::volume::{NAME, Volume};

/// The default mode of a file or directory: access for the owner only.
const FILE_MODE: Mode = Mode::from_bits(0o600);
const DIRECTORY_MODE: Mode = Mode::from_bits(0o700);

/// The user attribute that holds the verifier of an exclusive create.
pub(crate) const EXCLUSIVE: &str = "user.leasehold.exclusive";

/// The flags for the creation of a file.
const NEW: OFlags = OFlags::RDWR
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The result of CREATE.
enum Made {
    /// A new file.
    New(Found),
    /// A file that existed already.
    Old(Found),
}

/// The reason why the store cannot create an exclusive file.
enum Unmade {
    /// The kernel refused the creation.
    Refused(Errno),
    /// An attribute cannot be set.
    Attributes(FsError),
}

impl Volume {
    /// Creates a regular file, or uses the existing one.
    pub(crate) fn create(
        self: &Arc<Self>,
        caller: &Caller,
        spot: Spot<'_>,
        file: &NewFile,
    ) -> MaybeReady<'static, Changed<Found>> {
        let trace = Trace::Comes(spot.name.as_bytes());
        let (Changed { result, mut wcc }, change) =
            self.change_names(caller, spot, trace, |directory, change| {
                self.create_as_caller(caller, spot, directory, file, change)
            });
        if matches!(result, Ok(Made::Old(_))) {
            wcc = self.unchanged(spot.directory);
        }
        match (result, file) {
            (Ok(Made::Old(found)), NewFile::Unchecked(SetAttributes { size: Some(size), .. })) => {
                // The program that created the name may not have synced it. So sync the directory
                // as well as the file.
                let named = change.settle(Changed { result: Ok(()), wcc });
                let cut = self.cut(caller, found, *size);
                MaybeReady::later(async move {
                    let Changed { result: named, wcc } = named.await;
                    let cut = cut.await;
                    Changed { result: named.and(cut), wcc }
                })
            }
            (Ok(Made::New(found) | Made::Old(found)), _) => {
                change.settle(Changed { result: Ok(found), wcc })
            }
            (Err(error), _) => MaybeReady::now(Changed { result: Err(error), wcc }),
        }
    }

    /// Sets the requested size of a file that existed already.
    fn cut(
        self: &Arc<Self>,
        caller: &Caller,
        found: Found,
        size: u64,
    ) -> MaybeReady<'static, Result<Found, FsError>> {
        let changes = SetAttributes { size: Some(size), ..SetAttributes::default() };
        let changed = match self.object(&found.object) {
            Ok(object) => self.setattr(caller, &object, &changes, None),
            Err(_) => MaybeReady::now(Changed::failed(FsError::Stale)),
        };
        changed.map(move |Changed { result, wcc }| {
            let attributes = wcc.after.unwrap_or(found.attributes);
            result.map(|()| Found { attributes, ..found })
        })
    }

    fn create_as_caller(
        &self,
        caller: &Caller,
        spot: Spot<'_>,
        directory: &Descriptor,
        file: &NewFile,
        change: &mut Change,
    ) -> Result<Made, FsError> {
        let (attributes, verifier) = file.parts();
        let name = spot.name.as_bytes();
        let mode = kernel_mode(attributes.mode.unwrap_or(FILE_MODE));
        let rest = SetAttributes {
            mode: None,
            // A new file already has the size zero, so only another size is a change.
            size: attributes.size.filter(|&size| size > 0),
            ..attributes
        };
        for _ in 0..LOOK_TRIES {
            let opened = match verifier {
                None => openat(directory, name, NEW, mode)
                    .map(|file| (Descriptor::new(file, Reach::Write), rest))
                    .map_err(Unmade::Refused),
                Some(verifier) => self
                    .open_marked(caller, directory, name, verifier, &attributes)
                    .map(|file| (file, SetAttributes::default())),
            };
            match opened {
                Ok((opened, rest)) => {
                    let is_plain = verifier.is_none() && rest == SetAttributes::default();
                    let found = self.adopt(caller, spot, directory, opened, &rest)?;
                    if !(is_plain && self.syncs_names) {
                        self.join_new(&found, change);
                    }
                    return Ok(Made::New(found));
                }
                Err(Unmade::Refused(Errno::EXIST)) => {
                    match self.take_old(caller, spot, directory, file) {
                        // A local program removed the file after the attempt to create it: try again.
                        Err(FsError::NotFound) => {}
                        taken => return taken,
                    }
                }
                Err(Unmade::Refused(errno)) => return Err(meaning(errno)),
                Err(Unmade::Attributes(error)) => return Err(error),
            }
        }
        Err(FsError::Delay)
    }

    /// Creates a file with a verifier and attributes. If possible, the file gets both before its
    /// name. Then a crash in between leaves no named file without the verifier, which a retry of
    /// the client would not recognise.
    fn open_marked(
        &self,
        caller: &Caller,
        directory: &Descriptor,
        name: &[u8],
        verifier: [u8; 8],
        attributes: &SetAttributes,
    ) -> Result<Descriptor, Unmade> {
        const UNNAMED: OFlags = OFlags::RDWR.union(OFlags::TMPFILE).union(OFlags::CLOEXEC);
        let mode = kernel_mode(FILE_MODE);
        let unnamed = openat(directory, c".", UNNAMED, mode).map_err(Unmade::Refused);
        let unnamed = unnamed.and_then(|file| {
            let file = Descriptor::new(file, Reach::Write);
            self.mark(caller, &file, verifier, attributes)?;
            self.acting.as_caller(caller).map_err(Unmade::Attributes)?;
            let own = Self::own_name(&file);
            linkat(&self.own_descriptors, own, directory, name, AtFlags::SYMLINK_FOLLOW)
                .map_err(Unmade::Refused)?;
            Ok(file)
        });
        match unnamed {
            Ok(_) | Err(Unmade::Refused(Errno::EXIST) | Unmade::Attributes(_)) => unnamed,
            Err(Unmade::Refused(_)) => {
                let file = openat(directory, name, NEW, mode).map_err(Unmade::Refused)?;
                let file = Descriptor::new(file, Reach::Write);
                let marked = self.mark(caller, &file, verifier, attributes);
                if marked.is_err() && self.acting.as_caller(caller).is_ok() {
                    // If the name cannot be removed, the client receives the error nevertheless,
                    // and finds the file.
                    let _ = unlinkat(directory, name, AtFlags::empty());
                }
                marked.map(|()| file)
            }
        }
    }

    /// Stores the verifier of an exclusive create with its file, and sets the attributes. The
    /// attribute with the verifier comes first, because the mode may deny writing to the owner; the
    /// times with the verifier come last, because they are times of the file.
    fn mark(
        &self,
        caller: &Caller,
        file: &Descriptor,
        verifier: [u8; 8],
        attributes: &SetAttributes,
    ) -> Result<(), Unmade> {
        let is_marked = fsetxattr(file, EXCLUSIVE, &verifier, XattrFlags::empty()).is_ok();
        let sets_times = [attributes.accessed, attributes.modified] != [SetTime::Keep; 2];
        if sets_times && !is_marked {
            return Err(Unmade::Attributes(FsError::NotSupported));
        }
        if *attributes != SetAttributes::default() {
            let before = self.attributes_at(file, b"").map_err(Unmade::Attributes)?;
            self.apply(caller, file, &before, attributes).map_err(Unmade::Attributes)?;
        }
        if is_marked { Ok(()) } else { mark_times(file, verifier).map_err(Unmade::Refused) }
    }

    /// Handles a name that already exists.
    fn take_old(
        &self,
        caller: &Caller,
        spot: Spot<'_>,
        directory: &Descriptor,
        file: &NewFile,
    ) -> Result<Made, FsError> {
        let name = spot.name.as_bytes();
        let (object, attributes) = match self.look(directory, name) {
            Err(FsError::Access) if self.leads_elsewhere(spot.directory, name) => {
                return Err(FsError::AlreadyExists);
            }
            found => found?,
        };
        self.learn(&object, &spot.directory.id, name);
        let is_taken = attributes.file_type == FileType::Regular
            && match file {
                NewFile::Unchecked(_) => true,
                NewFile::Guarded(_) => false,
                NewFile::Exclusive { verifier, .. } => {
                    let file = openat(directory, name, NAME, rustix::fs::Mode::empty())
                        .map_err(meaning)?;
                    self.acting.as_server()?;
                    let is_marked = is_marked(&file, &attributes, *verifier);
                    self.acting.as_caller(caller)?;
                    is_marked
                }
            };
        if is_taken {
            Ok(Made::Old(Found { object, attributes, directory: None }))
        } else {
            Err(FsError::AlreadyExists)
        }
    }

    /// Creates any object other than a regular file.
    pub(crate) fn make(
        &self,
        caller: &Caller,
        spot: Spot<'_>,
        node: &NewNode<'_>,
        attributes: &SetAttributes,
    ) -> MaybeReady<'static, Changed<Found>> {
        let name = spot.name.as_bytes();
        let trace = Trace::Comes(name);
        let (changed, change) = self.change_names(caller, spot, trace, |directory, change| {
            let made = make_node(directory, name, node, attributes.mode).map_err(meaning)?;
            let opened = openat(directory, name, NAME, rustix::fs::Mode::empty());
            let opened = opened.map_err(|errno| match errno {
                // A local program removed the object before the store opened it; the client may
                // retry.
                Errno::NOENT => FsError::Delay,
                other => meaning(other),
            })?;
            let rest = SetAttributes { mode: made, size: None, ..*attributes };
            let is_plain = rest == SetAttributes::default();
            let opened = Descriptor::new(opened, Reach::Name);
            let found = self.adopt(caller, spot, directory, opened, &rest)?;
            if !(is_plain && self.syncs_names) {
                self.join_new(&found, change);
            }
            Ok(found)
        });
        change.settle(changed)
    }

    /// Sets the remaining attributes of a new object, and keeps the object open; removes the object
    /// if an attribute cannot be set.
    fn adopt(
        &self,
        caller: &Caller,
        spot: Spot<'_>,
        directory: &Descriptor,
        opened: Descriptor,
        rest: &SetAttributes,
    ) -> Result<Found, FsError> {
        // Query by an empty name: a local program may have removed the name already, and
        // `attributes_of` fails for an object without a name.
        let mut attributes = self.attributes_at(&opened, b"")?;
        if *rest != SetAttributes::default() {
            if let Err(error) = self.apply(caller, &opened, &attributes, rest) {
                self.acting.as_caller(caller)?;
                let is_directory = attributes.file_type == FileType::Directory;
                let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
                unlinkat(directory, spot.name.as_bytes(), flags).map_err(meaning)?;
                return Err(error);
            }
            attributes = self.attributes_at(&opened, b"")?;
        }
        let id = self.handles.of(&opened).map_err(meaning)?;
        self.learn(&id, &spot.directory.id, spot.name.as_bytes());
        // An object without a name must not stay open, because its blocks would stay in use.
        if attributes.link_count > 0 {
            self.keep_seen(id, opened, &attributes);
        }
        Ok(Found { object: id, attributes, directory: None })
    }

    /// Joins the sync of a new object.
    fn join_new(&self, found: &Found, change: &mut Change) {
        match self.open_object(&found.object) {
            Some(object) => self.join_object(&object, change),
            None => self.join_all(change),
        }
    }

    /// Removes the verifier of an exclusive create, after the client's SETATTR shows that the
    /// client has received the reply.
    pub(crate) fn forget_exclusive(&self, object: &Object) {
        if object.file_type == FileType::Regular && object.may_be_exclusive() {
            let own = Self::own_path(&*object.descriptor());
            // Usually the attribute does not exist. If it cannot be removed, it causes no harm:
            // ignore the error.
            if self.acting.as_server().is_ok() {
                let _ = rustix::fs::removexattr(own, EXCLUSIVE);
            }
            object.note_not_exclusive();
        }
    }
}

fn kernel_mode(mode: Mode) -> rustix::fs::Mode {
    rustix::fs::Mode::from_raw_mode(mode.bits())
}

/// Creates a node. Returns the mode if the kernel ignored some of its bits, so that the caller sets
/// it again.
fn make_node(
    directory: &Descriptor,
    name: &[u8],
    node: &NewNode<'_>,
    mode: Option<Mode>,
) -> Result<Option<Mode>, Errno> {
    // The kernel's mkdir ignores the set-user-ID and set-group-ID bits, and its mknod uses all
    // bits.
    const DROPPED: u32 = 0o6000;
    let device = |Device { major, minor }| makedev(major, minor);
    let special = |kind, device| {
        mknodat(directory, name, kind, kernel_mode(mode.unwrap_or(FILE_MODE)), device)
    };
    match *node {
        NewNode::Directory => {
            mkdirat(directory, name, kernel_mode(mode.unwrap_or(DIRECTORY_MODE)))?;
            return Ok(mode.filter(|mode| mode.bits() & DROPPED != 0));
        }
        NewNode::Symlink(target) => symlinkat(target, directory, name)?,
        NewNode::BlockDevice(number) => special(Kind::BlockDevice, device(number))?,
        NewNode::CharacterDevice(number) => special(Kind::CharacterDevice, device(number))?,
        NewNode::Socket => special(Kind::Socket, 0)?,
        NewNode::Fifo => special(Kind::Fifo, 0)?,
    }
    Ok(None)
}

/// Stores the verifier of an exclusive create in the times of its file.
fn mark_times(file: &Descriptor, verifier: [u8; 8]) -> Result<(), Errno> {
    let (accessed, modified) = times_of(verifier);
    let timespec = |time: FileTime| Timespec { tv_sec: time.seconds, tv_nsec: 0 };
    let times =
        Timestamps { last_access: timespec(accessed), last_modification: timespec(modified) };
    futimens(file, &times)
}

/// Returns true if a file has the verifier.
fn is_marked(file: impl AsFd, attributes: &Attributes, verifier: [u8; 8]) -> bool {
    let mut found = [0; 9];
    match getxattr(Volume::own_path(file), EXCLUSIVE, &mut found[..]) {
        Ok(length) => found[..length] == verifier,
        Err(_) => (attributes.accessed, attributes.modified) == times_of(verifier),
    }
}

/// Encodes a verifier as two times. Each has 31 bits of seconds, which every file system can store.
fn times_of(verifier: [u8; 8]) -> (FileTime, FileTime) {
    let [a, b, c, d, e, f, g, h] = verifier;
    let time = |bytes| {
        let seconds = i64::from(u32::from_be_bytes(bytes) & i32::MAX.cast_unsigned());
        FileTime { seconds, nanoseconds: 0 }
    };
    (time([a, b, c, d]), time([e, f, g, h]))
}
