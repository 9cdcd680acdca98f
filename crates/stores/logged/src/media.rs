//! The device of a log: a file, or a fixed part of a block device.

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use leasehold_base::limits::durations::LOG_LOCK_TIMEOUT;
use rustix::fs::{FlockOperation, Mode, OFlags, SeekFrom, flock, open, seek};
use rustix::io::Errno;

/// The storage of a log. Written bytes are stable when a later sync has succeeded.
pub trait Media: Send + Sync {
    /// Returns the size in bytes.
    ///
    /// # Errors
    /// Fails if the device does not report its size.
    fn size(&self) -> io::Result<u64>;

    /// Prepares the storage for a log. For a file, sets the size in bytes, and denies access to
    /// other users.
    ///
    /// # Errors
    /// Fails if there is not enough space.
    fn prepare(&self, bytes: u64) -> io::Result<()>;

    /// Reads bytes until the buffer is full.
    ///
    /// # Errors
    /// Fails if the device fails or is too short.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes all bytes.
    ///
    /// # Errors
    /// Fails if the device fails.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Puts all written bytes on stable storage.
    ///
    /// # Errors
    /// Fails if the device fails.
    fn sync(&self) -> io::Result<()>;
}

/// A file or block device that no other server can use at the same time.
#[derive(Debug)]
pub struct FileMedia {
    file: File,
    is_device: bool,
}

impl FileMedia {
    /// Opens the log's device, or creates a file. The last component of the path must not be a
    /// symbolic link.
    ///
    /// # Errors
    /// Fails if the path is neither a file nor a block device, if the file has a second name, if
    /// another user could have written the file (because a start replays changes from the file), or
    /// if another server, a mount or another program uses the file or device.
    pub fn open(path: &Path) -> io::Result<Self> {
        let is_device = is_device(path);
        let flags = if is_device { OFlags::EXCL } else { OFlags::CREATE };
        // Use `NONBLOCK`, because the open of a FIFO would block otherwise.
        let flags = flags | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = File::from(patiently(Errno::BUSY, || open(path, flags, mode))?);
        let seen = file.metadata()?;
        if !seen.is_file() && !is_device {
            let what = "it is neither a file nor a block device";
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        let (own, owner) = (rustix::process::geteuid().as_raw(), seen.uid());
        if owner != own && owner != 0 {
            let what = format!(
                "it belongs to the user {owner}: change its owner to the server's user with `chown`"
            );
            return Err(io::Error::new(ErrorKind::PermissionDenied, what));
        }
        // Check the mode of files only: on common systems a group of administrators may write
        // device nodes.
        if seen.is_file() && seen.mode() & 0o022 != 0 {
            let what = "other users may write it: remove their write permission with `chmod go-w`";
            return Err(io::Error::new(ErrorKind::PermissionDenied, what));
        }
        if seen.is_file() && seen.nlink() != 1 {
            let what = "it is a file with several names: name a file with one link";
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        if seen.is_file() && seen.len() == 0 {
            // Sync the directory of the file: without a file-system journal, a sync of the file
            // itself does not make its name stable.
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        let lock = FlockOperation::NonBlockingLockExclusive;
        patiently(Errno::WOULDBLOCK, || flock(&file, lock))?;
        Ok(Self { file, is_device })
    }
}

impl Media for FileMedia {
    fn size(&self) -> io::Result<u64> {
        Ok(seek(&self.file, SeekFrom::End(0))?)
    }

    fn prepare(&self, bytes: u64) -> io::Result<()> {
        if self.is_device {
            return Ok(());
        }
        self.file.set_permissions(Permissions::from_mode(0o600))?;
        self.file.set_len(bytes)
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

fn is_device(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|seen| seen.file_type().is_block_device())
}

/// Acquires exclusive use of a file or device, which ends when the process ends. Retries until a
/// timeout while another process has it.
fn patiently<T>(taken: Errno, take: impl Fn() -> Result<T, Errno>) -> io::Result<T> {
    let end = Instant::now() + LOG_LOCK_TIMEOUT;
    loop {
        match take() {
            Err(Errno::INTR) => {}
            Err(errno) if errno == taken && Instant::now() < end => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(errno) if errno == taken => {
                let what = "it is in use by another server or as a disk";
                return Err(io::Error::new(ErrorKind::ResourceBusy, what));
            }
            result => return Ok(result?),
        }
    }
}
