//! How the volumes of a running metaserver are.

use futures_util::future::{join, join_all};
use leasehold_fs::FsError;
use leasehold_shell::client::block_on;
use leasehold_store_replica::Load;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::IodAddress;
use super::options::Status;
use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::say::say;
use crate::serving::Serving;
use crate::status::state_directory;
use crate::stripes::Volume;

/// A volume.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    /// What clients mount.
    name: String,
    volume: String,
    /// How many iods have each stripe.
    copies: u16,
    iods: Vec<IodTold>,
    /// All of them, where there are several.
    #[serde(default)]
    metaservers: Vec<MetaserverTold>,
    /// `lazy` or `strict`, where there are several.
    #[serde(default)]
    consistency: Option<String>,
    /// Files that are known not to lie where they should.
    misplaced: usize,
    /// Whether all lie where they should.
    settled: bool,
}

/// An iod of a volume.
#[derive(Debug, Serialize, Deserialize)]
struct IodTold {
    number: u16,
    label: String,
    /// `used`, `drained` or `gone`.
    what: String,
    away: bool,
    free_bytes: Option<u64>,
}

/// A metaserver of a volume.
#[derive(Debug, Serialize, Deserialize)]
struct MetaserverTold {
    number: u32,
    address: String,
    /// Whether it is the one that says this.
    this: bool,
    away: bool,
    /// How much of its time it had something to do lately, and its open connections; none of one
    /// that is away, or has just started.
    busy_tenths: Option<u32>,
    connections: Option<u32>,
}

/// Says how the volumes of a running server are.
pub(crate) fn status(options: &Status) -> Result<(), Failure> {
    let state = state_directory(options.state.as_deref())?;
    let told = control::ask(&state, &Request::Volumes);
    let told = told.map_err(|text| Kind::Running.because(text))?;
    if options.json {
        return say(format!("{told}\n"));
    }
    let volumes: Vec<Told> = serde_json::from_value(told)
        .map_err(|error| Kind::Running.because(format!("the answer is strange: {error}")))?;
    match volumes.is_empty() {
        true => say("no data of this server lies on iods\n"),
        false => say(volumes.iter().map(Told::text).collect::<String>()),
    }
}

/// The volumes of this server.
pub(crate) fn volumes(serving: &Serving) -> Value {
    let volumes = serving.volumes();
    let told: Vec<_> = volumes.iter().map(|(name, volume)| Told::of(name, volume)).collect();
    serde_json::to_value(told).unwrap_or_default()
}

impl Told {
    fn of(name: &str, volume: &Volume) -> Self {
        let Volume { striped, members, group } = volume;
        let options = striped.options();
        // All are asked at once: each that is away is waited for.
        let iod = async |(number, member): (u16, &leasehold_store_striped::Member)| {
            let what = match (member.gone, options.used.contains(&number)) {
                (true, _) => "gone",
                (false, true) => "used",
                (false, false) => "drained",
            };
            let room = match member.gone {
                true => Err(FsError::Io),
                false => striped.room_of(number).await,
            };
            IodTold {
                number,
                label: member.label.clone(),
                what: what.to_owned(),
                away: room.is_err(),
                free_bytes: room.ok().map(|room| room.space.available_bytes),
            }
        };
        let metaserver = async |(number, peer): (u32, &IodAddress)| {
            let (group, metaserver) = group.as_ref()?;
            let this = number == group.me;
            let load = metaserver.load_of(number).await;
            let (address, away) = (peer.to_string(), !this && load.is_none());
            let load = load.filter(|load| *load != Load::UNKNOWN);
            let (busy_tenths, connections) =
                (load.map(|load| load.busy_tenths), load.map(|load| load.connections));
            Some(MetaserverTold { number, address, this, away, busy_tenths, connections })
        };
        let peers = group.iter().flat_map(|(group, _)| &group.peers);
        let (iods, metaservers) = block_on(join(
            join_all((0..).zip(members).map(iod)),
            join_all((0..).zip(peers).map(metaserver)),
        ));
        let consistency = group.as_ref().map(|(group, _)| match group.strict {
            true => "strict".to_owned(),
            false => "lazy".to_owned(),
        });
        Self {
            name: name.to_owned(),
            volume: format!("{:016x}", options.volume),
            copies: options.copies,
            iods,
            metaservers: metaservers.into_iter().flatten().collect(),
            consistency,
            misplaced: striped.misplaced_count(),
            settled: striped.is_settled(),
        }
    }

    fn text(&self) -> String {
        let copies = if self.copies == 1 { "one copy" } else { "two copies" };
        let files = match (self.settled, self.misplaced) {
            (true, _) => "all files lie where they should".to_owned(),
            (false, 0) => "looking for files to be moved".to_owned(),
            (false, files) => format!("{files} files or more are to be moved"),
        };
        let mut text = format!("{}: volume {}, {copies}; {files}\n", self.name, self.volume);
        if let Some(consistency) = &self.consistency {
            let count = self.metaservers.len();
            text += &format!("  one of {count} metaservers, with {consistency} consistency\n");
        }
        for MetaserverTold { number, address, this, away, busy_tenths, connections } in
            &self.metaservers
        {
            let how = match (this, away) {
                (true, _) => "this one",
                (false, true) => "away",
                (false, false) => "there",
            };
            let load = busy_tenths.zip(*connections);
            let load = load.map(|(tenths, connections)| {
                format!(", {}% busy, {connections} connections", tenths * 10)
            });
            let load = load.unwrap_or_default();
            text += &format!("  metaserver {number}, {address}: {how}{load}\n");
        }
        for IodTold { number, label, what, away, free_bytes } in &self.iods {
            let how = match (what.as_str(), away, free_bytes) {
                ("gone", ..) => "gone for good".to_owned(),
                (_, true, _) => "away".to_owned(),
                (_, false, bytes) => format!("{} MiB free", bytes.unwrap_or_default() >> 20),
            };
            let drained = if what == "drained" { ", not to be used" } else { "" };
            text += &format!("  iod {number}, {label}: {how}{drained}\n");
        }
        text
    }
}
