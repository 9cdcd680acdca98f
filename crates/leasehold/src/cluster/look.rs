//! What there is of a cluster: its iods, and where a file lies.

use std::fs::File;
use std::io::Read as _;
use std::time::Duration;

use leasehold_shell::client::block_on;
use leasehold_store_striped::{Damaged, Files as _, Mark, Placed};
use serde_json::json;

use super::options::{Check, Layout};
use super::{Cluster, IodAddress, Part};
use crate::failure::{Failure, Kind};
use crate::say::say;

/// Longer than anybody looks.
const PATIENCE: Duration = Duration::from_secs(60);

/// Says which iods are there; fails unless all are.
pub(crate) fn check(options: &Check) -> Result<(), Failure> {
    let (iods, key) = options.iods.found(None)?;
    let cluster = Cluster::start(key.as_deref(), PATIENCE)?;
    let mut away = 0;
    for address in &iods {
        let found = block_on(look(&cluster, address));
        away += usize::from(found.what != "iod" && found.what != "new");
        say(format!("{}\n", if options.json { found.json() } else { found.text() }))?;
    }
    match away {
        0 => Ok(()),
        _ => Err(Kind::Running.because(format!("{away} of {} are no use now", iods.len()))),
    }
}

/// What was found at an address.
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
        Ok(Some(mark)) => Found { what: "iod", mark: Some(mark), free_bytes, ..none },
        Err(_) => Found { what: "other", why: Some("it holds no stripes".to_owned()), ..none },
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
        if let Some(bytes) = self.free_bytes {
            text += &format!(", {} MiB free", bytes >> 20);
        }
        text
    }
}

/// Says where the data of a file lies.
pub(crate) fn layout(options: &Layout) -> Result<(), Failure> {
    let shown = options.file.display();
    let failed = |error: &dyn std::fmt::Display| Kind::Running.because(format!("{shown}: {error}"));
    let file = File::open(&options.file).map_err(|error| failed(&error))?;
    let length = file.metadata().map_err(|error| failed(&error))?.len();
    let mut head = Vec::new();
    file.take(512).read_to_end(&mut head).map_err(|error| failed(&error))?;
    let placed = Placed::read(&head).map_err(|Damaged| {
        failed(&"this is no metafile: name one in the metaserver's directory")
    })?;
    if options.json {
        let line = placed.map(|Placed { volume, object, unit, iods, copies, is_behind }| {
            json!({ "volume": format!("{volume:016x}"), "object": object.text(), "unit": unit,
                    "iods": iods, "copies": copies, "is_behind": is_behind })
        });
        return say(format!("{}\n", json!(line)));
    }
    let text = match placed {
        None => "nothing was written to it yet".to_owned(),
        Some(Placed { iods, .. }) if iods.is_empty() => {
            format!("{} bytes in the metafile itself", length.saturating_sub(512))
        }
        Some(placed) => on_iods(&placed),
    };
    say(text + "\n")
}

fn on_iods(placed: &Placed) -> String {
    let iods: Vec<String> = placed.iods.iter().map(u16::to_string).collect();
    let files: Vec<String> = placed.objects().iter().map(|object| object.text()).collect();
    let files: Vec<_> = files.iter().map(|name| format!("{}/{name}", &name[..2])).collect();
    let copies = match (placed.copies, placed.is_behind) {
        (1, _) => "one copy",
        (_, false) => "two copies, the second on the next",
        (_, true) => "two copies, the second on the next, and one lacks something",
    };
    format!(
        "volume {:016x}, stripes of {} bytes, {copies}, in turn on the iods {}\n\
         on each in the file {}",
        placed.volume,
        placed.unit,
        iods.join(", "),
        files.join(", and of second copies in "),
    )
}
