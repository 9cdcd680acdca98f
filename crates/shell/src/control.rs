//! The control socket: the interface of a running server for its administrator.
//!
//! A Unix socket with the name `control` in the state directory. Only the server's own user and
//! root may use the socket; the kernel reports the user of a peer. A peer sends any number of
//! lines, and the server replies to each with one line; this module does not interpret the lines. A
//! server of a state directory has the name until the server ends, or until another server takes
//! the name.

use core::time::Duration;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use leasehold_base::limits::durations::CONTROL_REPLY_TIMEOUT;
use rustix::net::Shutdown;

use crate::own;
use crate::state::own_name;
use crate::sys;

/// The name of the socket.
const NAME: &str = "control";

/// The maximum length of a request line.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// The maximum length of a reply line, in bytes: enough for a page of data about each of many
/// clients.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// The maximum number of concurrent peers.
const ASKERS_MAX: usize = 16;

/// The maximum path length in the address of a Unix socket.
const ADDRESS_BYTES_MAX: usize = 107;

/// A function that returns the reply line to a request line. Neither line contains its line end.
pub type Answerer = dyn Fn(&str) -> String + Send + Sync;

/// A control socket, whose name is removed when the value is dropped.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    /// The inode number of the socket file, by which the drop detects that another server has taken
    /// the name.
    file: Option<u64>,
    listener: Arc<UnixListener>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Listens in a state directory.
    ///
    /// # Errors
    /// The socket cannot be created, or another server listens there ([`ErrorKind::AddrInUse`]).
    pub fn listen(state: &Path, answerer: Arc<Answerer>) -> io::Result<Self> {
        if connect(state).is_ok() {
            return Err(ErrorKind::AddrInUse.into());
        }
        Self::take(state, answerer)
    }

    /// Listens in a state directory, and takes the name of the socket from a server that has it.
    ///
    /// # Errors
    /// The socket cannot be created.
    pub fn take(state: &Path, answerer: Arc<Answerer>) -> io::Result<Self> {
        own::must_be_own();
        let path = state.join(NAME);
        // The socket gets a private name first, and is renamed only after its permissions are
        // restricted, so that no other user can connect in between.
        let own = own_name(state, NAME)?;
        let listener = at(&own, |own| UnixListener::bind(own))?;
        let named = fs::set_permissions(&own, Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&own, &path));
        if let Err(error) = named {
            let _ = fs::remove_file(&own);
            return Err(error);
        }
        let file = number_of(&path);
        let (listener, ends) = (Arc::new(listener), Arc::new(AtomicBool::new(false)));
        let thread = own::spawn("control", {
            let (listener, ends) = (Arc::clone(&listener), Arc::clone(&ends));
            move || accept(&listener, &ends, &answerer)
        })?;
        Ok(Self { path, file, listener, ends, thread: Some(thread) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if number_of(&self.path) == self.file {
            let _ = fs::remove_file(&self.path);
        }
        // The shutdown wakes the thread that waits in `accept`, so that the thread can end.
        let _ = rustix::net::shutdown(&*self.listener, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Returns the inode number of the socket at a path.
fn number_of(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|file| file.ino())
}

/// Accepts connections until the socket is shut down.
fn accept(listener: &UnixListener, ends: &AtomicBool, answerer: &Arc<Answerer>) {
    let seats = Arc::new(());
    while !ends.load(Ordering::Acquire) {
        let Ok((stream, _)) = listener.accept() else {
            // The process may be out of descriptors for a while, so the thread waits a moment and
            // retries.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        if !may_ask(&stream) || Arc::strong_count(&seats) > ASKERS_MAX {
            continue;
        }
        let (answerer, seat) = (Arc::clone(answerer), Arc::clone(&seats));
        // If the system cannot start a thread, the closure with the stream is dropped. The peer
        // then detects the end of the stream.
        let _ = own::spawn("asker", move || {
            // A peer may disconnect at any time, so an error of the stream needs no report.
            let _ = converse(&stream, &answerer);
            drop(seat);
        });
    }
}

/// Returns true if the peer is the user that the server runs as, or root.
fn may_ask(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    sys::peer_of(stream).is_ok_and(|(_, peer)| peer == own || peer == 0)
}

fn converse(stream: &UnixStream, answerer: &Arc<Answerer>) -> io::Result<()> {
    stream.set_write_timeout(Some(CONTROL_REPLY_TIMEOUT))?;
    let mut lines = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        lines.by_ref().take(LINE_BYTES_MAX).read_line(&mut line)?;
        let Some(asked) = line.strip_suffix('\n') else { return Ok(()) };
        // Each request runs on a separate thread: one request may make its thread act as a user,
        // and the next request may write the state directory, which such a thread must not do (see
        // `own`).
        let (answerer, asked) = (Arc::clone(answerer), asked.to_owned());
        let answer = own::spawn("answer", move || answerer(&asked))?.join();
        let mut answer = answer.map_err(|_| io::Error::other("the answer panicked"))?;
        answer.push('\n');
        (&*stream).write_all(answer.as_bytes())?;
    }
}

/// A connection to the control socket of a running server.
#[derive(Debug)]
pub struct Asker {
    stream: BufReader<UnixStream>,
}

impl Asker {
    /// Connects to the server that has this state directory.
    ///
    /// # Errors
    /// No server listens there, the socket belongs to another user, or the listening process runs
    /// neither as the owner of the directory nor as root ([`ErrorKind::PermissionDenied`]).
    pub fn connect(state: &Path) -> io::Result<Self> {
        let stream = connect(state)?;
        // Any user can create a socket with any name in a directory like /tmp, so the listening
        // process must run as the owner of the directory or as root.
        let owner = fs::metadata(state)?.uid();
        let (_, peer) = sys::peer_of(&stream)?;
        if peer != owner && peer != 0 {
            let text = format!(
                "the socket belongs to the user {peer}, and the directory to the user {owner}"
            );
            return Err(io::Error::new(ErrorKind::PermissionDenied, text));
        }
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Returns the id of the process that listens at the socket, as the kernel has recorded it.
    ///
    /// # Errors
    /// The kernel does not report the process.
    pub fn pid(&self) -> io::Result<u32> {
        let (pid, _) = sys::peer_of(self.stream.get_ref())?;
        u32::try_from(pid)
            .ok()
            .filter(|pid| *pid != 0)
            .ok_or_else(|| io::Error::other("the server runs in another namespace of processes"))
    }

    /// Sets the timeout of later replies.
    ///
    /// # Errors
    /// The kernel rejects the value.
    pub fn waits(&mut self, time: Duration) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(Some(time))?;
        self.stream.get_ref().set_write_timeout(Some(time))
    }

    /// Sends a line and returns the line that the server replies.
    ///
    /// # Errors
    /// The server does not reply.
    pub fn ask(&mut self, line: &str) -> io::Result<String> {
        self.stream.get_mut().write_all(format!("{line}\n").as_bytes())?;
        let mut answer = String::new();
        self.stream.by_ref().take(ANSWER_BYTES_MAX).read_line(&mut answer)?;
        if answer.pop() == Some('\n') { Ok(answer) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    /// Waits until the server at the other end has ended.
    pub fn outlast(mut self) {
        // The copy ends with or without an error when the server has closed the connection, so the
        // result is ignored.
        let _ = io::copy(&mut self.stream, &mut io::sink());
    }
}

/// Returns the directories of control sockets that the kernel lists in this network namespace. Any
/// user can create a socket of this name in a directory that the user may write. The caller must
/// therefore check each directory
/// ([`private::is_own_directory`](crate::private::is_own_directory)).
#[must_use]
pub fn places() -> Vec<PathBuf> {
    listed(&fs::read("/proc/net/unix").unwrap_or_default())
}

fn listed(table: &[u8]) -> Vec<PathBuf> {
    let lines = table.split(|byte| *byte == b'\n');
    let place = |line: &[u8]| {
        let start = line.iter().position(|byte| *byte == b'/')?;
        let path = Path::new(OsStr::from_bytes(&line[start..]));
        // The kernel lists the private name under which the server created the socket, and not the
        // name after the rename, so the code parses the private name.
        let mark = path.file_name()?.to_str()?.strip_prefix(NAME)?.strip_prefix('.')?;
        let is_mark = mark.len() == 16 && mark.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_mark.then(|| path.parent().map(Path::to_path_buf)).flatten()
    };
    lines.filter_map(place).collect()
}

fn connect(state: &Path) -> io::Result<UnixStream> {
    at(&state.join(NAME), |path| UnixStream::connect(path))
}

/// Performs an action with the address of a socket, even if its path exceeds the length limit of
/// socket addresses.
fn at<T>(path: &Path, act: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= ADDRESS_BYTES_MAX {
        return act(path);
    }
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    let directory = File::open(directory)?;
    act(&Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echo() -> Arc<Answerer> {
        Arc::new(|line: &str| format!("<{line}>"))
    }

    #[test]
    fn each_request_line_receives_a_reply_line() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let control = Control::listen(home.path(), echo()).expect("it can be made");
        let mode = fs::metadata(home.path().join(NAME)).expect("is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut asker = Asker::connect(home.path()).expect("it listens");
        for line in ["one", "", "three"] {
            assert_eq!(asker.ask(line).expect("it answers"), format!("<{line}>"));
        }
        let long = "a".repeat(usize::try_from(LINE_BYTES_MAX).expect("is small"));
        asker.ask(&long).expect_err("no line is that long");
        let another = Control::listen(home.path(), echo()).expect_err("it is taken");
        assert_eq!(another.kind(), ErrorKind::AddrInUse);
        drop(control);
        assert_eq!(fs::read_dir(home.path()).expect("can be listed").count(), 0);
        Asker::connect(home.path()).expect_err("no server listens");
    }

    #[test]
    fn socket_of_a_killed_server_is_replaced() {
        let home = tempfile::tempdir().expect("a directory for the test");
        drop(UnixListener::bind(home.path().join(NAME)).expect("there is room"));
        let _control = Control::listen(home.path(), echo()).expect("the name is free");
        let mut asker = Asker::connect(home.path()).expect("it listens");
        assert_eq!(asker.ask("a").expect("it answers"), "<a>");
    }

    #[test]
    fn socket_is_found_by_its_directory() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let _control = Control::listen(home.path(), echo()).expect("it can be made");
        assert!(places().iter().any(|place| place == home.path()));
        let table = b"Num RefCount Protocol Flags Type St Inode Path\n\
            0: 2 0 00010000 0001 01 77 /srv/a b/control.0123456789abcdef\n\
            0: 2 0 00010000 0001 01 77 /srv/c/control.0123456789abcdeg\n\
            0: 2 0 00010000 0001 01 77 /srv/c/control\n\
            0: 2 0 00010000 0001 01 77 @control.0123456789abcdef\n0: 3 0\n";
        assert_eq!(listed(table), [Path::new("/srv/a b")]);
    }

    #[test]
    fn the_kernel_names_the_process_that_listens() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let _control = Control::listen(home.path(), echo()).expect("it can be made");
        let asker = Asker::connect(home.path()).expect("it listens");
        assert_eq!(asker.pid().expect("the process is here"), std::process::id());
    }

    #[test]
    fn server_of_another_user_is_rejected() {
        // Only root can run a program as another user, so the test does nothing in a process of an
        // ordinary user.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let home = tempfile::tempdir().expect("a directory for the test");
        fs::set_permissions(home.path(), Permissions::from_mode(0o1777)).expect("it is its own");
        let path = home.path().join(NAME);
        let mut stranger = std::process::Command::new("python3");
        stranger.args(["-c", STRANGER]).arg(&path).stdin(std::process::Stdio::piped());
        let mut stranger =
            stranger.stdout(std::process::Stdio::piped()).spawn().expect("it is installed");
        let mut line = String::new();
        BufReader::new(stranger.stdout.as_mut().expect("piped"))
            .read_line(&mut line)
            .expect("text");
        let refused = Asker::connect(home.path()).map(drop);
        let _ = stranger.kill();
        let _ = stranger.wait();
        assert_eq!(line, "listens\n");
        let refused = refused.expect_err("it is a stranger");
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        assert!(refused.to_string().contains("12345"), "{refused}");
    }

    /// A program that listens as another user.
    const STRANGER: &str = "import os, socket, sys\nos.setgid(12345)\nos.setuid(12345)\n\
        s = socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen()\n\
        print('listens', flush=True)\nsys.stdin.read()\n";

    #[test]
    fn the_path_may_be_long() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let state = home.path().join("a".repeat(200));
        fs::create_dir(&state).expect("there is room");
        let _control = Control::listen(&state, echo()).expect("it can be made");
        let mut asker = Asker::connect(&state).expect("it listens");
        assert_eq!(asker.ask("a").expect("it answers"), "<a>");
    }
}
