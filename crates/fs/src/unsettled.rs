//! The wait for stable storage of a finished change, which a store can pass to the owner of a call.
//!
//! A store usually returns when a change is on stable storage. The owner of a call can record the
//! reply earlier, because the change survives a kill of the server process. The owner therefore
//! polls the call within [`taking`]; a store that has made a change hands over the wait
//! ([`hand_over`]) and returns at once. From then on the owner is responsible for the wait: it must
//! not reply before each wait has succeeded, and it must reply with the error of a wait that fails.
//!
//! The scope covers one poll on one thread, as a task's context does. Outside a scope a store waits
//! itself.

use core::cell::RefCell;
use core::future::Future;
use core::mem;
use core::pin::Pin;

use crate::FsError;

/// A future that succeeds once a change is on stable storage.
pub type Wait = Pin<Box<dyn Future<Output = Result<(), FsError>> + Send>>;

std::thread_local! {
    /// The waits that stores handed over in this poll; None outside a scope.
    static TAKEN: RefCell<Option<Vec<Wait>>> = const { RefCell::new(None) };
}

/// Polls a call, and adds the waits that its store hands over to `waits`.
pub fn taking<T>(waits: &mut Vec<Wait>, poll: impl FnOnce() -> T) -> T {
    /// Ends the scope, also if the poll panics.
    struct Scope<'a> {
        waits: &'a mut Vec<Wait>,
        outer: Option<Vec<Wait>>,
    }

    impl Drop for Scope<'_> {
        fn drop(&mut self) {
            *self.waits = TAKEN.replace(self.outer.take()).unwrap_or_default();
        }
    }

    // The vector itself changes places: most calls hand nothing over.
    let outer = TAKEN.replace(Some(mem::take(waits)));
    let scope = Scope { waits, outer };
    let polled = poll();
    drop(scope);
    polled
}

/// Hands a wait to the owner of the polled call.
///
/// # Errors
/// Returns the wait outside a scope; the store then waits itself.
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
    fn wait_is_handed_over_only_within_a_poll() {
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
