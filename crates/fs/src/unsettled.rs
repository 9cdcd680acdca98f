//! The wait for stable storage of a finished change, handed from a store to the owner of a call.
//!
//! A store usually answers when a change is on stable storage. The owner of a call can want to note
//! the reply earlier, since the change survives a kill of the server. So the owner polls the call
//! within [`taking`], and a store that has made a change hands over the wait ([`hand_over`]) and
//! answers at once. From then on the owner is responsible for the wait: the owner must not answer
//! its caller before each wait has succeeded, and must answer with the error of a wait that fails.
//!
//! The scope covers one poll on one thread, as a task's context does. Outside a scope a store waits
//! itself.

use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;

use crate::FsError;

/// Ends with success once a change is on stable storage.
pub type Wait = Pin<Box<dyn Future<Output = Result<(), FsError>> + Send>>;

std::thread_local! {
    /// The waits that stores handed over in this poll; None outside a scope.
    static TAKEN: RefCell<Option<Vec<Wait>>> = const { RefCell::new(None) };
}

/// Polls a call, and adds the waits that its store hands over to `waits`.
pub fn taking<T>(waits: &mut Vec<Wait>, poll: impl FnOnce() -> T) -> T {
    /// Ends the scope, also where the poll panics.
    struct Scope<'a> {
        waits: &'a mut Vec<Wait>,
        outer: Option<Vec<Wait>>,
    }

    impl Drop for Scope<'_> {
        fn drop(&mut self) {
            let taken = TAKEN.replace(self.outer.take());
            self.waits.extend(taken.into_iter().flatten());
        }
    }

    let outer = TAKEN.replace(Some(Vec::new()));
    let scope = Scope { waits, outer };
    let polled = poll();
    drop(scope);
    polled
}

/// Hands a wait to the owner of the call that is polled.
///
/// # Errors
/// Outside a scope the error is the wait itself: the store then waits itself.
pub fn hand_over(wait: Wait) -> Result<(), Wait> {
    TAKEN.with_borrow_mut(|taken| match taken {
        Some(taken) => {
            taken.push(wait);
            Ok(())
        }
        None => Err(wait),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait() -> Wait {
        Box::pin(async { Ok(()) })
    }

    #[test]
    fn a_wait_is_handed_over_within_a_poll_alone() {
        assert!(hand_over(wait()).is_err());
        let mut waits = Vec::new();
        taking(&mut waits, || {
            assert!(hand_over(wait()).is_ok());
            let mut inner = Vec::new();
            taking(&mut inner, || assert!(hand_over(wait()).is_ok()));
            assert_eq!(inner.len(), 1);
            assert!(hand_over(wait()).is_ok());
        });
        assert_eq!(waits.len(), 2);
        assert!(hand_over(wait()).is_err());
    }
}
