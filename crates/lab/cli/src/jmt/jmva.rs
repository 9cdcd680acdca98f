//! JMVA: classes, stations with service times and visits, reference stations.

use super::THINK;
use super::xml::Writer;
use leasehold_lab_network::model::{
    Arrivals, Centre, Class, ClassKind, Demand, Discipline, FORMAT, Kind, Model, Origin, Quantity,
    Unit,
};
use leasehold_lab_network::{self as solver, CentreKind, Network};
use roxmltree::Node;
use std::collections::BTreeMap;

const SOURCE: &str = "imported from JMVA";

pub(super) fn export(model: &Model) -> String {
    let network = model.network();
    let mut xml = Writer::new();
    let schema = ("xsi:noNamespaceSchemaLocation", "JMTmodel.xsd");
    xml.open("model", &[("xmlns:xsi", "http://www.w3.org/2001/XMLSchema-instance"), schema]);
    xml.words("description", &[], &model.title);
    xml.open("parameters", &[]);
    classes(&mut xml, &network);
    stations(&mut xml, &network);
    references(&mut xml, &network);
    xml.close();
    xml.open("algParams", &[]);
    let method = [("name", "MVA"), ("tolerance", "1.0E-7"), ("maxSamples", "10000")];
    xml.empty("algType", &method);
    xml.empty("compareAlgs", &[("value", "false")]);
    xml.finish()
}

fn classes(xml: &mut Writer, network: &Network) {
    xml.open("classes", &[("number", &network.classes.len().to_string())]);
    for class in &network.classes {
        let name = ("name", class.name.as_str());
        match class.kind {
            solver::ClassKind::Closed { population, .. } => {
                xml.empty("closedclass", &[name, ("population", &population.to_string())]);
            }
            solver::ClassKind::Open { rate } => {
                xml.empty("openclass", &[name, ("rate", &rate.to_string())]);
            }
        }
    }
    xml.close();
}

fn stations(xml: &mut Writer, network: &Network) {
    let think = network.think_times();
    let thinks = think.iter().any(|time| *time > 0.0);
    let count = network.centres.len() + usize::from(thinks);
    xml.open("stations", &[("number", &count.to_string())]);
    if thinks {
        station(xml, network, "delaystation", &[("name", THINK)], &times(&think, &[1.0]));
    }
    for centre in &network.centres {
        let name = ("name", centre.name.as_str());
        let single = times(&centre.demands, &[1.0]);
        match &centre.kind {
            CentreKind::Delay => station(xml, network, "delaystation", &[name], &single),
            CentreKind::Queue => station(xml, network, "listation", &[name], &single),
            CentreKind::Servers(count) => {
                let servers = count.to_string();
                station(xml, network, "listation", &[name, ("servers", &servers)], &single);
            }
            CentreKind::LoadDependent(rates) => {
                // One time for each possible number of customers.
                let most = network.population().iter().sum::<usize>().max(rates.len());
                let all: Vec<f64> = (1..=most).map(|n| solver::rates::rate_at(rates, n)).collect();
                station(xml, network, "ldstation", &[name], &times(&centre.demands, &all));
            }
        }
    }
    xml.close();
}

fn references(xml: &mut Writer, network: &Network) {
    xml.open("ReferenceStation", &[("number", &network.classes.len().to_string())]);
    let first = network.centres.first().map_or("", |centre| centre.name.as_str());
    for class in &network.classes {
        let station = match class.kind {
            solver::ClassKind::Open { .. } => "Arrival Process",
            solver::ClassKind::Closed { think, .. } if think > 0.0 => THINK,
            solver::ClassKind::Closed { .. } => first,
        };
        xml.empty("Class", &[("name", class.name.as_str()), ("refStation", station)]);
    }
    xml.close();
}

/// Service times as text: one for each rate, joined by semicolons.
fn times(demands: &[f64], rates: &[f64]) -> Vec<String> {
    demands
        .iter()
        .map(|demand| {
            let each: Vec<String> = rates.iter().map(|rate| (demand / rate).to_string()).collect();
            each.join(";")
        })
        .collect()
}

fn station(
    xml: &mut Writer,
    network: &Network,
    kind: &'static str,
    attributes: &[(&str, &str)],
    times: &[String],
) {
    xml.open(kind, attributes);
    xml.open("servicetimes", &[]);
    for (class, time) in network.classes.iter().zip(times) {
        xml.words("servicetime", &[("customerclass", class.name.as_str())], time);
    }
    xml.close();
    xml.open("visits", &[]);
    for class in &network.classes {
        xml.words("visit", &[("customerclass", class.name.as_str())], "1.0");
    }
    xml.close();
    xml.close();
}

fn attribute<'a>(node: Node<'a, '_>, name: &str) -> Result<&'a str, String> {
    let tag = node.tag_name().name();
    node.attribute(name).ok_or_else(|| format!("<{tag}> has no {name}"))
}

fn number(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(|_| format!("\"{text}\" is no number"))
}

pub(super) fn seconds(value: f64, source: &str) -> Demand {
    let mut demand = Demand::assumed_seconds(value);
    demand.r#where = source.into();
    demand
}

pub(super) fn plain(value: f64, unit: Unit, source: &str) -> Quantity {
    Quantity { value, unit, from: Origin::Assumed, r#where: source.into() }
}

/// A class without demands yet.
pub(super) fn class(name: &str, kind: ClassKind) -> Class {
    Class {
        name: name.into(),
        kind,
        demands: BTreeMap::new(),
        route: Vec::new(),
        priority: 0,
        timeout: None,
        try_again: None,
        cache: None,
    }
}

pub(super) fn centre(name: &str, kind: Kind, discipline: Discipline) -> Centre {
    Centre { name: name.into(), kind, discipline, capacity: None, loss: None, crashes: None }
}

pub(super) fn import(root: Node<'_, '_>) -> Result<Model, String> {
    let named = |tag: &'static str| root.descendants().filter(move |node| node.has_tag_name(tag));
    let mut classes = Vec::new();
    for node in named("closedclass") {
        let population = number(attribute(node, "population")?)?;
        let population = plain(population, Unit::None, SOURCE);
        let think = seconds(0.0, SOURCE);
        classes.push(class(attribute(node, "name")?, ClassKind::Closed { population, think }));
    }
    for node in named("openclass") {
        let rate = plain(number(attribute(node, "rate")?)?, Unit::PerSecond, SOURCE);
        let kind = ClassKind::Open { rate, arrivals: Arrivals::Poisson };
        classes.push(class(attribute(node, "name")?, kind));
    }
    let references: BTreeMap<&str, &str> = named("Class")
        .filter_map(|node| Some((node.attribute("name")?, node.attribute("refStation")?)))
        .collect();
    let mut centres = Vec::new();
    let stations = root.descendants().filter(|node| {
        ["delaystation", "listation", "ldstation"].iter().any(|tag| node.has_tag_name(*tag))
    });
    for node in stations {
        if let Some(centre) = import_station(node, &references, &mut classes)? {
            centres.push(centre);
        }
    }
    let words = named("description").next().and_then(|node| node.text());
    let title = words.unwrap_or("").trim().to_owned();
    Ok(Model { format: FORMAT.into(), title, centres, classes })
}

/// Imports a station; a delay that is the reference station of a class becomes its think time.
fn import_station(
    node: Node<'_, '_>,
    references: &BTreeMap<&str, &str>,
    classes: &mut [Class],
) -> Result<Option<Centre>, String> {
    let name = attribute(node, "name")?;
    let of = |tag: &'static str, class: &str| {
        let all = node.descendants().filter(move |node| node.has_tag_name(tag));
        all.into_iter()
            .find(|node| node.attribute("customerclass") == Some(class))
            .and_then(|node| node.text())
    };
    let is_delay = node.has_tag_name("delaystation");
    let mut rates = vec![1.0];
    let mut used = false;
    for class in classes.iter_mut() {
        let text = of("servicetime", &class.name).unwrap_or("0");
        let times: Vec<f64> = text.split(';').map(number).collect::<Result<_, _>>()?;
        let visits = number(of("visit", &class.name).unwrap_or("1"))?;
        let demand = times[0] * visits;
        if times.len() > 1 && times[0] > 0.0 {
            rates = times.iter().map(|time| times[0] / time).collect();
        }
        let is_reference = references.get(class.name.as_str()) == Some(&name);
        match &mut class.kind {
            ClassKind::Closed { think, .. } if is_delay && is_reference => {
                *think = seconds(demand, SOURCE);
            }
            ClassKind::Closed { .. } | ClassKind::Open { .. } if demand > 0.0 => {
                used = true;
                class.demands.insert(name.into(), seconds(demand, SOURCE));
            }
            ClassKind::Closed { .. } | ClassKind::Open { .. } => {}
        }
    }
    let servers = number(node.attribute("servers").unwrap_or("1"))?;
    let kind = if is_delay {
        Kind::Delay
    } else if node.has_tag_name("ldstation") {
        Kind::LoadDependent { rates, from: Origin::Assumed, r#where: SOURCE.into() }
    } else if servers > 1.0 {
        Kind::Servers { count: plain(servers, Unit::None, SOURCE) }
    } else {
        Kind::Queue
    };
    let centre = centre(name, kind, Discipline::ProcessorSharing);
    Ok((used || !is_delay).then_some(centre))
}
