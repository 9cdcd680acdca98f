//! The server's reports on its file systems equal the reports of this machine.

use std::fs::{self, File, FileTimes, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use leasehold_base::units::Cookie;
use leasehold_base::xdr::{Decode, Encode, Reader, Writer, decode_all};
use leasehold_wire::nfs3::{
    self, DirectoryArgs, Handle, Name, Status, fsinfo, fsstat, lookup, pathconf, read, readdir,
    write,
};
use rustix::fs::{StatVfs, statvfs};
use rustix::process::geteuid;

use crate::support::{
    Home, NFS, Serving, address, call, over_datagram, over_stream, root, success,
};

/// A server, and the directory that it serves.
struct Served {
    _serving: Serving,
    home: Home,
    address: SocketAddr,
    root: Handle,
}

/// The transport of a call.
type Way = fn(SocketAddr, &[u8]) -> Vec<u8>;

impl Served {
    fn new(home: Home, command: Command) -> Self {
        let serving = Serving::start(command);
        let ready = serde_json::from_str(&serving.line()).unwrap();
        let address = address(&ready);
        let root = Handle::new(&root(address)).unwrap();
        Self { _serving: serving, home, address, root }
    }

    /// Starts servers on both kinds of file systems: on a disk, and in memory.
    fn everywhere() -> [Self; 2] {
        [Home::new(), Home::within("/dev/shm")].map(|home| {
            let command = home.command(&["--json"]);
            Self::new(home, command)
        })
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.home.path("data"))
    }

    fn ask<D, F>(&self, way: Way, procedure: u32, args: &impl Encode) -> Result<D, Status>
    where
        for<'a> nfs3::Reply<D, F>: Decode<'a>,
    {
        let mut writer = Writer::new();
        args.encode(&mut writer);
        let message = call(NFS, procedure, &writer.finish().into_bytes());
        let reply = Bytes::from(way(self.address, &message));
        assert!(reply.starts_with(&success()), "{reply:?}");
        let results = reply.slice(success().len()..);
        match decode_all::<nfs3::Reply<D, F>>(&mut Reader::new(&results)).unwrap() {
            nfs3::Reply::Done(done) => Ok(done),
            nfs3::Reply::Failed(status, _) => Err(status),
        }
    }

    fn fsinfo(&self, way: Way) -> fsinfo::Done {
        let args = fsinfo::Args { root: self.root };
        self.ask::<_, Option<nfs3::Attributes>>(way, fsinfo::NUMBER, &args).unwrap()
    }

    /// Creates a file that all users may write, and returns its handle.
    fn file(&self, name: &str) -> (File, Handle) {
        let path = self.path(name);
        let file = File::create(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let args = DirectoryArgs { directory: self.root, name: Name(name.as_bytes()) };
        let found: lookup::Done =
            self.ask::<_, Option<nfs3::Attributes>>(over_stream, lookup::NUMBER, &args).unwrap();
        (file, found.object)
    }

    fn write(&self, file: Handle, offset: u64, data: Vec<u8>) -> Result<u32, Status> {
        let count = u32::try_from(data.len()).unwrap();
        let stability = write::Stability::Unstable;
        let args = write::Args { file, offset, count, stability, data: data.into() };
        let done: Result<write::Done, _> =
            self.ask::<_, nfs3::Wcc>(over_stream, write::NUMBER, &args);
        done.map(|done| done.count)
    }
}

#[test]
fn free_space_equals_the_system_report() {
    for served in Served::everywhere() {
        let path = served.path("");
        let room = |known: &StatVfs| {
            let bytes = [known.f_blocks, known.f_bfree, known.f_bavail];
            let bytes = bytes.map(|blocks| blocks * known.f_frsize);
            (bytes, [known.f_files, known.f_ffree, known.f_favail])
        };
        // Other programs use the disk too, and temporary changes are not visible afterwards: one
        // moment with three equal results suffices.
        let told = (0..10_000).find_map(|_| {
            let before = statvfs(path.as_str()).unwrap();
            let args = fsstat::Args { root: served.root };
            let told: fsstat::Done = served
                .ask::<_, Option<nfs3::Attributes>>(over_stream, fsstat::NUMBER, &args)
                .unwrap();
            let after = statvfs(path.as_str()).unwrap();
            let bytes = [told.bytes, told.free_bytes, told.available_bytes];
            // The caller is not root, so the reserve is not available.
            let as_told = (bytes, [told.files, told.free_files, told.available_files]);
            (room(&before) == as_told && as_told == room(&after)).then_some(told)
        });
        let told = told.expect("the report equals the system's while the disk is quiet");
        assert_eq!(told.steady_seconds, 0);
    }
}

#[test]
fn file_can_reach_the_reported_size_and_no_more() {
    for served in Served::everywhere() {
        let most = served.fsinfo(over_stream).file_bytes_max;
        let (file, handle) = served.file("large");
        assert_eq!(served.write(handle, most - 1, vec![1]), Ok(1));
        assert_eq!(file.metadata().unwrap().len(), most);
        // Checks with the system itself, if it supports a larger size.
        if most < i64::MAX.cast_unsigned() {
            assert!(file.set_len(most + 1).is_err(), "a file can be larger than {most}");
        }
        assert_eq!(served.write(handle, most, vec![1]), Err(Status::FileTooBig));
        file.set_len(0).unwrap();
    }
}

#[test]
fn limit_of_the_process_applies() {
    let home = Home::new();
    let plain = home.command(&["--json"]);
    let mut command = Command::new("prlimit");
    command.arg("--fsize=67108864").arg(plain.get_program()).args(plain.get_args());
    let served = Served::new(home, command);
    assert_eq!(served.fsinfo(over_stream).file_bytes_max, 64 << 20);
    let (_, handle) = served.file("large");
    assert_eq!(served.write(handle, (64 << 20) - 1, vec![1]), Ok(1));
    assert_eq!(served.write(handle, 64 << 20, vec![1]), Err(Status::FileTooBig));
}

#[test]
fn transfers_can_reach_the_reported_sizes() {
    for served in Served::everywhere() {
        let info = served.fsinfo(over_stream);
        let (_, handle) = served.file("data");
        let data = vec![7; info.write_bytes_max as usize];
        assert_eq!(served.write(handle, 0, data.clone()), Ok(info.write_bytes_max));
        let whole = |way: Way, count| {
            let args = read::Args { file: handle, offset: 0, count };
            served.ask::<read::Done, Option<nfs3::Attributes>>(way, read::NUMBER, &args).unwrap()
        };
        assert_eq!(whole(over_stream, info.read_bytes_max).data, data);
        // A server of an ordinary user rejects datagrams, because their senders cannot prove their
        // user.
        if geteuid().is_root() {
            let info = served.fsinfo(over_datagram);
            assert_eq!(whole(over_datagram, info.read_bytes_max).count, info.read_bytes_max);
            assert!(info.write_bytes_max < 65_536 && info.directory_bytes_best < 65_536);
        }
    }
}

#[test]
fn listings_fill_the_preferred_size() {
    for served in Served::everywhere() {
        for number in 0..3000 {
            File::create(served.path(&format!("a-name-of-some-length-{number:04}"))).unwrap();
        }
        let best = served.fsinfo(over_stream).directory_bytes_best;
        let args = readdir::Args {
            directory: served.root,
            cookie: Cookie::default(),
            verifier: [0; 8],
            count: best,
        };
        let mut writer = Writer::new();
        args.encode(&mut writer);
        let message = call(NFS, readdir::NUMBER, &writer.finish().into_bytes());
        let length = over_stream(served.address, &message).len() - success().len();
        let best = best as usize;
        assert!((best / 2..=best).contains(&length), "{length} bytes where {best} are best");
    }
}

#[test]
fn times_have_the_reported_resolution() {
    for served in Served::everywhere() {
        let step = served.fsinfo(over_stream).time_step;
        assert_eq!(step.seconds, 0);
        let (file, _) = served.file("timed");
        let wanted = SystemTime::UNIX_EPOCH + Duration::new(1, 999_999_999);
        file.set_times(FileTimes::new().set_modified(wanted)).unwrap();
        let kept = file.metadata().unwrap().modified().unwrap();
        let lost = wanted.duration_since(kept).unwrap();
        assert_eq!(lost + Duration::from_nanos(1), Duration::from_nanos(step.nanoseconds.into()));
    }
}

#[test]
fn names_can_reach_the_reported_length() {
    for served in Served::everywhere() {
        let args = pathconf::Args { object: served.root };
        let told: pathconf::Done = served
            .ask::<_, Option<nfs3::Attributes>>(over_stream, pathconf::NUMBER, &args)
            .unwrap();
        let name = |length: u32| served.path(&"n".repeat(length as usize));
        assert!(File::create(name(told.name_bytes_max)).is_ok());
        assert!(File::create(name(told.name_bytes_max + 1)).is_err() && told.refuses_long_names);
        assert!(told.case_preserving && !told.case_insensitive);
        File::create(served.path("name")).unwrap();
        assert!(!fs::exists(served.path("NAME")).unwrap());
        assert!(told.chown_restricted);
    }
}
