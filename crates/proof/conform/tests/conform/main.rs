//! The tester tests our own server, over a store in memory; and servers with one fault each, which
//! it must detect.

#![allow(clippy::print_stdout, reason = "the test prints the effect of each fault")]

mod faults;
mod support;
mod wire;
mod wrong;

use crate::support::{Server, run};

/// Cases that cannot run against a store in memory.
const SKIPPED: &[&str] = &[
    // The server has no directory behind it, and no portmap beside it.
    "back_dir/",
    "portmap/",
    // The client's limit for a READ is a mebibyte, like our server's.
    "v3_read/more_than_rtmax_is_a_short_read",
    // The server under test has no command line.
    "limits/a_write_of_wtmax_and_one_is_short_or_refused",
];

#[test]
fn our_own_server_passes_every_case() {
    let server = Server::start();
    let (summary, report) = run(&server, &["--jobs", "4"]);
    assert!(summary.is_good(), "{report}");
    assert!(summary.passed > 600, "{report}");
    for (case, why) in &summary.skipped {
        let expected = SKIPPED.iter().any(|skipped| case.starts_with(skipped));
        assert!(expected, "{case} was skipped, as {why}");
    }
    assert_eq!(server.names_in_root(), 0, "a name is left behind");
}

#[test]
fn a_seed_repeats_a_run() {
    let server = Server::start();
    let run = |seed| run(&server, &["--seed", seed, "--group", "v3_write", "--json"]).1;
    let details = |report: String| -> Vec<String> {
        report.lines().map(|line| line.split("milliseconds").next().unwrap_or("").into()).collect()
    };
    assert_eq!(details(run("7")), details(run("7")));
}

#[test]
fn results_are_available_to_programs() {
    let server = Server::start();
    let folder = std::env::temp_dir().join(format!("leasehold-conform-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let (known, junit) = (folder.join("known"), folder.join("junit.xml"));
    std::fs::write(&known, "rpc/null_does_nothing_and_is_answered it does not\n").expect("ours");
    let (summary, report) = run(
        &server,
        &[
            "--group",
            "rpc,back_dir",
            "--json",
            "--timings",
            "--known",
            known.to_str().expect("our own name"),
            "--junit",
            junit.to_str().expect("our own name"),
        ],
    );
    // A listed case that passes is a surprise: the list is out of date.
    assert_eq!(summary.surprising, ["rpc/null_does_nothing_and_is_answered"]);
    assert!(!summary.is_good());
    let lines: Vec<serde_json::Value> =
        report.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    let of = |case: &str| lines.iter().find(|line| line["case"] == case).expect("the case ran");
    assert_eq!(of("rpc/any_number_is_taken")["result"], "pass");
    assert_eq!(of("rpc/any_number_is_taken")["clause"], "RFC 5531 9");
    assert_eq!(of("back_dir/modes_are_the_same")["result"], "skip");
    assert!(lines.iter().any(|line| line["procedure"] == "NFS3 GETATTR"), "no timings");
    let xml = std::fs::read_to_string(&junit).expect("the file was written");
    assert!(xml.contains("<testsuite name=\"rpc\""), "{xml}");
    assert!(xml.contains("<skipped message="), "{xml}");
    std::fs::remove_dir_all(&folder).expect("ours");
}

#[test]
fn further_clients_go_to_another_server_of_the_same_files() {
    let server = Server::start();
    let beside = server.beside();
    let also = format!("127.0.0.1:{}", beside.port());
    let words = ["--also", &also, "--group", "several_clients,stability"];
    let (summary, report) = run(&server, &words);
    assert!(summary.is_good(), "{report}");
    drop(beside);
    let (summary, _) = run(&server, &words);
    let fails = |case: &str| summary.failed.iter().any(|failed| failed == case);
    assert!(
        fails("several_clients/what_one_makes_the_other_finds"),
        "no client called the other server"
    );
    assert!(!fails("stability/all_connections_have_one_verifier"), "the case concerns one server");
}

#[test]
fn an_impossible_test_is_reported() {
    let server = Server::start();
    let why = |arguments: &[&str]| {
        support::try_run(&server, arguments).expect_err("the arguments are invalid")
    };
    assert!(why(&["--group", "none"]).contains("group none does not exist"));
    assert!(why(&["--case", "no such case"]).contains("no case matches"));
    let port = server.port();
    drop(server);
    let gone = support::try_run_at(port, None, &[]).expect_err("no program listens there");
    assert!(gone.contains("accepts no connection"), "{gone}");
}
