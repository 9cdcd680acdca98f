//! `lab plan --transport`: recommends a transport for remote calls, the algorithm that the seed's
//! appendix on remote procedure calls requests.
//!
//! For each transport it computes the mean time of a call from the mix of sizes, the round trip,
//! the bandwidth and the loss of packets: transmission, waiting, and the cost of a lost packet. A
//! datagram is lost with any of its fragments and is retransmitted after a timeout. A stream
//! repairs a loss in about a round trip if more segments follow, otherwise after its own timeout.

use crate::Failure;
use crate::output::{self, Format, Table};
use crate::slo::time;
use clap::Args;
use serde_json::json;
use std::io::Write;

/// Options of `lab plan --transport`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Transport")]
pub(crate) struct Transport {
    /// Recommend a transport for remote calls
    #[arg(long)]
    pub(crate) transport: bool,
    /// Round trip in milliseconds
    #[arg(long, default_value_t = 0.2, value_parser = not_negative, allow_negative_numbers = true)]
    rtt_ms: f64,
    /// Share of packets that are lost
    #[arg(long, default_value_t = 0.0, value_parser = loss, allow_negative_numbers = true)]
    loss: f64,
    /// Bandwidth of the narrowest link in megabits per second
    #[arg(long, default_value_t = 1000.0, value_parser = positive, allow_negative_numbers = true)]
    mbit: f64,
    /// Calls by size: their share, bytes of a request and of a reply; may be given several times
    #[arg(long, value_name = "SHARE:REQUEST:REPLY", value_parser = mix,
          default_values = ["0.6:120:120", "0.3:120:8192", "0.1:8192:120"])]
    mix: Vec<Mix>,
    /// Largest datagram that the servers accept, in bytes
    #[arg(long, default_value_t = 65_507, value_parser = clap::value_parser!(u32).range(512..=65_507))]
    datagram_max: u32,
    /// Timeout after which a datagram is retransmitted, in milliseconds
    #[arg(long, default_value_t = 1100.0, value_parser = positive, allow_negative_numbers = true)]
    timeout_ms: f64,
    /// Number of servers that one client uses
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    servers: u32,
    /// Largest number of connections that one client may keep open
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    connections_max: u32,
}

/// The calls of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Mix {
    share: f64,
    request: f64,
    reply: f64,
}

fn number(text: &str, holds: fn(f64) -> bool, wanted: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && holds(*number));
    number.ok_or_else(|| format!("must be {wanted}"))
}

fn positive(text: &str) -> Result<f64, String> {
    number(text, |number| number > 0.0, "a number above 0")
}

fn not_negative(text: &str) -> Result<f64, String> {
    number(text, |number| number >= 0.0, "0 or a number above it")
}

fn loss(text: &str) -> Result<f64, String> {
    number(text, |number| (0.0..0.5).contains(&number), "a share from 0 to below 0.5")
}

fn mix(text: &str) -> Result<Mix, String> {
    let parts: Vec<f64> = text.split(':').filter_map(|part| part.parse().ok()).collect();
    match parts.as_slice() {
        [share, request, reply]
            if *share > 0.0 && parts.iter().all(|part| (0.0..=1e15).contains(part)) =>
        {
            Ok(Mix { share: *share, request: *request, reply: *reply })
        }
        _ => Err("needs the form SHARE:REQUEST:REPLY".into()),
    }
}

/// Bytes of data in an Ethernet packet, and of headers around a call.
const PACKET: f64 = 1460.0;
const HEADER: f64 = 100.0;

/// Processor time for a packet and for a call, both ends together, on a slow core.
const PER_PACKET: f64 = 2e-6;
const PER_CALL: f64 = 20e-6;

/// The smallest retransmission timeout of common streams, and the duplicate acknowledgements before
/// a fast retransmission.
const STREAM_TIMEOUT: f64 = 0.2;
const DUPLICATES: f64 = 3.0;

/// Bytes that a stream may have in flight.
const WINDOW: f64 = 1_048_576.0;

/// The transports for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Datagrams of any size.
    Udp,
    /// Datagrams of 1 KB, each acknowledged before the next, as in the slower system of the seed.
    SmallUdp,
    /// A stream that stays open.
    Tcp,
    /// A stream for each call.
    TcpPerCall,
}

impl Way {
    const ALL: [Self; 4] = [Self::Udp, Self::SmallUdp, Self::Tcp, Self::TcpPerCall];

    const fn name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::SmallUdp => "UDP, 1 KB packets",
            Self::Tcp => "TCP, kept open",
            Self::TcpPerCall => "TCP, opened for each call",
        }
    }
}

fn packets(bytes: f64) -> f64 {
    ((bytes + HEADER) / PACKET).ceil()
}

impl Transport {
    fn rtt(&self) -> f64 {
        self.rtt_ms / 1e3
    }

    /// Returns the seconds to transmit bytes.
    fn wire(&self, bytes: f64) -> f64 {
        (bytes + packets(bytes) * 78.0) * 8.0 / (self.mbit * 1e6)
    }

    /// Returns the mean time of a call.
    fn call(&self, way: Way, mix: Mix) -> f64 {
        let count = packets(mix.request) + packets(mix.reply);
        let sent = self.rtt() + self.wire(mix.request) + self.wire(mix.reply);
        let base = PER_CALL + sent + count * PER_PACKET;
        match way {
            Way::Udp => {
                // One lost fragment loses the message; the timeout doubles: t, 2t, 4t ...
                let lost = 1.0 - (1.0 - self.loss).powf(count);
                let waits = if lost < 0.5 { lost / (1.0 - 2.0 * lost) } else { f64::INFINITY };
                base + self.timeout_ms / 1e3 * waits
            }
            Way::SmallUdp => {
                let pieces = (mix.request / 1024.0).ceil().max(1.0) + (mix.reply / 1024.0).ceil();
                let waits = self.loss * 2.0 * pieces * self.timeout_ms / 1e3;
                base + (pieces - 2.0).max(0.0) * (self.rtt() + 2.0 * PER_PACKET) + waits
            }
            Way::Tcp => base + self.stream_repair(mix),
            // Three packets to open, three to close; one round trip precedes the request.
            Way::TcpPerCall => base + self.stream_repair(mix) + self.rtt() + 6.0 * PER_PACKET,
        }
    }

    /// Returns the cost of losses on a stream: fast repair if enough segments follow the lost one.
    fn stream_repair(&self, mix: Mix) -> f64 {
        let of = |bytes: f64| {
            let count = packets(bytes);
            let quick = (count - DUPLICATES).max(0.0);
            let slow = count - quick;
            self.loss * (quick * self.rtt() + slow * (STREAM_TIMEOUT + self.rtt()))
        };
        of(mix.request) + of(mix.reply)
    }

    fn mean(&self, way: Way) -> f64 {
        let shares: f64 = self.mix.iter().map(|mix| mix.share).sum();
        self.mix.iter().map(|mix| mix.share * self.call(way, *mix)).sum::<f64>() / shares
    }

    /// Returns the reason for which a transport is not possible, if any.
    fn obstacle(&self, way: Way) -> Option<String> {
        let largest = self.mix.iter().map(|mix| mix.request.max(mix.reply)).fold(0.0, f64::max);
        match way {
            Way::Udp if largest + HEADER > f64::from(self.datagram_max) => Some(format!(
                "messages of {largest:.0} bytes do not fit a datagram of {}",
                self.datagram_max
            )),
            Way::Tcp if self.servers > self.connections_max => Some(format!(
                "{} servers need more than {} connections",
                self.servers, self.connections_max
            )),
            Way::Udp | Way::SmallUdp | Way::Tcp | Way::TcpPerCall => None,
        }
    }

    /// Returns the number of connections that fill the link.
    fn connections(&self) -> f64 {
        let on_the_way = self.mbit * 1e6 / 8.0 * self.rtt();
        let room = f64::from(self.connections_max / self.servers.max(1)).max(1.0);
        (on_the_way / WINDOW).ceil().clamp(1.0, room.min(16.0))
    }

    /// Returns the smallest block, a power of two, whose time per byte is at most a tenth above
    /// that of 1 MiB; for datagrams within their largest size.
    fn block(&self, way: Way) -> f64 {
        let most = if way == Way::Udp { f64::from(self.datagram_max) } else { 1_048_576.0 };
        let sizes = || (12..=20).map(|power| f64::from(1_u32 << power)).filter(|s| *s <= most);
        let per_byte =
            |size: f64| self.call(way, Mix { share: 1.0, request: 120.0, reply: size }) / size;
        let best = sizes().map(per_byte).fold(f64::INFINITY, f64::min);
        sizes().find(|size| per_byte(*size) <= 1.1 * best).unwrap_or(4096.0)
    }

    /// Returns the best transport and the reason.
    fn choose(&self) -> (Way, String) {
        let usable = || Way::ALL.into_iter().filter(|way| self.obstacle(*way).is_none());
        let best = usable().min_by(|a, b| self.mean(*a).total_cmp(&self.mean(*b)));
        let best = best.unwrap_or(Way::TcpPerCall);
        // If the difference is below a twentieth, a permanent stream is preferred: unlike datagrams
        // in the seed's measurements, it stays reliable under load.
        let stream = self.mean(Way::Tcp) <= 1.05 * self.mean(best);
        let best = if stream && self.obstacle(Way::Tcp).is_none() { Way::Tcp } else { best };
        let mean = time(self.mean(best));
        let against = match best {
            Way::Tcp | Way::TcpPerCall => Way::Udp,
            Way::Udp | Way::SmallUdp => Way::Tcp,
        };
        let reason = match self.obstacle(against) {
            Some(obstacle) => format!("{mean} a call; {} is out: {obstacle}", against.name()),
            None if best == Way::Tcp && self.mean(against) < 1.05 * self.mean(best) => format!(
                "{mean} a call, as fast as {} ({}), and it stays dependable under load",
                against.name(),
                time(self.mean(against))
            ),
            None => {
                let loss = if self.loss > 0.0 {
                    format!(" at a loss of {:.2} %", self.loss * 100.0)
                } else {
                    String::new()
                };
                format!(
                    "{mean} a call against {} by {}{loss}",
                    time(self.mean(against)),
                    against.name()
                )
            }
        };
        (best, reason)
    }
}

pub(crate) fn run(options: &Transport, format: Format, out: &mut dyn Write) -> Result<(), Failure> {
    let (best, reason) = options.choose();
    let (connections, block) = (options.connections(), options.block(best));
    let mut table = Table::new(&["way", "mean_call_s", "usable"]);
    for way in Way::ALL {
        let usable =
            options.obstacle(way).map_or("yes".into(), |obstacle| format!("no: {obstacle}"));
        table.row([way.name().into(), options.mean(way).into(), usable.as_str().into()]);
    }
    let streams = if matches!(best, Way::Tcp) {
        format!(", {connections:.0} for each server")
    } else {
        String::new()
    };
    let verdict =
        format!("{}{streams}, blocks of {:.0} KiB: {reason}.", best.name(), block / 1024.0);
    if format.json {
        let answer = json!({ "verdict": verdict, "way": best.name(), "connections": connections,
            "block_bytes": block, "ways": table.json() });
        return output::json(out, &answer);
    }
    if !format.csv {
        output::line(out, &format!("{verdict}\n"))?;
    }
    table.print(format, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transport() -> Transport {
        Transport {
            transport: true,
            rtt_ms: 0.2,
            loss: 0.0,
            mbit: 1000.0,
            mix: vec![Mix { share: 1.0, request: 100.0, reply: 100.0 }],
            datagram_max: 8192,
            timeout_ms: 1100.0,
            servers: 1,
            connections_max: 256,
        }
    }

    fn sized(bytes: f64) -> Transport {
        let mix = vec![Mix { share: 1.0, request: bytes, reply: 100.0 }];
        Transport { mix, datagram_max: 65_507, ..transport() }
    }

    #[test]
    fn the_rules_of_the_seed_are_reproduced() {
        // Small packets: both datagram transports are equal, and a stream for each call is slower.
        let small = sized(512.0);
        assert!(small.mean(Way::SmallUdp) < 1.02 * small.mean(Way::Udp));
        assert!(small.mean(Way::TcpPerCall) > 1.5 * small.mean(Way::Udp));
        // Eight small packets of data: even a stream for each call is faster.
        let eight = sized(8192.0);
        assert!(eight.mean(Way::SmallUdp) > eight.mean(Way::TcpPerCall));
        // Large datagrams stay fastest while they are possible.
        assert!(eight.mean(Way::Udp) <= eight.mean(Way::TcpPerCall));
        // Few servers: a permanent connection.
        assert_eq!(transport().choose().0, Way::Tcp);
    }

    #[test]
    fn obstacles_and_losses_decide() {
        let large = Transport { datagram_max: 8192, ..sized(1e6) };
        assert_eq!(large.choose().0, Way::Tcp);
        assert!(large.choose().1.contains("do not fit"));
        let many = Transport { servers: 1000, ..transport() };
        assert_eq!(many.choose().0, Way::Udp);
        let lossy = Transport { loss: 0.01, ..sized(8192.0) };
        assert_eq!(lossy.choose().0, Way::Tcp);
        assert!(lossy.mean(Way::Udp) > 3.0 * lossy.mean(Way::Tcp));
    }

    #[test]
    fn long_fat_links_want_connections_and_large_blocks() {
        let near = transport();
        let far = Transport { rtt_ms: 80.0, mbit: 10_000.0, ..transport() };
        assert!(far.connections() > near.connections());
        assert!(far.block(Way::Tcp) > near.block(Way::Tcp));
        assert!(near.block(Way::Tcp) >= 8192.0);
    }
}
