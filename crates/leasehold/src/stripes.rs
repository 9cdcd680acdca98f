//! The directories of `--stripe`: iods in this process.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold_fs::Store;
use leasehold_shell::client::block_on;
use leasehold_shell::state;
use leasehold_store_dir::DirStore;
use leasehold_store_striped::{Folder, Iod, Local, Mark, MarkError, OpenError, Options, Striped};

use crate::checks::is_reached;
use crate::config::Planned;
use crate::failure::{Failure, Kind};

/// The size of a stripe unless configured, and what it may be, in KiB.
pub(crate) const UNIT_KIB: u32 = 1024;
pub(crate) const UNITS_KIB: RangeInclusive<i64> = 4..=1 << 20;

/// The largest file that is kept whole unless configured, and what that may be, in KiB.
pub(crate) const INLINE_KIB: u32 = 64;
pub(crate) const INLINES_KIB: RangeInclusive<i64> = 0..=1 << 10;

/// How the data of a served directory is spread over others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// As absolute paths without symbolic links; none where data and names lie together.
    pub(crate) paths: Vec<PathBuf>,
    /// The size of a stripe of new files, in KiB.
    pub(crate) unit_kib: u32,
    /// The largest file that is kept whole, in KiB.
    pub(crate) inline_kib: u32,
}

/// Refuses directories for stripes that lie in another that is used, or around it: clients could
/// change what is only to be changed with a file's name, or one file overwrite another.
pub(crate) fn check(exports: &[Planned]) -> Result<(), Failure> {
    let served = exports.iter().map(|export| &export.directory);
    let spread: Vec<_> = exports.iter().flat_map(|export| &export.layout.paths).collect();
    for (at, &path) in spread.iter().enumerate() {
        for other in served.clone().chain(spread[..at].iter().copied()) {
            if overlap(path, other)? {
                let (path, other) = (path.display(), other.display());
                let text = format!(
                    "{path}, which is for stripes, and {other} lie in each other: give each a \
                     directory of its own, outside what is served"
                );
                return Err(Kind::Options.because(text));
            }
        }
    }
    Ok(())
}

/// Whether one directory lies in the other.
fn overlap(one: &Path, other: &Path) -> Result<bool, Failure> {
    let lies_in = |one: &Path, other: &Path| {
        let reached = is_reached(one, other).map_err(|error| {
            Kind::Directory.because(format!("cannot use {}: {error}", one.display()))
        })?;
        Ok::<bool, Failure>(reached || one.starts_with(other))
    };
    Ok(lies_in(one, other)? || lies_in(other, one)?)
}

/// Joins a directory of names and those of stripes into one store.
pub(crate) fn open(
    layout: &Layout,
    names: &Arc<DirStore>,
    disks: &[Arc<DirStore>],
) -> Result<Arc<dyn Store>, Failure> {
    block_on(join(layout, names, disks))
}

async fn join(
    layout: &Layout,
    names: &Arc<DirStore>,
    disks: &[Arc<DirStore>],
) -> Result<Arc<dyn Store>, Failure> {
    let paths = &layout.paths;
    let mut marks = Vec::new();
    for (path, disk) in paths.iter().zip(disks) {
        marks.push(Mark::of(&files(disk)).await.map_err(|error| unmarked(path, error))?);
    }
    let random = || {
        state::random().map(u64::from_be_bytes).map_err(|error| {
            Kind::Running.because(format!("the system gives no random numbers: {error}"))
        })
    };
    let (volume, order) = match order(paths, &marks)? {
        Some(known) => known,
        None => {
            let served = Local::new(Arc::<DirStore>::clone(names));
            if !is_empty(&served).await.map_err(|error| failed("the served directory", error))? {
                let text = "files that are there already cannot be striped: with new --stripe \
                            directories the served one must be empty; copy the files in through \
                            a mount";
                return Err(Kind::Directory.because(text));
            }
            (random()?, (0..disks.len()).collect())
        }
    };
    let mut iods: Vec<Arc<dyn Iod>> = Vec::new();
    for (number, &at) in (0..).zip(&order) {
        let opened = Folder::open(files(&disks[at]), Mark { volume, number }).await;
        let iod = opened.map_err(|error| failed(&paths[at].display().to_string(), error))?;
        iods.push(Arc::new(iod));
    }
    let laid_out = Options {
        volume,
        unit: layout.unit_kib << 10,
        inline_bytes_max: layout.inline_kib << 10,
        start: random()?,
    };
    let names = Arc::<DirStore>::clone(names);
    let striped = Striped::open(names, iods, laid_out).await.map_err(|error| match error {
        OpenError::Count => Kind::Options.because("--stripe can be given 48 times at most"),
        OpenError::Unit => Kind::Options.because("--stripe-unit must be 1 at least"),
        OpenError::Iod(number, error) => {
            failed(&paths[order[usize::from(number)]].display().to_string(), error)
        }
    })?;
    Ok(Arc::new(striped))
}

fn files(disk: &Arc<DirStore>) -> Local {
    Local::new(Arc::<DirStore>::clone(disk))
}

async fn is_empty(files: &Local) -> Result<bool, leasehold_fs::FsError> {
    use leasehold_store_striped::Files as _;
    files.is_empty(files.root()).await
}

fn failed(what: &str, error: leasehold_fs::FsError) -> Failure {
    Kind::Directory.because(format!("cannot use {what}: {error}"))
}

fn unmarked(path: &Path, error: MarkError) -> Failure {
    let path = path.display();
    let text = match error {
        MarkError::Files(error) => format!("cannot use {path}: {error}"),
        MarkError::NotEmpty => format!(
            "{path} has files in it that are no stripes: name an empty directory with --stripe"
        ),
        MarkError::Damaged => format!("{path}/leasehold-iod cannot be read"),
    };
    Kind::Directory.because(text)
}

/// The volume that the directories are of, and their order in it; none where all are new.
fn order(paths: &[PathBuf], marks: &[Option<Mark>]) -> Result<Option<(u64, Vec<usize>)>, Failure> {
    let refused = |text: String| Err(Kind::Directory.because(text));
    let Some(volume) = marks.iter().flatten().map(|mark| mark.volume).next() else {
        return Ok(None);
    };
    let mut numbers = BTreeSet::new();
    let mut order = vec![0; marks.len()];
    for (at, (path, mark)) in paths.iter().zip(marks).enumerate() {
        let path = path.display();
        let Some(mark) = mark else {
            return refused(format!(
                "{path} is new, but other --stripe directories are not: directories cannot be \
                 added to a volume yet"
            ));
        };
        if mark.volume != volume || !numbers.insert(mark.number) {
            return refused(format!("{path} holds stripes of another volume, or a copy"));
        }
        match order.get_mut(usize::from(mark.number)) {
            Some(place) => *place = at,
            None => {
                return refused(format!(
                    "{path} is number {} of its volume: name all --stripe directories of it",
                    mark.number
                ));
            }
        }
    }
    Ok(Some((volume, order)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_marks() {
        let paths: Vec<PathBuf> = ["a", "b", "c"].map(PathBuf::from).into();
        let mark = |volume, number| Some(Mark { volume, number });
        let order = |marks: &[Option<Mark>]| order(&paths[..marks.len()], marks);
        assert_eq!(order(&[None, None]).ok(), Some(None));
        let found = order(&[mark(5, 2), mark(5, 0), mark(5, 1)]);
        assert_eq!(found.ok(), Some(Some((5, vec![1, 2, 0]))));
        for wrong in [
            [mark(5, 0), None, mark(5, 1)],
            [mark(5, 0), mark(6, 1), mark(5, 2)],
            [mark(5, 0), mark(5, 0), mark(5, 1)],
            [mark(5, 0), mark(5, 1), mark(5, 3)],
        ] {
            assert!(order(&wrong).is_err(), "{wrong:?}");
        }
        assert!(order(&[mark(5, 0), mark(5, 2)]).is_err());
    }
}
