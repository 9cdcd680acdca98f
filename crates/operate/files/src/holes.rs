//! Holes of files: ranges of zeros that occupy no disk space.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::{SeekFrom, seek};

/// The unit of holes in a copy. It is larger than the blocks of all usual file systems, and large
/// enough that a copy needs few calls.
const UNIT_BYTES: usize = 64 << 10;

/// Returns true if a local file has holes.
pub(crate) fn has_holes(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.blocks().saturating_mul(512) < metadata.len()
}

/// Returns the first offset with data at or after `at`; `None` if only a hole follows.
///
/// # Errors
/// An error of the file system.
pub(crate) fn next_data(file: &File, at: u64) -> io::Result<Option<u64>> {
    match seek(file, SeekFrom::Data(at)) {
        Ok(place) => Ok(Some(place)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        // The file system does not support holes, so all bytes count as data.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => Ok(Some(at)),
        Err(error) => Err(error.into()),
    }
}

/// Returns the ranges of the data that contain bytes other than zeros.
pub(crate) fn filled(data: &[u8]) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    for (number, unit) in data.chunks(UNIT_BYTES).enumerate() {
        if unit.iter().all(|byte| *byte == 0) {
            continue;
        }
        let start = number * UNIT_BYTES;
        let end = start + unit.len();
        match parts.last_mut() {
            Some(last) if last.end == start => last.end = end,
            Some(_) | None => parts.push(start..end),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn zeros_are_omitted_in_units() {
        let unit = UNIT_BYTES;
        let mut data = vec![0; 5 * unit + 10];
        assert_eq!(filled(&data), Vec::<Range<usize>>::new());
        data[unit] = 1;
        data[3 * unit - 1] = 1;
        data[5 * unit + 9] = 1;
        assert_eq!(filled(&data), vec![unit..3 * unit, 5 * unit..5 * unit + 10]);
        assert_eq!(filled(&[]), Vec::<Range<usize>>::new());
    }

    #[test]
    fn data_is_found_after_a_hole() {
        let file = tempfile::tempfile().expect("a file for the test");
        file.set_len(64 << 20).expect("it can be made longer");
        file.write_all_at(b"data", 32 << 20).expect("there is room");
        let data = next_data(&file, 0).expect("the file system has holes").expect("there is data");
        assert!(data <= 32 << 20);
        assert!(has_holes(&file.metadata().expect("it is open")));
        let behind = next_data(&file, 48 << 20).expect("the file system has holes");
        assert!(behind.is_none_or(|at| at == 48 << 20));
    }
}
