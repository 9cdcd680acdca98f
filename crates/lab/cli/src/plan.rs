//! `lab plan`: how many clients a system carries under a service level, what limits it, what one
//! more of each centre gives, and the cheapest configuration for a wanted number of clients.

mod search;

use crate::output::{self, Cell, Format, Table};
use crate::plot::{Chart, Series};
use crate::slo::{Slo, time};
use crate::transport::{self, Transport};
use crate::{Failure, input, knob};
use clap::Args;
use leasehold_lab_network::model::{ClassKind, Model};
use search::Search;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// How many clients a system carries, what limits it, what an upgrade gives
///
/// `lab plan MODEL --slo 'p95 < 10 ms'` says it in one sentence, then as a table. With --clients
/// and --price it finds the cheapest upgrade that carries so many. With --transport it says how
/// remote calls should travel: UDP or TCP, how many connections, which sizes, and why.
#[derive(Debug, Args)]
pub struct Plan {
    /// A model file
    #[arg(required_unless_present = "transport", conflicts_with = "transport")]
    file: Option<PathBuf>,
    /// The service level: mean, p50, p95 or p99 below a time
    #[arg(long, value_parser = Slo::parse, required_unless_present = "transport")]
    slo: Option<Slo>,
    /// The class whose clients are counted and timed [default: the first]
    #[arg(long)]
    class: Option<String>,
    /// The largest number of clients to look at
    #[arg(long, default_value_t = 100_000)]
    most: u32,
    /// Services that one simulated point may take
    #[arg(long, default_value_t = 1_000_000)]
    effort: u64,
    /// Find the cheapest upgrade that carries this many clients
    #[arg(long, requires = "price")]
    clients: Option<u32>,
    /// What one more of a centre costs; may be given several times
    #[arg(long, value_name = "CENTRE=COST", value_parser = price)]
    price: Vec<(String, f64)>,
    /// Draw the response time against the number of clients (SVG)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    transport: Transport,
    #[command(flatten)]
    format: Format,
}

fn price(text: &str) -> Result<(String, f64), String> {
    let (name, cost) = text.rsplit_once('=').ok_or("needs the form CENTRE=COST")?;
    match cost.parse::<f64>() {
        Ok(cost) if cost > 0.0 && cost < 1e12 => Ok((name.into(), cost)),
        _ => Err("the cost must be a number above 0".into()),
    }
}

/// One centre as it is, or with one more.
struct Upgrade {
    centre: String,
    utilisation: f64,
    clients: u32,
}

pub(crate) fn run(options: &Plan, out: &mut dyn Write) -> Result<(), Failure> {
    let (Some(file), Some(slo)) = (&options.file, options.slo) else {
        return transport::run(&options.transport, options.format, out);
    };
    let model = input::model(file)?;
    let class = match &options.class {
        None => 0,
        Some(name) => model
            .classes
            .iter()
            .position(|class| class.name == *name)
            .ok_or_else(|| Failure::input(format!("the model has no class \"{name}\"")))?,
    };
    let search = Search { class, slo, most: options.most, effort: options.effort };
    if let Some(clients) = options.clients {
        return cheapest(&search, &model, clients, options, out);
    }
    let clients = search.most_clients(&model)?;
    let mut upgrades = Vec::new();
    let here = search.at(&model, clients.max(1))?;
    for (centre, used) in model.centres.iter().zip(&here.utilisation) {
        if let Some(servers) = knob::servers(&centre.kind) {
            let more =
                knob::Knob::Servers(centre.name.clone()).turn(&model, (servers + 1) as f64)?;
            let clients = search.most_clients(&more)?;
            upgrades.push(Upgrade { centre: centre.name.clone(), utilisation: *used, clients });
        }
    }
    upgrades.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation));
    let curve = curve(&search, &model, clients)?;
    if let Some(path) = &options.plot {
        draw(&search, &model, &curve, path)?;
    }
    let verdict = verdict(&search, &model, clients, &curve, &upgrades);
    let (upgrades, curve) = (upgrade_table(&upgrades), curve_table(slo, &curve));
    if options.format.json {
        return output::json(
            out,
            &json!({
                "verdict": verdict,
                "clients": clients,
                "method": search.method(&model),
                "one_more": upgrades.json(),
                "curve": curve.json(),
            }),
        );
    }
    if options.format.csv {
        return curve.print(options.format, out);
    }
    output::line(out, &format!("{verdict}\n\n{}\n\n{}", upgrades.text(), curve.text()))?;
    output::line(out, &format!("\nmethod: {}", search.method(&model)))
}

/// What a class' customers are called.
fn unit(model: &Model, class: usize) -> &'static str {
    match model.classes[class].kind {
        ClassKind::Closed { .. } => "clients",
        ClassKind::Open { .. } => "requests a second",
    }
}

fn verdict(
    search: &Search,
    model: &Model,
    clients: u32,
    curve: &[(u32, search::Point)],
    upgrades: &[Upgrade],
) -> String {
    let unit = unit(model, search.class);
    let (name, bound) = (search.slo.name(), time(search.slo.bound));
    let at = |count: u32| curve.iter().find(|(n, _)| *n == count).map(|(_, point)| point);
    let reached = |count: u32| at(count).map_or(String::new(), |point| time(point.response));
    let head = if clients == 0 {
        format!("Not even one of the {unit} keeps {name} below {bound}: alone it is {}", reached(1))
    } else if clients >= search.most {
        format!("{clients} {unit} and more keep {name} below {bound}")
    } else {
        let next = clients + 1;
        format!(
            "{clients} {unit} keep {name} below {bound} ({}; {next} give {})",
            reached(clients),
            reached(next)
        )
    };
    let Some((next, others)) = upgrades.split_first() else { return format!("{head}.") };
    let mut text = format!(
        "{head}; \"{}\" is next, {:.0} % busy: one more of it carries {}",
        next.centre,
        next.utilisation * 100.0,
        next.clients
    );
    for other in others {
        text += &format!(", one more of \"{}\" {}", other.centre, other.clients);
    }
    text + "."
}

/// Some points up to a little beyond the limit.
fn curve(
    search: &Search,
    model: &Model,
    clients: u32,
) -> Result<Vec<(u32, search::Point)>, Failure> {
    let mut counts: Vec<u32> = (1..=8).map(|step| (clients * step).div_ceil(8).max(1)).collect();
    counts.extend([clients + 1, clients + clients.div_ceil(4) + 1]);
    counts.sort_unstable();
    counts.dedup();
    let within = counts.into_iter().filter(|count| *count <= search.most);
    within.map(|count| Ok((count, search.at(model, count)?))).collect()
}

fn curve_table(slo: Slo, curve: &[(u32, search::Point)]) -> Table {
    let mut table =
        Table::new(&["clients", &format!("{}_s", slo.name()), "holds", "throughput_per_s"]);
    for (count, point) in curve {
        let holds = if point.response < slo.bound { "yes" } else { "no" };
        table.row([
            f64::from(*count).into(),
            point.response.into(),
            holds.into(),
            point.throughput.into(),
        ]);
    }
    table
}

fn upgrade_table(upgrades: &[Upgrade]) -> Table {
    let mut table = Table::new(&["centre", "busy", "clients_with_one_more"]);
    for upgrade in upgrades {
        table.row([
            Cell::Text(upgrade.centre.clone()),
            upgrade.utilisation.into(),
            f64::from(upgrade.clients).into(),
        ]);
    }
    table
}

fn draw(
    search: &Search,
    model: &Model,
    curve: &[(u32, search::Point)],
    path: &std::path::Path,
) -> Result<(), Failure> {
    let line = curve.iter().map(|(n, point)| (f64::from(*n), point.response)).collect();
    let last = curve.last().map_or(1.0, |(n, _)| f64::from(*n));
    let bound = vec![(0.0, search.slo.bound), (last, search.slo.bound)];
    let chart = Chart {
        title: model.title.clone(),
        x: unit(model, search.class).into(),
        y: format!("response time {}, s", search.slo.name()),
        series: vec![Series::line("model", line), Series::thin("service level", bound)],
    };
    chart.write(path)
}

fn cheapest(
    search: &Search,
    model: &Model,
    clients: u32,
    options: &Plan,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let found = search.cheapest(model, clients, &options.price)?;
    let unit = unit(model, search.class);
    let (name, bound) = (search.slo.name(), time(search.slo.bound));
    let goal = format!("{clients} {unit} with {name} below {bound}");
    let Some(found) = found else {
        return Err(Failure::input(format!("no upgrade at these prices carries {goal}")));
    };
    let bought: Vec<String> = found
        .more
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(centre, count)| format!("{count} more of \"{centre}\""))
        .collect();
    let what = if bought.is_empty() { "nothing more".into() } else { bought.join(" and ") };
    let verdict = format!(
        "The cheapest way to {goal} is {what}, for {}: {}.",
        output::pretty(found.cost),
        time(found.response)
    );
    if options.format.json {
        let more: serde_json::Map<String, serde_json::Value> =
            found.more.iter().map(|(centre, count)| (centre.clone(), json!(count))).collect();
        let (cost, response) = (found.cost, found.response);
        let answer =
            json!({ "verdict": verdict, "more": more, "cost": cost, "response_s": response });
        return output::json(out, &answer);
    }
    output::line(out, &verdict)
}
