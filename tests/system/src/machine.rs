//! A machine that serves, whose power can be cut: a guest with a disk and the built server.
//!
//! A cut kills the guest's kernel. Data that the guest had not written to its disk is lost, because
//! it was memory of that process. Written data stays, because the image of the disk is a file of
//! this machine, which keeps running.
//!
//! If the server is a metaserver, its I/O daemons are programs of the guest, too, each with a disk
//! of its own, and the power of one can be cut alone: its program is killed, its disk accepts no
//! further writes, and its file system is mounted again.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::disk::Disk;
use crate::server::built;
use crate::{FileSystem, Guest, Link};

/// The port of the server in a guest without other servers.
const PORT: u16 = 2049;

/// Longer than any test runs a machine.
const LIMIT: Duration = Duration::from_hours(24);

/// Longer than the boot of a machine, or a request to it, takes.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The number of I/O daemons of a metaserver.
pub const IODS: usize = 3;

/// The configuration of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// The file system of its disk.
    pub file_system: FileSystem,
    /// The size of its disk.
    pub disk_bytes: u64,
    /// Further arguments for the program that makes the file system.
    pub format_words: &'static [&'static str],
    /// The mount options of the disk.
    pub mount_options: &'static str,
    /// Lines of shell that run before the mount; they may change `$device`.
    pub before_mount: &'static str,
    /// Further options of the server.
    pub server_options: &'static str,
    /// A program that runs the server, with its arguments.
    pub wrapper: &'static str,
    /// True if the server uses a write-ahead log.
    pub has_log: bool,
    /// Further directories that the server's user owns.
    pub directories: &'static str,
    /// The user that runs the server and owns its files.
    pub user: u32,
    /// The number of I/O daemons with the data; zero stores the data at the server.
    pub iods: usize,
    /// The number of copies of the data.
    pub copies: u16,
}

impl Site {
    /// Returns the default configuration with this file system.
    #[must_use]
    pub const fn of(file_system: FileSystem) -> Self {
        Self {
            file_system,
            // The largest of them needs this size.
            disk_bytes: 320 << 20,
            format_words: &[],
            // Times then change only through explicit changes, so the test can compare them.
            mount_options: "noatime",
            before_mount: "",
            server_options: "",
            wrapper: "",
            has_log: false,
            directories: "",
            user: 0,
            iods: 0,
            copies: 1,
        }
    }

    /// Returns the same configuration with a write-ahead log.
    #[must_use]
    pub const fn with_stable_log(self) -> Self {
        Self { has_log: true, server_options: "--stable-log /disk/state/log", ..self }
    }

    /// Returns the same configuration with the data of larger files in small stripes over three
    /// directories.
    #[must_use]
    pub const fn with_stripes(self) -> Self {
        Self {
            directories: "/disk/one /disk/two /disk/three",
            server_options: "--stripe /disk/one --stripe /disk/two --stripe /disk/three \
                             --stripe-unit 4 --stripe-inline 1",
            ..self
        }
    }

    /// Returns the same configuration with the data of larger files in small stripes on I/O
    /// daemons, in `copies` copies. No I/O daemon is down long enough for a call to fail.
    #[must_use]
    pub const fn with_iods(self, copies: u16) -> Self {
        let server_options = match copies {
            1 => "--stripe-unit 4 --stripe-inline 1 --iod-timeout 86400",
            _ => "--stripe-unit 4 --stripe-inline 1 --iod-timeout 86400 --copies 2",
        };
        Self { iods: IODS, copies, server_options, ..self }
    }

    /// Returns true if change times are kept with names. The replay of a log cannot set them, nor
    /// can the repair of a copy that an I/O daemon has missed.
    pub(crate) const fn keeps_change_times(&self) -> bool {
        self.file_system.is_atomic() && !self.has_log && self.copies == 1
    }

    /// Returns the same configuration, served by an ordinary user.
    #[must_use]
    pub const fn of_ordinary_user(self) -> Self {
        let wrapper = "setpriv --reuid 1000 --regid 1000 --clear-groups";
        Self { user: 1000, wrapper, ..self }
    }
}

/// A serving machine; its disks survive its guests.
pub struct Machine {
    site: Site,
    /// The disk of the server, and the disks of the I/O daemons.
    disks: Vec<Disk>,
    link: Arc<Link>,
    guest: Option<Guest>,
}

impl Machine {
    /// Returns a running machine with an empty disk and a reachable server.
    ///
    /// # Panics
    /// Panics if the machine cannot be started.
    #[must_use]
    pub fn new(site: Site) -> Self {
        let disk = || Disk::new(site.file_system, site.disk_bytes, site.format_words);
        let disks = (0..=site.iods).map(|_| disk()).collect();
        let mut machine = Self { site, disks, link: Arc::new(Link::new()), guest: None };
        machine.boot();
        machine
    }

    /// Returns the address of its server.
    ///
    /// # Panics
    /// Never: addresses of links are valid.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let address = self.link.address().parse().expect("links have proper addresses");
        SocketAddr::new(address, PORT)
    }

    /// Returns its configuration.
    #[must_use]
    pub const fn site(&self) -> &Site {
        &self.site
    }

    /// Cuts its power, and returns its output.
    ///
    /// # Panics
    /// Panics if it is off.
    pub fn cut(&mut self) -> String {
        self.guest.take().expect("it is on").kill()
    }

    /// Switches it on, and waits until its server is reachable.
    ///
    /// # Panics
    /// Panics after a timeout.
    pub fn boot(&mut self) {
        self.disks.iter().for_each(Disk::repair);
        let case = include_str!("../guest/serve.sh");
        let settings = self.settings();
        let disks: Vec<_> = self.disks.iter().map(Disk::path).collect();
        let guest = Guest::boot_with_disks(&self.link, &settings, case, &disks, LIMIT);
        self.guest = Some(guest);
        self.answer("the boot");
    }

    /// Runs a line of shell in the machine and returns its output.
    ///
    /// # Panics
    /// Panics if the command fails, or the machine is off.
    pub fn tell(&mut self, command: &str) -> String {
        let exchange = self.guest.as_ref().expect("it is on").exchange();
        let new = exchange.join("command.new");
        fs::write(&new, command).expect("our own folder can be written to");
        fs::rename(new, exchange.join("command")).expect("our own folder can be written to");
        self.answer(command)
    }

    /// Kills its server and restarts it.
    ///
    /// # Panics
    /// Panics if the server does not become ready.
    pub fn restart_server(&mut self) {
        self.tell("end_server KILL && start_server");
    }

    /// Cuts the power of some I/O daemons. They lose all unsynced data; all other programs
    /// continue.
    ///
    /// # Panics
    /// Panics if an I/O daemon does not exist or is off.
    pub fn cut_iods(&mut self, iods: &[usize]) {
        self.tell(&format!("cut_iods {}", words(iods)));
    }

    /// Switches I/O daemons on.
    ///
    /// # Panics
    /// Panics if they do not become ready.
    pub fn boot_iods(&mut self, iods: &[usize]) {
        self.tell(&format!("boot_iods {}", words(iods)));
    }

    /// Waits until all files have their final places on the I/O daemons, with their copies.
    ///
    /// # Panics
    /// Panics after a timeout.
    pub fn wait_until_settled(&mut self) {
        const GLANCE: Duration = Duration::from_millis(50);
        let until = Instant::now() + 3 * TIMEOUT;
        loop {
            let said = self.tell("\"$server\" cluster status --json --state /disk/state");
            let told = said.lines().find_map(|line| serde_json::from_str::<Value>(line).ok());
            let volume = told.and_then(|told| told.get(0).cloned()).unwrap_or_default();
            let is_there = |iod: &Value| iod["away"] == false;
            let all_are = volume["iods"].as_array().is_some_and(|iods| iods.iter().all(is_there));
            if volume["settled"] == true && all_are {
                return;
            }
            assert!(Instant::now() < until, "{said}");
            sleep(GLANCE);
        }
    }

    fn settings(&self) -> String {
        let Site {
            mount_options,
            before_mount,
            server_options,
            wrapper,
            directories,
            user,
            iods,
            file_system,
            ..
        } = self.site;
        let (kind, server, repairs) =
            (file_system.name(), built(), u8::from(file_system.is_repaired()));
        format!(
            "disk_type={kind}\ndisk_options={mount_options}\nbefore_mount='{before_mount}'\n\
             server='{}'\nport={PORT}\nserver_options='{server_options}'\nwrapper='{wrapper}'\n\
             directories='{directories}'\nuser={user}\niods={iods}\nrepairs={repairs}\n",
            server.display()
        )
    }

    /// Waits until the guest has served the request.
    fn answer(&mut self, what: &str) -> String {
        const GLANCE: Duration = Duration::from_millis(2);
        let until = Instant::now() + TIMEOUT;
        let guest = self.guest.as_mut().expect("it is on");
        let path = guest.exchange().join("answer");
        let text = loop {
            if let Ok(text) = fs::read_to_string(&path) {
                break text;
            }
            if guest.is_over() || Instant::now() > until {
                let log = self.cut();
                panic!("{what}: the machine does not answer; it wrote:\n{log}");
            }
            sleep(GLANCE);
        };
        fs::remove_file(path).expect("the guest leaves its answer to us");
        let (said, status) = text.trim_end().rsplit_once('\n').unwrap_or(("", text.trim_end()));
        if status != "0" {
            let log = self.cut();
            panic!("{what}: status {status}: {said}\nthe machine wrote:\n{log}");
        }
        said.to_owned()
    }
}

/// Returns numbers as arguments for the shell.
fn words(numbers: &[usize]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
