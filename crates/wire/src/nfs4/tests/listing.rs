use super::*;

const LISTING: &str = include_str!("../../../../../spec/nfs4.x");

/// Returns the names and numbers of the listing with a prefix, without the prefix.
fn listed(prefix: &str) -> Vec<(u32, String)> {
    let lines = LISTING.lines().map(|line| line.trim().trim_start_matches("const "));
    lines
        .filter_map(|line| line.trim_end_matches([',', ';']).split_once(" = "))
        .filter_map(|(name, number)| Some((name.strip_prefix(prefix)?, number)))
        .map(|(name, number)| (number.parse().expect("a number"), name.to_owned()))
        .collect()
}

#[test]
fn operations_are_numbered_as_in_the_listing() {
    let illegal = (Number::ILLEGAL.0, "ILLEGAL".to_owned());
    let mut operations: Vec<_> = Operation::ALL
        .iter()
        .map(|operation| (*operation as u32, operation.name().to_owned()))
        .collect();
    operations.push(illegal.clone());
    let without_callbacks = listed("OP_").into_iter().filter(|(_, name)| !name.starts_with("CB_"));
    assert_eq!(operations, without_callbacks.collect::<Vec<_>>());

    let mut callbacks: Vec<_> = callback::Operation::ALL
        .iter()
        .map(|operation| (*operation as u32, operation.name().to_owned()))
        .collect();
    callbacks.push((illegal.0, "CB_ILLEGAL".to_owned()));
    let of_callbacks = listed("OP_").into_iter().filter(|(_, name)| name.starts_with("CB_"));
    assert_eq!(callbacks, of_callbacks.collect::<Vec<_>>());
}

#[test]
fn statuses_are_numbered_as_in_the_listing() {
    let statuses: Vec<_> =
        Status::ALL.iter().map(|status| (*status as u32, status.name().to_owned())).collect();
    let listed = listed("NFS4ERR_");
    let listed = listed.into_iter().map(|(number, name)| (number, format!("NFS4ERR_{name}")));
    assert_eq!(statuses, listed.collect::<Vec<_>>());
    vector!(OK, "00000000");
    vector!(Completion::Failed(Status::XattrTooBig), "00002770");
}

#[test]
fn attributes_are_numbered_as_in_the_listing() {
    let attributes: Vec<_> = Attribute::ALL
        .iter()
        .map(|attribute| (*attribute as u32, attribute.name().to_uppercase()))
        .collect();
    assert_eq!(attributes, listed("FATTR4_"));
    assert_eq!(attributes.len(), 87);
}

#[test]
fn numbers_without_an_operation_stay_numbers() {
    let known = 3..=75;
    for number in 0..200 {
        let operation = Number(number).operation();
        assert_eq!(operation.is_some(), known.contains(&number), "{number}");
        assert!(operation.is_none_or(|operation| Number::from(operation) == Number(number)));
    }
    assert_eq!(Number::ILLEGAL.operation(), None);
    assert_eq!(Operation::ReleaseLockOwner.minor_version(), 0);
    assert_eq!(Operation::BackChannelControl.minor_version(), 1);
    assert_eq!(Operation::ReclaimComplete.minor_version(), 1);
    assert_eq!(Operation::Allocate.minor_version(), 2);
    let obsolete: Vec<_> =
        Operation::ALL.iter().filter(|operation| operation.is_obsolete()).collect();
    assert_eq!(obsolete.len(), 5);
}
