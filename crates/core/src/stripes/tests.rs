//! Layouts compared with a file that is laid out byte by byte.

use proptest::prelude::*;

use super::{Layout, Piece};

fn layouts() -> impl Strategy<Value = Layout> {
    (1_u32..9, 1_u16..6).prop_map(|(unit, width)| Layout::new(unit, width).expect("none is zero"))
}

proptest! {
    #[test]
    fn every_byte_of_a_file_has_a_place_of_its_own(layout in layouts(), size in 0_u64..200) {
        let mut lengths = vec![0_u64; usize::from(layout.width())];
        for offset in 0..size {
            let (object, place) = layout.place(offset);
            // In file order each object is filled from its start, without a gap.
            prop_assert_eq!(lengths[usize::from(object)], place);
            lengths[usize::from(object)] += 1;
        }
        for (object, &length) in (0..).zip(&lengths) {
            prop_assert_eq!(layout.object_size(object, size), length);
        }
        let ends = (0..).zip(&lengths).map(|(object, &length)| layout.file_size(object, length));
        prop_assert_eq!(ends.max(), Some(size));
    }

    #[test]
    fn pieces_cover_a_range_once_and_in_order(
        layout in layouts(),
        offset in 0_u64..100,
        length in 0_u64..100,
    ) {
        let mut next = offset;
        for piece in layout.pieces(offset, length) {
            prop_assert_eq!(piece.file_offset, next);
            prop_assert!(piece.length > 0);
            for within in 0..piece.length {
                let place = (piece.object, piece.object_offset + within);
                prop_assert_eq!(layout.place(next + within), place);
            }
            next += piece.length;
        }
        prop_assert_eq!(next, offset + length);
    }
}

#[test]
fn a_file_over_three_objects() {
    let layout = Layout::new(10, 3).expect("none is zero");
    let pieces: Vec<_> = layout.pieces(25, 20).collect();
    let piece = |object, object_offset, file_offset, length| Piece {
        object,
        object_offset,
        file_offset,
        length,
    };
    assert_eq!(pieces, [piece(2, 5, 25, 5), piece(0, 10, 30, 10), piece(1, 10, 40, 5)]);
    assert_eq!([0, 1, 2].map(|object| layout.object_size(object, 45)), [20, 15, 10]);
    assert_eq!(
        [(0, 20), (1, 15), (2, 10)].map(|(o, size)| layout.file_size(o, size)),
        [40, 45, 30]
    );
}

#[test]
fn no_size_is_too_large() {
    let layout = Layout::new(u32::MAX, u16::MAX).expect("none is zero");
    assert_eq!(layout.file_size(7, u64::MAX), u64::MAX);
    assert_eq!(layout.pieces(u64::MAX - 1, 100).map(|piece| piece.length).sum::<u64>(), 1);
    assert!(Layout::new(0, 1).is_none() && Layout::new(1, 0).is_none());
}
