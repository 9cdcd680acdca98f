//! `leasehold cluster check`: the state of the iods of a cluster.

use leasehold_base::limits::durations::CLUSTER_COMMAND_TIMEOUT;
use leasehold_cluster::{Asker, Cluster, Found, look};
use leasehold_shell::client::block_on;
use leasehold_store_striped::Mark;
use serde_json::json;

use super::options::Check;
use crate::failure::{Failure, Kind};
use crate::output::say;

/// Prints the state of each iod; fails if an iod is not usable.
pub(crate) fn check(options: &Check) -> Result<(), Failure> {
    let (iods, key) = super::iods(&options.iods, None)?;
    let cluster = Cluster::start(key.as_deref(), CLUSTER_COMMAND_TIMEOUT, Asker::Command)?;
    let mut away = 0;
    for address in &iods {
        let found = block_on(look(&cluster, address));
        away += usize::from(!found.is_usable());
        say(format!("{}\n", if options.json { json(&found) } else { text(&found) }))?;
    }
    match away {
        0 => Ok(()),
        _ => Err(Kind::Running.because(format!("{away} of {} are unusable", iods.len()))),
    }
}

fn json(found: &Found) -> String {
    let Found { address, what, why, mark, free_bytes } = found;
    let volume = mark.as_ref().map(|mark| format!("{:016x}", mark.volume));
    let number = mark.as_ref().map(|mark| mark.number);
    json!({ "address": address, "what": what, "why": why, "volume": volume, "number": number,
                "free_bytes": free_bytes })
    .to_string()
}

fn text(found: &Found) -> String {
    let Found { address, what, why, mark, free_bytes } = found;
    let mut text = match (mark, why) {
        (Some(Mark { volume, number, members }), _) => {
            let all = members.iter().filter(|member| !member.gone).count();
            format!("{address}: iod {number} of {all} of volume {volume:016x}")
        }
        (None, Some(why)) => format!("{address}: {why}"),
        (None, None) => format!("{address}: {what}"),
    };
    if let (Some(_), Some(why)) = (mark, why) {
        text += &format!(", {why}");
    }
    if let Some(bytes) = free_bytes {
        text += &format!(", {} MiB free", bytes >> 20);
    }
    text
}
