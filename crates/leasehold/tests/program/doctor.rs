//! `leasehold doctor`: it checks the machine, reports its findings, and changes nothing.

use std::fs;
use std::net::TcpListener;

use serde_json::Value;

use crate::support::{Home, Serving, leasehold, run};

/// Returns the findings.
fn findings(words: &[&str]) -> Vec<Value> {
    let (code, told, complaint) = run(leasehold(&[&["doctor", "--json"], words].concat()));
    assert_eq!(complaint, "");
    let told: Value = serde_json::from_str(&told).unwrap();
    let found = told["findings"].as_array().unwrap().clone();
    // The exit code reports if a fault prevents serving.
    let is_bad = found.iter().any(|finding| finding["verdict"] == "bad");
    assert_eq!(code, i32::from(is_bad), "{found:?}");
    found
}

fn about<'a>(findings: &'a [Value], about: &str) -> &'a Value {
    findings.iter().find(|finding| finding["about"] == about).unwrap()
}

#[test]
fn directory_is_checked_without_changes() {
    let home = Home::new();
    let (data, state) = (home.path("data"), home.path("state"));
    let before = fs::read_dir(home.path("")).unwrap().count();
    let found = findings(&[&data, "--state", &state]);
    assert_eq!(about(&found, &data)["verdict"], "good", "{found:?}");
    for what in ["portmapper", "powers", "descriptors", "clock"] {
        assert!(about(&found, what)["text"].is_string(), "{what}");
    }
    assert_eq!(fs::read_dir(home.path("")).unwrap().count(), before);
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    let (code, told, _) = run(leasehold(&["doctor", &data, "--state", &state]));
    assert!(code == 0 && told.contains(&format!("good     {data}: can be served\n")), "{told}");
}

#[test]
fn port_in_use_is_reported_unless_our_server_has_it() {
    let home = Home::new();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap();
    let (data, state) = (home.path("data"), home.path("state"));
    let file = home.path("leasehold.toml");
    let text = format!(
        "[server]\nlisten = ['{address}']\nstate = '{state}'\n[[export]]\ndirectory = '{data}'\n"
    );
    fs::write(&file, text).unwrap();
    let found = findings(&["--config", &file]);
    let port = about(&found, &format!("port {address}"));
    assert_eq!(port["verdict"], "bad");
    assert!(port["text"].as_str().unwrap().contains("is taken by another program"), "{port}");
    let (_serving, _) = Serving::with_json(&home, &[]);
    let found = findings(&["--config", &file]);
    assert_eq!(about(&found, "server")["verdict"], "good");
    assert!(!found.iter().any(|one| one["about"].as_str().unwrap().starts_with("port ")));
}
