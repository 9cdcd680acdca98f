//! Reads the metaservers of one file system from the configuration file.

use std::net::SocketAddr;

use leasehold_cluster::{Group, IodAddress, Own, named, own};
use toml::Spanned;

use super::options::Export;
use super::rules::Wrong;
use crate::cluster::options::Peers;
use crate::cluster::search::Search;
use crate::defaults::{WINDOW_S, WINDOWS_S};
use crate::failure::{Failure, Kind};

/// Returns the group of metaservers of an export, for a server that listens at `listen`; `None` if
/// the export has no `peer`.
pub(super) fn group(export: &Export, listen: &[SocketAddr]) -> Result<Option<Group>, Wrong> {
    let Some(first) = export.peer.first() else {
        return match of_several(export) {
            Some(wrong) => Err(wrong),
            None => Ok(None),
        };
    };
    let wrong = |text: &str| Err(Wrong::at(first, text));
    let peers = peers(&export.peer)?;
    let is_peer = |number: u32| (number as usize) < peers.len();
    let me = match &export.number {
        Some(number) if !is_peer(*number.get_ref()) => {
            return Err(Wrong::at(number, "must be the index of a `peer`, from 0"));
        }
        Some(number) => *number.get_ref(),
        None => own_number(&peers, listen).map_err(|text| {
            let say = "or give the index of this server with `number`, from 0";
            Wrong::at(first, format!("{text}; {say}"))
        })?,
    };
    let is_another = |other: u32| is_peer(other) && other != me;
    if let Some(other) = export.without.iter().find(|other| !is_another(*other.get_ref())) {
        return Err(Wrong::at(other, "must be the index of another `peer`"));
    }
    let strict = export.strict.as_ref().is_some_and(|strict| *strict.get_ref());
    if let (true, Some(search)) = (strict, &export.search) {
        return Err(Wrong::at(search, "`search` and `strict = true` exclude each other"));
    }
    let window_s = export.lazy_window.as_ref().map_or(WINDOW_S, |window| *window.get_ref());
    if let Some(window) = &export.lazy_window
        && !WINDOWS_S.contains(&i64::from(window_s))
    {
        return Err(Wrong::at(window, "must be 1 to 60 seconds"));
    }
    if export.iod.is_empty() {
        return wrong("several metaservers require iods: name them with `iod`");
    }
    if export.cluster_key.is_none() {
        return wrong(
            "metaservers authenticate each other by a key: name its file with `cluster-key`",
        );
    }
    let copies = export.copies.as_ref().map_or(1, |copies| *copies.get_ref());
    if copies > 1 || export.rebalance || !export.drained().is_empty() {
        return wrong(
            "with `peer` each stripe has one copy that never moves, because other metaservers \
             would not learn of a move",
        );
    }
    let without = export.without.iter().map(|other| *other.get_ref()).collect();
    let search =
        export.search.as_ref().map_or(Search::Constant, |search| *search.get_ref()).order();
    Ok(Some(Group { peers, me, without, strict, search, window_s }))
}

/// Builds the group from the command line, for a server that listens at `listen`; returns
/// `None` if the command line names no peers.
pub(super) fn of_options(options: &Peers, listen: &[SocketAddr]) -> Result<Option<Group>, Failure> {
    let wrong = |text: &str| Err(Kind::Options.because(text));
    let Peers { peer, number, without, strict, search, lazy_window } = options;
    let count = u32::try_from(peer.len()).unwrap_or(u32::MAX);
    if peer.is_empty() {
        return Ok(None);
    }
    if peer.iter().any(|peer| matches!(peer, IodAddress::Export(_))) {
        return wrong("--peer must be HOST:PORT of a metaserver");
    }
    if (0..peer.len()).any(|at| peer[..at].contains(&peer[at])) {
        return wrong("--peer names a metaserver twice");
    }
    let me = match *number {
        Some(me) => me,
        None => own_number(peer, listen).map_err(|text| {
            let say = "or give the index of this server in --peer with --number";
            Kind::Options.because(format!("{text}; {say}"))
        })?,
    };
    if me >= count {
        return wrong("--number must be the index of a --peer, from 0");
    }
    if without.iter().any(|other| *other >= count || *other == me) {
        return wrong("--without must be the index of another --peer");
    }
    let (peers, without) = (peer.clone(), without.clone());
    let (strict, search, window_s) = (*strict, search.order(), *lazy_window);
    Ok(Some(Group { peers, me, without, strict, search, window_s }))
}

/// Finds the index of this server among the peers by the addresses of this machine.
///
/// # Errors
/// The remedy, as text.
fn own_number(peers: &[IodAddress], listen: &[SocketAddr]) -> Result<u32, String> {
    let found = own(peers, listen);
    match found.as_slice() {
        [Own { at, .. }] => Ok(u32::try_from(*at).expect("they are few")),
        [] if listen.is_empty() => {
            Err("no peer has an address of this machine: add one".to_owned())
        }
        [] => {
            let listen: Vec<_> = listen.iter().map(ToString::to_string).collect();
            let listen = listen.join(" and ");
            Err(format!("no peer has the address {listen}: listen on the address of a peer"))
        }
        [_, _, ..] => {
            let all = named(peers, &found);
            Err(format!("this machine has the addresses of several peers, {all}: listen on one"))
        }
    }
}

/// Finds an option that has an effect only with several metaservers.
fn of_several(export: &Export) -> Option<Wrong> {
    let text =
        |option: &str| format!("`{option}` requires several metaservers: name all as `peer`");
    let number = export.number.as_ref().map(|said| Wrong::at(said, text("number")));
    let without = export.without.first().map(|said| Wrong::at(said, text("without")));
    let strict = export.strict.as_ref().map(|said| Wrong::at(said, text("strict")));
    let search = export.search.as_ref().map(|said| Wrong::at(said, text("search")));
    let window = export.lazy_window.as_ref().map(|said| Wrong::at(said, text("lazy-window")));
    number.or(without).or(strict).or(search).or(window)
}

fn peers(named: &[Spanned<String>]) -> Result<Vec<IodAddress>, Wrong> {
    let mut peers = Vec::new();
    for place in named {
        let peer: IodAddress =
            place.get_ref().parse().map_err(|text: String| Wrong::at(place, text))?;
        if matches!(peer, IodAddress::Export(_)) {
            return Err(Wrong::at(place, "a `peer` must be HOST:PORT of a metaserver"));
        }
        if peers.contains(&peer) {
            return Err(Wrong::at(place, "names a metaserver twice"));
        }
        peers.push(peer);
    }
    Ok(peers)
}
