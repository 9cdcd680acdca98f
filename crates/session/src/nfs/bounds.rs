//! The sizes and limits of a server, which a client needs before it reads and writes.

use leasehold_base::limits::{
    DIRECTORY_REPLY_BYTES_MAX, NAME_V2_BYTES_MAX, TRANSFER_BYTES_MAX, TRANSFER_UDP_BYTES_MAX,
    TRANSFER_V2_BYTES_MAX,
};
use leasehold_core::calls::Carrier;
use leasehold_wire::nfs3::{Handle, Time};

use super::{Nfs, Version};
use crate::credential::Credential;
use crate::error::Error;

/// The sizes and limits of a file system, from FSINFO and PATHCONF. Missing or zero values become
/// values that every server supports, and no value exceeds this client's own limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The largest READ that the client should send, in bytes.
    pub read_bytes: u32,
    /// The largest WRITE that the client should send, in bytes.
    pub write_bytes: u32,
    /// The size of a READDIR, in bytes.
    pub directory_bytes: u32,
    /// The largest size of a file, in bytes.
    pub file_bytes_max: u64,
    /// The longest name, in bytes.
    pub name_bytes_max: u32,
    /// The largest number of names of one object.
    pub link_max: u32,
    /// The resolution of file times.
    pub time_step: Time,
    /// True if times can be set.
    pub can_set_time: bool,
    /// True if the server supports hard links.
    pub has_links: bool,
    /// True if the server supports symbolic links.
    pub has_symlinks: bool,
    /// True if names that differ only in case are equal.
    pub case_insensitive: bool,
    /// True if names keep their case.
    pub case_preserving: bool,
    /// True if only the superuser may change the owner of a file.
    pub chown_restricted: bool,
}

/// The transfer size for a server that reports no sizes: every server has supported 8 KiB since
/// version 2.
const TRANSFER_BYTES: u32 = TRANSFER_V2_BYTES_MAX;

impl Bounds {
    /// The values for version 2, whose messages do not contain them.
    const V2: Self = Self {
        read_bytes: TRANSFER_BYTES,
        write_bytes: TRANSFER_BYTES,
        directory_bytes: TRANSFER_BYTES,
        file_bytes_max: u32::MAX as u64,
        name_bytes_max: NAME_V2_BYTES_MAX,
        link_max: u32::MAX,
        time_step: Time { seconds: 0, nanoseconds: 1000 },
        can_set_time: true,
        has_links: true,
        has_symlinks: true,
        case_insensitive: false,
        case_preserving: true,
        chown_restricted: true,
    };
}

/// Returns a transfer size: the server's maximum, or else its preference, within our limit.
fn size(best: u32, max: u32, multiple: u32, ours: u32) -> u32 {
    let largest = if max == 0 { ours } else { max.min(ours) };
    let wanted = if best == 0 { largest.min(TRANSFER_BYTES) } else { best };
    // Many servers prefer a smaller size than their maximum. The maximum is used, because it
    // transfers the most data per round trip.
    let size = if max == 0 { wanted.min(ours) } else { largest };
    if multiple > 1 && size > multiple { size - size % multiple } else { size.max(1) }
}

impl Nfs {
    /// Reads the sizes and limits of the file system of an object.
    ///
    /// # Errors
    /// An error if a call failed, or FSINFO failed at the server; PATHCONF may fail there.
    pub async fn bounds(&self, who: &Credential, root: &Handle) -> Result<Bounds, Error> {
        if self.version == Version::V2 {
            return Ok(Bounds::V2);
        }
        let ours = match self.session.options().carrier {
            Carrier::Stream => TRANSFER_BYTES_MAX,
            Carrier::Datagram => TRANSFER_UDP_BYTES_MAX,
        };
        let info = self.fsinfo(who, root).await?.done()?;
        let (best, max) = (info.read_bytes_best, info.read_bytes_max);
        let read_bytes = size(best, max, info.read_bytes_multiple, ours);
        let (best, max) = (info.write_bytes_best, info.write_bytes_max);
        let write_bytes = size(best, max, info.write_bytes_multiple, ours);
        let directory =
            if info.directory_bytes_best == 0 { TRANSFER_BYTES } else { info.directory_bytes_best };
        let file_bytes_max =
            if info.file_bytes_max == 0 { i64::MAX as u64 } else { info.file_bytes_max };
        let bounds = Bounds {
            read_bytes,
            write_bytes,
            // A server refuses a READDIR with a reply size that is too small for one long name, so
            // the size has a minimum.
            directory_bytes: directory.clamp(4096, DIRECTORY_REPLY_BYTES_MAX.min(ours)),
            file_bytes_max,
            time_step: info.time_step,
            can_set_time: info.properties.can_set_time,
            has_links: info.properties.links,
            has_symlinks: info.properties.symlinks,
            ..Bounds::V2
        };
        let Ok(paths) = self.pathconf(who, root).await?.done() else { return Ok(bounds) };
        let or = |said: u32, default: u32| if said == 0 { default } else { said };
        Ok(Bounds {
            name_bytes_max: or(paths.name_bytes_max, bounds.name_bytes_max),
            link_max: or(paths.link_max, bounds.link_max),
            case_insensitive: paths.case_insensitive,
            case_preserving: paths.case_preserving,
            chown_restricted: paths.chown_restricted,
            ..bounds
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_within_the_limits_of_both_sides() {
        let ours = TRANSFER_BYTES_MAX;
        assert_eq!(size(32 << 10, 1 << 20, 4096, ours), 1 << 20, "the largest");
        assert_eq!(size(4 << 20, 4 << 20, 4096, ours), ours, "no more than ours");
        assert_eq!(size(0, 0, 0, ours), TRANSFER_BYTES, "nothing is said");
        assert_eq!(size(65536, 0, 1, ours), 65536, "only the best is said");
        assert_eq!(size(0, 1, 1, ours), 1, "one byte");
        assert_eq!(size(0, 100_000, 4096, ours), 98304, "a multiple");
        assert_eq!(size(0, 100, 4096, ours), 100, "a multiple that does not fit");
    }
}
