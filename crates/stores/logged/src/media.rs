//! What a log is written on: a file, or a block device, of which the log takes a fixed part.

use std::fs::{File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, SeekFrom, flock, open, seek};
use rustix::io::Errno;

/// How long a server that was just killed may take to be gone.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where the bytes of a log lie. What was written is there for good once a sync that began
/// behind it has ended well.
pub trait Media: Send + Sync {
    /// How many bytes there are.
    ///
    /// # Errors
    /// When the device does not say.
    fn size(&self) -> io::Result<u64>;

    /// Has it be a place for a log: so many bytes long, and for nobody else to read, where that can
    /// be chosen.
    ///
    /// # Errors
    /// When there is no room.
    fn prepare(&self, bytes: u64) -> io::Result<()>;

    /// Fills the buffer.
    ///
    /// # Errors
    /// When the device fails, or ends before.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes all of the bytes.
    ///
    /// # Errors
    /// When the device fails.
    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Puts on stable storage what was written.
    ///
    /// # Errors
    /// When the device fails.
    fn sync(&self) -> io::Result<()>;
}

/// A file or block device, which no other server can use meanwhile.
#[derive(Debug)]
pub struct FileMedia {
    file: File,
    is_device: bool,
}

impl FileMedia {
    /// Opens it; makes a file where there is none. The path leads there itself, over no symbolic
    /// link at its end.
    ///
    /// # Errors
    /// When the log cannot be opened, is neither file nor block device, or has another name; when
    /// another user could have written the log, from which a start replays changes; or when another
    /// server, a mount or another program uses the log.
    pub fn open(path: &Path) -> io::Result<Self> {
        let is_device = is_device(path);
        let flags = if is_device { OFlags::EXCL } else { OFlags::CREATE };
        // What is no file may have one wait.
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
            let what = format!("it belongs to the user {owner}: make it the server's user's");
            return Err(io::Error::new(ErrorKind::PermissionDenied, what));
        }
        // The system gives a device to a group of administrators.
        if seen.is_file() && seen.mode() & 0o022 != 0 {
            let what = "other users may write it: take that away with `chmod go-w`";
            return Err(io::Error::new(ErrorKind::PermissionDenied, what));
        }
        if seen.is_file() && seen.nlink() != 1 {
            let what = "it is a file with several names";
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        if seen.is_file() && seen.len() == 0 {
            // No sync of the file keeps its name where there is no journal.
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

/// Has what keeps other servers away until the process ends, whatever ends it.
fn patiently<T>(taken: Errno, take: impl Fn() -> Result<T, Errno>) -> io::Result<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        match take() {
            Err(Errno::INTR) => {}
            Err(errno) if errno == taken && Instant::now() < end => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(errno) if errno == taken => {
                let what = "it is in use, by another server or as a disk";
                return Err(io::Error::new(ErrorKind::ResourceBusy, what));
            }
            result => return Ok(result?),
        }
    }
}
