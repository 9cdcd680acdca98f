//! Clients with leases that would starve where the list of clients cannot be written.

use std::fs;
use std::time::Instant;

use leasehold_wire::lease::{Answer, Kind};

use super::{Holder, file, served, start_with};
use crate::support::PATIENCE;

/// A mount hung in its first operation where the disk of the state directory was full, and went on
/// hanging when there was room again.
#[test]
fn an_operation_runs_without_a_lease_until_the_list_of_clients_can_be_written() {
    let home = served();
    let (_serving, address) = start_with(&home, &["--no-local-coherence"]);
    let file = file(address);
    // No file takes the place of a directory.
    fs::remove_file(home.path("state/leases")).unwrap();
    fs::create_dir(home.path("state/leases")).unwrap();
    let mut holder = Holder::connect(address);
    holder.hello();
    let begun = Instant::now();
    loop {
        match holder.wanted(file, Kind::Read) {
            Answer::Done(done) => break assert_eq!(done.results.held.0.len(), 0),
            // Calls may still run that began before the first HELLO.
            Answer::Later => assert!(begun.elapsed() < PATIENCE, "the operation hangs"),
            answer @ (Answer::Epoch(_)
            | Answer::Instance(_)
            | Answer::Unknown
            | Answer::Late(_)) => panic!("{answer:?}"),
        }
    }
    fs::remove_dir(home.path("state/leases")).unwrap();
    holder.cachable(file, Kind::Read);
}
