//! The mount itself: made and taken away by the kernel's calls, or by `fusermount3`.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};

/// The type that the mount has in the table of mounts.
const TYPE: &str = "fuse.leasehold";
/// Who mounts for ordinary users.
const HELPER: &str = "fusermount3";

/// How the kernel is to treat the mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of mount(8)")]
pub struct MountOptions {
    /// What stands in the table of mounts as its source.
    pub source: String,
    /// Nothing can be changed.
    pub read_only: bool,
    /// Other users than the one who mounts may use it.
    pub allow_other: bool,
    /// Programs there cannot be run.
    pub no_exec: bool,
    /// Set-user-id there means nothing.
    pub no_suid: bool,
    /// Device files there mean nothing.
    pub no_dev: bool,
    /// Reading does not count as access.
    pub no_atime: bool,
    /// Each write is followed by an fsync.
    pub synchronous: bool,
    /// Symbolic links there lead nowhere.
    pub no_symlinks: bool,
    /// The file system decides the access of each user, in the place of the kernel, which would
    /// judge by mode bits.
    pub decides_itself: bool,
}

/// Why there is no mount.
#[derive(Debug)]
pub enum MountError {
    /// The kernel has no FUSE, or keeps it from us.
    Device(io::Error),
    /// There is no `fusermount3`, which an ordinary user needs.
    NoHelper(io::Error),
    /// `fusermount3` said so.
    Helper(String),
    /// The directory cannot be mounted on.
    Directory(io::Error),
    /// The kernel refuses the mount.
    Refused(Errno),
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) if error.kind() == ErrorKind::NotFound => {
                write!(f, "there is no /dev/fuse; load the kernel's module: modprobe fuse")
            }
            Self::Device(error) => write!(f, "cannot open /dev/fuse: {error}"),
            Self::NoHelper(error) => write!(
                f,
                "cannot run {HELPER}, which mounts for ordinary users: {error}; install fuse3, \
                 or mount as root"
            ),
            Self::Helper(text) => f.write_str(text),
            Self::Directory(error) => write!(f, "{error}"),
            Self::Refused(errno) => write!(f, "the kernel refuses: {errno}"),
        }
    }
}

impl std::error::Error for MountError {}

/// Mounts on a directory, and gives the device by which the kernel asks.
///
/// # Errors
/// When that cannot be done; nothing is mounted then.
pub fn mount(directory: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let about = fs::metadata(directory).map_err(MountError::Directory)?;
    if !about.is_dir() {
        return Err(MountError::Directory(ErrorKind::NotADirectory.into()));
    }
    if rustix::process::geteuid().is_root() {
        mount_ourselves(directory, options)
    } else {
        mount_by_helper(directory, options)
    }
}

/// Takes the mount away; with `detach`, also when it is in use: it goes when the last user has.
///
/// # Errors
/// When it is in use, or not ours to take away.
pub fn unmount(directory: &Path, detach: bool) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        let how = if detach { UnmountFlags::DETACH } else { UnmountFlags::empty() };
        return Ok(rustix::mount::unmount(directory, how | UnmountFlags::NOFOLLOW)?);
    }
    let mut helper = Command::new(HELPER);
    helper.arg("-u");
    if detach {
        helper.arg("-z");
    }
    let done = helper.arg("--").arg(directory).stdin(Stdio::null()).output()?;
    if done.status.success() {
        return Ok(());
    }
    Err(io::Error::other(said(&done.stderr)))
}

/// Sets how far the kernel reads ahead on a mount. A file system alone can only have that made less
/// than 128 KiB, of which a fast network carries too little; root can have more.
///
/// # Errors
/// When it may not be set, or there is no such mount.
pub fn set_read_ahead(directory: &Path, bytes: u32) -> io::Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let device = device_of(&table, directory).ok_or(ErrorKind::NotFound)?;
    fs::write(format!("/sys/class/bdi/{device}/read_ahead_kb"), (bytes / 1024).to_string())
}

/// The device that tells the mount on a directory from every other mount; none where nothing is
/// mounted.
#[must_use]
pub fn device(directory: &Path) -> Option<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    device_of(&table, directory).map(str::to_owned)
}

/// Returns true if the mount of this device is on the directory.
#[must_use]
pub fn is_mounted(directory: &Path, device: &str) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    device_of(&table, directory) == Some(device)
}

/// The device number of what is mounted on a directory last, by a table of mounts.
fn device_of<'a>(table: &'a str, directory: &Path) -> Option<&'a str> {
    let wanted = escape(directory.as_os_str().as_encoded_bytes());
    table.lines().rev().find_map(|line| {
        let mut words = line.split(' ').skip(2);
        let (device, place) = (words.next()?, words.nth(1)?);
        (place.as_bytes() == wanted).then_some(device)
    })
}

/// As tables of mounts have a path.
fn escape(path: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::new();
    for byte in path {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => escaped.extend(format!("\\{byte:03o}").bytes()),
            _ => escaped.push(*byte),
        }
    }
    escaped
}

fn mount_ourselves(directory: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let device = OwnedFd::from(device.map_err(MountError::Device)?);
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={}",
        device.as_raw_fd(),
        user.as_raw(),
        group.as_raw()
    );
    if !options.decides_itself {
        data.push_str(",default_permissions");
    }
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let data = std::ffi::CString::new(data).expect("there is no zero in it");
    let flags = [
        (options.read_only, MountFlags::RDONLY),
        (options.no_exec, MountFlags::NOEXEC),
        (options.no_suid, MountFlags::NOSUID),
        (options.no_dev, MountFlags::NODEV),
        (options.no_atime, MountFlags::NOATIME),
        (options.synchronous, MountFlags::SYNCHRONOUS),
        (options.no_symlinks, MountFlags::NOSYMFOLLOW),
    ];
    let flags = flags.into_iter().filter(|(wanted, _)| *wanted).map(|(_, flag)| flag).collect();
    rustix::mount::mount(options.source.as_str(), directory, TYPE, flags, data.as_c_str())
        .map_err(MountError::Refused)?;
    Ok(device)
}

/// The options as `fusermount3` takes them.
fn words(options: &MountOptions) -> String {
    let source = options.source.replace('\\', "\\\\").replace(',', "\\,");
    let mut words = format!("fsname={source},subtype=leasehold");
    let flags = [
        (options.read_only, ",ro"),
        (options.allow_other, ",allow_other"),
        (options.no_exec, ",noexec"),
        (options.no_suid, ",nosuid"),
        (options.no_dev, ",nodev"),
        (options.no_atime, ",noatime"),
        (options.synchronous, ",sync"),
        (options.no_symlinks, ",nosymfollow"),
        (!options.decides_itself, ",default_permissions"),
    ];
    for (_, word) in flags.iter().filter(|(wanted, _)| *wanted) {
        words.push_str(word);
    }
    words
}

fn mount_by_helper(directory: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let failed = |errno: Errno| MountError::Helper(format!("cannot speak to {HELPER}: {errno}"));
    // The helper's end must outlive its start, so it is not closed by it.
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)
            .map_err(failed)?;
    let helper = Command::new(HELPER)
        .arg("-o")
        .arg(words(options))
        .arg("--")
        .arg(directory)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(MountError::NoHelper)?;
    drop(theirs);
    let device = receive(&ours).map_err(failed)?;
    let done = helper.wait_with_output().map_err(MountError::NoHelper)?;
    match device {
        Some(device) if done.status.success() => Ok(device),
        Some(_) | None => Err(MountError::Helper(said(&done.stderr))),
    }
}

/// The device that the helper sends; nothing if it ends without.
fn receive(socket: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    let mut parts = [IoSliceMut::new(&mut byte)];
    recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let device = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        RecvAncillaryMessage::ScmCredentials(_) | _ => None,
    });
    Ok(device)
}

/// What a helper complained of, on one line.
fn said(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let text = text.trim().lines().collect::<Vec<_>>().join("; ");
    if text.is_empty() { format!("{HELPER} failed and did not say why") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_in_the_table() {
        let table = "21 1 0:5 / /mnt rw - tmpfs none rw\n\
                     22 1 0:48 / /mnt/a\\040b rw - fuse.leasehold host:/ rw\n\
                     23 1 0:49 / /mnt rw - fuse.leasehold host:/ rw\n";
        assert_eq!(device_of(table, Path::new("/mnt/a b")), Some("0:48"));
        assert_eq!(device_of(table, Path::new("/mnt")), Some("0:49"), "the last is on top");
        assert_eq!(device_of(table, Path::new("/")), None);
    }

    #[test]
    fn a_source_cannot_smuggle_options() {
        let options = MountOptions {
            source: "host:/a,suid\\".to_owned(),
            read_only: true,
            synchronous: true,
            ..MountOptions::default()
        };
        let expected = "fsname=host:/a\\,suid\\\\,subtype=leasehold,ro,sync,default_permissions";
        assert_eq!(words(&options), expected);
        let options = MountOptions { decides_itself: true, ..MountOptions::default() };
        assert_eq!(words(&options), "fsname=,subtype=leasehold");
    }
}
