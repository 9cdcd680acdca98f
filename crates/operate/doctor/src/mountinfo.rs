//! The mounted file systems, from `/proc/self/mountinfo`.

use std::path::{Path, PathBuf};

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The kernel's id of the mount, as reported by `statx`.
    pub id: u64,
    /// The mount point.
    pub point: PathBuf,
    /// The type of the file system: `ext4`, `nfs4`.
    pub kind: String,
    /// The source: a device, or a server and a path.
    pub source: String,
    /// The options of the mount, then the options of the file system.
    pub options: Vec<String>,
}

impl Mount {
    /// Returns true for a mount of the kernel's NFS client.
    #[must_use]
    pub fn is_nfs(&self) -> bool {
        self.kind == "nfs" || self.kind == "nfs4"
    }

    /// Returns true if the mount has an option without a value.
    #[must_use]
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|one| one == option)
    }

    /// Returns the value of an option.
    #[must_use]
    pub fn value(&self, option: &str) -> Option<&str> {
        self.options.iter().find_map(|one| one.strip_prefix(option)?.strip_prefix('='))
    }

    /// Returns the value of an option as a number.
    #[must_use]
    pub fn number(&self, option: &str) -> Option<u64> {
        self.value(option)?.parse().ok()
    }
}

/// Returns every mount of this process' namespace; none without `/proc`.
#[must_use]
pub fn read() -> Vec<Mount> {
    mounts(&std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
}

/// Parses all mounts, in the order of their creation.
#[must_use]
pub fn mounts(text: &str) -> Vec<Mount> {
    text.lines().filter_map(mount).collect()
}

/// Returns the mount that contains a path: of the mounts with the longest matching mount point, the
/// last mount, because it hides the earlier mounts.
#[must_use]
pub fn below<'a>(path: &Path, mounts: &'a [Mount]) -> Option<&'a Mount> {
    let fronts = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    fronts.max_by_key(|mount| mount.point.components().count())
}

/// Parses a line with the fields: id, parent, device, root, mount point, options, optional fields,
/// `-`, type, source, options of the file system.
fn mount(line: &str) -> Option<Mount> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ');
    let id = mount.next()?.parse().ok()?;
    let mut mount = mount.skip(3);
    let (point, options) = (mount.next()?, mount.next()?);
    let mut file_system = file_system.split(' ');
    let (kind, source) = (file_system.next()?, file_system.next()?);
    let own = file_system.next().unwrap_or_default();
    Some(Mount {
        id,
        point: plain(point).into(),
        kind: kind.to_owned(),
        source: plain(source),
        options: options.split(',').chain(own.split(',')).map(str::to_owned).collect(),
    })
}

/// Decodes the escapes of a field: `\040` is a blank.
fn plain(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|code| u8::from_str_radix(code, 8).ok());
        match code {
            Some(code) => {
                text.push(char::from(code));
                text.push_str(&part[3..]);
            }
            None => text.push_str(part),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,data=ordered
30 21 0:40 / /mnt/a\\040b rw,nosuid shared:9 master:1 - nfs host:/x rw,vers=3,soft,timeo=600
31 30 0:41 / /mnt/a\\040b/in ro - tmpfs none rw
";

    #[test]
    fn mounts_are_parsed_and_found() {
        let all = mounts(TEXT);
        assert_eq!(all.iter().map(|mount| mount.id).collect::<Vec<_>>(), [21, 30, 31]);
        let found = below(Path::new("/mnt/a b/folder"), &all).expect("the root holds all");
        assert!(found.is_nfs() && found.has("soft") && found.has("nosuid"));
        assert_eq!((found.number("timeo"), found.value("vers")), (Some(600), Some("3")));
        assert_eq!(below(Path::new("/mnt/a b/in/x"), &all).map(|one| &*one.kind), Some("tmpfs"));
        assert_eq!(below(Path::new("/mnt/a"), &all).map(|one| &*one.source), Some("/dev/vda"));
        assert_eq!(mounts("nonsense\n\n1 2 3 - x\n"), []);
    }
}
