//! What is told of volumes: of their files, iods and metaservers.

use super::{Page, number, size};
use crate::snapshot::Snapshot;
use crate::volumes::{IodView, PeerView, VolumeView};

/// What is told of each volume, iod or metaserver, with its help, and how it is read; nothing of
/// one that does not say it.
type Told<'a, T> = (&'a str, &'a str, fn(&T) -> Option<f64>);

pub(super) fn volumes(page: &mut Page, volumes: &[VolumeView]) {
    if volumes.is_empty() {
        return;
    }
    let told: [Told<'_, VolumeView>; 6] = [
        (
            "leasehold_volume_settled",
            "Whether all files lie where they should, with all copies, as far as is known.",
            |volume| Some(truth(volume.settled)),
        ),
        (
            "leasehold_volume_misplaced_files",
            "Files that are known not to lie where they should, or to lack a copy: still to be \
             moved.",
            |volume| Some(size(volume.misplaced)),
        ),
        (
            "leasehold_volume_behind_files",
            "Those of which a copy is behind: the iod that has the other must not be lost.",
            |volume| Some(size(volume.behind)),
        ),
        (
            "leasehold_volume_waiting_removals",
            "Objects of removed files that wait for their iod.",
            |volume| Some(size(volume.waiting_removals)),
        ),
        (
            "leasehold_volume_orphans",
            "Objects that no file has, as the last search found them.",
            |volume| volume.orphans.map(number),
        ),
        (
            "leasehold_volume_orphan_bytes",
            "The bytes of the objects that no file has, as the last search found them.",
            |volume| volume.orphan_bytes.map(number),
        ),
    ];
    for (name, help, read) in told {
        page.begin(name, "gauge", help);
        for volume in volumes {
            page.told(name, &[("export", &volume.name)], read(volume));
        }
    }
    iods(page, volumes);
    metaservers(page, volumes);
}

fn iods(page: &mut Page, volumes: &[VolumeView]) {
    let told: [Told<'_, IodView>; 4] = [
        ("leasehold_iod_away", "Whether an iod does not answer.", |iod| Some(truth(iod.away))),
        (
            "leasehold_iod_refuses_changes",
            "1 if an iod answers and refuses changes, as with a read-only disk.",
            |iod| Some(truth(iod.refuses.is_some())),
        ),
        (
            "leasehold_iod_older",
            "1 if an iod is older than its metaserver knows it, as after a restore from a backup: \
             its data is not used.",
            |iod| Some(truth(iod.older)),
        ),
        ("leasehold_iod_free_bytes", "The room that an iod has left, while it answers.", |iod| {
            iod.free_bytes.map(number)
        }),
    ];
    for (name, help, read) in told {
        page.begin(name, "gauge", help);
        for volume in volumes {
            // Of one that is gone for good nobody is to hear any more.
            for iod in volume.iods.iter().filter(|iod| iod.what != "gone") {
                let number = iod.number.to_string();
                let labels =
                    [("export", &volume.name[..]), ("iod", &number), ("place", &iod.label)];
                page.told(name, &labels, read(iod));
            }
        }
    }
}

fn metaservers(page: &mut Page, volumes: &[VolumeView]) {
    let others: Vec<_> = volumes.iter().flat_map(others).collect();
    if others.is_empty() {
        return;
    }
    let told: [Told<'_, PeerView>; 3] = [
        (
            "leasehold_metaserver_away",
            "Whether another metaserver does not answer, or serves nobody.",
            |other| Some(truth(other.away)),
        ),
        (
            "leasehold_metaserver_busy_ratio",
            "How much of its time another metaserver had something to do in the last ten seconds.",
            |other| Some(f64::from(other.busy_tenths?) / 10.0),
        ),
        ("leasehold_metaserver_connections", "Open connections of another metaserver.", |other| {
            other.connections.map(f64::from)
        }),
    ];
    for (name, help, read) in told {
        page.begin(name, "gauge", help);
        for (export, other) in &others {
            let number = other.number.to_string();
            let labels = [("export", *export), ("metaserver", &number), ("place", &other.address)];
            page.told(name, &labels, read(other));
        }
    }
}

/// The metaservers of a volume but the one that says this.
fn others(volume: &VolumeView) -> impl Iterator<Item = (&str, &PeerView)> {
    let others = volume.metaservers.iter().filter(|other| !other.this);
    others.map(|other| (&volume.name[..], other))
}

/// What a metaserver says of itself among others.
pub(super) fn this_one(page: &mut Page, told: &Snapshot) {
    let Some(this) = &told.metaserver else { return };
    let help = "Whether this one of several metaservers serves: at its start it waits for the \
                others.";
    page.single(("leasehold_metaserver_serves", "gauge", help), truth(this.serves));
    let help = "Calls that this one of several metaservers made to others.";
    page.single(("leasehold_metaserver_calls_total", "counter", help), number(this.calls));
}

const fn truth(is_so: bool) -> f64 {
    if is_so { 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iod(number: u16, what: &str, free_bytes: Option<u64>) -> IodView {
        let (label, what) = (format!("iod{number}:2049"), what.to_owned());
        let (away, waiting_removals, refuses) = (free_bytes.is_none(), 0, None);
        let (older, older_files) = (away, None);
        IodView {
            number,
            label,
            what,
            away,
            free_bytes,
            refuses,
            older,
            older_files,
            waiting_removals,
        }
    }

    /// What nobody knows is not told, rather than told as nothing: no room is an alarm.
    #[test]
    fn only_what_is_known_is_told() {
        let volume = VolumeView {
            name: "/files".to_owned(),
            volume: "7".to_owned(),
            copies: 2,
            iods: vec![iod(0, "used", Some(4096)), iod(1, "drained", None), iod(2, "gone", None)],
            metaservers: Vec::new(),
            consistency: None,
            misplaced: 3,
            behind: 1,
            settled: false,
            waiting_removals: 2,
            orphans: Some(4),
            orphan_bytes: None,
            orphans_possible: true,
        };
        let mut page = Page(String::new());
        volumes(&mut page, &[volume]);
        let lines: Vec<_> = page.0.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            r#"leasehold_volume_settled{export="/files"} 0"#,
            r#"leasehold_volume_misplaced_files{export="/files"} 3"#,
            r#"leasehold_volume_behind_files{export="/files"} 1"#,
            r#"leasehold_volume_waiting_removals{export="/files"} 2"#,
            r#"leasehold_volume_orphans{export="/files"} 4"#,
            r#"leasehold_iod_away{export="/files",iod="0",place="iod0:2049"} 0"#,
            r#"leasehold_iod_away{export="/files",iod="1",place="iod1:2049"} 1"#,
            r#"leasehold_iod_refuses_changes{export="/files",iod="0",place="iod0:2049"} 0"#,
            r#"leasehold_iod_refuses_changes{export="/files",iod="1",place="iod1:2049"} 0"#,
            r#"leasehold_iod_older{export="/files",iod="0",place="iod0:2049"} 0"#,
            r#"leasehold_iod_older{export="/files",iod="1",place="iod1:2049"} 1"#,
            r#"leasehold_iod_free_bytes{export="/files",iod="0",place="iod0:2049"} 4096"#,
        ];
        assert_eq!(lines, expected);
        assert!(!page.0.contains("leasehold_metaserver"), "the server is the only metaserver");
        let mut page = Page(String::new());
        volumes(&mut page, &[]);
        assert_eq!(page.0, "", "data and names lie together");
    }
}
