//! Programs of others that try what a file system does: on the local disk, and on a mount.

use std::path::Path;
use std::process::Command;

use crate::tools_folder;

/// A program, and how it is run in a folder.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// What it is called here.
    pub name: &'static str,
    /// Lines of shell; they run in the folder.
    pub case: &'static str,
}

/// Those that take seconds.
pub const QUICK: &[Trial] = &[
    Trial {
        name: "pjdfstest",
        case: "cat >\"$scratch/pjdfstest.toml\" <<END
[settings]
naptime = 0.05
allow_remount = false
[dummy_auth]
entries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"], [\"bin\", \"bin\"]]
END
pjdfstest -c \"$scratch/pjdfstest.toml\" -p \"$PWD\"",
    },
    Trial { name: "fsx", case: "fsx -q -N 3000 -S 1 -P \"$scratch\" file; rm file" },
];

/// Those that take minutes.
pub const LONG: &[Trial] = &[
    Trial {
        name: "fsx, long",
        case: "for seed in 11 12 13 14 15; do
            fsx -q -N 30000 -S $seed -P \"$scratch\" file; rm file
        done",
    },
    Trial {
        name: "fio verify",
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
        case: "dbench -c /usr/share/dbench/client.txt -t 20 -D \"$PWD\" 4",
    },
    Trial {
        name: "stress-ng",
        case: "for what in access chmod chown dentry dir dirdeep dirmany fallocate filename flock \\
            fpunch getdent hdd io iomix link lockf mknod mmap msync open rename revio seek sendfile \\
            splice symlink sync-file touch utime copy-file fsize; do
            echo \"stress-ng $what\"
            stress-ng --quiet --temp-path . --$what 2 --$what-ops 100 --timeout 10 --verify
        done",
    },
];

/// Runs a trial in a folder; what it wrote, and whether all is well.
///
/// # Panics
/// If there is no shell.
#[must_use]
pub fn run(trial: Trial, folder: &Path, scratch: &Path, seconds: u64) -> (bool, String) {
    let path = std::env::var("PATH").unwrap_or_default();
    let tools = tools_folder().join("compiled/bin");
    let done = Command::new("timeout")
        .args(["--kill-after=5", &seconds.to_string(), "sh", "-e", "-c"])
        .arg(format!("exec 2>&1\n{}", trial.case))
        .current_dir(folder)
        .env("PATH", format!("{}:{path}:/usr/sbin", tools.display()))
        .env("scratch", scratch)
        .output()
        .expect("there is a shell");
    (done.status.success(), String::from_utf8_lossy(&done.stdout).into_owned())
}
