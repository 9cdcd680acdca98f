//! The kernel's client as a participant.
//!
//! It caches nothing: no attributes and no names (`noac`, `lookupcache=none`), and files are open
//! without a page cache (`O_DIRECT`). So its operations must fit in the order with all others. Its
//! clock belongs to another machine, so the test requests each operation and records the times
//! before the request and after the reply: the operation lies between them.
//! the question and after the answer: the operation lies between them.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use super::{Line, WORKER, now};
use crate::{Guest, Link, Mount, output};

/// The smallest number of operations.
const LEAST: usize = 60;

/// The poll interval for a booting guest.
const GLANCE: Duration = Duration::from_millis(5);

/// A guest that waits for requests.
pub(super) struct Kernel {
    guest: Guest,
    stream: BufReader<TcpStream>,
}

impl Kernel {
    /// Boots the guest, and returns when it accepts requests.
    ///
    /// # Panics
    /// Panics if it does not boot.
    pub(super) fn join(mount: &Mount, seed: u64, limit: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports left");
        listener.set_nonblocking(true).expect("it is a socket");
        let port = listener.local_addr().expect("it is bound").port();
        // Finds the interpreter as on this machine, because the guest may have another search path.
        let python = "import sys; print(sys.executable)";
        let python = output(Command::new("python3").args(["-c", python]));
        let mut case = format!("python='{}' seed={seed} port={port}\n", python.trim());
        let worker = format!("cat >/run/worker.py <<'END'\n{WORKER}END\n");
        let kept = write!(case, "{worker}{}", include_str!("../../cases/sharing.sh"));
        kept.expect("text can be written to");
        let link = Arc::new(Link::new());
        let mut guest = Guest::boot(&link, mount, &case, limit);
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock && !guest.is_over() => {
                    sleep(GLANCE);
                }
                Err(error) => panic!("the guest does not come: {error}:\n{}", guest.kill()),
            }
        };
        stream.set_nonblocking(false).expect("it is a socket");
        stream.set_read_timeout(Some(limit)).expect("it is a socket");
        stream.set_nodelay(true).expect("it is a socket");
        Self { guest, stream: BufReader::new(stream) }
    }

    /// Requests operations until the flag is set, and more if there were few; then ends the guest.
    ///
    /// # Panics
    /// Panics if the guest fails.
    pub(super) fn work(mut self, over: &AtomicBool) -> Vec<Line> {
        let mut lines = Vec::new();
        while !over.load(Ordering::Relaxed) || lines.len() < LEAST {
            let begin = now();
            let Some(told) = self.asked() else {
                panic!("the kernel's client gave up:\n{}", self.guest.kill());
            };
            lines.push(Line { told, begin, end: now() });
        }
        drop(self.stream);
        self.guest.wait(|request| panic!("no such request: {request}")).expect_success();
        lines
    }

    /// Requests one more operation, and returns the report, or `None` if the guest has ended.
    fn asked(&mut self) -> Option<String> {
        self.stream.get_mut().write_all(b"one more\n").ok()?;
        let mut line = String::new();
        self.stream.read_line(&mut line).ok()?;
        line.strip_suffix('\n').map(str::to_owned)
    }
}
