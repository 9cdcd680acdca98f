//! `meta` and `iod`: a volume over processes that authenticate each other by a key.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_session::nfs::{Nfs, Place, Version};
use leasehold_session::{Credential, Options};

use leasehold_session::nfs::messages::{Handle, SetAttributes, Status, write};
use leasehold_shell::client::{Mounted, NotFound, Runtime, SourcePort, Target, block_on, mount};
use rustix::process::Signal;

use crate::support::{
    Home, Serving, TIMEOUT, address, call_of_user, leasehold, opaque, over, over_stream, port, put,
    run, send, who,
};

/// Starts an iod with a directory and a key of these names, at port `at`, or at a free port if `at`
/// is 0.
pub(crate) fn iod(home: &Home, name: &str, key: &str, at: u16) -> (Serving, u16) {
    started(iod_command(home, name, key, if at == 0 { port() } else { at }))
}

/// Starts an iod on a disk of size `room`; requires root.
fn small_iod(home: &Home, name: &str, room: &str) -> (Serving, u16) {
    let command = iod_command(home, name, "key", 0);
    let mut mounted = std::process::Command::new("unshare");
    let script = "mount -t tmpfs -o size=\"$1\" none \"$2\" && shift 2 && exec \"$@\"";
    mounted.args(["--mount", "sh", "-c", script, "sh", room, &home.path(name)]);
    mounted.arg(command.get_program()).args(command.get_args());
    started(mounted)
}

pub(crate) fn iod_command(home: &Home, name: &str, key: &str, port: u16) -> std::process::Command {
    let _ = fs::create_dir(home.path(name));
    let (listen, state) = (format!("127.0.0.1:{port}"), home.path(&format!("state-{name}")));
    let mut command = leasehold(&["iod", &home.path(name), "--listen", &listen, "--json"]);
    command.args(["--state", &state, "--cluster-key", &home.path(key)]);
    command
}

pub(crate) fn started(command: std::process::Command) -> (Serving, u16) {
    ready(Serving::start(command))
}

fn ready(serving: Serving) -> (Serving, u16) {
    let ready: serde_json::Value = serde_json::from_str(&serving.line()).unwrap();
    assert!(ready.get("mount").is_none(), "it is not for clients: {ready}");
    (serving, address(&ready).port())
}

/// Returns the command of a metaserver over iods at these ports.
pub(crate) fn meta(home: &Home, ports: &[u16], more: &[&str]) -> std::process::Command {
    let mut command = leasehold(&["meta", &home.path("data"), "--json", "--listen", "127.0.0.1:0"]);
    command.args(["--state", &home.path("state"), "--cluster-key", &home.path("key")]);
    for port in ports {
        command.args(["--iod", &format!("127.0.0.1:{port}")]);
    }
    if !more.contains(&"--stripe-unit") {
        command.args(["--stripe-unit", "4"]);
    }
    command.args(["--stripe-inline", "4"]).args(more);
    command
}

fn start(home: &Home, ports: &[u16]) -> (Serving, serde_json::Value) {
    let serving = Serving::start(meta(home, ports, &[]));
    let ready = serde_json::from_str(&serving.line()).unwrap();
    (serving, ready)
}

pub(crate) fn try_mount(runtime: &Runtime, port: u16, path: &str) -> Result<Mounted, NotFound> {
    let options = Options::stream().impatient(TIMEOUT);
    let target = Target { port: Some(port), ..Target::new("127.0.0.1", path.as_bytes(), options) };
    block_on(mount(runtime, &target, &who()))
}

/// Reads the file from its start, and retries until the read succeeds.
fn read(server: &Mounted, file: &Handle, length: usize) -> Bytes {
    let (length, end) = (u32::try_from(length).unwrap(), Instant::now() + TIMEOUT);
    loop {
        let read = block_on(server.nfs.read(&who(), file, 0, length));
        match read.unwrap().done() {
            Ok(read) => return read.data,
            Err(status) => assert!(Instant::now() < end, "{status:?}"),
        }
    }
}

#[test]
fn data_is_on_iods_that_serve_only_their_cluster() {
    let home = Home::new();
    let runtime = Runtime::start().unwrap();
    let (mut one, first) = iod(&home, "one", "key", 0);
    let (_two, second) = iod(&home, "two", "key", 0);
    let ports = [first, second];
    for path in ["/", "/iod", &home.path("one")] {
        let refused = try_mount(&runtime, first, path);
        assert!(matches!(refused, Err(NotFound::Refused(..))), "{path}");
    }
    let data: Bytes = (0..100_000_u32).flat_map(u32::to_be_bytes).collect();
    let (mut serving, ready) = start(&home, &ports);
    let server = try_mount(&runtime, address(&ready).port(), "/data").unwrap();
    let file = block_on(put(&server, b"file", &data));
    assert_eq!(fs::metadata(home.path("data/file")).unwrap().len(), 512, "it has the layout");
    assert_eq!(read(&server, &file, data.len()), data);
    assert!(serving.end(Signal::TERM).success());
    // An unreachable iod does not prevent the start of the metaserver, which finds the iod when it
    // returns.
    assert!(one.end(Signal::KILL).code().is_none());
    let (mut serving, ready) = start(&home, &ports);
    let server = try_mount(&runtime, address(&ready).port(), "/data").unwrap();
    block_on(put(&server, b"small", &Bytes::from_static(b"needs no iod")));
    let (_one, _) = iod(&home, "one", "key", first);
    assert_eq!(read(&server, &file, data.len()), data);
    assert!(serving.end(Signal::TERM).success());
}

/// An iod logs no rejected mount while its cluster starts, ends and starts.
#[test]
fn iod_rejects_nothing_of_its_cluster() {
    let home = Home::new();
    let log = fs::File::create(home.path("log")).unwrap();
    let serving = Serving::logging(iod_command(&home, "one", "key", port()), log.into());
    let (mut one, first) = ready(serving);
    for _ in 0..2 {
        let (mut serving, _) = start(&home, &[first]);
        assert!(serving.end(Signal::TERM).success());
    }
    let runtime = Runtime::start().unwrap();
    assert!(try_mount(&runtime, first, "/nothing").is_err());
    assert!(one.end(Signal::TERM).success());
    let log = fs::read_to_string(home.path("log")).unwrap();
    let refused = log.lines().find(|line| line.contains("rejected a mount"));
    assert!(refused.is_some_and(|line| line.contains("/nothing")), "{log}");
}

#[test]
fn foreign_iods_and_keys_are_rejected() {
    let home = Home::new();
    let (_one, first) = iod(&home, "one", "key", 0);
    let (_two, second) = iod(&home, "two", "key", 0);
    let (_other, other) = iod(&home, "other", "other-key", 0);
    let refused = |ports: &[u16], more: &[&str]| {
        let (code, _, said) = run(meta(&home, ports, more));
        assert!(code == 3 || code == 5, "{code}: {said}");
        said
    };
    assert!(refused(&[first, other], &[]).contains("another cluster key"));
    let (mut serving, _) = start(&home, &[first, second]);
    assert!(serving.end(Signal::TERM).success());
    let check = |ports: &[u16]| {
        let mut check = leasehold(&["cluster", "check", "--cluster-key", &home.path("key")]);
        check.args(ports.iter().map(|port| format!("--iod=127.0.0.1:{port}")));
        run(check)
    };
    let (code, said, _) = check(&[second, first]);
    assert!(code == 0 && said.contains("iod 1 of 2") && said.contains("iod 0 of 2"), "{said}");
    let (code, said, _) = check(&[first, other]);
    assert!(code == 1 && said.contains("another cluster key"), "{said}");
    let said = refused(&[first], &[]);
    assert!(said.contains(&format!("iod 1 of the volume, 127.0.0.1:{second}, is not named")));
    // A new iod does not take the place of a missing one.
    let (_new, new) = iod(&home, "new", "key", 0);
    assert!(refused(&[first, new], &[]).contains("is not named"));
    let mut serving = Serving::start(meta(&home, &[first, new], &["--lost", "1"]));
    assert!(serving.line().contains("addresses"), "it serves without the lost iod");
    assert!(serving.end(Signal::TERM).success());
    let mut key = leasehold(&["iod", &home.path("one"), "--cluster-key", &home.path("one/key")]);
    key.args(["--listen", "127.0.0.1:0", "--state", &home.path("state-key")]);
    let (code, _, said) = run(key);
    assert!(code == 5 && said.contains("lies in the served directory"), "{code}: {said}");
}

#[test]
fn trial_cluster_can_be_inspected() {
    let home = Home::new();
    let folder = home.path("cluster");
    let try_it = ["cluster", "try", &folder, "--iods", "2", "--listen", "127.0.0.1:0"];
    let mut serving = Serving::start(leasehold(&try_it));
    let line = serving.line();
    let port = line.rsplit(':').next().unwrap().parse().unwrap();
    let runtime = Runtime::start().unwrap();
    let server = try_mount(&runtime, port, "/cluster").unwrap();
    let data = Bytes::from(vec![7; 300_000]);
    let file = block_on(put(&server, b"large", &data));
    block_on(put(&server, b"small", &Bytes::from_static(b"small")));
    assert_eq!(read(&server, &file, data.len()), data);
    let layout = |name: &str| run(leasehold(&["layout", &format!("{folder}/names/{name}")])).1;
    let placed = layout("large");
    let held = placed.trim_end().rsplit(' ').next().unwrap();
    let on_iods = ["iod0", "iod1"].map(|iod| fs::metadata(format!("{folder}/{iod}/{held}")));
    let bytes: u64 = on_iods.into_iter().flatten().map(|found| found.len()).sum();
    assert_eq!(bytes, 300_000, "{placed}");
    assert_eq!(layout("small"), "5 bytes, stored in the metafile\n");
    let (code, _, said) = run(leasehold(&["layout", &home.path("cluster/cluster.key")]));
    assert!(code == 1 && said.contains("not a metafile"), "{said}");
    assert!(serving.end(Signal::TERM).success());
    // The data of the trial persists.
    let mut serving = Serving::start(leasehold(&try_it));
    let port = serving.line().rsplit(':').next().unwrap().parse().unwrap();
    let server = try_mount(&runtime, port, "/cluster").unwrap();
    assert_eq!(read(&server, &file, data.len()), data);
    assert!(serving.end(Signal::TERM).success());
}

/// Layouts are set on directories, and on files, which are moved.
#[test]
fn layouts_are_set_and_inherited() {
    let home = Home::new();
    let runtime = Runtime::start().unwrap();
    let names = ["one", "two", "three"];
    let (_iods, ports): (Vec<_>, Vec<_>) =
        names.iter().map(|name| iod(&home, name, "key", 0)).unzip();
    let (mut serving, ready) = start(&home, &ports);
    let server = try_mount(&runtime, address(&ready).port(), "/data").unwrap();
    let layout = |name: &str, more: &[&str]| {
        let mut layout = leasehold(&["layout", &home.path(&format!("data/{name}"))]);
        run({
            layout.args(more);
            layout
        })
    };
    let said = |name: &str, words: &[&str]| {
        let state = home.path("state");
        let (code, _, error) = layout(name, &[words, &["--state", &state]].concat());
        assert_eq!(code, 0, "{error}");
    };
    let told = |name: &str| -> serde_json::Value {
        let (code, text, error) = layout(name, &["--json"]);
        assert_eq!(code, 0, "{error}");
        serde_json::from_str(&text).unwrap()
    };
    fs::create_dir(home.path("data/films")).unwrap();
    assert!(layout("films", &[]).1.contains("the layout of the volume"));
    said("films", &["--unit", "64", "--iods", "2,0", "--first", "2"]);
    assert_eq!(layout("films", &[]).1, "new files here: unit 65536, first 2, iods 2 0\n");
    let films = block_on(server.nfs.lookup(&who(), &server.root, b"films")).unwrap();
    let films = films.done().unwrap().object;
    let below = block_on(server.nfs.mkdir(&who(), &films, b"new", &SetAttributes::default()));
    let below = below.unwrap().done().unwrap().object.unwrap();
    let data = Bytes::from(vec![7; 300_000]);
    let film = block_on(put(&Mounted { root: below, ..server.clone() }, b"film", &data));
    let other = block_on(put(&server, b"other", &data));
    let placed = told("films/new/film");
    assert_eq!((&placed["unit"], placed["iods"].to_string()), (&65536.into(), "[2,0]".to_owned()));
    assert_eq!(told("other")["iods"].as_array().unwrap().len(), 3);
    said("other", &["--copies", "2", "--width", "2"]);
    said("films/new/film", &["--as-volume"]);
    wait_until_settled(&home);
    let placed = told("other");
    assert_eq!((&placed["copies"], placed["iods"].as_array().unwrap().len()), (&2.into(), 2));
    assert_eq!(read(&server, &other, data.len()), data);
    assert_eq!(read(&server, &film, data.len()), data);
    let refused = |name: &str, words: &[&str]| {
        let state = home.path("state");
        let (code, _, error) = layout(name, &[words, &["--state", &state]].concat());
        assert_eq!(code, 1, "{error}");
        error
    };
    assert!(refused("other", &["--iods", "7"]).contains("iod 7 is not in use"));
    assert!(refused("../one", &["--width", "1"]).contains("not in a directory of names"));
    assert!(serving.end(Signal::TERM).success());
    assert!(refused("other", &["--width", "1"]).contains("no server replies"));
}

/// Stripes that a crash leaves behind during a removal are found and removed; all others stay.
#[test]
fn stripes_that_belong_to_no_file_are_removed() {
    let home = Home::new();
    let (_one, first) = iod(&home, "one", "key", 0);
    let (_two, second) = iod(&home, "two", "key", 0);
    let ports = [first, second];
    let repair = |directory: &str, more: &[&str]| {
        let mut repair = leasehold(&["cluster", "repair", &home.path(directory)]);
        repair.args(["--cluster-key", &home.path("key")]).args(more);
        repair.args(ports.iter().map(|port| format!("--iod=127.0.0.1:{port}")));
        run(repair)
    };
    let runtime = Runtime::start().unwrap();
    let data = Bytes::from(vec![7; 300_000]);
    let (mut serving, ready) = start(&home, &ports);
    let server = try_mount(&runtime, address(&ready).port(), "/data").unwrap();
    for name in [&b"lost"[..], b"kept"] {
        block_on(put(&server, name, &data));
    }
    block_on(put(&server, b"small", &Bytes::from_static(b"small")));
    // The command finds the metaserver that serves the directory, and the metaserver searches.
    let (code, said, error) = repair("data", &["--remove"]);
    assert!(code == 0 && said.contains("0 of 2 objects"), "{code}: {said} {error}");
    assert!(serving.end(Signal::TERM).success());
    fs::remove_file(home.path("data/lost")).unwrap();
    fs::create_dir(home.path("empty")).unwrap();
    let (code, _, said) = repair("empty", &["--remove"]);
    assert!(code == 3 && said.contains("not the directory of its metaserver"), "{code}: {said}");
    fs::write(home.path("data/stranger"), "no metafile").unwrap();
    let (code, _, said) = repair("data", &["--remove"]);
    assert!(code == 3 && said.contains("nothing was removed"), "{code}: {said}");
    fs::remove_file(home.path("data/stranger")).unwrap();
    let found = |more: &[&str]| {
        let (code, said, error) = repair("data", more);
        assert_eq!(code, 0, "{error}");
        said.lines().map(|line| line.split_once(": ").unwrap().1.to_owned()).collect::<Vec<_>>()
    };
    // 74 stripes of 4 KiB; the last one is partial.
    let on_both = |done: &str| {
        let said = |bytes| format!("1 of 2 objects belong to no file, {bytes} bytes, {done}");
        [said(37 << 12), said(300_000 - (37 << 12))]
    };
    assert_eq!(found(&[]), on_both("remove them with --remove"));
    assert_eq!(found(&["--remove"]), on_both("removed"));
    assert_eq!(found(&["--remove"]), ["0 of 1 objects belong to no file"; 2]);
    // A directory without files is probably not the whole directory of the volume.
    fs::remove_file(home.path("data/small")).unwrap();
    fs::rename(home.path("data/kept"), home.path("kept")).unwrap();
    let (code, _, said) = repair("data", &["--remove"]);
    assert!(code == 3 && said.contains("--even-most"), "{code}: {said}");
    assert!(
        said.contains("either all such files were removed, or this is not the directory"),
        "{said}"
    );
    fs::rename(home.path("kept"), home.path("data/kept")).unwrap();
    let (code, _, said) = run(leasehold(&["cluster", "repair", &home.path("data")]));
    assert!(code == 2 && said.contains("--iod"), "{code}: {said}");
    let (mut serving, ready) = start(&home, &ports);
    let server = try_mount(&runtime, address(&ready).port(), "/data").unwrap();
    let kept = block_on(server.nfs.lookup(&who(), &server.root, b"kept")).unwrap().done().unwrap();
    assert_eq!(read(&server, &kept.object, data.len()), data);
    assert!(serving.end(Signal::TERM).success());
}

/// Compares the file's data with the written data.
fn same(server: &Mounted, name: &[u8], data: &Bytes) {
    let found = block_on(server.nfs.lookup(&who(), &server.root, name)).unwrap();
    let file = found.done().unwrap().object;
    assert!(read(server, &file, data.len()) == data, "{}", String::from_utf8_lossy(name));
}

/// Overwrites a file.
fn put_again(server: &Mounted, name: &[u8], data: &Bytes) {
    let found = block_on(server.nfs.lookup(&who(), &server.root, name)).unwrap();
    let file = found.done().unwrap().object;
    let mut done = 0;
    while done < data.len() {
        let what = (data.slice(done..), write::Stability::Unstable);
        let written = block_on(server.nfs.write(&who(), &file, done as u64, what)).unwrap();
        done += written.done().unwrap().count as usize;
    }
    block_on(server.nfs.commit(&who(), &file, 0, 0)).unwrap().done().unwrap();
}

/// Waits until all files have their intended layout.
pub(crate) fn wait_until_settled(home: &Home) -> serde_json::Value {
    let end = Instant::now() + 3 * TIMEOUT;
    loop {
        let status = ["cluster", "status", "--json", "--state", &home.path("state")];
        let (code, said, error) = run(leasehold(&status));
        assert_eq!(code, 0, "{error}");
        let mut told: serde_json::Value = serde_json::from_str(&said).unwrap();
        let away = |iod: &serde_json::Value| iod["what"] == "used" && iod["away"] == true;
        let iods = told[0]["iods"].as_array().unwrap();
        if told[0]["settled"] == true && !iods.iter().any(away) {
            return told[0].take();
        }
        assert!(Instant::now() < end, "{said}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// With two copies, clients do not notice the temporary or permanent loss of an iod: the metaserver
/// restores the second copy in the background, so that afterwards another iod may be lost.
#[test]
fn with_two_copies_one_iod_may_be_lost() {
    let home = Home::new();
    let runtime = Runtime::start().unwrap();
    let names = ["one", "two", "three"];
    let (mut iods, ports): (Vec<_>, Vec<_>) =
        names.iter().map(|name| iod(&home, name, "key", 0)).unzip();
    let start = |ports: &[u16], more: &[&str]| {
        let serving = Serving::start(meta(&home, ports, &[&["--copies", "2"], more].concat()));
        let ready = serde_json::from_str(&serving.line()).unwrap();
        let server = try_mount(&runtime, address(&ready).port(), "/data").unwrap();
        (serving, server)
    };
    let data = |round: u8| Bytes::from(vec![round + 1; 300_000]);
    let (mut serving, server) = start(&ports, &[]);
    block_on(put(&server, b"old", &data(0)));
    for (away, name) in names.iter().enumerate() {
        let round = u8::try_from(away).unwrap();
        assert!(iods[away].end(Signal::KILL).code().is_none());
        same(&server, b"old", &data(round));
        block_on(put(&server, name.as_bytes(), &data(round)));
        put_again(&server, b"old", &data(round + 1));
        same(&server, b"old", &data(round + 1));
        same(&server, name.as_bytes(), &data(round));
        iods[away] = iod(&home, name, "key", ports[away]).0;
        wait_until_settled(&home);
    }
    // One iod is lost for good, and a new one replaces it, as configured in the file of the
    // cluster.
    assert!(iods[1].end(Signal::KILL).code().is_none());
    assert!(serving.end(Signal::TERM).success());
    let (_new, new) = iod(&home, "new", "key", 0);
    let file = home.path("cluster.toml");
    let places = [ports[0], ports[2], new].map(|port| format!("\"127.0.0.1:{port}\""));
    let (data_place, key, places) = (home.path("data"), home.path("key"), places.join(", "));
    let text = format!(
        "[[export]]\ndirectory = \"{data_place}\"\niod = [{places}]\ncluster-key = \"{key}\"\n\
         copies = 2\nlost = [1]\nstripe-unit = \"4 KiB\"\nstripe-inline = \"4 KiB\"\n\
         [[export.client]]\nfrom = [\"*\"]\nsquash = \"none\"\n"
    );
    fs::write(&file, text).unwrap();
    let mut command = leasehold(&["serve", "--config", &file, "--json"]);
    command.args(["--listen", "127.0.0.1:0", "--state", &home.path("state")]);
    let mut serving = Serving::start(command);
    let ready = serde_json::from_str(&serving.line()).unwrap();
    let server = try_mount(&runtime, address(&ready).port(), "/data").unwrap();
    let told = wait_until_settled(&home);
    assert_eq!((&told["iods"][1]["what"], &told["copies"]), (&"gone".into(), &2.into()));
    let (code, said, error) = run(leasehold(&["cluster", "check", "--config", &file]));
    assert!(code == 0 && said.contains("iod 3 of 3"), "{said}{error}");
    assert!(iods[0].end(Signal::KILL).code().is_none());
    for (round, name) in (0..).zip(names) {
        same(&server, name.as_bytes(), &data(round));
    }
    same(&server, b"old", &data(3));
    assert!(serving.end(Signal::TERM).success());
}

/// If the disk of one iod is full, only writers of its stripes receive errors: other files can be
/// read and changed, small ones created, and free space is usable at once.
#[test]
fn full_disk_of_one_iod_is_reported() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for copies in ["1", "2"] {
        let home = Home::new();
        let runtime = Runtime::start().unwrap();
        let (_one, first) = small_iod(&home, "one", "2m");
        let (_two, second) = iod(&home, "two", "key", 0);
        let mut serving = Serving::start(meta(&home, &[first, second], &["--copies", copies]));
        let ready = serde_json::from_str(&serving.line()).unwrap();
        let server = try_mount(&runtime, address(&ready).port(), "/data").unwrap();
        let data = |byte: u8| Bytes::from(vec![byte; 100_000]);
        block_on(put(&server, b"kept", &data(1)));
        let large = block_on(put(&server, b"large", &data(2)));
        let mut size = 100_000_u64;
        let refused = loop {
            assert!(size < 10 << 20, "the disk never becomes full");
            let what = (data(2), write::Stability::FileSync);
            match block_on(server.nfs.write(&who(), &large, size, what)).unwrap().done() {
                Ok(done) => size += u64::from(done.count),
                Err(status) => break status,
            }
        };
        assert_eq!(refused, Status::NoSpace);
        let told = block_on(server.nfs.getattr(&who(), &large)).unwrap().done().unwrap();
        assert!(told.attributes.size >= size, "acknowledged data exists");
        same(&server, b"kept", &data(1));
        put_again(&server, b"kept", &data(3));
        same(&server, b"kept", &data(3));
        block_on(put(&server, b"small", &Bytes::from_static(b"needs no iod")));
        let removed = block_on(server.nfs.remove(&who(), &server.root, b"large")).unwrap();
        removed.done().unwrap();
        block_on(put(&server, b"next", &data(4)));
        same(&server, b"next", &data(4));
        assert!(serving.end(Signal::TERM).success());
    }
}

/// Returns the status of an accepted reply.
fn status(reply: &[u8]) -> u32 {
    u32::from_be_bytes(reply[24..28].try_into().unwrap())
}

/// Returns the status of a READ of version 3.
fn read_status(address: SocketAddr, file: &Handle) -> u32 {
    let arguments = [&opaque(file.as_bytes())[..], &[0; 8], &100_000_u32.to_be_bytes()].concat();
    status(&over_stream(address, &call_of_user(9, 6, &arguments)))
}

/// Returns a READ of version 2.
fn old_read(xid: u32, file: &Handle) -> Vec<u8> {
    let arguments = [file.as_bytes(), &[0; 4], &8192_u32.to_be_bytes(), &[0; 4]].concat();
    let mut call = call_of_user(xid, 6, &arguments);
    call[16..20].copy_from_slice(&2_u32.to_be_bytes());
    call
}

/// While an iod is unreachable, calls that need it receive "retry later", and after the timeout an
/// error. Version 2 has no such status, so the server stays silent. Other calls succeed.
#[test]
fn unreachable_iod_is_reported_in_time() {
    let (ok, io, jukebox) = (0, 5, 10_008);
    // Far longer than the 2 s of a call, so that a pause of the machine of some seconds does not
    // cause an early timeout.
    let (parked, give_up) = (Duration::from_secs(2), Duration::from_secs(10));
    let home = Home::new();
    let runtime = Runtime::start().unwrap();
    let (_one, first) = iod(&home, "one", "key", 0);
    let (mut two, second) = iod(&home, "two", "key", 0);
    let mut serving = Serving::start(meta(&home, &[first, second], &["--iod-timeout", "10"]));
    let ready: serde_json::Value = serde_json::from_str(&serving.line()).unwrap();
    let at = address(&ready);
    let server = try_mount(&runtime, at.port(), "/data").unwrap();
    fs::create_dir(home.path("data/first")).unwrap();
    let mut only_first = leasehold(&["layout", &home.path("data/first"), "--iods", "0"]);
    only_first.args(["--state", &home.path("state")]);
    let (code, _, error) = run(only_first);
    assert_eq!(code, 0, "{error}");
    let found = block_on(server.nfs.lookup(&who(), &server.root, b"first")).unwrap();
    let of_first = Mounted { root: found.done().unwrap().object, ..server.clone() };
    let data = Bytes::from(vec![7; 100_000]);
    let file = block_on(put(&server, b"file", &data));
    let small = block_on(put(&server, b"small", &Bytes::from_static(b"needs no iod")));
    let other = block_on(put(&of_first, b"other", &data));
    assert_eq!([&file, &small, &other].map(|file| read_status(at, file)), [ok; 3]);
    let mut old = TcpStream::connect(at).unwrap();
    assert_eq!(over(&mut old, &old_read(1, &file))[..28], old_reply(1, ok));

    assert!(two.end(Signal::KILL).code().is_none());
    let begun = Instant::now();
    send(&mut old, &old_read(2, &file));
    let told = read_status(at, &file);
    let after = begun.elapsed();
    assert!(told == jukebox && after >= parked, "{told} after {after:?}");
    // Calls that need the iod would receive the same status.
    assert_eq!([&small, &other].map(|file| read_status(at, file)), [ok; 2]);
    let who = who();
    let listing = server.nfs.list(&who, &server.root, Place::default(), 8192, true);
    let listed = block_on(listing).unwrap().done().unwrap().entries;
    assert!(listed.iter().any(|entry| entry.name == b"file"[..]), "{listed:?}");
    assert!(listed.iter().all(|entry| entry.attributes.is_some()), "{listed:?}");
    loop {
        match read_status(at, &file) {
            told if told == jukebox => {
                assert!(begun.elapsed() < TIMEOUT, "the retries do not end");
            }
            told => break assert_eq!(told, io),
        }
    }
    let after = begun.elapsed();
    assert!(after >= give_up, "{after:?}");
    // The first reply is the one to the last call.
    assert_eq!(over(&mut old, &old_read(3, &file))[..28], old_reply(3, io));
    assert_eq!([&small, &other].map(|file| read_status(at, file)), [ok; 2]);
    // The iod returns, and is used without intervention.
    let (_two, _) = iod(&home, "two", "key", second);
    assert_eq!(read(&server, &file, data.len()), data);
    assert!(serving.end(Signal::TERM).success());
}

/// Returns the head of a reply with this status.
fn old_reply(xid: u32, status: u32) -> Vec<u8> {
    [xid, 1, 0, 0, 0, 0, status].iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// An iod accepts only its own handles.
#[test]
fn iod_rejects_foreign_handles() {
    let (ok, bad_handle) = (0, 10_001);
    let home = Home::new();
    let runtime = Runtime::start().unwrap();
    let (_one, first) = iod(&home, "one", "key", 0);
    let (_serving, ready) = start(&home, &[first]);
    let server = try_mount(&runtime, address(&ready).port(), "/data").unwrap();
    let file = block_on(put(&server, b"file", &Bytes::from(vec![7; 100_000])));
    assert_eq!(read_status(address(&ready), &file), ok);
    let at = SocketAddr::from(([127, 0, 0, 1], first));
    // The caller uses a number that a client may have.
    let read_status = |at, handle: &Handle| {
        let options = Options::stream().impatient(TIMEOUT);
        let session = runtime.session(at, options, SourcePort::Any).unwrap();
        let caller = Credential::system("client", 0x7800_0002, 0x7800_0002, &[]);
        let nfs = Nfs::new(session, Version::V3);
        match block_on(nfs.read(&caller, handle, 0, 100_000)).unwrap().done() {
            Ok(_) => 0,
            Err(status) => status as u32,
        }
    };
    let mut made_up = *file.as_bytes().first_chunk::<32>().unwrap();
    made_up[31] ^= 1;
    for handle in [file, server.root, Handle::new(&made_up).unwrap()] {
        assert_eq!(read_status(at, &handle), bad_handle, "{handle:?}");
    }
}
