//! Lists directories and attributes, as text for people or as JSON for programs.

use std::io::{self, Write};

use leasehold_base::shown::{acts, shown};
use leasehold_files::{Follow, Remote, Servers, entries};
use leasehold_session::Error;
use leasehold_shell::client::{Address, block_on};
use leasehold_wire::nfs3::{Attributes, FileType, Time};
use serde::Serialize;

use super::options::{List, Stat};
use crate::failure::{Failure, Kind};

/// One object in the JSON output.
#[derive(Serialize)]
struct Entry {
    /// The address of the object. The address contains every byte of the name, while `name` may
    /// lack bytes that are not UTF-8.
    url: String,
    name: String,
    #[serde(rename = "type")]
    file_type: &'static str,
    mode: String,
    links: u32,
    uid: u32,
    gid: u32,
    size: u64,
    used: u64,
    file_system: u64,
    file_id: u64,
    accessed: f64,
    modified: f64,
    changed: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

/// Lists directories.
pub(crate) fn ls(options: &List) -> Result<(), Failure> {
    let servers = Servers::new(options.how.options())?;
    let mut out = io::stdout().lock();
    for address in &options.addresses {
        block_on(async {
            let place = servers.find(address, Follow::AllButLast).await?;
            // As with `ls`, a link to a directory shows the directory's contents, except with
            // --long.
            let is_followed = place.file_type() == FileType::Symlink && !options.long;
            let place =
                if is_followed { servers.find(address, Follow::Last).await? } else { place };
            if options.addresses.len() > 1 && !options.json {
                written(writeln!(out, "{address}:"))?;
            }
            if place.file_type() != FileType::Directory {
                let name = address.names().last().unwrap_or_default();
                return show(&mut out, options, (address.clone(), name), &place).await;
            }
            let because = |error| Kind::Running.because(format!("{address}: {error}"));
            let mut entries = entries(&place, servers.in_flight()).await.map_err(because)?;
            entries.sort_by(|(one, _), (other, _)| one.cmp(other));
            let mut failure = None;
            for (name, entry) in entries {
                let inside = address.within(&name);
                match entry {
                    Ok(entry) => show(&mut out, options, (inside, &name), &entry).await?,
                    // The object was removed after the directory was read: report the error, and
                    // continue with the other objects.
                    Err(error) => {
                        failure = Some(Kind::Running.because(format!("{inside}: {error}")));
                    }
                }
            }
            failure.map_or(Ok(()), Err)
        })?;
    }
    Ok(())
}

/// Prints the attributes of objects.
pub(crate) fn stat(options: &Stat) -> Result<(), Failure> {
    let servers = Servers::new(options.how.options())?;
    let mut out = io::stdout().lock();
    for address in &options.addresses {
        block_on(async {
            let place = servers.find(address, Follow::AllButLast).await?;
            let name = address.names().last().unwrap_or_default();
            let entry = entry(address, name, &place).await;
            let entry = entry.map_err(|it| Kind::Running.because(format!("{address}: {it}")))?;
            if options.json {
                return json(&mut out, &entry);
            }
            written(tell(&mut out, &place, &entry))
        })?;
    }
    Ok(())
}

async fn show(
    out: &mut impl Write,
    options: &List,
    (address, name): (Address, &[u8]),
    place: &Remote,
) -> Result<(), Failure> {
    if !options.long && !options.json {
        return written(writeln!(out, "{}", readable(name)));
    }
    let entry = entry(&address, name, place).await;
    let entry = entry.map_err(|error| Kind::Running.because(format!("{address}: {error}")))?;
    if options.json {
        return json(out, &entry);
    }
    let target = entry.target.map(|target| format!(" -> {target}")).unwrap_or_default();
    let attributes = &place.attributes;
    written(writeln!(
        out,
        "{}{} {:>3} {:>7} {:>7} {:>12} {} {}{target}",
        letter(attributes.file_type),
        permissions(attributes.mode),
        attributes.link_count,
        attributes.uid,
        attributes.gid,
        attributes.size,
        date(attributes.modified),
        readable(name),
    ))
}

async fn entry(address: &Address, name: &[u8], place: &Remote) -> Result<Entry, Error> {
    let Attributes { file_type, mode, link_count, uid, gid, size, used, .. } = place.attributes;
    let target = match file_type {
        FileType::Symlink => Some(readable(&place.target().await?)),
        FileType::Regular
        | FileType::Directory
        | FileType::BlockDevice
        | FileType::CharacterDevice
        | FileType::Socket
        | FileType::Fifo => None,
    };
    let Attributes { file_system, file_id, accessed, modified, changed, .. } = place.attributes;
    Ok(Entry {
        url: address.to_string(),
        name: String::from_utf8_lossy(name).into_owned(),
        file_type: kind(file_type),
        mode: format!("{mode:04o}"),
        links: link_count,
        uid,
        gid,
        size,
        used,
        file_system: file_system.0,
        file_id: file_id.0,
        accessed: seconds(accessed),
        modified: seconds(modified),
        changed: seconds(changed),
        target,
    })
}

fn tell(out: &mut impl Write, place: &Remote, entry: &Entry) -> io::Result<()> {
    writeln!(out, "{}", entry.url)?;
    writeln!(out, "  type      {}", entry.file_type)?;
    if let Some(target) = &entry.target {
        writeln!(out, "  target    {target}")?;
    }
    let attributes = &place.attributes;
    writeln!(out, "  mode      {} ({})", entry.mode, permissions(attributes.mode))?;
    writeln!(out, "  owner     {}:{}", entry.uid, entry.gid)?;
    writeln!(out, "  size      {} bytes, {} on disk", entry.size, entry.used)?;
    writeln!(out, "  links     {}", entry.links)?;
    writeln!(out, "  number    {} in file system {:x}", entry.file_id, entry.file_system)?;
    writeln!(out, "  accessed  {}", date(attributes.accessed))?;
    writeln!(out, "  modified  {}", date(attributes.modified))?;
    writeln!(out, "  changed   {}", date(attributes.changed))?;
    let bounds = &place.mounted.bounds;
    writeln!(
        out,
        "  server    {} (NFS {}, reads of {} bytes, writes of {})",
        place.mounted.server,
        place.mounted.nfs.version().number(),
        bounds.read_bytes,
        bounds.write_bytes
    )
}

fn json(out: &mut impl Write, entry: &Entry) -> Result<(), Failure> {
    let line = serde_json::to_string(entry).expect("plain fields can be written");
    written(writeln!(out, "{}", shown(&line)))
}

/// Ignores the error of a closed stdout, because the reader needs no more output.
fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Kind::Running.because(format!("cannot write to stdout: {error}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Formats a name as text; escapes terminal control characters.
fn readable(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    text.chars().map(|one| if acts(one) { '?' } else { one }).collect()
}

const fn letter(file_type: FileType) -> char {
    match file_type {
        FileType::Regular => '-',
        FileType::Directory => 'd',
        FileType::BlockDevice => 'b',
        FileType::CharacterDevice => 'c',
        FileType::Symlink => 'l',
        FileType::Socket => 's',
        FileType::Fifo => 'p',
    }
}

const fn kind(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Regular => "file",
        FileType::Directory => "directory",
        FileType::BlockDevice => "block device",
        FileType::CharacterDevice => "character device",
        FileType::Symlink => "symlink",
        FileType::Socket => "socket",
        FileType::Fifo => "fifo",
    }
}

/// Formats permission bits as `rwxr-xr-x`, and the set-id and sticky bits as `ls` does.
fn permissions(mode: u32) -> String {
    let mut text = String::new();
    for (shift, above, lower, upper) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & above != 0, bits & 1 != 0) {
            (true, true) => lower,
            (true, false) => upper,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

fn seconds(time: Time) -> f64 {
    f64::from(time.seconds) + f64::from(time.nanoseconds) / 1e9
}

/// Formats a time as `2026-01-31 12:34:56`, in UTC.
fn date(time: Time) -> String {
    let (days, second) = (time.seconds / 86_400, time.seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02}", second % 60)
}

/// Converts days since 1970-01-01 into a date. The algorithm counts eras of 400 years whose years
/// begin in March, so that the leap day is the last day of a year.
const fn civil(days: u32) -> (u32, u32, u32) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_modes_have_usual_format() {
        let at = |seconds| date(Time { seconds, nanoseconds: 0 });
        assert_eq!(at(0), "1970-01-01 00:00:00");
        assert_eq!(at(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(at(u32::MAX), "2106-02-07 06:28:15");
        assert_eq!(permissions(0o0755), "rwxr-xr-x");
        assert_eq!(permissions(0o7640), "rwSr-S--T");
        assert_eq!(permissions(0o1777), "rwxrwxrwt");
        assert_eq!(readable(b"a\x1b[31mb"), "a?[31mb");
        assert_eq!(readable("a\u{202e}b\u{9b}c\n".as_bytes()), "a?b?c?");
    }
}
