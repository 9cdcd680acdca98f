//! The messages as a capture file (pcap, raw IP): the headers are synthetic, the messages are real.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use leasehold_wire::record;

use super::{Carrier, Said, Side, What};

const MAGIC: u32 = 0xa1b2_c3d4;
const RAW_IP: u32 = 101;

/// The longest packet in bytes; longer messages become several packets.
const PACKET_BYTES_MAX: u32 = 65_535;
const SEGMENT_BYTES_MAX: usize = 32 << 10;

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;

/// Flags of a TCP segment: data, acknowledged.
const PUSH_AND_ACKNOWLEDGE: u8 = 0x18;

/// Bytes that each end of a connection has sent so far.
#[derive(Default)]
struct Sent {
    by_client: u32,
    by_server: u32,
}

/// Writes the capture file.
pub(super) fn capture(said: &VecDeque<Said>) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [MAGIC, 0x0002_0004, 0, 0, PACKET_BYTES_MAX, RAW_IP] {
        file.extend_from_slice(&word.to_be_bytes());
    }
    let mut connections = BTreeMap::<(u16, SocketAddr), Sent>::new();
    for one in said {
        let (payload, from_client) = match (&one.what, one.side.carrier) {
            (What::Note(_), _) => continue,
            (What::Bytes(bytes), _) => (bytes.to_vec(), true),
            (What::Call(message), Carrier::Tcp) => (with_mark(message), true),
            (What::Reply(message), Carrier::Tcp) => (with_mark(message), false),
            (What::Call(message), Carrier::Udp) => (message.to_vec(), true),
            (What::Reply(message), Carrier::Udp) => (message.to_vec(), false),
        };
        let key = (one.side.local.port(), one.side.server);
        let sent = connections.entry(key).or_default();
        let segment_bytes = match one.side.carrier {
            Carrier::Tcp => SEGMENT_BYTES_MAX,
            Carrier::Udp => payload.len().max(1),
        };
        for segment in payload.chunks(segment_bytes) {
            let packet = packet(one.side, segment, from_client, sent);
            write_packet(&mut file, one.at, &packet);
        }
    }
    file
}

fn with_mark(message: &[u8]) -> Vec<u8> {
    [&record::mark(message.len()), message].concat()
}

fn write_packet(file: &mut Vec<u8>, at: std::time::Duration, packet: &[u8]) {
    let length = short(packet.len());
    // A case does not run for 136 years.
    let seconds = u32::try_from(at.as_secs()).unwrap_or(u32::MAX);
    for word in [seconds, at.subsec_micros(), u32::from(length), u32::from(length)] {
        file.extend_from_slice(&word.to_be_bytes());
    }
    file.extend_from_slice(packet);
}

fn packet(side: Side, payload: &[u8], from_client: bool, sent: &mut Sent) -> Vec<u8> {
    let (from, to) =
        if from_client { (side.local, side.server) } else { (side.server, side.local) };
    let ports = [from.port().to_be_bytes(), to.port().to_be_bytes()].concat();
    let (protocol, segment) = match side.carrier {
        Carrier::Udp => {
            let length = short(payload.len() + 8).to_be_bytes();
            (PROTOCOL_UDP, [&ports, &length[..], &[0; 2], payload].concat())
        }
        Carrier::Tcp => {
            let (mine, other) = if from_client {
                (&mut sent.by_client, sent.by_server)
            } else {
                (&mut sent.by_server, sent.by_client)
            };
            let numbers = [mine.to_be_bytes(), other.to_be_bytes()].concat();
            *mine = mine.wrapping_add(u32::from(short(payload.len())));
            // Five words of header, a full window, no checksum, nothing urgent.
            let rest = [0x50, PUSH_AND_ACKNOWLEDGE, 0xff, 0xff, 0, 0, 0, 0];
            (PROTOCOL_TCP, [&ports, &numbers, &rest[..], payload].concat())
        }
    };
    [&ip_header(from.ip(), to.ip(), protocol, segment.len())[..], &segment].concat()
}

fn ip_header(from: IpAddr, to: IpAddr, protocol: u8, length: usize) -> Vec<u8> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let total = short(length + 20).to_be_bytes();
            let head = [0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, protocol, 0, 0];
            [&head[..], &from.octets(), &to.octets()].concat()
        }
        (from, to) => {
            let octets = |address: IpAddr| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            let total = short(length).to_be_bytes();
            let head = [0x60, 0, 0, 0, total[0], total[1], protocol, 64];
            [&head[..], &octets(from), &octets(to)].concat()
        }
    }
}

/// Datagrams are shorter than 64 KiB, and longer messages were split into segments.
fn short(length: usize) -> u16 {
    u16::try_from(length).expect("a packet is shorter than 64 KiB")
}
