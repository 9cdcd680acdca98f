//! The lines of the guide to mounting, read by the programs for which they are written.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use leasehold_system_tests::{Guest, Link, Scratch, Server, Version, output};

/// Longer than the case takes.
const LIMIT: Duration = Duration::from_mins(5);

/// Returns the blocks of a kind in the guide.
fn blocks(kind: &str) -> Vec<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/mounting.md");
    let guide = fs::read_to_string(guide).expect("there is a guide");
    let begin = format!("```{kind}\n");
    let parts = guide.split(&begin).skip(1).filter_map(|rest| rest.split_once("```"));
    parts.map(|(block, _)| block.trim().to_owned()).collect()
}

/// Returns the first block of a kind.
fn first(kind: &str) -> String {
    blocks(kind).into_iter().next().unwrap_or_else(|| panic!("the guide has no {kind}"))
}

#[test]
fn the_kernel_accepts_the_lines_of_fstab_and_autofs() {
    let server = Server::start();
    let (port, export) = (server.port(), server.export());
    let ours = |line: &str| {
        let line = line.replace("HOST:/data", &format!("127.0.0.1:{export}"));
        line.replace("port=2049", &format!("port={port}"))
    };
    let mut case = String::new();
    for (name, kind) in [("fstab", "fstab"), ("master", "autofs-master"), ("map", "autofs-map")] {
        // The guide uses the path of the guest's first mount.
        let line = ours(&first(kind)).replace("  /mnt  ", "  /run/mounted  ");
        case.push_str(&format!("{name}='{line}'\n"));
    }
    case.push_str(include_str!("../cases/mounting.sh"));
    let link = Arc::new(Link::new());
    let guest = Guest::boot(&link, &server.mount(Version::V3), &case, LIMIT);
    guest.wait(|request| panic!("no such request: {request}")).expect_success();
}

#[test]
fn systemd_accepts_the_units_and_the_automount_line() {
    let folder = Scratch::new("units");
    for unit in blocks("systemd") {
        let (path, _) = unit.split_once('\n').expect("a unit has lines");
        let name = path.rsplit('/').next().expect("a path has a name");
        fs::write(folder.path().join(name), &unit).expect("there is room");
    }
    for name in ["mnt.mount", "mnt.automount"] {
        let path = folder.path().join(name);
        let said = Command::new("systemd-analyze").arg("verify").arg(&path).output();
        let said = said.expect("systemd-analyze can be run");
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(!text.lines().any(|line| line.contains("mnt.")), "{name}: {text}");
        assert!(said.status.success(), "{name}: {text}");
    }
    let lines = blocks("fstab");
    let line = lines.iter().find(|line| line.contains("x-systemd.automount"));
    let folder = Scratch::new("generated");
    let fstab = folder.path().join("fstab");
    fs::write(&fstab, line.expect("the guide has one").clone() + "\n").expect("there is room");
    let generator = "/usr/lib/systemd/system-generators/systemd-fstab-generator";
    output(Command::new(generator).args([folder.path(); 3]).env("SYSTEMD_FSTAB", fstab));
    let automount = fs::read_to_string(folder.path().join("mnt.automount")).expect("it is made");
    assert!(automount.contains("TimeoutIdleSec=10min"), "{automount}");
}

#[test]
fn the_kubernetes_volume_is_complete() {
    let look = "import sys, yaml
volume, claim = yaml.safe_load_all(sys.stdin)
assert volume['apiVersion'] == claim['apiVersion'] == 'v1'
assert volume['kind'] == 'PersistentVolume' and claim['kind'] == 'PersistentVolumeClaim'
assert claim['spec']['volumeName'] == volume['metadata']['name']
assert set(volume['spec']['nfs']) == {'server', 'path'}
assert claim['spec']['accessModes'] == volume['spec']['accessModes']
assert claim['spec']['storageClassName'] == volume['spec']['storageClassName'] == ''
assert claim['spec']['resources']['requests'] == volume['spec']['capacity']
assert all(isinstance(option, str) for option in volume['spec']['mountOptions'])";
    let script = format!("{look}\nprint(','.join(volume['spec']['mountOptions']))");
    let folder = Scratch::new("volume");
    let path = folder.path().join("volume.yaml");
    fs::write(&path, first("yaml")).expect("there is room");
    let file = fs::File::open(&path).expect("it was written just now");
    let options = output(Command::new("/usr/bin/python3").args(["-c", &script]).stdin(file));
    // The lines that the other test passes to the kernel.
    let tried = first("fstab");
    for option in options.trim().split(',').filter(|option| *option != "hard") {
        assert!(tried.contains(option), "{option} is not in {tried}");
    }
}
