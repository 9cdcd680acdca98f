//! Numbers in a readable format.

/// Formats a time: 12.3 us, 4.56 ms, 7.89 s.
pub(crate) fn time(seconds: Option<f64>) -> String {
    let Some(seconds) = seconds else { return "-".to_owned() };
    let (value, unit) = match seconds {
        seconds if seconds < 1e-3 => (seconds * 1e6, "us"),
        seconds if seconds < 1.0 => (seconds * 1e3, "ms"),
        seconds => (seconds, "s"),
    };
    format!("{} {unit}", short(value))
}

/// Formats a count of bytes: 12.3 KiB.
pub(crate) fn bytes(count: f64) -> String {
    scaled(count, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// Formats a count: 12.3 k.
pub(crate) fn count(count: f64) -> String {
    scaled(count, 1000.0, &["", "k", "M", "G", "T", "P"]).trim_end().to_owned()
}

/// Formats a span of days, hours, minutes and seconds: 1 d 2 h.
#[must_use]
pub fn span(seconds: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2^53")]
    let whole = seconds.max(0.0) as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3600),
    }
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= step && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    // Whole numbers without a unit have no fraction.
    if unit == 0 && value.fract() == 0.0 {
        return format!("{value:.0} {}", units[0]);
    }
    format!("{} {}", short(value), units[unit])
}

/// Formats three digits.
fn short(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(time(Some(12.34e-6)), "12.3 us");
        assert_eq!(time(Some(0.004_567)), "4.57 ms");
        assert_eq!((time(Some(2.0)), time(None)), ("2.00 s".to_owned(), "-".to_owned()));
        assert_eq!((bytes(17.0), bytes(1536.0)), ("17 B".to_owned(), "1.50 KiB".to_owned()));
        assert_eq!((count(17.0), count(123_456.0)), ("17".to_owned(), "123 k".to_owned()));
        assert_eq!((span(59.9), span(7322.0)), ("59 s".to_owned(), "2 h 2 min".to_owned()));
        assert_eq!(span(90_000.0), "1 d 1 h");
    }
}
