//! The defaults and the ranges of the properties of a volume. This file uses no other, so that
//! options, configuration and volumes share the values.

use std::ops::RangeInclusive;

/// The default size of a stripe, in KiB.
pub const UNIT_KIB: u32 = 1024;
/// The range of the size of a stripe, in KiB.
pub const UNITS_KIB: RangeInclusive<i64> = 4..=1 << 20;

/// The default of the maximum size of a file that is stored whole, in KiB.
pub const INLINE_KIB: u32 = 64;
/// The range of the maximum size of a file that is stored whole, in KiB.
pub const INLINES_KIB: RangeInclusive<i64> = 0..=1 << 10;

/// The range of the number of iods that store each stripe.
pub const COPIES: RangeInclusive<i64> = 1..=2;

/// The default timeout of an iod, in seconds.
pub const IOD_TIMEOUT_S: u32 = 60;
/// The range of the timeout of an iod, in seconds.
pub const IOD_TIMEOUTS_S: RangeInclusive<i64> = 1..=86_400;

/// The default of the time for which stripes that belong to no file are kept, in seconds.
pub const SCRUB_AFTER_S: u32 = 3600;
/// The range of the time for which stripes that belong to no file are kept, in seconds.
pub const SCRUBS_AFTER_S: RangeInclusive<i64> = 0..=2_592_000;

/// The default of the time for which a metaserver may use a cached copy of a peer's metafile, in
/// seconds.
pub const WINDOW_S: u32 = 3;
/// The range of the time for which a metaserver may use a cached copy, in seconds.
pub const WINDOWS_S: RangeInclusive<i64> = 1..=60;
