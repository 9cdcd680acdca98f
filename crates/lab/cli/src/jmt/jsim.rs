//! JSIMgraph: nodes with queue, server and router sections, joined by connections.

mod laws;

use super::THINK;
use super::jmva::{centre, class, plain, seconds};
use super::xml::Writer;
use leasehold_lab_network::model::{
    Arrivals, Class, ClassKind, Demand, Discipline, FORMAT, Kind, Law, Model, Origin, Quantity,
    Step, Unit,
};
use roxmltree::Node;
use std::collections::BTreeMap;

const SOURCE: &str = "imported from JSIMgraph";

/// The names of the nodes where customers from outside begin and end.
const BEGIN: &str = "arrivals";
const END: &str = "departures";

/// A class' way: the names of the nodes in turn, from where it begins back to there.
struct Way<'a> {
    class: &'a Class,
    nodes: Vec<String>,
}

pub(super) fn export(model: &Model) -> Result<String, String> {
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
                return Err(format!("class \"{name}\" comes to \"{node}\" twice"));
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

/// The next node of a class behind one; none behind the end of an open class.
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
    let put = match discipline {
        Discipline::Fcfs | Discipline::ProcessorSharing => "TailStrategy",
        Discipline::Priority | Discipline::PreemptivePriority => "TailStrategyPriority",
    };
    let path = format!("jmt.engine.NetStrategies.QueuePutStrategies.{put}");
    xml.open(
        "parameter",
        &[
            ("array", "true"),
            ("classPath", "jmt.engine.NetStrategies.QueuePutStrategy"),
            ("name", "QueuePutStrategy"),
        ],
    );
    for way in ways {
        xml.words("refClass", &[], &way.class.name);
        xml.empty("subParameter", &[("classPath", path.as_str()), ("name", put)]);
    }
    xml.close();
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
        xml.open(
            "parameter",
            &[("array", "true"), ("classPath", "java.lang.Integer"), ("name", "numberOfVisits")],
        );
        for way in ways {
            xml.words("refClass", &[], &way.class.name);
            let path = ("classPath", "java.lang.Integer");
            xml.open("subParameter", &[path, ("name", "numberOfVisits")]);
            xml.words("value", &[], "1");
            xml.close();
        }
        xml.close();
    }
    services(xml, ways, name);
    xml.close();
}

/// The service, or the gaps between arrivals, of each class at a node.
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

/// A parameter or part of one, by name, anywhere below a node.
fn find<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.descendants().find(|below| below.attribute("name") == Some(name))
}

/// In an array of parameters, what stands behind the name of a class.
fn of_class<'a, 'i>(array: Node<'a, 'i>, class: &str) -> Option<Node<'a, 'i>> {
    let mut children = array.children().filter(Node::is_element);
    children.find(|child| child.has_tag_name("refClass") && child.text() == Some(class))?;
    children.next()
}

/// The first number below a node.
fn first_number(node: Node<'_, '_>) -> Option<f64> {
    node.descendants().find(|below| below.has_tag_name("value"))?.text()?.trim().parse().ok()
}

pub(super) fn import(root: Node<'_, '_>) -> Result<Model, String> {
    let nodes: Vec<Node<'_, '_>> =
        root.descendants().filter(|node| node.has_tag_name("node")).collect();
    let name_of = |node: &Node<'_, '_>| node.attribute("name").unwrap_or("").to_owned();
    let section = |node: Node<'_, '_>, names: &[&str]| {
        node.children()
            .any(|child| child.attribute("className").is_some_and(|n| names.contains(&n)))
    };
    let mut model = Model {
        format: FORMAT.into(),
        title: root.attribute("name").unwrap_or("").to_owned(),
        centres: Vec::new(),
        classes: Vec::new(),
    };
    let classes: Vec<Node<'_, '_>> =
        root.descendants().filter(|node| node.has_tag_name("userClass")).collect();
    let references: Vec<&str> =
        classes.iter().filter_map(|class| class.attribute("referenceSource")).collect();
    for node in &nodes {
        let is_delay = section(*node, &["Delay"]);
        let is_server = section(*node, &["Server", "PSServer", "PreemptiveServer"]);
        let only_thinks = is_delay && references.contains(&name_of(node).as_str());
        if (is_delay && !only_thinks) || is_server {
            model.centres.push(import_centre(*node, is_delay));
        }
    }
    for node in &classes {
        let visits = visits(root, &nodes, *node)?;
        model.classes.push(import_class(*node, &nodes, &visits)?);
    }
    Ok(model)
}

fn import_centre(node: Node<'_, '_>, is_delay: bool) -> leasehold_lab_network::model::Centre {
    let has = |name: &str| {
        node.descendants().any(|below| {
            below.attribute("className") == Some(name) || below.attribute("name") == Some(name)
        })
    };
    let discipline = if has("PSServer") {
        Discipline::ProcessorSharing
    } else if has("PreemptiveServer") {
        Discipline::PreemptivePriority
    } else if has("TailStrategyPriority") {
        Discipline::Priority
    } else {
        Discipline::Fcfs
    };
    let servers = find(node, "maxJobs").and_then(first_number).unwrap_or(1.0);
    let kind = if is_delay {
        Kind::Delay
    } else if servers > 1.0 {
        Kind::Servers { count: plain(servers, Unit::None, SOURCE) }
    } else {
        Kind::Queue
    };
    let mut centre = centre(node.attribute("name").unwrap_or(""), kind, discipline);
    let size = find(node, "size").and_then(first_number).filter(|size| *size > 0.0);
    centre.capacity = size.map(|size| plain(size, Unit::None, SOURCE));
    centre
}

fn import_class(
    node: Node<'_, '_>,
    nodes: &[Node<'_, '_>],
    visits: &BTreeMap<String, f64>,
) -> Result<Class, String> {
    let name = node.attribute("name").ok_or("a class without a name")?;
    let reference = node.attribute("referenceSource").unwrap_or("");
    let time_at = |node: &Node<'_, '_>| -> Result<Option<(Law, f64)>, String> {
        match find(*node, "ServiceStrategy").and_then(|array| of_class(array, name)) {
            Some(strategy) => laws::read(strategy),
            None => Ok(None),
        }
    };
    let at_reference = nodes.iter().find(|node| node.attribute("name") == Some(reference));
    let begins = at_reference.map_or(Ok(None), time_at)?;
    let closed = node.attribute("type") == Some("closed");
    let kind = if closed {
        let customers = node.attribute("customers").and_then(|text| text.parse().ok());
        let population = plain(customers.unwrap_or(0.0), Unit::None, SOURCE);
        let (law, mean) = begins.unwrap_or((Law::Exponential, 0.0));
        ClassKind::Closed { population, think: Demand { law, ..seconds(mean, SOURCE) } }
    } else {
        let (law, gap) = begins.ok_or_else(|| format!("class \"{name}\" never arrives"))?;
        let arrivals = if law == Law::Constant { Arrivals::Regular } else { Arrivals::Poisson };
        ClassKind::Open { rate: plain(1.0 / gap, Unit::PerSecond, SOURCE), arrivals }
    };
    let mut class = class(name, kind);
    class.priority = node.attribute("priority").and_then(|text| text.parse().ok()).unwrap_or(0);
    for node in nodes.iter().filter(|node| node.attribute("name") != Some(reference)) {
        let place = node.attribute("name").unwrap_or("");
        let count = visits.get(place).copied().unwrap_or(0.0);
        if let Some((law, mean)) = time_at(node)?.filter(|_| count > 0.0) {
            let demand = Demand { law, from: Origin::Assumed, ..seconds(mean * count, SOURCE) };
            class.demands.insert(place.into(), demand);
        }
    }
    Ok(class)
}

/// How often a class comes to each node between two visits of where it begins: the traffic
/// equations, by repeated substitution.
fn visits(
    root: Node<'_, '_>,
    nodes: &[Node<'_, '_>],
    class: Node<'_, '_>,
) -> Result<BTreeMap<String, f64>, String> {
    let name = class.attribute("name").unwrap_or("");
    let begin = class.attribute("referenceSource").unwrap_or("").to_owned();
    let links: Vec<(String, String)> = root
        .descendants()
        .filter(|node| node.has_tag_name("connection"))
        .filter_map(|node| {
            Some((node.attribute("source")?.into(), node.attribute("target")?.into()))
        })
        .collect();
    let mut shares: BTreeMap<String, Vec<(String, f64)>> = BTreeMap::new();
    for node in nodes {
        let place = node.attribute("name").unwrap_or("").to_owned();
        let targets: Vec<String> =
            links.iter().filter(|(from, _)| *from == place).map(|(_, to)| to.clone()).collect();
        let strategy = find(*node, "RoutingStrategy").and_then(|array| of_class(array, name));
        let entries = strategy.and_then(|strategy| find(strategy, "EmpiricalEntryArray"));
        let share = match (entries, strategy.and_then(|strategy| strategy.attribute("name"))) {
            (Some(entries), _) => entries
                .children()
                .filter(Node::is_element)
                .filter_map(|entry| {
                    let value = find(entry, "stationName")?.descendants();
                    let target = value.into_iter().find(|v| v.has_tag_name("value"))?.text()?;
                    Some((target.to_owned(), find(entry, "probability").and_then(first_number)?))
                })
                .collect(),
            (None, Some("Disabled")) => Vec::new(),
            (None, _) => {
                let each = 1.0 / targets.len().max(1) as f64;
                targets.into_iter().map(|target| (target, each)).collect()
            }
        };
        shares.insert(place, share);
    }
    let mut flow = BTreeMap::from([(begin.clone(), 1.0)]);
    let mut total: BTreeMap<String, f64> = BTreeMap::new();
    for _ in 0..10_000 {
        let mut onward: BTreeMap<String, f64> = BTreeMap::new();
        for (place, amount) in &flow {
            for (target, share) in shares.get(place).map_or(&[][..], Vec::as_slice) {
                *onward.entry(target.clone()).or_default() += amount * share;
            }
        }
        onward.remove(&begin);
        onward.retain(|_, amount| *amount > 1e-15);
        if onward.is_empty() {
            return Ok(total);
        }
        for (place, amount) in &onward {
            *total.entry(place.clone()).or_default() += amount;
        }
        flow = onward;
    }
    Err(format!("class \"{name}\" never comes back to where it begins"))
}
