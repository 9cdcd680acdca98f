//! Numbers with unit and origin.

use serde::{Deserialize, Serialize};

/// A number, its unit and where it is from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// The number.
    pub value: f64,
    /// Its unit; a plain number when absent.
    #[serde(default, skip_serializing_if = "Unit::is_none")]
    pub unit: Unit,
    /// Where it is from.
    pub from: Origin,
    /// The source in words: which measurement, which page.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub r#where: String,
}

/// Where a number is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Nobody measured it.
    Assumed,
    /// We measured it; `where` says when and on what.
    Measured,
    /// One of the seed texts has it; `where` says which and where.
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

/// What a unit measures.
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

    /// A value of this unit in seconds, bytes, bits per second or per second.
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
    /// The value in seconds, bytes, bits per second, per second, or as it is.
    #[must_use]
    pub fn base(&self) -> f64 {
        self.unit.base(self.value)
    }

    /// A count; the check has seen that it is a whole number.
    #[must_use]
    pub fn count(&self) -> usize {
        whole(self.value)
    }

    /// A number without unit that nobody measured.
    #[must_use]
    pub const fn assumed(value: f64) -> Self {
        Self { value, unit: Unit::None, from: Origin::Assumed, r#where: String::new() }
    }
}

/// The whole number that a checked value is.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates; checked")]
pub(crate) const fn whole(value: f64) -> usize {
    value as usize
}
