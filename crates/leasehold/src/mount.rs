//! `leasehold mount` and `leasehold umount`.

mod background;
pub(crate) mod options;
mod source;
mod told;
mod words;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use leasehold_base::random::Random;
use leasehold_fuse::{MountOptions, Session, unmount};
use leasehold_mount::Files;
use leasehold_session::Credential;
use leasehold_session::nfs::Bounds;
use leasehold_shell::client::{Mounted, Runtime, Target, block_on, mount as find};
use leasehold_shell::process::Termination;
use leasehold_shell::state;
use leasehold_wire::nfs3::{FileType, Handle};

use self::options::{Mount, Umount};
use self::words::Words;
use crate::failure::{Failure, Kind};

pub(crate) use self::told::{ask, page};

/// How long what is under way may take when the mount is gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// Mounts; returns when the mount stands, or in the foreground when it is gone.
pub(crate) fn run(options: &Mount) -> Result<(), Failure> {
    let lists = options.options.iter().map(String::as_str);
    let mut words = Words::read(lists).map_err(|text| Kind::Options.because(text))?;
    words.mount.source.clone_from(&options.source.text);
    words.mount.read_only |= options.read_only;
    // Whoever may log in on the machine may use what root mounts, as its mode bits say.
    words.mount.allow_other |= rustix::process::geteuid().is_root();
    let directory = fs::canonicalize(&options.directory).map_err(|error| {
        let place = options.directory.display();
        Kind::Directory.because(format!("cannot mount on {place}: {error}"))
    })?;
    if !options.foreground && !options.tell {
        return background::start(options, &directory);
    }
    serve(options, &words, &directory)
}

/// Ends a mount.
pub(crate) fn end(options: &Umount) -> Result<(), Failure> {
    let place = options.directory.display();
    unmount(&options.directory, options.lazy)
        .map_err(|error| Kind::Running.because(format!("cannot unmount {place}: {error}")))
}

/// Mounts, and answers the kernel until the mount is gone.
fn serve(options: &Mount, words: &Words, directory: &Path) -> Result<(), Failure> {
    background::log(options)?;
    let termination = Termination::prepare();
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let who = Credential::system(&machine, user.as_raw(), group.as_raw(), &[]);
    let runtime = Runtime::start()
        .map_err(|error| Kind::Running.because(format!("no thread can be started: {error}")))?;
    let target = target(options, words);
    let source = &options.source.text;
    let no = |text: String| Kind::Running.because(format!("cannot mount {source}: {text}"));
    let found = block_on(find(&runtime, &target, &who)).map_err(|error| no(error.to_string()))?;
    let root = block_on(root(&found, &who)).map_err(no)?;
    let bounds = bounds(&found.bounds, words);
    let seed = state::random().map(u64::from_ne_bytes).map_err(|error| no(error.to_string()))?;

    let mounted = mount(directory, &words.mount)?;
    let (nfs, caching) = (found.nfs.clone(), words.caching);
    let mut files = None;
    let session = Session::start(mounted, |notifier| {
        let random = Random::from_seed(seed);
        let made = Files::new((nfs, bounds, root), machine, caching, random, notifier);
        Arc::clone(files.insert(Arc::new(made)))
    });
    let (Ok(session), Some(files)) = (session, files) else {
        let _ = unmount(directory, true);
        return Err(no("the kernel does not speak FUSE as it should".to_owned()));
    };
    let session = Arc::new(session);
    let told = told::begin(directory, options, &found, &session, &files);
    end_when_asked(termination, directory.to_path_buf(), Arc::clone(&files))?;
    background::ready(options)?;

    session.wait(PATIENCE);
    drop(told);
    block_on(files.close_all())
        .map_err(|errno| Kind::Running.because(format!("data may be lost: {errno}")))
}

/// The mount itself.
fn mount(directory: &Path, options: &MountOptions) -> Result<std::os::fd::OwnedFd, Failure> {
    leasehold_fuse::mount(directory, options).map_err(|error| {
        let place = directory.display();
        Kind::Directory.because(format!("cannot mount on {place}: {error}"))
    })
}

/// Where the server is, and how it is called.
fn target(options: &Mount, words: &Words) -> Target {
    let source = &options.source;
    Target {
        port: source.port.or(words.port),
        mount_port: words.mount_port,
        version: words.version,
        source: words.source_port,
        ..Target::new(&source.host, source.path.as_bytes(), words.session)
    }
}

/// The directory that was asked for, below what MOUNT gave.
async fn root(found: &Mounted, who: &Credential) -> Result<Handle, String> {
    let mut root = found.root;
    for name in &found.rest {
        let reply = found.nfs.lookup(who, &root, name).await.and_then(|reply| Ok(reply.done()?));
        root = reply.map_err(|error| format!("{}: {error}", name.escape_ascii()))?.object;
    }
    let reply = found.nfs.getattr(who, &root).await.and_then(|reply| Ok(reply.done()?));
    let attributes = reply.map_err(|error| error.to_string())?.attributes;
    let is_directory = attributes.file_type == FileType::Directory;
    is_directory.then_some(root).ok_or_else(|| "it is no directory".to_owned())
}

/// The server's sizes, and no more than is asked for.
fn bounds(found: &Bounds, words: &Words) -> Bounds {
    let least = |size: u32, asked: Option<u32>| asked.map_or(size, |asked| size.min(asked));
    Bounds {
        read_bytes: least(found.read_bytes, words.read_bytes),
        write_bytes: least(found.write_bytes, words.write_bytes),
        ..*found
    }
}

/// Has the mount end when the process is asked to: at once where nobody uses it, else when all
/// that was written is safe.
fn end_when_asked(
    termination: Termination,
    directory: std::path::PathBuf,
    files: Arc<Files>,
) -> Result<(), Failure> {
    let wait = move || {
        termination.wait();
        if unmount(&directory, false).is_ok() {
            return;
        }
        if let Err(errno) = block_on(files.settle_all()) {
            tracing::error!(%errno, "data may be lost");
        }
        let _ = unmount(&directory, true);
        std::process::exit(0);
    };
    thread::Builder::new()
        .spawn(wait)
        .map(drop)
        .map_err(|error| Kind::Running.because(format!("no thread can be started: {error}")))
}
