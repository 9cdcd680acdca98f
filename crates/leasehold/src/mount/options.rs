//! The command-line options of `mount`, `umount` and `mount.leasehold`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tracing_subscriber::filter::LevelFilter;

use super::mount_options::help;
use super::source::Source;

/// Mount a directory of an NFS server (version 3 or 2) by FUSE
///
/// Returns when the mount is complete, and runs in the background. `leasehold umount DIR` and
/// `umount DIR` end the mount; `leasehold status --mount DIR` shows its state. Locks are local to
/// this machine: other clients do not see them.
#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub(crate) struct Mount {
    /// The server and the exported directory
    #[arg(value_name = "HOST[:PORT]:/EXPORT")]
    pub(crate) source: Source,

    /// The mount point
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Options in the form of mount(8); may be given several times
    #[arg(short, long = "options", value_name = "OPTIONS")]
    pub(crate) options: Vec<String>,

    /// Mount read-only, as with -o ro
    #[arg(short, long)]
    pub(crate) read_only: bool,

    /// Stay in the foreground, and log to stderr
    #[arg(short, long)]
    pub(crate) foreground: bool,

    /// Check the options and the mount point, but mount nothing, as with -f of mount(8)
    #[arg(long)]
    pub(crate) fake: bool,

    /// The log file of a mount in the background [default: no log]
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,

    /// The log level: off, error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", env = "LEASEHOLD_LOG", default_value = "warn")]
    pub(crate) log: LevelFilter,

    /// Report on stdout that the mount is complete; only for the process in the background
    #[arg(long, hide = true)]
    pub(crate) tell: bool,
}

/// End a mount after all written data is stable on the server
#[derive(Debug, clap::Args)]
pub(crate) struct Umount {
    /// The mount point
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Detach a mount that is in use or whose server is unreachable; it ends after its last use
    #[arg(short, long)]
    pub(crate) lazy: bool,
}

/// Translates the arguments of `mount.leasehold` into arguments of `leasehold`: mount(8) runs that
/// program for `-t leasehold`. Also translates the arguments with which `mount.fuse` runs
/// `leasehold` itself, for `-t fuse.leasehold` and for `-o remount`. Drops arguments of mount(8)
/// that concern other file systems. Returns `None` if neither program ran this one.
pub(crate) fn of_helper(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let (name, arguments) = arguments.split_first()?;
    let is_helper = Path::new(name).file_name().is_some_and(|name| name == "mount.leasehold");
    // No subcommand contains `:/`, so a first argument with `:/` is the source of a mount.
    let by_fuse = arguments.first().is_some_and(|first| first.to_string_lossy().contains(":/"));
    (is_helper || by_fuse).then(|| {
        let mut wanted = vec![name.clone(), "mount".into()];
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            // Skip the file-system type, and the name space that mount(8) has already entered, each
            // with its value.
            if argument == "-t" || argument == "-N" {
                rest.next();
                continue;
            }
            match letters(argument) {
                Some(letters) if letters.contains('f') => wanted.push("--fake".into()),
                Some(_) => {}
                None => wanted.push(argument.clone()),
            }
        }
        wanted
    })
}

/// Returns the letters of an argument that consists of flags. mount(8) passes these flags to each
/// helper: sloppy, fake, no table, verbose.
fn letters(argument: &OsString) -> Option<&str> {
    let letters = argument.to_str()?.strip_prefix('-')?;
    let are_known = letters.chars().all(|letter| "sfnv".contains(letter));
    (are_known && !letters.is_empty()).then_some(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_helper_translates_arguments_of_mount() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let called = words("/sbin/mount.leasehold a:/b /mnt -s -o rw,port=7 -t leasehold");
        let expected = words("/sbin/mount.leasehold mount a:/b /mnt -o rw,port=7");
        assert_eq!(of_helper(&called), Some(expected));
        assert_eq!(of_helper(&words("leasehold mount a:/b /mnt")), None);
        let called = words("leasehold a:/b /mnt -o remount,ro");
        let expected = words("leasehold mount a:/b /mnt -o remount,ro");
        assert_eq!(of_helper(&called), Some(expected), "mount.fuse runs it so");
    }

    /// `mount -fav` tests all lines of fstab and must not mount them.
    #[test]
    fn mount_helper_does_not_mount_with_fake_flag() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        for letters in ["-f -v", "-fv", "-sfn"] {
            let called = words(&format!("/sbin/mount.leasehold a:/b /mnt {letters} -o rw"));
            let helped = of_helper(&called).expect("it is the helper");
            assert!(helped.contains(&"--fake".into()), "{helped:?}");
        }
    }
}
