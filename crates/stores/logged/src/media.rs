//! What a log is written on: a file, or a block device, of which the log takes a fixed part.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, SeekFrom, flock, seek};
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

    /// Makes it so many bytes long, where that can be chosen.
    ///
    /// # Errors
    /// When there is no room.
    fn resize(&self, bytes: u64) -> io::Result<()>;

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
    /// Opens it; makes a file where there is none.
    ///
    /// # Errors
    /// When it cannot be had, is neither file nor block device, or another server has it.
    pub fn open(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::FileTypeExt;
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path)?;
        let kind = file.metadata()?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            let what = "it is neither a file nor a block device";
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        lock(&file)?;
        Ok(Self { file, is_device: kind.is_block_device() })
    }
}

impl Media for FileMedia {
    fn size(&self) -> io::Result<u64> {
        Ok(seek(&self.file, SeekFrom::End(0))?)
    }

    fn resize(&self, bytes: u64) -> io::Result<()> {
        if self.is_device {
            return Ok(());
        }
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

/// Keeps other servers away until the process ends, whatever ends it.
fn lock(file: &File) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if Instant::now() < end => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(Errno::WOULDBLOCK) => {
                return Err(io::Error::new(ErrorKind::WouldBlock, "another server uses it"));
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}
