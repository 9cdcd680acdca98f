//! `lab sweep` and `lab plot`: vary one number of a model over a range.

use crate::knob::{self, Knob};
use crate::output::{Format, Table, line};
use crate::plot::{Chart, Series};
use crate::progress::Progress;
use crate::simulate::{self, Run};
use crate::solve::{self, Method};
use crate::{Failure, input};
use clap::Args;
use leasehold_lab_des::Quantity;
use leasehold_lab_network::model::{Centre, Class, ClassKind, Model};
use leasehold_lab_network::{Network, Solution, bounds, surface};
use std::io::Write;
use std::path::PathBuf;

/// Solve or simulate a model for many values of one number
#[derive(Debug, Args)]
pub struct Sweep {
    /// A model file
    file: PathBuf,
    /// The number to vary
    ///
    /// population:CLASS, rate:CLASS, think:CLASS (a factor), servers:CENTRE, demand:CENTRE (a
    /// factor), term:CLASS or blocks:CLASS
    #[arg(long, value_parser = Knob::parse)]
    vary: Knob,
    /// Its values: FROM..TO or FROM..TO:STEP
    #[arg(long, value_parser = knob::range)]
    over: ::std::vec::Vec<f64>,
    /// Simulate instead of solving
    #[arg(long)]
    simulate: bool,
    /// The solution method
    #[arg(long, value_enum, default_value = "exact", conflicts_with = "simulate")]
    method: Method,
    /// Draw response times into this file (SVG)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    run: Run,
    #[command(flatten)]
    format: Format,
}

/// Draw throughput and response time against the number of customers
///
/// Draws the solved curve, with its balanced bounds where they apply, and on request simulated
/// points with intervals.
#[derive(Debug, Args)]
pub struct Plot {
    /// A model file
    file: PathBuf,
    /// The closed class whose customers are counted [default: the first closed class]
    #[arg(long)]
    class: Option<String>,
    /// The largest number of customers
    #[arg(long, default_value_t = 50)]
    to: usize,
    /// Draw simulated points next to the curve
    #[arg(long)]
    simulate: bool,
    /// The file for the picture (SVG)
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    run: Run,
}

/// The largest number of points of a curve.
const COLUMNS: usize = 500;

/// The results of one class at one value.
struct Point {
    value: f64,
    class: String,
    throughput: f64,
    response: f64,
    plus_minus: f64,
    p95: f64,
    utilisation: f64,
    bottleneck: String,
}

pub(crate) fn run(options: &Sweep, out: &mut dyn Write) -> Result<(), Failure> {
    let model = input::model(&options.file)?;
    let points = match (&options.vary, options.simulate, options.method) {
        (Knob::Population(_), false, Method::Exact) => by_population(&model, options)?,
        _ => by_value(&model, options)?,
    };
    let mut table = Table::new(&[
        "value",
        "class",
        "throughput_per_s",
        "response_s",
        "plus_minus",
        "response_p95_s",
        "busiest",
        "utilisation",
    ]);
    for point in &points {
        table.row([
            point.value.into(),
            point.class.as_str().into(),
            point.throughput.into(),
            point.response.into(),
            point.plus_minus.into(),
            point.p95.into(),
            point.bottleneck.as_str().into(),
            point.utilisation.into(),
        ]);
    }
    if let Some(path) = &options.plot {
        let series = model.classes.iter().map(|class| {
            let own = || points.iter().filter(|point| point.class == class.name);
            let line = own().map(|point| (point.value, point.response)).collect();
            let plus_minus = own().map(|point| point.plus_minus).collect();
            Series::line(&class.name, line).plus_minus(plus_minus)
        });
        let label = options.vary.label();
        let chart = Chart::new(&model.title, &label, "response time, s", series.collect());
        chart.write(path)?;
    }
    table.print(options.format, out)
}

/// Returns one result for each value.
fn by_value(model: &Model, options: &Sweep) -> Result<Vec<Point>, Failure> {
    let mut points = Vec::new();
    let progress = Progress::new();
    for &value in &options.over {
        let turned = options.vary.turn(model, value)?;
        if options.simulate {
            points.extend(simulated(&turned, value, options.run, &progress)?);
        } else {
            let network = turned.network();
            let solution = solve::by(options.method, &network)?;
            points.extend(solved(&network, &solution, value));
        }
    }
    Ok(points)
}

/// Returns exact results for every number of customers from one pass.
fn by_population(model: &Model, options: &Sweep) -> Result<Vec<Point>, Failure> {
    let most = options.over.iter().copied().fold(0.0, f64::max);
    let network = options.vary.turn(model, most)?.network();
    let surface = surface(&network).map_err(Failure::input)?;
    let mut points = Vec::new();
    for &value in &options.over {
        // `turn` rejects a value that is not a whole number.
        let population = options.vary.turn(model, value)?.network().population();
        points.extend(solved(&network, &surface.at(&population), value));
    }
    Ok(points)
}

fn solved(network: &Network, solution: &Solution, value: f64) -> Vec<Point> {
    let busiest = solution.bottleneck(network);
    let point = |(index, class): (usize, &leasehold_lab_network::Class)| Point {
        value,
        class: class.name.clone(),
        throughput: solution.throughput[index],
        response: solution.response[index],
        plus_minus: 0.0,
        p95: f64::NAN,
        utilisation: busiest.map_or(0.0, |at| solution.utilisation[at].iter().sum()),
        bottleneck: busiest.map_or(String::new(), |at| network.centres[at].name.clone()),
    };
    network.classes.iter().enumerate().map(point).collect()
}

fn simulated(
    model: &Model,
    value: f64,
    run: Run,
    progress: &Progress,
) -> Result<Vec<Point>, Failure> {
    let what = format!("simulating at {value}");
    let answer = simulate::simulate(model, run.options(), progress, &what)?;
    let mean = |quantity: Quantity, class: &str| {
        answer.of(quantity, class).map_or(f64::NAN, |interval| interval.mean)
    };
    let used = |centre: &Centre| answer.utilisation(&centre.name);
    let queues = model.centres.iter().filter(|centre| knob::servers(&centre.kind).is_some());
    let busiest = queues.max_by(|a, b| used(a).total_cmp(&used(b)));
    let point = |class: &Class| Point {
        value,
        class: class.name.clone(),
        throughput: mean(Quantity::Throughput, &class.name),
        response: mean(Quantity::Response, &class.name),
        plus_minus: answer
            .of(Quantity::Response, &class.name)
            .map_or(f64::NAN, |interval| interval.half_width),
        p95: mean(Quantity::ResponseP95, &class.name),
        utilisation: busiest.map_or(0.0, used),
        bottleneck: busiest.map_or(String::new(), |centre| centre.name.clone()),
    };
    Ok(model.classes.iter().map(point).collect())
}

/// Returns the closed class to count: the named one, or the first.
pub(crate) fn closed_class(model: &Model, name: Option<&str>) -> Result<usize, Failure> {
    let closed = |class: &Class| {
        matches!(class.kind, ClassKind::Closed { .. }) && name.is_none_or(|name| name == class.name)
    };
    let found = model.classes.iter().position(closed);
    found.ok_or_else(|| Failure::input("the model has no such closed class"))
}

pub(crate) fn plot(options: &Plot, out: &mut dyn Write) -> Result<(), Failure> {
    let model = input::model(&options.file)?;
    let class = closed_class(&model, options.class.as_deref())?;
    let knob = Knob::Population(model.classes[class].name.clone());
    let most = knob.turn(&model, options.to as f64)?;
    let network = most.network();
    let surface = surface(&network).map_err(Failure::input)?;
    let mut population = network.population();
    let (mut exact, mut low, mut high) = (Vec::new(), Vec::new(), Vec::new());
    // A curve with more points than the picture has columns shows no more detail.
    for count in (1..=options.to).step_by(options.to.div_ceil(COLUMNS).max(1)) {
        population[class] = count;
        let x = count as f64;
        exact.push((x, surface.at(&population).response[class]));
        if let Ok(bounds) = bounds::bounds(&network.with_population(&population)) {
            low.push((x, bounds.balanced.response.least));
            high.push((x, bounds.balanced.response.most));
        }
    }
    let mut series = vec![Series::line("solved", exact)];
    if !low.is_empty() {
        series.push(Series::thin("balanced bounds", low));
        series.push(Series::thin("", high));
    }
    if options.simulate {
        let (mut points, mut plus_minus, progress) = (Vec::new(), Vec::new(), Progress::new());
        for step in 1..=8 {
            let count = (options.to * step).div_ceil(8) as f64;
            let turned = knob.turn(&model, count)?;
            let found = simulated(&turned, count, options.run, &progress)?;
            points.push((count, found[class].response));
            plus_minus.push(found[class].plus_minus);
        }
        series.push(Series::points("simulated", points).plus_minus(plus_minus));
    }
    let chart = Chart::new(&model.title, &knob.label(), "response time, s", series);
    chart.write(&options.output)?;
    line(out, &format!("{}", options.output.display()))?;
    for note in model.left_out() {
        line(out, &format!("note: solved: {note}"))?;
    }
    Ok(())
}
