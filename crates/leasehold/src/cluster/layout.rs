//! `leasehold layout`: shows the layout of a file, and requests another layout.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use leasehold_cluster as cluster;
use leasehold_store_dir::LAYOUT;
use leasehold_store_striped::{Damaged, LayoutPolicy, Placed};
use rustix::fs::fgetxattr;
use serde_json::json;

use super::options::Layout;
use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::output::say;
use crate::running;
use crate::server_state::Serving;

/// Prints the layout of a file, or requests another layout.
pub(crate) fn layout(options: &Layout) -> Result<(), Failure> {
    let shown = options.file.display();
    let failed = |error: &dyn std::fmt::Display| Kind::Running.because(format!("{shown}: {error}"));
    if options.says_something() {
        let path = options.file.canonicalize().map_err(|error| failed(&error))?;
        let path = path.to_str().ok_or_else(|| failed(&"its name is not UTF-8"))?.to_owned();
        let words = options.shape().text();
        let state = running::state_of_path(options.state.as_deref(), Path::new(&path))?;
        let done = control::ask(&state, &Request::Layout { path, words });
        return done.map(drop).map_err(|text| Kind::Running.because(text));
    }
    let file = File::open(&options.file).map_err(|error| failed(&error))?;
    let about = file.metadata().map_err(|error| failed(&error))?;
    if about.is_dir() {
        return say(of_directory(&file, options.json) + "\n");
    }
    let length = about.len();
    let mut head = Vec::new();
    file.take(512).read_to_end(&mut head).map_err(|error| failed(&error))?;
    let placed = Placed::read(&head)
        .map_err(|Damaged| failed(&"not a metafile: name a file in the metaserver's directory"))?;
    if options.json {
        let line = placed.map(|Placed { volume, object, unit, iods, copies, is_behind }| {
            json!({ "volume": format!("{volume:016x}"), "object": object.text(), "unit": unit,
                    "iods": iods, "copies": copies, "is_behind": is_behind })
        });
        return say(format!("{}\n", json!(line)));
    }
    let text = match placed {
        None => "the file has no data yet".to_owned(),
        Some(Placed { iods, .. }) if iods.is_empty() => {
            format!("{} bytes, stored in the metafile", length.saturating_sub(512))
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
        (_, false) => "two copies, the second on the next iod",
        (_, true) => "two copies, the second on the next iod, and one is out of date",
    };
    format!(
        "volume {:016x}, stripes of {} bytes, {copies}, round robin on the iods {}\n\
         on each in the file {}",
        placed.volume,
        placed.unit,
        iods.join(", "),
        files.join(", and the second copies in "),
    )
}

/// Describes the layout of new files in a directory.
fn of_directory(directory: &File, in_json: bool) -> String {
    let mut words = [0; 1024];
    // A directory without its own layout has no such attribute: the call fails, and the empty
    // layout means the volume's defaults.
    let length = fgetxattr(directory, LAYOUT, &mut words[..]).unwrap_or_default();
    let shape = LayoutPolicy::parse(&words[..length]).unwrap_or_default();
    if in_json {
        let LayoutPolicy { unit, width, first, iods, copies } = shape;
        return json!({ "unit": unit, "width": width, "first": first, "iods": iods,
                       "copies": copies })
        .to_string();
    }
    let words = shape.text();
    match words.is_empty() {
        true => "new files here have the layout of the volume".to_owned(),
        false => format!("new files here: {}", words.trim_end().replace('\n', ", ")),
    }
}

/// Changes the layout of a file of a running server, or the layout policy of a directory for new
/// files.
///
/// # Errors
/// The fault and its remedy, as text.
pub(crate) fn lay_out(serving: &Serving, path: &Path, words: &str) -> Result<(), String> {
    let shown = path.display();
    let shape =
        LayoutPolicy::parse(words.as_bytes()).ok_or("this server does not support that layout")?;
    let (directory, volume) = serving
        .volume_of(path)
        .ok_or_else(|| format!("{shown} is not in a directory of names of this server"))?;
    cluster::lay_out(&directory, &volume, path, &shape)
}
