//! The portmapper at the byte level.

use core::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Decode, Encode, Message, Reader, Writer, decode_all};
use leasehold_wire::list::List;
use leasehold_wire::portmap::rpcbind::getstat::{self, Counts};
use leasehold_wire::portmap::rpcbind::{self, Address, NetworkAddress, Text, getaddrlist};
use leasehold_wire::portmap::{
    Forwarded, ForwardedCall, Mapping, PROGRAM, callit, dump, getport, protocol, set, unset,
};
use leasehold_wire::rpc::{AuthStatus, Call, OpaqueAuth, Reply, ReplyStatus, Versions, flavor};

use crate::{Asked, Binding, Carrier, Portmapper};

const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;
const NONE: u32 = 99;
const TIME: u32 = 1_700_000_000;

/// A portmapper, with the properties of its caller.
struct Server {
    portmapper: Portmapper,
    asked: Asked,
}

/// Returns a portmapper with NFS at all IPv4 addresses and at one IPv6 address, MOUNT on the
/// loopback only, and itself.
fn server() -> Server {
    let both = |program, version, address: &str| {
        let address: SocketAddr = address.parse().expect("an address");
        [Carrier::Stream, Carrier::Datagram].map(|carrier| Binding {
            program,
            version,
            carrier,
            address,
        })
    };
    let bindings = [
        both(NFS, 2, "0.0.0.0:2049"),
        both(NFS, 3, "0.0.0.0:2049"),
        both(NFS, 3, "[2001:db8::1]:2050"),
        both(MOUNT, 3, "127.0.0.1:2051"),
        both(PROGRAM, 2, "0.0.0.0:111"),
    ];
    Server {
        portmapper: Portmapper::new(bindings.concat(), || TIME),
        asked: Asked { from: host("192.0.2.7"), to: host("192.0.2.1"), carrier: Carrier::Stream },
    }
}

fn host(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

impl Server {
    fn asked_at(self, to: &str) -> Self {
        let asked = Asked { to: host(to), from: host(to), ..self.asked };
        Self { asked, ..self }
    }

    fn by_datagram(self) -> Self {
        let asked = Asked { carrier: Carrier::Datagram, ..self.asked };
        Self { asked, ..self }
    }

    fn message(&self, message: &Bytes) -> Option<Bytes> {
        self.portmapper.answer(self.asked, message, Writer::new()).map(Message::into_bytes)
    }

    fn reply(&self, version: u32, procedure: u32, args: &impl Encode) -> Option<Bytes> {
        self.message(&call(PROGRAM, version, procedure, OpaqueAuth::NONE, args))
    }

    fn status(&self, version: u32, procedure: u32, args: &impl Encode) -> Option<ReplyStatus> {
        self.reply(version, procedure, args).map(|reply| status(&reply))
    }

    /// Returns the results of a call, or its status.
    fn results<T>(
        &self,
        (version, procedure): (u32, u32),
        args: &impl Encode,
        take: impl for<'a> FnOnce(&mut Reader<'a>) -> T,
    ) -> T {
        let reply = self.reply(version, procedure, args).expect("it is answered");
        let mut reader = Reader::new(&reply);
        let head = Reply::decode(&mut reader).expect("a reply");
        assert_eq!(head.status, ReplyStatus::Success);
        take(&mut reader)
    }

    fn port(&self, program: u32, version: u32, protocol: u32) -> u32 {
        let args = Mapping { program, version, protocol, port: 0 };
        self.results((2, getport::NUMBER), &args, |results| decode_all(results).expect("a port"))
    }

    fn address(&self, version: u32, procedure: u32, program: u32, wanted: u32) -> String {
        let args = binding(program, wanted);
        self.results((version, procedure), &args, |results| {
            let text: Text<'_> = decode_all(results).expect("an address");
            String::from_utf8(text.0.to_vec()).expect("it is ASCII")
        })
    }
}

fn call(
    program: u32,
    version: u32,
    procedure: u32,
    credential: OpaqueAuth<'_>,
    args: &impl Encode,
) -> Bytes {
    let mut writer = Writer::new();
    let (xid, verifier) = (Xid(7), OpaqueAuth::NONE);
    Call { xid, program, version, procedure, credential, verifier }.encode(&mut writer);
    args.encode(&mut writer);
    writer.finish().into_bytes()
}

fn status(reply: &Bytes) -> ReplyStatus {
    Reply::decode(&mut Reader::new(reply)).expect("a reply").status
}

fn binding(program: u32, version: u32) -> rpcbind::Binding<'static> {
    let nothing = Text(b"");
    rpcbind::Binding { program, version, network: nothing, address: nothing, owner: nothing }
}

#[test]
fn unserved_calls_get_distinct_statuses() {
    let server = server();
    for version in 2..=4 {
        assert_eq!(server.status(version, 0, &()), Some(ReplyStatus::Success));
    }
    let versions = Versions { low: 2, high: 4 };
    for version in [0, 1, 5, u32::MAX] {
        let mismatch = ReplyStatus::ProgramMismatch(versions.clone());
        assert_eq!(server.status(version, 0, &()), Some(mismatch));
    }
    for (version, beyond) in [(2, 6), (3, 9), (4, 13), (4, u32::MAX)] {
        let unavailable = Some(ReplyStatus::ProcedureUnavailable);
        assert_eq!(server.status(version, beyond, &()), unavailable);
        assert_ne!(server.status(version, beyond.min(13) - 1, &()), unavailable);
    }
    let other = server.message(&call(NFS, 3, 0, OpaqueAuth::NONE, &()));
    assert_eq!(status(&other.expect("answered")), ReplyStatus::ProgramUnavailable);
    assert_eq!(server.message(&Bytes::from_static(b"no call")), None);
}

#[test]
fn arguments_that_cannot_be_read_are_garbage() {
    let server = server();
    for (version, procedures) in [(2, 6), (3, 9), (4, 13)] {
        for procedure in 0..procedures {
            // Excess bytes for procedures without arguments, and too few bytes for all others.
            let garbage = server.status(version, procedure, &1_u32);
            assert_eq!(garbage, Some(ReplyStatus::GarbageArguments), "{version}.{procedure}");
        }
    }
}

#[test]
fn unknown_flavour_is_refused() {
    let server = server();
    let of = |flavor| OpaqueAuth { flavor, body: &[] };
    for (flavor, answer) in [
        (flavor::NONE, ReplyStatus::Success),
        (flavor::SYS, ReplyStatus::Success),
        (flavor::SHORT, ReplyStatus::AuthError(AuthStatus::BadCredential)),
        (6, ReplyStatus::AuthError(AuthStatus::BadCredential)),
    ] {
        let reply = server.message(&call(PROGRAM, 2, 0, of(flavor), &()));
        assert_eq!(status(&reply.expect("answered")), answer);
    }
}

#[test]
fn ports() {
    let server = server();
    assert_eq!(server.port(NFS, 3, protocol::TCP), 2049);
    assert_eq!(server.port(NFS, 2, protocol::UDP), 2049);
    assert_eq!(server.port(PROGRAM, 2, protocol::UDP), 111);
    assert_eq!(server.port(NFS, 4, protocol::TCP), 2049, "NFS itself tells its versions");
    assert_eq!(server.port(NONE, 3, protocol::TCP), 0);
    assert_eq!(server.port(NFS, 3, 99), 0);
    assert_eq!(server.asked_at("2001:db8::1").port(NFS, 3, protocol::TCP), 2050);
}

#[test]
fn loopback_bindings_are_reported_on_loopback_only() {
    let server = server();
    assert_eq!(server.port(MOUNT, 3, protocol::TCP), 0);
    assert_eq!(server.address(4, 3, MOUNT, 3), "");
    let listed = |server: &Server| {
        server.results((2, dump::NUMBER), &(), |results| {
            let List(list): dump::Reply = decode_all(results).expect("a list");
            list.iter().any(|mapping| mapping.program == MOUNT)
        })
    };
    assert!(!listed(&server));
    let server = server.asked_at("127.0.0.1");
    assert_eq!(server.port(MOUNT, 3, protocol::TCP), 2051);
    assert_eq!(server.address(4, 3, MOUNT, 3), "127.0.0.1.8.3");
    assert!(listed(&server));
}

#[test]
fn addresses() {
    let server = server();
    for version in [3, 4] {
        assert_eq!(server.address(version, 3, NFS, 3), "192.0.2.1.8.1");
        assert_eq!(server.address(version, 3, NFS, 9), "192.0.2.1.8.1");
        assert_eq!(server.address(version, 3, NONE, 3), "");
    }
    let getversaddr = rpcbind::getversaddr::NUMBER;
    assert_eq!(server.address(4, getversaddr, NFS, 3), "192.0.2.1.8.1");
    assert_eq!(server.address(4, getversaddr, NFS, 9), "", "just this version");
    let server = server.asked_at("2001:db8::1").by_datagram();
    assert_eq!(server.address(4, getversaddr, NFS, 3), "2001:db8::1.8.2");
    assert_eq!(server.address(4, getversaddr, NFS, 2), "", "not on this network");
}

#[test]
fn lists() {
    let server = server();
    server.results((2, dump::NUMBER), &(), |results| {
        let List(list): dump::Reply = decode_all(results).expect("a list");
        let of = |program, version| {
            let of = |protocol, port| Mapping { program, version, protocol, port };
            let port = if program == NFS { 2049 } else { 111 };
            [of(protocol::TCP, port), of(protocol::UDP, port)]
        };
        assert_eq!(list, [of(PROGRAM, 2), of(NFS, 2), of(NFS, 3)].concat());
    });
    server.results((3, rpcbind::dump::NUMBER), &(), |results| {
        let List(list): rpcbind::dump::Reply<'_> = decode_all(results).expect("a list");
        assert_eq!(list.len(), 8);
        assert_eq!(list[0].address, Text(b"0.0.0.0.8.1"));
        assert!(list.iter().all(|one| one.owner == Text(b"leasehold")));
        let networks: Vec<_> = list.iter().filter(|one| one.version == 3).collect();
        let networks: Vec<_> = networks.iter().map(|one| one.network).collect();
        assert_eq!(networks, [Text(b"tcp"), Text(b"udp"), Text(b"tcp6"), Text(b"udp6")]);
    });
    server.results((4, getaddrlist::NUMBER), &binding(NFS, 3), |results| {
        let List(list): getaddrlist::Reply<'_> = decode_all(results).expect("a list");
        let [tcp, udp] = list[..] else { panic!("{list:?}") };
        assert_eq!((tcp.address, udp.address), (Text(b"192.0.2.1.8.1"), Text(b"192.0.2.1.8.1")));
        assert_eq!((tcp.network, udp.network), (Text(b"tcp"), Text(b"udp")));
        assert_eq!((tcp.semantics, udp.semantics), (3, 1));
        assert_eq!((tcp.family, tcp.protocol), (Text(b"inet"), Text(b"tcp")));
    });
}

/// The reply to a short question with a forged source address sent a long list to the victim.
#[test]
fn no_list_goes_to_another_machine_by_datagram() {
    let long = "2001:db8:1111:2222:3333:4444:5555:6666";
    let mut server = server().asked_at(long).by_datagram();
    server.portmapper.bindings.iter_mut().for_each(|one| one.address.set_ip(host("::")));
    for (version, procedures) in [(2, 6), (3, 9), (4, 13)] {
        for procedure in 0..procedures {
            let args = binding(NFS, 3);
            let null =
                ForwardedCall { program: NFS, version: 3, procedure: 0, args: Forwarded(b"") };
            for message in [
                call(PROGRAM, version, procedure, OpaqueAuth::NONE, &null),
                call(PROGRAM, version, procedure, OpaqueAuth::NONE, &()),
                call(PROGRAM, version, procedure, OpaqueAuth::NONE, &args),
            ] {
                let reply = server.message(&message);
                let length = reply.as_ref().map_or(0, Bytes::len);
                assert!(length <= 80, "{version}.{procedure}: {length}");
            }
        }
    }
    for (version, list) in [(2, 4), (3, 4), (4, 4), (4, getstat::NUMBER)] {
        assert_eq!(server.status(version, list, &()), None);
    }
    let server = server.asked_at("127.0.0.1");
    for (version, list) in [(2, 4), (3, 4), (4, 4), (4, getstat::NUMBER)] {
        assert_eq!(server.status(version, list, &()), Some(ReplyStatus::Success));
    }
}

#[test]
fn list_cannot_be_changed() {
    let server = server().asked_at("127.0.0.1");
    let mapping = Mapping { program: NONE, version: 1, protocol: protocol::TCP, port: 9 };
    let ours = Mapping { program: NFS, version: 3, ..mapping };
    for (number, args) in [(set::NUMBER, mapping), (unset::NUMBER, ours)] {
        assert!(
            !server
                .results((2, number), &args, |results| decode_all::<bool>(results).expect("told"))
        );
    }
    let bind =
        rpcbind::Binding { network: Text(b"tcp"), address: Text(b"::1.0.9"), ..binding(NONE, 1) };
    for version in [3, 4] {
        for (number, args) in [(set::NUMBER, bind), (unset::NUMBER, binding(NFS, 3))] {
            let done = server.results((version, number), &args, |results| {
                decode_all::<bool>(results).expect("told")
            });
            assert!(!done);
        }
    }
    assert_eq!(server.port(NONE, 1, protocol::TCP), 0);
    assert_eq!(server.port(NFS, 3, protocol::TCP), 2049);
}

/// Any procedure except NULL would run with the authority of this machine.
#[test]
fn only_null_of_own_programs_is_forwarded() {
    let server = server().by_datagram();
    let forward = |program, version, procedure, args: &'static [u8]| ForwardedCall {
        program,
        version,
        procedure,
        args: Forwarded(args),
    };
    let null = forward(NFS, 3, 0, b"");
    let port = server.results((2, callit::NUMBER), &null, |results| {
        decode_all::<callit::Reply<'_>>(results).map(|reply| (reply.port, reply.results.0.len()))
    });
    assert_eq!(port, Ok((2049, 0)));
    for (version, number) in [(3, 5), (4, 5), (4, rpcbind::indirect::NUMBER)] {
        server.results((version, number), &null, |results| {
            let reply: rpcbind::callit::Reply<'_> = decode_all(results).expect("results");
            assert_eq!(reply.address, Text(b"192.0.2.1.8.1"));
        });
    }
    for (refused, why) in [
        (forward(NFS, 3, 1, b""), ReplyStatus::ProcedureUnavailable),
        (forward(NFS, 3, 0, b"more"), ReplyStatus::GarbageArguments),
        (forward(NFS, 4, 0, b""), ReplyStatus::ProgramUnavailable),
        (forward(NONE, 1, 0, b""), ReplyStatus::ProgramUnavailable),
        // This call would forward itself endlessly.
        (forward(PROGRAM, 2, callit::NUMBER, b""), ReplyStatus::ProcedureUnavailable),
        (forward(MOUNT, 3, 0, b""), ReplyStatus::ProgramUnavailable),
    ] {
        for version in 2..=4 {
            assert_eq!(server.status(version, callit::NUMBER, &refused), None, "{refused:?}");
        }
        assert_eq!(server.status(4, rpcbind::indirect::NUMBER, &refused), Some(why));
    }
}

#[test]
fn time_and_addresses() {
    let server = server();
    let time = server.results((3, 6), &(), |results| decode_all::<u32>(results).expect("a time"));
    assert_eq!(time, TIME);
    let native = server.results((4, 7), &Text(b"127.0.0.1.8.1"), |results| {
        let native: NetworkAddress<'_> = decode_all(results).expect("an address");
        assert_eq!(native.bytes_max, 16);
        assert_eq!(native.address.0[2..8], [8, 1, 127, 0, 0, 1]);
        native.address.0.to_vec()
    });
    let args = NetworkAddress { bytes_max: 16, address: Address(&native) };
    server.results((4, 8), &args, |results| {
        assert_eq!(decode_all(results), Ok(Text(b"127.0.0.1.8.1")));
    });
    server.results((4, 7), &Text(b"nowhere"), |results| {
        let nothing = NetworkAddress { bytes_max: 0, address: Address(b"") };
        assert_eq!(decode_all(results), Ok(nothing));
    });
}

#[test]
fn statistics_use_bounded_memory() {
    let server = server();
    for program in [NFS, NFS, NONE] {
        server.port(program, 3, protocol::TCP);
    }
    let null = ForwardedCall { program: NFS, version: 3, procedure: 0, args: Forwarded(b"") };
    server.status(4, rpcbind::indirect::NUMBER, &null);
    for invented in 1000..2000 {
        server.address(4, 3, invented, 1);
    }
    server.results((4, getstat::NUMBER), &(), |results| {
        let told: getstat::Reply<'_> = decode_all(results).expect("statistics");
        assert_eq!(told.version_2.calls, Counts([0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
        let List(asked) = told.version_2.addressed;
        let asked: Vec<_> =
            asked.iter().map(|one| (one.program, one.success, one.failure)).collect();
        assert_eq!(asked, [(NONE, 0, 1), (NFS, 2, 0)]);
        assert_eq!(told.version_4.calls.0[3], 1000);
        assert_eq!(told.version_4.addressed.0.len(), 32);
        let List(called) = told.version_4.called;
        assert_eq!((called[0].success, called[0].failure, called[0].indirect), (1, 0, 1));
        assert_eq!(told.version_3.calls, Counts::default());
    });
}
