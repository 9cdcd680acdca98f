//! Pictures: one chart of lines and points, as SVG.

use crate::Failure;
use plotters::prelude::*;
use serde::Serialize;
use std::path::Path;

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Mark {
    Line,
    Thin,
    Points,
    /// Rings, which show what lies inside.
    Rings,
}

/// Points under one name; no name keeps it out of the legend.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Series {
    name: String,
    mark: Mark,
    #[serde(serialize_with = "short")]
    points: Vec<(f64, f64)>,
    /// How far each point may be off, where that is known.
    #[serde(skip)]
    plus_minus: Vec<f64>,
}

/// Points with as many digits as a picture shows.
fn short<S: serde::Serializer>(points: &[(f64, f64)], to: S) -> Result<S::Ok, S::Error> {
    let digits = |number: f64| format!("{number:.4e}").parse::<f64>().unwrap_or(number);
    to.collect_seq(points.iter().map(|(x, y)| (digits(*x), digits(*y))))
}

impl Series {
    pub(crate) fn line(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), mark: Mark::Line, points, plus_minus: Vec::new() }
    }

    pub(crate) fn thin(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), mark: Mark::Thin, points, plus_minus: Vec::new() }
    }

    pub(crate) fn rings(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), mark: Mark::Rings, points, plus_minus: Vec::new() }
    }

    /// The same series with a bar through each point.
    pub(crate) fn plus_minus(self, plus_minus: Vec<f64>) -> Self {
        Self { plus_minus, ..self }
    }

    pub(crate) fn points(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), mark: Mark::Points, points, plus_minus: Vec::new() }
    }
}

/// A chart with its axes named.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) series: Vec<Series>,
}

/// Colours that colour-blind readers can tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

const SIZE: (u32, u32) = (760, 440);

impl Chart {
    /// Draws into a file.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Failure> {
        if path.extension().is_none_or(|ending| ending != "svg") {
            let text = format!("{}: pictures are SVG; the name must end in .svg", path.display());
            return Err(Failure::input(text));
        }
        std::fs::write(path, self.svg()?)
            .map_err(|error| Failure::running(format!("{}: {error}", path.display())))
    }

    /// The picture as text.
    pub(crate) fn svg(&self) -> Result<String, Failure> {
        let mut text = String::new();
        self.draw(&mut text).map_err(|error| Failure::running(format!("drawing: {error}")))?;
        Ok(text)
    }

    fn draw(&self, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let all = || self.series.iter().flat_map(|series| &series.points);
        let most = |of: fn(&(f64, f64)) -> f64| {
            all().map(of).filter(|value| value.is_finite()).fold(0.0, f64::max)
        };
        let (x_most, y_most) = (most(|point| point.0), most(|point| point.1));
        let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..x_most * 1.03 + 1e-9, 0.0..y_most * 1.08 + 1e-12)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_label_formatter(&tick)
            .y_label_formatter(&tick)
            .x_desc(&self.x)
            .y_desc(&self.y)
            .axis_desc_style(("sans-serif", 14))
            .draw()?;
        let mut named = 0;
        for series in &self.series {
            // What has no name belongs to the series before it.
            named += usize::from(!series.name.is_empty());
            let colour = COLOURS[(named.max(1) - 1) % COLOURS.len()];
            let bars = series
                .points
                .iter()
                .zip(&series.plus_minus)
                .filter(|((_, y), off)| y.is_finite() && off.is_finite() && **off > 0.0);
            chart.draw_series(bars.map(|(&(x, y), off)| {
                PathElement::new([(x, (y - off).max(0.0)), (x, y + off)], colour.stroke_width(1))
            }))?;
            let points = series.points.iter().copied().filter(|(_, y)| y.is_finite());
            let drawn = match series.mark {
                Mark::Line => chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?,
                Mark::Thin => chart.draw_series(LineSeries::new(points, colour.stroke_width(1)))?,
                Mark::Points => {
                    chart.draw_series(points.map(|point| Circle::new(point, 4, colour.filled())))?
                }
                Mark::Rings => {
                    let ring = colour.stroke_width(2);
                    chart.draw_series(points.map(|point| Circle::new(point, 7, ring)))?
                }
            };
            if !series.name.is_empty() {
                drawn.label(&series.name).legend(move |(x, y)| {
                    Rectangle::new([(x, y - 2), (x + 18, y + 2)], colour.filled())
                });
            }
        }
        chart
            .configure_series_labels()
            .position(self.free_corner(x_most, y_most))
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        root.present()?;
        Ok(())
    }

    /// A corner for the names in which the fewest points lie.
    fn free_corner(&self, x_most: f64, y_most: f64) -> SeriesLabelPosition {
        let within = |right: bool, upper: bool| {
            let points = self.series.iter().flat_map(|series| &series.points);
            points
                .filter(|(x, y)| {
                    let x_near = if right { *x > 0.6 * x_most } else { *x < 0.4 * x_most };
                    let y_near = if upper { *y > 0.65 * y_most } else { *y < 0.35 * y_most };
                    x_near && y_near
                })
                .count()
        };
        [
            (within(false, true), SeriesLabelPosition::UpperLeft),
            (within(true, true), SeriesLabelPosition::UpperRight),
            (within(true, false), SeriesLabelPosition::LowerRight),
        ]
        .into_iter()
        .min_by_key(|(points, _)| *points)
        .map_or(SeriesLabelPosition::UpperLeft, |(_, corner)| corner)
    }
}

/// A number beside an axis, without the noise of its last digits and without needless zeros.
fn tick(number: &f64) -> String {
    let rounded = format!("{number:.6}");
    let short = rounded.trim_end_matches('0').trim_end_matches('.');
    if short.is_empty() || short == "-0" { "0".into() } else { short.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_short_and_names_keep_out_of_the_way() {
        assert_eq!(
            [0.0, 10.0, 0.05, 2.5, 100_000.0].map(|n| tick(&n)),
            ["0", "10", "0.05", "2.5", "100000"]
        );
        let falling = (1..20).map(|x| (f64::from(x), 1.0 / f64::from(x))).collect();
        let chart = |points| Chart {
            title: String::new(),
            x: String::new(),
            y: String::new(),
            series: vec![Series::line("a", points)],
        };
        let corner = chart(falling).free_corner(20.0, 1.0);
        assert!(matches!(corner, SeriesLabelPosition::UpperRight));
        let refused = chart(vec![(1.0, 1.0)]).write(Path::new("a.png")).expect_err("no SVG");
        assert!(refused.to_string().contains("must end in .svg"));
    }
}
