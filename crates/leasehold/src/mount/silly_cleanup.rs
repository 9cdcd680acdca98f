//! Removes silly names that a crashed mount has left on its server. A silly name is the hidden name
//! of a file that was removed while a program had it open. The next mount from the same server
//! removes it.
//!
//! A mount records each silly name in a record file of its own before it sends the rename to the
//! server, and marks the name as removed afterwards. The mount locks the record file while it runs,
//! so a record file without a lock belongs to a crashed mount. The record file is not synced: after
//! a power failure of this machine a silly name may stay on the server.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_client::{Aside, Client, Credential, Handle, Notes, remove_left};
use leasehold_shell::client::{Mounted, block_on};
use leasehold_shell::private::{self, Secrecy};
use leasehold_shell::state;

/// Starts to record the silly names of this mount, and removes the names that crashed mounts have
/// left. Records nothing if the only directory for record files is on the mount itself.
pub(crate) fn begin(found: &Mounted, client: &Client, machine: &str, directory: &Path) {
    let folder = state::default_directory().map(|state| state.join("mounts"));
    let Some(folder) = folder.filter(|folder| !super::is_on(directory, folder)) else {
        return;
    };
    let heading = heading(found);
    clean(&folder, &heading, found, machine);
    client.note_asides(Arc::new(Noted { folder, heading, notes: Mutex::default() }));
}

/// Returns the first line of a record file, which identifies the server.
fn heading(found: &Mounted) -> String {
    format!("{} version {}", found.server, found.nfs.version().number())
}

/// The recorded silly names of a mount.
struct Noted {
    folder: PathBuf,
    heading: String,
    notes: Mutex<Open>,
}

/// The open record file, while it contains names.
#[derive(Default)]
struct Open {
    file: Option<(PathBuf, File)>,
    names: BTreeSet<Vec<u8>>,
}

impl Notes for Noted {
    fn begun(&self, aside: &Aside) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let noted = self.note(&mut notes, aside);
        if let Err(error) = noted {
            tracing::warn!(%error, "cannot record a silly name: a file that is removed while open \
                                    may leave its data at the server");
        }
    }

    fn ended(&self, name: &[u8]) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if !notes.names.remove(name) {
            return;
        }
        if notes.names.is_empty()
            && let Some((path, _)) = notes.file.take()
        {
            let _ = fs::remove_file(path);
        } else if let Some((_, file)) = &mut notes.file {
            let _ = writeln!(file, "-{}", name.escape_ascii());
        }
    }
}

impl Noted {
    fn note(&self, notes: &mut Open, aside: &Aside) -> io::Result<()> {
        if notes.file.is_none() {
            notes.file = Some(new_file(&self.folder, &self.heading)?);
        }
        let Some((_, file)) = &mut notes.file else { return Ok(()) };
        file.write_all(line(aside).as_bytes())?;
        notes.names.insert(aside.name.clone());
        Ok(())
    }
}

fn new_file(folder: &Path, heading: &str) -> io::Result<(PathBuf, File)> {
    private::directory(folder)?;
    let chance = u64::from_ne_bytes(state::random()?);
    let path = folder.join(format!("aside-{chance:016x}"));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.lock()?;
    file.write_all(format!("{heading}\n").as_bytes())?;
    Ok((path, file))
}

/// Reads a record file. Rejects a file that another user could have written, because its lines
/// become calls with this user's rights.
fn text_of(path: &Path) -> Option<String> {
    String::from_utf8(private::read(path, Secrecy::Readable).ok()?).ok()
}

/// Removes the silly names that crashed mounts from the same server have left.
fn clean(folder: &Path, heading: &str, found: &Mounted, machine: &str) {
    let files = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let is_of_server =
        |text: &str| text.strip_prefix(heading).is_some_and(|rest| rest.starts_with('\n'));
    for path in files.map(|entry| entry.path()) {
        // Skip the record files of other servers without locking them, even briefly: a mount could
        // take the lock for the lock of a live mount.
        if !text_of(&path).is_some_and(|text| is_of_server(&text)) {
            continue;
        }
        let left = File::open(&path).ok().filter(|file| file.try_lock().is_ok());
        let Some(text) = left.as_ref().and_then(|_| text_of(&path)) else {
            continue;
        };
        let gone = left_in(&text, machine).iter().all(|aside| {
            let gone = block_on(remove_left(&found.nfs, aside));
            tracing::info!(name = %aside.name.escape_ascii(), gone,
                "a crashed mount left a silly name");
            gone
        });
        if gone {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Formats the line that records a silly name.
fn line(aside: &Aside) -> String {
    let Aside { who, directory, name } = aside;
    let hex: String = directory.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let groups: Vec<String> = who.groups().iter().map(u32::to_string).collect();
    let (uid, gid, groups) = (who.uid(), who.gid(), groups.join(","));
    format!("+{} {hex} {uid} {gid} {groups}\n", name.escape_ascii())
}

/// Returns the silly names that are not marked as removed. Ignores an incomplete line: the mount
/// crashed while it wrote the line, so it had not sent the rename yet.
fn left_in(text: &str, machine: &str) -> Vec<Aside> {
    let mut left: Vec<Aside> = Vec::new();
    for line in text.split_inclusive('\n').skip(1).filter_map(|line| line.strip_suffix('\n')) {
        if let Some(aside) = line.strip_prefix('+').and_then(|line| aside(line, machine)) {
            left.push(aside);
        } else if let Some(gone) = line.strip_prefix('-') {
            left.retain(|aside| aside.name != gone.as_bytes());
        }
    }
    left
}

fn aside(line: &str, machine: &str) -> Option<Aside> {
    let mut words = line.split(' ');
    let (name, hex) = (words.next()?, words.next()?);
    let (uid, gid) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let groups = words.next()?.split(',').filter(|group| !group.is_empty());
    let groups: Vec<u32> = groups.map(str::parse).collect::<Result<_, _>>().ok()?;
    let bytes =
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok());
    let directory = Handle::new(&bytes.collect::<Option<Vec<u8>>>()?)?;
    let who = Credential::system(machine, uid, gid, &groups);
    Some(Aside { who, directory, name: name.as_bytes().to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aside_of(name: &str) -> Aside {
        Aside {
            who: Credential::system("here", 7, 8, &[9, 10]),
            directory: Handle::new(&[0, 255, 16]).expect("it is short"),
            name: name.as_bytes().to_vec(),
        }
    }

    #[test]
    fn line_is_parsed_as_written() {
        let noted = aside_of(".nfs0123456789abcdef");
        let text = format!("server\n{}", line(&noted));
        assert_eq!(left_in(&text, "here"), [noted]);
    }

    #[test]
    fn removed_and_incomplete_names_are_ignored() {
        let (a, b, c) = (aside_of("a"), aside_of("b"), line(&aside_of("c")));
        let half = &c[..c.len() - 3];
        let text = format!("server\n{}{}-a\n{half}", line(&a), line(&b));
        assert_eq!(left_in(&text, "here"), [b]);
        assert_eq!(left_in("", "here"), []);
    }

    #[test]
    fn file_exists_while_it_contains_names() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("mounts");
        let noted =
            Noted { folder: path.clone(), heading: "server".to_owned(), notes: Mutex::default() };
        let files = || fs::read_dir(&path).expect("it was made").count();
        noted.begun(&aside_of("a"));
        noted.begun(&aside_of("b"));
        noted.ended(b"a");
        assert_eq!(files(), 1);
        let file = fs::read_dir(&path).expect("it was made").next().expect("there is one");
        let file = file.expect("it can be read").path();
        assert!(File::open(&file).expect("it is ours").try_lock().is_err(), "the mount is live");
        let text = fs::read_to_string(&file).expect("it is text");
        assert_eq!(left_in(&text, "here"), [aside_of("b")]);
        noted.ended(b"b");
        assert_eq!(files(), 0);
        noted.ended(b"b");
    }
}
