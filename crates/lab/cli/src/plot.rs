//! Charts of lines and points as SVG.

use crate::Failure;
use plotters::chart::SeriesAnno;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use serde::Serialize;
use std::ops::Range;
use std::path::Path;

/// The style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Mark {
    /// A dashed line for a reference.
    Dashed,
    Line,
    Thin,
    Points,
    /// Rings, which do not hide the points inside.
    Rings,
}

/// Points with one name; a series with an empty name has no entry in the legend.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    name: String,
    mark: Mark,
    #[serde(serialize_with = "short")]
    points: Vec<(f64, f64)>,
    /// The possible error of each point, if known.
    #[serde(skip)]
    plus_minus: Vec<f64>,
}

/// Serializes points with as many digits as a picture shows.
fn short<S: serde::Serializer>(points: &[(f64, f64)], to: S) -> Result<S::Ok, S::Error> {
    let digits = |number: f64| format!("{number:.4e}").parse::<f64>().unwrap_or(number);
    to.collect_seq(points.iter().map(|(x, y)| (digits(*x), digits(*y))))
}

impl Series {
    /// Returns a line.
    #[must_use]
    pub fn line(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self::new(name, Mark::Line, points)
    }

    /// Returns a dashed line for a reference.
    #[must_use]
    pub fn dashed(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self::new(name, Mark::Dashed, points)
    }

    /// Returns a thin line for the background.
    #[must_use]
    pub fn thin(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self::new(name, Mark::Thin, points)
    }

    /// Returns rings, which do not hide the points inside.
    #[must_use]
    pub fn rings(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self::new(name, Mark::Rings, points)
    }

    /// Returns points.
    #[must_use]
    pub fn points(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self::new(name, Mark::Points, points)
    }

    fn new(name: &str, mark: Mark, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), mark, points, plus_minus: Vec::new() }
    }

    /// Returns the same series with an error bar at each point.
    pub(crate) fn plus_minus(self, plus_minus: Vec<f64>) -> Self {
        Self { plus_minus, ..self }
    }

    /// Returns the same series with logarithms to base ten; drops values that are not above zero.
    fn powers(&self) -> Self {
        let above = self.points.iter().filter(|(_, y)| *y > 0.0);
        Self::new(&self.name, self.mark, above.map(|(x, y)| (*x, y.log10())).collect())
    }
}

/// A chart with its axes named.
#[derive(Clone, Debug, Serialize)]
pub struct Chart {
    title: String,
    x: String,
    y: String,
    series: Vec<Series>,
    #[serde(skip)]
    is_logarithmic: bool,
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

/// The largest number of labels on the vertical axis; on a logarithmic axis each power of ten has a
/// label.
const LABELS_MAX: usize = 11;

impl Chart {
    /// Returns a chart with a title, names of the axes and series.
    #[must_use]
    pub fn new(title: &str, x: &str, y: &str, series: Vec<Series>) -> Self {
        let (title, x, y) = (title.into(), x.into(), y.into());
        Self { title, x, y, series, is_logarithmic: false }
    }

    /// Returns the same chart with a logarithmic vertical axis, without error bars.
    #[must_use]
    pub fn logarithmic(self) -> Self {
        let series = self.series.iter().map(Series::powers).collect();
        Self { series, is_logarithmic: true, ..self }
    }

    /// Draws into a file.
    ///
    /// # Errors
    /// The file cannot be written, or its name has no picture extension.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        if path.extension().is_none_or(|ending| ending != "svg") {
            let text = format!("{}: pictures are SVG; the name must end in .svg", path.display());
            return Err(Failure::input(text));
        }
        std::fs::write(path, self.svg()?)
            .map_err(|error| Failure::running(format!("{}: {error}", path.display())))
    }

    /// Returns the picture as text.
    ///
    /// # Errors
    /// The picture cannot be drawn.
    pub fn svg(&self) -> Result<String, Failure> {
        let mut text = String::new();
        self.draw(&mut text).map_err(|error| Failure::running(format!("drawing: {error}")))?;
        Ok(text)
    }

    /// Returns the ranges of the axes: the end of the horizontal one, both ends of the other.
    fn ends(&self) -> (f64, Range<f64>) {
        let all = || self.series.iter().flat_map(|series| &series.points);
        let most = |of: fn(&(f64, f64)) -> f64| {
            all().map(of).filter(|value| value.is_finite()).fold(0.0, f64::max)
        };
        let x_most = most(|point| point.0);
        if !self.is_logarithmic {
            return (x_most, 0.0..most(|point| point.1));
        }
        let powers = || all().map(|point| point.1).filter(|power| power.is_finite());
        let least = powers().reduce(f64::min).unwrap_or(0.0).floor();
        let most = powers().fold(least + 1.0, f64::max).ceil();
        (x_most, least..most)
    }

    fn draw(&self, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let (x_most, ys) = self.ends();
        let (y_least, y_most) = (ys.start, ys.end);
        let above = if self.is_logarithmic { y_most } else { y_most * 1.08 + 1e-12 };
        let powers = (1..100_u32).take_while(|count| f64::from(*count) <= y_most - y_least).count();
        let labels = if self.is_logarithmic { powers + 1 } else { LABELS_MAX };
        let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(&self.title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..x_most * 1.03 + 1e-9, y_least..above)?;
        let power = |number: &f64| tick(&10_f64.powf(*number));
        let y_label: &dyn Fn(&f64) -> String = if self.is_logarithmic { &power } else { &tick };
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_label_formatter(&tick)
            .y_labels(labels)
            .y_label_formatter(y_label)
            .x_desc(&self.x)
            .y_desc(&self.y)
            .axis_desc_style(("sans-serif", 14))
            .draw()?;
        let mut named = 0;
        for series in &self.series {
            // A series without a name belongs to the series before it.
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
                Mark::Dashed => {
                    let points: Vec<_> = points.collect();
                    let line = DashedLineSeries::new(points, 8, 5, colour.stroke_width(2));
                    chart.draw_series(line)?
                }
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
                enter(drawn, series, colour);
            }
        }
        chart
            .configure_series_labels()
            .position(self.free_place(x_most, &ys))
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        root.present()?;
        Ok(())
    }

    /// Returns the place for the legend with the fewest points: a corner, or on a logarithmic axis
    /// also a side.
    fn free_place(&self, x_most: f64, ys: &Range<f64>) -> SeriesLabelPosition {
        let within = |right: bool, heights: Range<f64>| {
            let points = self.series.iter().flat_map(|series| &series.points);
            points
                .filter(|(x, y)| {
                    let x_near = if right { *x > 0.6 * x_most } else { *x < 0.4 * x_most };
                    let height = (y - ys.start) / (ys.end - ys.start);
                    x_near && heights.contains(&height)
                })
                .count()
        };
        let (lower, middle, upper) = (-1.0..0.35, 0.35..0.65, 0.65..2.0);
        let corners = [
            (within(false, upper.clone()), SeriesLabelPosition::UpperLeft),
            (within(true, upper), SeriesLabelPosition::UpperRight),
            (within(true, lower), SeriesLabelPosition::LowerRight),
        ];
        let between =
            self.is_logarithmic.then(|| (within(true, middle), SeriesLabelPosition::MiddleRight));
        let places = corners.into_iter().chain(between);
        places
            .min_by_key(|(points, _)| *points)
            .map_or(SeriesLabelPosition::UpperLeft, |(_, place)| place)
    }
}

/// Adds a series to the legend.
fn enter(drawn: &mut SeriesAnno<'_, SVGBackend<'_>>, series: &Series, colour: RGBColor) {
    drawn.label(&series.name);
    if series.mark == Mark::Dashed {
        drawn.legend(move |(x, y)| {
            DashedPathElement::new([(x, y), (x + 18, y)], 5, 3, colour.stroke_width(2))
        });
    } else {
        drawn.legend(move |(x, y)| Rectangle::new([(x, y - 2), (x + 18, y + 2)], colour.filled()));
    }
}

/// Formats a number at an axis without rounding noise and without unnecessary zeros.
fn tick(number: &f64) -> String {
    let rounded = format!("{number:.6}");
    let short = rounded.trim_end_matches('0').trim_end_matches('.');
    if short.is_empty() || short == "-0" { "0".into() } else { short.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_short_and_the_legend_hides_no_points() {
        assert_eq!(
            [0.0, 10.0, 0.05, 2.5, 100_000.0].map(|n| tick(&n)),
            ["0", "10", "0.05", "2.5", "100000"]
        );
        let falling = (1..20).map(|x| (f64::from(x), 1.0 / f64::from(x))).collect();
        let chart = |points| Chart::new("", "", "", vec![Series::line("a", points)]);
        let place = chart(falling).free_place(20.0, &(0.0..1.0));
        assert!(matches!(place, SeriesLabelPosition::UpperRight));
        let refused = chart(vec![(1.0, 1.0)]).write(Path::new("a.png")).expect_err("no SVG");
        assert!(refused.to_string().contains("must end in .svg"));
    }

    /// Returns the number of points of each line in the first colour.
    fn drawn(series: Series) -> Vec<usize> {
        let picture = Chart::new("", "", "", vec![series]).svg().expect("drawn");
        let own = |tag: &&str| tag.starts_with("<polyline") && tag.contains("#0072B2");
        let points =
            |tag: &str| tag.split_once("points=").map_or(0, |(_, at)| at.matches(',').count());
        picture.lines().filter(own).map(points).collect()
    }

    #[test]
    fn a_line_passes_its_points_and_a_dashed_line_has_many_parts() {
        let points = || vec![(1.0, 11.0), (7.0, 77.0), (8.0, 44.0)];
        assert_eq!(drawn(Series::line("", points())), [3]);
        let dashes = drawn(Series::dashed("", points())).len();
        assert!(dashes > 20, "{dashes}");
        // The legend adds some points; an error bar adds points to any other line.
        assert!(drawn(Series::dashed("a", points())).len() > dashes);
        assert_eq!(drawn(Series::line("a", points())), [3]);
    }

    #[test]
    fn a_logarithmic_axis_has_powers_of_ten_as_labels() {
        let points = vec![(1.0, 0.05), (2.0, 66.0), (3.0, 0.0)];
        let chart = Chart::new("", "", "ms", vec![Series::points("a", points)]).logarithmic();
        let (x_most, ys) = chart.ends();
        assert_eq!((x_most, ys), (2.0, -2.0..2.0));
        let picture = chart.svg().expect("drawn");
        for label in ["0.01", "0.1", "1", "10", "100"] {
            assert!(picture.contains(&format!("\n{label}\n")), "{label}: {picture}");
        }
    }
}
