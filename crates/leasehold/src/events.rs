//! Logs the events of the service.

use std::time::Duration;

use leasehold_serve::{Event, Exports, Observer};
use leasehold_shell::Rate;

/// The minimum interval between two log lines about rejected credentials, about superseded
/// metaservers, or about callers of an iod without a token of a metaserver.
const COMPLAINTS_INTERVAL: Duration = Duration::from_secs(10);

/// The number of characters in the secret path of an iod.
const SECRET_CHARACTERS: usize = 32;

/// Writes events to the log, of each kind at most one line per second.
pub(crate) struct Log {
    mounts: Rate,
    refusals: Rate,
    handles: Rate,
    complaints: Rate,
    over: Rate,
    strangers: Rate,
}

impl Log {
    pub(crate) fn new() -> Self {
        let rate = || Rate::one_in(Duration::from_secs(1));
        let complaints = Rate::one_in(COMPLAINTS_INTERVAL);
        let [over, strangers] = [(); 2].map(|()| Rate::one_in(COMPLAINTS_INTERVAL));
        let (mounts, refusals, handles) = (rate(), rate(), rate());
        Self { mounts, refusals, handles, complaints, over, strangers }
    }
}

impl Observer for Log {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Mounted { from, path } => {
                let Some(held_back) = self.mounts.pass() else { return };
                tracing::info!(client = %from, path = %path.escape_ascii(), held_back, "mounted");
            }
            Event::MountRefused { from, path, hidden: Some(export), .. } => {
                let Some(held_back) = self.refusals.pass() else { return };
                let path = unsecret(path);
                tracing::warn!(
                    client = %from, %path, export, held_back,
                    "rejected a mount: no rule of the export matches this client"
                );
            }
            Event::MountRefused { from, path, error, hidden: None, exports } => {
                let Some(held_back) = self.refusals.pass() else { return };
                let (path, exports) = (unsecret(path), names(exports));
                tracing::warn!(client = %from, %path, ?error, ?exports, held_back,
                    "rejected a mount");
            }
            Event::HandleRefused { from, export } => {
                let Some(held_back) = self.handles.pass() else { return };
                let what = "rejected a handle: no rule of the export matches this client";
                tracing::warn!(client = %from, export, held_back, "{what}");
            }
            Event::GraceBegan { clients } => tracing::info!(
                clients,
                "the grace period of version 4 begins: clients of the previous server reclaim \
                 their opens and locks, and all other OPEN and LOCK requests wait"
            ),
            Event::GraceEnded { missing: 0 } => tracing::info!(
                "the grace period of version 4 ends: all clients of the previous server have \
                 returned"
            ),
            Event::GraceEnded { missing } => tracing::warn!(
                missing,
                "the grace period of version 4 ends: some clients of the previous server have \
                 not returned, and lose their opens and locks"
            ),
            Event::EpochOver { from, epoch, last } => {
                let Some(held_back) = self.over.pass() else { return };
                tracing::warn!(
                    metaserver = %from, epoch = epoch.number, last, held_back,
                    "rejected a superseded metaserver: a later one has replaced it; end the \
                     earlier one"
                );
            }
            Event::Stranger { from } => {
                let Some(held_back) = self.strangers.pass() else { return };
                tracing::warn!(
                    %from, held_back,
                    "rejected a call: the caller is neither a metaserver of the cluster nor a \
                     client with a layout from one; update metaservers before iods"
                );
            }
            Event::NotBelieved { from, refused } => {
                let Some(held_back) = self.complaints.pass() else { return };
                let outcome = if *refused { "rejected" } else { "mapped to the anonymous user" };
                let what = "a client's user id is not trusted";
                let advice = "mount as root from a port below 1024 (option resvport), serve as the \
                              calling user, or trust all ports with `insecure`";
                tracing::warn!(client = %from, held_back, "{what}, {outcome}: {advice}");
            }
        }
    }
}

/// Returns a path in the form that the log may show. The path of an iod is derived from the key of
/// its cluster, and gives access to the iod. A client that sends this path, or a path below it, to
/// another server is rejected, and the log must not reveal the path.
fn unsecret(path: &[u8]) -> String {
    let first = path.split(|byte| *byte == b'/').find(|part| !part.is_empty()).unwrap_or_default();
    match first.len() == SECRET_CHARACTERS && first.iter().all(u8::is_ascii_hexdigit) {
        true => "/... (perhaps the secret path of an iod)".to_owned(),
        false => path.escape_ascii().to_string(),
    }
}

fn names(exports: &Exports) -> Vec<&str> {
    exports.iter().map(|export| &*export.name).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A log in memory.
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

    #[test]
    fn secret_path_of_iod_is_not_logged() {
        let secret = "0123456789abcdef0123456789abcdef";
        for path in [format!("/{secret}"), format!("{secret}/"), format!("//{secret}/below")] {
            assert!(!unsecret(path.as_bytes()).contains(secret), "{path}");
        }
        for path in ["/", "/data", "/data/0123456789abcdef0123456789abcdef", "/0123"] {
            assert_eq!(unsecret(path.as_bytes()), path);
        }
    }

    /// Regression test: each MNT call used to write one log line, so a client could fill the log
    /// with many small calls.
    #[test]
    fn flood_of_mounts_does_not_flood_the_log() {
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
        // The log writes at most one line per second. A slow machine may need several seconds for
        // the test.
        assert!((1..100).contains(&lines), "{lines} lines");
    }
}
