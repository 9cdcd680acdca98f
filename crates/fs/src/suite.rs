//! The conformance suite: what every store must do, one case for each promise.
//!
//! A store's own tests hand [`run_all`] a way to make [`Subject`]s. Each case works in a fresh
//! directory under the root, so that a root may be shared and need not be empty. What a store
//! cannot be asked, for want of a user to ask as, is skipped and named.

mod access;
mod attributes;
mod create;
mod data;
mod link;
mod listing;
mod lookup;
mod make;
mod model;
mod permission;
mod remove;
mod rename;
mod restart;
mod times;
mod waiting;
mod world;

use core::future::Future;
use core::pin::Pin;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use leasehold_base::groups::Groups;
use leasehold_base::units::FileTime;

use crate::{Caller, Mode, SUPERUSER, SetAttributes, Store};

pub use model::run_model;
pub use waiting::block_on;
pub use world::World;

/// A store, and what is to be known of it to judge it.
pub struct Subject {
    /// The store; the owner may make names in its root.
    pub store: Arc<dyn Store>,
    /// The user that most is done as; what it makes belongs to it.
    pub owner: Caller,
    /// A user who has no group in common with the owner and to whom mode bits apply.
    pub other: Option<Caller>,
    /// A user who may all.
    pub superuser: Option<Caller>,
    /// Whether what another user makes belongs to that user.
    pub acts_as_caller: bool,
    /// Whether nobody but the store can change a file, so that changes of files come with the
    /// attributes from before as well.
    pub files_are_its_own: bool,
    /// Whether nobody but the store can change names, so that changes of names come with the
    /// directory's attributes from before and after.
    pub names_are_its_own: bool,
    /// Lets the store's clock go on by a step at least.
    pub pass_time: Box<dyn Fn()>,
    /// Ends the store as a crash would, and opens it again.
    pub restart: Option<Box<dyn Fn() -> Arc<dyn Store>>>,
}

impl Subject {
    /// A store that does as each caller, whatever user that is, and whose files only it can change:
    /// one in memory, or over such. It is told the time, and cannot be opened again unless the
    /// caller adds how.
    ///
    /// # Panics
    /// When the superuser may not open the root to everybody.
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

/// What a case cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// An owner who is not the superuser.
    OrdinaryOwner,
    /// A second user.
    Other,
    /// A second user whose own objects belong to it.
    OtherWithObjects,
    /// The superuser, and an owner who is another.
    Superuser,
    /// A store that can be opened again.
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

/// One promise of the [`Store`] trait, and how to see whether a store keeps it.
#[derive(Clone, Copy)]
pub struct Case {
    /// What is promised.
    pub name: &'static str,
    /// Where it is promised.
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
    ];
    parts.into_iter().flatten()
}

/// What a case came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The promise is kept.
    Kept,
    /// The promise is broken, as the message says.
    Broken(String),
    /// The subject lacks what the case needs.
    Skipped,
}

impl Case {
    /// Runs the case on a subject, on this thread: a store that acts as each caller may leave the
    /// thread acting so.
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

/// Runs every case on a subject of its own; returns the names of those that were skipped.
///
/// # Panics
/// When promises were broken, after all cases were run, with a message for each.
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
