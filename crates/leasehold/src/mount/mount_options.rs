//! The options of a mount, in the form of `-o` and `/etc/fstab`.

use std::path::PathBuf;
use std::time::Duration;

use leasehold_fuse::MountOptions;
use leasehold_session::nfs::Version;
use leasehold_session::{Carrier, Options};
use leasehold_shell::client::SourcePort;

use super::caching::{self, Caching};
use super::ignored;

/// The time after which a call of a soft mount fails, unless an option sets another time.
const SOFT: Duration = Duration::from_mins(1);

/// The options of one mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) version: Option<Version>,
    pub(crate) port: Option<u16>,
    pub(crate) mount_port: Option<u16>,
    pub(crate) source_port: SourcePort,
    pub(crate) session: Options,
    /// True if the mount uses the least loaded metaserver of the file system instead of the named
    /// metaserver.
    pub(crate) least_busy: bool,
    pub(crate) caching: Caching,
    pub(crate) mount: MountOptions,
    /// The directory for written data that the server rejects.
    pub(crate) rescue: Option<PathBuf>,
    /// The options of mount.nfs that determine the time after which a call of a soft mount fails.
    waits: Waits,
    /// The options of the kernel's client that have no effect on this mount, each with the reason.
    pub(crate) ignored: Vec<(String, &'static str)>,
}

/// The values of `timeo` and `retrans`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Waits {
    /// The first timeout, in tenths of a second.
    tenths: Option<u32>,
    /// The number of retransmissions.
    again: Option<u32>,
    /// True if no other option sets the time after which a call of a soft mount fails.
    decide: bool,
}

impl Waits {
    /// The default of the kernel's client over TCP, in tenths of a second.
    const TENTHS: u32 = 600;
    /// The default number of retransmissions of the kernel's client.
    const RETRANSMISSIONS: u32 = 2;

    /// Returns the time after which a call of a soft mount fails; `None` if the user gave neither
    /// option.
    fn soft(self) -> Option<Duration> {
        (self.tenths.is_some() || self.again.is_some()).then(|| {
            let tenth = Duration::from_millis(100);
            let tries = self.again.unwrap_or(Self::RETRANSMISSIONS).saturating_add(1);
            (tenth * self.tenths.unwrap_or(Self::TENTHS)).saturating_mul(tries)
        })
    }
}

/// Returns the help text of the options.
pub(crate) fn help() -> String {
    format!("{PROTOCOL}\n{}\n{OTHERS}", caching::HELP)
}

const PROTOCOL: &str = "\
Options for -o, with commas between them:
  vers=3|2           the version of NFS [default: 3, else 2]
  proto=tcp|udp      the transport protocol [default: tcp]
  port=N             the port of NFS [default: the port from the portmapper, else 2049]
  mountport=N        the port of MOUNT [default: the port of NFS, or the port from the portmapper]
  hard               wait without limit for a server that does not reply [default]
  soft[=SECONDS]     fail with an I/O error after this time without a reply [default: 60, or
                     timeo=TENTHS for the first try and for each of retrans=N retries]
  rsize=N, wsize=N   the largest READ and WRITE, in bytes [default: the server's preference]
  inflight=N         concurrent calls on a connection [default: 64; over UDP 16]
  nconnect=N         connections [default: 1]
  least-busy         mount the least loaded of several metaservers of one file system, as reported
                     by HOST; mount HOST itself if it reports none or the other is unreachable";

const OTHERS: &str = "\
\x20 rescue=DIR         the directory for written data that the server later rejects
                     [default: /var/lib/leasehold/rescue, or in the home directory]
  noresvport         use any source port, also as root
  lock, local_lock=  accepted; locks are always local to this machine
  sync               each write is stable when it returns; noac means sync and actimeo=0
  default_permissions  the kernel checks mode bits before the server checks permissions
                     [default: only the server, which knows id maps, groups and access lists]
  ro, noexec, nosuid, nodev, noatime, allow_other   as for every mount
  remount            with these options: changes an existing mount; other options stay unchanged
  The mount accepts all options of nfs(5) and mount(8). It warns about each option without an effect
  and gives the reason; it rejects options for missing features: sec=krb5p, xprtsec=tls and others";

impl Default for Words {
    fn default() -> Self {
        Self {
            version: None,
            port: None,
            mount_port: None,
            source_port: SourcePort::default(),
            session: Options::stream(),
            least_busy: false,
            caching: Caching::default(),
            mount: MountOptions { decides_itself: true, ..MountOptions::default() },
            rescue: None,
            waits: Waits::default(),
            ignored: Vec::new(),
        }
    }
}

impl Words {
    /// Parses lists of options.
    ///
    /// # Errors
    /// Describes the first invalid option and the accepted values.
    pub(crate) fn read<'a>(lists: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let words: Vec<_> =
            lists.flat_map(|list| list.split(',')).filter(|word| !word.is_empty()).collect();
        let mut read = Self::default();
        // Read the transport protocol first, because it determines the defaults of other options,
        // which may precede it in the list.
        if words.iter().any(|word| matches!(*word, "udp" | "proto=udp" | "proto=udp6")) {
            read.session = Options::datagram();
        }
        let is_sloppy = words.contains(&"sloppy");
        for word in words {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            let known = read.of_protocol(name, value)?
                || read.of_waits(name, value)?
                || read.caching.take(name, value)?
                || read.of_mount(name, value);
            match known {
                true => {}
                false => read.without(word, (name, value), is_sloppy)?,
            }
        }
        if read.waits.decide && read.session.soft.is_some() {
            read.session.soft = read.waits.soft().or(Some(SOFT));
        }
        let is_datagram = read.session.carrier == Carrier::Datagram;
        if is_datagram && read.session.connections != 1 {
            return Err("nconnect needs proto=tcp".to_owned());
        }
        Ok(read)
    }

    /// Records an option that has no effect here, with the reason, or rejects the option.
    fn without(
        &mut self,
        word: &str,
        (name, value): (&str, Option<&str>),
        is_sloppy: bool,
    ) -> Result<(), String> {
        let reason = match ignored::reason(name, value) {
            Some(reason) => reason,
            None => match ignored::refusal(name, value) {
                Some(refusal) => return Err(refusal),
                None if is_sloppy => "unknown option",
                None => {
                    let hint = "see leasehold mount --help";
                    return Err(format!("unknown option {word}; {hint}"));
                }
            },
        };
        self.ignored.push((word.to_owned(), reason));
        Ok(())
    }

    /// Applies an option of NFS; returns true if the name is such an option.
    fn of_protocol(&mut self, name: &str, value: Option<&str>) -> Result<bool, String> {
        match (name, value) {
            ("vers" | "nfsvers", Some("3")) => self.version = Some(Version::V3),
            ("vers" | "nfsvers", Some("2")) => self.version = Some(Version::V2),
            ("vers" | "nfsvers", _) => return Err("vers is 3 or 2".to_owned()),
            ("proto", Some("tcp" | "udp" | "tcp6" | "udp6")) | ("tcp" | "udp", None) => {}
            ("proto", _) => return Err("proto is tcp or udp".to_owned()),
            ("port", _) => self.port = Some(number(name, value, 1)?),
            ("mountport", _) => self.mount_port = Some(number(name, value, 1)?),
            ("sec", Some("sys")) => {}
            ("sec", _) => return Err("only sec=sys is supported".to_owned()),
            ("hard", None) => self.session.soft = None,
            ("soft" | "softerr", None) => {
                (self.session.soft, self.waits.decide) = (Some(SOFT), true);
            }
            ("soft", _) => {
                self.waits.decide = false;
                self.session.soft = Some(Duration::from_secs(number(name, value, 1_u32)?.into()));
            }
            ("inflight", _) => {
                self.session.in_flight_max = usize::from(number(name, value, 1_u16)?);
            }
            ("nconnect", _) => self.session.connections = usize::from(number(name, value, 1_u8)?),
            ("noac", None) => {
                self.mount.synchronous = true;
                return self.caching.take("actimeo", Some("0"));
            }
            ("least-busy", None) => self.least_busy = true,
            ("noresvport", None) => self.source_port = SourcePort::Any,
            ("rescue", Some(directory)) => self.rescue = Some(directory.into()),
            // A mount always has these properties, so these options change nothing.
            ("ac", None)
            | ("xprtsec", Some("none"))
            | ("local_lock", Some("all" | "flock" | "posix")) => {}
            ("write", Some("wait")) => self.mount.synchronous = true,
            ("resvport", None) => self.source_port = SourcePort::PrivilegedIfPossible,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Applies an option that sets a timeout; returns true if the name is such an option. A call of
    /// a hard mount waits without limit.
    fn of_waits(&mut self, name: &str, value: Option<&str>) -> Result<bool, String> {
        match name {
            "timeo" => self.waits.tenths = Some(number(name, value, 1)?),
            "retrans" => self.waits.again = Some(number(name, value, 0)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Applies an option that every mount has; returns true if the name is such an option. Some of
    /// these options concern only mount(8), and others describe the fixed behaviour: for example,
    /// locks are local to this machine.
    fn of_mount(&mut self, name: &str, value: Option<&str>) -> bool {
        let mount = &mut self.mount;
        match name {
            "ro" => mount.read_only = true,
            "rw" => mount.read_only = false,
            "allow_other" => mount.allow_other = true,
            "default_permissions" => mount.decides_itself = false,
            "noexec" => mount.no_exec = true,
            "exec" => mount.no_exec = false,
            "nosuid" => mount.no_suid = true,
            "suid" => mount.no_suid = false,
            "nodev" => mount.no_dev = true,
            "dev" => mount.no_dev = false,
            "noatime" => mount.no_atime = true,
            "atime" => mount.no_atime = false,
            "sync" => mount.synchronous = true,
            "async" => mount.synchronous = false,
            "nosymfollow" => mount.no_symlinks = true,
            "defaults" | "sloppy" | "remount" | "auto" | "noauto" | "nofail" | "_netdev"
            | "user" | "users" | "nouser" | "owner" | "group" | "relatime" | "dirsync"
            | "nolock" => {}
            _ => {
                return name.starts_with("x-")
                    || name.starts_with("X-")
                    || name == "comment" && value.is_some();
            }
        }
        true
    }
}

/// Parses the numeric value of an option, with the minimum `least`.
pub(crate) fn number<T: std::str::FromStr + PartialOrd + std::fmt::Display + Copy>(
    name: &str,
    value: Option<&str>,
    least: T,
) -> Result<T, String> {
    let number = value.and_then(|value| value.parse().ok()).filter(|number| *number >= least);
    number.ok_or_else(|| format!("{name} needs a number, {least} or more: {name}=N"))
}

/// Parses the size of an option: bytes, or a multiple with K, M or G.
pub(crate) fn size(name: &str, value: Option<&str>) -> Result<u64, String> {
    let text = value.unwrap_or_default();
    let (digits, shift) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) => (
            digits,
            if text.ends_with('K') {
                10
            } else if text.ends_with('M') {
                20
            } else {
                30
            },
        ),
        None => (text, 0),
    };
    let bytes = digits.parse().ok().and_then(|number: u64| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| format!("{name} needs a size, such as {name}=64M"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &str) -> Result<Words, String> {
        Words::read([list].into_iter())
    }

    #[test]
    fn options_are_read() {
        assert_eq!(read("defaults,_netdev,x-systemd.automount,nolock,rw"), Ok(Words::default()));
        let words = read("ro,nosuid,port=2050,vers=2,soft=5,inflight=8,proto=udp").expect("fine");
        let is = (words.mount.read_only, words.mount.no_suid, words.port, words.version);
        assert_eq!(is, (true, true, Some(2050), Some(Version::V2)));
        let session = words.session;
        let is = (session.carrier, session.in_flight_max, session.soft);
        assert_eq!(is, (Carrier::Datagram, 8, Some(Duration::from_secs(5))));
        assert_ne!(read("cache=none,actimeo=7").expect("fine").caching, Caching::default());
        assert!(read("least-busy").expect("fine").least_busy && !Words::default().least_busy);
    }

    /// Regression test: the mount rejected a line of fstab that was written for the kernel's
    /// client, after only the file-system type in it was changed.
    #[test]
    fn fstab_line_of_kernel_client_is_accepted() {
        let list = "vers=3,proto=tcp,port=2049,mountport=2049,mountproto=tcp,nolock,hard,timeo=600,\
                    retrans=2,bg,noatime,_netdev,nofail";
        let words = read(list).expect("it is taken");
        assert_eq!(words.session.soft, None);
        let ignored: Vec<_> = words.ignored.iter().map(|(word, _)| word.as_str()).collect();
        assert_eq!(ignored, ["mountproto=tcp", "bg"]);
        assert!(read("sync").expect("fine").mount.synchronous);
        assert_eq!(read("noac"), read("actimeo=0,sync"));
        assert!(!read("sync,async").expect("fine").mount.synchronous);
        for (list, seconds) in [
            ("soft,timeo=50,retrans=3", 20),
            ("timeo=50,soft", 15),
            ("soft,retrans=0", 60),
            ("soft=60,timeo=50", 60),
            ("soft", 60),
        ] {
            let soft = read(list).expect("fine").session.soft;
            assert_eq!(soft, Some(Duration::from_secs(seconds)), "{list}");
        }
    }

    /// The options of nfs(5) and mount(8) for versions 3 and 2, except options for missing
    /// features.
    #[test]
    fn all_options_of_nfs_and_mount_are_accepted() {
        for list in [
            "soft,softerr,hard,softreval,nosoftreval,intr,nointr,timeo=600,retrans=2",
            "rsize=65536,wsize=65536,ac,actimeo=3,acregmin=3,acregmax=60,acdirmin=30,acdirmax=60",
            "bg,fg,nconnect=4,max_connect=2,rdirplus=force,nordirplus,retry=2,sec=sys",
            "sharecache,nosharecache,resvport,noresvport,lookupcache=all,lookupcache=pos,fsc,nofsc",
            "sloppy,xprtsec=none,proto=tcp6,tcp,port=2049,mountport=2049,mountproto=tcp6,mountvers=3",
            "namlen=255,lock,nolock,cto,acl,noacl,local_lock=none,local_lock=all,nfsvers=3,addr=::1",
            "write=eager,write=wait,trunkdiscovery,notrunkdiscovery,migration,clientaddr=::1",
            "async,atime,noatime,auto,noauto,defaults,dev,nodev,diratime,nodiratime,dirsync,exec",
            "noexec,group,iversion,noiversion,nomand,_netdev,nofail,relatime,norelatime,strictatime",
            "nostrictatime,lazytime,nolazytime,suid,nosuid,silent,loud,owner,remount,ro,rw,sync,user",
            "nouser,users,nosymfollow,X-mount.mkdir,x-systemd.automount,comment=x",
        ] {
            read(list).expect(list);
        }
        let words = read("noatime,nodiratime,lock,qqq=1,sloppy").expect("sloppy takes anything");
        let (words, reasons): (Vec<_>, Vec<_>) = words.ignored.into_iter().unzip();
        assert_eq!(words, ["nodiratime", "lock", "qqq=1"]);
        assert_eq!(reasons[1], "locks are local to this machine");
        assert!(read("softerr").expect("fine").session.soft.is_some());
        assert!(read("nosymfollow").expect("fine").mount.no_symlinks);
    }

    #[test]
    fn invalid_options_are_rejected() {
        for list in [
            "vers=4",
            "port=0",
            "port=x",
            "port",
            "cache=much",
            "timeo=0",
            "sec=krb5",
            "xprtsec=tls",
            "minorversion=1",
            "lookupcache=none",
            "context=x",
            "mand",
            "udp,nconnect=2",
        ] {
            read(list).expect_err(list);
        }
        let error = read("qqq").expect_err("there is no such option");
        assert_eq!(error, "unknown option qqq; see leasehold mount --help");
    }
}
