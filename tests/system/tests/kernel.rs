//! The Linux kernel's client, in each version: each test boots a kernel that mounts its own server
//! and runs one case of `cases/` there.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use leasehold_base::random::Random;
use leasehold_system_tests::posix::{OF_THE_KERNEL, failing_by_the_kernel};
use leasehold_system_tests::{Cluster, Group, Guest, Link, Server, Version, output};

/// Longer than any case takes; the limit ends a test with a hanging guest.
const LIMIT: Duration = Duration::from_mins(10);

/// The option that turns all versions on.
const ALL_VERSIONS: [&str; 2] = ["--versions", "2,3,4.1,4.2"];

/// Declares one test for each case and version.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        mod v2 { $(#[test] fn $case() { super::case::$case(super::Version::V2); })* }
        mod v3 { $(#[test] fn $case() { super::case::$case(super::Version::V3); })* }
        mod v4_1 { $(#[test] fn $case() { super::case::$case(super::Version::V41); })* }
        mod v4_2 { $(#[test] fn $case() { super::case::$case(super::Version::V42); })* }
        mod case {
            $(pub(super) fn $case(version: super::Version) {
                let case = include_str!(concat!("../cases/", stringify!($case), ".sh"));
                super::run(version, case);
            })*
        }
    };
}

cases!(
    append, archive, attributes, compile, content, git, handover, large, listing, names, outages,
    restart, space, special, unlinked, users,
);

/// Restarts under a server of an ordinary user, who finds the objects of handles by a search.
#[test]
fn an_ordinary_user_finds_all_handles_after_restarts() {
    let case = include_str!("../cases/outages.sh");
    run_over(Server::start_by_ordinary_user(), Version::V3, case);
}

/// An open file and a lock of version 4.2 survive a kill of the server.
#[test]
fn opens_and_locks_survive_a_kill() {
    let server = Server::start_with(&["--versions", "3,4.2"]);
    run_over(server, Version::V42, include_str!("../cases/reclaim.sh"));
}

/// Runs a case over a new server.
fn run(version: Version, case: &str) {
    let options: &[&str] = if version.has_sessions() { &ALL_VERSIONS } else { &[] };
    run_over(Server::start_with(options), version, case);
}

fn run_over(mut server: Server, version: Version, case: &str) {
    let link = Arc::new(Link::new());
    let guest = Guest::boot(&link, &server.mount(version), case, LIMIT);
    let ended = guest.wait(|request| match request {
        "outages end" => outages(&mut server, "end/appended", Server::restart_in_peace),
        "outages kill" => outages(&mut server, "kill/appended", Server::restart),
        "hand over" => hand_over(&mut server),
        "restart" => server.restart(),
        other => panic!("no such request: {other}"),
    });
    ended.expect_success();
    check_on_disk(server.folder());
    show_measured(server.folder());
}

/// Prints the measurements of a case.
#[allow(clippy::print_stdout, reason = "figures are for whoever looks at the test")]
fn show_measured(folder: &Path) {
    if let Ok(text) = fs::read_to_string(folder.join("measured")) {
        print!("{text}");
    }
}

fn kill_at_random(cluster: &mut Cluster) {
    const KILLS: usize = 12;
    const LONG: Duration = Duration::from_secs(3);
    let growing = cluster.names().join("appended");
    let mut random = Random::from_seed(u64::from(std::process::id()));
    for kill in 0..KILLS {
        wait_until_grown(&growing, 40 + random.below(200));
        let iod = usize::try_from(random.below(3)).expect("it is small");
        cluster.kill_iod(iod);
        if kill == KILLS / 2 {
            sleep(LONG);
        }
        cluster.start_iod(iod);
    }
}

/// I/O daemons of a metaserver are killed at random under load, one of them for longer than a call
/// waits. Then all are killed at once, and uncommitted data is lost when they return: the client
/// must rewrite it.
#[test]
fn killed_iods_lose_nothing() {
    let mut cluster = Cluster::start(3, &["--stripe-unit", "64"]);
    let (link, mount) = (Arc::new(Link::new()), cluster.mount(Version::V3));
    let case = concat!(include_str!("../cases/iods.sh"), include_str!("../cases/rewritten.sh"));
    let guest = Guest::boot(&link, &mount, case, LIMIT);
    let ended = guest.wait(|request| match request {
        "iods" => kill_at_random(&mut cluster),
        "lose" => lose(&mut cluster, "pending"),
        other => panic!("no such request: {other}"),
    });
    ended.expect_success();
}

/// Kills all three I/O daemons, and replaces a file's data by zeros before they restart.
fn lose(cluster: &mut Cluster, name: &str) {
    (0..3).for_each(|iod| cluster.kill_iod(iod));
    for object in cluster.objects(name) {
        let held = fs::read(&object).expect("an iod has it");
        assert!(held.iter().any(|byte| *byte != 0), "there is something to lose");
        fs::write(&object, vec![0; held.len()]).expect("it is ours");
    }
    (0..3).for_each(|iod| cluster.start_iod(iod));
}

/// With two copies of each stripe an I/O daemon may be down for longer than a call waits, each in
/// turn, after its missed changes were repaired: the programs of the guest see no error.
#[test]
fn with_two_copies_dead_iods_cause_no_errors() {
    const AWAY: Duration = Duration::from_secs(4);
    let mut cluster = Cluster::start(3, &["--stripe-unit", "64", "--copies", "2"]);
    let (link, mount) = (Arc::new(Link::new()), cluster.mount(Version::V3));
    let guest = Guest::boot(&link, &mount, include_str!("../cases/iods.sh"), LIMIT);
    let growing = cluster.names().join("appended");
    let ended = guest.wait(|request| {
        assert_eq!(request, "iods");
        for iod in [1, 0, 2] {
            wait_until_grown(&growing, 100);
            cluster.kill_iod(iod);
            sleep(AWAY);
            wait_until_grown(&growing, 100);
            cluster.start_iod(iod);
            cluster.wait_until_settled();
        }
        // No data depends on this one any more.
        cluster.kill_iod(1);
        wait_until_grown(&growing, 200);
    });
    ended.expect_success();
}

/// I/O daemons are added, drained and replaced under load, and at each change another one is
/// killed.
#[test]
fn iods_come_and_go_under_the_load() {
    const AWAY: Duration = Duration::from_secs(3);
    let mut cluster = Cluster::start(2, &["--stripe-unit", "64", "--copies", "2", "--rebalance"]);
    let (link, mount) = (Arc::new(Link::new()), cluster.mount(Version::V3));
    let guest = Guest::boot(&link, &mount, include_str!("../cases/iods.sh"), LIMIT);
    let growing = cluster.names().join("appended");
    let ended = guest.wait(|request| {
        assert_eq!(request, "iods");
        let mut change = |more: &[&str], lost: &[usize], dies: usize| {
            wait_until_grown(&growing, 100);
            if !lost.is_empty() {
                cluster.kill_iod(lost[0]);
            }
            cluster.add_iod();
            cluster.restart_meta(more, lost);
            wait_until_grown(&growing, 20);
            cluster.kill_iod(dies);
            sleep(AWAY);
            cluster.start_iod(dies);
            cluster.wait_until_settled();
        };
        // Files spread to a third one.
        change(&[], &[], 0);
        // The first is drained, with a fourth in its place.
        change(&["--drain", "0"], &[], 1);
        // The drained one is declared lost, without a loss of data.
        change(&["--lost", "0"], &[0], 2);
    });
    ended.expect_success();
}

/// A client that mounts two metaservers of one file system: changes through one are visible through
/// the other, within the windows, and immediately if all are strict.
#[test]
fn changes_at_one_metaserver_are_visible_at_the_other() {
    let lazy = Group::start(2, &["--lazy-window", "1"]);
    let strict = Group::start(2, &["--strict"]);
    let ports = [&lazy, &strict].map(|group| format!("'{} {}'", group.port(0), group.port(1)));
    let [of_lazy, of_strict] = ports;
    let case = include_str!("../cases/metaservers.sh");
    let case = format!("lazy={of_lazy}\nstrict={of_strict}\n{case}");
    let guest = Guest::boot(&Arc::new(Link::new()), &lazy.mount(0, Version::V3), &case, LIMIT);
    let ended = guest.wait(|request| panic!("no such request: {request}"));
    ended.expect_success();
}

#[test]
fn killed_lazy_metaservers_lose_nothing() {
    killed_metaservers_lose_nothing(&["--lazy-window", "1"]);
}

#[test]
fn killed_strict_metaservers_lose_nothing() {
    killed_metaservers_lose_nothing(&["--strict"]);
}

/// The others of three metaservers are killed during the load at one, including the home of the
/// root, and restarted, sometimes after longer than a call waits.
fn killed_metaservers_lose_nothing(options: &[&str]) {
    const LONG: Duration = Duration::from_secs(3);
    let mut group = Group::start(3, options);
    let case = include_str!("../cases/others.sh");
    let case = format!("others='{} {}'\n{case}", group.port(0), group.port(2));
    let guest = Guest::boot(&Arc::new(Link::new()), &group.mount(1, Version::V3), &case, LIMIT);
    let ended = guest.wait(|request| {
        assert_eq!(request, "kills");
        for (kill, other) in [0, 2, 0, 2].into_iter().enumerate() {
            wait_until_more(&group);
            group.kill(other);
            if kill % 3 == 0 {
                sleep(LONG);
            }
            group.start_again(other);
        }
        wait_until_more(&group);
    });
    ended.expect_success();
}

/// The expectations that foreign programs have of a file system, at a metaserver.
#[test]
fn a_metaserver_meets_posix_expectations() {
    let cluster = Cluster::start(3, &["--stripe-unit", "4", "--stripe-inline", "1"]);
    let (fails, log) = failing_by_the_kernel(&cluster.mount(Version::V3), LIMIT);
    assert_eq!(fails, [OF_THE_KERNEL], "{log}");
}

/// Waits until a file has grown by this number of bytes.
fn wait_until_grown(file: &Path, bytes: u64) {
    const TIMEOUT: Duration = Duration::from_mins(2);
    let size = || fs::metadata(file).map_or(0, |found| found.len());
    let (enough, until) = (size() + bytes, Instant::now() + TIMEOUT);
    while size() < enough {
        assert!(Instant::now() < until, "the guest does not go on");
        sleep(Duration::from_millis(5));
    }
}

/// Waits until a new file exists, and then another.
fn wait_until_more(group: &Group) {
    const TIMEOUT: Duration = Duration::from_mins(2);
    let until = Instant::now() + TIMEOUT;
    for _ in 0..2 {
        let before = group.files();
        while group.files() <= before {
            assert!(Instant::now() < until, "the guest does not go on");
            sleep(Duration::from_millis(5));
        }
    }
}

/// Ends the server and restarts it repeatedly during the load, after a file has grown.
fn outages(server: &mut Server, growing: &str, restart: impl Fn(&mut Server)) {
    const OUTAGES: u64 = 3;
    let growing = server.folder().join(growing);
    for outage in 0..OUTAGES {
        wait_until_grown(&growing, 600 + outage * 37);
        restart(server);
    }
}

/// Hands the server over to a new process three times, each time during the load, after the client
/// has been connected for a while: directly after a connect the client itself waits.
fn hand_over(server: &mut Server) {
    const CONNECTED: Duration = Duration::from_millis(3500);
    for _ in 0..3 {
        sleep(CONNECTED);
        server.hand_over();
    }
    sleep(CONNECTED);
}

/// Compares the files on the server's disk with the checksums that the case computed.
fn check_on_disk(folder: &Path) {
    if folder.join("sums").exists() {
        output(Command::new("sha256sum").args(["--quiet", "-c", "sums"]).current_dir(folder));
    }
}
