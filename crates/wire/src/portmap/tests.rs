//! Each message of all three versions is compared byte for byte with RFC 1833.

use super::rpcbind::getstat::{Addressed, Called, Counts, Statistics};
use super::rpcbind::{Address, Binding, ForwardedReply, NetworkAddress, Text};
use super::*;
use crate::list::List;

const MAPPING: Mapping =
    Mapping { program: 100_003, version: 3, protocol: protocol::TCP, port: 2049 };

/// The bytes of [`MAPPING`].
const PMAP: &str = "000186a3 00000003 00000006 00000801";

const BINDING: Binding<'static> = Binding {
    program: 100_003,
    version: 3,
    network: Text(b"tcp"),
    address: Text(b"0.0.0.0.8.1"),
    owner: Text(b""),
};

/// The bytes of [`BINDING`].
const RPCB: &str = "000186a3 00000003 00000003 'tcp' 00 0000000b '0.0.0.0.8.1' 00 00000000";

#[test]
fn mappings() {
    let args: (set::Args, unset::Args, getport::Args) = (MAPPING, MAPPING, MAPPING);
    vector!(args.0, "{PMAP}");
    vector!(args.1, "{PMAP}");
    vector!(args.2, "{PMAP}");
    let replies: (set::Reply, unset::Reply, getport::Reply) = (true, false, 2049);
    vector!(replies.0, "00000001");
    vector!(replies.1, "00000000");
    vector!(replies.2, "00000801");
    let udp = Mapping { protocol: protocol::UDP, ..MAPPING };
    let dumped: dump::Reply = List(vec![MAPPING, udp]);
    vector!(dumped, "00000001 {PMAP} 00000001 000186a3 00000003 00000011 00000801 00000000");
}

#[test]
fn forwarded_calls() {
    let args: callit::Args<'_> =
        ForwardedCall { program: 100_003, version: 3, procedure: 1, args: Forwarded(b"args") };
    vector!(args, "000186a3 00000003 00000001 00000004 'args'");
    vector!(
        callit::Reply { port: 2049, results: Forwarded(b"result") },
        "00000801 00000006 'result' 0000"
    );
    let reply: rpcbind::callit::Reply<'_> =
        ForwardedReply { address: Text(b"::.8.1"), results: Forwarded(b"result") };
    vector!(reply, "00000006 '::.8.1' 0000 00000006 'result' 0000");
}

#[test]
fn bindings() {
    let args: rpcbind::set::Args<'_> = BINDING;
    vector!(args, "{RPCB}");
    let address: rpcbind::getaddr::Reply<'_> = Text(b"::.8.1");
    vector!(address, "00000006 '::.8.1' 0000");
    let dumped: rpcbind::dump::Reply<'_> = List(vec![BINDING]);
    vector!(dumped, "00000001 {RPCB} 00000000");
    let time: rpcbind::gettime::Reply = 0x5f00_0000;
    vector!(time, "5f000000");
}

#[test]
fn addresses() {
    let args: rpcbind::uaddr2taddr::Args<'_> = Text(b"127.0.0.1.8.1");
    vector!(args, "0000000d '127.0.0.1.8.1' 000000");
    let address = Address(&[2, 0, 8, 1, 127, 0, 0, 1]);
    vector!(NetworkAddress { bytes_max: 16, address }, "00000010 00000008 02000801 7f000001");
    vector!(
        List(vec![rpcbind::getaddrlist::Entry {
            address: Text(b"::.8.1"),
            network: Text(b"tcp6"),
            semantics: 3,
            family: Text(b"inet6"),
            protocol: Text(b"tcp"),
        }]),
        "00000001 00000006 '::.8.1' 0000 00000004 'tcp6' 00000003 00000005 'inet6' 000000
         00000003 'tcp' 00 00000000"
    );
}

#[test]
fn statistics() {
    let empty = Statistics {
        calls: Counts::default(),
        set: 1,
        unset: 2,
        addressed: List(Vec::new()),
        called: List(Vec::new()),
    };
    let full = Statistics {
        calls: Counts([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
        addressed: List(vec![Addressed {
            program: 1,
            version: 2,
            success: 3,
            failure: 4,
            network: Text(b"udp"),
        }]),
        called: List(vec![Called {
            program: 1,
            version: 2,
            procedure: 3,
            success: 4,
            failure: 5,
            indirect: 6,
            network: Text(b"udp"),
        }]),
        ..empty.clone()
    };
    let zeros = "00000000".repeat(13);
    let counts = "00000000 00000001 00000002 00000003 00000004 00000005 00000006 00000007 00000008
         00000009 0000000a 0000000b 0000000c";
    vector!(
        rpcbind::getstat::Reply { version_2: empty.clone(), version_3: full, version_4: empty },
        "{zeros} 00000001 00000002 00000000 00000000
         {counts} 00000001 00000002
         00000001 00000001 00000002 00000003 00000004 00000003 'udp' 00 00000000
         00000001 00000001 00000002 00000003 00000004 00000005 00000006 00000003 'udp' 00 00000000
         {zeros} 00000001 00000002 00000000 00000000"
    );
}
