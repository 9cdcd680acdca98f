//! A mounted file system by paths, as one caller.

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

/// So many symbolic links are followed on one way: what Linux does.
const LINKS_MAX: u32 = 40;

/// The most that [`User::read`] asks for at once.
const PIECE_BYTES: u32 = 1 << 20;

/// A mounted file system by paths, as one caller. A path begins at the directory that is mounted,
/// with or without a `/`; it goes through symbolic links, unless they are absolute: those lead
/// elsewhere on the server, which is not reached from here, and fail with [`Status::NotFound`].
///
/// Where the server says that an object on the way is stale, since it was replaced, the way is
/// looked up again. A [`File`] that is open stays with its object.
#[derive(Clone)]
pub struct User {
    client: Client,
    who: Credential,
}

/// An object that is not forgotten while this is kept.
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

/// A name of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name.
    pub name: Bytes,
    /// The attributes of its object, where the server told them.
    pub attributes: Option<Attributes>,
}

impl Client {
    /// The same file system by paths, as one caller.
    #[must_use]
    pub fn user(&self, who: Credential) -> User {
        User { client: self.clone(), who }
    }
}

/// Makes an attempt again where it met a stale object: that is forgotten by then, so that another
/// is found, and as often as there are objects on the ways. (An async closure for this would not be
/// `Send`.)
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
    /// The same by nodes.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Opens a file that is there.
    ///
    /// # Errors
    /// What the server says, as for every operation: [`Status::NotFound`] where the path leads
    /// nowhere.
    pub async fn open(&self, path: &[u8], how: OpenHow) -> Result<File, Error> {
        anew_where_stale!([path], {
            let kept = self.walk(path, true).await?;
            let open = self.client.open(&self.who, kept.node, how).await?;
            Ok(File { who: self.who.clone(), kept, open: Some(open) })
        })
    }

    /// Makes a file and opens it for reading and writing; with `exclusive`, only when the name was
    /// not there. A file that was there keeps what is in it.
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

    /// All of a file.
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

    /// Makes a file of these bytes, or has one hold them alone, and ends when they are on the
    /// server's stable storage.
    ///
    /// # Errors
    /// As [`User::open`]; what is in the file then may be a part.
    pub async fn write(&self, path: &[u8], mode: Mode, data: Bytes) -> Result<(), Error> {
        let file = self.create(path, mode, false).await?;
        if file.attributes().await?.size > 0 {
            file.set_size(0).await?;
        }
        file.write_at(0, data).await?;
        file.sync().await?;
        file.close().await
    }

    /// The attributes of what a path leads to; of a symbolic link at its end, its own.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn attributes(&self, path: &[u8]) -> Result<Attributes, Error> {
        anew_where_stale!([path], {
            let kept = self.walk(path, false).await?;
            self.client.getattr(&self.who, kept.node).await.map(|seen| seen.attributes)
        })
    }

    /// Changes attributes, all or none, and says what they are then.
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

    /// The names of a directory without `.` and `..`, in the server's order. Attributes cost the
    /// server a look at each object.
    ///
    /// # Errors
    /// As [`User::open`]; [`Status::BadCookie`] when the directory changed so much meanwhile that
    /// the server cannot go on.
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

    /// Makes a directory.
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

    /// Makes a symbolic link that says `target`.
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

    /// What a symbolic link says.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn read_link(&self, path: &[u8]) -> Result<Bytes, Error> {
        anew_where_stale!([path], {
            let kept = self.walk(path, false).await?;
            self.client.readlink(&self.who, kept.node).await
        })
    }

    /// Gives what `from` leads to one more name.
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

    /// Removes a name that is no directory's. Who has the file open here can go on.
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

    /// Gives what has a name another, in place of what had that.
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

    /// The room on the file system.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn space(&self) -> Result<Space, Error> {
        self.client.statfs(&self.who, NodeId::ROOT).await
    }

    /// The directory of a path's last name, and that.
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
                // Above the top there is the top.
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

/// The names of a path, the last first.
fn names_of(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.rsplit(|byte| *byte == b'/');
    names.filter(|name| !matches!(*name, b"" | b".")).map(<[u8]>::to_vec).collect()
}

/// A file that is open, until this is dropped.
pub struct File {
    kept: Kept,
    who: Credential,
    /// None when it was closed.
    open: Option<OpenId>,
}

impl File {
    fn id(&self) -> OpenId {
        self.open.expect("who closes it has it no more")
    }

    fn client(&self) -> &Client {
        &self.kept.client
    }

    /// Its node.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.kept.node
    }

    /// Reads: fewer bytes than asked for only at the end of the file.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn read_at(&self, offset: u64, count: u32) -> Result<Data, Error> {
        self.client().read(self.id(), offset, count).await
    }

    /// Writes all of it or nothing; as [`Client::write`] this waits for no more than room.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn write_at(&self, offset: u64, data: Bytes) -> Result<(), Error> {
        self.client().write(self.id(), offset, data).await
    }

    /// Writes behind all that is in it. Under a lease nothing of others comes in between.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn append(&self, data: Bytes) -> Result<(), Error> {
        self.client().append(self.id(), data).await
    }

    /// Its attributes.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn attributes(&self) -> Result<Attributes, Error> {
        self.client().getattr(&self.who, self.node()).await.map(|seen| seen.attributes)
    }

    /// Cuts it, or makes it longer by zeros.
    ///
    /// # Errors
    /// As [`User::open`].
    pub async fn set_size(&self, size: u64) -> Result<(), Error> {
        let attributes = SetAttributes { size: Some(size), ..SetAttributes::default() };
        self.client().setattr(&self.who, self.node(), &attributes).await.map(drop)
    }

    /// Waits until what was written before is on the server's stable storage.
    ///
    /// # Errors
    /// What failed to be saved and was not told by this file before.
    pub async fn sync(&self) -> Result<(), Error> {
        self.client().fsync(self.id()).await
    }

    /// Closes it; with close-to-open, what was written is saved first. Who only drops a file is not
    /// told of what failed.
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
