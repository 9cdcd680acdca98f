use super::*;

/// Builds an origin from a number for the file system and a letter for the root object.
fn origin(volume: u8, object: u8) -> Origin {
    Origin { volume: Some([volume; 16]), object: ObjectId::new(&[object]).expect("it is short") }
}

/// The directories of a test, by their paths.
type World<'a> = BTreeMap<&'a str, Origin>;

fn given(numbers: &mut Numbers, world: &World<'_>, paths: &[&str]) -> Vec<u16> {
    let paths: Vec<_> = paths.iter().map(Path::new).collect();
    let there = |path: &Path| world.get(path.to_str().expect("is text")).copied();
    let found = numbers.number(&paths, &there).expect("there are enough");
    found.iter().map(|id| id.0).collect()
}

#[test]
fn directory_keeps_its_number() {
    let home = tempfile::tempdir().expect("there is room");
    let of = |paths: &[&str]| -> Vec<u16> {
        let paths: Vec<&Path> = paths.iter().map(Path::new).collect();
        of(home.path(), &paths).expect("it can be noted").iter().map(|id| id.0).collect()
    };
    let in_group = |path: &str| of_group(home.path(), Path::new(path)).expect("is read").0;
    assert_eq!(in_group("/a"), 1);
    assert_eq!(of(&["/b", "/a b\nc"]), [1, 2]);
    assert_eq!(of(&["/d", "/a b\nc"]), [3, 2], "the number of a removed directory stays reserved");
    assert_eq!(of(&["/b"]), [1]);
    assert_eq!((in_group("/d"), in_group("/elsewhere")), (3, 1));
    // The format must not change, because earlier versions read these bytes.
    let text = std::fs::read(home.path().join(NAMES)).expect("it is there");
    assert_eq!(text, b"2 /a b\nc\x001 /b\x003 /d\0");
    for name in [NAMES, ORIGINS] {
        state::put(home.path(), name, &[b"nonsense"]).expect("there is room");
        let failed =
            super::of(home.path(), &[Path::new("/b")]).expect_err("damaged data is an error");
        assert!(failed.to_string().contains("damaged"), "{failed}");
        std::fs::remove_file(home.path().join(name)).expect("it is there");
    }
}

/// Regression test: a later server gave its directory the number of an earlier server's directory.
/// Handles contain the number, so clients accessed files of one directory under the rules of the
/// other directory.
#[test]
fn consecutive_servers_give_directories_distinct_numbers() {
    let mut numbers = Numbers::default();
    let world = World::from([("/a", origin(1, 1)), ("/b", origin(1, 2))]);
    assert_eq!(given(&mut numbers, &world, &["/a"]), [1]);
    assert_eq!(given(&mut numbers, &world, &["/b"]), [2]);
    assert_eq!(given(&mut numbers, &world, &["/b", "/a"]), [2, 1]);
}

#[test]
fn another_directory_of_the_same_name_gets_another_number() {
    let mut numbers = Numbers::default();
    let mut world = World::from([("/mnt", origin(1, 1))]);
    assert_eq!(given(&mut numbers, &world, &["/mnt"]), [1]);
    for other in [origin(2, 1), origin(1, 2)] {
        world.insert("/mnt", other);
        assert_ne!(given(&mut numbers, &world, &["/mnt"]), [1]);
    }
    // The first directory has its old number when it returns.
    world.insert("/mnt", origin(1, 1));
    assert_eq!(given(&mut numbers, &world, &["/mnt"]), [1]);
}

#[test]
fn renamed_directory_keeps_its_number_and_copy_gets_another() {
    let mut numbers = Numbers::default();
    let world = World::from([("/old", origin(1, 1))]);
    assert_eq!(given(&mut numbers, &world, &["/old"]), [1]);
    // A snapshot of the whole file system has the same origin. While the first directory still
    // exists, the snapshot is a copy and gets a new number.
    let both = World::from([("/old", origin(1, 1)), ("/snapshot", origin(1, 1))]);
    assert_eq!(given(&mut numbers.clone(), &both, &["/snapshot"]), [2]);
    assert_eq!(given(&mut numbers.clone(), &both, &["/snapshot", "/old"]), [2, 1]);
    let moved = World::from([("/new", origin(1, 1))]);
    assert_eq!(given(&mut numbers, &moved, &["/new"]), [1]);
    let swapped = World::from([("/new", origin(1, 1)), ("/old", origin(1, 2))]);
    assert_eq!(given(&mut numbers, &swapped, &["/old", "/new"]), [2, 1]);
}

#[test]
fn numbers_of_an_earlier_version_stay() {
    let mut numbers = Numbers::default();
    numbers.names.insert("/a".into(), ExportId(4));
    let world = World::from([("/a", origin(1, 1)), ("/b", origin(1, 2))]);
    assert_eq!(given(&mut numbers, &world, &["/a", "/b"]), [4, 5]);
    // An older kernel does not report the UUID of a file system: the directory then keeps its
    // number.
    let silent = |object| Origin { volume: None, ..origin(1, object) };
    let silent = World::from([("/a", silent(1)), ("/b", silent(2))]);
    assert_eq!(given(&mut numbers, &silent, &["/a", "/b"]), [4, 5]);
    assert_eq!(given(&mut numbers, &world, &["/a", "/b"]), [4, 5]);
}

#[test]
fn no_number_is_assigned_twice() {
    let mut numbers = Numbers::default();
    numbers.names.insert("/a".into(), ExportId(u16::MAX));
    let there = |_: &Path| None;
    assert_eq!(numbers.number(&[Path::new("/a")], &there), Some(vec![ExportId(u16::MAX)]));
    assert_eq!(numbers.number(&[Path::new("/b")], &there), None);
}
