//! `lab look` and `lab template`: the immediate view of the page, and the built-in systems.

use crate::output::{self, Cell, Format, Table, line};
use crate::{Failure, input};
use clap::Args;
use leasehold_lab_plan::slo::Slo;
use leasehold_lab_plan::template;
use leasehold_lab_plan::view::{self, Effort, Question, View};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

/// Show verdict, utilisation of each centre and the most useful upgrades at once
///
/// Means of product-form models are exact; percentiles, caches and forks are estimates (`simulate`
/// and `plan` give reliable values). Two files are shown side by side.
#[derive(Debug, Args)]
pub struct Look {
    /// Model files
    #[arg(required = true, num_args = 1..=2, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The service level: mean, p50, p95 or p99 below a time
    #[arg(long, value_parser = Slo::parse, default_value = "p95 < 10 ms")]
    slo: Slo,
    /// The class whose customers are counted and timed [default: the first closed class]
    #[arg(long)]
    class: Option<String>,
    /// Print the curve instead: throughput and response times by load
    #[arg(long)]
    curve: bool,
    #[command(flatten)]
    format: Format,
}

/// Print the model of a template, or list the templates
#[derive(Debug, Args)]
pub struct Template {
    /// The template
    name: Option<String>,
    /// The value of a dial; may be given several times
    #[arg(long, value_name = "DIAL=NUMBER", value_parser = dial, requires = "name")]
    set: Vec<(String, f64)>,
    #[command(flatten)]
    format: Format,
}

fn dial(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("needs the form DIAL=NUMBER")?;
    let value = value.parse().map_err(|_| format!("\"{value}\" is no number"))?;
    Ok((name.into(), value))
}

pub(crate) fn run(options: &Look, out: &mut dyn Write) -> Result<(), Failure> {
    let mut views = Vec::new();
    for path in &options.files {
        let model = input::model(path)?;
        let class = match &options.class {
            None => None,
            Some(name) => {
                let found = model.classes.iter().position(|class| class.name == *name);
                let missing = || Failure::input(format!("the model has no class \"{name}\""));
                Some(found.ok_or_else(missing)?)
            }
        };
        let question = Question { class, slo: options.slo, effort: Effort::Thorough };
        let view = view::view(&model, &question).map_err(Failure::input)?;
        views.push((path.display().to_string(), view));
    }
    if options.format.json {
        let all: Vec<_> =
            views.iter().map(|(file, view)| json!({ "file": file, "view": view })).collect();
        return output::json(out, &all);
    }
    let table = if options.curve { curve(&views) } else { busy(&views) };
    if options.format.csv {
        return table.print(options.format, out);
    }
    for (file, view) in &views {
        line(out, &format!("{file}: {}", view.verdict))?;
        for note in &view.notes {
            line(out, &format!("note: {note}"))?;
        }
    }
    line(out, &format!("\n{}", table.text()))
}

fn busy(views: &[(String, View)]) -> Table {
    let columns = [
        "file",
        "centre",
        "busy",
        "present",
        "halved_response_s",
        "halved_carries",
        "more_carries",
    ];
    let mut table = Table::new(&columns);
    for (file, view) in views {
        for centre in &view.centres {
            let slope = view.sensitivity.iter().find(|slope| {
                slope.name == centre.name
                    || (slope.centres > 1 && centre.name.starts_with(&slope.name))
            });
            let used = centre.utilisation.as_ref().map(|used| used.iter().sum::<f64>());
            let more = slope.and_then(|slope| slope.more_clients).map(f64::from);
            table.row([
                Cell::Text(file.clone()),
                centre.name.as_str().into(),
                Cell::Number(used),
                centre.queue.iter().sum::<f64>().into(),
                Cell::Number(slope.map(|slope| slope.halved_response)),
                Cell::Number(slope.map(|slope| f64::from(slope.halved_clients))),
                Cell::Number(more),
            ]);
        }
    }
    table
}

fn curve(views: &[(String, View)]) -> Table {
    let mut table = Table::new(&[
        "file",
        "load",
        "throughput_per_s",
        "mean_s",
        "p50_s",
        "p95_s",
        "p99_s",
        "mean_at_least_s",
        "throughput_at_most",
    ]);
    for (file, view) in views {
        for point in &view.curve {
            table.row([
                Cell::Text(file.clone()),
                point.load.into(),
                point.throughput.into(),
                point.times.mean.into(),
                point.times.p50.into(),
                point.times.p95.into(),
                point.times.p99.into(),
                Cell::Number(point.response_least),
                point.throughput_most.into(),
            ]);
        }
    }
    table
}

pub(crate) fn print_template(options: &Template, out: &mut dyn Write) -> Result<(), Failure> {
    let Some(name) = &options.name else {
        if options.format.json {
            return output::json(out, &template::all());
        }
        let columns = ["template", "dial", "unit", "least", "most", "at_first", "what"];
        let mut table = Table::new(&columns);
        for one in template::all() {
            table.row([
                one.key.into(),
                "".into(),
                "".into(),
                f64::NAN.into(),
                f64::NAN.into(),
                f64::NAN.into(),
                one.about.into(),
            ]);
            for dial in one.dials {
                table.row([
                    one.key.into(),
                    dial.key.into(),
                    dial.unit.into(),
                    dial.least.into(),
                    dial.most.into(),
                    dial.value.into(),
                    dial.about.into(),
                ]);
            }
        }
        return table.print(options.format, out);
    };
    let values: BTreeMap<String, f64> = options.set.iter().cloned().collect();
    let model = template::build(name, &values).map_err(Failure::input)?;
    line(out, &model.to_json())
}
