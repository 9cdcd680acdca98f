//! The reports of a server: status and metrics, and their documents.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_shell::client::{Runtime, block_on};
use rustix::process::Signal;
use serde_json::Value;

use crate::clients::Client;
use crate::cluster::{iod, meta, try_mount};
use crate::nearest::metaserver;
use crate::support::{
    Home, Serving, TIMEOUT, address, call_of_user, leasehold, opaque, over_datagram, over_stream,
    port, put, root, run,
};

/// Reads a path of the server's own pages.
fn read(ready: &Value, path: &str) -> String {
    let base = ready["http"].as_str().unwrap();
    let host = base.strip_prefix("http://").unwrap().trim_end_matches('/');
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    body.to_owned()
}

/// Returns name, kind and help of each metric of a scrape.
fn described(scrape: &str) -> BTreeMap<&str, (&str, &str)> {
    let after = |start: &'static str| {
        scrape
            .lines()
            .filter_map(move |line| line.strip_prefix(start)?.split_once(' '))
            .collect::<BTreeMap<_, _>>()
    };
    let (kinds, helps) = (after("# TYPE "), after("# HELP "));
    assert_eq!(kinds.len(), helps.len());
    kinds.into_iter().map(|(name, kind)| (name, (kind, helps[name]))).collect()
}

/// Returns the names of all labels of a metric.
fn labels<'a>(scrape: &'a str, metric: &str) -> BTreeSet<&'a str> {
    let of = |line: &'a str| -> Option<&'a str> {
        let (name, rest) = line.split_once(['{', ' '])?;
        let base = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name);
        (name == metric || base == metric)
            .then(|| rest.rsplit_once('}').map(|(labels, _)| labels))?
    };
    scrape
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(of)
        .flat_map(|labels| labels.split(','))
        .filter_map(|label| Some(label.split_once('=')?.0))
        .filter(|label| *label != "le")
        .collect()
}

/// Returns the rows of METRICS.md: name, type, labels, meaning.
fn written() -> Vec<[String; 4]> {
    let text = std::fs::read_to_string(project("METRICS.md")).unwrap();
    let cells = |line: &str| -> Option<[String; 4]> {
        let row = line.strip_prefix('|').filter(|row| row.starts_with(" `leasehold_"))?;
        let cells = row.strip_suffix('|')?.split('|');
        let cells: Vec<_> = cells.map(|cell| cell.trim().replace('`', "")).collect();
        cells.try_into().ok()
    };
    text.lines().filter_map(cells).collect()
}

fn project(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Starts a server and sends every kind of call.
fn busy(options: &[&str]) -> (Home, Serving, Value) {
    let home = Home::new();
    let options = [&["--http", "127.0.0.1:0"], options].concat();
    let (serving, ready) = Serving::with_json(&home, &options);
    let server = address(&ready);
    let directory = opaque(&root(server));
    for xid in 0..40 {
        over_stream(server, &call_of_user(xid, 1, &directory));
    }
    over_datagram(server, &call_of_user(50, 1, &directory));
    // A LOOKUP of a missing name.
    over_stream(server, &call_of_user(60, 3, &[directory, opaque(b"none")].concat()));
    (home, serving, ready)
}

/// Starts two metaservers over an iod, and returns their ready messages.
fn group(home: &Home) -> (Serving, [(Serving, Value); 2]) {
    let (iod, at) = iod(home, "one", "key", 0);
    let ports = [port(), port()];
    let start = |number: usize| {
        metaserver(home, (number, ports[number]), (&ports, at), &["--http", "127.0.0.1:0"])
    };
    // The first creates the volume.
    let metaservers = [start(0), start(1)];
    (iod, metaservers)
}

/// Returns the first scrape that satisfies a condition.
fn scraped(ready: &Value, is_so: impl Fn(&str) -> bool) -> String {
    let end = Instant::now() + TIMEOUT;
    loop {
        let scrape = read(ready, "/metrics");
        if is_so(&scrape) {
            return scrape;
        }
        assert!(Instant::now() < end, "{scrape}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the value of the only series of a metric, if there is one.
fn only<'a>(scrape: &'a str, metric: &str) -> Option<&'a str> {
    let of = |line: &&str| line.split(['{', ' ']).next() == Some(metric);
    let mut found = scrape.lines().filter(of).filter_map(|line| Some(line.rsplit_once(' ')?.1));
    let value = found.next();
    assert_eq!(found.next(), None, "{metric} has one in {scrape}");
    value
}

/// Returns the rows that METRICS.md should have for a scrape.
fn rows(scrape: &str) -> BTreeMap<String, [String; 4]> {
    let row = |(name, (kind, help)): (&str, (&str, &str))| {
        let labels = Vec::from_iter(labels(scrape, name)).join(", ");
        (name.to_owned(), [name.to_owned(), kind.to_owned(), labels, help.to_owned()])
    };
    described(scrape).into_iter().map(row).collect()
}

#[test]
fn metrics_document_matches_servers() {
    let (_home, _serving, ready) = busy(&["--versions", "2,3,4.2"]);
    Client::start(address(&ready), b"name").look_up(b"none");
    let home = Home::new();
    let (_iod, [(_first, first), (_second, _)]) = group(&home);
    // A metaserver that has just started has no load report yet.
    let told = |scrape: &str| only(scrape, "leasehold_metaserver_connections").is_some();
    let mut given = rows(&scraped(&first, told));
    // The other server has handled more kinds of calls.
    given.extend(rows(&read(&ready, "/metrics")));
    // Several metaservers do not search for stripes that belong to no file.
    let alone = Home::new();
    let (_other, at) = iod(&alone, "one", "key", 0);
    let searching = Serving::start(meta(&alone, &[at], &["--http", "127.0.0.1:0"]));
    let searching: Value = serde_json::from_str(&searching.line()).unwrap();
    let found = |scrape: &str| only(scrape, "leasehold_volume_orphans").is_some();
    let of_search = rows(&scraped(&searching, found));
    given.extend(of_search.into_iter().filter(|(name, _)| name.starts_with("leasehold_volume_o")));
    let given = BTreeSet::from_iter(given.into_values());
    let written = BTreeSet::from_iter(written());
    let missing: Vec<_> = given.difference(&written).collect();
    let wrong: Vec<_> = written.difference(&given).collect();
    assert!(missing.is_empty() && wrong.is_empty(), "missing {missing:#?}\nwrong {wrong:#?}");
}

/// An administrator learns of unreachable servers, even if they are rarely used.
#[test]
fn unreachable_iod_and_metaserver_are_reported() {
    let home = Home::new();
    let (mut iod, [(_first, first), (mut second, _)]) = group(&home);
    let all_there = |scrape: &str| {
        let there = ["leasehold_iod_away", "leasehold_metaserver_away"];
        let there = there.map(|away| only(scrape, away));
        let serves = only(scrape, "leasehold_metaserver_serves");
        there == [Some("0"); 2] && serves == Some("1")
    };
    let scrape = scraped(&first, all_there);
    let free: f64 = only(&scrape, "leasehold_iod_free_bytes").unwrap().parse().unwrap();
    assert!(free > 0.0, "{scrape}");
    assert_eq!(only(&scrape, "leasehold_volume_settled"), Some("1"));
    second.end(Signal::KILL);
    scraped(&first, |scrape| only(scrape, "leasehold_metaserver_away") == Some("1"));
    iod.end(Signal::KILL);
    let scrape = scraped(&first, |scrape| only(scrape, "leasehold_iod_away") == Some("1"));
    assert_eq!(only(&scrape, "leasehold_iod_free_bytes"), None, "nobody knows");
}

/// Returns the number of files with an out-of-date copy, the number of misplaced files, and true if
/// all files have their intended layout.
fn files(scrape: &str) -> [Option<&str>; 3] {
    let told = ["behind_files", "misplaced_files", "settled"];
    told.map(|what| only(scrape, &format!("leasehold_volume_{what}")))
}

/// While one copy is out of date the other must not be lost: a metric reports this until the copy
/// is rebuilt.
#[test]
fn out_of_date_copy_is_reported_until_it_is_rebuilt() {
    let home = Home::new();
    let (_one, first) = iod(&home, "one", "key", 0);
    let (mut two, second) = iod(&home, "two", "key", 0);
    let more = ["--copies", "2", "--http", "127.0.0.1:0"];
    let serving = Serving::start(meta(&home, &[first, second], &more));
    let ready: Value = serde_json::from_str(&serving.line()).unwrap();
    scraped(&ready, |scrape| files(scrape) == ["0", "0", "1"].map(Some));
    two.end(Signal::KILL);
    let runtime = Runtime::start().unwrap();
    let server = try_mount(&runtime, address(&ready).port(), "/data").unwrap();
    block_on(put(&server, b"file", &Bytes::from(vec![7; 100_000])));
    scraped(&ready, |scrape| files(scrape) == ["1", "1", "0"].map(Some));
    let _two = iod(&home, "two", "key", second);
    scraped(&ready, |scrape| files(scrape) == ["0", "0", "1"].map(Some));
}

#[test]
fn dashboard_shows_existing_metrics() {
    let board = std::fs::read_to_string(project("docs/operate/grafana.json")).unwrap();
    let _: Value = serde_json::from_str(&board).unwrap();
    let names: BTreeSet<String> = written().into_iter().map(|[name, ..]| name).collect();
    let mut shown = 0;
    for piece in board.split("leasehold_").skip(1) {
        let end = piece.find(|letter: char| !(letter.is_ascii_lowercase() || letter == '_'));
        let name = format!("leasehold_{}", &piece[..end.unwrap_or(piece.len())]);
        let base = name.strip_suffix("_bucket").unwrap_or(&name);
        assert!(names.contains(base), "{name} is shown but is not a metric");
        shown += 1;
    }
    assert!(shown > 10, "{shown}");
}

#[test]
fn counts_are_correct_and_equal_everywhere() {
    let (home, _serving, ready) = busy(&[]);
    let scrape = read(&ready, "/metrics");
    let value = |name: &str| {
        let line = scrape.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {scrape}")).trim().to_owned()
    };
    let getattr = r#"{program="NFS",version="3",procedure="GETATTR"}"#;
    assert_eq!(value(&format!("leasehold_calls_total{getattr}")), "41");
    let lookup = r#"program="NFS",version="3",procedure="LOOKUP",status="noent""#;
    assert_eq!(value(&format!("leasehold_errors_total{{{lookup}}}")), "1");
    assert_eq!(value(r#"leasehold_export_calls_total{export="/data"}"#), "42");
    assert_eq!(value("leasehold_clients"), "1");

    let live: Value = serde_json::from_str(&read(&ready, "/live.json")).unwrap();
    let state = home.path("state");
    let (code, text, _) = run(leasehold(&["status", "--json", "--state", &state]));
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(code, 0);
    for told in [&live, &told] {
        assert_eq!(told["total"]["calls"], 43, "these calls and a mount");
        assert_eq!((&told["durability"], &told["pid"]), (&"disk".into(), &ready["pid"]));
        assert_eq!(told["exports"][0]["calls"], 42);
        assert_eq!(told["clients"][0]["address"], "127.0.0.1");
        assert!(told["total"]["timed"].as_u64().unwrap() > 0);
        assert!(told["total"]["latency"]["p99_s"].as_f64().unwrap() > 0.0);
    }
    let (code, page, _) = run(leasehold(&["status", "--state", &state]));
    assert_eq!(code, 0);
    for part in ["durability: disk\n", "NFS 3 GETATTR", "/data", "127.0.0.1", "noent 1 times"] {
        assert!(page.contains(part), "no {part} in\n{page}");
    }
}

/// Users must not assume stability that the server does not provide.
#[test]
fn durability_in_memory_is_reported_everywhere() {
    let (home, _serving, ready) = busy(&["--durability", "memory"]);
    assert!(read(&ready, "/metrics").contains(r#"durability="memory"} 1"#));
    let (_, page, _) = run(leasehold(&["status", "--state", &home.path("state")]));
    assert!(page.contains("durability: memory. A crash of this machine loses changes."), "{page}");
}

#[test]
fn top_prints_activity_as_lines_of_json() {
    let (home, _serving, ready) = busy(&[]);
    let state = home.path("state");
    let top = ["top", "--json", "--count", "2", "--interval", "0.1", "--state", &state];
    let (code, text, error) = run(leasehold(&top));
    assert_eq!((code, error.as_str()), (0, ""));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    for line in lines {
        assert!(line["seconds"].as_f64().unwrap() >= 0.1);
        assert_eq!(line["added"]["total"]["calls"], 0, "no client sends calls meanwhile");
        assert_eq!(line["added"]["pid"], ready["pid"]);
    }
    let (code, _, error) = run(leasehold(&["top", "--state", &state]));
    assert!(code == 2 && error.contains("--json"), "{error}");
    let (code, _, error) = run(leasehold(&["top", "--interval", "0"]));
    assert!(code == 2 && error.contains("from 0.1 to 3600"), "{error}");
}

#[test]
fn log_can_be_json() {
    let home = Home::new();
    let log = std::fs::File::create(home.path("log")).unwrap();
    let command = home.command(&["--log-format", "json", "--json"]);
    let mut serving = Serving::logging(command, log.into());
    serving.line();
    serving.end(rustix::process::Signal::TERM);
    let text = std::fs::read_to_string(home.path("log")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ended = lines.iter().find(|line| line["message"] == "a signal ends the server").unwrap();
    assert_eq!(ended["level"], "INFO");
}
