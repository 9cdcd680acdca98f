//! A directory with an object of each kind, and every operation of versions 2 and 3 on it.

use bytes::Bytes;
use leasehold_base::units::Cookie;
use leasehold_base::xdr::Encode;
use leasehold_wire::nfs2;
use leasehold_wire::nfs3::write::Stability;
use leasehold_wire::nfs3::{
    self, DirectoryArgs, Handle, Name, Path, Reply, SetAttributes, access, commit, create, fsinfo,
    fsstat, getattr, link, lookup, mkdir, mknod, pathconf, read, readdir, readdirplus, readlink,
    remove, rename, rmdir, setattr, symlink, write,
};

use crate::{Client, Encoded, Lost};

/// The length of new names: a full directory has no room for such a name.
const NAME_BYTES: usize = 200;

/// Too long for the link's inode.
const TARGET_BYTES: usize = 500;

/// The number of bytes that a WRITE adds to the file.
const WRITE_BYTES: u32 = 8192;

/// A directory with an object of each kind.
pub struct Ground {
    directory: Handle,
    below: Handle,
    file: Handle,
    symlink: Handle,
}

/// An operation to try.
pub struct Attempt {
    /// The operation and its version.
    pub name: &'static str,
    /// The version.
    pub version: u32,
    procedure: u32,
    args: Encoded,
}

impl Attempt {
    /// Returns the status of the reply.
    ///
    /// # Errors
    /// The server has ended.
    pub fn status(&self, client: &mut Client) -> Result<u32, Lost> {
        client.status(self.version, self.procedure, &self.args)
    }
}

fn v3(name: &'static str, procedure: u32, args: &impl Encode) -> Attempt {
    Attempt { name, version: nfs3::VERSION, procedure, args: Encoded::of(args) }
}

fn v2(name: &'static str, procedure: u32, args: &impl Encode) -> Attempt {
    Attempt { name, version: nfs2::VERSION, procedure, args: Encoded::of(args) }
}

/// Converts a handle to version 2.
fn short(handle: Handle) -> nfs2::Handle {
    nfs2::Handle(handle.as_bytes().try_into().expect("our handles fit version 2"))
}

/// Returns an unused name.
fn fresh(letter: char) -> String {
    letter.to_string().repeat(NAME_BYTES)
}

impl Ground {
    /// Returns shell commands that create the directory at a path in the machine.
    #[must_use]
    pub fn script(path: &str) -> String {
        format!(
            "mkdir -p {path}/below {path}/gone-d2 {path}/gone-d3; cd {path}; \
             printf %4096s . >file; ln -s target symlink; \
             for name in old2 old3 over2 over3 far2 far3 gone2 gone3; do echo $name >$name; done; \
             cd /"
        )
    }

    /// Looks up the directory and its objects.
    ///
    /// # Errors
    /// The server has ended.
    ///
    /// # Panics
    /// Panics if an object is missing.
    pub fn find(client: &mut Client, name: &str) -> Result<Self, Lost> {
        let root = client.mount()?;
        let mut find = |directory, name: &str| -> Result<Handle, Lost> {
            let args = DirectoryArgs { directory, name: Name(name.as_bytes()) };
            match client.call::<lookup::Reply>(lookup::NUMBER, &args)? {
                Reply::Done(found) => Ok(found.object),
                Reply::Failed(status, _) => panic!("{name}: {status:?}"),
            }
        };
        let directory = find(root, name)?;
        let below = find(directory, "below")?;
        let file = find(directory, "file")?;
        let symlink = find(directory, "symlink")?;
        Ok(Self { directory, below, file, symlink })
    }

    /// Requests the attributes of each object, so that the server has them open: a LOOKUP opens
    /// only the directory of the name.
    ///
    /// # Errors
    /// The server has ended.
    ///
    /// # Panics
    /// Panics if an object is missing.
    pub fn open(&self, client: &mut Client) -> Result<(), Lost> {
        for object in [self.directory, self.below, self.file, self.symlink] {
            let args = getattr::Args { object };
            match client.call::<getattr::Reply>(getattr::NUMBER, &args)? {
                Reply::Done(_) => {}
                Reply::Failed(status, ()) => panic!("{status:?}"),
            }
        }
        Ok(())
    }

    /// Returns the file, of 4,096 bytes.
    #[must_use]
    pub const fn file(&self) -> Handle {
        self.file
    }

    /// Returns the operations that need disk space, or another name in a directory, or both.
    #[must_use]
    pub fn additions(&self) -> Vec<Attempt> {
        let names: Vec<String> = ('A'..='K').map(fresh).collect();
        let at = |name: usize| self.place(&names[name]);
        let plain = SetAttributes { mode: Some(0o644), ..SetAttributes::default() };
        let target = "t".repeat(TARGET_BYTES);
        let target = Path(target.as_bytes());
        let guarded = create::Args { place: at(0), how: create::How::Guarded(plain) };
        let unchecked = create::Args { place: at(1), how: create::How::Unchecked(plain) };
        let exclusive = create::Args { place: at(2), how: create::How::Exclusive([7; 8]) };
        let mkdir = mkdir::Args { place: at(3), attributes: plain };
        let symlink = symlink::Args { place: at(4), attributes: plain, target };
        let mknod = mknod::Args { place: at(5), node: mknod::Node::Fifo(plain) };
        let link = link::Args { file: self.file, link: at(6) };
        let within = rename::Args { from: self.place("old3"), to: at(7) };
        let mut all = vec![
            v3("WRITE stable", write::NUMBER, &self.write(Stability::FileSync)),
            v3("CREATE guarded", create::NUMBER, &guarded),
            v3("CREATE unchecked", create::NUMBER, &unchecked),
            v3("CREATE exclusive", create::NUMBER, &exclusive),
            v3("MKDIR", mkdir::NUMBER, &mkdir),
            v3("SYMLINK", symlink::NUMBER, &symlink),
            v3("MKNOD", mknod::NUMBER, &mknod),
            v3("LINK", link::NUMBER, &link),
            v3("RENAME", rename::NUMBER, &within),
        ];
        all.extend(self.additions_of_version_2());
        all
    }

    /// Returns the operations of version 2 among [`Self::additions`], WRITE first.
    #[must_use]
    pub fn additions_of_version_2(&self) -> Vec<Attempt> {
        let names: Vec<String> = ('P'..='T').map(fresh).collect();
        let directory = short(self.directory);
        let place = |name: &'static str| nfs2::DirectoryArgs {
            directory,
            name: nfs2::Name(name.as_bytes()),
        };
        let at = |name: usize| nfs2::DirectoryArgs {
            directory,
            name: nfs2::Name(names[name].as_bytes()),
        };
        let attributes = nfs2::SetAttributes { mode: Some(0o644), ..Default::default() };
        let target = "t".repeat(TARGET_BYTES);
        let target = nfs2::Path(target.as_bytes());
        let data = Bytes::from(vec![b'2'; WRITE_BYTES as usize]);
        let (file, offset) = (short(self.file), 4096);
        let write = nfs2::write::Args { file, begin_offset: 0, offset, total_count: 0, data };
        let create = nfs2::create::Args { place: at(0), attributes };
        let mkdir = nfs2::mkdir::Args { place: at(1), attributes };
        let symlink = nfs2::symlink::Args { place: at(2), target, attributes };
        let link = nfs2::link::Args { file, link: at(3) };
        let rename = nfs2::rename::Args { from: place("old2"), to: at(4) };
        vec![
            v2("WRITE", nfs2::write::NUMBER, &write),
            v2("CREATE", nfs2::create::NUMBER, &create),
            v2("MKDIR", nfs2::mkdir::NUMBER, &mkdir),
            v2("SYMLINK", nfs2::symlink::NUMBER, &symlink),
            v2("LINK", nfs2::link::NUMBER, &link),
            v2("RENAME", nfs2::rename::NUMBER, &rename),
        ]
    }

    /// Returns the operations that change an object and need no space; no two have the same effect.
    #[must_use]
    pub fn changes(&self) -> Vec<Attempt> {
        let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        let object = self.file;
        let setattr = setattr::Args { object, attributes: mode, guard: None };
        let over = rename::Args { from: self.place("old3"), to: self.place("over3") };
        let to = DirectoryArgs { directory: self.below, name: Name(b"far3") };
        let across = rename::Args { from: self.place("far3"), to };
        let directory = short(self.directory);
        let place = |name: &'static str| nfs2::DirectoryArgs {
            directory,
            name: nfs2::Name(name.as_bytes()),
        };
        let attributes = nfs2::SetAttributes { mode: Some(0o640), ..Default::default() };
        let setattr2 = nfs2::setattr::Args { object: short(object), attributes };
        let over2 = nfs2::rename::Args { from: place("old2"), to: place("over2") };
        vec![
            v3("SETATTR", setattr::NUMBER, &setattr),
            v3("RENAME over", rename::NUMBER, &over),
            v3("RENAME across", rename::NUMBER, &across),
            v3("REMOVE", remove::NUMBER, &self.place("gone3")),
            v3("RMDIR", rmdir::NUMBER, &self.place("gone-d3")),
            v2("SETATTR", nfs2::setattr::NUMBER, &setattr2),
            v2("RENAME over", nfs2::rename::NUMBER, &over2),
            v2("REMOVE", nfs2::remove::NUMBER, &place("gone2")),
            v2("RMDIR", nfs2::rmdir::NUMBER, &place("gone-d2")),
        ]
    }

    /// Returns the operations that change nothing.
    #[must_use]
    pub fn reads(&self) -> Vec<Attempt> {
        let (directory, object, file) = (self.directory, self.file, self.file);
        let (cookie, verifier, count) = (Cookie(0), [0; 8], 8192);
        let list = readdir::Args { directory, cookie, verifier, count };
        let plus = readdirplus::Args { directory, cookie, verifier, names_count: count, count };
        let access =
            access::Args { object, access: access::Access { read: true, ..Default::default() } };
        let read2 = nfs2::read::Args { file: short(file), offset: 0, count, total_count: 0 };
        let directory2 = short(directory);
        let lookup2 = nfs2::DirectoryArgs { directory: directory2, name: nfs2::Name(b"file") };
        let list2 = nfs2::readdir::Args { directory: directory2, cookie: nfs2::Cookie(0), count };
        vec![
            v3("GETATTR", getattr::NUMBER, &getattr::Args { object }),
            v3("LOOKUP", lookup::NUMBER, &self.place("file")),
            v3("ACCESS", access::NUMBER, &access),
            v3("READLINK", readlink::NUMBER, &readlink::Args { symlink: self.symlink }),
            v3("READ", read::NUMBER, &read::Args { file, offset: 0, count }),
            v3("READDIR", readdir::NUMBER, &list),
            v3("READDIRPLUS", readdirplus::NUMBER, &plus),
            v3("FSSTAT", fsstat::NUMBER, &fsstat::Args { root: directory }),
            v3("FSINFO", fsinfo::NUMBER, &fsinfo::Args { root: directory }),
            v3("PATHCONF", pathconf::NUMBER, &pathconf::Args { object }),
            v3("COMMIT", commit::NUMBER, &commit::Args { file, offset: 0, count: 0 }),
            v2("GETATTR", nfs2::getattr::NUMBER, &short(object)),
            v2("LOOKUP", nfs2::lookup::NUMBER, &lookup2),
            v2("READLINK", nfs2::readlink::NUMBER, &short(self.symlink)),
            v2("READ", nfs2::read::NUMBER, &read2),
            v2("READDIR", nfs2::readdir::NUMBER, &list2),
            v2("STATFS", nfs2::statfs::NUMBER, &directory2),
        ]
    }

    /// Returns a WRITE beyond the file's end.
    #[must_use]
    pub fn write(&self, stability: Stability) -> write::Args {
        let (file, count) = (self.file, WRITE_BYTES);
        let data = Bytes::from(vec![b'3'; count as usize]);
        write::Args { file, offset: 4096, count, stability, data }
    }

    fn place<'a>(&self, name: &'a str) -> DirectoryArgs<'a> {
        DirectoryArgs { directory: self.directory, name: Name(name.as_bytes()) }
    }
}
