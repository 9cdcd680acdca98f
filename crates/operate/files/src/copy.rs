//! Copies of file trees, from one place to another.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
    PermissionsExt as _, symlink,
};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use leasehold_session as session;
use leasehold_shell::client::Address;
use leasehold_wire::nfs3::create::How;
use leasehold_wire::nfs3::{FileType, Handle, SetAttributes, SetTime, Status, Time};
use rustix::fs::{Mode, OFlags};

use crate::file::{self, Reading, Sink, Source};
use crate::list;
use crate::server::{is_name, is_there_already};
use crate::tally::Tally;
use crate::{Cause, Copied, Error, Failure, Follow, Place, Remote, Servers, Watch};

/// The number of files that are copied in parallel: enough to hide the round-trip time, and few
/// enough for the limit on open files.
const FILES_MAX: usize = 16;

/// The maximum depth of a directory: half of the maximum number of directories in a path of Linux.
const DEPTH_MAX: u32 = 1024;

/// The arguments of a copy.
#[derive(Clone, Debug)]
pub struct Copy {
    /// The sources.
    pub sources: Vec<Place>,
    /// An existing directory, or the name of the copy.
    pub destination: Place,
    /// True to copy directories with all their contents.
    pub recursive: bool,
    /// True to copy modes and times, but not the set-user-id and set-group-id bits.
    pub preserve: bool,
}

/// The source of a copy: an object, and its path for messages.
struct From {
    place: Place,
    object: Object,
    /// True if the command line names the object itself; false if it names a directory above the
    /// object.
    is_named: bool,
}

enum Object {
    Here(PathBuf, fs::Metadata),
    There(Remote),
}

/// A destination directory.
#[derive(Clone)]
enum Directory {
    Here(PathBuf),
    There(Remote),
}

/// One object to copy.
struct Item {
    from: From,
    into: Directory,
    /// The path of the destination directory, for messages.
    at: Place,
    name: Vec<u8>,
    /// The directories of the source above the object, up to the directory on the command line.
    above: Option<Rc<Above>>,
}

/// A directory on a server, with a link to the directory above it.
struct Above {
    handle: Handle,
    depth: u32,
    above: Option<Rc<Self>>,
}

impl Above {
    /// Creates the entry of a directory below another directory.
    ///
    /// # Errors
    /// The directory contains itself, or its depth exceeds `DEPTH_MAX`.
    fn below(above: Option<Rc<Self>>, handle: Handle) -> Result<Rc<Self>, Error> {
        let depth = above.as_ref().map_or(0, |it| it.depth + 1);
        let mut further = above.as_ref();
        while let Some(directory) = further {
            if directory.handle == handle {
                return Err(Error::Loop);
            }
            further = directory.above.as_ref();
        }
        if depth > DEPTH_MAX {
            return Err(Error::Loop);
        }
        Ok(Rc::new(Self { handle, depth, above }))
    }
}

/// A directory whose mode and times are set after its contents are copied, because copying changes
/// them.
struct Kept {
    directory: Directory,
    mode: u32,
    times: [Time; 2],
}

/// The result of copying one object: the objects below it that remain to copy, and a directory
/// whose mode and times must be set at the end.
type Came = Result<(Vec<Item>, Option<Kept>), String>;

/// Copies files between this machine and servers. An object that cannot be copied does not end the
/// copy: `watch` receives the reason, and the result counts the object. All data that the copy wrote
/// to a server is on the server's stable storage at the end.
///
/// # Errors
/// The copy cannot begin.
pub async fn copy(servers: &Servers, wanted: &Copy, watch: &dyn Watch) -> Result<Copied, Failure> {
    let is_here = |place: &Place| matches!(place, Place::Here(_));
    if is_here(&wanted.destination) && wanted.sources.iter().any(is_here) {
        return Err(Failure::NoServer);
    }
    let tally = Tally::new(watch);
    Work { servers, wanted, tally: &tally, umask: umask() }.run().await?;
    Ok(tally.total())
}

/// The state of one copy.
struct Work<'a> {
    servers: &'a Servers,
    wanted: &'a Copy,
    tally: &'a Tally<'a>,
    /// The permission bits that new objects must not have.
    umask: u32,
}

impl Work<'_> {
    async fn run(&self) -> Result<(), Failure> {
        let mut waiting = self.first_items().await?;
        waiting.reverse();
        let mut running = FuturesUnordered::new();
        let mut kept = Vec::new();
        loop {
            while running.len() < FILES_MAX
                && let Some(item) = waiting.pop()
            {
                running.push(self.copy(item));
            }
            match running.next().await {
                None => break,
                Some(Ok((more, directory))) => {
                    waiting.extend(more.into_iter().rev());
                    kept.extend(directory);
                }
                Some(Err(why)) => self.failed(&why),
            }
        }
        // Set the times of deeper directories first, because a change in a directory updates the
        // times of its parent.
        for Kept { directory, mode, times } in kept.into_iter().rev() {
            if let Err(error) = keep(&directory, mode, times).await {
                self.failed(&format!("cannot set mode and times: {error}"));
            }
        }
        Ok(())
    }

    fn failed(&self, why: &str) {
        self.tally.complain(why);
        self.tally.count(|copied| copied.failed += 1);
    }

    /// Returns the sources on the command line, each with its destination.
    async fn first_items(&self) -> Result<Vec<Item>, Failure> {
        let (into, name) = self.destination().await?;
        if name.is_some() && self.wanted.sources.len() > 1 {
            return Err(Failure::at(&self.wanted.destination, Cause::Several));
        }
        let mut items = Vec::new();
        for source in &self.wanted.sources {
            let from = self.source(source).await?;
            if from.file_type() == FileType::Directory {
                if !self.wanted.recursive {
                    return Err(Failure::at(source, Cause::Directory));
                }
                self.refuse_inside(source)?;
            }
            let (at, own) = match (&name, &self.wanted.destination) {
                (Some(_), Place::Here(path)) => {
                    (Place::Here(path.parent().unwrap_or(path).to_owned()), None)
                }
                (Some(_), Place::There(address)) => (Place::There(parent_of(address).0), None),
                (None, destination) => (destination.clone(), name_of(source)),
            };
            let Some(name) = name.clone().or(own) else {
                return Err(Failure::at(source, Cause::Unnamed));
            };
            items.push(Item { from, into: into.clone(), at, name, above: None });
        }
        Ok(items)
    }

    async fn source(&self, place: &Place) -> Result<From, Failure> {
        let object = match place {
            Place::Here(path) => {
                let metadata = fs::metadata(path).map_err(|error| Failure::at(place, error))?;
                Object::Here(path.clone(), metadata)
            }
            Place::There(address) => Object::There(self.servers.find(address, Follow::Last).await?),
        };
        Ok(From { place: place.clone(), object, is_named: true })
    }

    /// Returns the destination directory, and the name of the copy if the command gives one.
    async fn destination(&self) -> Result<(Directory, Option<Vec<u8>>), Failure> {
        let destination = &self.wanted.destination;
        match destination {
            Place::Here(path) if path.is_dir() => Ok((Directory::Here(path.clone()), None)),
            Place::Here(path) => {
                let unnamed = || Failure::at(destination, Cause::NoName);
                let name = path.file_name().ok_or_else(unnamed)?;
                let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
                let parent = parent.unwrap_or(Path::new("."));
                if !parent.is_dir() {
                    return Err(Failure::at(destination, Cause::NoParent));
                }
                Ok((Directory::Here(parent.to_owned()), Some(name.as_bytes().to_vec())))
            }
            Place::There(address) => {
                let (parent, name) = parent_of(address);
                let Some(name) = name else {
                    let root = self.servers.find(address, Follow::Last).await?;
                    return Ok((Directory::There(root), None));
                };
                // The client does not know which part of the path is the export and which is a path
                // below it. So look up the whole path first, and the parent directory only if that
                // fails.
                let whole = self.servers.find(address, Follow::Last).await;
                if let Ok(it) = &whole
                    && it.file_type() == FileType::Directory
                {
                    return Ok((Directory::There(it.clone()), None));
                }
                match self.servers.find(&parent, Follow::Last).await {
                    Ok(it) => Ok((Directory::There(it), Some(name))),
                    // Report the error for the whole path, if there is one, because it is more
                    // specific.
                    Err(error) => Err(whole.err().unwrap_or(error)),
                }
            }
        }
    }

    /// Rejects the copy of a directory into itself, because it would never end.
    fn refuse_inside(&self, source: &Place) -> Result<(), Failure> {
        if let (Place::There(from), Place::There(to)) = (source, &self.wanted.destination)
            && (from.host == to.host && from.port == to.port)
        {
            let (from, to): (Vec<_>, Vec<_>) = (from.names().collect(), to.names().collect());
            if to.starts_with(&from) {
                return Err(Failure::at(source, Cause::Inside));
            }
        }
        Ok(())
    }

    async fn copy(&self, item: Item) -> Came {
        let place = item.from.place.clone();
        let copied = match item.from.file_type() {
            FileType::Regular => self.copy_file(item).await.map(|()| (Vec::new(), None)),
            FileType::Directory => self.copy_directory(item).await,
            FileType::Symlink => self.copy_link(item).await.map(|()| (Vec::new(), None)),
            // A named pipe or device on the command line is read to its end: the copy is a file
            // with the data.
            FileType::BlockDevice | FileType::CharacterDevice | FileType::Fifo
                if item.from.is_named_here() =>
            {
                self.copy_stream(item).await.map(|()| (Vec::new(), None))
            }
            FileType::BlockDevice
            | FileType::CharacterDevice
            | FileType::Socket
            | FileType::Fifo => {
                self.tally.complain(&format!("{place}: skipped, because it is not a file"));
                self.tally.count(|copied| copied.skipped += 1);
                Ok((Vec::new(), None))
            }
        };
        copied.map_err(|error| format!("{place}: {error}"))
    }

    async fn copy_file(&self, item: Item) -> Result<(), Error> {
        let (mode, times) = (item.from.mode(), item.from.times());
        let sink = match &item.into {
            Directory::Here(path) => {
                let path = path.join(OsString::from_vec(item.name));
                let mut options = OpenOptions::new();
                options.write(true).create(true).truncate(true).mode(mode & 0o777);
                if self.wanted.recursive {
                    // A malicious server could list a link and a file with the same name. Do not
                    // follow a link, so that the data of the file cannot go to the target of the
                    // link.
                    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
                }
                Sink::Local(options.open(path)?)
            }
            Directory::There(directory) => {
                let wanted = self.made(mode);
                Sink::Remote(create(directory, &item.name, wanted, &item.from.object).await?)
            }
        };
        let source = match item.from.object {
            Object::Here(path, _) => Source::Local(fs::File::open(path)?),
            Object::There(remote) => Source::Remote(remote),
        };
        let reading = Reading::new(source, self.servers.in_flight());
        file::copy(&reading, &sink, self.tally).await?;
        if self.wanted.preserve {
            match &sink {
                Sink::Local(file) => {
                    let times = times.map(system_time);
                    let set = fs::FileTimes::new().set_accessed(times[0]).set_modified(times[1]);
                    file.set_times(set)?;
                    file.set_permissions(fs::Permissions::from_mode(kept_of_file(mode)))?;
                }
                Sink::Remote(remote) => set(remote, kept_of_file(mode), times).await?,
            }
        }
        self.tally.count(|copied| copied.files += 1);
        Ok(())
    }

    async fn copy_stream(&self, item: Item) -> Result<(), Error> {
        let (Object::Here(path, _), Directory::There(directory)) = (&item.from.object, &item.into)
        else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput).into());
        };
        // Open the stream first: if that fails, no empty file remains on the server.
        let stream = fs::File::open(path)?;
        let wanted = self.made(0o666);
        let made = create(directory, &item.name, wanted, &item.from.object).await?;
        file::copy_stream(stream, &made, self.servers.in_flight(), self.tally).await?;
        self.tally.count(|copied| copied.files += 1);
        Ok(())
    }

    async fn copy_directory(&self, item: Item) -> Result<(Vec<Item>, Option<Kept>), Error> {
        let above = match &item.from.object {
            Object::There(remote) => Some(Above::below(item.above.clone(), remote.handle)?),
            // A local file system contains no loops, so the depth is not checked.
            Object::Here(..) => None,
        };
        let (mode, times) = (item.from.mode(), item.from.times());
        let made = match &item.into {
            Directory::Here(path) => {
                let path = path.join(OsString::from_vec(item.name.clone()));
                let made = fs::DirBuilder::new().mode(mode & 0o777 | 0o700).create(&path);
                match made {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        // A symbolic link to a directory is not accepted: the copies below it would
                        // go to another directory.
                        if !fs::symlink_metadata(&path)?.is_dir() {
                            return Err(error.into());
                        }
                    }
                    done => done?,
                }
                Directory::Here(path)
            }
            Directory::There(directory) => {
                let wanted = self.made(mode | 0o700);
                Directory::There(make_directory(directory, &item.name, &wanted).await?)
            }
        };
        let at = item.at.within(&item.name);
        let children = self.children(&item.from).await?;
        let item = |(name, from)| {
            let (into, at, above) = (made.clone(), at.clone(), above.clone());
            Item { from, into, at, name, above }
        };
        let items = children.into_iter().map(item).collect();
        self.tally.count(|copied| copied.directories += 1);
        let kept = self.wanted.preserve.then(|| Kept { directory: made.clone(), mode, times });
        Ok((items, kept))
    }

    /// Lists a directory.
    async fn children(&self, from: &From) -> Result<Vec<(Vec<u8>, From)>, Error> {
        let mut children = Vec::new();
        match &from.object {
            Object::Here(path, _) => {
                for entry in fs::read_dir(path)? {
                    let entry = entry?;
                    let object = Object::Here(entry.path(), entry.metadata()?);
                    let place = Place::Here(entry.path());
                    children.push((
                        entry.file_name().into_vec(),
                        From { place, object, is_named: false },
                    ));
                }
            }
            Object::There(remote) => {
                for (name, object) in list::entries(remote, self.servers.in_flight()).await? {
                    let place = from.place.within(&name);
                    match object {
                        Ok(object) => {
                            let object = Object::There(object);
                            let from = From { place, object, is_named: false };
                            children.push((name, from));
                        }
                        Err(error) => self.failed(&format!("{place}: {error}")),
                    }
                }
            }
        }
        Ok(children)
    }

    async fn copy_link(&self, item: Item) -> Result<(), Error> {
        let target = match &item.from.object {
            Object::Here(path, _) => fs::read_link(path)?.into_os_string().into_vec(),
            Object::There(remote) => remote.target().await?,
        };
        match &item.into {
            Directory::Here(path) => {
                let path = path.join(OsString::from_vec(item.name));
                symlink(OsString::from_vec(target), path)?;
            }
            Directory::There(it) => {
                let how = (&target[..], &SetAttributes::default());
                it.nfs().symlink(&it.who, &it.handle, &item.name, how).await?.done()?;
            }
        }
        self.tally.count(|copied| copied.symlinks += 1);
        Ok(())
    }

    /// Returns the attributes of a new object on a server, with the permission bits of the umask
    /// removed.
    fn made(&self, mode: u32) -> SetAttributes {
        SetAttributes { mode: Some(mode & 0o777 & !self.umask), ..SetAttributes::default() }
    }
}

impl From {
    fn file_type(&self) -> FileType {
        match &self.object {
            Object::Here(_, metadata) if metadata.is_file() => FileType::Regular,
            Object::Here(_, metadata) if metadata.is_dir() => FileType::Directory,
            Object::Here(_, metadata) if metadata.is_symlink() => FileType::Symlink,
            Object::Here(_, metadata) if metadata.file_type().is_char_device() => {
                FileType::CharacterDevice
            }
            Object::Here(_, metadata) if metadata.file_type().is_block_device() => {
                FileType::BlockDevice
            }
            Object::Here(_, metadata) if metadata.file_type().is_socket() => FileType::Socket,
            Object::Here(..) => FileType::Fifo,
            Object::There(remote) => remote.file_type(),
        }
    }

    /// Returns true if the command line names the object by a local path.
    fn is_named_here(&self) -> bool {
        self.is_named && matches!(self.object, Object::Here(..))
    }

    fn mode(&self) -> u32 {
        match &self.object {
            Object::Here(_, metadata) => metadata.mode() & 0o7777,
            Object::There(remote) => remote.attributes.mode,
        }
    }

    /// Returns the times of the last access and of the last modification.
    fn times(&self) -> [Time; 2] {
        match &self.object {
            Object::Here(_, metadata) => {
                let time = |seconds: i64, nanoseconds: i64| Time {
                    seconds: u32::try_from(seconds.max(0)).unwrap_or(u32::MAX),
                    nanoseconds: u32::try_from(nanoseconds).unwrap_or(0),
                };
                [
                    time(metadata.atime(), metadata.atime_nsec()),
                    time(metadata.mtime(), metadata.mtime_nsec()),
                ]
            }
            Object::There(remote) => [remote.attributes.accessed, remote.attributes.modified],
        }
    }
}

/// Creates a file on a server, or truncates an existing file; fails if the existing file is the
/// source itself.
async fn create(
    directory: &Remote,
    name: &[u8],
    wanted: SetAttributes,
    from: &Object,
) -> Result<Remote, Error> {
    if let Object::There(source) = from
        && source.mounted.server == directory.mounted.server
        && let Ok(there) = directory.child(name).await
        && there.handle == source.handle
    {
        return Err(Error::Here(io::Error::other("the source and the copy are the same file")));
    }
    let (nfs, who) = (directory.nfs(), &directory.who);
    let how = How::Unchecked(SetAttributes { size: Some(0), ..wanted });
    let made = match nfs.create(who, &directory.handle, name, how).await?.done() {
        Err(Status::AlreadyExists) => {
            let text =
                "an object of this name exists that is not a file: name the target of the link";
            return Err(Error::Here(io::Error::other(text)));
        }
        made => made?,
    };
    let file = match made.object {
        Some(object) => directory.known(object, made.attributes).await?,
        None => directory.child(name).await?,
    };
    if file.attributes.size != 0 {
        // A server may ignore the requested size of 0 for an existing file, so truncate the file
        // explicitly.
        let empty = SetAttributes { size: Some(0), ..SetAttributes::default() };
        nfs.setattr(who, &file.handle, &empty, None).await?.done()?;
    }
    Ok(file)
}

/// Creates a directory on a server, or uses an existing directory.
async fn make_directory(
    parent: &Remote,
    name: &[u8],
    wanted: &SetAttributes,
) -> Result<Remote, Error> {
    let made = parent.nfs().mkdir(&parent.who, &parent.handle, name, wanted).await?.done();
    let made = match made.map_err(session::Error::from) {
        Ok(made) => made.object.map(|object| (object, made.attributes)),
        Err(error) if is_there_already(&error) => None,
        Err(error) => return Err(error.into()),
    };
    let directory = match made {
        Some((object, attributes)) => parent.known(object, attributes).await?,
        None => parent.child(name).await?,
    };
    if directory.file_type() != FileType::Directory {
        return Err(Status::NotDirectory.into());
    }
    Ok(directory)
}

/// Returns the mode bits of a file that its copy keeps. The set-user-id and set-group-id bits are
/// removed, because the copy belongs to the user that runs the command: with the bits, the program
/// would run as that user.
const fn kept_of_file(mode: u32) -> u32 {
    mode & 0o1777
}

/// Returns the mode bits of a directory that its copy keeps: all bits, because the bits of a
/// directory do not change the identity of programs.
const fn kept_of_directory(mode: u32) -> u32 {
    mode & 0o3777
}

async fn keep(directory: &Directory, mode: u32, times: [Time; 2]) -> Result<(), Error> {
    let mode = kept_of_directory(mode);
    match directory {
        Directory::Here(path) => {
            let times = times.map(system_time);
            let set = fs::FileTimes::new().set_accessed(times[0]).set_modified(times[1]);
            fs::File::open(path)?.set_times(set)?;
            Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
        }
        Directory::There(remote) => set(remote, mode, times).await,
    }
}

async fn set(remote: &Remote, mode: u32, [accessed, modified]: [Time; 2]) -> Result<(), Error> {
    let wanted = SetAttributes {
        mode: Some(mode),
        accessed: SetTime::To(accessed),
        modified: SetTime::To(modified),
        ..SetAttributes::default()
    };
    remote.nfs().setattr(&remote.who, &remote.handle, &wanted, None).await?.done()?;
    Ok(())
}

fn system_time(time: Time) -> SystemTime {
    UNIX_EPOCH + Duration::new(time.seconds.into(), time.nanoseconds.min(999_999_999))
}

/// Returns the address of the parent directory, and the last name of the path.
fn parent_of(address: &Address) -> (Address, Option<Vec<u8>>) {
    let mut names: Vec<&[u8]> = address.names().collect();
    let name = names.pop().map(<[u8]>::to_vec);
    (Address { path: names.join(&b'/'), ..address.clone() }, name)
}

/// Returns the name of a copy after its source, for a command that names only the destination
/// directory.
fn name_of(place: &Place) -> Option<Vec<u8>> {
    match place {
        Place::Here(path) => {
            // A path that ends with `.` or `..` has no last name: use the real name of the
            // directory.
            let ends_in_name = path.file_name().is_some();
            let path = if ends_in_name { path.clone() } else { fs::canonicalize(path).ok()? };
            path.file_name().map(|name| name.as_bytes().to_vec())
        }
        Place::There(address) => {
            let name = address.names().last().map(<[u8]>::to_vec);
            name.filter(|name| is_name(name))
        }
    }
}

/// Returns the umask of this process.
fn umask() -> u32 {
    // The system call that reads the umask also sets it, so set it again to the old value.
    let umask = rustix::process::umask(Mode::from_bits_truncate(0o077));
    rustix::process::umask(umask);
    umask.bits()
}
