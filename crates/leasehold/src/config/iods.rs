//! What an iod takes from the file that describes its cluster.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use toml::Spanned;

use super::merged;
use super::options::{Export, File, Limits, Server};
use super::rules::Wrong;
use super::source::Source;
use crate::checks;
use crate::cluster::options::Iod;
use crate::cluster::{IodAddress, Own, named, own};
use crate::failure::{Failure, Kind};
use crate::stripes::overlap;

/// What makes a file describe a cluster.
const CLUSTER: &str = "name all iods with `iod`, and their key with `cluster-key`, in [[export]]";

/// What to do where the file does not tell where an iod serves.
const SAY: &str = "say where this one serves with --listen ADDR:PORT";

/// What an iod is to be.
pub(super) struct Keeper {
    pub(super) directory: PathBuf,
    pub(super) cluster_key: PathBuf,
    pub(super) server: Server,
    pub(super) limits: Limits,
}

/// An iod of a cluster, as the file has it.
struct Place<'a> {
    iod: IodAddress,
    export: &'a Export,
    said: &'a Spanned<String>,
}

/// Where the iods of this file keep stripes, where it says so.
pub(super) fn directory(file: &File) -> Result<Option<PathBuf>, Wrong> {
    let Some(table) = &file.iod else { return Ok(None) };
    if places(file)?.is_empty() {
        return Err(Wrong::at(table, format!("an iod is one of a cluster: {CLUSTER}")));
    }
    Ok(Some(table.get_ref().directory.get_ref().clone()))
}

impl Keeper {
    /// What the command line asks for, with the file that it names.
    pub(super) fn of(options: &Iod) -> Result<Self, Failure> {
        let Iod { directory, cluster_key, config, server, .. } = options;
        match (config, directory, cluster_key) {
            (Some(file), ..) => Self::of_file(file, options),
            (None, Some(directory), Some(key)) => Ok(Self {
                directory: checks::directory(directory)?,
                cluster_key: key.clone(),
                server: server.clone(),
                limits: Limits::default(),
            }),
            (None, ..) => {
                let text = "name a directory and --cluster-key FILE, or with --config FILE a file \
                            that has both";
                Err(Kind::Options.because(text))
            }
        }
    }

    fn of_file(path: &Path, options: &Iod) -> Result<Self, Failure> {
        let (source, file) = Source::read(path)?;
        let at = |wrong: Wrong| source.at(&wrong);
        let places = places(&file).map_err(at)?;
        if places.is_empty() {
            return Err(source.lacks(&format!("describes no cluster: {CLUSTER}")));
        }
        let directory = match (&options.directory, &file.iod) {
            (Some(directory), _) => checks::directory(directory)?,
            (None, Some(table)) => {
                let place = &table.get_ref().directory;
                let found = checks::directory(place.get_ref());
                found.map_err(|error| at(Wrong::at(place, error.to_string())))?
            }
            (None, None) => {
                let text = "says no directory for an iod: add [iod] with `directory`, or name DIR";
                return Err(source.lacks(text));
            }
        };
        is_apart(&directory, &file).map_err(at)?;
        let said = &options.server.listen;
        let iods: Vec<_> = places.iter().map(|place| place.iod.clone()).collect();
        let own = own(&iods, said);
        let listen = match said.is_empty() {
            true => listen(&places, &iods, &own).map_err(at)?,
            false => said.clone(),
        };
        let cluster_key = match &options.cluster_key {
            Some(key) => key.clone(),
            // Where addresses are translated on the way it serves on none that is named.
            None if own.is_empty() => key(places.iter()).map_err(at)?,
            None => key(own.iter().map(|own| &places[own.at])).map_err(at)?,
        };
        let Server { durability, threads, udp, log, log_format, .. } = file.server;
        let of_file =
            Server { durability, threads, udp, log, log_format, listen, ..Server::default() };
        let server = merged(&options.server, of_file);
        Ok(Self { directory, cluster_key, server, limits: file.limits })
    }
}

fn places(file: &File) -> Result<Vec<Place<'_>>, Wrong> {
    let mut places = Vec::new();
    for export in file.export.iter().map(Spanned::get_ref) {
        for said in &export.iod {
            let iod: IodAddress =
                said.get_ref().parse().map_err(|text: String| Wrong::at(said, text))?;
            if matches!(iod, IodAddress::OfCluster(_)) {
                places.push(Place { iod, export, said });
            }
        }
    }
    Ok(places)
}

/// Refuses a directory for stripes that lies in one that is served on this machine, or around it.
fn is_apart(stripes: &Path, file: &File) -> Result<(), Wrong> {
    for export in &file.export {
        let place = &export.get_ref().directory;
        // On most machines of iods there is no such directory.
        let Ok(served) = place.get_ref().canonicalize() else { continue };
        if overlap(stripes, &served).map_err(|error| Wrong::at(place, error.to_string()))? {
            let stripes = stripes.display();
            let text = format!(
                "lies in {stripes}, which is for stripes, or that in it: give each a directory of \
                 its own"
            );
            return Err(Wrong::at(place, text));
        }
    }
    Ok(())
}

/// Where the one serves that has an address of this machine.
fn listen(
    places: &[Place<'_>],
    iods: &[IodAddress],
    own: &[Own],
) -> Result<Vec<SocketAddr>, Wrong> {
    let wrong = |at: usize, text: String| Err(Wrong::at(places[at].said, text));
    let (at, addresses) = match own {
        [Own { at, addresses }] => (*at, addresses),
        [] => {
            return wrong(
                0,
                format!("no `iod` is an address of this machine: add its own, or {SAY}"),
            );
        }
        [first, ..] => {
            let all = named(iods, own);
            return wrong(first.at, format!("this machine has the addresses of {all}: {SAY}"));
        }
    };
    let host = &iods[at].server().host;
    if host.parse::<IpAddr>().is_ok() || host == "localhost" {
        return Ok(addresses.clone());
    }
    let reached: Vec<_> =
        addresses.iter().copied().filter(|address| !address.ip().is_loopback()).collect();
    if reached.is_empty() {
        let text =
            format!("{host} leads to the loopback here, where no other machine comes: {SAY}");
        return wrong(at, text);
    }
    Ok(reached)
}

/// The one key that these have.
fn key<'a, 'b: 'a>(places: impl Iterator<Item = &'a Place<'b>>) -> Result<PathBuf, Wrong> {
    let mut keys = BTreeSet::new();
    let mut first = None;
    for place in places {
        let first = first.get_or_insert(place.said);
        let Some(key) = &place.export.cluster_key else {
            let text = "its export has no key of the cluster: name the file with `cluster-key`";
            return Err(Wrong::at(place.said, text));
        };
        keys.insert(key);
        if keys.len() > 1 {
            let text = "iods of several clusters may be meant: say which with --cluster-key FILE";
            return Err(Wrong::at(first, text));
        }
    }
    Ok(keys.first().map(|key| (*key).clone()).unwrap_or_default())
}
