//! Leases of a running server: a holder on a connection of its own, plain clients beside it, and
//! an administrator.

mod full;
mod starved;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Decode, Encode, Reader, Writer, decode_all};
use leasehold_wire::lease::callback::evict;
use leasehold_wire::lease::{self, Answer, Caller, ClientName, Kind, Open, Terms, hello, leases};
use leasehold_wire::list::UpTo;
use leasehold_wire::nfs3::{DirectoryArgs, Handle, Name, Status, lookup, read};
use leasehold_wire::rpc;
use rustix::process::{Signal, getegid, geteuid};

use crate::support::{
    Home, Serving, TIMEOUT, address, call_as, leasehold, opaque, ordinary, over, over_stream, root,
    run,
};

const CLIENT: [u8; 16] = *b"a client's name.";

/// A client that holds leases.
struct Holder {
    stream: TcpStream,
    epoch: u64,
}

fn bytes(value: &impl Encode) -> Bytes {
    let mut writer = Writer::new();
    value.encode(&mut writer);
    writer.finish().into_bytes()
}

impl Holder {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        Self { stream, epoch: 0 }
    }

    fn hello(&mut self) -> hello::Welcome {
        let name = ClientName(b"laptop");
        let args = hello::Args { client: CLIENT, instance: 1, name };
        let answer: hello::Reply = self.call(hello::NUMBER, &args);
        let Answer::Done(done) = answer else { panic!("{answer:?}") };
        self.epoch = done.results.epoch;
        done.results
    }

    fn caller(&self) -> Caller {
        Caller { client: CLIENT, instance: 1, epoch: self.epoch }
    }

    fn wanted(&mut self, object: Handle, kind: Kind) -> leases::Reply {
        let terms = Terms { kind, term_ms: 0, opportune: false, space: 0 };
        let args = leases::Args {
            caller: self.caller(),
            wanted: UpTo(vec![leases::Wanted { object, terms, reclaim: false }]),
            returned: UpTo(Vec::new()),
            progress: leases::Progress::Recovered,
        };
        self.call(leases::NUMBER, &args)
    }

    /// Requests a lease until the server grants it; earlier calls may delay the grant.
    fn granted(&mut self, object: Handle, kind: Kind) -> lease::Grant {
        let end = Instant::now() + TIMEOUT;
        loop {
            let answer = self.wanted(object, kind);
            if let Answer::Done(done) = &answer
                && let [held] = done.results.held.0[..]
            {
                return held.grant;
            }
            assert!(Instant::now() < end, "{answer:?}");
            thread::yield_now();
        }
    }

    /// Requests a lease until the client may cache: while another test starts a program, the kernel
    /// briefly counts the file as open in the forked process.
    fn cachable(&mut self, object: Handle, kind: Kind) -> lease::Grant {
        let end = Instant::now() + TIMEOUT;
        loop {
            let grant = self.granted(object, kind);
            if grant.cachable {
                return grant;
            }
            assert!(Instant::now() < end, "{grant:?}");
            thread::yield_now();
        }
    }

    fn give_back(&mut self, lease: evict::Lease) {
        let evict::Lease { object, serial } = lease;
        let args = leases::Args {
            caller: self.caller(),
            wanted: UpTo(Vec::new()),
            returned: UpTo(vec![leases::Returned { object, serial, open: Open::No }]),
            progress: leases::Progress::Recovered,
        };
        let answer: leases::Reply = self.call(leases::NUMBER, &args);
        assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
    }

    fn call<T: for<'a> Decode<'a>>(&mut self, procedure: u32, args: &impl Encode) -> T {
        self.send_call(procedure, args);
        results(&self.receive())
    }

    fn send_call(&mut self, procedure: u32, args: &impl Encode) {
        self.send_call_as((geteuid().as_raw(), getegid().as_raw()), procedure, args);
    }

    fn send_call_as(&mut self, (uid, gid): (u32, u32), procedure: u32, args: &impl Encode) {
        let body = bytes(&rpc::AuthSys { uid, gid, ..rpc::AuthSys::default() });
        let head = rpc::Call {
            xid: Xid(7),
            program: lease::PROGRAM,
            version: lease::VERSION,
            procedure,
            credential: rpc::OpaqueAuth { flavor: rpc::flavor::SYS, body: &body },
            verifier: rpc::OpaqueAuth::NONE,
        };
        self.send(&[bytes(&head), bytes(args)].concat());
    }

    /// Receives a recall from the server.
    fn evicted(&mut self) -> evict::Lease {
        let call = self.receive();
        let mut reader = Reader::new(&call);
        let head = rpc::Call::decode(&mut reader).unwrap();
        assert_eq!(head.procedure, evict::NUMBER);
        let xid = head.xid;
        let args: evict::Args = decode_all(&mut reader).unwrap();
        self.send(&bytes(&rpc::Reply { xid, status: rpc::ReplyStatus::Success }));
        args.leases.0[0]
    }

    fn send(&mut self, message: &[u8]) {
        let mark = 0x8000_0000 | u32::try_from(message.len()).unwrap();
        self.stream.write_all(&[&mark.to_be_bytes(), message].concat()).unwrap();
    }

    fn receive(&mut self) -> Bytes {
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark).unwrap();
        let mut message = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
        self.stream.read_exact(&mut message).unwrap();
        message.into()
    }
}

/// Decodes the results in a reply.
fn results<T: for<'a> Decode<'a>>(reply: &Bytes) -> T {
    let mut reader = Reader::new(reply);
    let head = rpc::Reply::decode(&mut reader).unwrap();
    assert_eq!(head, rpc::Reply { xid: Xid(7), status: rpc::ReplyStatus::Success });
    decode_all(&mut reader).unwrap()
}

/// Returns the results of a call of a plain client.
fn plain<T: for<'a> Decode<'a>>(address: SocketAddr, procedure: u32, args: &impl Encode) -> T {
    plain_as((geteuid().as_raw(), getegid().as_raw()), address, procedure, args)
}

/// Returns the results of a call that a plain client makes as a user and a group.
fn plain_as<T: for<'a> Decode<'a>>(
    user: (u32, u32),
    address: SocketAddr,
    procedure: u32,
    args: &impl Encode,
) -> T {
    /// The xid of the next call. The duplicate request cache would reply to a repeated xid with the
    /// first reply, JUKEBOX.
    static XID: AtomicU32 = AtomicU32::new(9);
    let xid = XID.fetch_add(1, Ordering::Relaxed);
    let reply = Bytes::from(over_stream(address, &call_as(user, xid, procedure, &bytes(args))));
    let mut reader = Reader::new(&reply);
    rpc::Reply::decode(&mut reader).unwrap();
    decode_all(&mut reader).unwrap()
}

fn file(address: SocketAddr) -> Handle {
    let directory = Handle::new(&root(address)).unwrap();
    let found: lookup::Reply =
        plain(address, lookup::NUMBER, &DirectoryArgs { directory, name: Name(b"file") });
    found.done().unwrap().object
}

fn read_all(address: SocketAddr, file: Handle) -> Result<Bytes, Status> {
    let args = read::Args { file, offset: 0, count: 100 };
    plain::<read::Reply>(address, read::NUMBER, &args).done().map(|done| done.data)
}

fn start(home: &Home) -> (Serving, SocketAddr) {
    start_with(home, &[])
}

fn start_with(home: &Home, options: &[&str]) -> (Serving, SocketAddr) {
    let (serving, ready) = Serving::with_json(home, options);
    let address = address(&ready);
    (serving, address)
}

fn served() -> Home {
    let home = Home::new();
    fs::write(home.path("data/file"), "old").unwrap();
    home
}

/// The list of lease clients was written by a thread that acted as the last caller, which may not
/// write the state directory. No client received a lease, and each new mount hung.
#[test]
fn leases_are_granted_after_ordinary_users_have_used_the_server() {
    const CREATE: u32 = 8;
    let home = served();
    fs::set_permissions(home.path("data"), fs::Permissions::from_mode(0o777)).unwrap();
    let (_serving, address) = start(&home);
    let file = file(address);
    // The calls reach every event loop, so that each loop last acted as the user.
    let place = [opaque(&root(address)), opaque(b"made")].concat();
    let unchecked_without_attributes = [0; 28];
    let args = [&place[..], &unchecked_without_attributes].concat();
    let streams: Vec<_> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
    for mut stream in streams {
        let reply = over(&mut stream, &call_as(ordinary(), 9, CREATE, &args));
        assert_eq!(reply[24..28], [0; 4], "{reply:?}");
    }
    let mut holder = Holder::connect(address);
    holder.hello();
    holder.granted(file, Kind::Read);
    let list = fs::metadata(home.path("state/leases")).unwrap();
    assert_eq!(list.uid(), geteuid().as_raw());
    assert!(list.len() > 16, "the client is on the list");
}

#[test]
fn plain_client_reads_data_that_a_holder_writes_back() {
    let home = served();
    // The test's own changes of the file do not recall leases.
    let (_serving, address) = start_with(&home, &["--no-local-coherence"]);
    let file = file(address);
    let mut holder = Holder::connect(address);
    holder.hello();
    holder.granted(file, Kind::Write);
    let reader = thread::spawn(move || {
        let end = Instant::now() + TIMEOUT;
        // The server may reply "retry later" if the recall takes long.
        loop {
            match read_all(address, file) {
                Err(Status::Jukebox) if Instant::now() < end => {}
                answer => return answer,
            }
        }
    });
    let evicted = holder.evicted();
    assert_eq!(evicted.object, file);
    // The change stands for a write of the holder.
    fs::write(home.path("data/file"), "new").unwrap();
    holder.give_back(evicted);
    assert_eq!(reader.join().unwrap().unwrap(), "new");
}

#[test]
fn restart_waits_for_holder_that_can_be_forgotten() {
    let home = served();
    let (mut serving, address) = start(&home);
    let mut holder = Holder::connect(address);
    holder.hello();
    let grant = holder.granted(file(address), Kind::Write);
    let epoch = holder.epoch;
    serving.end(Signal::KILL);
    let (_serving, address) = start(&home);
    let state = home.path("state");
    let (code, page, _) = run(leasehold(&["leases", "--state", &state]));
    let id = "6120636c69656e742773206e616d652e";
    assert!(code == 0 && page.contains(&format!("client {id} \"\": not returned")), "{page}");
    let root = Handle::new(&root(address)).unwrap();
    let name = DirectoryArgs { directory: root, name: Name(b"file") };
    let found: lookup::Reply = plain(address, lookup::NUMBER, &name);
    assert_eq!(found.done().unwrap_err(), Status::Jukebox);
    let (code, _, error) = run(leasehold(&["forget", "nobody", "--state", &state]));
    assert!(code == 1 && error.contains("no client"), "{error}");
    let (code, said, _) = run(leasehold(&["forget", "6120", "--state", &state]));
    assert_eq!((code, said), (0, format!("ended the leases of {id}\n")));
    let file = file(address);
    assert_eq!(read_all(address, file).unwrap(), "old");
    // The holder learns of the new epoch, and may start again.
    let mut holder = Holder::connect(address);
    holder.epoch = epoch;
    assert!(matches!(holder.wanted(file, Kind::Write), Answer::Epoch(now) if now > epoch));
    assert!(!holder.hello().recovering);
    assert!(holder.granted(file, Kind::Write).serial > grant.serial);
    let (_, page, _) = run(leasehold(&["leases", "--state", &state]));
    assert!(page.contains("\"laptop\": connected") && page.contains("write lease on "), "{page}");
    let (_, json, _) = run(leasehold(&["leases", "--state", &state, "--json"]));
    let told: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&told["count"], &told["leases"][0]["kind"]), (&1.into(), &"write".into()));
    assert_eq!(told["leases"][0]["path"], "file");
}

#[test]
fn waiting_requests_and_holders_are_shown() {
    let home = served();
    let (_serving, address) = start(&home);
    let file = file(address);
    let mut holder = Holder::connect(address);
    holder.hello();
    holder.granted(file, Kind::Write);
    // A client that receives "retry later" retries.
    let reader = thread::spawn(move || while read_all(address, file).is_err() {});
    let state = home.path("state");
    let who = ": \"laptop\", recalled\n    1 call of clients without leases waits \
               for it\n";
    let end = Instant::now() + TIMEOUT;
    loop {
        let (_, page, _) = run(leasehold(&["leases", "--state", &state]));
        if page.contains("data/file\" for ") && page.contains(who) {
            break;
        }
        assert!(Instant::now() < end, "{page}");
    }
    let (code, _, error) = run(leasehold(&["forget", "laptop", "--state", &state]));
    assert_eq!(code, 0, "{error}");
    reader.join().unwrap();
}

#[test]
fn silent_holder_delays_a_plain_client_for_two_seconds() {
    let home = served();
    let (_serving, address) = start(&home);
    let file = file(address);
    let mut holder = Holder::connect(address);
    holder.hello();
    holder.granted(file, Kind::Write);
    let before = Instant::now();
    assert_eq!(read_all(address, file).unwrap_err(), Status::Jukebox);
    assert!(before.elapsed() >= Duration::from_secs(2));
    assert_eq!(holder.evicted().object, file);
}

#[test]
fn leases_are_served_over_udp_as_over_tcp() {
    let home = Home::new();
    let (_serving, address) = start(&home);
    let head = rpc::Call {
        xid: Xid(7),
        program: lease::PROGRAM,
        version: lease::VERSION,
        procedure: 0,
        credential: rpc::OpaqueAuth::NONE,
        verifier: rpc::OpaqueAuth::NONE,
    };
    let status =
        |reply: Vec<u8>| rpc::Reply::decode(&mut Reader::new(&Bytes::from(reply))).unwrap().status;
    let by_datagram = crate::support::over_datagram(address, &bytes(&head));
    assert_eq!(status(by_datagram), rpc::ReplyStatus::Success);
    assert_eq!(status(over_stream(address, &bytes(&head))), rpc::ReplyStatus::Success);
}

#[test]
fn local_program_waits_until_the_holder_returns_the_lease() {
    let home = served();
    let (_serving, address) = start(&home);
    let file = file(address);
    let mut holder = Holder::connect(address);
    holder.hello();
    for kind in [Kind::Read, Kind::Write] {
        let grant = holder.cachable(file, kind);
        let path = home.path("data/file");
        let program = thread::spawn(move || match kind {
            Kind::Read => fs::write(path, "changed").unwrap(),
            Kind::Write => assert_eq!(fs::read_to_string(path).unwrap(), "changed"),
        });
        let evicted = holder.evicted();
        assert_eq!((evicted.object, evicted.serial), (file, grant.serial));
        assert!(!program.is_finished(), "it waits");
        holder.give_back(evicted);
        program.join().unwrap();
    }
}

#[test]
fn holder_of_names_is_notified_of_changes_by_a_program() {
    let home = served();
    let (_serving, address) = start(&home);
    let directory = Handle::new(&root(address)).unwrap();
    let mut holder = Holder::connect(address);
    holder.hello();
    let grant = holder.granted(directory, Kind::Read);
    fs::write(home.path("data/new"), "text").unwrap();
    let evicted = holder.evicted();
    assert_eq!((evicted.object, evicted.serial), (directory, grant.serial));
    holder.give_back(evicted);
    assert!(holder.granted(directory, Kind::Read).modrev > grant.modrev);
}

#[test]
fn file_open_for_writing_by_a_program_is_not_cached() {
    let home = served();
    let (_serving, address) = start(&home);
    let file = file(address);
    let mut holder = Holder::connect(address);
    holder.hello();
    let writer = fs::File::options().append(true).open(home.path("data/file")).unwrap();
    assert!(!holder.granted(file, Kind::Read).cachable);
    drop(writer);
    holder.cachable(file, Kind::Read);
}
