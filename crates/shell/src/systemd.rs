//! Notifications to systemd for services of `Type=notify`: ready, restarting, stopping, and alive.

use core::time::Duration;
use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;

/// The environment variable with the path of the notification socket.
const SOCKET: &str = "NOTIFY_SOCKET";

/// The state of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The service is ready.
    Ready,
    /// The service restarts and will be ready in a moment.
    Restarting,
    /// The service stops.
    Stopping,
    /// The service still works (the watchdog notification).
    Alive,
}

/// Sends a notification if systemd requests notifications. Ignores failures.
pub fn tell(state: State) {
    let text = match state {
        State::Ready => format!("READY=1\nMAINPID={}", process::id()),
        State::Restarting => "RELOADING=1".to_owned(),
        State::Stopping => "STOPPING=1".to_owned(),
        State::Alive => "WATCHDOG=1".to_owned(),
    };
    let Some(socket) = env::var_os(SOCKET) else { return };
    let told = address(socket.as_bytes())
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address));
    if let Err(error) = told {
        tracing::warn!(%error, ?state, "cannot notify systemd");
    }
}

/// Returns the maximum interval of watchdog notifications, if systemd requests them.
#[must_use]
pub fn watchdog_interval() -> Option<Duration> {
    let number = |name| env::var(name).ok()?.parse::<u64>().ok();
    let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(process::id()));
    number("WATCHDOG_USEC").filter(|_| is_ours).map(Duration::from_micros)
}

/// Parses the address of the socket: a path, or an abstract name after `@`.
fn address(socket: &[u8]) -> io::Result<SocketAddr> {
    match socket.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(socket)),
    }
}
