//! The evaluation of the facts: a pure function.

use leasehold_shell::clock::Discipline;
use serde::Serialize;

use crate::facts::{Facts, Firewall, Place, Port, Powers, Telling};
use crate::firewall::{Passage, passage};
use crate::mountinfo::Mount;

/// The fault of a served directory that was replaced: its path leads to another directory now.
pub const REPLACED: &str = "was removed or replaced after the server opened it, and clients get \
                            ESTALE: restart the server to serve the new directory";

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The state is correct.
    Good,
    /// A fact that is no problem.
    Note,
    /// A possible problem.
    Warning,
    /// A fault that prevents serving.
    Bad,
    /// The state cannot be determined.
    Unknown,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The severity.
    pub verdict: Verdict,
    /// The subject of the check.
    pub about: String,
    /// The state of the subject.
    pub text: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<&'static str>,
}

fn finding(verdict: Verdict, about: &str, text: impl Into<String>) -> Finding {
    Finding { verdict, about: about.to_owned(), text: text.into(), advice: None }
}

impl Finding {
    fn with(self, advice: &'static str) -> Self {
        Self { advice: Some(advice), ..self }
    }
}

/// Returns all findings.
#[must_use]
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let mut all = Vec::new();
    if facts.is_running {
        let text = "a server runs with this state directory and replies";
        all.push(finding(Verdict::Good, "server", text));
    } else {
        all.extend(facts.ports.iter().map(port));
    }
    all.extend(
        facts
            .replaced
            .iter()
            .map(|path| finding(Verdict::Bad, &path.display().to_string(), REPLACED)),
    );
    all.extend(facts.lacks_v4.map(|text| finding(Verdict::Note, "NFS version 4", text)));
    all.push(portmapper(facts));
    if let Some(finding) = firewall(facts) {
        all.push(finding);
    }
    all.push(powers(&facts.powers));
    all.push(descriptors(facts.descriptors));
    all.extend(clock(facts.clock.as_ref()));
    all.extend(facts.places.iter().flat_map(place));
    all.extend(facts.mounts.iter().flat_map(mount));
    all
}

fn port(port: &Port) -> Finding {
    let about = format!("port {}", port.address);
    match &port.trouble {
        None if port.with_udp => finding(Verdict::Good, &about, "is free, for TCP and UDP"),
        None => finding(Verdict::Good, &about, "is free, for TCP; the server does not serve UDP"),
        Some(trouble) => finding(Verdict::Bad, &about, trouble),
    }
}

fn portmapper(facts: &Facts) -> Finding {
    let say = |verdict, text: &str| finding(verdict, "portmapper", text);
    match (facts.telling, facts.has_portmapper) {
        (Telling::Ourselves, true) if facts.is_running => {
            say(Verdict::Good, "the server's own portmapper replies")
        }
        (Telling::Ourselves, true) => say(Verdict::Bad, "port 111 is in use, perhaps by rpcbind")
            .with("register the server there: use --register instead of --portmap"),
        (Telling::Ourselves, false) => {
            say(Verdict::Good, "port 111 is free for the server's own portmapper")
        }
        (Telling::Rpcbind, true) => {
            say(Verdict::Good, "rpcbind replies, and the server can register there")
        }
        (Telling::Rpcbind, false) => say(Verdict::Bad, "no rpcbind replies on port 111")
            .with("start rpcbind, or use --portmap instead of --register"),
        (Telling::Nobody, true) => {
            say(Verdict::Note, "one runs without this server: clients must specify the port")
                .with("--register adds the server to it")
        }
        (Telling::Nobody, false) => say(Verdict::Note, "none runs: clients must specify the port")
            .with("--portmap starts one in the server"),
    }
}

/// Returns the finding about the firewall; `None` if the server listens on the loopback only.
fn firewall(facts: &Facts) -> Option<Finding> {
    let port = facts.ports.iter().find(|port| !port.address.ip().is_loopback())?;
    let (see, admit) = match port.with_udp {
        true => (
            "check that TCP and UDP can reach the server's port",
            "accept TCP and UDP on that port, or check that another rule does",
        ),
        false => (
            "check that TCP can reach the server's port",
            "accept TCP on that port, or check that another rule does",
        ),
    };
    let port = port.address.port();
    let say = |verdict, text: String| finding(verdict, "firewall", text);
    Some(match &facts.firewall {
        Firewall::Unknown(why) => say(Verdict::Unknown, why.clone()).with(see),
        Firewall::Rules(program, rules) => match passage(rules, port) {
            Passage::Open => say(Verdict::Good, format!("{program}: no rule drops packets")),
            Passage::Named => say(Verdict::Good, format!("{program}: a rule accepts port {port}")),
            Passage::Unclear => say(
                Verdict::Warning,
                format!("{program}: rules drop packets, and none accepts port {port}"),
            )
            .with(admit),
        },
    })
}

fn powers(powers: &Powers) -> Finding {
    let say = |verdict, text: &str| finding(verdict, "powers", text);
    match powers {
        Powers { acts_as_others: true, opens_handles: true, takes_leases: true } => {
            say(Verdict::Good, "can act as each caller, and can open files by handle")
        }
        Powers { acts_as_others: true, opens_handles: true, takes_leases: false } => say(
            Verdict::Warning,
            "cannot take kernel leases on files of other users: a client with leases sees the \
             change of a local program only at the renewal of its lease, in about 20 seconds",
        )
        .with("add the capability CAP_LEASE"),
        Powers { acts_as_others: true, opens_handles: false, .. } => say(
            Verdict::Warning,
            "can act as each caller, but must search for the files of handles",
        )
        .with("add the capability CAP_DAC_READ_SEARCH"),
        Powers { acts_as_others: false, .. } => {
            say(Verdict::Note, "serves only its own user and root, and acts as that user for both")
                .with("run it as root, or with CAP_SETUID, CAP_SETGID and CAP_DAC_READ_SEARCH")
        }
    }
}

/// The number of descriptors below which doctor warns. With fewer, a server of some thousand
/// clients constantly closes files and connections.
const DESCRIPTORS_FEW: usize = 4096;

fn descriptors(count: usize) -> Finding {
    let text = format!("{count}: half for connections, a quarter for files");
    if count < DESCRIPTORS_FEW {
        return finding(Verdict::Warning, "descriptors", text)
            .with("raise the hard limit (ulimit -Hn)");
    }
    finding(Verdict::Good, "descriptors", text)
}

/// The error of the clock, in seconds, above which doctor warns. A larger error misleads programs,
/// such as make, that compare the times of two machines.
const OFF_S: f64 = 1.0;

/// The frequency correction of the clock above which doctor warns. A quartz clock drifts much less:
/// such a correction indicates a virtual machine whose clock is corrected constantly.
const DRIFT_PPM: f64 = 200.0;

fn clock(kept: Option<&Discipline>) -> Vec<Finding> {
    let Some(kept) = kept else {
        return vec![finding(
            Verdict::Unknown,
            "clock",
            "the kernel does not report its synchronization",
        )];
    };
    let mut all = vec![match kept.is_synchronized {
        true if kept.error_max_s <= OFF_S => finding(
            Verdict::Good,
            "clock",
            format!("synchronized, with an error of at most {:.3} s", kept.error_max_s),
        ),
        true => {
            let text =
                format!("synchronized, but with an error of up to {:.1} s", kept.error_max_s);
            finding(Verdict::Warning, "clock", text).with("configure nearer time servers")
        }
        false => finding(Verdict::Warning, "clock", "not synchronized").with(
            "run chrony or another NTP client: clients compare file times with their own clocks",
        ),
    }];
    if kept.drift_ppm.abs() > DRIFT_PPM {
        let text = format!("it drifts by {:.0} ppm", kept.drift_ppm);
        all.push(
            finding(Verdict::Warning, "clock", text).with("leases require a drift below 1000 ppm"),
        );
    }
    all
}

/// The percentage of free space below which doctor warns.
const ROOM_PERCENT: u64 = 5;

fn place(place: &Place) -> Vec<Finding> {
    let about = place.path.display().to_string();
    let say = |verdict, text: String| finding(verdict, &about, text);
    let mut all = Vec::new();
    match &place.refused {
        Some(why) => all.push(say(Verdict::Bad, format!("cannot be served: {why}"))),
        None => all.push(say(Verdict::Good, "can be served".to_owned())),
    }
    if let Some(mount) = &place.mount {
        all.extend(file_system(mount, place.has_journal).map(|(text, advice)| {
            let verdict = if advice.is_some() { Verdict::Warning } else { Verdict::Good };
            Finding { advice, ..say(verdict, text) }
        }));
        if mount.has("ro") {
            all.push(say(Verdict::Note, "is mounted read-only".to_owned()));
        }
    }
    all.extend(place.begins.iter().map(|one| say(Verdict::Note, one.line(place.crosses))));
    if let Some((bytes, names)) = place.free_percent
        && bytes.min(names) < ROOM_PERCENT
    {
        let text = format!("{bytes}% of its bytes and {names}% of its inodes are free");
        all.push(
            say(Verdict::Warning, text)
                .with("free some space, or clients will receive the error ENOSPC"),
        );
    }
    all
}

/// Describes how safely a file system stores data, and the remedy for a weakness.
fn file_system(
    mount: &Mount,
    has_journal: Option<bool>,
) -> impl Iterator<Item = (String, Option<&'static str>)> {
    let kind = &*mount.kind;
    let mut all = Vec::new();
    match (kind, has_journal) {
        ("ext4", Some(false)) => all.push((
            "ext4 without a journal: a crash may leave changes of names incomplete".to_owned(),
            Some("`tune2fs -O has_journal` on the unmounted device adds one"),
        )),
        ("ext4" | "xfs" | "btrfs" | "zfs" | "f2fs", _) => {
            all.push((format!("{kind}: a sync puts data and names on stable storage"), None));
        }
        ("tmpfs" | "ramfs", _) => all.push((
            format!("{kind}: a crash of the machine loses all data"),
            Some("serve a directory on a disk, unless this is intended"),
        )),
        ("vfat" | "exfat" | "ntfs" | "ntfs3", _) => all.push((
            format!("{kind}: does not store owners, modes and links"),
            Some("serve a directory on ext4, XFS or btrfs"),
        )),
        ("nfs" | "nfs4" | "cifs" | "9p" | "virtiofs", _) => all.push((
            format!("{kind}: belongs to another server, which decides when data is stable"),
            Some("serve the directory from that server"),
        )),
        (other, _) => all.push((
            format!("{other}: unknown file system"),
            Some("check that it supports file handles and syncs names before you rely on it"),
        )),
    }
    let weakens =
        ["nobarrier", "barrier=0", "data=writeback"].into_iter().find(|one| mount.has(one));
    if let Some(option) = weakens {
        let text = format!("is mounted with {option}: a crash may lose or mix synced data");
        all.push((text, Some("mount it without this option")));
    }
    all.into_iter()
}

/// Describes the options of a client's mount that may cause problems.
fn mount(mount: &Mount) -> Vec<Finding> {
    let about = format!("{} from {}", mount.point.display(), mount.source);
    let say = |verdict, text: &str| finding(verdict, &about, text);
    let mut all = Vec::new();
    if mount.has("soft") {
        all.push(
            say(Verdict::Warning, "soft: writes are lost if the server does not reply for long")
                .with("mount it hard, or softerr with a long timeo for data that is only read"),
        );
    }
    if mount.value("proto").is_some_and(|proto| proto.starts_with("udp")) {
        all.push(
            say(
                Verdict::Warning,
                "udp: large packets may be reassembled wrongly on a fast network",
            )
            .with("mount it with proto=tcp"),
        );
    }
    if mount.has("nolock") || mount.value("local_lock").is_some_and(|local| local != "none") {
        all.push(say(Verdict::Note, "locks are local: programs on other machines do not see them"));
    }
    if mount.has("noac") || mount.number("actimeo") == Some(0) {
        all.push(
            say(Verdict::Note, "noac: each access to attributes calls the server, and writes wait")
                .with("remove it: the client checks a file at each open anyway"),
        );
    }
    let longest =
        ["actimeo", "acregmax", "acdirmax"].into_iter().filter_map(|one| mount.number(one));
    if let Some(seconds) = longest.max().filter(|seconds| *seconds > 60) {
        let text = format!("names and attributes may be {seconds} s old");
        all.push(
            say(Verdict::Warning, &text)
                .with("the default of 60 s is the most that many programs tolerate"),
        );
    }
    if let Some(bytes) = mount.number("rsize").filter(|bytes| *bytes < 64 << 10)
        && mount.value("vers") != Some("2")
    {
        let text = format!("rsize={bytes}: the client reads files in small pieces");
        all.push(
            say(Verdict::Note, &text)
                .with("remove it: client and server agree on the largest size"),
        );
    }
    if all.is_empty() {
        all.push(say(Verdict::Good, "its options cause no problem"));
    }
    all
}

#[cfg(test)]
mod tests;
