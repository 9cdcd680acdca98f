//! Files somewhere: as much of a file system as an iod needs of one.

use core::future::Future;

use bytes::Bytes;
use leasehold_fs::{FsError, Owner, Spot, Stability, Verifier};
use leasehold_session::Traffic;

use crate::iod::{Extent, Room};

/// Directories and files by name, wherever they lie, as one user.
pub trait Files: Send + Sync {
    /// What names a file or directory, as long as it lives.
    type Object: Copy + Send + Sync;

    /// The directory that all lies below.
    fn root(&self) -> Self::Object;

    /// The names in a directory, without those of itself and of its parent.
    fn names(
        &self,
        directory: Self::Object,
    ) -> impl Future<Output = Result<Vec<Vec<u8>>, FsError>> + Send;

    /// Whether nothing lies in a directory but what a new file system has.
    fn is_empty(
        &self,
        directory: Self::Object,
    ) -> impl Future<Output = Result<bool, FsError>> + Send {
        async move {
            let names = self.names(directory).await?;
            Ok(names.iter().all(|name| name == b"lost+found"))
        }
    }

    /// The object of a name.
    fn lookup(
        &self,
        directory: Self::Object,
        name: &str,
    ) -> impl Future<Output = Result<Option<Self::Object>, FsError>> + Send;

    /// Makes a directory for its owner alone, where there is none.
    fn make_directory(
        &self,
        directory: Self::Object,
        name: &str,
    ) -> impl Future<Output = Result<Self::Object, FsError>> + Send;

    /// Makes a file for its owner alone, where there is none.
    fn make_file(
        &self,
        directory: Self::Object,
        name: &str,
    ) -> impl Future<Output = Result<Self::Object, FsError>> + Send;

    /// Puts a short text that never gets shorter in a file beside the others; stable when it answers.
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

    /// What was put there, up to so many bytes; none where nothing was.
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

    /// How large a file is.
    fn extent(&self, file: Self::Object) -> impl Future<Output = Result<Extent, FsError>> + Send;

    /// Gives a file its size; stable when it answers.
    fn resize(
        &self,
        file: Self::Object,
        size: u64,
    ) -> impl Future<Output = Result<Extent, FsError>> + Send;

    /// Reads at most `count` bytes, and whether they reach to the end.
    fn read(
        &self,
        file: Self::Object,
        offset: u64,
        count: u32,
    ) -> impl Future<Output = Result<(Bytes, bool), FsError>> + Send;

    /// Writes as much of the data as there is room for; gives how much, the verifier, and the
    /// file's extent where it is known.
    fn write(
        &self,
        file: Self::Object,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> impl Future<Output = Result<(usize, Verifier, Option<Extent>), FsError>> + Send;

    /// Puts a file on stable storage.
    fn commit(&self, file: Self::Object) -> impl Future<Output = Result<Verifier, FsError>> + Send;

    /// Gives a file to this user and group, lets the group read the file, and returns the place
    /// where clients find the file; none where clients cannot find the file. The new owner is on
    /// stable storage when the call returns.
    fn give(
        &self,
        _file: Self::Object,
        _owner: Owner,
    ) -> impl Future<Output = Result<Option<Spot>, FsError>> + Send {
        async { Ok(None) }
    }

    /// Has the server of the files answer clients if this turn is noted there, and answer no client
    /// otherwise.
    fn let_clients_in(&self, _turn: u64) -> impl Future<Output = Result<(), FsError>> + Send {
        async { Ok(()) }
    }

    /// The number of times that a connection to the files was opened or lost.
    fn connections(&self) -> u64 {
        0
    }

    /// Room for data.
    fn space(&self) -> impl Future<Output = Result<Room, FsError>> + Send;

    /// What went over the connections to them so far, where there are any.
    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}
