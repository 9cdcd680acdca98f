//! Full, read-only, over-quota or broken disks: each operation returns the right status, has no
//! partial effect, and the server keeps running.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use leasehold_wire::nfs3::write::Stability;
use leasehold_wire::nfs3::{Reply, Status, commit, getattr, write};

use leasehold_system_tests::{Attempt, Client, FileSystem, Ground, Machine, Site};

const OK: u32 = 0;
const IO: u32 = 5;
const NO_SPACE: u32 = 28;
const READ_ONLY: u32 = 30;
const QUOTA_EXCEEDED: u32 = 69;

/// Returns the exported folder as local programs see it: names, attributes, data.
fn seen(machine: &mut Machine) -> String {
    machine.tell(
        "find /disk/export -printf '%P %y %m %n %U %s %l\\n' | sort; \
         find /disk/export -type f -exec cksum {} + | sort",
    )
}

/// Tries operations one by one; each must return the expected status, and a failing one must change
/// nothing.
fn expect(
    machine: &mut Machine,
    client: &mut Client,
    attempts: &[Attempt],
    expected: impl Fn(&Attempt) -> u32,
) {
    let mut wrong = BTreeMap::new();
    for attempt in attempts {
        let before = seen(machine);
        let status = attempt.status(client).expect("the server lives on");
        let name = format!("{} of version {}", attempt.name, attempt.version);
        if status != expected(attempt) {
            wrong.insert(name, format!("{status}, not {}", expected(attempt)));
        } else if status != OK && seen(machine) != before {
            let after = seen(machine);
            wrong.insert(name, format!("half done:\n{before}\nhas become\n{after}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns a machine with the test directory.
fn machine(site: Site) -> (Machine, Client, Ground) {
    let mut machine = Machine::new(site);
    machine.tell(&Ground::script("/disk/export/ground"));
    let mut client = Client::connect(machine.address(), 0).expect("the machine is on");
    let ground = Ground::find(&mut client, "ground").expect("the machine is on");
    (machine, client, ground)
}

#[test]
fn read_only() {
    let (mut machine, _, _) = machine(Site::of(FileSystem::Ext4));
    // Again after a restart, because the server keeps files open for writing.
    machine.tell("end_server TERM; \"$busybox\" mount -o remount,ro /disk; start_server");
    let mut client = Client::connect(machine.address(), 0).expect("the machine is on");
    let ground = Ground::find(&mut client, "ground").expect("the machine is on");
    expect(&mut machine, &mut client, &ground.additions(), |_| READ_ONLY);
    expect(&mut machine, &mut client, &ground.changes(), |_| READ_ONLY);
    expect(&mut machine, &mut client, &ground.reads(), |_| OK);
    machine.tell("\"$busybox\" mount -o remount,rw /disk");
    expect(&mut machine, &mut client, &ground.additions(), |_| OK);
}

/// Uses all inodes and blocks, and the space for long names in the test directory.
const FILL: &str = r"
    cd /disk/export; mkdir fill; n=0
    while : >fill/$n; do n=$((n + 1)); done 2>/dev/null
    while cat /dev/zero; do :; done >>fill/0 2>/dev/null || true
    sync
    dd if=/dev/zero of=fill/1 bs=1 2>/dev/null
    cd ground; n=100
    while ln file $(printf %0200d $n); do n=$((n + 1)); done 2>/dev/null
    sync; cd /
";

const SMALL: Site = Site {
    disk_bytes: 8 << 20,
    format_words: &["-b", "1024", "-N", "64", "-m", "0"],
    ..Site::of(FileSystem::Ext4)
};

#[test]
fn full() {
    let (mut machine, mut client, ground) = machine(SMALL);
    machine.tell(FILL);
    expect(&mut machine, &mut client, &ground.additions(), |_| NO_SPACE);
    expect(&mut machine, &mut client, &ground.reads(), |_| OK);
    expect(&mut machine, &mut client, &ground.changes(), |_| OK);
    machine.tell("rm -r /disk/export/fill; sync");
    let additions = ground.additions();
    let gone = |attempt: &Attempt| attempt.name != "RENAME";
    let additions: Vec<_> = additions.into_iter().filter(gone).collect();
    expect(&mut machine, &mut client, &additions, |_| OK);
}

/// A bug: the server acknowledged a partial WRITE of version 2, and the rest was lost silently,
/// because the reply does not contain the number of written bytes.
#[test]
fn partial_writes() {
    let (mut machine, mut client, ground) = machine(SMALL);
    machine.tell("printf %5000s . >/disk/export/spare");
    machine.tell(FILL);
    let bytes = ground.write(Stability::FileSync).count;
    for version in [2, 3] {
        // Five blocks of 1 KiB are free, and the WRITE needs eight.
        machine.tell("rm -f /disk/export/spare; sync");
        let before = size(&mut client, &ground);
        if version == 2 {
            let status = ground.additions_of_version_2()[0].status(&mut client);
            assert_eq!(status.expect("the server lives on"), NO_SPACE);
        } else {
            let args = ground.write(Stability::FileSync);
            let reply = client.call::<write::Reply>(write::NUMBER, &args);
            let Reply::Done(done) = reply.expect("the server lives on") else {
                panic!("a part fits");
            };
            assert!(done.count > 0 && done.count < bytes, "{} of {bytes}", done.count);
            assert_eq!(size(&mut client, &ground), before + u64::from(done.count));
        }
        machine.tell("truncate -s 4096 /disk/export/ground/file; sync");
        machine.tell("printf %5000s . >/disk/export/spare; sync");
    }
}

fn size(client: &mut Client, ground: &Ground) -> u64 {
    let args = getattr::Args { object: ground.file() };
    match client.call::<getattr::Reply>(getattr::NUMBER, &args).expect("the server lives on") {
        Reply::Done(done) => done.attributes.size,
        Reply::Failed(status, ()) => panic!("{status:?}"),
    }
}

/// The user with the exhausted quota.
const USER: u32 = 1000;

#[test]
fn over_quota() {
    let (mut machine, _, _) = machine(Site {
        format_words: &["-b", "4096", "-O", "quota", "-E", "quotatype=usrquota"],
        mount_options: "noatime,usrquota",
        ..Site::of(FileSystem::Ext4)
    });
    machine
        .tell(&format!("chown -R {USER} /disk/export/ground && setquota -u {USER} 0 16 0 4 /disk"));
    let mut client = Client::connect(machine.address(), USER).expect("the machine is on");
    let ground = Ground::find(&mut client, "ground").expect("the machine is on");
    expect(&mut machine, &mut client, &ground.additions(), |attempt| match attempt.name {
        "LINK" | "RENAME" => OK,
        _ => QUOTA_EXCEEDED,
    });
}

/// Makes every request to the disk fail, and makes a READ of the file's data such a request. Other
/// cached data stays in memory: without the block of an inode, ext4 reports success for a chmod
/// that it cannot do.
const BREAK: &str = "sync; dd if=/disk/export/ground/file iflag=nocache count=0 2>/dev/null
    turn_disk_to error";

/// Repairs the disk and the file system, which has shut down.
const MEND: &str = r#"end_server KILL; "$busybox" umount /disk; turn_disk_to "linear /dev/ubda 0";
    mount_disk; start_server"#;

/// For each operation, a disk that fails exactly at this operation.
#[test]
fn broken() {
    let (mut machine, _, ground) = machine(Site::of(FileSystem::Ext4));
    let before = seen(&mut machine);
    let mut attempts = ground.additions();
    attempts.extend(ground.changes());
    for attempt in &attempts {
        let mut client = Client::connect(machine.address(), 0).expect("the machine is on");
        let ground = Ground::find(&mut client, "ground").expect("the machine is on");
        // The kernel returns ESTALE for a handle whose object it cannot read; it need not read an
        // open object.
        ground.open(&mut client).expect("the machine is on");
        machine.tell(BREAK);
        let (name, version) = (attempt.name, attempt.version);
        let status = attempt.status(&mut client).expect("the server lives on");
        // An operation that aborts the journal makes the file system read-only.
        assert!([IO, READ_ONLY].contains(&status), "{name} of version {version}: {status}");
        for read in ground.reads() {
            let status = read.status(&mut client).expect("the server lives on");
            let expected: &[u32] = if read.name == "READ" { &[IO] } else { &[OK, IO] };
            let (name, version) = (read.name, read.version);
            assert!(expected.contains(&status), "{name} of version {version}: {status}");
        }
        machine.tell(MEND);
        assert_eq!(seen(&mut machine), before, "{name} of version {version} is half done");
    }
    let mut client = Client::connect(machine.address(), 0).expect("the machine is on");
    expect(&mut machine, &mut client, &ground.additions(), |_| OK);
}

/// A device in use by another layer is rejected for a log.
#[test]
fn no_log_on_a_disk_in_use() {
    let mut machine = Machine::new(Site::of(FileSystem::Ext4));
    let said = machine.tell(
        "\"$server\" serve /disk/export --state /run/other --listen \"$guest_address:0\" \
         --stable-log /dev/ubda && false || true",
    );
    assert!(said.contains("it is in use"), "{said}");
}

/// Serves a volume with a log until the server is killed, then serves another volume in its place,
/// as after a reboot; prints the output of the server.
const ANOTHER_VOLUME: &str = r#"
    modprobe loop
    mkdir /run/volume
    serve=("$server" serve /run/volume --state /run/other --listen "$guest_address:0" --json
        --stable-log /run/log --stable-log-size 8)
    for image in first second; do
        truncate -s 16M "/run/$image"
        mkfs.ext4 -q -F "/run/$image"
        device=$("$busybox" losetup -f)
        "$busybox" losetup "$device" "/run/$image"
        "$busybox" mount -t ext4 "$device" /run/volume
        [[ $image = first ]] || break
        "${serve[@]}" >/run/told &
        until [[ -s /run/told ]]; do read -r -t 0.005 -u 9 || true; done
        kill -KILL "$!"
        wait "$!" || true
        "$busybox" umount /run/volume
    done
    tr 0-9a-f 1-9a-f0 </proc/sys/kernel/random/boot_id >/run/boot
    "$busybox" mount -o bind /run/boot /proc/sys/kernel/random/boot_id
    timeout 20 "${serve[@]}" || true
"#;

/// A bug: all roots of ext4 have the same id. The log of one volume was replayed into another when
/// the machine had crashed and the state directory named the same volume.
#[test]
fn a_log_is_not_replayed_into_another_volume() {
    let said = Machine::new(Site::of(FileSystem::Ext4)).tell(ANOTHER_VOLUME);
    assert!(said.contains("it is the log of another directory or volume"), "{said}");
}

/// Puts the file system on a thin device that promises more space than it has: written data has a
/// place in the file system but not on the device.
const THIN: &str = r#"
    modprobe loop
    mkdir /run/thin
    "$busybox" mount -t tmpfs -o size=40m tmpfs /run/thin
    truncate -s 256M /run/thin/image
    mkfs.ext4 -q -F -E lazy_itable_init=0 -O ^has_journal /run/thin/image
    device=$("$busybox" losetup -f)
    "$busybox" losetup "$device" /run/thin/image
"#;

/// Data that the server has accepted and cannot store is never reported as stable, if the kernel
/// detects the failure at a COMMIT or before.
#[test]
fn thin() {
    for is_met_before in [false, true] {
        let (mut machine, mut client, ground) =
            machine(Site { before_mount: THIN, ..Site::of(FileSystem::Ext4) });
        let first = write_all(&mut client, &ground);
        if is_met_before {
            machine.tell("sync || true");
        }
        assert_eq!(commit_all(&mut client, &ground), Err(Status::Io));
        let again = commit_all(&mut client, &ground);
        assert!(again.is_err() || again != Ok(first), "{again:?}: that data is lost");
        let stable = ground.write(Stability::FileSync);
        let stable = write::Args { offset: 1 << 30, ..stable };
        let reply = client.call::<write::Reply>(write::NUMBER, &stable);
        let reply = reply.expect("the server lives on");
        assert!(matches!(reply, Reply::Failed(Status::Io | Status::NoSpace, _)), "{reply:?}");
        machine.tell("\"$busybox\" mount -o remount,size=200m /run/thin");
        let second = write_all(&mut client, &ground);
        assert_eq!(commit_all(&mut client, &ground), Ok(second));
        let others = "echo 3 >/proc/sys/vm/drop_caches; \
             head -c 62914560 /disk/export/ground/file | tr -d d | wc -c";
        assert_eq!(machine.tell(others), "0");
    }
}

/// Writes more data than fits, without a COMMIT; returns the verifier.
fn write_all(client: &mut Client, ground: &Ground) -> [u8; 8] {
    const PIECE: u32 = 256 << 10;
    const PIECES: u32 = 240;
    let data = Bytes::from(vec![b'd'; PIECE as usize]);
    let mut verifiers = BTreeSet::new();
    for piece in 0..PIECES {
        let (offset, stability) = (u64::from(piece * PIECE), Stability::Unstable);
        let file = ground.file();
        let args = write::Args { file, offset, count: PIECE, stability, data: data.clone() };
        match client.call::<write::Reply>(write::NUMBER, &args).expect("the server lives on") {
            Reply::Done(done) => {
                assert_eq!(done.count, PIECE);
                verifiers.insert(done.verifier);
            }
            Reply::Failed(status, _) => panic!("{status:?}"),
        }
    }
    assert_eq!(verifiers.len(), 1, "nothing was lost while this was written: {verifiers:?}");
    verifiers.pop_first().expect("there is one")
}

/// Commits the file; returns the verifier.
fn commit_all(client: &mut Client, ground: &Ground) -> Result<[u8; 8], Status> {
    let args = commit::Args { file: ground.file(), offset: 0, count: 0 };
    let reply = client.call::<commit::Reply>(commit::NUMBER, &args);
    match reply.expect("the server lives on") {
        Reply::Done(done) => Ok(done.verifier),
        Reply::Failed(status, _) => Err(status),
    }
}
