//! Access to files and directories that no other user can have written, such as the state of a
//! server and keys.
//!
//! A user who can write the state of a server can access every object of its exports: the state
//! contains the key of handles, the list of clients that hold leases, and a log of changes to
//! replay. A server that runs as root would then do work of root for that user (a confused deputy).
//! The rules are therefore the rules of ssh:
//!
//! 1. A file or directory belongs to the user of the process, or to root.
//! 2. Neither its group nor other users may write it.
//! 3. A secret of the user of the process gives its group and other users no permission at all. A
//!    secret of root may be readable by a group, because root gives a service access to a key in
//!    this way.
//! 4. The process follows no symbolic link in place of a file, and reads only regular files.
//! 5. A symbolic link in place of a directory belongs to the user of the process, or to root. A
//!    link of another user could make the process write to a directory of root that is not a state
//!    directory.
//!
//! The rules do not check the directories above a state directory: another user who can replace the
//! state directory cannot create a directory that satisfies rule 1.

use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::own;

/// The maximum size of a file that a server reads at once, in bytes, which exceeds any real file.
const BYTES_MAX: u64 = 64 << 20;

/// The secrecy of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrecy {
    /// Other users may read the file, and not write it.
    Readable,
    /// Other users may neither read nor write the file.
    Secret,
}

/// Creates a directory for the user of the process alone if it does not exist; rejects a directory
/// that another user could have written.
///
/// # Errors
/// The directory cannot be created, is not a directory, or breaks a rule.
pub fn directory(path: &Path) -> io::Result<File> {
    own::must_be_own();
    judge_link(path)?;
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    judge(&directory.metadata()?, Secrecy::Readable)?;
    Ok(directory)
}

/// Rejects a symbolic link of another user in place of a directory. Rule 5.
fn judge_link(path: &Path) -> io::Result<()> {
    // The system follows a link if the path ends with a slash, so the check removes trailing
    // slashes.
    let place: PathBuf = path.components().collect();
    let own = rustix::process::geteuid().as_raw();
    match place.symlink_metadata() {
        Ok(seen) if seen.is_symlink() && seen.uid() != own && seen.uid() != 0 => {
            let owner = seen.uid();
            Err(refused(format!(
                "is a symbolic link of the user {owner}, and the server runs as {own}: name the \
                 directory itself"
            )))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns true if a path is a directory of the user of the process that no other user may write.
/// Returns false for a symbolic link.
#[must_use]
pub fn is_own_directory(path: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    path.symlink_metadata().is_ok_and(|seen| {
        seen.is_dir() && seen.uid() == own && judge(&seen, Secrecy::Readable).is_ok()
    })
}

/// Reads a whole file, and checks that no other user can have written the file.
///
/// # Errors
/// The file cannot be read, breaks a rule, or is larger than 64 MiB.
pub fn read(path: &Path, secrecy: Secrecy) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, OFlags::RDONLY, secrecy)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match u64::try_from(bytes.len()).is_ok_and(|length| length <= BYTES_MAX) {
        true => Ok(bytes),
        false => Err(refused("is larger than any file of the state".to_owned())),
    }
}

/// Opens a file, and checks that no other user can have written the file. A new file is accessible
/// to its owner only.
///
/// # Errors
/// The file cannot be opened or breaks a rule.
pub fn open(path: &Path, flags: OFlags, secrecy: Secrecy) -> io::Result<File> {
    let file = open_itself(path, flags)?;
    judge(&file.metadata()?, secrecy)?;
    Ok(file)
}

/// Opens a file in a directory that may belong to another user. In rule 1 the owner of the
/// directory counts like the user of the process. For example, root may migrate the metafiles of a
/// volume that belong to the user of a metaserver. A new file is accessible to its owner only.
///
/// # Errors
/// As [`open`].
pub fn open_beside(path: &Path, flags: OFlags) -> io::Result<File> {
    let file = open_itself(path, flags)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let seen = file.metadata()?;
    let owner = folder.unwrap_or(Path::new(".")).metadata()?.uid();
    match seen.uid() == owner {
        true => judge_mode(&seen, Secrecy::Readable, true)?,
        false => judge(&seen, Secrecy::Readable)?,
    }
    Ok(file)
}

/// Opens a regular file. Rule 4.
fn open_itself(path: &Path, flags: OFlags) -> io::Result<File> {
    own::must_be_own();
    // Without NONBLOCK the open of a pipe or a device could block the process.
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR) {
        Err(Errno::LOOP) => {
            return Err(refused("is a symbolic link: put the file itself there".to_owned()));
        }
        opened => File::from(opened?),
    };
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(refused("is no regular file".to_owned())),
    }
}

/// Checks an open file or directory against rules 1 to 3.
///
/// # Errors
/// The rule that the file breaks, with the command that repairs the file.
pub fn judge(seen: &Metadata, secrecy: Secrecy) -> io::Result<()> {
    let (own, owner) = (rustix::process::geteuid().as_raw(), seen.uid());
    // Rule 1.
    if owner != own && owner != 0 {
        let text = format!(
            "belongs to the user {owner}, and the server runs as {own}: give it to that user with \
             `chown {own}`, or name another one"
        );
        return Err(refused(text));
    }
    judge_mode(seen, secrecy, owner == own)
}

/// Checks the mode of an open file or directory. Rules 2 and 3.
fn judge_mode(seen: &Metadata, secrecy: Secrecy, is_own: bool) -> io::Result<()> {
    let mode = seen.mode();
    let (forbidden, lacks) = match (secrecy, is_own) {
        (Secrecy::Readable, _) => (0o022, "go-w"),
        (Secrecy::Secret, true) => (0o077, "go="),
        (Secrecy::Secret, false) => (0o027, "g-w,o="),
    };
    match mode & forbidden {
        0 => Ok(()),
        found => {
            let what = if found & 0o022 == 0 { "read" } else { "written" };
            Err(refused(format!(
                "may be {what} by other users (mode {:o}): remove the right with `chmod {lacks}`",
                mode & 0o7777
            )))
        }
    }
}

fn refused(text: String) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, text)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is the test's own");
    }

    #[test]
    fn file_writable_by_others_is_refused() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let path = home.path().join("note");
        fs::write(&path, "text").expect("there is room");
        for (mode, secrecy, word) in [
            (0o644, Secrecy::Readable, None),
            (0o664, Secrecy::Readable, Some("written")),
            (0o646, Secrecy::Readable, Some("written")),
            (0o600, Secrecy::Secret, None),
            (0o400, Secrecy::Secret, None),
            (0o640, Secrecy::Secret, Some("read")),
            (0o604, Secrecy::Secret, Some("read")),
            (0o620, Secrecy::Secret, Some("written")),
        ] {
            set(&path, mode);
            match (read(&path, secrecy), word) {
                (Ok(text), None) => assert_eq!(text, b"text"),
                (Err(error), Some(word)) => {
                    let text = error.to_string();
                    assert!(text.contains(word) && text.contains("chmod"), "{mode:o}: {text}");
                }
                (other, _) => panic!("{mode:o} {secrecy:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn directory_writable_by_others_is_refused() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let path = home.path().join("state");
        directory(&path).expect("it is made");
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        for (mode, is_good) in [(0o755, true), (0o770, false), (0o707, false), (0o1777, false)] {
            set(&path, mode);
            assert_eq!(directory(&path).is_ok(), is_good, "{mode:o}");
            assert_eq!(is_own_directory(&path), is_good, "{mode:o}");
        }
    }

    #[test]
    fn links_and_irregular_files_are_refused() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let [real, link, pipe] = ["real", "link", "pipe"].map(|name| home.path().join(name));
        fs::write(&real, "text").expect("there is room");
        symlink(&real, &link).expect("there is room");
        let error = read(&link, Secrecy::Readable).expect_err("it is a link");
        assert!(error.to_string().contains("symbolic link"), "{error}");
        // The open of a dangling link must fail and must not create the target of the link.
        let nowhere = home.path().join("nowhere");
        symlink(home.path().join("made"), &nowhere).expect("there is room");
        open(&nowhere, OFlags::RDWR | OFlags::CREATE, Secrecy::Readable).expect_err("a link");
        assert!(!home.path().join("made").exists());
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0)
            .expect("there is room");
        let error = read(&pipe, Secrecy::Readable).expect_err("it is a pipe");
        assert!(error.to_string().contains("no regular file"), "{error}");
    }

    #[test]
    fn link_of_another_user_to_a_directory_is_refused() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let [real, link] = ["real", "link"].map(|name| home.path().join(name));
        directory(&real).expect("it is made");
        symlink(&real, &link).expect("there is room");
        directory(&link).expect("the link is the user's own");
        // Only root may change the owner of a link, so the rest of the test needs root.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        std::os::unix::fs::lchown(&link, Some(12_345), None).expect("root may");
        for path in [link.clone(), link.join("")] {
            let error = directory(&path).expect_err("the link is another user's").to_string();
            assert!(error.contains("symbolic link of the user 12345"), "{error}");
        }
    }

    #[test]
    fn file_of_another_user_is_refused() {
        let home = tempfile::tempdir().expect("a directory for the test");
        let path = home.path().join("note");
        fs::write(&path, "text").expect("there is room");
        // Only root can change the owner of a file, so other users cannot break rule 1 in this
        // test.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        set(&path, 0o600);
        chown(&path, Some(12_345), None).expect("root may");
        let error = read(&path, Secrecy::Secret).expect_err("it is another user's");
        assert!(error.to_string().contains("12345"), "{error}");
        chown(home.path(), Some(12_345), None).expect("root may");
        directory(home.path()).expect_err("it is another user's");
    }
}
