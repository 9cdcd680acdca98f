//! Scores: the results of foreign servers, and of ours, under `leasehold conform`.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::check::Tally;
use crate::program;
use crate::repository::Repository;
use crate::setup::{self, GUEST, MORE_SERVERS, SERVERS, ensure};

/// A server, with its name in the start script.
struct Peer {
    name: &'static str,
    title: &'static str,
    /// The command that prints its version, as the last word of the first line.
    version: &'static [&'static str],
    /// True for a kernel's server, which runs in a guest with that kernel.
    guest: bool,
}

const fn peer(name: &'static str, title: &'static str, version: &'static [&'static str]) -> Peer {
    Peer { name, title, version, guest: false }
}

const PEERS: &[Peer] = &[
    peer("ours", "Leasehold, as root", &["git", "describe", "--always"]),
    peer("ours-as-user", "Leasehold, as an ordinary user", &["git", "describe", "--always"]),
    Peer {
        guest: true,
        // The guest's kernel reports its version itself.
        ..peer("kernel", "Linux kernel server, in a guest", &["echo", ""])
    },
    peer(
        "ganesha",
        "nfs-ganesha of Debian, with its VFS back end",
        &["dpkg-query", "--show", "--showformat=${Version}", "nfs-ganesha"],
    ),
    peer("zerofs", "ZeroFS on a local directory", &["zerofs", "--version"]),
    peer("go-nfs", "go-nfs, example program osnfs", &["echo", "0.0.4"]),
    peer("nfs3_server", "nfs3_server, program cargo-nfs3-server", &["echo", "0.2.3"]),
    peer("rclone", "rclone serve nfs on a local directory", &["rclone", "--version"]),
];

const LIMIT: Duration = Duration::from_mins(8);

/// The groups of cases in their order, with the counts of their results.
type Groups = Vec<(String, [usize; 3])>;

/// The result of a run.
struct Score {
    groups: Groups,
    failed: Vec<String>,
    /// The version, if the run itself reports it.
    version: Option<String>,
}

/// Runs the tester against every server and writes `docs/conform.md`.
pub(crate) fn run(repository: &Repository) -> Tally {
    let build = ["cargo", "build", "--release", "--quiet", "--package", "leasehold"];
    let tools = [SERVERS, MORE_SERVERS, GUEST].into_iter().all(ensure);
    if !tools || !program::run(repository.root(), &build, LIMIT).succeeded {
        return Tally::of(false);
    }
    let scores: Result<Vec<(&Peer, Score)>, String> =
        PEERS.iter().map(|peer| Ok((peer, score(repository, peer)?))).collect();
    let written = scores.and_then(|scores| {
        let text = document(repository, &scores)?;
        fs::write(repository.root().join("docs/conform.md"), text).map_err(|e| e.to_string())
    });
    if let Err(error) = &written {
        println!("{error}");
    }
    Tally::of(written.is_ok())
}

/// Runs the tester against a server.
fn score(repository: &Repository, peer: &Peer) -> Result<Score, String> {
    let leasehold = repository.target().join("release/leasehold").display().to_string();
    let output = if peer.guest {
        in_guest(repository, &leasehold)
    } else {
        in_namespaces(repository, peer, &leasehold)?
    };
    let lines = output.lines().filter_map(|line| serde_json::from_str(line).ok());
    let mut score = count(lines.filter(|line: &Value| line["case"].is_string()));
    let kernel = output.lines().find_map(|line| line.trim().strip_prefix("kernel "));
    score.version = kernel.map(str::to_owned);
    if score.groups.is_empty() {
        return Err(format!("{} was not tested", peer.title));
    }
    Ok(score)
}

/// Runs the kernel's server and the tester in a guest.
fn in_guest(repository: &Repository, leasehold: &str) -> String {
    let program = ["cargo", "run", "--quiet", "--package", "leasehold-system-tests"];
    let words = ["--bin", "leasehold-kernel-server", "--", leasehold, "--json", "--patience", "3"];
    program::run(repository.root(), &[&program[..], &words].concat(), LIMIT).output
}

/// Runs a server and the tester in separate namespaces.
fn in_namespaces(repository: &Repository, peer: &Peer, leasehold: &str) -> Result<String, String> {
    let folder = env::temp_dir().join(format!("leasehold-scores-{}", std::process::id()));
    fs::create_dir(&folder).map_err(|error| error.to_string())?;
    let text = |path: &Path| path.display().to_string();
    let script = text(&repository.root().join("tests/system/peers/peer.sh"));
    let path = env::var("PATH").unwrap_or_default();
    let path = format!("PATH={}:{path}:/usr/sbin", setup::tools_path());
    let spaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let place = text(&folder);
    let command = ["bash", &script, peer.name, &place, leasehold, "--json", "--patience", "3"];
    let words = [&["env", &path, "unshare"], &spaces[..], &command].concat();
    let outcome = program::run(repository.root(), &words, LIMIT);
    // The folder is not needed any more.
    let _ = fs::remove_dir_all(&folder);
    Ok(outcome.output)
}

fn count(lines: impl Iterator<Item = Value>) -> Score {
    let mut score = Score { groups: Vec::new(), failed: Vec::new(), version: None };
    for line in lines {
        let case = line["case"].as_str().unwrap_or_default().to_owned();
        let group = case.split('/').next().unwrap_or_default();
        let known = score.groups.iter().position(|(name, _)| name == group);
        let at = known.unwrap_or_else(|| {
            score.groups.push((group.to_owned(), [0; 3]));
            score.groups.len() - 1
        });
        let end = match line["result"].as_str() {
            Some("pass") => 0,
            Some("fail") => 1,
            _ => 2,
        };
        score.groups[at].1[end] += 1;
        if end == 1 {
            score.failed.push(case);
        }
    }
    score
}

fn document(repository: &Repository, scores: &[(&Peer, Score)]) -> Result<String, String> {
    let output = |words: &[&str]| program::output(repository.root(), words);
    let (commit, date) =
        (output(&["git", "describe", "--always"])?, output(&["date", "-u", "+%F"])?);
    let mut text = format!(
        "# Servers under `leasehold conform`\n\n\
         Written by `cargo xtask conform-scores` on {} at commit {}.\n\n\
         - Each server ran as root, unless its row states another user, and served a directory of \
         this machine in separate namespaces (`tests/system/peers/peer.sh`).\n\
         - The kernel server ran in the user-mode Linux of Debian and served ext4 \
         (`tests/system/guest/kernel-server.sh`).\n\
         - The tester had the options `--back-dir` and `--restart-command`. ZeroFS was tested \
         without `--back-dir`, because it stores blocks in place of files.\n\
         - A case is skipped if it tests an optional feature that the server reports as missing.\n\n\
         | server | version | pass | fail | skip |\n| --- | --- | --- | --- | --- |\n",
        date.trim(),
        commit.trim(),
    );
    let mut add = |line: String| text.push_str(&line);
    for (peer, score) in scores {
        let [pass, fail, skip] = totals(&score.groups);
        let version = score.version.clone().map_or_else(|| version(peer, &output), Ok)?;
        add(format!("| {} | {version} | {pass} | {fail} | {skip} |\n", peer.title));
    }
    add("\nPass / fail / skip, by group:\n\n| group |".to_owned());
    scores.iter().for_each(|(peer, _)| add(format!(" {} |", peer.name)));
    add(format!("\n|{}\n", " --- |".repeat(scores.len() + 1)));
    // All servers run the same groups, and the first runs all groups.
    for (group, _) in scores.first().map_or(&Vec::new(), |(_, score)| &score.groups) {
        add(format!("| {group} |"));
        for (_, score) in scores {
            let counts = score.groups.iter().find(|(name, _)| name == group);
            let [pass, fail, skip] = counts.map_or([0; 3], |(_, counts)| *counts);
            add(format!(" {pass} / {fail} / {skip} |"));
        }
        add("\n".to_owned());
    }
    for (peer, score) in scores.iter().filter(|(_, score)| !score.failed.is_empty()) {
        add(format!("\n## Deviations of {}\n\n", peer.title));
        for (reason, cases) in reasons(repository, peer, &score.failed) {
            add(format!("- {reason}: {}\n", cases.join(", ")));
        }
    }
    write!(text, "\n{MISTAKES}\n{NOT_HERE}").map_err(|error| error.to_string())?;
    Ok(text)
}

/// The known mistakes of servers, and the cases for them.
const MISTAKES: &str = include_str!("scores/mistakes.md");

const NOT_HERE: &str = "\
## Servers that are missing here

nfsserve and nfs-mamont are libraries without a program (nfs3_server and ZeroFS are derived from \
nfsserve). unfs3 is not in this release of Debian, nor in any other registry. JuiceFS and \
SeaweedFS are file systems that other servers export from a FUSE mount.
";

fn totals(groups: &Groups) -> [usize; 3] {
    groups.iter().fold([0; 3], |[pass, fail, skip], (_, counts)| {
        [pass + counts[0], fail + counts[1], skip + counts[2]]
    })
}

fn version(
    peer: &Peer,
    output: &impl Fn(&[&str]) -> Result<String, String>,
) -> Result<String, String> {
    let mut folders = setup::tools_path();
    folders.push(':');
    folders.push_str(&env::var("PATH").unwrap_or_default());
    let path = format!("PATH={folders}");
    let said = output(&[&["env", &path], peer.version].concat())?;
    let first = said.lines().next().unwrap_or_default();
    Ok(first.rsplit(' ').next().unwrap_or_default().to_owned())
}

/// Returns the reasons of failed cases from the list of known failures, with the cases.
fn reasons(repository: &Repository, peer: &Peer, failed: &[String]) -> Vec<(String, Vec<String>)> {
    let path = format!("tests/system/peers/{}.txt", peer.name);
    let list = repository.text(&path).unwrap_or_default();
    let known: BTreeMap<&str, &str> =
        list.lines().filter_map(|line| line.trim_start_matches('~').split_once(' ')).collect();
    let mut reasons = BTreeMap::<String, Vec<String>>::new();
    for case in failed {
        let reason =
            known.get(case.as_str()).copied().unwrap_or("the deviation is not on the list yet");
        reasons.entry(reason.to_owned()).or_default().push(format!("`{case}`"));
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
    reasons
}
