//! The options of a mount that say what it keeps, and for how long.

use std::time::Duration;

use leasehold_client::{Asking, Options, Variant};

use super::words::{number, size};

/// What is said of caching in the help.
pub(crate) const HELP: &str = "\
\x20 cache=none         keep nothing: each operation asks the server
  cache=buffer       keep all while it is trusted, for who is alone with the directory: an open
                     does not ask, and a close does not push; fsync does
  cache=close-to-open  an open asks whether the file has changed, a close pushes
  cache=lease        keep what the server grants a lease on: what other clients do is seen at once,
                     and a close pushes nothing; close-to-open where the server has no leases,
                     which is said, and names and directories by time where it leases files alone,
                     as strict metaservers do. What programs on the server itself change may be
                     seen late [default]
  leases=used|listed|named  what leases are asked for on by the way: what is used; and listings
                     bring attributes; and what names lead to [default: named]
  term=SECONDS       for how long leases are asked for, up to 60 [default: what the server likes]
  actimeo=SECONDS    how long names and attributes are trusted; or acregmin, acregmax, acdirmin and
                     acdirmax apart [default: files 3 to 60, directories 30 to 60]
  buffer=SIZE        data that is kept [default: 256M]
  unsaved=SIZE       written data that is not safe yet; who writes more waits [default: 64M]
  readahead=SIZE     how far a file that is read in order is read ahead [default: 4M]
  writedelay=SECONDS  how long written data is kept at most before it is sent [default: 5]
  stable=always      each WRITE is safe when it is answered, and needs no COMMIT
  filecalls=N        calls for the data of one file at once [default: 16]
  calls=N            the same for all files [default: 64]";

/// What is said about caching, where anything is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Caching {
    variant: Option<Variant>,
    asking: Option<Asking>,
    term: Option<Duration>,
    files: (Option<Duration>, Option<Duration>),
    directories: (Option<Duration>, Option<Duration>),
    buffer: Option<u64>,
    unsaved: Option<u64>,
    read_ahead: Option<u64>,
    write_delay: Option<Duration>,
    always_stable: bool,
    file_calls: Option<usize>,
    calls: Option<usize>,
    pub(crate) read_bytes: Option<u32>,
    pub(crate) write_bytes: Option<u32>,
}

impl Caching {
    /// Takes an option; says whether it is one of these.
    pub(crate) fn take(&mut self, name: &str, value: Option<&str>) -> Result<bool, String> {
        let seconds =
            || number(name, value, 0_u32).map(|seconds| Duration::from_secs(seconds.into()));
        match (name, value) {
            ("cache", Some("none")) => self.variant = Some(Variant::None),
            ("cache", Some("buffer")) => self.variant = Some(Variant::BufferCache),
            ("cache", Some("close-to-open")) => self.variant = Some(Variant::CloseToOpen),
            ("cache", Some("lease")) => self.variant = Some(Variant::Lease),
            ("cache", _) => {
                return Err("cache is none, buffer, close-to-open or lease".to_owned());
            }
            ("leases", Some("used")) => self.asking = Some(Asking::Used),
            ("leases", Some("listed")) => self.asking = Some(Asking::Listed),
            ("leases", Some("named")) => self.asking = Some(Asking::Named),
            ("leases", _) => return Err("leases is used, listed or named".to_owned()),
            ("term", _) => {
                self.term = Some(Duration::from_secs(number(name, value, 1_u32)?.into()));
            }
            ("actimeo", _) => {
                let both = (Some(seconds()?), Some(seconds()?));
                (self.files, self.directories) = (both, both);
            }
            ("acregmin", _) => self.files.0 = Some(seconds()?),
            ("acregmax", _) => self.files.1 = Some(seconds()?),
            ("acdirmin", _) => self.directories.0 = Some(seconds()?),
            ("acdirmax", _) => self.directories.1 = Some(seconds()?),
            ("buffer", _) => self.buffer = Some(size(name, value)?),
            ("unsaved", _) => self.unsaved = Some(size(name, value)?),
            ("readahead", _) => self.read_ahead = Some(size(name, value)?),
            ("writedelay", _) => self.write_delay = Some(seconds()?),
            ("stable", Some("always")) => self.always_stable = true,
            ("stable", _) => return Err("stable is always, or not given".to_owned()),
            ("filecalls", _) => self.file_calls = Some(number(name, value, 1_u16)?.into()),
            ("calls", _) => self.calls = Some(number(name, value, 1_u16)?.into()),
            ("rsize", _) => self.read_bytes = Some(number(name, value, 1)?),
            ("wsize", _) => self.write_bytes = Some(number(name, value, 1)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether leases are to be held where the server grants any.
    pub(crate) const fn wants_leases(&self) -> bool {
        matches!(self.variant, None | Some(Variant::Lease))
    }

    /// Whether leases were asked for by name.
    pub(crate) const fn names_leases(&self) -> bool {
        matches!(self.variant, Some(Variant::Lease))
    }

    /// The options of a client, where something else is said.
    pub(crate) fn apply(&self, usual: Options) -> Options {
        let times = |said: (Option<Duration>, Option<Duration>), usual: (Duration, Duration)| {
            let (min, max) = (said.0.unwrap_or(usual.0), said.1.unwrap_or(usual.1));
            // One that is given alone takes the other along.
            if said.1.is_some() { (min.min(max), max) } else { (min, max.max(min)) }
        };
        Options {
            variant: self.variant.unwrap_or(usual.variant),
            asking: self.asking.unwrap_or(usual.asking),
            term: self.term.unwrap_or(usual.term),
            bytes_max: self.buffer.unwrap_or(usual.bytes_max),
            unsaved_bytes_max: self.unsaved.unwrap_or(usual.unsaved_bytes_max),
            file_trust: times(self.files, usual.file_trust),
            directory_trust: times(self.directories, usual.directory_trust),
            read_bytes_max: self.read_bytes.unwrap_or(usual.read_bytes_max),
            write_bytes_max: self.write_bytes.unwrap_or(usual.write_bytes_max),
            ahead_bytes: self.read_ahead.unwrap_or(usual.ahead_bytes),
            write_delay: self.write_delay.unwrap_or(usual.write_delay),
            always_stable: self.always_stable || usual.always_stable,
            calls_of_file_max: self.file_calls.unwrap_or(usual.calls_of_file_max),
            calls_max: self.calls.unwrap_or(usual.calls_max),
            ..usual
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_base::units::FileTime;

    use super::*;

    fn options(list: &[(&str, &str)]) -> Options {
        let mut caching = Caching::default();
        for (name, value) in list {
            assert_eq!(caching.take(name, Some(value)), Ok(true), "{name}={value}");
        }
        caching.apply(Options::new(FileTime::default, 0))
    }

    #[test]
    fn what_is_not_said_is_as_usual() {
        let (plain, usual) = (options(&[]), Options::new(FileTime::default, 0));
        assert_eq!(format!("{plain:?}"), format!("{usual:?}"));
    }

    #[test]
    fn what_is_said_is_done() {
        let told = options(&[("cache", "buffer"), ("buffer", "2G"), ("unsaved", "512K")]);
        let is = (told.variant, told.bytes_max, told.unsaved_bytes_max);
        assert_eq!(is, (Variant::BufferCache, 2 << 30, 512 << 10));
        let told = options(&[("leases", "used"), ("term", "5")]);
        assert_eq!((told.asking, told.term), (Asking::Used, Duration::from_secs(5)));
        let told = options(&[("filecalls", "2"), ("calls", "4"), ("stable", "always")]);
        let is = (told.calls_of_file_max, told.calls_max, told.always_stable);
        assert_eq!(is, (2, 4, true));
        let told = options(&[("readahead", "0"), ("writedelay", "1"), ("rsize", "4096")]);
        let is = (told.ahead_bytes, told.write_delay, told.read_bytes_max);
        assert_eq!(is, (0, Duration::from_secs(1), 4096));
    }

    #[test]
    fn times_of_trust_stay_in_order() {
        let seconds = |(min, max): (Duration, Duration)| (min.as_secs(), max.as_secs());
        let told = options(&[("actimeo", "0")]);
        assert_eq!((seconds(told.file_trust), seconds(told.directory_trust)), ((0, 0), (0, 0)));
        let told = options(&[("acregmin", "100"), ("acdirmax", "10")]);
        assert_eq!(seconds(told.file_trust), (100, 100));
        assert_eq!(seconds(told.directory_trust), (10, 10));
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let mut caching = Caching::default();
        for (name, value) in [
            ("cache", "much"),
            ("buffer", "x"),
            ("buffer", "1T1"),
            ("stable", "no"),
            ("calls", "0"),
            ("leases", "all"),
            ("term", "0"),
        ] {
            caching.take(name, Some(value)).expect_err(name);
        }
        assert_eq!(caching.take("port", Some("1")), Ok(false));
    }
}
