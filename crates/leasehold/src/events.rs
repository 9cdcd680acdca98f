//! Events of the service, as lines of the log.

use std::time::Duration;

use leasehold_serve::{Event, Exports, Observer};
use leasehold_shell::Rate;

/// The shortest time between two lines about clients that are not believed, about metaservers whose
/// epoch is over, or about callers of an iod that no metaserver has sent.
const COMPLAINTS_INTERVAL: Duration = Duration::from_secs(10);

/// The digits of the path of an iod.
const SECRET_CHARACTERS: usize = 32;

/// Writes events to the log; of each kind one a second, or fewer.
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
                    "refused a mount: no rule of the export has this client"
                );
            }
            Event::MountRefused { from, path, error, hidden: None, exports } => {
                let Some(held_back) = self.refusals.pass() else { return };
                let (path, exports) = (unsecret(path), names(exports));
                tracing::warn!(client = %from, %path, ?error, ?exports, held_back, "refused a mount");
            }
            Event::HandleRefused { from, export } => {
                let Some(held_back) = self.handles.pass() else { return };
                let what = "refused a handle: no rule of the export has this client";
                tracing::warn!(client = %from, export, held_back, "{what}");
            }
            Event::EpochOver { from, epoch, last } => {
                let Some(held_back) = self.over.pass() else { return };
                tracing::warn!(
                    metaserver = %from, epoch = epoch.number, last, held_back,
                    "refused a metaserver: a later one has its place; end the earlier one"
                );
            }
            Event::Stranger { from } => {
                let Some(held_back) = self.strangers.pass() else { return };
                tracing::warn!(
                    %from, held_back,
                    "refused a call that neither a metaserver of the cluster made nor a client that one \
                     has sent for it; a metaserver of an earlier version is updated before its iods"
                );
            }
            Event::NotBelieved { from, refused } => {
                let Some(held_back) = self.complaints.pass() else { return };
                let outcome = if *refused { "it is refused" } else { "it is nobody" };
                let what = "a client's word about its user is not believed";
                let advice = "mount as root from a port below 1024 (option resvport), serve as the \
                              user that asks, or believe all by `insecure`";
                tracing::warn!(client = %from, held_back, "{what}, {outcome}: {advice}");
            }
        }
    }
}

/// Gives a path in the form that the log may show. The path of an iod is derived from the key of
/// its cluster, and opens the iod to each client that knows the path: a client that asks another
/// server for the path, or for a path below it, is refused.
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

    #[test]
    fn the_secret_path_of_an_iod_is_not_logged() {
        let secret = "0123456789abcdef0123456789abcdef";
        for path in [format!("/{secret}"), format!("{secret}/"), format!("//{secret}/below")] {
            assert!(!unsecret(path.as_bytes()).contains(secret), "{path}");
        }
        for path in ["/", "/data", "/data/0123456789abcdef0123456789abcdef", "/0123"] {
            assert_eq!(unsecret(path.as_bytes()), path);
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
