//! Tests of the types that all state machines share.

use super::*;

/// Returns the place in `word`, such as `1/a` for the name `a` in the directory 1.
pub(super) fn place(word: &str) -> Place {
    let (directory, name) = word.split_once('/').expect("a directory and a name");
    Place { directory: object(directory), name: name.as_bytes().to_vec() }
}

/// Returns the object with the id in `word`.
pub(super) fn object(word: &str) -> FileId {
    FileId(word.parse().expect("an object"))
}

/// Bounds that are reached soon.
pub(super) const SMALL: Bounds = Bounds { most: 3, ..Bounds::DEFAULT };

#[test]
fn the_range_of_an_id_determines_the_home() {
    let homes = Homes::new(BTreeMap::from([(1, Peer(10)), (2, Peer(20)), (3, Peer(10))]));
    let of = |range: u64| homes.of(FileId(range << 48 | 77));
    assert_eq!([1, 2, 3, 4].map(of), [Some(Peer(10)), Some(Peer(20)), Some(Peer(10)), None]);
}

#[test]
fn an_id_is_issued_once_even_across_restarts() {
    let mut stored = 0;
    let mut given = std::collections::BTreeSet::new();
    for _ in 0..5 {
        let mut ids = Ids::new(7, stored);
        assert_eq!(ids.take(), None, "a block is stored first");
        for _ in 0..3000 {
            if let Some(more) = ids.to_store() {
                stored = more;
                ids.stored(more);
            }
            let id = ids.take().expect("there are more");
            assert_eq!(id.0 >> 48, 7);
            assert!(given.insert(id), "{id:?} is issued twice");
        }
    }
}

#[test]
fn a_range_has_an_end() {
    let mut ids = Ids::new(1, (1 << 48) - 1);
    ids.to_store().into_iter().for_each(|end| ids.stored(end));
    assert_eq!(ids.take(), Some(FileId((1 << 49) - 1)));
    assert_eq!((ids.take(), ids.to_store()), (None, None));
}
