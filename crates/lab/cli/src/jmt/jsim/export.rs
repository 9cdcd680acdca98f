//! Export: one node for each centre, for think times, and for sources and sinks.

use super::super::THINK;
use super::super::xml::Writer;
use super::laws;
use leasehold_lab_network::model::{
    Arrivals, Class, ClassKind, Discipline, Kind, Law, Model, Quantity, Step,
};

/// The names of the source and the sink of customers from outside.
const BEGIN: &str = "arrivals";
const END: &str = "departures";

/// The route of a class: the names of the nodes in order, from its start back to its start.
struct Way<'a> {
    class: &'a Class,
    nodes: Vec<String>,
}

pub(crate) fn export(model: &Model) -> Result<String, String> {
    for centre in &model.centres {
        if matches!(centre.kind, Kind::LoadDependent { .. } | Kind::Ethernet { .. }) {
            return Err(format!("centre \"{}\": rates by load cannot be exported", centre.name));
        }
    }
    for class in &model.classes {
        let simple =
            |arrivals: &Arrivals| matches!(arrivals, Arrivals::Poisson | Arrivals::Regular);
        if matches!(&class.kind, ClassKind::Open { arrivals, .. } if !simple(arrivals)) {
            return Err(format!("class \"{}\": these arrivals cannot be exported", class.name));
        }
    }
    let ways: Vec<Way<'_>> = model.classes.iter().map(|class| way(model, class)).collect();
    for way in &ways {
        for (at, node) in way.nodes.iter().enumerate() {
            if way.nodes[..at].contains(node) {
                let name = &way.class.name;
                return Err(format!(
                    "class \"{name}\" visits \"{node}\" twice, which cannot be exported"
                ));
            }
        }
    }
    let mut xml = Writer::new();
    let schema = ("xmlns:xsi", "http://www.w3.org/2001/XMLSchema-instance");
    xml.open("archive", &[schema, ("name", &model.title)]);
    xml.open("sim", &[schema, ("name", &model.title), ("maxSamples", "1000000")]);
    for way in &ways {
        let (name, priority) = (way.class.name.as_str(), way.class.priority.to_string());
        let first = way.nodes[0].as_str();
        let rest = [("name", name), ("priority", priority.as_str()), ("referenceSource", first)];
        match &way.class.kind {
            ClassKind::Closed { population, .. } => {
                let customers = population.count().to_string();
                let kind = [("type", "closed"), ("customers", customers.as_str())];
                xml.empty("userClass", &[&rest[..], &kind].concat());
            }
            ClassKind::Open { .. } => {
                xml.empty("userClass", &[&rest[..], &[("type", "open")]].concat());
            }
        }
    }
    let ends: Vec<&str> = [THINK, BEGIN, END]
        .into_iter()
        .filter(|end| ways.iter().any(|way| way.nodes.iter().any(|node| node == end)))
        .collect();
    for name in ends {
        node(&mut xml, &ways, name, None, &Kind::Delay, Discipline::Fcfs);
    }
    for centre in &model.centres {
        let capacity = centre.capacity.as_ref().map(Quantity::count);
        node(&mut xml, &ways, &centre.name, capacity, &centre.kind, centre.discipline);
    }
    measures(&mut xml, model);
    let mut links: Vec<(&str, &str)> = ways.iter().flat_map(links_of).collect();
    links.sort_unstable();
    links.dedup();
    for (source, target) in links {
        xml.empty("connection", &[("source", source), ("target", target)]);
    }
    preload(&mut xml, &ways);
    Ok(xml.finish())
}

fn way<'a>(model: &Model, class: &'a Class) -> Way<'a> {
    let middle: Vec<String> = if class.route.is_empty() {
        let used = |name: &str| class.demands.get(name).is_some_and(|demand| demand.value > 0.0);
        let names = model.centres.iter().map(|centre| centre.name.clone());
        names.filter(|name| used(name)).collect()
    } else {
        let visit = |step: &Step| match step {
            Step::Visit(name) => Some(name.clone()),
            Step::Fork { .. } => None,
        };
        class.route.iter().filter_map(visit).collect()
    };
    let mut nodes = Vec::new();
    match class.kind {
        ClassKind::Closed { .. } => {
            nodes.push(THINK.to_owned());
            nodes.extend(middle);
        }
        ClassKind::Open { .. } => {
            nodes.push(BEGIN.to_owned());
            nodes.extend(middle);
            nodes.push(END.to_owned());
        }
    }
    Way { class, nodes }
}

/// Returns the node after `node` on the route of a class; `None` after the sink of an open class.
fn next<'a>(way: &'a Way<'_>, node: &str) -> Option<&'a str> {
    let at = way.nodes.iter().position(|name| name == node)?;
    if node == END {
        return None;
    }
    Some(way.nodes.get(at + 1).unwrap_or(&way.nodes[0]).as_str())
}

fn links_of<'a>(way: &'a Way<'_>) -> impl Iterator<Item = (&'a str, &'a str)> {
    way.nodes.iter().filter_map(move |node| Some((node.as_str(), next(way, node)?)))
}

fn node(
    xml: &mut Writer,
    ways: &[Way<'_>],
    name: &str,
    capacity: Option<usize>,
    kind: &Kind,
    discipline: Discipline,
) {
    xml.open("node", &[("name", name)]);
    if name == END {
        xml.empty("section", &[("className", "JobSink")]);
        xml.close();
        return;
    }
    if name == BEGIN {
        xml.open("section", &[("className", "RandomSource")]);
        services(xml, ways, name);
        xml.close();
        xml.empty("section", &[("className", "ServiceTunnel")]);
    } else {
        queue_section(xml, ways, capacity, discipline);
        server_section(xml, ways, name, kind, discipline);
    }
    router_section(xml, ways, name);
    xml.close();
}

fn integer(xml: &mut Writer, name: &str, value: &str) {
    xml.open("parameter", &[("classPath", "java.lang.Integer"), ("name", name)]);
    xml.words("value", &[], value);
    xml.close();
}

fn queue_section(
    xml: &mut Writer,
    ways: &[Way<'_>],
    capacity: Option<usize>,
    discipline: Discipline,
) {
    xml.open("section", &[("className", "Queue")]);
    integer(xml, "size", &capacity.map_or("-1".into(), |capacity| capacity.to_string()));
    xml.open(
        "parameter",
        &[("array", "true"), ("classPath", "java.lang.String"), ("name", "dropStrategies")],
    );
    for way in ways {
        xml.words("refClass", &[], &way.class.name);
        xml.open("subParameter", &[("classPath", "java.lang.String"), ("name", "dropStrategy")]);
        xml.words("value", &[], "drop");
        xml.close();
    }
    xml.close();
    xml.empty(
        "parameter",
        &[
            ("classPath", "jmt.engine.NetStrategies.QueueGetStrategies.FCFSstrategy"),
            ("name", "FCFSstrategy"),
        ],
    );
    each_class(xml, ways, "QueuePutStrategy", "QueuePutStrategy", put_strategy(discipline));
    xml.close();
}

/// Returns the tool's name of a queue discipline.
const fn put_strategy(discipline: Discipline) -> &'static str {
    match discipline {
        Discipline::Fcfs | Discipline::ProcessorSharing => "TailStrategy",
        Discipline::Priority => "TailStrategyPriority",
        Discipline::PreemptivePriority => "FCFSPRStrategyPriority",
    }
}

/// Writes an array with the same strategy of a family for each class.
fn each_class(xml: &mut Writer, ways: &[Way<'_>], name: &str, family: &str, strategy: &str) {
    let array = format!("jmt.engine.NetStrategies.{family}");
    // The package of a family has the plural as its name: QueuePutStrategies.
    let path = format!("{}ies.{strategy}", array.trim_end_matches('y'));
    let class_path = ("classPath", array.as_str());
    xml.open("parameter", &[("array", "true"), class_path, ("name", name)]);
    for way in ways {
        xml.words("refClass", &[], &way.class.name);
        xml.empty("subParameter", &[("classPath", path.as_str()), ("name", strategy)]);
    }
    xml.close();
}

/// Writes an array with the same number for each class.
fn each_number(xml: &mut Writer, ways: &[Way<'_>], path: &str, names: [&str; 2], value: &str) {
    let path = ("classPath", path);
    xml.open("parameter", &[("array", "true"), path, ("name", names[0])]);
    for way in ways {
        xml.words("refClass", &[], &way.class.name);
        xml.open("subParameter", &[path, ("name", names[1])]);
        xml.words("value", &[], value);
        xml.close();
    }
    xml.close();
}

fn server_section(
    xml: &mut Writer,
    ways: &[Way<'_>],
    name: &str,
    kind: &Kind,
    discipline: Discipline,
) {
    let servers = match kind {
        Kind::Servers { count } => count.count(),
        Kind::Delay | Kind::Queue | Kind::LoadDependent { .. } | Kind::Ethernet { .. } => 1,
    };
    let class_name = match (kind, discipline) {
        (Kind::Delay, _) => "Delay",
        (_, Discipline::ProcessorSharing) => "PSServer",
        (_, Discipline::PreemptivePriority) => "PreemptiveServer",
        (_, Discipline::Fcfs | Discipline::Priority) => "Server",
    };
    xml.open("section", &[("className", class_name)]);
    if class_name != "Delay" {
        integer(xml, "maxJobs", &servers.to_string());
        if class_name == "PSServer" {
            integer(xml, "maxRunning", "-1");
        }
        each_number(xml, ways, "java.lang.Integer", ["numberOfVisits"; 2], "1");
    }
    services(xml, ways, name);
    if class_name == "PreemptiveServer" {
        let put = put_strategy(discipline);
        each_class(xml, ways, "PreemptiveStrategy", "QueuePutStrategy", put);
    }
    if class_name == "PSServer" {
        each_class(xml, ways, "PSStrategy", "PSStrategy", "EPSStrategy");
        let names = ["serviceWeights", "serviceWeight"];
        each_number(xml, ways, "java.lang.Double", names, "1.0");
    }
    xml.close();
}

/// Writes the service times, or the interarrival times, of each class at a node.
fn services(xml: &mut Writer, ways: &[Way<'_>], name: &str) {
    xml.open(
        "parameter",
        &[
            ("array", "true"),
            ("classPath", "jmt.engine.NetStrategies.ServiceStrategy"),
            ("name", "ServiceStrategy"),
        ],
    );
    for way in ways {
        xml.words("refClass", &[], &way.class.name);
        let time = match &way.class.kind {
            ClassKind::Closed { think, .. } if name == THINK => Some((think.law, think.seconds())),
            ClassKind::Open { rate, arrivals } if name == BEGIN => {
                let regular = *arrivals == Arrivals::Regular;
                let law = if regular { Law::Constant } else { Law::Exponential };
                Some((law, 1.0 / rate.base()))
            }
            ClassKind::Closed { .. } | ClassKind::Open { .. } => {
                way.class.demands.get(name).map(|demand| (demand.law, demand.seconds()))
            }
        };
        laws::write(xml, time.filter(|(_, mean)| *mean > 0.0));
    }
    xml.close();
}

fn router_section(xml: &mut Writer, ways: &[Way<'_>], name: &str) {
    xml.open("section", &[("className", "Router")]);
    let strategies = "jmt.engine.NetStrategies.RoutingStrategies";
    xml.open(
        "parameter",
        &[
            ("array", "true"),
            ("classPath", "jmt.engine.NetStrategies.RoutingStrategy"),
            ("name", "RoutingStrategy"),
        ],
    );
    for way in ways {
        xml.words("refClass", &[], &way.class.name);
        let Some(target) = next(way, name) else {
            let path = format!("{strategies}.DisabledRoutingStrategy");
            xml.empty("subParameter", &[("classPath", path.as_str()), ("name", "Disabled")]);
            continue;
        };
        let path = format!("{strategies}.EmpiricalStrategy");
        let entry = ("classPath", "jmt.engine.random.EmpiricalEntry");
        xml.open("subParameter", &[("classPath", path.as_str()), ("name", "Probabilities")]);
        xml.open("subParameter", &[("array", "true"), entry, ("name", "EmpiricalEntryArray")]);
        xml.open("subParameter", &[entry, ("name", "EmpiricalEntry")]);
        xml.open("subParameter", &[("classPath", "java.lang.String"), ("name", "stationName")]);
        xml.words("value", &[], target);
        xml.close();
        xml.open("subParameter", &[("classPath", "java.lang.Double"), ("name", "probability")]);
        xml.words("value", &[], "1.0");
        xml.close();
        xml.close();
        xml.close();
        xml.close();
    }
    xml.close();
    xml.close();
}

fn measures(xml: &mut Writer, model: &Model) {
    for class in &model.classes {
        for kind in ["System Throughput", "System Response Time"] {
            xml.empty(
                "measure",
                &[
                    ("alpha", "0.1"),
                    ("name", &format!("{} {kind}", class.name)),
                    ("nodeType", ""),
                    ("precision", "0.03"),
                    ("referenceNode", ""),
                    ("referenceUserClass", class.name.as_str()),
                    ("type", kind),
                    ("verbose", "false"),
                ],
            );
        }
    }
}

/// Writes the initial places of the customers of closed classes.
fn preload(xml: &mut Writer, ways: &[Way<'_>]) {
    xml.open("preload", &[]);
    xml.open("stationPopulations", &[("stationName", THINK)]);
    for way in ways {
        if let ClassKind::Closed { population, .. } = &way.class.kind {
            let count = population.count().to_string();
            let class = ("refClass", way.class.name.as_str());
            xml.empty("classPopulation", &[("population", count.as_str()), class]);
        }
    }
    xml.close();
    xml.close();
}
