//! A mounted file system with path operations, for one user.

use bytes::{Bytes, BytesMut};
use leasehold_base::attributes::{Attributes, FileType, Mode, SetAttributes};
use leasehold_base::units::Cookie;
use leasehold_fs::Space;
use leasehold_session::{Credential, Error};
use leasehold_wire::nfs3::Status;

use crate::client::Client;
use crate::data::Data;
use crate::names::is_gone;
use crate::nodes::NodeId;
use crate::open::{OpenHow, OpenId};

/// The maximum number of symbolic links that the resolution of one path follows, as in Linux.
const LINKS_MAX: u32 = 40;

/// The maximum size of one read in [`User::read`].
const PIECE_BYTES: u32 = 1 << 20;

/// A mounted file system with path operations, for one user. A path begins at the root of the
/// mount, with or without a leading `/`. Path resolution follows relative symbolic links. An
/// absolute symbolic link causes the error [`Status::NotFound`], because the target of such a link
/// is outside the mount.
///
/// If the server reports that an object on the path is stale, because it was replaced, the client
/// resolves the path again. An open [`File`] continues to refer to the same object.
#[derive(Clone)]
pub struct User {
    client: Client,
    who: Credential,
}

/// A reference to an object; the drop of the value gives the reference back.
struct Kept {
    client: Client,
    node: NodeId,
    attributes: Attributes,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.node != NodeId::ROOT {
            self.client.forget(self.node, 1);
        }
    }
}

/// A directory entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name.
    pub name: Bytes,
    /// The attributes of the object, if the server returned them.
    pub attributes: Option<Attributes>,
}

impl Client {
    /// Returns the path interface of this file system for one user.
    #[must_use]
    pub fn user(&self, who: Credential) -> User {
        User { client: self.clone(), who }
    }
}

/// Repeats an attempt that failed because of a stale object. The client has forgotten that object,
/// so the next attempt looks the object up again. The number of attempts is at most the number of
/// names on the paths. (An async closure for this would not be `Send`.)
macro_rules! anew_where_stale {
    ($paths:expr, $attempt:block) => {{
        let mut objects: usize = $paths.iter().map(|path: &&[u8]| names_of(path).len()).sum();
        loop {
            match async { $attempt }.await {
                Err(error) if objects > 0 && is_gone(&error) => objects -= 1,
                outcome => break outcome,
            }
        }
    }};
}

impl User {
    /// Returns the node interface.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Opens an existing file.
    ///
    /// # Errors
    /// The status of the server, as for every operation: [`Status::NotFound`] if the path does not
    /// exist.
    pub async fn open(&self, path: &[u8], how: OpenHow) -> Result<File, Error> {
        anew_where_stale!([path], {
            let kept = self.walk(path, true).await?;
            let open = self.client.open(&self.who, kept.node, how).await?;
            Ok(File { who: self.who.clone(), kept, open: Some(open) })
        })
    }

    /// Creates a file and opens it for reading and writing; with `exclusive`, fails if the name
    /// exists. An existing file keeps its contents.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn create(&self, path: &[u8], mode: Mode, exclusive: bool) -> Result<File, Error> {
        anew_where_stale!([path], {
            let (directory, name) = self.walk_to_parent(path).await?;
            let (place, how) = ((directory.node, name), OpenHow::READ_WRITE);
            let made = self.client.create(&self.who, place, (mode, exclusive), how).await;
            let (found, open) = made?;
            let (client, node) = (self.client.clone(), found.node);
            let kept = Kept { client, node, attributes: found.attributes };
            Ok(File { who: self.who.clone(), kept, open: Some(open) })
        })
    }

    /// Reads a whole file.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn read(&self, path: &[u8]) -> Result<Bytes, Error> {
        let file = self.open(path, OpenHow::READ).await?;
        let mut all = BytesMut::new();
        loop {
            let read = file.read_at(all.len() as u64, PIECE_BYTES).await?;
            for part in read.parts() {
                all.extend_from_slice(part);
            }
            if read.len() < PIECE_BYTES as usize {
                return Ok(all.freeze());
            }
        }
    }

    /// Creates or replaces the contents of a file, and returns when the data is on the server's
    /// stable storage.
    ///
    /// # Errors
    /// As [`User::open`]; the file may then contain a part of the data.
    pub async fn write(&self, path: &[u8], mode: Mode, data: Bytes) -> Result<(), Error> {
        let file = self.create(path, mode, false).await?;
        if file.attributes().await?.size > 0 {
            file.set_size(0).await?;
        }
        file.write_at(0, data).await?;
        file.sync().await?;
        file.close().await
    }

    /// Returns the attributes of the object at a path, without following a symbolic link at the end
    /// of the path.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn attributes(&self, path: &[u8]) -> Result<Attributes, Error> {
        anew_where_stale!([path], {
            let kept = self.walk(path, false).await?;
            self.client.getattr(&self.who, kept.node).await.map(|seen| seen.attributes)
        })
    }

    /// Changes all of the given attributes or none, and returns the new attributes.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn set_attributes(
        &self,
        path: &[u8],
        attributes: &SetAttributes,
    ) -> Result<Attributes, Error> {
        anew_where_stale!([path], {
            let kept = self.walk(path, true).await?;
            let seen = self.client.setattr(&self.who, kept.node, attributes).await?;
            Ok(seen.attributes)
        })
    }

    /// Lists the names of a directory without `.` and `..`, in the server's order. With attributes,
    /// the server must read each object.
    ///
    /// # Errors
    /// As [`User::open`]; [`Status::BadCookie`] if another client changed the directory during the
    /// listing and the server cannot continue the listing after the change.
    pub async fn list(&self, path: &[u8], with_attributes: bool) -> Result<Vec<Listed>, Error> {
        let directory = self.open(path, OpenHow::READ).await?;
        let mut listed = Vec::new();
        let mut cookie = Cookie(0);
        loop {
            let part = self.client.readdir(directory.id(), cookie, with_attributes).await?;
            let last = part.entries.last().map(|entry| entry.cookie);
            for entry in part.entries {
                if let Some(found) = entry.found {
                    self.client.forget(found.node, 1);
                }
                if !matches!(&entry.name[..], b"." | b"..") {
                    let attributes = entry.found.map(|found| found.attributes);
                    listed.push(Listed { name: entry.name, attributes });
                }
            }
            match last {
                Some(last) if !part.end => cookie = last,
                Some(_) | None => return Ok(listed),
            }
        }
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn create_directory(&self, path: &[u8], mode: Mode) -> Result<(), Error> {
        anew_where_stale!([path], {
            let (directory, name) = self.walk_to_parent(path).await?;
            let found = self.client.mkdir(&self.who, (directory.node, name), mode).await?;
            self.client.forget(found.node, 1);
            Ok(())
        })
    }

    /// Creates a symbolic link to `target`.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn symlink(&self, target: &[u8], path: &[u8]) -> Result<(), Error> {
        anew_where_stale!([path], {
            let (directory, name) = self.walk_to_parent(path).await?;
            let found = self.client.symlink(&self.who, (directory.node, name), target).await?;
            self.client.forget(found.node, 1);
            Ok(())
        })
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn read_link(&self, path: &[u8]) -> Result<Bytes, Error> {
        anew_where_stale!([path], {
            let kept = self.walk(path, false).await?;
            self.client.readlink(&self.who, kept.node).await
        })
    }

    /// Adds the name `to` to the object at `from`.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn link(&self, from: &[u8], to: &[u8]) -> Result<(), Error> {
        anew_where_stale!([from, to], {
            let kept = self.walk(from, false).await?;
            let (directory, name) = self.walk_to_parent(to).await?;
            let found = self.client.link(&self.who, kept.node, directory.node, name).await?;
            self.client.forget(found.node, 1);
            Ok(())
        })
    }

    /// Removes a name of an object other than a directory. Open files of this client stay usable.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn remove(&self, path: &[u8]) -> Result<(), Error> {
        anew_where_stale!([path], {
            let (directory, name) = self.walk_to_parent(path).await?;
            self.client.remove(&self.who, directory.node, name).await
        })
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn remove_directory(&self, path: &[u8]) -> Result<(), Error> {
        anew_where_stale!([path], {
            let (directory, name) = self.walk_to_parent(path).await?;
            self.client.rmdir(&self.who, directory.node, name).await
        })
    }

    /// Renames an object and replaces an object with the new name.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn rename(&self, from: &[u8], to: &[u8]) -> Result<(), Error> {
        anew_where_stale!([from, to], {
            let (left, old) = self.walk_to_parent(from).await?;
            let (entered, new) = self.walk_to_parent(to).await?;
            self.client.rename(&self.who, (left.node, old), (entered.node, new)).await
        })
    }

    /// Returns the space of the file system.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn space(&self) -> Result<Space, Error> {
        self.client.statfs(&self.who, NodeId::ROOT).await
    }

    /// Returns the parent directory and the last name of a path.
    async fn walk_to_parent<'a>(&self, path: &'a [u8]) -> Result<(Kept, &'a [u8]), Error> {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let at = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let (parent, name) = path.split_at(at);
        if matches!(name, b"" | b"." | b"..") {
            return Err(Error::Failed(Status::Invalid));
        }
        Ok((self.walk(parent, true).await?, name))
    }

    async fn walk(&self, path: &[u8], follow_last: bool) -> Result<Kept, Error> {
        let top = self.client.getattr(&self.who, NodeId::ROOT).await?;
        let keep = |node, attributes| Kept { client: self.client.clone(), node, attributes };
        let mut way = vec![keep(NodeId::ROOT, top.attributes)];
        let mut names = names_of(path);
        let mut links = 0;
        while let Some(name) = names.pop() {
            if name == b".." {
                // `..` at the root of the mount stays at the root.
                way.truncate((way.len() - 1).max(1));
                continue;
            }
            let here = way.last().expect("the top stays");
            let found = self.client.lookup(&self.who, here.node, &name).await?;
            let found = keep(found.node, found.attributes);
            let is_link = found.attributes.file_type == FileType::Symlink;
            if !is_link || (names.is_empty() && !follow_last) {
                way.push(found);
                continue;
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(Error::Failed(Status::Invalid));
            }
            let target = self.client.readlink(&self.who, found.node).await?;
            if target.starts_with(b"/") {
                return Err(Error::Failed(Status::NotFound));
            }
            names.extend(names_of(&target));
        }
        Ok(way.pop().expect("the top stays"))
    }
}

/// Returns the names of a path in reverse order.
fn names_of(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.rsplit(|byte| *byte == b'/');
    names.filter(|name| !matches!(*name, b"" | b".")).map(<[u8]>::to_vec).collect()
}

/// An open file, which is released when the value is dropped.
pub struct File {
    kept: Kept,
    who: Credential,
    /// `None` after the file was closed.
    open: Option<OpenId>,
}

impl File {
    fn id(&self) -> OpenId {
        self.open.expect("`close` consumes the file")
    }

    fn client(&self) -> &Client {
        &self.kept.client
    }

    /// Returns the node of the file.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.kept.node
    }

    /// Reads data. The result is shorter than `count` only at the end of the file.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn read_at(&self, offset: u64, count: u32) -> Result<Data, Error> {
        self.client().read(self.id(), offset, count).await
    }

    /// Writes all of the data or nothing. Like [`Client::write`], waits only for free space in the
    /// cache.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn write_at(&self, offset: u64, data: Bytes) -> Result<(), Error> {
        self.client().write(self.id(), offset, data).await
    }

    /// Appends data. Under a lease, no data of other clients comes in between.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn append(&self, data: Bytes) -> Result<(), Error> {
        self.client().append(self.id(), data).await
    }

    /// Returns the attributes of the file.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn attributes(&self) -> Result<Attributes, Error> {
        self.client().getattr(&self.who, self.node()).await.map(|seen| seen.attributes)
    }

    /// Truncates the file or extends it with zeros.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn set_size(&self, size: u64) -> Result<(), Error> {
        let attributes = SetAttributes { size: Some(size), ..SetAttributes::default() };
        self.client().setattr(&self.who, self.node(), &attributes).await.map(drop)
    }

    /// Waits until earlier writes are on the server's stable storage.
    ///
    /// # Errors
    /// The first failure to save data that this open file has not reported yet.
    pub async fn sync(&self) -> Result<(), Error> {
        self.client().fsync(self.id()).await
    }

    /// Closes the file; with close-to-open, saves the written data first. A caller that drops the
    /// file without a close receives no error if the data cannot be saved.
    ///
    /// # Errors
    /// As [`File::sync`].
    pub async fn close(mut self) -> Result<(), Error> {
        let flushed = self.client().flush(self.id()).await;
        self.release();
        flushed
    }

    fn release(&mut self) {
        if let Some(open) = self.open.take() {
            self.kept.client.release(open);
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.release();
    }
}
