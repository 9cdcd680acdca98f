//! `leasehold mount` and `leasehold umount`.

mod background;
mod caching;
mod control_socket;
mod ignored;
mod load_balance;
mod mount_options;
pub(crate) mod options;
mod remount;
mod rescue;
mod silly_cleanup;
mod source;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_base::limits::durations::UNMOUNT_TIMEOUT;
use leasehold_client::{Client, Options, Servers};
use leasehold_fuse::{MountOptions, Session, TRANSFER_BYTES_MAX, set_read_ahead, unmount};
use leasehold_mount::{Files, Judge};
use leasehold_session::nfs::{Nfs, Version};
use leasehold_session::{Credential, Error, Options as Calling};
use leasehold_shell::client::{Mounted, Runtime, SourcePort, Target, block_on, mount as find};
use leasehold_shell::process::Termination;
use leasehold_shell::{clock, log, state};
use leasehold_wire::nfs3::{FileType, Handle, Status};

use self::mount_options::Words;
use self::options::{Mount, Umount};
use self::rescue::Keeper;
use crate::failure::{Failure, Kind};

pub(crate) use self::control_socket::{ask, page};

/// The interval at which the process checks if background calls have ended.
const GLANCE: Duration = Duration::from_millis(5);
/// The timeout of an iod, after which the client calls the metaserver instead.
const IOD_PATIENCE: Duration = Duration::from_secs(5);
/// The interval at which the mount checks open files for changes by other clients. A check sends a
/// call only if the attribute timeout of the file has expired.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Mounts a directory. Returns when the mount is complete, or with `--foreground` when the mount
/// has ended.
pub(crate) fn run(options: &Mount) -> Result<(), Failure> {
    let lists = options.options.iter().map(String::as_str);
    let mut words = Words::read(lists).map_err(|text| Kind::Options.because(text))?;
    words.mount.source.clone_from(&options.source.text);
    words.mount.read_only |= options.read_only;
    // A mount by root is open to all users of the machine; the permission checks still apply to
    // each user.
    words.mount.allow_other |= rustix::process::geteuid().is_root();
    let directory = fs::canonicalize(&options.directory).map_err(|error| {
        let place = options.directory.display();
        Kind::Directory.because(format!("cannot mount on {place}: {error}"))
    })?;
    if options.fake {
        return Ok(());
    }
    if remount::is_asked(&options.options) {
        return remount::remount(&directory, &options.options);
    }
    if !options.foreground && !options.tell {
        return background::start(options, &directory);
    }
    serve(options, &words, &directory)
}

/// Ends a mount, and waits until all written data is stable. A lazy unmount does not wait.
pub(crate) fn end(options: &Umount) -> Result<(), Failure> {
    let place = options.directory.display();
    let settled = if options.lazy { None } else { control_socket::settle(&options.directory) };
    unmount(&options.directory, options.lazy)
        .map_err(|error| Kind::Running.because(format!("cannot unmount {place}: {error}")))?;
    let Some((mount, is_safe)) = settled else { return Ok(()) };
    // The process that serves the mount makes data that programs write after this point stable when
    // the mount ends.
    mount.outlast();
    is_safe.then_some(()).ok_or_else(refused)
}

/// Logs the reason why the server rejected data, because the user who ends the mount sees only a
/// short error.
fn say_refused(files: &Files) {
    let why = files.client().why_refused();
    let why = why.map_or_else(|| "unknown reason".to_owned(), |error| error.to_string());
    tracing::error!(%why, "the server rejected written data");
}

fn refused() -> Failure {
    Kind::Running.because("the server rejected written data")
}

/// Mounts, and serves the kernel until the mount ends.
fn serve(options: &Mount, words: &Words, directory: &Path) -> Result<(), Failure> {
    let termination = Termination::prepare_program();
    background::log(options)?;
    for (word, reason) in &words.ignored {
        tracing::warn!("the option {word} has no effect here: {reason}");
    }
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let who = Credential::system(&machine, user.as_raw(), group.as_raw(), &[]);
    let runtime = Runtime::start()
        .map_err(|error| Kind::Running.because(format!("cannot start a thread: {error}")))?;
    let target = target(options, words);
    let source = &options.source.text;
    let no = |text: String| Kind::Running.because(format!("cannot mount {source}: {text}"));
    let found = match words.least_busy {
        true => load_balance::find_there(&runtime, &target, &who),
        false => block_on(find(&runtime, &target, &who)),
    };
    let found = found.map_err(|error| no(error.to_string()))?;
    let found = with_leases(found, words, &who, &machine, directory).map_err(no)?;
    let root = block_on(root(&found, &who)).map_err(no)?;
    let seed = state::random().map(u64::from_ne_bytes).map_err(|error| no(error.to_string()))?;
    let caching = words.caching.apply(Options::new(clock::time_of_day, seed));
    let client = Client::new(found.nfs.clone(), root, found.bounds, &who, caching);
    let client = block_on(client).map_err(|error| no(error.to_string()))?;
    client.reach_by(Arc::new(Directly { runtime: runtime.clone(), source: words.source_port }));
    silly_cleanup::begin(&found, &client, &machine, directory);
    rescue(&client, source, words, directory)?;

    let mounted = mount(directory, &words.mount)?;
    let mut files = None;
    let session = Session::start(mounted, |notifier| {
        let made = Files::new(client, machine, notifier, judge(&words.mount));
        Arc::clone(files.insert(Arc::new(made)))
    });
    let (Ok(session), Some(files)) = (session, files) else {
        let _ = unmount(directory, true);
        return Err(no("the kernel violates the FUSE protocol".to_owned()));
    };
    let session = Arc::new(session);
    if let Err(error) = set_read_ahead(directory, TRANSFER_BYTES_MAX) {
        tracing::debug!(%error, "cannot set the kernel's read-ahead");
    }
    let told = control_socket::begin(directory, options, &found, &session, &files);
    end_when_asked(termination, directory.to_path_buf(), Arc::clone(&files))?;
    look_again(Arc::downgrade(&files))?;
    background::ready(options)?;

    let why = session.wait(UNMOUNT_TIMEOUT);
    tracing::warn!(%why, "the mount ends");
    drop(told);
    let is_safe = block_on(files.settle());
    files.close_all();
    block_on(files.client().goodbye());
    end_calls(&found);
    is_safe.then_some(()).ok_or_else(refused)
}

/// Connects to the iods of a metaserver.
struct Directly {
    runtime: Runtime,
    source: SourcePort,
}

impl Servers for Directly {
    fn at(&self, address: SocketAddr) -> Option<Nfs> {
        // The timeout is short, because after it the client sends the call to the metaserver
        // instead.
        let options = Calling::stream().impatient(IOD_PATIENCE);
        let session = self.runtime.session(address, options, self.source).ok()?;
        Some(Nfs::new(session, Version::V3))
    }
}

/// Makes the client keep and report written data that the server rejects.
fn rescue(client: &Client, source: &str, words: &Words, directory: &Path) -> Result<(), Failure> {
    let said = words.rescue.as_ref().map(std::path::absolute).transpose();
    let said = said.map_err(|error| Kind::Options.because(format!("rescue: {error}")))?;
    if said.as_deref().is_some_and(|place| is_on(directory, place)) {
        return Err(Kind::Options.because("rescue: the directory lies on the mount itself"));
    }
    let place = match said.or_else(crate::rescue::default_directory) {
        Some(place) if !is_on(directory, &place) => Some(place),
        Some(_) => {
            tracing::warn!(
                "cannot keep data that the server rejects: the home directory lies on the mount \
                 itself; name another directory with rescue=DIR"
            );
            None
        }
        None => {
            tracing::warn!(
                "cannot keep data that the server rejects: there is no home directory; name a \
                 directory with rescue=DIR"
            );
            None
        }
    };
    client.rescue_by(Arc::new(Keeper::new(place, source, directory)));
    Ok(())
}

/// Returns true if a path lies on the mount. This process must not store files there: its write
/// would wait for this process itself.
fn is_on(directory: &Path, place: &Path) -> bool {
    let above = place.ancestors().find_map(|above| fs::canonicalize(above).ok());
    above.is_some_and(|above| above.starts_with(directory))
}

/// Enables leases on the mount if the options request leases and the server has the lease program;
/// otherwise logs the reason.
fn with_leases(
    found: Mounted,
    words: &Words,
    who: &Credential,
    machine: &str,
    directory: &Path,
) -> Result<Mounted, String> {
    if !words.caching.wants_leases() {
        return Ok(found);
    }
    let id = state::random().map_err(|error| error.to_string())?;
    let name = format!("{machine}:{}", directory.display());
    let nfs = block_on(found.nfs.with_leases(who, id, name.as_bytes()));
    let nfs = nfs.map_err(|error| error.to_string())?;
    match nfs.leases() {
        Some(leases) if leases.leases_names() => {}
        Some(_) => {
            tracing::info!("the server grants leases on files only: cached names expire by time");
        }
        None => {
            let text = "the server grants no leases here: this mount is close-to-open";
            if words.caching.names_leases() {
                tracing::warn!("{text}");
            } else {
                tracing::info!("{text}");
            }
        }
    }
    Ok(Mounted { nfs, ..found })
}

/// Waits for background calls, such as the removal of silly names.
fn end_calls(found: &Mounted) {
    let start = Instant::now();
    while found.nfs.session().open_calls() > 0 && start.elapsed() < UNMOUNT_TIMEOUT {
        thread::sleep(GLANCE);
    }
}

/// Starts the periodic check of open files for changes by other clients.
fn look_again(files: Weak<Files>) -> Result<(), Failure> {
    start(move || {
        while let Some(files) = files.upgrade() {
            block_on(files.look_again());
            drop(files);
            thread::sleep(LOOK_AGAIN);
        }
    })
}

/// Selects the party that checks permissions on the mount: the kernel or the server.
const fn judge(options: &MountOptions) -> Judge {
    match (options.decides_itself, options.allow_other) {
        (false, _) => Judge::Kernel,
        (true, false) => Judge::ServerForOne,
        (true, true) => Judge::ServerForAll,
    }
}

/// Mounts the directory.
fn mount(directory: &Path, options: &MountOptions) -> Result<std::os::fd::OwnedFd, Failure> {
    leasehold_fuse::mount(directory, options).map_err(|error| {
        let place = directory.display();
        Kind::Directory.because(format!("cannot mount on {place}: {error}"))
    })
}

/// Returns the server's address and the options of calls.
fn target(options: &Mount, words: &Words) -> Target {
    let source = &options.source;
    let (host, port) = crate::find::resolve(&source.host, source.port.or(words.port));
    Target {
        port,
        mount_port: words.mount_port,
        version: words.version,
        source: words.source_port,
        ..Target::new(&host, source.path.as_bytes(), words.session)
    }
}

/// Looks up the requested directory below the handle that MOUNT returned.
async fn root(found: &Mounted, who: &Credential) -> Result<Handle, String> {
    let mut root = found.root;
    let mut before = None;
    for name in &found.rest {
        let reply = found.nfs.lookup(who, &root, name).await.and_then(|reply| Ok(reply.done()?));
        let object = match (reply, before) {
            (Ok(done), _) => done.object,
            (Err(Error::Failed(Status::NotDirectory)), Some(link)) => {
                return Err(leads_elsewhere(found, who, (Some(link), &root)).await);
            }
            (Err(error), _) => return Err(format!("{}: {error}", name.escape_ascii())),
        };
        (root, before) = (object, Some(name));
    }
    let reply = found.nfs.getattr(who, &root).await.and_then(|reply| Ok(reply.done()?));
    let attributes = reply.map_err(|error| error.to_string())?.attributes;
    match attributes.file_type {
        FileType::Directory => Ok(root),
        FileType::Symlink => Err(leads_elsewhere(found, who, (found.rest.last(), &root)).await),
        FileType::Regular
        | FileType::BlockDevice
        | FileType::CharacterDevice
        | FileType::Socket
        | FileType::Fifo => Err("the path does not name a directory".to_owned()),
    }
}

/// Reports the target of a symbolic link that the user requested to mount. The mount does not
/// follow the link, for two reasons: links are resolved on the client's machine, where the target
/// may be any file, and the source in the mount table would differ from the mounted directory.
async fn leads_elsewhere(
    found: &Mounted,
    who: &Credential,
    (name, link): (Option<&impl AsRef<[u8]>>, &Handle),
) -> String {
    let name = name.map(AsRef::as_ref).unwrap_or_default().escape_ascii();
    let read = found.nfs.readlink(who, link).await.and_then(|reply| Ok(reply.done()?));
    let target = read.map_or_else(
        |_| "elsewhere".to_owned(),
        |read| format!("to {}", read.target.escape_ascii()),
    );
    format!("{name} is a symbolic link that leads {target}: mount the directory itself")
}

/// Ends the mount when a signal requests the end of the process: at once if the mount is unused,
/// otherwise after all written data is stable. If the directory no longer leads to this mount, no
/// user can unmount it, so the process waits at most `UNMOUNT_TIMEOUT` for a server that does not
/// reply.
fn end_when_asked(
    termination: Termination,
    directory: std::path::PathBuf,
    files: Arc<Files>,
) -> Result<(), Failure> {
    let device = leasehold_fuse::device(&directory);
    let wait = move || {
        let why = termination.wait_told();
        tracing::warn!(%why, "a signal ends the mount");
        // Another mount may have replaced this mount, so the loop checks the device before each
        // unmount.
        let is_there =
            || device.as_ref().is_some_and(|device| leasehold_fuse::is_mounted(&directory, device));
        if is_there() && unmount(&directory, false).is_ok() {
            return;
        }
        if !is_there() {
            let files = Arc::clone(&files);
            let _ = start(move || give_up(&files));
        }
        let is_safe = block_on(files.settle());
        if !is_safe {
            say_refused(&files);
        }
        if is_there() {
            let _ = unmount(&directory, true);
        }
        log::flush();
        std::process::exit(i32::from(!is_safe));
    };
    start(wait)
}

/// Ends the process after `UNMOUNT_TIMEOUT`: a server that has not accepted the written data within
/// this time is considered unreachable. Logs the number of lost bytes.
fn give_up(files: &Files) {
    thread::sleep(UNMOUNT_TIMEOUT);
    let (_, unsaved_bytes) = files.client().cached_bytes();
    tracing::error!(unsaved_bytes, "the server does not reply: written data is lost");
    log::flush();
    std::process::exit(1);
}

/// Starts a detached thread.
fn start(work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    thread::Builder::new()
        .spawn(work)
        .map(drop)
        .map_err(|error| Kind::Running.because(format!("cannot start a thread: {error}")))
}
