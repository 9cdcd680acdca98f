//! `meta` with `--peer`: several metaservers, one file system.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_session::Options;
use leasehold_session::nfs::messages::{
    Handle, SetAttributes, SetTime, Status, Time, create, write,
};
use leasehold_shell::binding::Database;
use leasehold_shell::client::{Mounted, Runtime, Target, block_on, mount};
use rustix::process::Signal;

use crate::support::{
    Home, Serving, TIMEOUT, address, call_of_user, leasehold, opaque, over_stream, port, put, run,
    who,
};

/// The lazy window of these clusters.
const WINDOW: Duration = Duration::from_secs(1);

/// Iods and metaservers of one file system.
pub(crate) struct Cluster {
    pub(crate) home: Home,
    runtime: Runtime,
    iods: Vec<(Serving, u16)>,
    pub(crate) ports: Vec<u16>,
    /// The directories of the metaservers.
    pub(crate) places: Vec<String>,
    pub(crate) metaservers: Vec<Option<Serving>>,
    window: Duration,
    strict: bool,
    /// Further options of each metaserver.
    more: &'static [&'static str],
}

impl Cluster {
    pub(crate) fn start(count: usize) -> Self {
        Self::of(count, WINDOW, false)
    }

    pub(crate) fn strict(count: usize) -> Self {
        Self::of(count, WINDOW, true)
    }

    fn of(count: usize, window: Duration, strict: bool) -> Self {
        Self::with(count, window, strict, &[])
    }

    fn with(count: usize, window: Duration, strict: bool, more: &'static [&'static str]) -> Self {
        let home = Home::new();
        let iods = ["one", "two"].map(|name| {
            fs::create_dir(home.path(name)).unwrap();
            let mut command =
                leasehold(&["iod", &home.path(name), "--listen", "127.0.0.1:0", "--json"]);
            command.args(["--state", &home.path(&format!("state-{name}"))]);
            let serving = Serving::start(with_key(command, &home));
            let ready = serde_json::from_str(&serving.line()).unwrap();
            (serving, address(&ready).port())
        });
        // Each metaserver needs the ports of all before the first starts.
        let ports = (0..count).map(|_| port()).collect();
        let (runtime, iods) = (Runtime::start().unwrap(), iods.into());
        let metaservers = (0..count).map(|_| None).collect();
        let places = (0..count).map(|number| home.path(&format!("names{number}"))).collect();
        let mut cluster =
            Self { home, runtime, iods, ports, places, metaservers, window, strict, more };
        for number in 0..count {
            fs::create_dir(cluster.home.path(&format!("names{number}"))).unwrap();
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
            fs::set_permissions(cluster.home.path(&format!("names{number}")), open).unwrap();
            cluster.begin(number);
        }
        cluster
    }

    fn command(&self, number: usize) -> Command {
        let names = &self.places[number];
        let listen = format!("127.0.0.1:{}", self.ports[number]);
        let mut command = leasehold(&["meta", names, "--listen", &listen, "--json"]);
        command.args(["--state", &self.home.path(&format!("state-names{number}"))]);
        command.args(["--name", "cluster", "--number", &number.to_string()]);
        let window = self.window.as_secs().to_string();
        command.args(["--lazy-window", &window, "--stripe-unit", "4"]).args(self.more);
        if self.strict {
            command.arg("--strict");
        }
        for port in &self.ports {
            command.args(["--peer", &format!("127.0.0.1:{port}")]);
        }
        for (_, port) in &self.iods {
            command.args(["--iod", &format!("127.0.0.1:{port}")]);
        }
        with_key(command, &self.home)
    }

    /// Starts a metaserver.
    pub(crate) fn begin(&mut self, number: usize) {
        let serving = Serving::start(self.command(number));
        serving.line();
        self.metaservers[number] = Some(serving);
    }

    pub(crate) fn kill(&mut self, number: usize) {
        let mut serving = self.metaservers[number].take().unwrap();
        assert!(serving.end(Signal::KILL).code().is_none());
    }

    pub(crate) fn mount(&self, number: usize) -> Mounted {
        let options = Options::stream().impatient(TIMEOUT);
        let port = Some(self.ports[number]);
        let target = Target { port, ..Target::new("127.0.0.1", b"/cluster", options) };
        block_on(mount(&self.runtime, &target, &who())).unwrap()
    }
}

fn with_key(mut command: Command, home: &Home) -> Command {
    command.args(["--cluster-key", &home.path("key")]);
    command
}

/// Looks a name up, and retries until the server replies.
pub(crate) fn look(server: &Mounted, name: &str) -> Option<Handle> {
    let end = Instant::now() + TIMEOUT;
    loop {
        let found = block_on(server.nfs.lookup(&who(), &server.root, name.as_bytes()));
        match found.unwrap().done() {
            Ok(found) => return Some(found.object),
            Err(Status::NotFound) => return None,
            Err(status) => assert!(Instant::now() < end, "{status:?}"),
        }
    }
}

pub(crate) fn read(server: &Mounted, file: &Handle, length: usize) -> Bytes {
    let length = u32::try_from(length).unwrap();
    block_on(server.nfs.read(&who(), file, 0, length)).unwrap().done().unwrap().data
}

fn create(server: &Mounted, name: &str) -> Result<Handle, Status> {
    let how = create::How::Guarded(SetAttributes { mode: Some(0o644), ..Default::default() });
    let made = block_on(server.nfs.create(&who(), &server.root, name.as_bytes(), how));
    made.unwrap().done().map(|made| made.object.unwrap())
}

#[test]
fn several_serve_one_file_system() {
    let mut cluster = Cluster::start(3);
    let servers: Vec<Mounted> = (0..3).map(|number| cluster.mount(number)).collect();
    assert!(servers.iter().all(|server| server.root == servers[0].root));
    let data: Bytes = (0..20_000_u32).flat_map(u32::to_be_bytes).collect();
    let file = block_on(put(&servers[1], b"file", &data));
    for server in &servers {
        assert_eq!(look(server, "file"), Some(file), "equal handles at all metaservers");
        assert_eq!(read(server, &file, data.len()), data);
    }
    assert_eq!(create(&servers[2], "file"), Err(Status::AlreadyExists));

    // Changes made during the failure of a metaserver are visible there after its restart, and its
    // clients continue elsewhere.
    cluster.kill(1);
    let other = create(&servers[0], "other").unwrap();
    cluster.begin(1);
    let moved = cluster.mount(1);
    for server in [&servers[0], &servers[2], &moved] {
        assert_eq!((look(server, "file"), look(server, "other")), (Some(file), Some(other)));
        assert_eq!(read(server, &file, data.len()), data);
    }

    // A removal at one metaserver is visible at all, permanently.
    let removed = block_on(servers[2].nfs.remove(&who(), &servers[2].root, b"file"));
    removed.unwrap().done().unwrap();
    let end = Instant::now() + 3 * WINDOW;
    loop {
        // The machine may reply slowly; the time of the request is decisive.
        let asked = Instant::now();
        if [&servers[0], &moved].iter().all(|server| look(server, "file").is_none()) {
            break;
        }
        assert!(asked < end, "the name still exists");
    }
    cluster.kill(0);
    cluster.begin(0);
    let first = cluster.mount(0);
    loop {
        assert!([&first, &moved, &servers[2]].iter().all(|server| look(server, "file").is_none()));
        if Instant::now() >= end {
            break;
        }
    }
    assert_eq!(look(&first, "other"), Some(other));
}

#[test]
fn search_costs_two_calls_for_any_number_of_metaservers() {
    let cluster = Cluster::of(5, Duration::from_secs(60), false);
    let calls = |number: usize| {
        let state = cluster.home.path(&format!("state-names{number}"));
        let (_, told, _) = run(leasehold(&["status", "--json", "--state", &state]));
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["metaserver"]["of"], 5);
        told["metaserver"]["calls"].as_u64().unwrap()
    };
    let (maker, seeker) = (cluster.mount(4), cluster.mount(2));
    let file = create(&maker, "file").unwrap();
    // The directory is cached from here on, for a window.
    assert_eq!(look(&seeker, "other"), None);
    let before = calls(2);
    assert_eq!(look(&seeker, "file"), Some(file));
    assert_eq!(look(&seeker, "other"), None);
    assert_eq!(calls(2) - before, 2, "and none for a missing name");
}

/// Acknowledged changes, each with the time of its reply.
type Answered = Vec<(Instant, u64)>;

/// Returns the newest change that was acknowledged at least `bound` before a moment.
fn due(answered: &Answered, moment: Instant, bound: Duration) -> u64 {
    let old = answered.iter().filter(|(then, _)| *then + bound <= moment);
    old.map(|(_, value)| *value).max().unwrap_or(0)
}

#[test]
fn no_data_is_older_than_the_bound() {
    shows_in_time(&Cluster::start(2), WINDOW, 2 * WINDOW);
}

#[test]
fn strict_metaservers_show_no_old_data() {
    let strict = Cluster::of(2, 3 * WINDOW, true);
    shows_in_time(&strict, Duration::ZERO, Duration::ZERO);
}

/// The minimum number of changes and reads.
const STEPS: u32 = 10;

/// The interval between two changes.
const PAUSE: Duration = Duration::from_millis(20);

/// The delay of a machine that is not busy, rarely exceeded.
const LATE: Duration = Duration::from_millis(100);

/// Changes files at one metaserver and reads them at another. A SETATTR is visible within its bound
/// after its reply, and so is a WRITE, which is sent to the home at its deadline, plus the delay of
/// this machine. No other check depends on the machine's speed.
fn shows_in_time(cluster: &Cluster, set_bound: Duration, write_bound: Duration) {
    let (writer, reader) = (cluster.mount(0), cluster.mount(1));
    let [timed, grown] = ["timed", "grown"].map(|name| create(&writer, name).unwrap());
    assert_eq!((look(&reader, "timed"), look(&reader, "grown")), (Some(timed), Some(grown)));
    // The test runs for this time and this number of steps, on any machine.
    let (end, seen_count) = (Instant::now() + 5 * WINDOW, Arc::new(AtomicU32::new(0)));
    let (is_over, count) = (Arc::new(AtomicBool::new(false)), Arc::clone(&seen_count));
    let ends = Arc::clone(&is_over);
    let reading = thread::spawn(move || {
        let (mut seen, mut longest) = (Vec::new(), Duration::ZERO);
        while !ends.load(Ordering::Relaxed) {
            let sent = Instant::now();
            let [timed, grown] = [timed, grown].map(|file| {
                block_on(reader.nfs.getattr(&who(), &file)).unwrap().done().unwrap().attributes
            });
            seen.push((sent, u64::from(timed.modified.seconds), grown.size));
            longest = longest.max(sent.elapsed());
            count.fetch_add(1, Ordering::Relaxed);
        }
        (seen, longest)
    });
    let (mut times, mut sizes): (Answered, Answered) = <_>::default();
    let mut late = LATE;
    for step in 1_u32.. {
        let is_enough = step > STEPS && seen_count.load(Ordering::Relaxed) > STEPS;
        if Instant::now() >= end && is_enough {
            break;
        }
        assert!(Instant::now() < end + TIMEOUT && !reading.is_finished(), "they make no progress");
        let begun = Instant::now();
        let modified = SetTime::To(Time { seconds: step, nanoseconds: 0 });
        let set = SetAttributes { modified, ..Default::default() };
        let done = block_on(writer.nfs.setattr(&who(), &timed, &set, None)).unwrap().done();
        done.unwrap();
        times.push((Instant::now(), u64::from(step)));
        let what = (Bytes::from_static(b"!"), write::Stability::Unstable);
        let done = block_on(writer.nfs.write(&who(), &grown, u64::from(step) - 1, what)).unwrap();
        done.done().unwrap();
        sizes.push((Instant::now(), u64::from(step)));
        thread::sleep(PAUSE);
        late = late.max(begun.elapsed().saturating_sub(PAUSE));
    }
    is_over.store(true, Ordering::Relaxed);
    let (seen, longest) = reading.join().unwrap();
    let is_at_once = write_bound.is_zero();
    let write_bound = write_bound + if is_at_once { Duration::ZERO } else { late + longest };
    let last = u64::from(u32::try_from(times.len()).unwrap());
    for (sent, time, size) in &seen {
        let least = due(&times, *sent, set_bound);
        // The time of creation belongs to no step.
        let time = if *time <= last { *time } else { 0 };
        assert!(time >= least, "the time {time} where {least} was set");
        let least = due(&sizes, *sent, write_bound);
        assert!(*size >= least, "{size} bytes where {least} were written");
    }
    assert!(seen.iter().any(|(_, time, _)| (1..=last).contains(time)));
}

#[test]
fn status_shows_reachable_metaservers() {
    let mut cluster = Cluster::of(3, WINDOW, true);
    let status = |more: &[&str]| {
        let state = cluster.home.path("state-names1");
        let mut command = leasehold(&["cluster", "status", "--state", &state]);
        command.args(more);
        run(command).1
    };
    let told = || serde_json::from_str::<serde_json::Value>(&status(&["--json"])).unwrap();
    assert_eq!(told()[0]["consistency"], "strict");
    let away = |told: &serde_json::Value| -> Vec<bool> {
        let all = told[0]["metaservers"].as_array().unwrap();
        all.iter().map(|one| one["away"].as_bool().unwrap()).collect()
    };
    // A metaserver that waits for the replies of the others does not serve yet.
    let end = Instant::now() + TIMEOUT;
    while away(&told()) != [false; 3] {
        assert!(Instant::now() < end, "{}", told());
    }
    // A metaserver that has just started has no load report yet.
    let end = Instant::now() + TIMEOUT;
    while !told()[0]["metaservers"][1]["connections"].is_u64() {
        assert!(Instant::now() < end, "{}", told());
    }
    let text = status(&[]);
    let (port, this) = (cluster.ports[1], "this one");
    assert!(text.contains("one of 3 metaservers, with strict consistency"), "{text}");
    assert!(text.contains(&format!("metaserver 1, 127.0.0.1:{port}: {this}")), "{text}");
    cluster.kill(2);
    let state = cluster.home.path("state-names1");
    let end = Instant::now() + TIMEOUT;
    loop {
        let (_, told, _) = run(leasehold(&["cluster", "status", "--json", "--state", &state]));
        // A metaserver that replies slowly counts as unreachable for a moment.
        if away(&serde_json::from_str(&told).unwrap()) == [false, false, true] {
            break;
        }
        assert!(Instant::now() < end, "{told}");
    }
}

/// Each metaserver refers clients of a volume to the least loaded metaserver that serves.
#[test]
fn client_is_referred_to_a_metaserver() {
    let mut cluster = Cluster::start(3);
    let end = Instant::now() + TIMEOUT;
    let asked = |port: u16, name: &str| loop {
        let database = Database { host: "127.0.0.1".into(), port };
        match database.lookup(name) {
            Ok(found) => break found.map(|located| (located.name, located.address.port())),
            // A machine may be too slow for the timeout.
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
    };
    let told = |port: u16| loop {
        if let Some(found) = asked(port, "Cluster") {
            break found;
        }
        assert!(Instant::now() < end, "no client receives a referral");
    };
    // A metaserver serves only after replies of all others, which are killed below.
    for number in 0..3 {
        assert_eq!(look(&cluster.mount(number), "none"), None);
    }
    for port in &cluster.ports {
        let (name, at) = told(*port);
        assert!(name == "cluster" && cluster.ports.contains(&at), "{name} at {at}");
        assert_eq!(asked(*port, "other"), None);
    }
    // A metaserver that waits for another and does not serve refers clients to one that serves.
    cluster.kill(2);
    cluster.kill(1);
    cluster.begin(1);
    assert_eq!(told(cluster.ports[1]), ("cluster".to_owned(), cluster.ports[0]));
}

/// While a home is unreachable, calls that need it receive "retry later", and after the timeout an
/// error, as with an iod. Other calls succeed.
#[test]
fn unreachable_home_is_reported_in_time() {
    let (ok, io, jukebox) = (0, 5, 10_008);
    let (parked, give_up) = (Duration::from_secs(2), Duration::from_secs(10));
    let mut cluster = Cluster::with(2, WINDOW, true, &["--iod-timeout", "10"]);
    let (first, second) = (cluster.mount(0), cluster.mount(1));
    let (here, there) = (create(&first, "here").unwrap(), create(&second, "there").unwrap());
    assert_eq!((look(&first, "here"), look(&first, "there")), (Some(here), Some(there)));
    let at = SocketAddr::from(([127, 0, 0, 1], cluster.ports[0]));
    let getattr = |file: &Handle| {
        let reply = over_stream(at, &call_of_user(9, 1, &opaque(file.as_bytes())));
        u32::from_be_bytes(reply[24..28].try_into().unwrap())
    };
    assert_eq!([&here, &there].map(getattr), [ok; 2]);

    let begun = Instant::now();
    cluster.kill(1);
    let mut told = Vec::new();
    let after = loop {
        let asked = Instant::now();
        let status = getattr(&there);
        let waited = asked.elapsed();
        assert!(status != jukebox || waited >= parked, "\"retry later\" after {waited:?}");
        // Leased data is valid for the term of the lease.
        if told.last() != Some(&status) {
            told.push(status);
        }
        if status == io {
            break begun.elapsed();
        }
        assert!(begun.elapsed() < TIMEOUT, "the retries do not end: {told:?}");
    };
    assert!(told.ends_with(&[jukebox, io]) && after >= give_up, "{told:?} after {after:?}");
    assert_eq!((getattr(&here), look(&first, "here")), (ok, Some(here)));
    // The home returns, and is used without intervention.
    cluster.begin(1);
    let end = Instant::now() + TIMEOUT;
    while getattr(&there) != ok {
        assert!(Instant::now() < end, "it stays unreachable");
    }
}

/// A home moves to another directory and port: all files exist, its clients continue with their
/// handles, and neither the old directory nor a copy of it can be served.
#[test]
fn home_can_be_moved() {
    let mut cluster = Cluster::of(2, WINDOW, true);
    let data: Bytes = (0..20_000_u32).flat_map(u32::to_be_bytes).collect();
    let (first, second) = (cluster.mount(0), cluster.mount(1));
    let file = block_on(put(&second, b"file", &data));
    assert_eq!(look(&first, "file"), Some(file));
    let [old, new, copy] = ["names1", "elsewhere", "copy"].map(|name| cluster.home.path(name));
    fs::create_dir(&new).unwrap();
    let moves = |from: &str, to: &str| run(leasehold(&["cluster", "move-home", from, to]));
    let (code, _, said) = moves(&old, &cluster.home.path("one"));
    assert!(code != 0 && said.contains("name an empty directory"), "{said}");
    let (code, _, said) = moves(&old, &new);
    assert!(code != 0 && said.contains("end its metaserver first"), "{said}");
    assert!(fs::read_dir(&new).unwrap().next().is_none());

    cluster.kill(1);
    assert!(Command::new("cp").args(["-r", &old, &copy]).status().unwrap().success());
    let (code, told, said) = moves(&old, &new);
    assert!(code == 0 && told.contains(&new), "{said}");
    // The old directory can be neither served nor moved again.
    let (code, _, said) = run(cluster.command(1));
    assert!(code != 0 && said.contains("moved to another directory"), "{said}");
    let (code, ..) = moves(&old, &cluster.home.path("names0"));
    assert_ne!(code, 0);
    // The same command completes a move that a crash interrupted.
    fs::rename(format!("{new}/leasehold-metafiles"), format!("{new}/leasehold-metafiles.coming"))
        .unwrap();
    let (code, _, said) = moves(&old, &new);
    assert_eq!(code, 0, "{said}");

    // All metaservers receive the new address. The number is unchanged.
    cluster.kill(0);
    cluster.ports[1] = port();
    cluster.places[1].clone_from(&new);
    cluster.places.swap(0, 1);
    let (code, _, said) = run(cluster.command(0));
    assert!(code != 0 && said.contains("--number 1"), "{said}");
    cluster.places.swap(0, 1);
    cluster.begin(0);
    cluster.begin(1);
    let (first, moved) = (cluster.mount(0), cluster.mount(1));
    for server in [&first, &moved] {
        assert_eq!(look(server, "file"), Some(file));
        assert_eq!(read(server, &file, data.len()), data);
    }
    let other = create(&moved, "other").unwrap();
    assert_eq!(look(&first, "other"), Some(other));

    // A metaserver that is started from an earlier copy detects that the copy is old.
    cluster.kill(1);
    cluster.places[1] = copy;
    let log = cluster.home.path("log");
    let written = fs::File::create(&log).unwrap();
    let serving = Serving::logging(cluster.command(1), written.into());
    serving.line();
    let end = Instant::now() + TIMEOUT;
    while !fs::read_to_string(&log)
        .unwrap()
        .contains("older than the version that another metaserver knows")
    {
        assert!(Instant::now() < end, "{}", fs::read_to_string(&log).unwrap());
        thread::sleep(Duration::from_millis(50));
    }
}

/// A strict metaserver and a lazy one: the second does not serve, and logs the reason.
#[test]
fn metaservers_must_agree_on_strict() {
    let mut cluster = Cluster::of(2, WINDOW, true);
    assert_eq!(look(&cluster.mount(0), "file"), None);
    cluster.kill(1);
    cluster.strict = false;
    let log = cluster.home.path("log");
    let written = fs::File::create(&log).unwrap();
    let serving = Serving::logging(cluster.command(1), written.into());
    serving.line();
    let end = Instant::now() + TIMEOUT;
    let said = || fs::read_to_string(&log).unwrap();
    while !said().contains("was started without --strict, and another with") {
        assert!(Instant::now() < end, "{}", said());
        thread::sleep(Duration::from_millis(50));
    }
    let options = Options::stream().impatient(Duration::from_secs(2));
    let port = Some(cluster.ports[1]);
    let target = Target { port, ..Target::new("127.0.0.1", b"/cluster", options) };
    let served = block_on(mount(&cluster.runtime, &target, &who())).is_ok_and(|server| {
        let found = block_on(server.nfs.lookup(&who(), &server.root, b"file"));
        found.is_ok_and(|found| found.done() != Err(Status::Io))
    });
    assert!(!served);
}

/// A file accepts the same settings as the command lines of metaservers.
#[test]
fn file_describes_metaservers() {
    let mut cluster = Cluster::start(2);
    let file = create(&cluster.mount(0), "file").unwrap();
    (0..2).for_each(|number| cluster.kill(number));
    let quoted = |ports: Vec<u16>| {
        let all: Vec<_> = ports.iter().map(|port| format!("\"127.0.0.1:{port}\"")).collect();
        all.join(", ")
    };
    let peers = quoted(cluster.ports.clone());
    let iods = quoted(cluster.iods.iter().map(|(_, port)| *port).collect());
    for number in 0..2 {
        let (names, key) = (&cluster.places[number], cluster.home.path("key"));
        let path = cluster.home.path(&format!("cluster{number}.toml"));
        let text = format!(
            "[server]\nlisten = [\"127.0.0.1:{}\"]\nstate = \"{}\"\n\
             [[export]]\ndirectory = \"{names}\"\nname = \"cluster\"\ncluster-key = \"{key}\"\n\
             iod = [{iods}]\nstripe-unit = \"4 KiB\"\n\
             peer = [{peers}]\nnumber = {number}\nlazy-window = 1\n\
             [[export.client]]\nfrom = [\"*\"]\nsquash = \"none\"\n",
            cluster.ports[number],
            cluster.home.path(&format!("state-names{number}")),
        );
        fs::write(&path, text).unwrap();
        let serving = Serving::start(leasehold(&["serve", "--config", &path, "--json"]));
        serving.line();
        cluster.metaservers[number] = Some(serving);
    }
    let servers = [cluster.mount(0), cluster.mount(1)];
    assert_eq!(servers.each_ref().map(|server| look(server, "file")), [Some(file); 2]);
    let other = create(&servers[1], "other").unwrap();
    assert_eq!(look(&servers[0], "other"), Some(other));
    let state = cluster.home.path("state-names1");
    let (_, told, _) = run(leasehold(&["cluster", "status", "--json", "--state", &state]));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told[0]["consistency"], &told[0]["name"]), (&"lazy".into(), &"/cluster".into()));
    assert_eq!(told[0]["metaservers"][1]["this"], true);
    let path = cluster.home.path("cluster0.toml");
    let (code, said, error) = run(leasehold(&["cluster", "check", "--config", &path]));
    assert!(code == 0 && said.contains("iod 1 of 2"), "{said}{error}");
    // A reload does not change the group of a metaserver.
    let path = cluster.home.path("cluster1.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("lazy-window = 1\n", "lazy-window = 2\n")).unwrap();
    let (code, _, error) = run(leasehold(&["reload", "--state", &state]));
    assert!(code != 0 && error.contains("requires a restart"), "{code}: {error}");
}

#[test]
fn invalid_groups_are_rejected() {
    let home = Home::new();
    fs::create_dir(home.path("names")).unwrap();
    let meta = |more: &[&str]| {
        let mut command = leasehold(&["meta", &home.path("names"), "--iod", "127.0.0.1:1"]);
        command.args(["--listen", "127.0.0.1:0"]);
        command.args(["--state", &home.path("state"), "--cluster-key", &home.path("key")]);
        command.args(more);
        run(command)
    };
    for (words, advice) in [
        (&["--peer", "127.0.0.1:1"][..], "--number"),
        (&["--peer", "127.0.0.1:1", "--number", "1"], "--number"),
        (&["--peer", "127.0.0.1:1", "--number", "0", "--without", "0"], "--without"),
        (&["--peer", "127.0.0.1:1", "--number", "0", "--copies", "2"], "one copy"),
        (&["--peer", "127.0.0.1:1", "--number", "0", "--strict", "--search", "tree"], "--search"),
        (&["--peer", "nfs://host/export", "--number", "0"], "HOST:PORT"),
        (&["--peer", "a:1", "--peer", "b:1", "--peer", "a:1", "--number", "1"], "twice"),
    ] {
        let (code, _, said) = meta(words);
        assert!(code == 2 && said.contains(advice), "{words:?}: {code} {said}");
    }
}
