//! The defaults, limits and headings that options and configuration share. This file uses no other
//! file of the program.

pub(crate) use leasehold_cluster::defaults::{
    COPIES, INLINE_KIB, INLINES_KIB, IOD_TIMEOUT_S, IOD_TIMEOUTS_S, SCRUB_AFTER_S, SCRUBS_AFTER_S,
    UNIT_KIB, UNITS_KIB, WINDOW_S, WINDOWS_S,
};

/// The headings of groups of options.
pub(crate) const WHAT: &str = "Served files";
pub(crate) const WHERE: &str = "Network and clients";
pub(crate) const HOW: &str = "Operation";

pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  ended as requested    2  invalid options                 4  an address is not available
  1  failed while running  3  the directory cannot be served  5  the state is not usable";

/// The minimum and the default size of a stable log, in MiB.
pub(crate) const STABLE_LOG_MIB_MIN: u32 = 8;
pub(crate) const STABLE_LOG_MIB: u32 = 64;

/// The smallest limit of a READ or WRITE, in bytes: clients round to pages.
pub(crate) const TRANSFER_BYTES_MIN: u64 = 4096;
