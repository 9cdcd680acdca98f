//! The server and nfs-ganesha under the Linux kernel's client: one guest mounts both, and does the
//! same work on each in turn. Our server syncs names before it replies and the other does not, so
//! our server is also measured in memory, with the same guarantee as the other.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold_load::processor_time;
use leasehold_system_tests::{Guest, Link, Mount, Version};

use crate::Options;
use crate::disk::Disk;
use crate::figure::{Figure, Target};
use crate::servers::Server;

/// The script that runs in the guest.
const WORK: &str = include_str!("kernel/work.sh");

/// The durability of our server, and the number of connections of each mount.
const CASES: [(&str, u32); 4] = [("memory", 1), ("memory", 2), ("disk", 1), ("disk", 2)];

/// The size of a stream.
const STREAM_MIB: u32 = 64;

/// The time limit of a guest.
const LIMIT: Duration = Duration::from_mins(20);

/// The duration in seconds, and the server's processor time in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Sample {
    seconds: f64,
    cpu_ms: f64,
}

/// The samples of each work, of our server and of the other, in the order of measurement.
type Samples = BTreeMap<String, [Vec<Sample>; 2]>;

/// Measures all figures, and prints them as they complete.
pub(crate) fn measure(options: &Options) -> Result<(), Box<dyn Error>> {
    let disk = Disk::make()?;
    for (durability, nconnect) in CASES {
        let prefix = format!("{durability}.nconnect{nconnect}");
        if !options.wants(&prefix) {
            continue;
        }
        let samples = in_a_guest(options, disk.path(), (durability, nconnect))?;
        for (work, [ours, other]) in &samples {
            // The first of each warms up.
            let pairs: Vec<_> = ours.iter().zip(other).skip(1).collect();
            let name = format!("{prefix}.{work}.time");
            let times: Vec<_> = pairs.iter().map(|(one, two)| (one.seconds, two.seconds)).collect();
            let units = ("ratio to nfs-ganesha", "s");
            let target = Target::AtMost(f64::INFINITY);
            let mut figure = Figure::of(name, &times, target, units, durability);
            "printed".clone_into(&mut figure.target);
            figure.print();
            // All samples together, because the kernel counts in hundredths of a second.
            let sum = |of: fn(&(&Sample, &Sample)) -> f64| pairs.iter().map(of).sum::<f64>();
            let (one, two) = (sum(|pair| pair.0.cpu_ms), sum(|pair| pair.1.cpu_ms));
            let name = format!("{prefix}.{work}.cpu");
            let mut figure = Figure::beside(name, one, Some(two), "ms of processor, all rounds");
            figure.tier = durability;
            figure.print();
        }
    }
    Ok(())
}

fn in_a_guest(
    options: &Options,
    disk: &Path,
    (durability, nconnect): (&'static str, u32),
) -> Result<Samples, Box<dyn Error>> {
    let servers = [Server::ours(disk, durability)?, Server::ganesha(disk)?];
    let mount = |server: &Server| {
        let (nfs, mountd) = (server.nfs.port(), server.mount.port());
        format!(
            "vers=3,proto=tcp,port={nfs},mountport={mountd},mountproto=tcp,nolock,addr=127.0.0.1,\
             nconnect={nconnect} 127.0.0.1:{}",
            server.export
        )
    };
    let case = format!(
        "ours='{}'\nother='{}'\nrounds={}\nmib={STREAM_MIB}\n{WORK}",
        mount(&servers[0]),
        mount(&servers[1]),
        options.pairs + 1,
    );
    let first = Mount {
        port: Some(servers[0].nfs.port()),
        export: servers[0].export.clone(),
        version: Version::V3,
    };
    let cpu = || servers.each_ref().map(|server| processor_time(server.process()));
    let (mut before, mut samples) = (cpu(), Samples::new());
    let link = Arc::new(Link::new());
    let ended = Guest::boot(&link, &first, &case, LIMIT).wait(|said| {
        let words: Vec<&str> = said.split(' ').collect();
        if let [server, work, microseconds] = words[..] {
            let at = usize::from(server != "ours");
            let (Ok(after), Ok(before)) = (&cpu()[at], &before[at]) else { return };
            let seconds = microseconds.parse::<f64>().unwrap_or(f64::NAN) / 1e6;
            let cpu_ms = after.saturating_sub(*before).as_secs_f64() * 1e3;
            let both = samples.entry(work.to_owned()).or_default();
            both[at].push(Sample { seconds, cpu_ms });
        }
        before = cpu();
    });
    if ended.status == Some(0) { Ok(samples) } else { Err(ended.log.into()) }
}
