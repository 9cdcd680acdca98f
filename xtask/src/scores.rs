//! Scores: what servers that others made, and ours, come to under `leasehold conform`.

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
use crate::setup::{self, SERVERS, ensure};

/// A server, as the script that starts it knows it.
struct Peer {
    name: &'static str,
    title: &'static str,
    /// What says its version, and the words of what it writes that hold it.
    version: &'static [&'static str],
}

/// Go's own way to a program; its version is fixed here.
const GO_NFS: &str = "github.com/willscott/go-nfs/example/osnfs@v0.0.4";

const PEERS: &[Peer] = &[
    Peer { name: "ours", title: "leasehold, as root", version: &["git", "describe", "--always"] },
    Peer {
        name: "ours-as-user",
        title: "leasehold, as an ordinary user",
        version: &["git", "describe", "--always"],
    },
    Peer {
        name: "ganesha",
        title: "nfs-ganesha (Debian), VFS back end",
        version: &["dpkg-query", "--show", "--showformat=${Version}", "nfs-ganesha"],
    },
    Peer { name: "go-nfs", title: "go-nfs, its example osnfs", version: &["echo", "0.0.4"] },
    Peer {
        name: "rclone",
        title: "rclone serve nfs, over a local directory",
        version: &["rclone", "--version"],
    },
];

const LIMIT: Duration = Duration::from_mins(8);

/// The groups of cases in their order, and how each ended in one of them.
type Groups = Vec<(String, [usize; 3])>;

/// What a run came to.
struct Score {
    groups: Groups,
    failed: Vec<String>,
}

/// Puts every server to the tester and writes `docs/conform.md`.
pub(crate) fn run(repository: &Repository) -> Tally {
    let build = ["cargo", "build", "--release", "--quiet", "--package", "leasehold"];
    if !ensure(SERVERS) || !program::run(repository.root(), &build, LIMIT).succeeded {
        return Tally::of(false);
    }
    let gobin = format!("GOBIN={}", setup::tools_folder().join("bin").display());
    let go = ["env", &gobin, "go", "install", GO_NFS];
    if !program::run(repository.root(), &go, LIMIT).succeeded {
        println!("without Go there is no go-nfs");
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

/// Puts a server to the tester.
fn score(repository: &Repository, peer: &Peer) -> Result<Score, String> {
    let folder = env::temp_dir().join(format!("leasehold-scores-{}", std::process::id()));
    fs::create_dir(&folder).map_err(|error| error.to_string())?;
    let text = |path: &Path| path.display().to_string();
    let script = text(&repository.root().join("tests/system/peers/peer.sh"));
    let leasehold = text(&repository.root().join("target/release/leasehold"));
    let path = env::var("PATH").unwrap_or_default();
    let path = format!("PATH={path}:/usr/sbin:{}", text(&setup::tools_folder().join("bin")));
    let spaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let place = text(&folder);
    let command = ["bash", &script, peer.name, &place, &leasehold, "--json", "--patience", "3"];
    let words = [&["env", &path, "unshare"], &spaces[..], &command].concat();
    let outcome = program::run(repository.root(), &words, LIMIT);
    // Nothing in it is needed any more.
    let _ = fs::remove_dir_all(&folder);
    let lines = outcome.output.lines().filter_map(|line| serde_json::from_str(line).ok());
    let score = count(lines.filter(|line: &Value| line["case"].is_string()));
    if score.groups.is_empty() {
        return Err(format!("{} was not tested", peer.title));
    }
    Ok(score)
}

fn count(lines: impl Iterator<Item = Value>) -> Score {
    let mut score = Score { groups: Vec::new(), failed: Vec::new() };
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
         Written by `cargo xtask conform-scores` on {} at commit {}. Each server ran as root over a \
         directory of this machine, with `--back-dir` and `--restart-command`, in namespaces of its \
         own (`tests/system/peers/peer.sh`). A case that a server need not pass, as what it is about \
         is optional and said to be missing, is skipped.\n\n\
         | server | version | pass | fail | skip |\n| --- | --- | --- | --- | --- |\n",
        date.trim(),
        commit.trim(),
    );
    let mut add = |line: String| text.push_str(&line);
    for (peer, score) in scores {
        let [pass, fail, skip] = totals(&score.groups);
        let version = version(peer, &output)?;
        add(format!("| {} | {version} | {pass} | {fail} | {skip} |\n", peer.title));
    }
    add("\nPass / fail / skip, by group:\n\n| group |".to_owned());
    scores.iter().for_each(|(peer, _)| add(format!(" {} |", peer.name)));
    add(format!("\n|{}\n", " --- |".repeat(scores.len() + 1)));
    // All are put to the same groups, and the first is put to all.
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
        add(format!("\n## What {} does otherwise\n\n", peer.title));
        for (reason, cases) in reasons(repository, peer, &score.failed) {
            add(format!("- {reason}: {}\n", cases.join(", ")));
        }
    }
    write!(text, "\n{NOT_HERE}").map_err(|error| error.to_string())?;
    Ok(text)
}

const NOT_HERE: &str = "\
## Who is not here

nfsserve, nfs3_server and nfs-mamont are libraries that come without a program, unfs3 is in no \
registry, and ZeroFS keeps no directory that could be looked at.
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
    let (name, rest) = peer.version.split_first().expect("a command has a name");
    let own = setup::tools_folder().join("bin").join(name);
    let name = if own.is_file() { own.display().to_string() } else { (*name).to_owned() };
    let said = output(&[&[name.as_str()], rest].concat())?;
    let first = said.lines().next().unwrap_or_default();
    Ok(first.rsplit(' ').next().unwrap_or_default().to_owned())
}

/// Why cases fail, as the list of known failures has it, and which.
fn reasons(repository: &Repository, peer: &Peer, failed: &[String]) -> Vec<(String, Vec<String>)> {
    let path = format!("tests/system/peers/{}.txt", peer.name);
    let list = repository.text(&path).unwrap_or_default();
    let known: BTreeMap<&str, &str> =
        list.lines().filter_map(|line| line.trim_start_matches('~').split_once(' ')).collect();
    let mut reasons = BTreeMap::<String, Vec<String>>::new();
    for case in failed {
        let reason = known.get(case.as_str()).copied().unwrap_or("not on the list yet");
        reasons.entry(reason.to_owned()).or_default().push(format!("`{case}`"));
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
    reasons
}
