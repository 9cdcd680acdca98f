//! The configuration of an iod, from the file that describes its cluster.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use leasehold_cluster::{IodAddress, Own, named, own};
use toml::Spanned;

use super::merged;
use super::options::{Export, File, Limits, Server};
use super::rules::Wrong;
use super::source::Source;
use crate::checks;
use crate::cluster::options::Iod;
use crate::failure::{Failure, Kind};
use crate::stripes::overlap;

/// The remedy for a file that does not describe a cluster.
const CLUSTER: &str = "name all iods with `iod`, and their key with `cluster-key`, in [[export]]";

/// The remedy for a file without the address of the iod.
const SAY: &str = "give the address of this iod with --listen ADDR:PORT";

/// The configuration of an iod.
pub(super) struct Keeper {
    pub(super) directory: PathBuf,
    pub(super) cluster_key: PathBuf,
    pub(super) server: Server,
    pub(super) limits: Limits,
}

/// An entry for an iod, with its location in the file.
struct Place<'a> {
    iod: IodAddress,
    export: &'a Export,
    said: &'a Spanned<String>,
}

/// Returns the directory for stripes, if the file contains one.
pub(super) fn directory(file: &File) -> Result<Option<PathBuf>, Wrong> {
    let Some(table) = &file.iod else { return Ok(None) };
    if places(file)?.is_empty() {
        return Err(Wrong::at(table, format!("an iod belongs to a cluster: {CLUSTER}")));
    }
    Ok(Some(table.get_ref().directory.get_ref().clone()))
}

impl Keeper {
    /// Reads the configuration from the command line and its file.
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
                let text = "name a directory and --cluster-key FILE, or a file with both by \
                            --config FILE";
                Err(Kind::Options.because(text))
            }
        }
    }

    fn of_file(path: &Path, options: &Iod) -> Result<Self, Failure> {
        let (source, file) = Source::read(path)?;
        let at = |wrong: Wrong| source.at(&wrong);
        let places = places(&file).map_err(at)?;
        if places.is_empty() {
            return Err(source.lacks(&format!("does not describe a cluster: {CLUSTER}")));
        }
        let directory = match (&options.directory, &file.iod) {
            (Some(directory), _) => checks::directory(directory)?,
            (None, Some(table)) => {
                let place = &table.get_ref().directory;
                let found = checks::directory(place.get_ref());
                found.map_err(|error| at(Wrong::at(place, error.to_string())))?
            }
            (None, None) => {
                let text = "names no directory for an iod: add [iod] with `directory`, or name DIR";
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
            // If addresses are translated on the way to this machine, no entry contains a local
            // address: use the key if all entries have the same key.
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

/// Rejects a directory for stripes that lies inside, or contains, a directory that this machine
/// serves.
fn is_apart(stripes: &Path, file: &File) -> Result<(), Wrong> {
    for export in &file.export {
        let place = &export.get_ref().directory;
        // The file also lists directories of other machines. A directory that does not exist here
        // cannot overlap: skip it.
        let Ok(served) = place.get_ref().canonicalize() else { continue };
        if overlap(stripes, &served).map_err(|error| Wrong::at(place, error.to_string()))? {
            let stripes = stripes.display();
            let text = format!(
                "this directory and {stripes}, which is for stripes, contain one another: use \
                 separate directories"
            );
            return Err(Wrong::at(place, text));
        }
    }
    Ok(())
}

/// Returns the addresses to listen on: the local addresses of the only entry that has an address of
/// this machine.
fn listen(
    places: &[Place<'_>],
    iods: &[IodAddress],
    own: &[Own],
) -> Result<Vec<SocketAddr>, Wrong> {
    let wrong = |at: usize, text: String| Err(Wrong::at(places[at].said, text));
    let (at, addresses) = match own {
        [Own { at, addresses }] => (*at, addresses),
        [] => {
            return wrong(0, format!("no `iod` has an address of this machine: add one, or {SAY}"));
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
            format!("{host} resolves to the loopback, which other machines cannot reach: {SAY}");
        return wrong(at, text);
    }
    Ok(reached)
}

/// Returns the cluster key file of these entries. Fails if they name several key files.
fn key<'a, 'b: 'a>(places: impl Iterator<Item = &'a Place<'b>>) -> Result<PathBuf, Wrong> {
    let mut keys = BTreeSet::new();
    let mut first = None;
    for place in places {
        let first = first.get_or_insert(place.said);
        let Some(key) = &place.export.cluster_key else {
            let text = "its export has no cluster key: name the file with `cluster-key`";
            return Err(Wrong::at(place.said, text));
        };
        keys.insert(key);
        if keys.len() > 1 {
            let text = "the iods belong to several clusters: choose one with --cluster-key FILE";
            return Err(Wrong::at(first, text));
        }
    }
    Ok(keys.first().map(|key| (*key).clone()).unwrap_or_default())
}
