//! Every case fails for a faulty server.
//!
//! `wrong.txt` lists the faulty server for which each case fails; `FAULTS=rewrite` creates the list
//! again, by running every case against one faulty server after the other until it fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use crate::SKIPPED;
use crate::faults::{self, Fault};
use crate::support::{Server, run, try_run};

/// The list of the failing cases of each faulty server.
const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conform/wrong.txt");

/// The heading of cases that fail for none of the faulty servers.
const NONE: &str = "no wrong server of this list";

const HEAD: &str = "\
# Which case fails for which wrong server. Found out anew by
# FAULTS=rewrite cargo test -p leasehold-conform --test conform
";

/// The number of faulty servers at the same time: a case that waits for a timeout needs no
/// processor.
const JOBS: usize = 4;

/// The cases under each heading.
type List = BTreeMap<String, BTreeSet<String>>;

#[test]
fn every_case_fails_for_some_wrong_server() {
    if env::var("FAULTS").is_ok_and(|what| what == "rewrite") {
        fs::write(LIST, text(&find())).expect("the tree can be written to");
    }
    let list = read(&fs::read_to_string(LIST).expect("the list is in the tree"));
    assert_eq!(list.get(NONE), None, "each case fails for a faulty server");
    let listed: Vec<&String> = list.values().flatten().collect();
    let put_to: BTreeSet<&String> = listed.iter().copied().collect();
    assert_eq!(listed.len(), put_to.len(), "a case is listed twice");
    let cases = cases();
    assert_eq!(put_to, cases.iter().collect(), "the list is out of date: run with FAULTS=rewrite");
    let passed: Vec<String> = each_fault(|fault| {
        let cases = list.get(fault.name).cloned().unwrap_or_default();
        let failed = failed(fault, &cases);
        cases.difference(&failed).map(|case| format!("{case}: {}", fault.name)).collect()
    });
    assert!(passed.is_empty(), "these pass although the server is faulty: {passed:#?}");
}

/// Returns all cases that can run against a server in this process.
fn cases() -> BTreeSet<String> {
    let listed = run(&Server::start(), &["--list", "--json"]).1;
    let lines = listed.lines().map(|line| serde_json::from_str(line).expect("each line is JSON"));
    lines
        .map(|line: serde_json::Value| line["case"].as_str().expect("a name").to_owned())
        .filter(|case| !SKIPPED.iter().any(|skipped| case.starts_with(skipped)))
        .collect()
}

/// Returns the given cases that fail for a faulty server.
fn failed(fault: &'static Fault, cases: &BTreeSet<String>) -> BTreeSet<String> {
    if fault.wire.is_none() {
        return failed_together(fault, cases);
    }
    // One case may end such a server.
    cases.iter().flat_map(|case| failed_together(fault, &BTreeSet::from([case.clone()]))).collect()
}

/// Returns the cases that fail when all of them run against one server.
fn failed_together(fault: &'static Fault, cases: &BTreeSet<String>) -> BTreeSet<String> {
    if cases.is_empty() {
        return BTreeSet::new();
    }
    let server = Server::with_fault(fault);
    let patterns = cases.iter().map(String::as_str).collect::<Vec<_>>().join(",");
    let arguments = ["--strict", "--json", "--jobs", "2", "--case", &patterns];
    let report = match try_run(&server, &arguments) {
        Ok((_, report)) => report,
        Err(why) => {
            println!("{}: {why}", fault.name);
            return BTreeSet::new();
        }
    };
    let lines = report.lines().map(|line| serde_json::from_str(line).expect("each line is JSON"));
    lines
        .filter(|line: &serde_json::Value| line["result"] == "fail")
        .map(|line| line["case"].as_str().expect("a name").to_owned())
        // A pattern matches longer names, too.
        .filter(|case| cases.contains(case))
        .collect()
}

/// Runs work for each fault, several at the same time.
fn each_fault(work: impl Fn(&'static Fault) -> Vec<String> + Sync) -> Vec<String> {
    let all = faults::all();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(|| {
                while let Some(fault) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let more = work(fault);
                    found.lock().expect("nobody panics").extend(more);
                }
            });
        }
    });
    found.into_inner().expect("nobody panics")
}

/// Runs each case against one faulty server after the other until it fails.
fn find() -> List {
    let left = Mutex::new(cases());
    let list = Mutex::new(List::new());
    each_fault(|fault| {
        let cases = left.lock().expect("nobody panics").clone();
        let failed = failed(fault, &cases);
        println!("{:4} {}", failed.len(), fault.name);
        let mut left = left.lock().expect("nobody panics");
        let new = failed.into_iter().filter(|case| left.remove(case)).collect();
        list.lock().expect("nobody panics").insert(fault.name.to_owned(), new);
        Vec::new()
    });
    let mut list = list.into_inner().expect("nobody panics");
    list.insert(NONE.to_owned(), left.into_inner().expect("nobody panics"));
    list
}

fn text(list: &List) -> String {
    let mut text = HEAD.to_owned();
    for name in faults::all().iter().map(|fault| fault.name).chain([NONE]) {
        let cases = list.get(name).into_iter().flatten();
        let lines: String = cases.map(|case| format!("  {case}\n")).collect();
        if !lines.is_empty() {
            write!(text, "\n{name}\n{lines}").expect("text takes all");
        }
    }
    text
}

fn read(text: &str) -> List {
    let mut list = List::new();
    let mut heading = String::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix("  ") {
            Some(case) => list.entry(heading.clone()).or_default().insert(case.to_owned()),
            None => {
                heading = line.to_owned();
                let known =
                    heading == NONE || faults::all().iter().any(|fault| fault.name == heading);
                assert!(known, "faulty server {heading} does not exist");
                continue;
            }
        };
    }
    list
}
