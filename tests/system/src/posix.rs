//! Programs of others that try what a file system does: on the local disk, and on a mount.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::{Guest, Link, Mount, output, tools_folder};

/// Stands in for functions of the C library, so that a program uses two mounts as if they were one.
const CROSSING: &str = include_str!("posix/crossed.c");

/// A program, and how it is run in a folder.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// What it is called here.
    pub name: &'static str,
    /// What of it is run.
    pub what: &'static str,
    /// Lines of shell; they run in the folder.
    pub case: &'static str,
}

/// What runs pjdfstest in the folder that the shell is in.
macro_rules! pjdfstest {
    () => {
        "cat >\"$scratch/pjdfstest.toml\" <<END
[settings]
naptime = 0.05
allow_remount = false
[dummy_auth]
entries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"], [\"bin\", \"bin\"]]
END
pjdfstest -c \"$scratch/pjdfstest.toml\" -p \"$PWD\""
    };
}

/// Those that take seconds.
pub const QUICK: &[Trial] = &[
    Trial { name: "pjdfstest", what: "all cases", case: pjdfstest!() },
    Trial {
        name: "fsx",
        what: "3,000 operations",
        case: "fsx -q -N 3000 -S 1 -P \"$scratch\" file; rm file",
    },
];

/// Those that are run where each call goes to one of two mounts. What is not so there is known on the
/// machine of a mount alone: that a file is open, and that a program runs.
pub const CROSSED: &[Trial] = &[
    Trial {
        name: "pjdfstest",
        what: "all cases",
        case: concat!(
            pjdfstest!(),
            " >\"$scratch/told\" || true
cat \"$scratch/told\"
grep -a '^Summary: .* [1-9][0-9]* passed' \"$scratch/told\"
! grep -a 'FAILED$' \"$scratch/told\" | grep -v -e '^unlink::open_file_not_freed ' -e '::etxtbsy '"
        ),
    },
    Trial {
        name: "fsx",
        what: "3,000 operations of each of 6 seeds",
        case: "for seed in 1 2 3 4 5 6; do
            fsx -q -N 3000 -S $seed -P \"$scratch\" \"$PWD/file\"; rm file
        done",
    },
];

/// Those that take minutes.
pub const LONG: &[Trial] = &[
    Trial {
        name: "fsx, long",
        what: "30,000 operations of each of 5 seeds",
        case: "for seed in 11 12 13 14 15; do
            fsx -q -N 30000 -S $seed -P \"$scratch\" file; rm file
        done",
    },
    Trial {
        name: "fio verify",
        what: "160 MiB by calls, past the cache and by a mapping",
        case: "fio --name=verify --directory=. --size=64m --rw=randrw --verify=crc32c \\
            --bssplit=512/10:4k/60:64k/30 --verify_fatal=1 --fsync=64 --numjobs=2 --ioengine=psync
        fio --name=direct --directory=. --size=32m --rw=randwrite --bs=4k --direct=1 \\
            --verify=crc32c --verify_fatal=1 --ioengine=psync
        fio --name=mapped --directory=. --size=32m --rw=randwrite --bs=4k --verify=crc32c \\
            --verify_fatal=1 --ioengine=mmap
        rm -f verify.* direct.* mapped.*",
    },
    Trial {
        name: "dbench",
        what: "its load of 4 clients, 20 s",
        case: "dbench -c /usr/share/dbench/client.txt -t 20 -D \"$PWD\" 4",
    },
];

/// Stressors of stress-ng that are about files in a folder, each for itself.
macro_rules! stressors {
    ($($name:literal)*) => {
        &[$(Trial {
            name: concat!("stress-ng ", $name),
            what: "100 rounds or 10 s of 2 processes",
            case: concat!("stress-ng --quiet --temp-path . --", $name, " 2 --", $name,
                "-ops 100 --timeout 10 --verify"),
        }),*]
    };
}

/// All that its class of file systems has, and some that it counts elsewhere. What is left out of
/// that class is about processes and the machine: bind-mount, binderfs, dup, eventfd, fanotify,
/// ioprio and procfs.
pub const STRESSORS: &[Trial] = stressors!(
    "access" "chattr" "chdir" "chmod" "chown" "copy-file" "dentry" "dir" "dirdeep" "dirmany"
    "dnotify" "fallocate" "fcntl" "fiemap" "file-ioctl" "filename" "flock" "fpunch" "fsize" "fstat"
    "getdent" "handle" "hdd" "inode-flags" "inotify" "io" "iomix" "lease" "link" "locka" "lockf"
    "lockofd" "mknod" "mmap" "msync" "open" "rename" "revio" "seek" "sendfile" "splice" "symlink"
    "sync-file" "touch" "utime" "verity" "xattr"
);

/// Those that need not pass on a mount, and why.
pub const EXCEPTIONS: &[(&str, &str)] =
    &[("stress-ng xattr", "versions 3 and 2 of NFS have no call for extended attributes")];

/// Runs a trial in a folder; what it wrote, and whether all is well.
///
/// # Panics
/// If there is no shell.
#[must_use]
pub fn run(trial: Trial, folder: &Path, scratch: &Path, seconds: u64) -> (bool, String) {
    end(&mut command(trial, folder, scratch, seconds))
}

/// The same where each call of the program goes to one of two folders, which are the same files on
/// two mounts.
///
/// # Panics
/// If there is no shell, or no compiler.
#[must_use]
pub fn run_crossed(
    trial: Trial,
    mut folders: [&Path; 2],
    scratch: &Path,
    seconds: u64,
) -> (bool, String) {
    folders.sort_by_key(|folder| usize::MAX - folder.as_os_str().len());
    let [longer, other] = folders;
    let (source, library) = (scratch.join("crossed.c"), scratch.join("crossed.so"));
    fs::write(&source, CROSSING).expect("there is room");
    output(Command::new("gcc").args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]));
    let mut command = command(trial, longer, scratch, seconds);
    command.env("LD_PRELOAD", library);
    end(command.env("CROSSED", format!("{}:{}", longer.display(), other.display())))
}

fn command(trial: Trial, folder: &Path, scratch: &Path, seconds: u64) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let tools = tools_folder().join("compiled/bin");
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", &seconds.to_string(), "sh", "-e", "-c"])
        .arg(format!("exec 2>&1\n{}", trial.case))
        .current_dir(folder)
        .env("PATH", format!("{}:{path}:/usr/sbin", tools.display()))
        .env("scratch", scratch);
    command
}

fn end(command: &mut Command) -> (bool, String) {
    let done = command.output().expect("there is a shell");
    (done.status.success(), String::from_utf8_lossy(&done.stdout).into_owned())
}

/// The case of pjdfstest that the kernel's client fails on any server: it gives a file that is removed
/// while open another name.
pub const OF_THE_KERNEL: &str = "unlink::open_file_not_freed";

/// The case that a metaserver of several fails: no directory counts the directories in it there.
pub const OF_SEVERAL: &str = "rename::updates_link_parent";

/// Runs pjdfstest and fsx where the kernel's client mounts; the cases that fail, and all that was written.
///
/// # Panics
/// If a byte is not what fsx wrote, or pjdfstest does not come to its end.
#[must_use]
pub fn failing_by_the_kernel(mount: &Mount, limit: Duration) -> (Vec<String>, String) {
    let tools = tools_folder().join("compiled/bin");
    let case = format!("tools='{}'\n{}", tools.display(), include_str!("../cases/posix.sh"));
    let guest = Guest::boot(&Arc::new(Link::new()), mount, &case, limit);
    let ended = guest.wait(|request| panic!("no such request: {request}"));
    ended.expect_success();
    let fails = ended.log.lines().filter_map(|line| line.strip_prefix("pjdfstest fails "));
    (fails.map(str::to_owned).collect(), ended.log)
}
