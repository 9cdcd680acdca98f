//! Every procedure runs over a store that fails with every possible error, and may return only
//! statuses that its standard lists.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileId, FileTime};
use leasehold_base::xdr::Encode;
use leasehold_fs::suite::block_on;
use leasehold_fs::{
    Access, Attributes, Budget, Caller, Capabilities, Changed, Committed, Entries, Entry, Export,
    Found, FsError, Linked, MaybeReady, Name, NewFile, NewNode, ObjectId, Page, Place, Properties,
    ReadDone, Renamed, SetAttributes, Space, Stability, Store, Target, Wanted, Wcc, WriteDone,
};
use leasehold_serve::table::{Later, PROGRAMS};
use leasehold_store_mem::MemStore;
use leasehold_wire::{every, mount, nfs2, nfs3};

use crate::support::{NAME, Server};

/// A store in which every operation fails with one error. If the list of cookies is not empty, it
/// can list a directory with names at these cookies.
pub(crate) struct Failing(pub(crate) FsError, pub(crate) Vec<u64>);

impl Failing {
    fn fail<'a, T: Send>(&self) -> MaybeReady<'a, Result<T, FsError>> {
        MaybeReady::now(Err(self.0))
    }

    fn change<'a, T: Send>(&self) -> MaybeReady<'a, Changed<T>> {
        MaybeReady::now(Changed::failed(self.0))
    }
}

impl Store for Failing {
    fn root(&self) -> ObjectId {
        ObjectId::new(b"root").expect("short enough")
    }

    fn identity(&self, object: &ObjectId) -> ObjectId {
        *object
    }

    fn path(&self, _: &ObjectId) -> Option<Vec<u8>> {
        None
    }

    fn properties(&self, object: &ObjectId) -> Properties {
        MemStore::default().properties(object)
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::NONE
    }

    fn getattr<'a>(&'a self, _: &'a ObjectId) -> MaybeReady<'a, Result<Attributes, FsError>> {
        self.fail()
    }

    fn setattr<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a ObjectId,
        _: &'a SetAttributes,
        _: Option<FileTime>,
    ) -> MaybeReady<'a, Changed<()>> {
        self.change()
    }

    fn lookup<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a ObjectId,
        _: Name<'a>,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        self.fail()
    }

    fn parent<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        self.fail()
    }

    fn access<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a ObjectId,
        _: Access,
    ) -> MaybeReady<'a, Result<(Access, Attributes), FsError>> {
        self.fail()
    }

    fn readlink<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Target, Attributes), FsError>> {
        self.fail()
    }

    fn read<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a ObjectId,
        _: u64,
        _: u32,
    ) -> MaybeReady<'a, Result<ReadDone, FsError>> {
        self.fail()
    }

    fn write<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a ObjectId,
        _: u64,
        _: Bytes,
        _: Stability,
    ) -> MaybeReady<'a, Changed<WriteDone>> {
        self.change()
    }

    fn create<'a>(
        &'a self,
        _: &'a Caller,
        _: Place<'a>,
        _: &'a NewFile,
    ) -> MaybeReady<'a, Changed<Found>> {
        self.change()
    }

    fn make<'a>(
        &'a self,
        _: &'a Caller,
        _: Place<'a>,
        _: &'a NewNode<'a>,
        _: &'a SetAttributes,
    ) -> MaybeReady<'a, Changed<Found>> {
        self.change()
    }

    fn remove<'a>(&'a self, _: &'a Caller, _: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        self.change()
    }

    fn rmdir<'a>(&'a self, _: &'a Caller, _: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        self.change()
    }

    fn rename<'a>(&'a self, _: &'a Caller, _: Place<'a>, _: Place<'a>) -> MaybeReady<'a, Renamed> {
        MaybeReady::now(Renamed { result: Err(self.0), from: Wcc::default(), to: Wcc::default() })
    }

    fn link<'a>(&'a self, _: &'a Caller, _: &'a ObjectId, _: Place<'a>) -> MaybeReady<'a, Linked> {
        MaybeReady::now(Linked { result: Err(self.0), attributes: None, directory: Wcc::default() })
    }

    fn readdir<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a ObjectId,
        cookie: Cookie,
        mut budget: Budget,
        _: Wanted,
    ) -> MaybeReady<'a, Result<Page, FsError>> {
        let Self(_, positions) = self;
        if positions.is_empty() {
            return self.fail();
        }
        let model = MemStore::default();
        let attributes = block_on(model.getattr(&model.root())).expect("it is there");
        let at = positions.iter().position(|&position| position == cookie.0);
        let (mut entries, mut next) = (Entries::default(), at.map_or(0, |at| at + 1));
        while let Some(&position) = positions.get(next)
            && budget.take(b"name")
        {
            next += 1;
            let (attributes, object) = (None, None);
            let (file_id, cookie) = (FileId(next as u64), Cookie(position));
            entries.push(&Entry { name: b"name", file_id, cookie, attributes, object });
        }
        MaybeReady::now(Ok(Page { entries, end: next == positions.len(), attributes }))
    }

    fn space<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Space, Attributes), FsError>> {
        self.fail()
    }

    fn commit<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a ObjectId,
        _: u64,
        _: u32,
    ) -> MaybeReady<'a, Changed<Committed>> {
        self.change()
    }
}

/// The statuses with their names in RFC 1813 2.6 and RFC 1094 2.3.1.
const WORDS: &[(&str, u32)] = &[
    ("PERM", 1),
    ("NOENT", 2),
    ("IO", 5),
    ("NXIO", 6),
    ("ACCES", 13),
    ("EXIST", 17),
    ("XDEV", 18),
    ("NODEV", 19),
    ("NOTDIR", 20),
    ("ISDIR", 21),
    ("INVAL", 22),
    ("FBIG", 27),
    ("NOSPC", 28),
    ("ROFS", 30),
    ("MLINK", 31),
    ("NAMETOOLONG", 63),
    ("NOTEMPTY", 66),
    ("DQUOT", 69),
    ("STALE", 70),
    ("BADHANDLE", 10001),
    ("NOT_SYNC", 10002),
    ("BAD_COOKIE", 10003),
    ("NOTSUPP", 10004),
    ("TOOSMALL", 10005),
    ("SERVERFAULT", 10006),
    ("BADTYPE", 10007),
    ("JUKEBOX", 10008),
];

fn numbers(words: &str) -> BTreeSet<u32> {
    let number = |word| WORDS.iter().find(|(known, _)| *known == word).expect("a status").1;
    words.split_whitespace().map(number).collect()
}

fn failing(error: FsError) -> Server {
    Server::with(|export| Export { store: Arc::new(Failing(error, Vec::new())), ..export })
}

/// Returns the statuses of a procedure over all failures of the store.
fn statuses(procedure: (u32, u32, u32), args: &impl Encode) -> BTreeSet<u32> {
    let messages = every::PROCEDURES
        .iter()
        .find(|known| (known.program, known.version, known.number) == procedure)
        .expect("the procedure is known");
    let mut statuses = BTreeSet::new();
    for &error in FsError::ALL {
        let mut server = failing(error);
        let message = server.message(procedure, args);
        let Some(reply) = server.answer(&message) else {
            assert_eq!(error, FsError::Delay, "{procedure:?} has no reply");
            assert_eq!(later(procedure), Later::Unanswered, "{procedure:?}");
            continue;
        };
        // The results follow the head of an accepted call.
        let results = reply.slice(24..);
        let recoded = (messages.reply)(&results).expect("results of that procedure");
        assert_eq!(recoded, results, "{procedure:?} {error}");
        let (status, _) = results.split_first_chunk().expect("a status");
        let status = u32::from_be_bytes(*status);
        if error == FsError::Delay {
            let says_later = status == nfs3::Status::Jukebox as u32;
            assert_eq!(later(procedure) == Later::Said, says_later, "{procedure:?}");
        }
        statuses.insert(status);
    }
    statuses
}

/// Returns the table's outcome of a procedure that would wait for too long.
fn later((program, version, number): (u32, u32, u32)) -> Later {
    let program = PROGRAMS.iter().find(|served| served.number == program).expect("it is served");
    let mut versions = program.versions.iter();
    let version = versions.find(|served| served.number == version).expect("it is served");
    version.rows[usize::try_from(number).expect("it is small")].later()
}

/// Compares the statuses of a procedure with the expected statuses.
fn check(procedure: (u32, u32, u32), args: &impl Encode, words: &str) {
    assert_eq!(statuses(procedure, args), numbers(words), "{procedure:?}");
}

fn root() -> [u8; 32] {
    let server = failing(FsError::Io);
    server.service.root_handle(NAME).expect("the export is there")
}

/// Like [`check`], for version 3, in which all procedures may request a retry (RFC 1813 2.6,
/// NFS3ERR_JUKEBOX).
fn check3(number: u32, args: &impl Encode, words: &str) {
    check((nfs3::PROGRAM, nfs3::VERSION, number), args, &format!("{words} JUKEBOX"));
}

/// Like [`check`], for version 2.
fn check2(number: u32, args: &impl Encode, words: &str) {
    check((nfs2::PROGRAM, nfs2::VERSION, number), args, words);
}

#[test]
fn version_3_returns_the_statuses_of_rfc_1813_for_objects() {
    use nfs3::*;
    let root = Handle::from(root());
    let attributes = SetAttributes::default();
    let data = Bytes::from_static(b"data");
    let stability = write::Stability::Unstable;
    let disk = "IO STALE BADHANDLE SERVERFAULT";
    check3(1, &getattr::Args { object: root }, disk);
    check3(
        2,
        &setattr::Args { object: root, attributes, guard: None },
        "PERM IO ACCES INVAL NOSPC ROFS DQUOT NOT_SYNC STALE BADHANDLE SERVERFAULT",
    );
    check3(4, &access::Args { object: root, access: access::Access::default() }, disk);
    check3(
        5,
        &readlink::Args { symlink: root },
        "IO INVAL ACCES STALE BADHANDLE NOTSUPP SERVERFAULT",
    );
    check3(
        6,
        &read::Args { file: root, offset: 0, count: 1 },
        "IO NXIO ACCES INVAL STALE BADHANDLE SERVERFAULT",
    );
    let written = write::Args { file: root, offset: 0, count: 4, stability, data };
    check3(7, &written, "IO ACCES FBIG DQUOT NOSPC ROFS INVAL STALE BADHANDLE SERVERFAULT");
    check3(18, &fsstat::Args { root }, disk);
    let object = "STALE BADHANDLE SERVERFAULT";
    check3(19, &fsinfo::Args { root }, object);
    check3(20, &pathconf::Args { object: root }, object);
    let commit = commit::Args { file: root, offset: 0, count: 0 };
    // The last expected status is an addition to the list of the standard
    // (docs/design/0006-statuses.md).
    check3(21, &commit, &format!("{disk} INVAL"));
}

#[test]
fn version_3_returns_the_statuses_of_rfc_1813_for_names() {
    use nfs3::*;
    let root = Handle::from(root());
    let at = DirectoryArgs { directory: root, name: Name(b"name") };
    let attributes = SetAttributes::default();
    check3(3, &at, "IO NOENT ACCES NOTDIR NAMETOOLONG STALE BADHANDLE SERVERFAULT");
    let made = "IO ACCES EXIST NOTDIR NOSPC ROFS NAMETOOLONG DQUOT STALE BADHANDLE NOTSUPP \
                SERVERFAULT";
    let how = create::How::Guarded(attributes);
    check3(8, &create::Args { place: at, how }, made);
    check3(9, &mkdir::Args { place: at, attributes }, made);
    let target = Path(b"target");
    check3(10, &symlink::Args { place: at, attributes, target }, made);
    let node = mknod::Node::Fifo(attributes);
    check3(11, &mknod::Args { place: at, node }, &format!("{made} BADTYPE"));
    check3(
        12,
        &at,
        // The last expected status is an addition to the list of the standard
        // (docs/design/0006-statuses.md).
        "NOENT IO ACCES NOTDIR NAMETOOLONG ROFS STALE BADHANDLE SERVERFAULT ISDIR",
    );
    check3(
        13,
        &at,
        "NOENT IO ACCES INVAL EXIST NOTDIR NAMETOOLONG ROFS NOTEMPTY STALE BADHANDLE NOTSUPP \
         SERVERFAULT",
    );
    check3(
        14,
        &rename::Args { from: at, to: at },
        "NOENT IO ACCES EXIST XDEV NOTDIR ISDIR INVAL NOSPC ROFS MLINK NAMETOOLONG NOTEMPTY DQUOT \
         STALE BADHANDLE NOTSUPP SERVERFAULT",
    );
    check3(
        15,
        &link::Args { file: root, link: at },
        "IO ACCES EXIST XDEV NOTDIR INVAL NOSPC ROFS MLINK NAMETOOLONG DQUOT STALE BADHANDLE \
         NOTSUPP SERVERFAULT",
    );
    let listed = "IO ACCES NOTDIR BAD_COOKIE TOOSMALL STALE BADHANDLE SERVERFAULT";
    let (cookie, verifier, count) = (leasehold_base::units::Cookie(0), [0; 8], 4096);
    check3(16, &readdir::Args { directory: root, cookie, verifier, count }, listed);
    let everything =
        readdirplus::Args { directory: root, cookie, verifier, names_count: 512, count };
    check3(17, &everything, &format!("{listed} NOTSUPP"));
}

#[test]
fn version_2_returns_its_own_statuses() {
    use nfs2::*;
    let root = Handle(root());
    let at = DirectoryArgs { directory: root, name: Name(b"name") };
    let attributes = SetAttributes::default();
    let changed = "IO STALE ACCES FBIG ISDIR NOSPC DQUOT ROFS";
    let named = "IO STALE ACCES NAMETOOLONG NOTDIR";
    let made = &format!("{named} EXIST NOSPC DQUOT ROFS");
    check2(1, &root, "IO STALE");
    let set = setattr::Args { object: root, attributes };
    check2(2, &set, &format!("{changed} PERM"));
    check2(4, &at, &format!("{named} NOENT"));
    check2(5, &root, "IO STALE ACCES NAMETOOLONG");
    let read = read::Args { file: root, offset: 0, count: 1, total_count: 0 };
    check2(6, &read, "IO STALE ACCES ISDIR NODEV FBIG");
    let data = Bytes::from_static(b"data");
    let write = write::Args { file: root, begin_offset: 0, offset: 0, total_count: 0, data };
    check2(8, &write, changed);
    let create = create::Args { place: at, attributes };
    check2(9, &create, &format!("{made} FBIG"));
    check2(10, &at, &format!("{named} ISDIR NOENT ROFS"));
    let renamed = rename::Args { from: at, to: at };
    check2(11, &renamed, &format!("{made} ISDIR NOTEMPTY NOENT"));
    check2(12, &link::Args { file: root, link: at }, made);
    let target = Path(b"target");
    check2(13, &symlink::Args { place: at, target, attributes }, made);
    check2(14, &mkdir::Args { place: at, attributes }, made);
    check2(15, &at, &format!("{named} EXIST NOTEMPTY NOENT ROFS"));
    let listed = readdir::Args { directory: root, cookie: Cookie(0), count: 4096 };
    check2(16, &listed, "IO STALE ACCES NOTDIR");
    check2(17, &root, "IO STALE");
}

#[test]
fn mount_returns_the_statuses_of_rfc_1813() {
    let words = "NOENT IO ACCES NOTDIR NAMETOOLONG";
    for version in [1, 2, 3] {
        check((mount::PROGRAM, version, 1), &mount::Path(b"/data/below"), words);
    }
}
