//! Our server in this process, over a selectable disk.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_base::limits::HANDLE_V2_BYTES;
use leasehold_fs::{Export, ExportId, Store, Verifier};
use leasehold_serve::{Deaf, HandleKey, Service};
use leasehold_shell::process;
use leasehold_shell::{Options, Periodic, Policy, Pool, Running, Server};
use leasehold_store_dir::{DirStore, Durability, HandleSource, Options as StoreOptions};
use leasehold_store_logged::{FileMedia, Logged, Options as LogOptions, SIZE_MIN, Standing};
use tempfile::TempDir;

use super::disk::{Disk, SlowDisk};

/// The stable storage in front of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// Nothing.
    Without,
    /// A write-ahead log, on a device as fast as memory.
    InMemory,
}

/// A running server; dropping this value ends it.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) root: [u8; HANDLE_V2_BYTES],
    running: Option<Running>,
    logged: Option<(Arc<Logged>, Periodic)>,
    _media: Option<TempDir>,
}

const NAME: &str = "/";
const DESCRIPTORS: usize = 1024;

/// The interval between transfers from the log to the disk.
const LAG: Duration = Duration::from_millis(500);

impl Served {
    pub(crate) fn start(folder: &Path, disk: Disk, log: Log) -> Result<Self, Box<dyn Error>> {
        process::prepare();
        let options = StoreOptions {
            blocking: Arc::new(Pool::new()),
            verifier: Verifier([1; 8]),
            durability: if log == Log::Without { Durability::Disk } else { Durability::Log },
            descriptors_max: DESCRIPTORS,
            handles: HandleSource::Probe,
        };
        let syncer = Box::new(SlowDisk::new(disk, folder.to_path_buf()));
        let directory = Arc::new(DirStore::with_syncer(folder, options, syncer)?);
        let (store, logged, media) = match log {
            Log::Without => (Arc::clone(&directory) as Arc<dyn Store>, None, None),
            Log::InMemory => {
                let media = TempDir::new_in("/dev/shm")?;
                let logged = Arc::new(open_log(&directory, media.path())?);
                let lagging = Arc::clone(&logged);
                let periodic = Periodic::start("checkpoint", LAG, move || lagging.checkpoint())?;
                (Arc::clone(&logged) as Arc<dyn Store>, Some((logged, periodic)), Some(media))
            }
        };
        let path = folder.display().to_string();
        let export =
            Export { id: ExportId(1), name: NAME.to_owned(), path, read_only: false, store };
        let service = Arc::new(Service::new(vec![export], HandleKey([7; 16]), Box::new(Deaf)));
        let root = service.root_handle(NAME).ok_or("no root")?;
        let policy = Policy {
            privileged: process::can_act_as_others(),
            uid: rustix::process::geteuid().as_raw(),
            reserved_ports_end: leasehold_shell::reserved_ports_end(),
        };
        let listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))];
        let server = Server::bind(Options::new(listen, policy)).map_err(|_| "cannot listen")?;
        let address = *server.addresses().first().ok_or("no address")?;
        let running = Some(server.start(Arc::new(service))?);
        Ok(Self { address, root, running, logged, _media: media })
    }
}

fn open_log(directory: &Arc<DirStore>, media: &Path) -> Result<Logged, Box<dyn Error>> {
    let synced = Arc::clone(directory);
    Ok(Logged::open(LogOptions {
        store: Arc::clone(directory) as Arc<dyn Store>,
        media: Box::new(FileMedia::open(&media.join("log"))?),
        // The paper's log had 1 MB, so that the disk limits larger transfers.
        size: SIZE_MIN,
        volume: directory.volume(),
        standing: Standing::Unknown,
        boot: 1,
        random: [3; 16],
        blocking: Arc::new(Pool::new()),
        sync_all: Box::new(move || synced.sync_all()),
        // No server is started over this log again.
        make_void: Box::new(|| Ok(())),
        commits_names: directory.commits_names(),
        report: Box::new(|event| eprintln!("bench: {event:?}")),
    })?)
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop(Duration::from_secs(1));
        }
        if let Some((logged, periodic)) = self.logged.take() {
            drop(periodic);
            // The log is not used again.
            let _ = logged.close();
        }
    }
}
