//! The portmapper, with arbitrary messages.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use bytes::Bytes;
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Decode as _, Encode as _, Message, Reader, Writer};
use leasehold_portmap::{Asked, Binding, Carrier, PROGRAM, Portmapper, VERSIONS};
use leasehold_wire::portmap::rpcbind::{Address, Binding as Wanted, NetworkAddress, Text};
use leasehold_wire::portmap::{Forwarded, ForwardedCall, Mapping};
use leasehold_wire::rpc::{Call, OpaqueAuth, Reply};

/// The program that is served beside the portmapper.
const SERVED: u32 = 100_003;

/// The longest answer by datagram to another machine, in bytes.
const DATAGRAM_BYTES_MAX: usize = 80;

/// An address with the longest possible text.
const LONG: IpAddr =
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 4369, 8738, 13107, 17476, 21845, 26214));

/// Sends the input unchanged: by stream and by datagram, from this machine and from another.
///
/// # Panics
/// Panics if a reply is invalid, or too long for its receiver.
pub fn run(input: &[u8]) {
    let address = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 2049);
    let bindings = [PROGRAM, SERVED].map(|program| {
        [Carrier::Stream, Carrier::Datagram].map(|carrier| Binding {
            program,
            version: 3,
            carrier,
            address,
        })
    });
    let portmapper = Portmapper::new(bindings.concat(), || 1);
    let message = Bytes::copy_from_slice(input);
    for from in [LONG, Ipv6Addr::LOCALHOST.into()] {
        for carrier in [Carrier::Stream, Carrier::Datagram] {
            let asked = Asked { from, to: from, carrier };
            let Some(reply) = portmapper.answer(asked, &message, Writer::new()) else { continue };
            let reply = Message::into_bytes(reply);
            Reply::decode(&mut Reader::new(&reply)).expect("a reply is well-formed");
            let is_short = reply.len() <= DATAGRAM_BYTES_MAX;
            let may_be_long = carrier == Carrier::Stream || from.is_loopback();
            assert!(is_short || may_be_long, "{} bytes to {from}", reply.len());
        }
    }
}

/// A call of each procedure with each kind of arguments.
#[must_use]
pub fn starters() -> Vec<Vec<u8>> {
    let (program, version, nothing) = (SERVED, 3, Text(b""));
    let args = [
        written(|_| {}),
        written(|writer| Mapping { program, version, protocol: 6, port: 0 }.encode(writer)),
        written(|writer| {
            Wanted { program, version, network: Text(b"tcp6"), address: nothing, owner: nothing }
                .encode(writer);
        }),
        written(|writer| {
            ForwardedCall { program, version, procedure: 0, args: Forwarded(b"") }.encode(writer);
        }),
        written(|writer| Text(b"127.0.0.1.8.1").encode(writer)),
        written(|writer| {
            let address = Address(&[2, 0, 8, 1, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
            NetworkAddress { bytes_max: 16, address }.encode(writer);
        }),
    ];
    let mut starters = Vec::new();
    for version in VERSIONS {
        for procedure in 0..=12 {
            for args in &args {
                let mut message = written(|writer| call(version, procedure).encode(writer));
                message.extend_from_slice(args);
                starters.push(message);
            }
        }
    }
    starters
}

fn call(version: u32, procedure: u32) -> Call<'static> {
    let (credential, verifier) = (OpaqueAuth::NONE, OpaqueAuth::NONE);
    Call { xid: Xid(1), program: PROGRAM, version, procedure, credential, verifier }
}

fn written(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::new();
    write(&mut writer);
    writer.finish().into_bytes().to_vec()
}
