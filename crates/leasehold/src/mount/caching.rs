//! The options of a mount that control its cache.

use std::time::Duration;

use leasehold_client::{Asking, Options, Variant};

use super::mount_options::{number, size};

/// The help text on caching.
pub(crate) const HELP: &str = "\
\x20 cache=none         cache nothing: each operation calls the server
  cache=buffer       cache without checks until the attribute timeout, for a directory without other
                     users: open does not check and close does not write back; fsync does
  cache=close-to-open  open checks for changes of the file, close writes back
  cache=lease        cache under leases of the server: changes of other clients are visible at once,
                     and close does not write back. Without leases on the server the mount uses
                     close-to-open and reports it; with leases on files only, as of strict
                     metaservers, names and directories expire by time. Changes of programs on the
                     server itself may become visible late [default]
  leases=used|listed|named  the piggybacked lease requests: for used objects; also for listed
                     entries with attributes; also for looked-up names [default: named]
  term=SECONDS       the requested lease term, up to 60 [default: the server's preference]
  actimeo=SECONDS    the timeout of cached names and attributes; or acregmin, acregmax, acdirmin and
                     acdirmax separately [default: files 3 to 60, directories 30 to 60]
  buffer=SIZE        the size of the data cache [default: 256M]
  unsaved=SIZE       the limit on data that is not stable yet; writers wait above it [default: 64M]
  readahead=SIZE     the read-ahead of sequential reads [default: 4M]
  writedelay=SECONDS  the longest delay before written data is sent [default: 5]
  stable=always      each WRITE is stable when the server replies, and needs no COMMIT
  filecalls=N        concurrent calls for the data of one file [default: 16]
  calls=N            concurrent calls for the data of all files [default: 64]";

/// The caching options of the mount; `None` for each option that the user did not give.
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
    /// Applies an option; returns true if the option concerns caching.
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
            ("stable", _) => return Err("stable is always, or omitted".to_owned()),
            ("filecalls", _) => self.file_calls = Some(number(name, value, 1_u16)?.into()),
            ("calls", _) => self.calls = Some(number(name, value, 1_u16)?.into()),
            ("rsize", _) => self.read_bytes = Some(number(name, value, 1)?),
            ("wsize", _) => self.write_bytes = Some(number(name, value, 1)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns true if the mount uses leases when the server grants them.
    pub(crate) const fn wants_leases(&self) -> bool {
        matches!(self.variant, None | Some(Variant::Lease))
    }

    /// Returns true if the options request leases explicitly.
    pub(crate) const fn names_leases(&self) -> bool {
        matches!(self.variant, Some(Variant::Lease))
    }

    /// Returns the options of a client: the options of the user, and the defaults for all others.
    pub(crate) fn apply(&self, usual: Options) -> Options {
        let times = |said: (Option<Duration>, Option<Duration>), usual: (Duration, Duration)| {
            let (min, max) = (said.0.unwrap_or(usual.0), said.1.unwrap_or(usual.1));
            // If the user gives only one limit and it conflicts with the default of the other
            // limit, the default changes to the given value.
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
    fn missing_options_have_defaults() {
        let (plain, usual) = (options(&[]), Options::new(FileTime::default, 0));
        assert_eq!(format!("{plain:?}"), format!("{usual:?}"));
    }

    #[test]
    fn options_take_effect() {
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
    fn minimum_timeout_never_exceeds_maximum() {
        let seconds = |(min, max): (Duration, Duration)| (min.as_secs(), max.as_secs());
        let told = options(&[("actimeo", "0")]);
        assert_eq!((seconds(told.file_trust), seconds(told.directory_trust)), ((0, 0), (0, 0)));
        let told = options(&[("acregmin", "100"), ("acdirmax", "10")]);
        assert_eq!(seconds(told.file_trust), (100, 100));
        assert_eq!(seconds(told.directory_trust), (10, 10));
    }

    #[test]
    fn invalid_caching_options_are_rejected() {
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
