//! What is offered, and by which paths it is mounted.

use leasehold_fs::{Export, ExportId};

/// All that a server offers.
pub struct Exports(Vec<Export>);

impl Exports {
    pub(crate) const fn new(exports: Vec<Export>) -> Self {
        Self(exports)
    }

    /// The exports.
    pub fn iter(&self) -> impl Iterator<Item = &Export> {
        self.0.iter()
    }

    pub(crate) fn by_id(&self, id: ExportId) -> Option<&Export> {
        self.0.iter().find(|export| export.id == id)
    }

    /// The export that a client means by a path, and what of the path lies below it. An export is
    /// meant by its absolute path, by `/` and its name, and, where it is the only one, by `/`.
    pub(crate) fn by_path<'a>(&self, path: &'a [u8]) -> Option<(&Export, &'a [u8])> {
        let by = |root: fn(&Export) -> &[u8]| {
            self.iter().filter_map(move |export| Some((export, below(path, root(export))?)))
        };
        // The longest fits best: one export may lie within another.
        let paths = by(|export| export.path.as_bytes());
        let names = by(|export| export.name.as_bytes());
        let best = paths.chain(names).min_by_key(|(_, below)| below.len());
        match (best, self.0.as_slice()) {
            (None, [only]) => Some((only, path)),
            (best, _) => best,
        }
    }
}

/// What of a path lies below a directory; none when it is another one. Slashes at the ends of
/// both do not count.
fn below<'a>(path: &'a [u8], root: &[u8]) -> Option<&'a [u8]> {
    let root = trim(root);
    match trim(path).strip_prefix(root)? {
        _ if root.is_empty() => None,
        below @ ([] | [b'/', ..]) => Some(below),
        _ => None,
    }
}

/// The names that a path leads over.
pub(crate) fn names(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

/// The one path that stands for all that lead to a directory below an export: by the export's
/// name. What leads up and down again is left out; no symbolic link is ever on the way.
pub(crate) fn plain_path(export: &Export, below: &[u8]) -> Vec<u8> {
    let mut down = Vec::new();
    for name in names(below) {
        match name {
            b"." => {}
            // The root of an export leads to itself.
            b".." => drop(down.pop()),
            name => down.push(name),
        }
    }
    let mut path = Vec::new();
    for name in [trim(export.name.as_bytes())].into_iter().chain(down) {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    path
}

/// A path without the slashes at its ends.
fn trim(mut path: &[u8]) -> &[u8] {
    while let [b'/', rest @ ..] | [rest @ .., b'/'] = path {
        path = rest;
    }
    path
}
