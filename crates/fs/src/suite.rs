//! The conformance suite of stores, with one case for each guarantee of [`Store`].
//!
//! The tests of a store pass to [`run_all`] a function that makes [`Subject`]s. Each case works in
//! a fresh directory under the root, so that cases may share a root, and the root need not be
//! empty. The suite skips a case, and reports its name, if the subject lacks a user that the case
//! needs.

mod access;
mod attributes;
mod capabilities;
mod create;
mod data;
mod link;
mod listing;
mod lookup;
mod make;
mod model;
mod open_files;
mod permission;
mod ranges;
mod remove;
mod rename;
mod restart;
mod times;
mod waiting;
mod world;
mod xattrs;

use core::future::Future;
use core::pin::Pin;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use leasehold_base::groups::Groups;
use leasehold_base::units::FileTime;

use crate::{Caller, Capability, Mode, SUPERUSER, SetAttributes, Store};

pub use capabilities::check_wrapper;
pub use model::run_model;
pub use waiting::block_on;
pub use world::World;

/// A store, with the facts that the suite needs to test it.
pub struct Subject {
    /// The store; the owner may create names in its root.
    pub store: Arc<dyn Store>,
    /// The capabilities that the store must have, in the order of [`Capability`].
    pub capabilities: Vec<Capability>,
    /// The user of most operations, and the owner of the objects that they create.
    pub owner: Caller,
    /// An ordinary user that shares no group with the owner.
    pub other: Option<Caller>,
    /// The superuser.
    pub superuser: Option<Caller>,
    /// True if an object that another user creates belongs to that user.
    pub acts_as_caller: bool,
    /// True if only the store can change files, so that changes of files also return the attributes
    /// before the change.
    pub files_are_its_own: bool,
    /// True if only the store can change names, so that changes of names return the directory's
    /// attributes before and after.
    pub names_are_its_own: bool,
    /// Advances the store's clock by one step or more.
    pub pass_time: Box<dyn Fn()>,
    /// Ends the store as a crash would, and opens it again.
    pub restart: Option<Box<dyn Fn() -> Arc<dyn Store>>>,
}

impl Subject {
    /// Returns a subject whose store acts as any caller and exclusively owns its files: a store in
    /// memory, or a wrapper of one. `set_now` sets its time. The subject has no capability and cannot
    /// restart unless the caller sets `capabilities` and `restart`.
    ///
    /// # Panics
    /// Panics if the superuser may not open the root to all users.
    pub fn of_every_user(store: Arc<dyn Store>, set_now: impl Fn(FileTime) + 'static) -> Self {
        let superuser = Caller { uid: SUPERUSER, gid: 0, ..Caller::nobody() };
        let seconds = Cell::new(1_700_000_000);
        let pass_time = move || {
            seconds.set(seconds.get() + 1);
            set_now(FileTime { seconds: seconds.get(), nanoseconds: 0 });
        };
        pass_time();
        let open = SetAttributes { mode: Some(Mode::from_bits(0o777)), ..SetAttributes::default() };
        let opened = block_on(store.setattr(&superuser, &store.root(), &open, None));
        opened.result.expect("the superuser may");
        let groups = Groups::new(&[1500]).expect("one group fits");
        Self {
            store,
            capabilities: Vec::new(),
            owner: Caller { uid: 1000, gid: 1000, groups },
            other: Some(Caller { uid: 2000, gid: 2000, ..Caller::nobody() }),
            superuser: Some(superuser),
            acts_as_caller: true,
            files_are_its_own: true,
            names_are_its_own: true,
            pass_time: Box::new(pass_time),
            restart: None,
        }
    }
}

/// The requirement of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// An owner other than the superuser.
    OrdinaryOwner,
    /// A second user.
    Other,
    /// A second user whose own objects belong to it.
    OtherWithObjects,
    /// The superuser, and an owner other than the superuser.
    Superuser,
    /// A store that can restart.
    Restart,
}

impl Needs {
    fn met_by(self, subject: &Subject) -> bool {
        let ordinary = subject.owner.uid != 0;
        match self {
            Self::Nothing => true,
            Self::OrdinaryOwner => ordinary,
            Self::Other => subject.other.is_some(),
            Self::OtherWithObjects => subject.other.is_some() && subject.acts_as_caller,
            Self::Superuser => subject.superuser.is_some() && ordinary,
            Self::Restart => subject.restart.is_some(),
        }
    }
}

type Run = for<'a> fn(&'a World<'a>) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// One guarantee of the [`Store`] trait, with a test that checks it.
#[derive(Clone, Copy)]
pub struct Case {
    /// The name of the guarantee.
    pub name: &'static str,
    /// The clause that states the guarantee.
    pub clause: &'static str,
    needs: Needs,
    run: Run,
}

/// Lists cases, each an `async fn` of the same name that takes a `&World`.
macro_rules! cases {
    ($($needs:ident, $clause:literal: $($name:ident)*;)*) => {
        pub(super) const CASES: &[crate::suite::Case] = &[$($(crate::suite::Case {
            name: stringify!($name),
            clause: $clause,
            needs: crate::suite::Needs::$needs,
            run: |world| Box::pin($name(world)),
        }),*),*];
    };
}
use cases;

/// Every case.
pub fn all_cases() -> impl Iterator<Item = &'static Case> {
    let parts = [
        capabilities::CASES,
        lookup::CASES,
        access::CASES,
        attributes::CASES,
        times::CASES,
        data::CASES,
        create::CASES,
        make::CASES,
        remove::CASES,
        rename::CASES,
        link::CASES,
        listing::CASES,
        permission::CASES,
        restart::CASES,
        open_files::CASES,
        xattrs::CASES,
        ranges::CASES,
    ];
    parts.into_iter().flatten()
}

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The store satisfies the guarantee.
    Kept,
    /// The store violates the guarantee; the message describes the violation.
    Broken(String),
    /// The subject lacks the requirement of the case.
    Skipped,
}

impl Case {
    /// Runs the case on a subject, on this thread. A store that acts as each caller may leave the
    /// thread with the ids of another user.
    #[must_use]
    pub fn run(&self, subject: &Subject) -> Verdict {
        if !self.needs.met_by(subject) {
            return Verdict::Skipped;
        }
        let run = || {
            block_on(async {
                let world = World::new(subject, self.name).await;
                (self.run)(&world).await;
            });
        };
        let Err(panic) = catch_unwind(AssertUnwindSafe(run)) else { return Verdict::Kept };
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
        Verdict::Broken(format!("{} ({}): {message}", self.name, self.clause))
    }
}

/// Runs every case on a separate subject; returns the names of the skipped cases.
///
/// # Panics
/// Panics after all cases have run if the store violated guarantees, with a message for each
/// violation.
#[must_use = "a case that is skipped proves nothing"]
pub fn run_all(make_subject: impl Fn() -> Subject) -> Vec<&'static str> {
    let (mut skipped, mut broken) = (Vec::new(), Vec::new());
    for case in all_cases() {
        match case.run(&make_subject()) {
            Verdict::Kept => {}
            Verdict::Broken(message) => broken.push(message),
            Verdict::Skipped => skipped.push(case.name),
        }
    }
    assert!(broken.is_empty(), "{} cases failed:\n{}", broken.len(), broken.join("\n"));
    skipped
}
