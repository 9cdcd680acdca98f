//! Exports from a configuration file, each with its own rules, under the Linux kernel's client:
//! users, permissions, and the effect of a reload with other rules.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use leasehold_system_tests::{Guest, Link, Server, Version};

/// Longer than any case takes; the limit ends a test with a hanging guest.
const LIMIT: Duration = Duration::from_mins(5);

/// The exported folders.
const FOLDERS: &str = r"
    mkdir -m 1777 plain squashed mapped listed
    mkdir -m 777 public read-only public-to-read far
    for folder in plain squashed; do
        printf 'for root' >$folder/secret
        chmod 600 $folder/secret
    done
    for group in 2116 2120; do
        for folder in plain listed; do
            printf text >$folder/of-$group
            chown 0:$group $folder/of-$group
            chmod 040 $folder/of-$group
        done
    done
    for folder in read-only public-to-read; do
        printf text >$folder/file
        chmod 666 $folder/file
    done
";

/// The addresses of guests.
const GUESTS: &str = "from = ['127.79.0.0/16']";

const USERS: &str = "root:x:0:0::/:/bin/sh\nmember:x:3100:3100::/:/bin/sh\n\
                     other:x:3101:3101::/:/bin/sh\nguest:x:8100:8100::/:/bin/sh\n";

/// Returns an export of a folder with its rule for guests.
fn export(folder: &str, of_export: &str, rule: &str) -> String {
    format!(
        "[[export]]\ndirectory = 'FOLDER/{folder}'\n{of_export}\n\
         [[export.client]]\n{GUESTS}\n{rule}\n"
    )
}

fn rules() -> String {
    let mapped = "uid-map = [{ from = '3000-3999', to = '8000-8999' }, { from = 4000, to = 'guest' }]\n\
                  gid-map = [{ from = '3000-3999', to = 'laboratory' }]";
    let far = "[[export]]\ndirectory = 'FOLDER/far'\n[[export.client]]\nfrom = ['192.0.2.0/24']\n";
    [
        &*export("plain", "", "squash = 'none'"),
        &*export("squashed", "", ""),
        &*export("public", "", "squash = 'all'\nanonuid = 7001\nanongid = 7002"),
        &*export("mapped", "", mapped),
        &*export("listed", "", "groups = 'server'"),
        &*export("read-only", "read-only = true", "squash = 'none'"),
        &*export("public-to-read", "", "read-only = true"),
        far,
    ]
    .concat()
}

/// Returns a group with the name in the map, and twenty groups with one member.
fn groups() -> String {
    let mut groups = String::from("root:x:0:\nlaboratory:x:9000:\n");
    for group in 2101..=2120 {
        writeln!(groups, "g{group}:x:{group}:member").expect("a string takes all");
    }
    groups
}

fn each_is_served_by_its_rules(version: Version) {
    let server = Server::start_configured(FOLDERS, &rules(), USERS, &groups());
    let case = include_str!("../cases/rules.sh");
    let guest = Guest::boot(&Arc::new(Link::new()), &server.mount(version), case, LIMIT);
    guest.wait(|request| panic!("no such request: {request}")).expect_success();
    let kept = fs::read_to_string(server.folder().join("read-only/file"));
    assert_eq!(kept.expect("it is there"), "text");
}

fn a_reload_is_not_noticed(version: Version) {
    let plain = export("plain", "", "squash = 'none'");
    let server = Server::start_configured(FOLDERS, &plain, USERS, &groups());
    let case = include_str!("../cases/reload.sh");
    let guest = Guest::boot(&Arc::new(Link::new()), &server.mount(version), case, LIMIT);
    let more = format!("[limits]\ntransfer-size = '64 KiB'\n{plain}{}", export("far", "", ""));
    let told = |text: &str, expected: &str| {
        let told = server.reload(text);
        assert!(told.contains(expected), "{told}");
    };
    guest
        .wait(|request| match request {
            "another export" => told(&more, "changed: export /far: new, "),
            "as before" => told(&plain, "changed: "),
            "read only" => {
                let rule = "squash = 'none'\nread-only = true";
                told(&export("plain", "", rule), " may read and change, ");
            }
            "withdraw" => {
                told(&plain.replace("127.79", "10.79"), "changed: export /plain, rule 1: ");
            }
            other => panic!("no such request: {other}"),
        })
        .expect_success();
}

mod v2 {
    use super::Version;

    #[test]
    fn each_is_served_by_its_rules() {
        super::each_is_served_by_its_rules(Version::V2);
    }

    #[test]
    fn a_reload_is_not_noticed() {
        super::a_reload_is_not_noticed(Version::V2);
    }
}

mod v3 {
    use super::Version;

    #[test]
    fn each_is_served_by_its_rules() {
        super::each_is_served_by_its_rules(Version::V3);
    }

    #[test]
    fn a_reload_is_not_noticed() {
        super::a_reload_is_not_noticed(Version::V3);
    }
}
