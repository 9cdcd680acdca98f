//! Import: nodes become centres, routing becomes visits.

use super::super::jmva::{centre, class, plain, seconds};
use super::{find, first_number, laws};
use leasehold_lab_network::model::{
    Arrivals, Centre, Class, ClassKind, Demand, Discipline, FORMAT, Kind, Law, Model, Origin, Unit,
};
use roxmltree::Node;
use std::collections::BTreeMap;

const SOURCE: &str = "imported from JSIMgraph";

/// Returns the node after the name of a class in an array of parameters.
fn of_class<'a, 'i>(array: Node<'a, 'i>, class: &str) -> Option<Node<'a, 'i>> {
    let mut children = array.children().filter(Node::is_element);
    children.find(|child| child.has_tag_name("refClass") && child.text() == Some(class))?;
    children.next()
}

/// The sections of nodes that the model's centres can represent.
const SECTIONS: [&str; 10] = [
    "RandomSource",
    "JobSink",
    "Queue",
    "Server",
    "PSServer",
    "PreemptiveServer",
    "Delay",
    "ServiceTunnel",
    "LogTunnel",
    "Router",
];

/// Routing strategies that depend on probabilities alone.
const ROUTINGS: [&str; 3] = ["Random", "Probabilities", "Disabled"];

/// Rejects properties whose omission would change the meaning of the model.
fn refuse_unknown(root: Node<'_, '_>, nodes: &[Node<'_, '_>]) -> Result<(), String> {
    if root.descendants().any(|node| node.has_tag_name("blockingRegion")) {
        return Err("regions of finite capacity are not covered".into());
    }
    for node in nodes {
        let place = node.attribute("name").unwrap_or("");
        let refuse = |what: String| Err(format!("node \"{place}\": {what} is not covered"));
        let sections = node.children().filter_map(|child| child.attribute("className"));
        if let Some(other) = sections.into_iter().find(|name| !SECTIONS.contains(name)) {
            return refuse(format!("a section {other}"));
        }
        let routing = find(*node, "RoutingStrategy");
        let strategies =
            routing.iter().flat_map(Node::children).filter_map(|c| c.attribute("name"));
        if let Some(other) = strategies.into_iter().find(|name| !ROUTINGS.contains(name)) {
            return refuse(format!("the routing \"{other}\""));
        }
        let is_limited = find(*node, "size").and_then(first_number).is_some_and(|size| size > 0.0);
        let rules = find(*node, "dropStrategies");
        let mut rules =
            rules.iter().flat_map(Node::descendants).filter(|n| n.has_tag_name("value"));
        if is_limited && rules.any(|rule| rule.text().is_some_and(|text| text.trim() != "drop")) {
            return refuse("a full queue that does not drop".into());
        }
    }
    Ok(())
}

pub(crate) fn import(root: Node<'_, '_>) -> Result<Model, String> {
    let nodes: Vec<Node<'_, '_>> =
        root.descendants().filter(|node| node.has_tag_name("node")).collect();
    refuse_unknown(root, &nodes)?;
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
            model.centres.push(import_centre(*node, is_delay)?);
        }
    }
    for node in &classes {
        let visits = visits(root, &nodes, *node)?;
        model.classes.push(import_class(*node, &nodes, &visits)?);
    }
    Ok(model)
}

fn import_centre(node: Node<'_, '_>, is_delay: bool) -> Result<Centre, String> {
    let place = node.attribute("name").unwrap_or("");
    let puts = node.descendants().filter_map(|below| {
        below.attribute("classPath")?.strip_prefix("jmt.engine.NetStrategies.QueuePutStrategies.")
    });
    let known = ["TailStrategy", "TailStrategyPriority", "FCFSPRStrategyPriority"];
    if let Some(other) = puts.into_iter().find(|put| !known.contains(put)) {
        return Err(format!("node \"{place}\": the order {other} is not covered"));
    }
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
    let mut centre = centre(place, kind, discipline);
    let size = find(node, "size").and_then(first_number).filter(|size| *size > 0.0);
    centre.capacity = size.map(|size| plain(size, Unit::None, SOURCE));
    Ok(centre)
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

/// Returns the number of visits of a class to each node between two visits to its reference: solves
/// the traffic equations by repeated substitution.
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
    Err(format!("class \"{name}\" never returns to its start"))
}
