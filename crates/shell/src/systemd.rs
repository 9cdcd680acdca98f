//! What systemd is told of a service, where it asks for it (`Type=notify`): when it is ready, that
//! it is being started anew, that it ends, and that it is alive.

use core::time::Duration;
use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;

/// Where it wants to be told.
const SOCKET: &str = "NOTIFY_SOCKET";

/// A change of what a service does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It serves.
    Ready,
    /// It is being started anew, and will be ready in a moment.
    Restarting,
    /// It ends.
    Stopping,
    /// It is alive.
    Alive,
}

/// Says so, where somebody wants to know; nothing depends on it.
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
        tracing::warn!(%error, ?state, "systemd cannot be told");
    }
}

/// How often it wants to hear at least that this process is alive.
#[must_use]
pub fn watchdog_interval() -> Option<Duration> {
    let number = |name| env::var(name).ok()?.parse::<u64>().ok();
    let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(process::id()));
    number("WATCHDOG_USEC").filter(|_| is_ours).map(Duration::from_micros)
}

/// A path, or a name behind `@`.
fn address(socket: &[u8]) -> io::Result<SocketAddr> {
    match socket.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(socket)),
    }
}
