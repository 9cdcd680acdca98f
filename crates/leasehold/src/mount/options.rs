//! What can be said on the command lines of `mount`, `umount` and `mount.leasehold`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tracing_subscriber::filter::LevelFilter;

use super::source::Source;
use super::words::help;

/// Mount a directory of an NFS server, versions 3 and 2, by FUSE
///
/// Returns when the mount stands, and goes on in the background. `leasehold umount DIR` and
/// `umount DIR` end it; `leasehold status --mount DIR` says how it goes. Locks are this machine's
/// own: other clients do not see them.
#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub(crate) struct Mount {
    /// What to mount
    #[arg(value_name = "HOST[:PORT]:/EXPORT")]
    pub(crate) source: Source,

    /// Where: a directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// Options as mount(8) takes them; may be given several times
    #[arg(short, long = "options", value_name = "OPTIONS")]
    pub(crate) options: Vec<String>,

    /// Nothing can be changed there: as -o ro
    #[arg(short, long)]
    pub(crate) read_only: bool,

    /// Stay in the foreground, and log to stderr
    #[arg(short, long)]
    pub(crate) foreground: bool,

    /// Check the options and the directory, and mount nothing: mount(8) says -f for this
    #[arg(long)]
    pub(crate) fake: bool,

    /// Where to log to in the background [default: nowhere]
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,

    /// What to log: off, error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", env = "LEASEHOLD_LOG", default_value = "warn")]
    pub(crate) log: LevelFilter,

    /// Say on stdout that the mount stands: how the process in the background tells
    #[arg(long, hide = true)]
    pub(crate) tell: bool,
}

/// End a mount, when all that was written is safe
#[derive(Debug, clap::Args)]
pub(crate) struct Umount {
    /// The directory of the mount
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,

    /// End it also while it is in use or its server is away: it goes when its last user has
    #[arg(short, long)]
    pub(crate) lazy: bool,
}

/// The arguments of `leasehold` for those of `mount.leasehold`, the program that mount(8) runs for
/// `-t leasehold`, or for those of `leasehold` itself, which `mount.fuse` runs for
/// `-t fuse.leasehold` and for `-o remount`; nothing if the program has another name. Further
/// arguments of mount(8) are for other file systems.
pub(crate) fn of_helper(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let (name, arguments) = arguments.split_first()?;
    let is_helper = Path::new(name).file_name().is_some_and(|name| name == "mount.leasehold");
    // No subcommand has a slash in its name.
    let by_fuse = arguments.first().is_some_and(|first| first.to_string_lossy().contains(":/"));
    (is_helper || by_fuse).then(|| {
        let mut wanted = vec![name.clone(), "mount".into()];
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            // The type, and a name space that mount(8) has entered already.
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

/// The letters of the flags that mount(8) passes to each helper: sloppy, fake, no table, verbose.
fn letters(argument: &OsString) -> Option<&str> {
    let letters = argument.to_str()?.strip_prefix('-')?;
    let are_known = letters.chars().all(|letter| "sfnv".contains(letter));
    (are_known && !letters.is_empty()).then_some(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_of_mount_takes_what_mount_says() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let called = words("/sbin/mount.leasehold a:/b /mnt -s -o rw,port=7 -t leasehold");
        let expected = words("/sbin/mount.leasehold mount a:/b /mnt -o rw,port=7");
        assert_eq!(of_helper(&called), Some(expected));
        assert_eq!(of_helper(&words("leasehold mount a:/b /mnt")), None);
        let called = words("leasehold a:/b /mnt -o remount,ro");
        let expected = words("leasehold mount a:/b /mnt -o remount,ro");
        assert_eq!(of_helper(&called), Some(expected), "mount.fuse runs it so");
    }

    /// An administrator tries a line of fstab by `mount -fav`.
    #[test]
    fn the_helper_of_mount_mounts_nothing_where_that_is_fake() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        for letters in ["-f -v", "-fv", "-sfn"] {
            let called = words(&format!("/sbin/mount.leasehold a:/b /mnt {letters} -o rw"));
            let helped = of_helper(&called).expect("it is the helper");
            assert!(helped.contains(&"--fake".into()), "{helped:?}");
        }
    }
}
