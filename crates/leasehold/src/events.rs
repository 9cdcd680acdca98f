//! What the service sees, as lines of the log.

use std::time::Duration;

use leasehold_serve::{Event, Observer};
use leasehold_shell::Rate;

/// Writes events to the log; refusals at most once a second.
pub(crate) struct Log {
    refusals: Rate,
}

impl Log {
    pub(crate) const fn new() -> Self {
        Self { refusals: Rate::one_in(Duration::from_secs(1)) }
    }
}

impl Observer for Log {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Mounted { from, path } => {
                tracing::info!(client = %from, path = %path.escape_ascii(), "mounted");
            }
            Event::MountRefused { from, path, error, exports } => {
                let Some(held_back) = self.refusals.pass() else { return };
                let names: Vec<_> = exports.iter().map(|export| &export.name).collect();
                tracing::warn!(
                    client = %from,
                    path = %path.escape_ascii(),
                    ?error,
                    exports = ?names,
                    held_back,
                    "refused a mount"
                );
            }
        }
    }
}
