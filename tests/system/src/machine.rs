//! A machine that serves, whose power can be cut: a guest with a disk and the built server.
//!
//! A cut is the kill of the guest's kernel. What the guest had not written to its disk is gone, for
//! all that it had was memory of that process. What it had written stays, because the image of the
//! disk is a file of this machine, which goes on.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::disk::Disk;
use crate::server::built;
use crate::{FileSystem, Guest, Link};

/// The port of the server, in a guest that has nothing else.
const PORT: u16 = 2049;

/// Longer than any test leaves a machine on.
const LIMIT: Duration = Duration::from_hours(24);

/// The machine's boot, or what is asked of it, takes far less.
const PATIENCE: Duration = Duration::from_mins(2);

/// What a machine is like.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// What is on its disk.
    pub file_system: FileSystem,
    /// How large its disk is.
    pub disk_bytes: u64,
    /// Further words for the program that makes the file system.
    pub format_words: &'static [&'static str],
    /// How the disk is mounted.
    pub mount_options: &'static str,
    /// Lines of shell that are run before; they may put something else in the place of `$device`.
    pub before_mount: &'static str,
    /// Further words for the server.
    pub server_options: &'static str,
    /// A program that runs the server, with its words.
    pub wrapper: &'static str,
    /// Whether a log answers for what is stable.
    pub has_log: bool,
    /// Further directories that the server's user owns.
    pub directories: &'static str,
    /// The user that runs the server and owns what it serves.
    pub user: u32,
}

impl Site {
    /// The usual one, with this file system.
    #[must_use]
    pub const fn of(file_system: FileSystem) -> Self {
        Self {
            file_system,
            // What the largest of them needs.
            disk_bytes: 320 << 20,
            format_words: &[],
            // Times change only when somebody changes them, so they can be compared.
            mount_options: "noatime",
            before_mount: "",
            server_options: "",
            wrapper: "",
            has_log: false,
            directories: "",
            user: 0,
        }
    }

    /// The same, with a log that answers for what is stable.
    #[must_use]
    pub const fn with_stable_log(self) -> Self {
        Self { has_log: true, server_options: "--stable-log /disk/state/log", ..self }
    }

    /// The same, with the data of all but tiny files in small stripes over three directories.
    #[must_use]
    pub const fn with_stripes(self) -> Self {
        Self {
            directories: "/disk/one /disk/two /disk/three",
            server_options: "--stripe /disk/one --stripe /disk/two --stripe /disk/three \
                             --stripe-unit 4 --stripe-inline 1",
            ..self
        }
    }

    /// Whether change times are kept with names. Who replays a log cannot set them.
    pub(crate) const fn keeps_change_times(&self) -> bool {
        self.file_system.is_atomic() && !self.has_log
    }

    /// The same, served by an ordinary user.
    #[must_use]
    pub const fn of_ordinary_user(self) -> Self {
        let wrapper = "setpriv --reuid 1000 --regid 1000 --clear-groups";
        Self { user: 1000, wrapper, ..self }
    }
}

/// A machine that serves; its disk outlives its guests.
pub struct Machine {
    site: Site,
    disk: Disk,
    link: Arc<Link>,
    guest: Option<Guest>,
}

impl Machine {
    /// A machine with an empty disk, switched on: its server can be reached.
    ///
    /// # Panics
    /// If there can be none.
    #[must_use]
    pub fn new(site: Site) -> Self {
        let disk = Disk::new(site.file_system, site.disk_bytes, site.format_words);
        let mut machine = Self { site, disk, link: Arc::new(Link::new()), guest: None };
        machine.boot();
        machine
    }

    /// Where its server is.
    ///
    /// # Panics
    /// Never: addresses of links can be read.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let address = self.link.address().parse().expect("links have proper addresses");
        SocketAddr::new(address, PORT)
    }

    /// What it is like.
    #[must_use]
    pub const fn site(&self) -> &Site {
        &self.site
    }

    /// Cuts its power, and answers what it wrote.
    ///
    /// # Panics
    /// If it is off.
    pub fn cut(&mut self) -> String {
        self.guest.take().expect("it is on").kill()
    }

    /// Switches it on again, and waits until its server can be reached.
    ///
    /// # Panics
    /// If that does not come about.
    pub fn boot(&mut self) {
        self.disk.repair();
        let case = include_str!("../guest/serve.sh");
        let settings = self.settings();
        let guest = Guest::boot_with_disk(&self.link, &settings, case, &self.disk.path(), LIMIT);
        self.guest = Some(guest);
        self.answer("the boot");
    }

    /// Runs a line of shell in the machine and answers what it wrote.
    ///
    /// # Panics
    /// If it fails, or the machine is off.
    pub fn tell(&mut self, command: &str) -> String {
        let exchange = self.guest.as_ref().expect("it is on").exchange();
        let new = exchange.join("command.new");
        fs::write(&new, command).expect("our own folder can be written to");
        fs::rename(new, exchange.join("command")).expect("our own folder can be written to");
        self.answer(command)
    }

    /// Kills its server and starts it again.
    ///
    /// # Panics
    /// If it does not get ready.
    pub fn restart_server(&mut self) {
        self.tell("end_server KILL && start_server");
    }

    fn settings(&self) -> String {
        let Site {
            mount_options, before_mount, server_options, wrapper, directories, user, ..
        } = self.site;
        let (kind, server) = (self.disk.kind().name(), built());
        format!(
            "disk_type={kind}\ndisk_options={mount_options}\nbefore_mount='{before_mount}'\n\
             server='{}'\nport={PORT}\nserver_options='{server_options}'\nwrapper='{wrapper}'\n\
             directories='{directories}'\nuser={user}\n",
            server.display()
        )
    }

    /// Waits until the guest has done what it was asked for.
    fn answer(&mut self, what: &str) -> String {
        const GLANCE: Duration = Duration::from_millis(2);
        let until = Instant::now() + PATIENCE;
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
