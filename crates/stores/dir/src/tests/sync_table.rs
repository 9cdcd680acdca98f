//! The syncs of each operation, recorded and compared with the table in docs/semantics/durability.md.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_fs::{
    Caller, Mode, NewFile, NewNode, ObjectId, Place, SetAttributes, SetTime, Stability, Store,
};

use super::harness::{World, name, superuser, wait};
use super::script::Script;
use crate::sync::Extent;

/// The directory of the operations. It differs from the root, so that its syncs differ from syncs
/// of the whole file system.
const DIRECTORY: &str = "directory";
const OTHER: &str = "other";

struct Bench {
    world: World,
    script: Script,
    caller: Caller,
    directory: ObjectId,
    other: ObjectId,
}

impl Bench {
    /// Creates a test setup. `syncs_names` is true if the syncs of a directory include the inodes
    /// of its new names.
    fn new(syncs_names: bool) -> Self {
        let script = Script::default();
        let mut world = script.world();
        let volume = Arc::get_mut(&mut world.store.volume).expect("nobody else has it yet");
        volume.syncs_names = syncs_names;
        let [directory, other] = [DIRECTORY, OTHER].map(|path| {
            let (caller, attributes) = (superuser(), SetAttributes::default());
            let made = world.store.make(&caller, world.at(path), &NewNode::Directory, &attributes);
            wait(made).result.expect("it can be made").object
        });
        Self { world, script, caller: superuser(), directory, other }
    }

    fn at<'a>(&self, path: &'a str) -> Place<'a> {
        Place { directory: self.directory, name: name(path) }
    }

    /// Runs an operation, and returns its syncs as text.
    fn synced(&self, operation: impl FnOnce()) -> String {
        self.script.take();
        operation();
        let words = |(extent, path): (Extent, String)| match (extent, path.as_str()) {
            (Extent::Data, _) => "the data",
            (Extent::Object, DIRECTORY) => "the directory",
            (Extent::Object, OTHER) => "the other directory",
            (Extent::Object, _) => "the object",
            (Extent::FileSystem, _) => "the file system",
        };
        let mut synced: Vec<_> = self.script.take().into_iter().map(words).collect();
        synced.sort_unstable();
        if synced.is_empty() { "nothing".to_owned() } else { synced.join(", ") }
    }

    fn write(&self, path: &str, stability: Stability) {
        let file = self.object(path);
        let data = Bytes::from_static(b"data");
        let done = wait(self.world.store.write(&self.caller, &file, 0, data, stability)).result;
        assert_eq!(done.expect("it can be written").stability, stability);
    }

    fn object(&self, path: &str) -> ObjectId {
        self.world.lookup(self.directory, path).expect("it is there")
    }

    fn set(&self, path: &str, changes: SetAttributes) {
        let object = self.object(path);
        let set = wait(self.world.store.setattr(&self.caller, &object, &changes, None));
        assert_eq!(set.result, Ok(()));
    }

    fn create(&self, path: &str, file: &NewFile) {
        let made = wait(self.world.store.create(&self.caller, self.at(path), file));
        made.result.expect("it can be made");
    }

    fn make(&self, path: &str, node: &NewNode<'_>, attributes: &SetAttributes) {
        let made = wait(self.world.store.make(&self.caller, self.at(path), node, attributes));
        made.result.expect("it can be made");
    }

    fn rename(&self, from: &str, directory: ObjectId, to: &str) {
        let to = Place { directory, name: name(to) };
        let renamed = wait(self.world.store.rename(&self.caller, self.at(from), to));
        assert_eq!(renamed.result, Ok(()));
    }

    /// Returns every operation with its syncs.
    fn rows(&self) -> Vec<(&'static str, String)> {
        let none = SetAttributes::default();
        let mode = SetAttributes { mode: Some(Mode::from_bits(0o640)), ..none };
        let more = SetAttributes { gid: Some(0), modified: SetTime::Now, ..mode };
        let size = SetAttributes { size: Some(2), ..none };
        let store = &self.world.store;
        let mut rows = Vec::new();
        let mut row = |words, operation: &dyn Fn()| rows.push((words, self.synced(operation)));

        row("CREATE, with a mode at most", &|| self.create("a", &NewFile::Guarded(mode)));
        row("CREATE, with more", &|| self.create("b", &NewFile::Guarded(more)));
        row("CREATE, exclusive", &|| self.create("c", &NewFile::exclusive(*b"verifier")));
        row("CREATE of a file that is there", &|| self.create("a", &NewFile::Unchecked(none)));
        row("CREATE that cuts it", &|| self.create("a", &NewFile::Unchecked(size)));
        row("WRITE, UNSTABLE", &|| self.write("a", Stability::Unstable));
        row("WRITE, DATA_SYNC", &|| self.write("a", Stability::DataSync));
        row("WRITE, FILE_SYNC, and every WRITE of version 2", &|| {
            self.write("a", Stability::FileSync);
        });
        row("COMMIT", &|| {
            let done = wait(store.commit(&self.caller, &self.object("a"), 4096, 1)).result;
            done.expect("it can be");
        });
        row("SETATTR", &|| self.set("a", more));
        row("MKDIR, with a mode at most", &|| self.make("d", &NewNode::Directory, &mode));
        row("MKDIR, with more", &|| self.make("e", &NewNode::Directory, &more));
        row("SYMLINK, MKNOD, with a mode at most", &|| self.make("f", &NewNode::Fifo, &mode));
        row("SYMLINK, MKNOD, with more", &|| self.make("l", &NewNode::Symlink(b"a"), &more));
        row("SETATTR of the new object", &|| self.set("f", more));
        row("LINK", &|| {
            let linked = wait(store.link(&self.caller, &self.object("a"), self.at("g")));
            assert_eq!(linked.result, Ok(()));
        });
        row("REMOVE", &|| {
            assert_eq!(wait(store.remove(&self.caller, self.at("g"))).result, Ok(()));
        });
        row("RMDIR", &|| {
            assert_eq!(wait(store.rmdir(&self.caller, self.at("e"))).result, Ok(()));
        });
        row("RENAME within a directory", &|| self.rename("a", self.directory, "h"));
        row("RENAME into another", &|| self.rename("h", self.other, "i"));
        row("RENAME of a directory into another", &|| self.rename("d", self.other, "j"));
        rows
    }
}

#[test]
fn each_operation_syncs_according_to_the_table() {
    let (along, apart) = (Bench::new(true).rows(), Bench::new(false).rows());
    let mut table = String::from(
        "| operation | synced before it is answered | where a directory takes no inodes along |\n\
         | --- | --- | --- |\n",
    );
    for ((words, along), (_, apart)) in along.into_iter().zip(apart) {
        let apart = if apart == along { "the same".to_owned() } else { apart };
        writeln!(table, "| {words} | {along} | {apart} |").expect("there is memory");
    }
    let promises =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/semantics/durability.md");
    let promises = fs::read_to_string(promises).expect("it is there");
    assert!(promises.contains(&table), "the promises should have this table:\n{table}");
}
