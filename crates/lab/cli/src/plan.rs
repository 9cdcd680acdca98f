//! `lab plan`: finds the number of clients that a system carries under a service level, its
//! bottleneck, the gain of one more server at each centre, and the cheapest configuration for a
//! required number of clients.

mod search;

use crate::knob::{self, Knob};
use crate::output::{self, Cell, Format, Table};
use crate::plot::{Chart, Series};
use crate::progress::Progress;
use crate::slo::{Slo, time};
use crate::transport::{self, Transport};
use crate::{Failure, input};
use clap::Args;
use leasehold_lab_network::model::{Class, Model};
use leasehold_lab_plan::verdict::{Upgrade, Verdict, unit};
use search::{Lack, Point, Search, System};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Find how many clients a system carries, its bottleneck and the gain of an upgrade
///
/// `lab plan MODEL --slo 'p95 < 10 ms'` prints a sentence, then a table. With --clients and --price
/// it finds the cheapest upgrade that carries this number of clients. With --transport it
/// recommends a transport for remote calls: UDP or TCP, the number of connections, the sizes, and
/// the reasons.
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
    /// The largest number of clients to consider
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    most: u32,
    /// Services, or replies where a cache gives more of them, that a simulated point may take
    ///
    /// A higher value is slower and more reliable; the output reports each unfinished point.
    #[arg(long, default_value_t = 500_000)]
    effort: u64,
    /// Find the cheapest upgrade that carries this many clients
    #[arg(long, requires = "price", value_parser = clap::value_parser!(u32).range(1..))]
    clients: Option<u32>,
    /// Cost of one more server at a centre; may be given several times
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
    let progress = Progress::new();
    let search = Search { class, slo, most: options.most, effort: options.effort, progress };
    if let Some(clients) = options.clients {
        return cheapest(search, &model, clients, options, out);
    }
    let answer = Answer::find(&search, &model)?;
    let is_solved = search.is_solved(&model);
    // Clears the progress line before the output.
    drop(search);
    let method = if is_solved { "solved exactly" } else { "simulated, with common random numbers" };
    if let Some(path) = &options.plot {
        draw(slo, &model, class, &answer.curve, path)?;
    }
    let warning = Lack::warning(&answer.lacks, options.effort);
    let sentence = verdict(slo, options.most, &model.classes[class], &answer);
    let verdict = format!("{}{warning}.", sentence.trim_end_matches('.'));
    let (upgrades, curve) = (upgrade_table(&answer.upgrades), curve_table(slo, &answer.curve));
    if options.format.json {
        return output::json(
            out,
            &json!({
                "verdict": verdict,
                "clients": answer.clients,
                "method": method,
                "unfinished": unfinished(&answer.lacks),
                "one_more": upgrades.json(),
                "curve": curve.json(),
            }),
        );
    }
    if options.format.csv {
        return curve.print(options.format, out);
    }
    output::line(out, &format!("{verdict}\n\n{}\n\n{}", upgrades.text(), curve.text()))?;
    output::line(out, &format!("\nmethod: {method}"))
}

/// The results of a plan.
struct Answer {
    clients: u32,
    /// Busiest first.
    upgrades: Vec<Upgrade>,
    curve: Vec<(u32, Point)>,
    /// The shortfalls of the points that determine these numbers.
    lacks: Vec<Lack>,
}

impl Answer {
    fn find(search: &Search, model: &Model) -> Result<Self, Failure> {
        let mut system = System::new(model.clone(), "the system as it is");
        let clients = search.most_clients(&mut system, 0)?;
        let here = search.at(&mut system, clients.max(1))?;
        let (mut upgrades, mut lacks) = (Vec::new(), Vec::new());
        for (centre, used) in model.centres.iter().zip(&here.utilisation) {
            if let Some(servers) = knob::servers(&centre.kind) {
                let more = Knob::Servers(centre.name.clone()).turn(model, (servers + 1) as f64)?;
                let mut more = System::new(more, format!("one more of \"{}\"", centre.name));
                // A system that carries this number of clients now also carries it with more
                // servers.
                let clients = search.most_clients(&mut more, clients)?;
                lacks.extend(more.lacks(clients));
                upgrades.push(Upgrade { centre: centre.name.clone(), utilisation: *used, clients });
            }
        }
        upgrades.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation));
        let curve = curve(search, &mut system, clients)?;
        lacks.extend(system.lacks(clients));
        Ok(Self { clients, upgrades, curve, lacks })
    }
}

/// Returns the shortfalls of points as JSON.
fn unfinished(lacks: &[Lack]) -> Vec<serde_json::Value> {
    let one = |lack: &Lack| json!({ "shortfall": lack.shortfall.to_string(), "effort_wanted": lack.effort });
    lacks.iter().map(one).collect()
}

fn verdict(slo: Slo, most: u32, class: &Class, answer: &Answer) -> String {
    let at = |count: u32| {
        let found = answer.curve.iter().find(|(n, _)| *n == count);
        found.map_or(f64::NAN, |(_, point)| point.response)
    };
    Verdict {
        class,
        slo,
        most,
        clients: answer.clients,
        reached: at(answer.clients),
        beyond: at(answer.clients + 1),
        upgrades: &answer.upgrades,
    }
    .sentence()
}

/// Returns some points up to slightly beyond the limit.
fn curve(search: &Search, system: &mut System, clients: u32) -> Result<Vec<(u32, Point)>, Failure> {
    let mut counts: Vec<u32> = (1..=8).map(|step| (clients * step).div_ceil(8).max(1)).collect();
    counts.extend([clients + 1, clients + clients.div_ceil(4) + 1]);
    counts.sort_unstable();
    counts.dedup();
    let within = counts.into_iter().filter(|count| *count <= search.most);
    within.map(|count| Ok((count, search.at(system, count)?))).collect()
}

fn curve_table(slo: Slo, curve: &[(u32, Point)]) -> Table {
    let response = format!("{}_s", slo.name());
    let mut table =
        Table::new(&["clients", &response, "plus_minus", "holds", "throughput_per_s", "lacks"]);
    for (count, point) in curve {
        let holds = if point.response < slo.bound { "yes" } else { "no" };
        table.row([
            f64::from(*count).into(),
            point.response.into(),
            point.plus_minus.into(),
            holds.into(),
            point.throughput.into(),
            point.lack.map_or("", |lack| lack.shortfall.word()).into(),
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
    slo: Slo,
    model: &Model,
    class: usize,
    curve: &[(u32, Point)],
    path: &std::path::Path,
) -> Result<(), Failure> {
    let line = curve.iter().map(|(n, point)| (f64::from(*n), point.response)).collect();
    let plus_minus = curve.iter().map(|(_, point)| point.plus_minus).collect();
    let last = curve.last().map_or(1.0, |(n, _)| f64::from(*n));
    let bound = vec![(0.0, slo.bound), (last, slo.bound)];
    let series = vec![
        Series::line("model", line).plus_minus(plus_minus),
        Series::thin("service level", bound),
    ];
    let label = format!("response time {}, s", slo.name());
    let chart = Chart::new(&model.title, unit(&model.classes[class]).1, &label, series);
    chart.write(path)
}

fn cheapest(
    search: Search,
    model: &Model,
    clients: u32,
    options: &Plan,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let found = search.cheapest(model, clients, &options.price)?;
    let (_, unit) = unit(&model.classes[search.class]);
    let (name, bound) = (search.slo.name(), time(search.slo.bound));
    drop(search);
    let goal = format!("{clients} {unit} with {name} below {bound}");
    let bought: Vec<String> = found
        .more
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(centre, count)| format!("{count} more of \"{centre}\""))
        .collect();
    let what = if bought.is_empty() { "nothing more".into() } else { bought.join(" and ") };
    let verdict = format!(
        "The cheapest way to {goal} is {what}, for {}: {}{}.",
        output::pretty(found.cost),
        time(found.response),
        Lack::warning(found.lack.as_slice(), options.effort)
    );
    if options.format.json {
        let more: serde_json::Map<String, serde_json::Value> =
            found.more.iter().map(|(centre, count)| (centre.clone(), json!(count))).collect();
        let (cost, response) = (found.cost, found.response);
        let unfinished = unfinished(found.lack.as_slice());
        let answer = json!({
            "verdict": verdict,
            "more": more,
            "cost": cost,
            "response_s": response,
            "unfinished": unfinished,
        });
        return output::json(out, &answer);
    }
    output::line(out, &verdict)
}
