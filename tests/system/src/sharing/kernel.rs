//! The kernel's client among those who share.
//!
//! It keeps nothing: no attributes and no names (`noac`, `lookupcache=none`), and files are open so
//! that no page is kept (`O_DIRECT`). So what it does is due to be in order with what others do. Its
//! clock is that of another machine, so it is asked for each operation, and times are those before
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

/// What it does at least.
const LEAST: usize = 60;

/// How often a guest is looked at that has not yet come.
const GLANCE: Duration = Duration::from_millis(5);

/// A guest that waits to be asked.
pub(super) struct Kernel {
    guest: Guest,
    stream: BufReader<TcpStream>,
}

impl Kernel {
    /// Boots it, and returns when it can be asked.
    ///
    /// # Panics
    /// If it does not come.
    pub(super) fn join(mount: &Mount, seed: u64, limit: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports left");
        listener.set_nonblocking(true).expect("it is a socket");
        let port = listener.local_addr().expect("it is bound").port();
        // Found as it is found here, which may be where the guest does not look.
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

    /// Has it work until all is over, and some more if that was little; then ends it.
    ///
    /// # Panics
    /// If it fails.
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

    /// What it says of one more operation; nothing if it is gone.
    fn asked(&mut self) -> Option<String> {
        self.stream.get_mut().write_all(b"one more\n").ok()?;
        let mut line = String::new();
        self.stream.read_line(&mut line).ok()?;
        line.strip_suffix('\n').map(str::to_owned)
    }
}
