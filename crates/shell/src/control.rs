//! The control socket: where a running server hears its administrator.
//!
//! A Unix socket with the name `control` in the state directory. The user that the server runs as
//! and root are answered, nobody else; the kernel says who asks. A line comes and a line goes, as
//! often as the asker likes; what the lines say is not known here. One server of a state directory
//! has the name, until it ends, however it ends, or another takes it.

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

use rustix::net::Shutdown;

use crate::own;
use crate::state::own_name;
use crate::sys;

/// The name of the socket.
const NAME: &str = "control";

/// The longest line that is taken from an asker.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// The longest line that an asker takes: a page of facts on each of many clients.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Askers at one time.
const ASKERS_MAX: usize = 16;

/// How long an asker may leave an answer untaken.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest name that the address of a Unix socket has room for.
const ADDRESS_BYTES_MAX: usize = 107;

/// A function that answers a line with a line; neither line has its line end.
pub type Answerer = dyn Fn(&str) -> String + Send + Sync;

/// A control socket; its name goes when it is dropped.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    /// The number of the file that has the name as long as no other server has taken it.
    file: Option<u64>,
    listener: Arc<UnixListener>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Listens in a state directory.
    ///
    /// # Errors
    /// When the socket cannot be made, or another server has it ([`ErrorKind::AddrInUse`]).
    pub fn listen(state: &Path, answerer: Arc<Answerer>) -> io::Result<Self> {
        if connect(state).is_ok() {
            return Err(ErrorKind::AddrInUse.into());
        }
        Self::take(state, answerer)
    }

    /// Listens in a state directory, in the place of whoever has done so until now.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn take(state: &Path, answerer: Arc<Answerer>) -> io::Result<Self> {
        own::must_be_own();
        let path = state.join(NAME);
        // Nobody reaches it before it is its owner's alone.
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
        // Wakes the thread that accepts.
        let _ = rustix::net::shutdown(&*self.listener, Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// The number that tells the socket that has a name now from other sockets.
fn number_of(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|file| file.ino())
}

/// Takes connections until the socket is shut down.
fn accept(listener: &UnixListener, ends: &AtomicBool, answerer: &Arc<Answerer>) {
    let seats = Arc::new(());
    while !ends.load(Ordering::Acquire) {
        let Ok((stream, _)) = listener.accept() else {
            // There are no descriptors for it now, and such.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        if !may_ask(&stream) || Arc::strong_count(&seats) > ASKERS_MAX {
            continue;
        }
        let (answerer, seat) = (Arc::clone(answerer), Arc::clone(&seats));
        // Where no thread is to be had, the asker notices by the end of the stream.
        let _ = own::spawn("asker", move || {
            // An asker that goes away is nobody's fault.
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
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        lines.by_ref().take(LINE_BYTES_MAX).read_line(&mut line)?;
        let Some(asked) = line.strip_suffix('\n') else { return Ok(()) };
        // The question gets a thread of its own: one question has the server look at files as a
        // caller, and the next question has it write its state directory.
        let (answerer, asked) = (Arc::clone(answerer), asked.to_owned());
        let answer = own::spawn("answer", move || answerer(&asked))?.join();
        let mut answer = answer.map_err(|_| io::Error::other("the answer panicked"))?;
        answer.push('\n');
        (&*stream).write_all(answer.as_bytes())?;
    }
}

/// A conversation with a running server.
#[derive(Debug)]
pub struct Asker {
    stream: BufReader<UnixStream>,
}

impl Asker {
    /// Connects to the server that has this state directory.
    ///
    /// # Errors
    /// When no server listens there, when the socket is another user's, or when a process listens
    /// that runs neither as the owner of the directory nor as root
    /// ([`ErrorKind::PermissionDenied`]).
    pub fn connect(state: &Path) -> io::Result<Self> {
        let stream = connect(state)?;
        // Any user can make a socket in a directory like /tmp, under any name.
        let owner = fs::metadata(state)?.uid();
        let (_, peer) = sys::peer_of(&stream)?;
        if peer != owner && peer != 0 {
            let text = format!(
                "the socket there is of the user {peer}, and the directory of the user {owner}"
            );
            return Err(io::Error::new(ErrorKind::PermissionDenied, text));
        }
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// The process that listens at the socket, as the kernel noted it.
    ///
    /// # Errors
    /// When the kernel does not name the process.
    pub fn pid(&self) -> io::Result<u32> {
        let (pid, _) = sys::peer_of(self.stream.get_ref())?;
        u32::try_from(pid)
            .ok()
            .filter(|pid| *pid != 0)
            .ok_or_else(|| io::Error::other("the server runs in another namespace of processes"))
    }

    /// Sets the time to wait for each later answer.
    ///
    /// # Errors
    /// When the kernel does not take the time.
    pub fn waits(&mut self, time: Duration) -> io::Result<()> {
        self.stream.get_ref().set_read_timeout(Some(time))?;
        self.stream.get_ref().set_write_timeout(Some(time))
    }

    /// Says a line; returns the line that is answered.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn ask(&mut self, line: &str) -> io::Result<String> {
        self.stream.get_mut().write_all(format!("{line}\n").as_bytes())?;
        let mut answer = String::new();
        self.stream.by_ref().take(ANSWER_BYTES_MAX).read_line(&mut answer)?;
        if answer.pop() == Some('\n') { Ok(answer) } else { Err(ErrorKind::UnexpectedEof.into()) }
    }

    /// Waits until who answers has ended.
    pub fn outlast(mut self) {
        // However the conversation breaks, the other end is gone.
        let _ = io::copy(&mut self.stream, &mut io::sink());
    }
}

/// The directories of control sockets that the kernel lists, in this network namespace. Any user
/// can have a socket of such a name in any directory where that user may write, so the caller
/// judges the directory first ([`private::is_own_directory`](crate::private::is_own_directory)).
#[must_use]
pub fn places() -> Vec<PathBuf> {
    listed(&fs::read("/proc/net/unix").unwrap_or_default())
}

fn listed(table: &[u8]) -> Vec<PathBuf> {
    let lines = table.split(|byte| *byte == b'\n');
    let place = |line: &[u8]| {
        let start = line.iter().position(|byte| *byte == b'/')?;
        let path = Path::new(OsStr::from_bytes(&line[start..]));
        // The kernel lists the name under which the server made the socket, before it renamed the
        // socket.
        let mark = path.file_name()?.to_str()?.strip_prefix(NAME)?.strip_prefix('.')?;
        let is_mark = mark.len() == 16 && mark.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_mark.then(|| path.parent().map(Path::to_path_buf)).flatten()
    };
    lines.filter_map(place).collect()
}

fn connect(state: &Path) -> io::Result<UnixStream> {
    at(&state.join(NAME), |path| UnixStream::connect(path))
}

/// Does something with the address of a socket in a directory whose path may be too long for one.
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
    fn a_line_comes_and_a_line_goes() {
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
        Asker::connect(home.path()).expect_err("nobody listens");
    }

    #[test]
    fn what_a_killed_server_left_is_replaced() {
        let home = tempfile::tempdir().expect("a directory for the test");
        drop(UnixListener::bind(home.path().join(NAME)).expect("there is room"));
        let _control = Control::listen(home.path(), echo()).expect("nobody has it");
        let mut asker = Asker::connect(home.path()).expect("it listens");
        assert_eq!(asker.ask("a").expect("it answers"), "<a>");
    }

    #[test]
    fn a_socket_is_found_by_its_place() {
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
    fn a_server_of_neither_the_owner_nor_root_is_not_asked() {
        // To run a program as another user takes root.
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
