//! What the service sees, as lines of the log.

use std::time::Duration;

use leasehold_serve::{Event, Observer};
use leasehold_shell::Rate;

/// Writes events to the log; of each kind one a second.
pub(crate) struct Log {
    mounts: Rate,
    refusals: Rate,
}

impl Log {
    pub(crate) fn new() -> Self {
        let rate = || Rate::one_in(Duration::from_secs(1));
        Self { mounts: rate(), refusals: rate() }
    }
}

impl Observer for Log {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Mounted { from, path } => {
                let Some(held_back) = self.mounts.pass() else { return };
                tracing::info!(client = %from, path = %path.escape_ascii(), held_back, "mounted");
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

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A log that is kept in memory.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no one panicked").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Each MNT, small and from anybody, brought a line.
    #[test]
    fn a_flood_of_mounts_is_no_flood_of_lines() {
        let kept = Kept::default();
        let writer = kept.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            let log = Log::new();
            let from = "192.0.2.1:700".parse().expect("an address");
            for _ in 0..10_000 {
                log.event(&Event::Mounted { from, path: b"/" });
            }
        });
        let bytes = kept.0.lock().expect("no one panicked").clone();
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
        // The first, and one for each second that this takes on a slow machine.
        assert!((1..100).contains(&lines), "{lines} lines");
    }
}
