//! The metrics of volumes: of their files, iods and metaservers.

use super::{Page, number, size};
use crate::snapshot::Snapshot;
use crate::volumes::{IodView, PeerView, VolumeView};

/// A metric of each volume, iod or metaserver: its name, its help and its value; `None` if the
/// value is unknown.
type Told<'a, T> = (&'a str, &'a str, fn(&T) -> Option<f64>);

pub(super) fn volumes(page: &mut Page, volumes: &[VolumeView]) {
    if volumes.is_empty() {
        return;
    }
    let told: [Told<'_, VolumeView>; 6] = [
        (
            "leasehold_volume_settled",
            "1 if all files are known to have their intended layout and all copies.",
            |volume| Some(truth(volume.settled)),
        ),
        (
            "leasehold_volume_misplaced_files",
            "Files that are known to lack their intended layout or a copy, and that are to be \
             moved.",
            |volume| Some(size(volume.misplaced)),
        ),
        (
            "leasehold_volume_behind_files",
            "Misplaced files with an out-of-date copy: the iod with the other copy must not be \
             lost.",
            |volume| Some(size(volume.behind)),
        ),
        (
            "leasehold_volume_waiting_removals",
            "Objects of removed files that await removal by their iod.",
            |volume| Some(size(volume.waiting_removals)),
        ),
        (
            "leasehold_volume_orphans",
            "Objects that belong to no file, as found by the last search.",
            |volume| volume.orphans.map(number),
        ),
        (
            "leasehold_volume_orphan_bytes",
            "The bytes of the objects that belong to no file, as found by the last search.",
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
        ("leasehold_iod_away", "1 if an iod is unreachable.", |iod| Some(truth(iod.away))),
        (
            "leasehold_iod_refuses_changes",
            "1 if an iod replies but rejects changes, as with a read-only disk.",
            |iod| Some(truth(iod.refuses.is_some())),
        ),
        (
            "leasehold_iod_older",
            "1 if an iod was rolled back, as after a restore from a backup: its data is \
             rejected.",
            |iod| Some(truth(iod.older)),
        ),
        ("leasehold_iod_free_bytes", "The free space of a reachable iod.", |iod| {
            iod.free_bytes.map(number)
        }),
    ];
    for (name, help, read) in told {
        page.begin(name, "gauge", help);
        for volume in volumes {
            // An iod that is permanently lost has no series.
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
            "1 if another metaserver is unreachable, or does not serve.",
            |other| Some(truth(other.away)),
        ),
        (
            "leasehold_metaserver_busy_ratio",
            "The share of the last ten seconds in which another metaserver was busy.",
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

/// Returns the metaservers of a volume except this one.
fn others(volume: &VolumeView) -> impl Iterator<Item = (&str, &PeerView)> {
    let others = volume.metaservers.iter().filter(|other| !other.this);
    others.map(|other| (&volume.name[..], other))
}

/// Writes the metrics of this metaserver of a group.
pub(super) fn this_one(page: &mut Page, told: &Snapshot) {
    let Some(this) = &told.metaserver else { return };
    let help = "1 if this one of several metaservers serves: at its start it waits for the \
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

    /// An unknown value has no series instead of a zero: zero free space would raise an alarm.
    #[test]
    fn only_known_values_have_series() {
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
