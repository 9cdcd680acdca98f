//! Directories that change while they are listed, and large ones.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use leasehold_base::units::Cookie;
use leasehold_base::xdr::{Decode, Encode, Reader, Writer, decode_all};
use leasehold_wire::{nfs2, nfs3};
use rustix::process::{getegid, geteuid};

use crate::support::{Home, NFS, Serving, TIMEOUT, address, mount, success};

/// The way of listing a directory: the procedure, and the requested size of a reply in bytes.
#[derive(Clone, Copy, Debug)]
enum How {
    Version2(u32),
    Names(u32),
    Everything(u32),
}

/// A client that lists the root.
struct Client {
    stream: TcpStream,
    root: Vec<u8>,
    xid: u32,
}

impl Client {
    fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self { stream, root: mount(address)[32..64].to_vec(), xid: 0 }
    }

    /// Returns the results of a call of this user.
    fn call(&mut self, version: u32, procedure: u32, args: &impl Encode) -> Vec<u8> {
        self.xid += 1;
        let mut writer = Writer::new();
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        // AUTH_SYS: stamp, no machine name, user, group, no more groups; then no verifier.
        for word in [self.xid, 0, 2, NFS, version, procedure, 1, 20, 0, 0, uid, gid, 0, 0, 0] {
            word.encode(&mut writer);
        }
        args.encode(&mut writer);
        let call = writer.finish().into_bytes();
        let mark = 0x8000_0000 | u32::try_from(call.len()).unwrap();
        self.stream.write_all(&[&mark.to_be_bytes(), &call[..]].concat()).unwrap();
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark).unwrap();
        let mut reply = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
        self.stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..4], self.xid.to_be_bytes());
        assert_eq!(reply[4..24], success()[4..]);
        reply.split_off(24)
    }

    /// Returns one page of the root: its names, each with the position after it, and true if the
    /// page is the last.
    fn page(&mut self, how: How, from: u64) -> (Vec<(Vec<u8>, u64)>, bool) {
        let (cookie, verifier) = (Cookie(from), [0; 8]);
        let directory = nfs3::Handle::new(&self.root).unwrap();
        match how {
            How::Version2(count) => {
                let directory = nfs2::Handle(self.root.clone().try_into().unwrap());
                let cookie = nfs2::Cookie(u32::try_from(from).unwrap());
                let args = nfs2::readdir::Args { directory, cookie, count };
                let reply = self.call(2, nfs2::readdir::NUMBER, &args);
                let nfs2::readdir::Listing::Done(page) = read(&reply) else { panic!("{reply:?}") };
                let entries = page.entries.0.into_iter();
                (entries.map(|it| (it.name.0.to_vec(), it.cookie.0.into())).collect(), page.end)
            }
            How::Names(count) => {
                let args = nfs3::readdir::Args { directory, cookie, verifier, count };
                let reply = self.call(3, nfs3::readdir::NUMBER, &args);
                let nfs3::readdir::Listing::Done(page) = read(&reply) else { panic!("{reply:?}") };
                let entries = page.entries.0.into_iter();
                (entries.map(|it| (it.name.0.to_vec(), it.cookie.0)).collect(), page.end)
            }
            How::Everything(count) => {
                let names_count = count;
                let args =
                    nfs3::readdirplus::Args { directory, cookie, verifier, names_count, count };
                let reply = self.call(3, nfs3::readdirplus::NUMBER, &args);
                let nfs3::readdirplus::Listing::Done(page) = read(&reply) else {
                    panic!("{reply:?}")
                };
                let entries = page.entries.0.into_iter();
                (entries.map(|it| (it.name.0.to_vec(), it.cookie.0)).collect(), page.end)
            }
        }
    }

    /// Passes every entry of the root to `see`; returns the number of calls.
    fn list(&mut self, how: How, mut see: impl FnMut(Vec<u8>)) -> u32 {
        let (mut cookie, mut calls) = (0, 0);
        loop {
            let (entries, end) = self.page(how, cookie);
            calls += 1;
            assert!(end || !entries.is_empty(), "a page before the last has no entries");
            for (name, behind) in entries {
                see(name);
                cookie = behind;
            }
            if end {
                return calls;
            }
        }
    }
}

fn read<'a, T: Decode<'a>>(reply: &'a [u8]) -> T {
    decode_all(&mut Reader::of_part(reply)).unwrap()
}

/// Returns homes on file systems with different kinds of directory positions: hashes, and numbers.
fn homes() -> [Home; 2] {
    [Home::new(), Home::within("/dev/shm")]
}

const LASTING: u32 = 4000;

fn lasting(number: u32) -> String {
    format!("lasting {number}")
}

/// Lists repeatedly until `done`, and checks that each listing has every lasting name once; returns
/// the number of listings.
fn lists_well(client: &mut Client, how: How, done: &AtomicBool) -> u32 {
    let mut listings = 0;
    while listings < 2 || !done.load(Ordering::Relaxed) {
        let mut seen = BTreeMap::<Vec<u8>, u32>::new();
        let calls = client.list(how, |name| *seen.entry(name).or_default() += 1);
        assert!(calls > 10, "{how:?}: it takes many calls");
        for (name, times) in &seen {
            assert_eq!(*times, 1, "{how:?}: {}", String::from_utf8_lossy(name));
        }
        let all = [".".to_owned(), "..".to_owned()].into_iter().chain((0..LASTING).map(lasting));
        for name in all {
            assert!(seen.contains_key(name.as_bytes()), "{how:?}: {name} is missing");
        }
        listings += 1;
    }
    listings
}

/// Other servers lose names, or list them twice, if the directory changes meanwhile.
#[test]
fn lasting_names_are_listed_once_during_changes() {
    const COMING: u32 = 100_000;
    const THERE_AT_ONCE: u32 = 500;
    for home in homes() {
        let path = |name: &str| home.0.path().join("data").join(name);
        for number in 0..LASTING {
            if number % 4 == 3 {
                // Some are links to one file.
                fs::hard_link(path(&lasting(0)), path(&lasting(number))).unwrap();
            } else {
                fs::write(path(&lasting(number)), "").unwrap();
            }
        }
        let (_serving, ready) = Serving::with_json(&home, &[]);
        let address = address(&ready);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let done = &done;
            let listers: Vec<_> = [
                How::Version2(512),
                How::Version2(8192),
                How::Names(512),
                How::Everything(1024),
                How::Everything(16 << 10),
            ]
            .map(|how| scope.spawn(move || lists_well(&mut Client::new(address), how, done)))
            .into_iter()
            .collect();
            for number in 0..COMING + THERE_AT_ONCE {
                if number < COMING {
                    fs::hard_link(path(&lasting(1)), path(&number.to_string())).unwrap();
                }
                if let Some(number) = number.checked_sub(THERE_AT_ONCE) {
                    fs::remove_file(path(&number.to_string())).unwrap();
                }
            }
            done.store(true, Ordering::Relaxed);
            for lister in listers {
                lister.join().unwrap();
            }
        });
    }
}

/// Returns the peak memory of a process, in KiB.
fn peak_kib(process: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

/// A server that stores a directory, or its listing, needs hundreds of MiB for a large one.
/// `LEASEHOLD_NAMES=1000000` tests a million names, with the same bound.
#[test]
fn large_directory_needs_no_memory() {
    const GROWTH_MAX_KIB: u64 = 32 << 10;
    let count: u64 =
        std::env::var("LEASEHOLD_NAMES").map_or(100_000, |count| count.parse().unwrap());
    for home in homes() {
        let path = |name: &str| home.0.path().join("data").join(name);
        for number in 0..count {
            // The names link to few files, but each file stays within the limit on links.
            let of = number - number % 50_000;
            let (file, name) = (path(&format!("a name {of}")), path(&format!("a name {number}")));
            let made = if number == of { fs::write(name, "") } else { fs::hard_link(file, name) };
            made.unwrap();
        }
        let (serving, ready) = Serving::with_json(&home, &[]);
        let mut client = Client::new(address(&ready));
        let before = peak_kib(&serving.child);
        for how in [How::Version2(8192), How::Names(64 << 10), How::Everything(64 << 10)] {
            let mut seen = 0;
            client.list(how, |_| seen += 1);
            assert_eq!(seen, count + 2, "{how:?}");
        }
        let growth = peak_kib(&serving.child) - before;
        assert!(growth < GROWTH_MAX_KIB, "{growth} KiB for {count} names");
    }
}
