//! The database at the byte level, at times that the test sets.

use core::net::IpAddr;
use core::time::Duration;

use bytes::Bytes;
use leasehold_base::limits::{BOUND_NAMES_MAX, BOUND_NAMES_OF_HOST_MAX};
use leasehold_base::units::{Time, Xid};
use leasehold_base::xdr::{Decode, Encode, Reader, Writer, decode_all};
use leasehold_wire::binding::{
    Claim, Identifier, Name, PROGRAM, Status, VERSION, list, lookup, register, withdraw,
};
use leasehold_wire::rpc::{AuthStatus, Call, OpaqueAuth, Reply, ReplyStatus, Versions, null};

use crate::registry::TERM;
use crate::{Asked, Names};

const OWN: Identifier = *b"one of them     ";
const OTHER: Identifier = *b"another of them ";
const HOST: &str = "192.0.2.1";
const ELSEWHERE: &str = "192.0.2.2";
const LOOPBACK: &str = "127.0.0.1";

/// A database with its clock.
struct Database {
    names: Names,
    now: Time,
    is_believed: bool,
}

impl Database {
    fn new() -> Self {
        Self { names: Names::new(false), now: Time::ZERO, is_believed: true }
    }

    fn asked(&self, from: &str) -> Asked {
        let from: IpAddr = from.parse().expect("an address");
        Asked { from, by_stream: true, is_believed: self.is_believed, now: self.now }
    }

    /// Returns the results of a call from a host, or its status.
    fn call(&self, from: &str, procedure: u32, args: &impl Encode) -> Result<Bytes, ReplyStatus> {
        self.answer(self.asked(from), &call(procedure), args).expect("it is answered")
    }

    fn answer(
        &self,
        asked: Asked,
        call: &Call<'_>,
        args: &impl Encode,
    ) -> Option<Result<Bytes, ReplyStatus>> {
        let mut writer = Writer::new();
        call.encode(&mut writer);
        args.encode(&mut writer);
        let message = writer.finish().into_bytes();
        let reply = self.names.answer(asked, &message, Writer::new())?.into_bytes();
        let mut reader = Reader::new(&reply);
        let head = Reply::decode(&mut reader).expect("a reply");
        assert_eq!(head.xid, call.xid);
        let is_done = head.status == ReplyStatus::Success;
        Some(if is_done { Ok(reader.rest_shared()) } else { Err(head.status) })
    }

    fn register(&self, from: &str, name: &str, identifier: Identifier, port: u32) -> Status {
        let claim: register::Args<'_> = Claim { name: Name(name.as_bytes()), identifier, port };
        read(&self.call(from, register::NUMBER, &claim).expect("has results"))
    }

    fn withdraw(&self, from: &str, name: &str, identifier: Identifier) -> bool {
        let claim: withdraw::Args<'_> = Claim { name: Name(name.as_bytes()), identifier, port: 0 };
        read(&self.call(from, withdraw::NUMBER, &claim).expect("has results"))
    }

    /// Returns the identifier and the address of a name.
    fn lookup(&self, from: &str, name: &str) -> Option<(Identifier, String)> {
        let results = self.call(from, lookup::NUMBER, &Name(name.as_bytes())).expect("has results");
        let found: lookup::Reply<'_> = read(&results);
        found.map(|bound| (bound.identifier, format!("{}:{}", bound.host.0, bound.port)))
    }

    fn list(&self, from: &str) -> Vec<String> {
        let results = self.call(from, list::NUMBER, &()).expect("has results");
        let all: list::Reply<'_> = read(&results);
        all.0.iter().map(|bound| bound.name.0.escape_ascii().to_string()).collect()
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }
}

fn call(procedure: u32) -> Call<'static> {
    Call {
        xid: Xid(7),
        program: PROGRAM,
        version: VERSION,
        procedure,
        credential: OpaqueAuth::NONE,
        verifier: OpaqueAuth::NONE,
    }
}

fn read<'a, T: Decode<'a>>(results: &'a Bytes) -> T {
    decode_all(&mut Reader::new(results)).expect("results of this procedure")
}

#[test]
fn lookup_returns_address_and_identifier() {
    let database = Database::new();
    assert_eq!(database.lookup(ELSEWHERE, "files"), None);
    assert_eq!(database.register(HOST, "Files", OWN, 2049), Status::Ok);
    assert_eq!(database.register("2001:db8::1", "tape", OTHER, 2050), Status::Ok);
    let there = Some((OWN, "192.0.2.1:2049".to_owned()));
    assert_eq!(database.lookup(ELSEWHERE, "files"), there);
    assert_eq!(database.lookup(ELSEWHERE, "FILES"), there);
    assert_eq!(database.lookup(HOST, "tape"), Some((OTHER, "2001:db8::1:2050".to_owned())));
    assert_eq!(database.list(ELSEWHERE), ["files", "tape"]);
    assert_eq!(database.call(HOST, null::NUMBER, &()), Ok(Bytes::new()));
}

#[test]
fn name_belongs_to_its_owner_while_renewed() {
    let mut database = Database::new();
    assert_eq!(database.register(HOST, "files", OWN, 2049), Status::Ok);
    for _ in 0..10 {
        database.pass(TERM / 2);
        assert_eq!(database.register(HOST, "files", OTHER, 2049), Status::Taken);
        // A caller that has looked up the identifier still has another address.
        assert_eq!(database.register(ELSEWHERE, "files", OWN, 2049), Status::Taken);
        assert_eq!(database.register(HOST, "files", OWN, 2050), Status::Ok);
    }
    assert_eq!(database.lookup(HOST, "files"), Some((OWN, "192.0.2.1:2050".to_owned())));
    database.pass(TERM - Duration::from_nanos(1));
    assert_eq!(database.register(ELSEWHERE, "files", OTHER, 1), Status::Taken);
    assert!(database.lookup(HOST, "files").is_some());
    database.pass(Duration::from_nanos(1));
    assert_eq!(database.lookup(HOST, "files"), None);
    assert!(database.list(HOST).is_empty());
    assert_eq!(database.register(ELSEWHERE, "files", OTHER, 1), Status::Ok);
    assert_eq!(database.register(HOST, "files", OWN, 2049), Status::Taken);
}

#[test]
fn only_the_owner_withdraws() {
    let database = Database::new();
    assert_eq!(database.register(HOST, "files", OWN, 2049), Status::Ok);
    assert!(!database.withdraw(HOST, "files", OTHER));
    assert!(!database.withdraw(ELSEWHERE, "files", OWN));
    assert!(!database.withdraw(HOST, "other", OWN));
    assert!(database.lookup(HOST, "files").is_some());
    assert!(database.withdraw(HOST, "FILES", OWN));
    assert!(!database.withdraw(HOST, "files", OWN), "it is gone");
    assert_eq!(database.register(ELSEWHERE, "files", OTHER, 1), Status::Ok);
}

#[test]
fn untrusted_caller_may_only_look_up() {
    let mut database = Database::new();
    assert_eq!(database.register(HOST, "files", OWN, 2049), Status::Ok);
    database.is_believed = false;
    assert_eq!(database.register(HOST, "files", OWN, 1), Status::Refused);
    assert_eq!(database.register(HOST, "other", OWN, 1), Status::Refused);
    assert!(!database.withdraw(HOST, "files", OWN));
    assert_eq!(database.list(HOST), ["files"]);
    assert!(database.lookup(HOST, "files").is_some());
    database.names = Names::new(true);
    assert_eq!(database.register(HOST, "other", OWN, 1), Status::Ok);
}

#[test]
fn loopback_servers_are_reported_on_loopback_only() {
    let database = Database::new();
    assert_eq!(database.register(LOOPBACK, "files", OWN, 2049), Status::Ok);
    assert_eq!(database.register(HOST, "tape", OWN, 2049), Status::Ok);
    assert_eq!(database.list(HOST), ["tape"]);
    assert_eq!(database.lookup(HOST, "files"), None);
    assert_eq!(database.list("::1"), ["files", "tape"]);
    assert!(database.lookup(LOOPBACK, "files").is_some());
}

#[test]
fn invalid_names_and_ports_are_rejected() {
    let database = Database::new();
    for name in ["", "a b", "a/b", "a:b", "a\u{1b}[2J", "\u{e9}", "a\n"] {
        assert_eq!(database.register(HOST, name, OWN, 2049), Status::Wrong, "{name:?}");
        assert_eq!(database.lookup(HOST, name), None, "{name:?}");
    }
    for port in [0, 65_536, u32::MAX] {
        assert_eq!(database.register(HOST, "files", OWN, port), Status::Wrong, "{port}");
    }
    assert_eq!(database.register(HOST, &"a".repeat(255), OWN, 65_535), Status::Ok);
    let claim = Claim { name: Name(&[b'a'; 256]), identifier: OWN, port: 1 };
    let answer = database.call(HOST, register::NUMBER, &claim);
    assert_eq!(answer, Err(ReplyStatus::GarbageArguments));
}

#[test]
fn number_of_names_is_bounded() {
    let mut database = Database::new();
    let fill = |database: &Database, host: &str| {
        let names = (0..).map(|number| format!("{host}-{number}"));
        let taken = names.take_while(|name| database.register(host, name, OWN, 1) == Status::Ok);
        taken.count()
    };
    assert_eq!(fill(&database, HOST), BOUND_NAMES_OF_HOST_MAX);
    assert_eq!(database.register(HOST, "one-more", OWN, 1), Status::Full);
    let first = format!("{HOST}-0");
    assert_eq!(database.register(HOST, &first, OWN, 2), Status::Ok, "an existing name is renewed");
    let others: usize = (0..=255).map(|n| fill(&database, &format!("198.51.100.{n}"))).sum();
    assert_eq!(others, BOUND_NAMES_MAX - BOUND_NAMES_OF_HOST_MAX);
    assert_eq!(database.list(HOST).len(), BOUND_NAMES_MAX);
    assert_eq!(database.register(ELSEWHERE, "one-more", OWN, 1), Status::Full);
    assert_eq!(database.register(HOST, &first, OWN, 2), Status::Ok, "an existing name is renewed");
    assert!(database.withdraw(HOST, &first, OWN));
    assert_eq!(database.register(ELSEWHERE, "one-more", OWN, 1), Status::Ok);
    database.pass(TERM);
    assert_eq!(fill(&database, ELSEWHERE), BOUND_NAMES_OF_HOST_MAX);
}

#[test]
fn calls_that_are_not_of_this_program_have_no_results() {
    let database = Database::new();
    let asked = database.asked(HOST);
    let versions = Versions { low: VERSION, high: VERSION };
    let kerberos = OpaqueAuth { flavor: 6, body: b"" };
    for (call, status) in [
        (Call { program: 100_003, ..call(0) }, ReplyStatus::ProgramUnavailable),
        (Call { version: 2, ..call(0) }, ReplyStatus::ProgramMismatch(versions)),
        (call(5), ReplyStatus::ProcedureUnavailable),
        (
            Call { credential: kerberos, ..call(0) },
            ReplyStatus::AuthError(AuthStatus::BadCredential),
        ),
    ] {
        assert_eq!(database.answer(asked, &call, &()), Some(Err(status)));
    }
    assert_eq!(database.call(HOST, list::NUMBER, &1_u32), Err(ReplyStatus::GarbageArguments));
}

#[test]
fn datagrams_are_not_answered() {
    let database = Database::new();
    let asked = Asked { by_stream: false, ..database.asked(LOOPBACK) };
    for procedure in 0..=5 {
        assert_eq!(database.answer(asked, &call(procedure), &()), None);
    }
}
