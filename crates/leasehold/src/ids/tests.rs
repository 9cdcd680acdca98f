use super::*;

/// A file system by a number, and a root object by a letter.
fn origin(volume: u8, object: u8) -> Origin {
    Origin { volume: Some([volume; 16]), object: ObjectId::new(&[object]).expect("it is short") }
}

/// Directories by their paths.
type World<'a> = BTreeMap<&'a str, Origin>;

fn given(numbers: &mut Numbers, world: &World<'_>, paths: &[&str]) -> Vec<u16> {
    let paths: Vec<_> = paths.iter().map(Path::new).collect();
    let there = |path: &Path| world.get(path.to_str().expect("is text")).copied();
    let found = numbers.number(&paths, &there).expect("there are enough");
    found.iter().map(|id| id.0).collect()
}

#[test]
fn a_directory_keeps_its_number() {
    let home = tempfile::tempdir().expect("there is room");
    let of = |paths: &[&str]| -> Vec<u16> {
        let paths: Vec<&Path> = paths.iter().map(Path::new).collect();
        of(home.path(), &paths).expect("it can be noted").iter().map(|id| id.0).collect()
    };
    let in_group = |path: &str| of_group(home.path(), Path::new(path)).expect("is read").0;
    assert_eq!(in_group("/a"), 1);
    assert_eq!(of(&["/b", "/a b\nc"]), [1, 2]);
    assert_eq!(of(&["/d", "/a b\nc"]), [3, 2], "what is gone keeps its number");
    assert_eq!(of(&["/b"]), [1]);
    assert_eq!((in_group("/d"), in_group("/elsewhere")), (3, 1));
    // Earlier versions read these bytes.
    let text = std::fs::read(home.path().join(NAMES)).expect("it is there");
    assert_eq!(text, b"2 /a b\nc\x001 /b\x003 /d\0");
    for name in [NAMES, ORIGINS] {
        state::put(home.path(), name, &[b"nonsense"]).expect("there is room");
        let failed = super::of(home.path(), &[Path::new("/b")]).expect_err("nobody guesses");
        assert!(failed.to_string().contains("damaged"), "{failed}");
        std::fs::remove_file(home.path().join(name)).expect("it is there");
    }
}

/// A handle has the number, so clients read and wrote the files of one directory under the rules of
/// another directory with the same number.
#[test]
fn servers_one_after_the_other_give_their_directories_numbers_of_their_own() {
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
    // The first directory is known when it comes back.
    world.insert("/mnt", origin(1, 1));
    assert_eq!(given(&mut numbers, &world, &["/mnt"]), [1]);
}

#[test]
fn a_renamed_directory_keeps_its_number_and_a_copy_gets_another() {
    let mut numbers = Numbers::default();
    let world = World::from([("/old", origin(1, 1))]);
    assert_eq!(given(&mut numbers, &world, &["/old"]), [1]);
    // A snapshot of the whole file system has the same origin while the first directory is there.
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
    // A file system whose UUID an older kernel does not tell is the same file system.
    let silent = |object| Origin { volume: None, ..origin(1, object) };
    let silent = World::from([("/a", silent(1)), ("/b", silent(2))]);
    assert_eq!(given(&mut numbers, &silent, &["/a", "/b"]), [4, 5]);
    assert_eq!(given(&mut numbers, &world, &["/a", "/b"]), [4, 5]);
}

#[test]
fn no_number_is_given_out_twice() {
    let mut numbers = Numbers::default();
    numbers.names.insert("/a".into(), ExportId(u16::MAX));
    let there = |_: &Path| None;
    assert_eq!(numbers.number(&[Path::new("/a")], &there), Some(vec![ExportId(u16::MAX)]));
    assert_eq!(numbers.number(&[Path::new("/b")], &there), None);
}
