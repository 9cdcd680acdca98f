//! A figure: a measured ratio and its target.

use serde::Serialize;

/// The target of a ratio.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
}

/// One line of the output.
#[derive(Serialize)]
pub(crate) struct Figure {
    pub(crate) figure: String,
    /// The worse end of the 90% interval of the ratio.
    pub(crate) ours: f64,
    pub(crate) target: String,
    pub(crate) unit: &'static str,
    /// The durability tier of acknowledged data.
    pub(crate) tier: &'static str,
    pub(crate) holds: bool,
    /// Medians in absolute terms, which apply to this run only.
    pub(crate) medians: Medians,
}

#[derive(Serialize)]
pub(crate) struct Medians {
    pub(crate) ours: f64,
    pub(crate) other: f64,
    pub(crate) unit: &'static str,
}

impl Figure {
    /// Returns the figure of pairs (ours, other) that were measured in turn.
    pub(crate) fn of(
        name: String,
        pairs: &[(f64, f64)],
        target: Target,
        unit: (&'static str, &'static str),
        tier: &'static str,
    ) -> Self {
        let (low, high) = interval(pairs);
        let (ours, holds, text) = match target {
            Target::AtLeast(bound) => (low, low >= bound, format!(">={bound}")),
            Target::AtMost(bound) => (high, high <= bound, format!("<={bound}")),
            Target::Below(bound) => (high, high < bound, format!("<{bound}")),
        };
        let medians = Medians {
            ours: median(pairs.iter().map(|pair| pair.0)),
            other: median(pairs.iter().map(|pair| pair.1)),
            unit: unit.1,
        };
        Self { figure: name, ours, target: text, unit: unit.0, tier, holds, medians }
    }

    /// Returns the figure of instructions relative to the stored count, with a tolerance.
    pub(crate) fn kept(name: String, (ours, kept): (f64, f64), tolerance: f64) -> Self {
        let holds = ours <= kept * (1.0 + tolerance);
        let target = format!("<={kept:.0} + {}%", tolerance * 100.0);
        let unit = "instructions";
        let medians = Medians { ours, other: kept, unit };
        Self { figure: name, ours, target, unit, tier: "memory", holds, medians }
    }

    /// Returns a figure of ours next to another's, without a target.
    pub(crate) fn beside(name: String, ours: f64, theirs: Option<f64>, unit: &'static str) -> Self {
        let medians = Medians { ours, other: theirs.unwrap_or(f64::NAN), unit };
        let target = "printed".to_owned();
        Self { figure: name, ours, target, unit, tier: "disk", holds: true, medians }
    }

    /// Returns the figure of a share with a minimum.
    pub(crate) fn share(name: String, ours: f64, least: f64) -> Self {
        let unit = "share of the links' capacity";
        let medians = Medians { ours, other: least, unit };
        let (target, holds) = (format!(">={least} to the knee"), ours >= least);
        Self { figure: name, ours, target, unit, tier: "disk", holds, medians }
    }

    /// Returns the figure of a count, next to its counterpart.
    pub(crate) fn count(
        name: String,
        (ours, other): (f64, f64),
        most: f64,
        unit: (&'static str, &'static str),
    ) -> Self {
        let medians = Medians { ours, other, unit: unit.1 };
        let (target, holds) = (format!("<={most}"), ours <= most);
        Self { figure: name, ours, target, unit: unit.0, tier: "disk", holds, medians }
    }

    /// Returns the figure of a value that must reach at least its counterpart.
    pub(crate) fn least(
        name: String,
        (ours, other): (f64, f64),
        least: f64,
        unit: (&'static str, &'static str),
    ) -> Self {
        let medians = Medians { ours, other, unit: unit.1 };
        let (target, holds) = (format!(">={least}"), ours >= least);
        Self { figure: name, ours, target, unit: unit.0, tier: "disk", holds, medians }
    }

    pub(crate) fn print(&self) {
        println!("{}", serde_json::to_string(self).expect("plain data is JSON"));
    }
}

/// Returns the 90% interval of the ratio of the pairs' values: Student's on its logarithm, because
/// ratios scatter by factors.
fn interval(pairs: &[(f64, f64)]) -> (f64, f64) {
    let logs: Vec<f64> = pairs.iter().map(|(ours, other)| (ours / other).ln()).collect();
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let reach = student_95(logs.len() - 1) * (variance / count).sqrt();
    ((mean - reach).exp(), (mean + reach).exp())
}

/// Returns the 95% point of Student's distribution, one-sided, for degrees of freedom from 1 on.
fn student_95(freedom: usize) -> f64 {
    const POINTS: [f64; 10] =
        [6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812];
    POINTS.get(freedom.max(1) - 1).copied().unwrap_or(1.812)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_holds_the_ratio_and_grows_with_the_scatter() {
        let (low, high) = interval(&[(2.0, 1.0); 5]);
        assert!((low - 2.0).abs() < 1e-9 && (high - 2.0).abs() < 1e-9);
        let (low, high) = interval(&[(2.0, 1.0), (4.0, 1.0), (1.0, 1.0), (2.0, 1.0), (2.0, 1.0)]);
        assert!(low < 1.5 && high > 2.5, "{low} {high}");
    }

    #[test]
    fn the_worse_end_decides() {
        let pairs = [(4.1, 1.0), (3.9, 1.0), (4.0, 1.0)];
        let units = ("ratio", "calls/s");
        let figure = Figure::of("x".to_owned(), &pairs, Target::AtLeast(4.0), units, "disk");
        assert!(!figure.holds && figure.ours < 4.0);
        let figure = Figure::of("x".to_owned(), &pairs, Target::AtMost(4.2), units, "disk");
        assert!(figure.holds && figure.ours > 4.0);
    }
}
