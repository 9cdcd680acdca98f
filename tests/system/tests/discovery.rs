//! Servers that are announced are found by their names; in a network that the test has to itself.

use std::fs;
use std::process::Command;

use leasehold_system_tests::{Server, built, on_own_network, output};

/// What the program says.
fn said(words: &[&str]) -> String {
    output(Command::new(built()).args(words))
}

#[test]
fn a_server_is_found_by_its_name() {
    on_own_network("a_server_is_found_by_its_name", || {
        output(Command::new("ip").args(["link", "set", "lo", "multicast", "on"]));
        // One that no table of this machine has.
        output(Command::new("hostname").arg("leasehold-box.example"));
        let quiet = Server::start();
        let server = Server::start_with(&["--announce"]);
        fs::write(server.folder().join("file"), "text").expect("there is room");
        let found = (0..20).find_map(|_| {
            let found = said(&["find", "--json", "--wait", "1"]);
            (!found.is_empty()).then_some(found)
        });
        let found = found.expect("it is announced");
        let one: serde_json::Value = serde_json::from_str(&found).expect("one line");
        assert_eq!(one["server"], "leasehold-box");
        assert_eq!(one["path"], server.export());
        assert_eq!(one["addresses"][0], format!("127.0.0.1:{}", server.port()));
        drop(quiet);
        let url = format!("nfs://leasehold-box{}/file", server.export());
        assert_eq!(said(&["cat", &url]), "text");
        server.end();
        assert_eq!(said(&["find", "--json", "--wait", "1"]), "", "it says goodbye");
    });
}

#[test]
fn what_is_announced_follows_a_reload() {
    on_own_network("what_is_announced_follows_a_reload", || {
        output(Command::new("ip").args(["link", "set", "lo", "multicast", "on"]));
        let exports = |names: &[&str]| {
            let one = |name| format!("[[export]]\nname = '/{name}'\ndirectory = 'FOLDER/{name}'\n");
            let exports: String = names.iter().map(one).collect();
            format!("[server]\nannounce = true\n{exports}")
        };
        let paths = || {
            let found = said(&["find", "--json", "--wait", "1"]);
            let path = |line| {
                serde_json::from_str::<serde_json::Value>(line).expect("JSON")["path"].clone()
            };
            let mut paths: Vec<_> = found.lines().map(path).collect();
            paths.sort_by_key(ToString::to_string);
            paths
        };
        let followed = |wanted: &[&str]| (0..20).any(|_| paths() == wanted);
        let make = "mkdir one two three";
        let server = Server::start_configured(make, &exports(&["one", "two"]), "", "");
        assert!(followed(&["/one", "/two"]), "{:?}", paths());
        server.reload(&exports(&["two", "three"]));
        assert!(followed(&["/three", "/two"]), "{:?}", paths());
    });
}
