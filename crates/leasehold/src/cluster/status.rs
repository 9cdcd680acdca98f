//! The state of the volumes of a running metaserver.

use futures_util::future::{join, join_all};
use leasehold_cluster::{IodAddress, Served as _, Volume, words_of};
use leasehold_fs::FsError;
use leasehold_shell::client::block_on;
use leasehold_store_replica::Load;
use leasehold_store_striped::Member;
use leasehold_view::{IodView, PeerView, VolumeView};
use serde_json::Value;

use super::options::Status;
use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::output::say;
use crate::server_state::Serving;

/// Prints the state of the volumes of a running server.
pub(crate) fn status(options: &Status) -> Result<(), Failure> {
    let state = options.which.state()?;
    let told = control::ask(&state, &Request::Volumes);
    let told = told.map_err(|text| Kind::Running.because(text))?;
    if options.json {
        return say(format!("{told}\n"));
    }
    let volumes: Vec<VolumeView> = serde_json::from_value(told)
        .map_err(|error| Kind::Running.because(format!("invalid reply: {error}")))?;
    match volumes.is_empty() {
        true => say("this server has no data on iods\n"),
        false => say(volumes.iter().map(text).collect::<String>()),
    }
}

/// Returns the volumes of this server, for the control socket.
pub(crate) fn volumes(serving: &Serving) -> Value {
    serde_json::to_value(views(serving)).unwrap_or_default()
}

/// Returns the volumes of this server. Queries all iods and metaservers of the volumes in parallel,
/// and waits until the unreachable ones have timed out.
pub(crate) fn views(serving: &Serving) -> Vec<VolumeView> {
    let volumes = serving.volumes();
    let views = volumes.iter().map(|(name, volume)| view(name, volume));
    block_on(join_all(views))
}

async fn view(name: &str, volume: &Volume) -> VolumeView {
    let Volume { striped, members, group, .. } = volume;
    let options = striped.options();
    let (waiting, refusing) = (striped.waiting_removals(), striped.refusing_iods());
    let older = striped.older_iods();
    let iod = async |(number, member): (u16, &Member)| {
        let what = match (member.gone, options.used.contains(&number)) {
            (true, _) => "gone",
            (false, true) => "used",
            (false, false) => "drained",
        };
        let room = match member.gone {
            true => Err(FsError::Io),
            false => striped.room_of(number).await,
        };
        IodView {
            number,
            label: member.label.clone(),
            what: what.to_owned(),
            away: room.is_err(),
            free_bytes: room.ok().map(|room| room.space.available_bytes),
            refuses: refusing.get(&number).map(|error| words_of(*error)),
            older: older.contains(&number),
            older_files: striped.files_of_older(number),
            waiting_removals: waiting.get(&number).copied().unwrap_or_default(),
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
        Some(PeerView { number, address, this, away, busy_tenths, connections })
    };
    let peers = group.iter().flat_map(|(group, _)| &group.peers);
    let (iods, metaservers) =
        join(join_all((0..).zip(members).map(iod)), join_all((0..).zip(peers).map(metaserver)))
            .await;
    let consistency = group.as_ref().map(|(group, _)| match group.strict {
        true => "strict".to_owned(),
        false => "lazy".to_owned(),
    });
    VolumeView {
        name: name.to_owned(),
        volume: format!("{:016x}", options.volume),
        copies: options.copies,
        iods,
        metaservers: metaservers.into_iter().flatten().collect(),
        consistency,
        misplaced: striped.misplaced_count(),
        behind: striped.behind_count(),
        settled: striped.is_settled(),
        waiting_removals: waiting.values().sum(),
        orphans: striped.orphans().map(|(count, _)| count),
        orphan_bytes: striped.orphans().map(|(_, bytes)| bytes),
        orphans_possible: striped.removals_are_incomplete(),
    }
}

fn text(told: &VolumeView) -> String {
    let copies = if told.copies == 1 { "one copy" } else { "two copies" };
    let files = match (told.settled, told.misplaced) {
        (true, _) => "all files have their intended layout".to_owned(),
        (false, 0) => "searching for files to move".to_owned(),
        (false, files) => format!("at least {files} files to move"),
    };
    let behind = match told.behind {
        0 => String::new(),
        files => format!(", {files} of them because a copy is out of date"),
    };
    let mut text = format!("{}: volume {}, {copies}; {files}{behind}\n", told.name, told.volume);
    text += &of_no_file(told);
    if let Some(consistency) = &told.consistency {
        let count = told.metaservers.len();
        text += &format!("  one of {count} metaservers, with {consistency} consistency\n");
    }
    for PeerView { number, address, this, away, busy_tenths, connections } in &told.metaservers {
        let how = match (this, away) {
            (true, _) => "this one",
            (false, true) => "unreachable",
            (false, false) => "reachable",
        };
        let load = busy_tenths.zip(*connections);
        let load = load.map(|(tenths, connections)| {
            format!(", {}% busy, {connections} connections", tenths * 10)
        });
        let load = load.unwrap_or_default();
        text += &format!("  metaserver {number}, {address}: {how}{load}\n");
    }
    for iod in &told.iods {
        let IodView { number, label, what, away, free_bytes, refuses, waiting_removals, .. } = iod;
        let how = match (what.as_str(), away, free_bytes) {
            ("gone", ..) => "permanently lost".to_owned(),
            (_, true, _) => "unreachable".to_owned(),
            (_, false, bytes) => format!("{} MiB free", bytes.unwrap_or_default() >> 20),
        };
        let drained = if what == "drained" { ", drained" } else { "" };
        let refuses = refuses.as_ref().filter(|_| !away);
        let refusing =
            refuses.map_or_else(String::new, |error| format!(", rejects changes: {error}"));
        let waiting = match waiting_removals {
            0 => String::new(),
            count => format!(", {count} stripes of removed files await removal"),
        };
        let older = older(iod);
        text += &format!("  iod {number}, {label}: {how}{drained}{refusing}{waiting}{older}\n");
    }
    text
}

/// Describes an iod that was rolled back.
fn older(iod: &IodView) -> String {
    let needed = match (iod.older, iod.older_files) {
        (false, _) => return String::new(),
        (true, None) => "its data is rejected".to_owned(),
        (true, Some(files)) => format!(
            "{files} files have no other copy and fail with EIO, see leasehold cluster believe"
        ),
    };
    format!(", OLDER than the metaserver's record, restored from a backup? {needed}")
}

/// Formats the lines about stripe objects that belong to no file.
fn of_no_file(told: &VolumeView) -> String {
    let found = match (told.orphans, told.orphan_bytes) {
        (Some(count), Some(bytes)) if count > 0 => format!(
            "  {count} stripes that belong to no file, {} KiB: see leasehold cluster repair\n",
            bytes.div_ceil(1024)
        ),
        _ => String::new(),
    };
    let search = match (told.orphans_possible, told.consistency.is_some()) {
        (false, _) => "",
        (true, false) => "  stripes may belong to no file: a search is pending\n",
        (true, true) => "  stripes may belong to no file, and several metaservers do not search\n",
    };
    found + search
}
