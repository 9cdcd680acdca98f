//! Foreign programs that test a file system: on the local disk, and on a mount.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::{Guest, Link, Mount, output, tools_folder};

/// Replaces functions of the C library, so that a program uses two mounts as if they were one.
const CROSSING: &str = include_str!("posix/crossed.c");

/// A program, and the shell commands that run it in a folder.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// Its name.
    pub name: &'static str,
    /// The executed part of the program.
    pub what: &'static str,
    /// Lines of shell; they run in the folder.
    pub case: &'static str,
}

/// The command that runs pjdfstest in the current folder.
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

/// Trials that take seconds.
pub const QUICK: &[Trial] = &[
    Trial { name: "pjdfstest", what: "all cases", case: pjdfstest!() },
    Trial {
        name: "fsx",
        what: "3,000 operations",
        case: "fsx -q -N 3000 -S 1 -P \"$scratch\" file; rm file",
    },
];

/// Trials in which each call uses one of two mounts. They omit tests of state that only the machine
/// of one mount has: open files and running programs.
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

/// Trials that take minutes.
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

/// Stressors of stress-ng for files in a folder, each run separately.
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

/// All stressors of the file system class, and some of other classes. The omitted stressors of that
/// class test processes and the machine: bind-mount, binderfs, dup, eventfd, fanotify, ioprio and
/// procfs.
pub const STRESSORS: &[Trial] = stressors!(
    "access" "chattr" "chdir" "chmod" "chown" "copy-file" "dentry" "dir" "dirdeep" "dirmany"
    "dnotify" "fallocate" "fcntl" "fiemap" "file-ioctl" "filename" "flock" "fpunch" "fsize" "fstat"
    "getdent" "handle" "hdd" "inode-flags" "inotify" "io" "iomix" "lease" "link" "locka" "lockf"
    "lockofd" "mknod" "mmap" "msync" "open" "rename" "revio" "seek" "sendfile" "splice" "symlink"
    "sync-file" "touch" "utime" "verity" "xattr"
);

/// Trials that need not pass on a mount, with the reasons.
pub const EXCEPTIONS: &[(&str, &str)] =
    &[("stress-ng xattr", "versions 3 and 2 of NFS have no call for extended attributes")];

/// Runs a trial in a folder; returns its output, and true if it passed.
///
/// # Panics
/// Panics if the machine has no shell.
#[must_use]
pub fn run(trial: Trial, folder: &Path, scratch: &Path, seconds: u64) -> (bool, String) {
    end(&mut command(trial, folder, scratch, seconds))
}

/// Runs a trial in which each call of the program uses one of two folders, which are the same files
/// on two mounts.
///
/// # Panics
/// Panics if the machine has no shell or no compiler.
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

/// The case of pjdfstest that the kernel's client fails on any server: it links an open, removed
/// file to another name.
pub const OF_THE_KERNEL: &str = "unlink::open_file_not_freed";

/// The case that a metaserver of several fails: its directories do not count their subdirectories.
pub const OF_SEVERAL: &str = "rename::updates_link_parent";

/// Runs pjdfstest and fsx on a mount by the kernel's client; returns the failing cases and the
/// output.
///
/// # Panics
/// Panics if fsx reads a wrong byte, or pjdfstest does not run to its end.
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
