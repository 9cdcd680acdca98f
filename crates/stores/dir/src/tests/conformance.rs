//! The conformance suite of stores, run on local directories: with and without the privileges of
//! the superuser, with objects found by handle and by names, and with many and with few
//! descriptors.

use std::fs;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use leasehold_base::groups::Groups;
use leasehold_fs::suite::{Subject, run_all, run_model};
use leasehold_fs::{Caller, Capability, Inline, Store, Verifier};
use rustix::io::Errno;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use tempfile::TempDir;

use crate::identity::Acting;
use crate::sync::{Extent, Syncer};
use crate::{DirStore, Durability, HandleSource, Options};

/// A user other than the superuser.
const ORDINARY: u32 = 1000;

/// A number of descriptors that is large enough that the store never closes an object.
const MANY: usize = 4096;

/// A syncer that syncs nothing: the suite only crashes the server, and not the machine.
struct Lazy;

impl Syncer for Lazy {
    fn sync(&self, _file: BorrowedFd<'_>, _extent: Extent) -> Result<(), Errno> {
        Ok(())
    }

    fn begin(&self, _file: BorrowedFd<'_>, _end: u64) -> Result<(), Errno> {
        Ok(())
    }
}

/// The parameters of the store under test.
#[derive(Clone, Copy)]
struct How {
    handles: HandleSource,
    durability: Durability,
    descriptors_max: usize,
}

fn open(path: &Path, how: How) -> DirStore {
    static STARTS: AtomicU64 = AtomicU64::new(1);
    let start = STARTS.fetch_add(1, Ordering::Relaxed);
    let options = Options {
        blocking: Arc::new(Inline),
        verifier: Verifier(start.to_be_bytes()),
        durability: how.durability,
        descriptors_max: how.descriptors_max,
        handles: how.handles,
    };
    DirStore::with_syncer(path, options, Box::new(Lazy)).expect("the directory can be served")
}

/// Waits until a change would get a change time that differs from the time of a change now.
fn pass_time(probe: &Path) {
    let touch = || {
        fs::write(probe, b"x").expect("it can be written");
        let seen = fs::metadata(probe).expect("it is there");
        (seen.mtime(), seen.mtime_nsec())
    };
    let now = touch();
    while touch() == now {}
}

fn subject(directory: &TempDir, owner: Caller, how: How) -> Subject {
    let path: PathBuf = directory.path().join("export");
    if !path.exists() {
        fs::create_dir(&path).expect("it can be made");
    }
    let probe = directory.path().join("probe");
    let store = open(&path, how);
    let acts_as_caller = store.acts_as_callers();
    if acts_as_caller {
        // This thread still acts as the last caller of the previous store, so make it act as the
        // server.
        store.volume.acting.as_server().expect("the superuser may");
        chown(&path, Some(owner.uid), Some(owner.gid)).expect("the superuser may");
        let all = fs::Permissions::from_mode(0o777);
        fs::set_permissions(&path, all).expect("the superuser may");
    }
    let user = |uid| Caller { uid, gid: uid, ..Caller::nobody() };
    Subject {
        store: Arc::new(store),
        capabilities: vec![
            Capability::LocalGuard,
            Capability::LayoutPolicies,
            Capability::Reservations,
            Capability::OpenFiles,
            Capability::ExtendedAttributes,
            Capability::Ranges,
        ],
        owner,
        other: acts_as_caller.then(|| user(2000)),
        superuser: acts_as_caller.then(|| user(0)),
        acts_as_caller,
        files_are_its_own: false,
        names_are_its_own: true,
        pass_time: Box::new(move || pass_time(&probe)),
        restart: Some(Box::new(move || Arc::new(open(&path, how)) as Arc<dyn Store>)),
    }
}

fn is_superuser() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs work with subjects that share a directory.
fn with_subjects<T>(owner: &Caller, how: How, work: impl FnOnce(&dyn Fn() -> Subject) -> T) -> T {
    rustix::process::umask(rustix::fs::Mode::empty());
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let done = work(&|| subject(&directory, owner.clone(), how));
    // This thread still acts as its last caller, and that caller must not remove the directory. So
    // make the thread act as the server.
    let _ = Acting::probe().map(Acting::as_server);
    done
}

fn run(owner: &Caller, how: How) -> Vec<&'static str> {
    with_subjects(owner, how, |subject| run_all(subject))
}

fn ordinary() -> Caller {
    let groups = Groups::new(&[1500]).expect("one group fits");
    Caller { uid: ORDINARY, gid: ORDINARY, groups }
}

/// The process must run as the superuser, because each call runs under its caller's identity.
#[track_caller]
fn run_as_callers(handles: HandleSource, durability: Durability, descriptors_max: usize) {
    if is_superuser() {
        let how = How { handles, durability, descriptors_max };
        assert_eq!(run(&ordinary(), how), [""; 0], "nothing is skipped");
    }
}

#[test]
fn a_directory_conforms_by_handle() {
    run_as_callers(HandleSource::Probe, Durability::Disk, MANY);
}

#[test]
fn a_directory_conforms_by_names() {
    run_as_callers(HandleSource::Names, Durability::Disk, MANY);
}

#[test]
fn a_directory_conforms_with_one_descriptor_by_handle() {
    run_as_callers(HandleSource::Probe, Durability::Memory, 1);
}

#[test]
fn a_directory_conforms_with_one_descriptor_by_names() {
    run_as_callers(HandleSource::Names, Durability::Disk, 1);
}

/// Random operations on the store have the same results as on a model, even if the store closes
/// descriptors at any time.
#[test]
fn a_directory_conforms_to_the_model() {
    const SEEDS: u64 = 8;
    const STEPS: usize = 100;
    let run = |owner: &Caller, how, restarts: bool| {
        with_subjects(owner, how, |subject| {
            let subject = || {
                let subject = subject();
                Subject { restart: subject.restart.filter(|_| restarts), ..subject }
            };
            for seed in 0..SEEDS {
                run_model(subject, seed, STEPS);
            }
        });
    };
    let durability = Durability::Disk;
    if is_superuser() {
        for (handles, descriptors_max) in
            [(HandleSource::Probe, MANY), (HandleSource::Names, MANY), (HandleSource::Names, 1)]
        {
            run(&ordinary(), How { handles, durability, descriptors_max }, true);
        }
    } else {
        // After a restart, a server of an ordinary user cannot search a directory that its own user
        // cannot list, and cannot open a file that its user cannot read. So only the smaller suite
        // applies.
        let how = How { handles: HandleSource::Names, durability, descriptors_max: MANY };
        run(&own_user(), how, false);
    }
}

pub(super) fn own_user() -> Caller {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    Caller { uid: uid.as_raw(), gid: gid.as_raw(), ..Caller::nobody() }
}

/// Runs work on a thread with the identity of an ordinary user, which is equivalent to a process of
/// that user.
pub(super) fn as_ordinary_user<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = thread::spawn(|| {
        if is_superuser() {
            set_thread_groups(&[]).expect("the superuser may");
            let gid = rustix::process::Gid::from_raw(ORDINARY);
            set_thread_res_gid(gid, gid, gid).expect("the superuser may");
            let uid = rustix::process::Uid::from_raw(ORDINARY);
            set_thread_res_uid(uid, uid, uid).expect("the superuser may");
        }
        work()
    });
    thread.join().expect("it passes")
}

#[test]
fn a_directory_of_an_ordinary_user_conforms() {
    let skipped = as_ordinary_user(|| {
        let (handles, durability) = (HandleSource::Probe, Durability::Memory);
        run(&own_user(), How { handles, durability, descriptors_max: MANY })
    });
    for case in ["an_owner_reads_and_writes_whatever_the_mode", "stable_data_lives_on"] {
        assert!(!skipped.contains(&case), "it takes no other user: {case}");
    }
}
