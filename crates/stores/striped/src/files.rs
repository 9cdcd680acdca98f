//! The file operations that an iod requires from a file system.

use core::future::Future;

use bytes::Bytes;
use leasehold_fs::{FsError, Owner, Spot, Stability, Verifier};
use leasehold_session::Traffic;

use crate::iod::{Extent, Room};

/// Directories and files by name, on any file system, accessed as one user.
pub trait Files: Send + Sync {
    /// An identifier of a file or directory, valid for the lifetime of the file or directory.
    type Object: Copy + Send + Sync;

    /// Returns the top directory.
    fn root(&self) -> Self::Object;

    /// Returns the names in a directory, without `.` and `..`.
    fn names(
        &self,
        directory: Self::Object,
    ) -> impl Future<Output = Result<Vec<Vec<u8>>, FsError>> + Send;

    /// Returns true if a directory contains only the entries of a new file system.
    fn is_empty(
        &self,
        directory: Self::Object,
    ) -> impl Future<Output = Result<bool, FsError>> + Send {
        async move {
            let names = self.names(directory).await?;
            Ok(names.iter().all(|name| name == b"lost+found"))
        }
    }

    /// Returns the file or directory of a name; `None` if there is none.
    fn lookup(
        &self,
        directory: Self::Object,
        name: &str,
    ) -> impl Future<Output = Result<Option<Self::Object>, FsError>> + Send;

    /// Creates a directory that only its owner can access, if none exists.
    fn make_directory(
        &self,
        directory: Self::Object,
        name: &str,
    ) -> impl Future<Output = Result<Self::Object, FsError>> + Send;

    /// Creates a file that only its owner can access, if none exists.
    fn make_file(
        &self,
        directory: Self::Object,
        name: &str,
    ) -> impl Future<Output = Result<Self::Object, FsError>> + Send;

    /// Writes a short text to a file in the top directory; the text is stable when the call
    /// returns. A later text must not be shorter, because the file is not truncated.
    fn put_note(&self, name: &str, text: &str) -> impl Future<Output = Result<(), FsError>> + Send {
        let text = Bytes::copy_from_slice(text.as_bytes());
        async move {
            let file = self.make_file(self.root(), name).await?;
            let mut done = 0;
            while done < text.len() {
                let rest = text.slice(done..);
                let (count, ..) = self.write(file, done as u64, rest, Stability::FileSync).await?;
                if count == 0 {
                    return Err(FsError::Io);
                }
                done += count;
            }
            Ok(())
        }
    }

    /// Returns a text that `put_note` wrote, up to `bytes_max` bytes; `None` if there is none.
    fn note(
        &self,
        name: &str,
        bytes_max: u32,
    ) -> impl Future<Output = Result<Option<Bytes>, FsError>> + Send {
        async move {
            let Some(file) = self.lookup(self.root(), name).await? else { return Ok(None) };
            Ok(Some(self.read(file, 0, bytes_max).await?.0))
        }
    }

    /// Removes a file.
    fn remove(
        &self,
        directory: Self::Object,
        name: &str,
    ) -> impl Future<Output = Result<(), FsError>> + Send;

    /// Returns the extent of a file.
    fn extent(&self, file: Self::Object) -> impl Future<Output = Result<Extent, FsError>> + Send;

    /// Sets the size of a file; the size is stable when the call returns.
    fn resize(
        &self,
        file: Self::Object,
        size: u64,
    ) -> impl Future<Output = Result<Extent, FsError>> + Send;

    /// Reads at most `count` bytes. The flag is true if the data reaches the end of the file.
    fn read(
        &self,
        file: Self::Object,
        offset: u64,
        count: u32,
    ) -> impl Future<Output = Result<(Bytes, bool), FsError>> + Send;

    /// Writes the data, or a part from its start. Returns the number of bytes, the verifier, and
    /// the file's extent if it is known.
    fn write(
        &self,
        file: Self::Object,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> impl Future<Output = Result<(usize, Verifier, Option<Extent>), FsError>> + Send;

    /// Writes the data of a file to stable storage.
    fn commit(&self, file: Self::Object) -> impl Future<Output = Result<Verifier, FsError>> + Send;

    /// Sets the owner of a file and lets the group of the owner read the file. Returns the address
    /// and the handle at which clients find the file; `None` if clients cannot access the file. The
    /// new owner is on stable storage when the call returns.
    fn give(
        &self,
        _file: Self::Object,
        _owner: Owner,
    ) -> impl Future<Output = Result<Option<Spot>, FsError>> + Send {
        async { Ok(None) }
    }

    /// Makes the server of the files answer clients if the server has recorded this rollback
    /// counter, and refuse all clients otherwise.
    fn let_clients_in(&self, _turn: u64) -> impl Future<Output = Result<(), FsError>> + Send {
        async { Ok(()) }
    }

    /// Returns the number of times that a connection to the server of the files was opened or lost.
    fn connections(&self) -> u64 {
        0
    }

    /// Returns the size and free space of the file system.
    fn space(&self) -> impl Future<Output = Result<Room, FsError>> + Send;

    /// Returns the traffic on the connections to the server of the files so far.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}
