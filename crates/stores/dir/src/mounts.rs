//! Detects changes of the mounts below the root of an export. The notifications of a directory do
//! not report a mount on one of its names.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::sync::Mutex;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::locks::lock;

/// The mounts of this thread's namespace, which is the namespace of the process except in tests.
const TABLE: &str = "/proc/thread-self/mountinfo";

/// The mounts below a directory, as of the last read of the table.
pub(crate) struct Mounts {
    /// The kernel's table of mounts, and the lines of the table for mounts below the directory.
    state: Mutex<Option<(File, Vec<Vec<u8>>)>>,
}

impl Mounts {
    /// Records the mounts below a directory; `directory` is its path. If the kernel's table cannot
    /// be read, no change is detected.
    pub(crate) fn new(directory: &[u8]) -> Self {
        let state = File::open(TABLE).ok().and_then(|mut table| {
            let lines = below(&mut table, directory)?;
            Some((table, lines))
        });
        Self { state: Mutex::new(state) }
    }

    /// Returns true if the mounts below the directory changed since the last call.
    pub(crate) fn have_changed(&self, directory: &[u8]) -> bool {
        let mut state = lock(&self.state);
        let Some((table, lines)) = &mut *state else { return false };
        let mut asked = [PollFd::new(&*table, PollFlags::PRI)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if !poll(&mut asked, Some(&at_once)).is_ok_and(|count| count > 0) {
            return false;
        }
        let Some(now) = below(table, directory) else { return false };
        let changed = now != *lines;
        *lines = now;
        changed
    }
}

/// Returns the lines of the table for mounts below a directory.
fn below(table: &mut File, directory: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut text = Vec::new();
    table.rewind().ok()?;
    table.read_to_end(&mut text).ok()?;
    let front = escaped(directory.strip_suffix(b"/").unwrap_or(directory));
    let is_below = |line: &&[u8]| {
        let point = line.split(|byte| *byte == b' ').nth(4);
        point
            .and_then(|point| point.strip_prefix(&*front))
            .is_some_and(|rest| rest.starts_with(b"/"))
    };
    let lines = text.split(|byte| *byte == b'\n').filter(is_below);
    Some(lines.map(<[u8]>::to_vec).collect())
}

/// Returns a path with the escapes that the kernel's table uses.
fn escaped(path: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for &byte in path {
        if b" \t\n\\#".contains(&byte) {
            let mut code = String::new();
            // Formatting into a string cannot fail, so the result is ignored.
            let _ = write!(code, "\\{byte:03o}");
            text.extend_from_slice(code.as_bytes());
        } else {
            text.push(byte);
        }
    }
    text
}
