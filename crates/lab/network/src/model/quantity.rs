//! Numbers with unit and origin.

use serde::{Deserialize, Serialize};

/// A number, its unit and its origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// The number.
    pub value: f64,
    /// Its unit; a plain number when absent.
    #[serde(default, skip_serializing_if = "Unit::is_none")]
    pub unit: Unit,
    /// Its origin.
    pub from: Origin,
    /// The source in words: the measurement, the page.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub r#where: String,
}

/// The origin of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The number is assumed.
    Assumed,
    /// The number is measured; `where` states date and system.
    Measured,
    /// The number is from a seed text; `where` states the text and the place.
    Seed,
}

/// The units that a model file may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Unit {
    /// A plain number.
    #[default]
    #[serde(rename = "")]
    None,
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Minutes.
    #[serde(rename = "min")]
    Minutes,
    /// Hours.
    #[serde(rename = "h")]
    Hours,
    /// Per second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// 1,024 bytes.
    #[serde(rename = "KiB")]
    Kibibytes,
    /// 1,000,000 bits per second.
    #[serde(rename = "Mbit/s")]
    MegabitsPerSecond,
}

/// The dimension of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dimension {
    /// A count or a share.
    Number,
    /// Seconds.
    Time,
    /// Per second.
    Rate,
    /// Bytes.
    Size,
    /// Bits per second.
    Bandwidth,
}

impl Unit {
    const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    pub(crate) const fn dimension(self) -> Dimension {
        match self {
            Self::None => Dimension::Number,
            Self::Microseconds
            | Self::Milliseconds
            | Self::Seconds
            | Self::Minutes
            | Self::Hours => Dimension::Time,
            Self::PerSecond => Dimension::Rate,
            Self::Bytes | Self::Kibibytes => Dimension::Size,
            Self::MegabitsPerSecond => Dimension::Bandwidth,
        }
    }

    /// Converts a value of this unit to seconds, bytes, bits per second or per second.
    pub(crate) fn base(self, value: f64) -> f64 {
        match self {
            Self::None | Self::Seconds | Self::PerSecond | Self::Bytes => value,
            // Dividing by a power of ten rounds once; multiplying by its inverse rounds twice.
            Self::Microseconds => value / 1e6,
            Self::Milliseconds => value / 1e3,
            Self::Minutes => value * 60.0,
            Self::Hours => value * 3600.0,
            Self::Kibibytes => value * 1024.0,
            Self::MegabitsPerSecond => value * 1e6,
        }
    }
}

impl Quantity {
    /// Returns the value in seconds, bytes, bits per second, per second, or as a plain number.
    #[must_use]
    pub fn base(&self) -> f64 {
        self.unit.base(self.value)
    }

    /// Returns a count; the check has ensured a whole number.
    #[must_use]
    pub fn count(&self) -> usize {
        whole(self.value)
    }

    /// Returns an assumed number without unit.
    #[must_use]
    pub const fn assumed(value: f64) -> Self {
        Self { value, unit: Unit::None, from: Origin::Assumed, r#where: String::new() }
    }
}

/// Returns the whole number of a checked value.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates; checked")]
pub(crate) const fn whole(value: f64) -> usize {
    value as usize
}
