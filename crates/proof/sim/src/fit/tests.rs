use leasehold_base::units::Time;
use leasehold_wire::nfs3::Status;
use leasehold_wire::nfs3::write::Stability;

use super::*;
use crate::model::block::Block;
use crate::model::folder::Folder;
use crate::op::Owner;

const BLOCK: Block = Block { file: Owner::Shared, block: 0 };

/// A history that a test writes directly, with a separate program for each operation.
#[derive(Default)]
struct Told(History, u8);

impl Told {
    fn begin(&mut self, op: Op) -> OpId {
        self.1 += 1;
        self.0.begin(Time::ZERO, self.1, op)
    }

    fn end(&mut self, id: OpId, outcome: Outcome) {
        self.0.end(Time::ZERO, id, outcome);
    }

    fn whole(&mut self, op: Op, outcome: Outcome) {
        let id = self.begin(op);
        self.end(id, outcome);
    }

    fn fits_block(&self) -> bool {
        fit(&BLOCK, &self.0).is_ok()
    }

    fn fits_folder(&self) -> bool {
        fit(&Folder::new(Owner::Shared, &self.0), &self.0).is_ok()
    }
}

const READ: Op = Op::Read { file: Owner::Shared, block: 0 };
const REMOVE: Op = Op::Remove { folder: Owner::Shared, name: 0 };
const MKDIR: Op = Op::Mkdir { folder: Owner::Shared, name: 0 };
const LIST: Op = Op::List { folder: Owner::Shared };
const RMDIR: Op = Op::Rmdir { folder: Owner::Shared, name: 0 };

fn write(value: u64, stability: Stability) -> Op {
    Op::Write { file: Owner::Shared, block: 0, value, stability }
}

fn written(stability: Stability) -> Outcome {
    Outcome::Written { stability, verifier: [0; 8] }
}

#[test]
fn a_read_concurrent_with_a_write_returns_the_old_or_new_value() {
    for (value, fits) in [(0, true), (1, true), (2, false)] {
        let mut told = Told::default();
        let write = told.begin(write(1, Stability::FileSync));
        told.whole(READ, Outcome::Data(value));
        told.end(write, written(Stability::FileSync));
        assert_eq!(told.fits_block(), fits, "{value}");
    }
}

#[test]
fn no_later_read_returns_an_older_value() {
    let mut told = Told::default();
    let write = told.begin(write(1, Stability::FileSync));
    told.whole(READ, Outcome::Data(1));
    told.whole(READ, Outcome::Data(0));
    told.end(write, written(Stability::FileSync));
    assert!(!told.fits_block());
}

#[test]
fn a_crash_loses_only_unstable_values() {
    for (stability, back) in [(Stability::Unstable, true), (Stability::DataSync, false)] {
        for (value, fits) in [(0, false), (1, back), (2, true)] {
            let mut told = Told::default();
            told.whole(write(1, Stability::FileSync), written(Stability::FileSync));
            told.whole(write(2, stability), written(stability));
            told.0.crash(Time::ZERO);
            told.whole(READ, Outcome::Data(value));
            assert_eq!(told.fits_block(), fits, "{stability:?} {value}");
        }
    }
}

#[test]
fn a_call_runs_twice_only_across_a_crash() {
    for crash in [false, true] {
        let mut told = Told::default();
        let mkdir = told.begin(MKDIR);
        if crash {
            told.0.crash(Time::ZERO);
        }
        // The first run of MKDIR created the directory, and the crash lost its reply.
        told.end(mkdir, Outcome::Failed(Status::AlreadyExists));
        told.whole(RMDIR, Outcome::Done);
        assert_eq!(told.fits_folder(), crash);
    }
}

#[test]
fn a_call_that_a_kill_interrupted_may_run_twice() {
    for cut_short in [false, true] {
        let mut told = Told::default();
        told.whole(write(1, Stability::FileSync), written(Stability::FileSync));
        told.whole(write(2, Stability::Unstable), written(Stability::Unstable));
        let mkdir = told.begin(MKDIR);
        let running = if cut_short { BTreeSet::from([mkdir]) } else { BTreeSet::new() };
        told.0.kill(Time::ZERO, running);
        told.end(mkdir, Outcome::Failed(Status::AlreadyExists));
        told.whole(RMDIR, Outcome::Done);
        assert_eq!(told.fits_folder(), cut_short);
        // A kill of the process loses no data, so the later value remains.
        told.whole(READ, Outcome::Data(2));
        assert!(told.fits_block());
        told.whole(READ, Outcome::Data(1));
        assert!(!told.fits_block());
    }
}

#[test]
fn a_crash_may_lose_journal_entries_that_survived_a_kill() {
    for crash in [false, true] {
        let mut told = Told::default();
        let mkdir = told.begin(MKDIR);
        told.whole(LIST, Outcome::Names(BTreeSet::from([0])));
        told.0.kill(Time::ZERO, BTreeSet::new());
        if crash {
            told.0.crash(Time::ZERO);
        }
        told.end(mkdir, Outcome::Failed(Status::AlreadyExists));
        assert_eq!(told.fits_folder(), crash);
    }
}

#[test]
fn the_effect_of_a_run_with_a_lost_reply_is_visible_before_the_crash() {
    for (again, fits) in [(Outcome::Done, true), (Outcome::Failed(Status::NotFound), false)] {
        let mut told = Told::default();
        told.whole(MKDIR, Outcome::Done);
        let rmdir = told.begin(RMDIR);
        // The order is: the first run of RMDIR, then another MKDIR, then the second run of RMDIR.
        told.whole(MKDIR, Outcome::Done);
        told.0.crash(Time::ZERO);
        told.end(rmdir, again);
        assert_eq!(told.fits_folder(), fits);
    }
}

#[test]
fn one_of_two_concurrent_removals_of_a_name_fails() {
    for (second, fits) in [(Outcome::Done, false), (Outcome::Failed(Status::NotFound), true)] {
        let mut told = Told::default();
        let create = Op::Link { folder: Owner::Shared, name: 0, file: Owner::Shared };
        told.whole(create, Outcome::Done);
        let (one, other) = (told.begin(REMOVE), told.begin(REMOVE));
        told.end(one, second);
        told.end(other, Outcome::Done);
        assert_eq!(told.fits_folder(), fits);
    }
}
