//! `leasehold cluster check`: the state of the iods of a cluster.

use leasehold_base::limits::durations::CLUSTER_COMMAND_TIMEOUT;
use leasehold_fs::FsError;
use leasehold_shell::client::block_on;
use leasehold_store_striped::{Files as _, Mark, probe};
use serde_json::json;

use super::options::Check;
use super::{Asker, Cluster, IodAddress, Part};
use crate::failure::{Failure, Kind};
use crate::output::say;

/// Prints the state of each iod; fails if an iod is not usable.
pub(crate) fn check(options: &Check) -> Result<(), Failure> {
    let (iods, key) = options.iods.found(None)?;
    let cluster = Cluster::start(key.as_deref(), CLUSTER_COMMAND_TIMEOUT, Asker::Command)?;
    let mut away = 0;
    for address in &iods {
        let found = block_on(look(&cluster, address));
        away += usize::from(found.what != "iod" && found.what != "new");
        say(format!("{}\n", if options.json { found.json() } else { found.text() }))?;
    }
    match away {
        0 => Ok(()),
        _ => Err(Kind::Running.because(format!("{away} of {} are unusable", iods.len()))),
    }
}

/// The state of the iod at one address.
struct Found {
    address: String,
    what: &'static str,
    why: Option<String>,
    mark: Option<Mark>,
    free_bytes: Option<u64>,
}

async fn look(cluster: &Cluster, address: &IodAddress) -> Found {
    let none = Found {
        address: address.to_string(),
        what: "away",
        why: None,
        mark: None,
        free_bytes: None,
    };
    let files = match cluster.find(address).await {
        Err(refused) => return Found { what: "refuses", why: Some(refused.to_string()), ..none },
        Ok(Part { files: None, .. }) => return none,
        Ok(Part { files: Some(files), .. }) => files,
    };
    let free_bytes = files.space().await.ok().map(|room| room.space.available_bytes);
    match Mark::of(&files).await {
        Ok(None) => Found { what: "new", free_bytes, ..none },
        // An iod rejects the change that the probe requests from all callers but its metaserver.
        // Such an error says nothing about the disk, so only the errors below count as faults.
        Ok(Some(mark)) => match probe(&files).await {
            Err(error @ FsError::ReadOnly) => {
                let why = Some(format!("rejects changes: {}", super::words_of(error)));
                Found { what: "read-only", why, mark: Some(mark), free_bytes, ..none }
            }
            Ok(()) | Err(_) => Found { what: "iod", mark: Some(mark), free_bytes, ..none },
        },
        Err(_) => {
            Found { what: "other", why: Some("not a directory for stripes".to_owned()), ..none }
        }
    }
}

impl Found {
    fn json(&self) -> String {
        let Self { address, what, why, mark, free_bytes } = self;
        let volume = mark.as_ref().map(|mark| format!("{:016x}", mark.volume));
        let number = mark.as_ref().map(|mark| mark.number);
        json!({ "address": address, "what": what, "why": why, "volume": volume, "number": number,
                "free_bytes": free_bytes })
        .to_string()
    }

    fn text(&self) -> String {
        let mut text = match (&self.mark, &self.why) {
            (Some(Mark { volume, number, members }), _) => {
                let all = members.iter().filter(|member| !member.gone).count();
                format!("{}: iod {number} of {all} of volume {volume:016x}", self.address)
            }
            (None, Some(why)) => format!("{}: {why}", self.address),
            (None, None) => format!("{}: {}", self.address, self.what),
        };
        if let (Some(_), Some(why)) = (&self.mark, &self.why) {
            text += &format!(", {why}");
        }
        if let Some(bytes) = self.free_bytes {
            text += &format!(", {} MiB free", bytes >> 20);
        }
        text
    }
}
