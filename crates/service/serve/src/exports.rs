//! What is offered, and by which paths it is mounted.

use leasehold_fs::{Export, ExportId};

/// All that a server offers.
pub(crate) struct Exports {
    exports: Vec<Export>,
}

impl Exports {
    pub(crate) const fn new(exports: Vec<Export>) -> Self {
        Self { exports }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Export> {
        self.exports.iter()
    }

    pub(crate) fn by_id(&self, id: ExportId) -> Option<&Export> {
        self.exports.iter().find(|export| export.id == id)
    }

    /// The export that a client means by a path: `/name`, the absolute path, or `/` where there
    /// is only one. Slashes at the end do not count.
    pub(crate) fn by_path(&self, path: &[u8]) -> Option<&Export> {
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let path = &path[..end];
        if path.is_empty() {
            return match self.exports.as_slice() {
                [only] => Some(only),
                _ => None,
            };
        }
        let name = path.strip_prefix(b"/").unwrap_or(path);
        self.iter().find(|export| {
            export.name.as_bytes() == name
                || (!export.path.is_empty() && export.path.as_bytes() == path)
        })
    }
}
