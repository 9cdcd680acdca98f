//! Mounting and unmounting, by system calls or by `fusermount3`.

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

/// The type of the mount in the mount table.
const TYPE: &str = "fuse.leasehold";
/// The program that mounts for ordinary users.
const HELPER: &str = "fusermount3";

/// The mount options for the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of mount(8)")]
pub struct MountOptions {
    /// The source in the mount table.
    pub source: String,
    /// True if the mount is read-only.
    pub read_only: bool,
    /// True if users other than the mounting user may use the mount.
    pub allow_other: bool,
    /// True if programs on the mount cannot be executed.
    pub no_exec: bool,
    /// True if set-user-id bits have no effect.
    pub no_suid: bool,
    /// True if device files cannot be opened.
    pub no_dev: bool,
    /// True if reads do not update access times.
    pub no_atime: bool,
    /// True if an fsync follows each write.
    pub synchronous: bool,
    /// True if symbolic links cannot be followed.
    pub no_symlinks: bool,
    /// True if the file system decides the access of each user; otherwise the kernel decides by
    /// mode bits.
    pub decides_itself: bool,
}

/// The reason why a mount failed.
#[derive(Debug)]
pub enum MountError {
    /// The kernel has no FUSE or denies access to it.
    Device(io::Error),
    /// `fusermount3`, which an ordinary user needs to mount, is not installed.
    NoHelper(io::Error),
    /// The error text of `fusermount3`.
    Helper(String),
    /// The directory cannot be a mount point.
    Directory(io::Error),
    /// The kernel rejects the mount.
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
            Self::Refused(errno) => write!(f, "the kernel rejects the mount: {errno}"),
        }
    }
}

impl std::error::Error for MountError {}

/// Mounts on a directory, and returns the FUSE device of the mount.
///
/// # Errors
/// The mount failed; nothing is mounted.
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

/// Unmounts a directory. With `detach`, also unmounts a mount in use: the mount is removed from the
/// tree at once, and ends after its last use.
///
/// # Errors
/// The mount is in use, or this user may not unmount it.
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

/// Sets the read-ahead of the kernel on a mount. A FUSE file system itself can only reduce the
/// read-ahead below 128 KiB, which is too small for a fast network. Root can increase the
/// read-ahead by this function.
///
/// # Errors
/// The value may not be set, or there is no such mount.
pub fn set_read_ahead(directory: &Path, bytes: u32) -> io::Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let device = device_of(&table, directory).ok_or(ErrorKind::NotFound)?;
    fs::write(format!("/sys/class/bdi/{device}/read_ahead_kb"), (bytes / 1024).to_string())
}

/// Returns the unique device number of the mount on a directory; `None` if nothing is mounted
/// there.
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

/// Returns the device number of the topmost mount on a directory, from a mount table.
fn device_of<'a>(table: &'a str, directory: &Path) -> Option<&'a str> {
    let wanted = escape(directory.as_os_str().as_encoded_bytes());
    table.lines().rev().find_map(|line| {
        let mut words = line.split(' ').skip(2);
        let (device, place) = (words.next()?, words.nth(1)?);
        (place.as_bytes() == wanted).then_some(device)
    })
}

/// Escapes a path as in a mount table.
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

/// Returns the options in the syntax of `fusermount3`.
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
    let failed =
        |errno: Errno| MountError::Helper(format!("cannot communicate with {HELPER}: {errno}"));
    // The helper program must inherit its end of the socket pair, so the sockets have no
    // close-on-exec flag.
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

/// Receives the FUSE device from the helper. Returns `None` if the helper ends without sending the
/// device.
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

/// Returns the error output of a helper as one line.
fn said(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let text = text.trim().lines().collect::<Vec<_>>().join("; ");
    if text.is_empty() { format!("{HELPER} failed without an error message") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_is_found_in_the_mount_table() {
        let table = "21 1 0:5 / /mnt rw - tmpfs none rw\n\
                     22 1 0:48 / /mnt/a\\040b rw - fuse.leasehold host:/ rw\n\
                     23 1 0:49 / /mnt rw - fuse.leasehold host:/ rw\n";
        assert_eq!(device_of(table, Path::new("/mnt/a b")), Some("0:48"));
        assert_eq!(device_of(table, Path::new("/mnt")), Some("0:49"), "the last is on top");
        assert_eq!(device_of(table, Path::new("/")), None);
    }

    #[test]
    fn source_cannot_inject_options() {
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
