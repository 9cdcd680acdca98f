//! What the facts mean: a function of them alone.

use leasehold_shell::clock::Discipline;
use serde::Serialize;

use super::facts::{Facts, Firewall, Place, Port, Powers, Telling};
use super::firewall::{Passage, passage};
use crate::mountinfo::Mount;
use crate::running::REPLACED;

/// How good or bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// As it should be.
    Good,
    /// Worth knowing.
    Note,
    /// It may hurt.
    Warning,
    /// It keeps a server from working.
    Bad,
    /// It cannot be found out.
    Unknown,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    /// Of what.
    pub(super) about: String,
    /// How that is.
    pub(super) text: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) advice: Option<&'static str>,
}

fn finding(verdict: Verdict, about: &str, text: impl Into<String>) -> Finding {
    Finding { verdict, about: about.to_owned(), text: text.into(), advice: None }
}

impl Finding {
    fn with(self, advice: &'static str) -> Self {
        Self { advice: Some(advice), ..self }
    }
}

/// Everything that is to be said.
pub(super) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut all = Vec::new();
    if facts.is_running {
        let text = "one runs with this state directory and answers";
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
        None => finding(Verdict::Good, &about, "is free, for TCP; UDP is not answered"),
        Some(trouble) => finding(Verdict::Bad, &about, trouble),
    }
}

fn portmapper(facts: &Facts) -> Finding {
    let say = |verdict, text: &str| finding(verdict, "portmapper", text);
    match (facts.telling, facts.has_portmapper) {
        (Telling::Ourselves, true) if facts.is_running => say(Verdict::Good, "ours answers"),
        (Telling::Ourselves, true) => say(Verdict::Bad, "port 111 is taken, by rpcbind perhaps")
            .with("have that tell clients: --register in place of --portmap"),
        (Telling::Ourselves, false) => say(Verdict::Good, "port 111 is free for ours"),
        (Telling::Rpcbind, true) => say(Verdict::Good, "rpcbind answers, and can be told of us"),
        (Telling::Rpcbind, false) => say(Verdict::Bad, "no rpcbind answers on port 111")
            .with("start it, or use --portmap in place of --register"),
        (Telling::Nobody, true) => {
            say(Verdict::Note, "one answers, but is not told of us: clients must name the port")
                .with("with --register they need not")
        }
        (Telling::Nobody, false) => say(Verdict::Note, "there is none: clients must name the port")
            .with("with --portmap they need not"),
    }
}

/// None where only this machine is served.
fn firewall(facts: &Facts) -> Option<Finding> {
    let port = facts.ports.iter().find(|port| !port.address.ip().is_loopback())?;
    let (see, admit) = match port.with_udp {
        true => (
            "see that TCP and UDP come in on the port that is served on",
            "let TCP and UDP in on that port, or see that an other rule does",
        ),
        false => (
            "see that TCP comes in on the port that is served on",
            "let TCP in on that port, or see that an other rule does",
        ),
    };
    let port = port.address.port();
    let say = |verdict, text: String| finding(verdict, "firewall", text);
    Some(match &facts.firewall {
        Firewall::Unknown(why) => say(Verdict::Unknown, why.clone()).with(see),
        Firewall::Rules(program, rules) => match passage(rules, port) {
            Passage::Open => say(Verdict::Good, format!("{program}: no rule keeps anybody out")),
            Passage::Named => say(Verdict::Good, format!("{program}: a rule lets port {port} in")),
            Passage::Unclear => {
                say(Verdict::Warning, format!("{program}: rules refuse, none lets port {port} in"))
                    .with(admit)
            }
        },
    })
}

fn powers(powers: &Powers) -> Finding {
    let say = |verdict, text: &str| finding(verdict, "powers", text);
    match powers {
        Powers { acts_as_others: true, opens_handles: true } => {
            say(Verdict::Good, "acts as each caller, and opens files by their handles")
        }
        Powers { acts_as_others: true, opens_handles: false } => say(
            Verdict::Warning,
            "acts as each caller, but has to search for files that handles name",
        )
        .with("add the capability CAP_DAC_READ_SEARCH"),
        Powers { acts_as_others: false, .. } => {
            say(Verdict::Note, "serves its own user and root only, and acts as that user for all")
                .with("run it as root, or with CAP_SETUID, CAP_SETGID and CAP_DAC_READ_SEARCH")
        }
    }
}

/// Below this a server of some thousand clients closes files and connections all the time.
const DESCRIPTORS_FEW: usize = 4096;

fn descriptors(count: usize) -> Finding {
    let text = format!("{count}: half for connections, a quarter for files");
    if count < DESCRIPTORS_FEW {
        return finding(Verdict::Warning, "descriptors", text)
            .with("raise the hard limit (ulimit -Hn)");
    }
    finding(Verdict::Good, "descriptors", text)
}

/// From here on makes and caches are misled: files that were written on two machines differ by more.
const OFF_S: f64 = 1.0;

/// Far from what quartz does: a virtual machine whose clock is corrected all the time.
const DRIFT_PPM: f64 = 200.0;

fn clock(kept: Option<&Discipline>) -> Vec<Finding> {
    let Some(kept) = kept else {
        return vec![finding(Verdict::Unknown, "clock", "the kernel does not tell how it is kept")];
    };
    let mut all = vec![match kept.is_synchronized {
        true if kept.error_max_s <= OFF_S => finding(
            Verdict::Good,
            "clock",
            format!("kept, off by {:.3} s at most", kept.error_max_s),
        ),
        true => {
            let text = format!("kept, but may be off by {:.1} s", kept.error_max_s);
            finding(Verdict::Warning, "clock", text).with("name nearer servers of time")
        }
        false => finding(Verdict::Warning, "clock", "nothing keeps it").with(
            "run chrony or another client of NTP: clients compare times of files with theirs",
        ),
    }];
    if kept.drift_ppm.abs() > DRIFT_PPM {
        let text = format!("it drifts by {:.0} millionths", kept.drift_ppm);
        all.push(
            finding(Verdict::Warning, "clock", text).with("leases count on less than a thousand"),
        );
    }
    all
}

/// Less free than this is worth a word, in percent.
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
        let text = format!("{bytes}% of its bytes and {names}% of its names are free");
        all.push(
            say(Verdict::Warning, text).with("make room, or clients will be told that it is full"),
        );
    }
    all
}

/// How a file system keeps what is answered as stable, and what to do.
fn file_system(
    mount: &Mount,
    has_journal: Option<bool>,
) -> impl Iterator<Item = (String, Option<&'static str>)> {
    let kind = &*mount.kind;
    let mut all = Vec::new();
    match (kind, has_journal) {
        ("ext4", Some(false)) => all.push((
            "ext4 without a journal: a crash may leave changes of names half done".to_owned(),
            Some("`tune2fs -O has_journal` on the unmounted device adds one"),
        )),
        ("ext4" | "xfs" | "btrfs" | "zfs" | "f2fs", _) => {
            all.push((format!("{kind}: a sync puts data and names on stable storage"), None));
        }
        ("tmpfs" | "ramfs", _) => all.push((
            format!("{kind}: all of it is lost when the machine is"),
            Some("serve a directory on a disk, unless that is wanted"),
        )),
        ("vfat" | "exfat" | "ntfs" | "ntfs3", _) => all.push((
            format!("{kind}: has no owners, modes and links of its own"),
            Some("serve a directory on ext4, XFS or btrfs"),
        )),
        ("nfs" | "nfs4" | "cifs" | "9p" | "virtiofs", _) => all.push((
            format!("{kind}: is from another server, which decides what is stable"),
            Some("serve it from there"),
        )),
        (other, _) => all.push((
            format!("{other}: is not known to us"),
            Some("see that it has handles and syncs names before you rely on it"),
        )),
    }
    let weakens =
        ["nobarrier", "barrier=0", "data=writeback"].into_iter().find(|one| mount.has(one));
    if let Some(option) = weakens {
        let text =
            format!("is mounted with {option}: what was synced may be lost or mixed in a crash");
        all.push((text, Some("mount it without")));
    }
    all.into_iter()
}

/// What an option of a client's mount means, where it may hurt.
fn mount(mount: &Mount) -> Vec<Finding> {
    let about = format!("{} from {}", mount.point.display(), mount.source);
    let say = |verdict, text: &str| finding(verdict, &about, text);
    let mut all = Vec::new();
    if mount.has("soft") {
        all.push(
            say(Verdict::Warning, "soft: writes are lost when the server does not answer for long")
                .with("mount it hard, or softerr with a long timeo for what is only read"),
        );
    }
    if mount.value("proto").is_some_and(|proto| proto.starts_with("udp")) {
        all.push(
            say(Verdict::Warning, "udp: large packets may be put together wrongly on a fast net")
                .with("proto=tcp"),
        );
    }
    if mount.has("nolock") || mount.value("local_lock").is_some_and(|local| local != "none") {
        all.push(say(
            Verdict::Note,
            "locks are this machine's own: programs elsewhere do not see them",
        ));
    }
    if mount.has("noac") || mount.number("actimeo") == Some(0) {
        all.push(
            say(Verdict::Note, "noac: each look at a file asks the server, and writes wait")
                .with("without it, what is opened is looked at anew all the same"),
        );
    }
    let longest =
        ["actimeo", "acregmax", "acdirmax"].into_iter().filter_map(|one| mount.number(one));
    if let Some(seconds) = longest.max().filter(|seconds| *seconds > 60) {
        let text = format!("names and attributes may be {seconds} s old");
        all.push(
            say(Verdict::Warning, &text).with("the usual 60 are as long as most programs bear"),
        );
    }
    if let Some(bytes) = mount.number("rsize").filter(|bytes| *bytes < 64 << 10)
        && mount.value("vers") != Some("2")
    {
        let text = format!("rsize={bytes}: files are read in small pieces");
        all.push(say(Verdict::Note, &text).with("leave it out: both sides agree on the largest"));
    }
    if all.is_empty() {
        all.push(say(Verdict::Good, "nothing in its options hurts"));
    }
    all
}

#[cfg(test)]
mod tests;
