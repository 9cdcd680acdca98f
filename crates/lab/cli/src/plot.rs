//! Pictures: one chart of lines and points, as SVG.

use crate::Failure;
use plotters::prelude::*;
use std::path::Path;

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Line,
    Thin,
    Points,
}

/// Points under one name; no name keeps it out of the legend.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    name: String,
    mark: Mark,
    points: Vec<(f64, f64)>,
}

impl Series {
    pub(crate) fn line(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), mark: Mark::Line, points }
    }

    pub(crate) fn thin(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), mark: Mark::Thin, points }
    }

    pub(crate) fn points(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), mark: Mark::Points, points }
    }
}

/// A chart with its axes named.
#[derive(Clone, Debug)]
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
            .x_desc(&self.x)
            .y_desc(&self.y)
            .axis_desc_style(("sans-serif", 14))
            .draw()?;
        for (index, series) in self.series.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let points = series.points.iter().copied().filter(|(_, y)| y.is_finite());
            let drawn = match series.mark {
                Mark::Line => chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?,
                Mark::Thin => chart.draw_series(LineSeries::new(points, colour.stroke_width(1)))?,
                Mark::Points => {
                    chart.draw_series(points.map(|point| Circle::new(point, 4, colour.filled())))?
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
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        root.present()?;
        Ok(())
    }
}
