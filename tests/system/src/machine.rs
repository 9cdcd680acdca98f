//! A machine that serves, whose power can be cut: a guest with a disk and the built server.
//!
//! A cut is the kill of the guest's kernel. What the guest had not written to its disk is gone, for
//! all that it had was memory of that process. What it had written stays, because the image of the
//! disk is a file of this machine, which goes on.
//!
//! Where the server is a metaserver, its iods are programs of the guest, too, each with a disk of its
//! own, and the power of one can be cut alone: its program is killed, its disk takes nothing any more,
//! and its file system is mounted anew.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::disk::Disk;
use crate::server::built;
use crate::{FileSystem, Guest, Link};

/// The port of the server, in a guest that has nothing else.
const PORT: u16 = 2049;

/// Longer than any test leaves a machine on.
const LIMIT: Duration = Duration::from_hours(24);

/// The machine's boot, or what is asked of it, takes far less.
const PATIENCE: Duration = Duration::from_mins(2);

/// So many iods a metaserver has.
pub const IODS: usize = 3;

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
    /// How many iods have the data; without any the server has it.
    pub iods: usize,
    /// How many copies of it there are.
    pub copies: u16,
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
            iods: 0,
            copies: 1,
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

    /// The same, with the data of all but tiny files in small stripes on iods, in so many copies. No
    /// iod is away for long enough for a call to fail.
    #[must_use]
    pub const fn with_iods(self, copies: u16) -> Self {
        let server_options = match copies {
            1 => "--stripe-unit 4 --stripe-inline 1 --iod-timeout 86400",
            _ => "--stripe-unit 4 --stripe-inline 1 --iod-timeout 86400 --copies 2",
        };
        Self { iods: IODS, copies, server_options, ..self }
    }

    /// Whether change times are kept with names. Who replays a log cannot set them, nor who makes
    /// a copy anew that an iod has missed.
    pub(crate) const fn keeps_change_times(&self) -> bool {
        self.file_system.is_atomic() && !self.has_log && self.copies == 1
    }

    /// The same, served by an ordinary user.
    #[must_use]
    pub const fn of_ordinary_user(self) -> Self {
        let wrapper = "setpriv --reuid 1000 --regid 1000 --clear-groups";
        Self { user: 1000, wrapper, ..self }
    }
}

/// A machine that serves; its disks outlive its guests.
pub struct Machine {
    site: Site,
    /// That of what is served, and those of the iods.
    disks: Vec<Disk>,
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
        let disk = || Disk::new(site.file_system, site.disk_bytes, site.format_words);
        let disks = (0..=site.iods).map(|_| disk()).collect();
        let mut machine = Self { site, disks, link: Arc::new(Link::new()), guest: None };
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
        self.disks.iter().for_each(Disk::repair);
        let case = include_str!("../guest/serve.sh");
        let settings = self.settings();
        let disks: Vec<_> = self.disks.iter().map(Disk::path).collect();
        let guest = Guest::boot_with_disks(&self.link, &settings, case, &disks, LIMIT);
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

    /// Cuts the power of some iods. Whatever they have not synced is gone; all else goes on.
    ///
    /// # Panics
    /// If there are none of these numbers, or they are off.
    pub fn cut_iods(&mut self, iods: &[usize]) {
        self.tell(&format!("cut_iods {}", words(iods)));
    }

    /// Switches iods on again.
    ///
    /// # Panics
    /// If they do not get ready.
    pub fn boot_iods(&mut self, iods: &[usize]) {
        self.tell(&format!("boot_iods {}", words(iods)));
    }

    /// Waits until all files lie on the iods where they should, with their copies.
    ///
    /// # Panics
    /// If they do not come to.
    pub fn wait_until_settled(&mut self) {
        const GLANCE: Duration = Duration::from_millis(50);
        let until = Instant::now() + 3 * PATIENCE;
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

/// Numbers as words of shell.
fn words(numbers: &[usize]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
