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

/// What answers a line with a line; neither has its end.
pub type Answerer = dyn Fn(&str) -> String + Send + Sync;

/// A control socket; its name goes when it is dropped.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    /// What has the name as long as nobody else has taken it.
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

/// What tells the socket that has a name now from others.
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

/// Whether it is the user that the server runs as, or root.
fn may_ask(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|peer| peer.uid == own || peer.uid.is_root())
}

fn converse(stream: &UnixStream, answerer: &Arc<Answerer>) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        lines.by_ref().take(LINE_BYTES_MAX).read_line(&mut line)?;
        let Some(asked) = line.strip_suffix('\n') else { return Ok(()) };
        // On a thread of its own: one question has the server look at files as a caller, and the
        // next one has it write its state directory.
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
    /// When there is none that runs, or it is another user's.
    pub fn connect(state: &Path) -> io::Result<Self> {
        connect(state).map(|stream| Self { stream: BufReader::new(stream) })
    }

    /// Waits so long for each answer from now on.
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

/// The state directories of control sockets that the kernel lists, in this network namespace. Any user
/// can have a socket of such a name, so a directory is to be looked at before it is believed.
#[must_use]
pub fn places() -> Vec<PathBuf> {
    listed(&fs::read("/proc/net/unix").unwrap_or_default())
}

fn listed(table: &[u8]) -> Vec<PathBuf> {
    let lines = table.split(|byte| *byte == b'\n');
    let place = |line: &[u8]| {
        let start = line.iter().position(|byte| *byte == b'/')?;
        let path = Path::new(OsStr::from_bytes(&line[start..]));
        // It has the name that it was made by, before it was given its own.
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
    fn the_path_may_be_long() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let state = home.path().join("a".repeat(200));
        fs::create_dir(&state).expect("there is room");
        let _control = Control::listen(&state, echo()).expect("it can be made");
        let mut asker = Asker::connect(&state).expect("it listens");
        assert_eq!(asker.ask("a").expect("it answers"), "<a>");
    }
}
