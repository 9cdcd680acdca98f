//! A service level: a bound on a response time.

use leasehold_lab_des::Quantity;

/// A bound on a response time, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slo {
    /// The bounded response time.
    pub quantity: Quantity,
    /// The bound in seconds.
    pub bound: f64,
}

impl Slo {
    /// Parses `mean < 20 ms`, `p50 < 1 s`, `p95 < 10 ms` or `p99 < 500 us`.
    ///
    /// # Errors
    /// The expected form of the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let form = "needs the form 'p95 < 10 ms', with mean, p50, p95 or p99 and us, ms or s";
        let (what, bound) = text.split_once('<').ok_or(form)?;
        let named = NAMES.iter().find(|(name, _)| *name == what.trim());
        let (_, quantity) = *named.ok_or(form)?;
        let bound = bound.trim();
        let digits = bound.find(|c: char| c.is_ascii_alphabetic()).ok_or(form)?;
        let (number, unit) = bound.split_at(digits);
        let number: f64 = number.trim().parse().map_err(|_| form)?;
        let divisor = match unit {
            "us" => 1e6,
            "ms" => 1e3,
            "s" => 1.0,
            _ => return Err(form.into()),
        };
        if number > 0.0 { Ok(Self { quantity, bound: number / divisor }) } else { Err(form.into()) }
    }

    /// Returns the share of requests within the bound, or `None` for the mean.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let shares = [
            (Quantity::ResponseP50, 0.5),
            (Quantity::ResponseP95, 0.95),
            (Quantity::ResponseP99, 0.99),
        ];
        let found = shares.into_iter().find(|(quantity, _)| *quantity == self.quantity);
        found.map(|(_, share)| share)
    }

    /// Returns the name of the bounded time.
    #[must_use]
    pub fn name(&self) -> &'static str {
        let named = NAMES.iter().find(|(_, quantity)| *quantity == self.quantity);
        named.map_or("mean", |(name, _)| name)
    }
}

/// The response times that a service level can bound.
const NAMES: [(&str, Quantity); 4] = [
    ("mean", Quantity::Response),
    ("p50", Quantity::ResponseP50),
    ("p95", Quantity::ResponseP95),
    ("p99", Quantity::ResponseP99),
];

/// Formats a time with a unit that suits its size.
#[must_use]
pub fn time(seconds: f64) -> String {
    let (value, unit) = if seconds >= 1.0 {
        (seconds, "s")
    } else if seconds >= 1e-3 {
        (seconds * 1e3, "ms")
    } else {
        (seconds * 1e6, "us")
    };
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_levels_are_read_and_times_written() {
        let slo = Slo::parse("p95 < 10 ms").expect("well formed");
        assert_eq!(slo, Slo { quantity: Quantity::ResponseP95, bound: 0.01 });
        assert_eq!(Slo::parse("mean<2s").expect("well formed").bound.to_bits(), 2.0_f64.to_bits());
        for wrong in ["p96 < 1 s", "p95 > 1 s", "p95 < 1", "p95 < -1 s", "mean < 1 day"] {
            assert!(Slo::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!((time(0.0123).as_str(), time(2.5).as_str()), ("12.3 ms", "2.50 s"));
    }
}
