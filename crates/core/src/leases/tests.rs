//! Tests of the types that all lease state machines share.

use super::*;

#[test]
fn terms_are_clamped() {
    let clamp = |seconds| Terms::DEFAULT.clamp(Duration::from_secs(seconds)).as_secs();
    assert_eq!([0, 1, 30, 60, 61, u64::MAX].map(clamp), [30, 1, 30, 60, 60, 60]);
}

#[test]
fn late_data_is_accepted_unless_the_object_has_a_later_modrev() {
    assert!(Modrev(5).admits_late(Modrev(5)));
    assert!(Modrev(5).admits_late(Modrev(4)));
    assert!(!Modrev(5).admits_late(Modrev(6)));
}
