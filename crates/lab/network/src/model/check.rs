//! The check of model files.

use super::quantity::{Dimension, Quantity, Unit};
use super::{
    Arrivals, Cache, Centre, Class, ClassKind, Demand, Discipline, FORMAT, Kind, Law, Model,
    Origin, Step,
};
use core::fmt;
use std::collections::BTreeSet;

/// A problem in a model file, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The place: a path into the file, or line and column.
    pub place: String,
    /// The problem and the correction.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

impl Problem {
    pub(super) fn of_text(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let what = text.split(" at line ").next().unwrap_or(&text).to_owned();
        Self { place: format!("line {}, column {}", error.line(), error.column()), what }
    }
}

/// Collects problems below one place.
struct Report {
    place: String,
    problems: Vec<Problem>,
}

impl Report {
    fn say(&mut self, at: &str, what: impl Into<String>) {
        let place = if self.place.is_empty() { at.into() } else { format!("{}.{at}", self.place) };
        self.problems.push(Problem { place, what: what.into() });
    }

    fn require(&mut self, holds: bool, at: &str, what: &str) {
        if !holds {
            self.say(at, what);
        }
    }

    fn number(&mut self, at: &str, unit: Unit, wanted: Dimension, value: f64) {
        if unit.dimension() != wanted {
            let example = match wanted {
                Dimension::Number => "no unit",
                Dimension::Time => "us, ms, s, min or h",
                Dimension::Rate => "1/s",
                Dimension::Size => "B or KiB",
                Dimension::Bandwidth => "Mbit/s",
            };
            self.say(at, format!("the unit must be {example}"));
        }
        self.require(value >= 0.0, at, "must not be negative");
        let (least, most, words) = match wanted {
            Dimension::Time => (1e-15, 1e9, "must be 0 or lie between 1e-15 and 1e9 seconds"),
            Dimension::Rate => (1e-12, 1e12, "must be 0 or lie between 1e-12 and 1e12 a second"),
            Dimension::Number | Dimension::Size | Dimension::Bandwidth => {
                (0.0, 1e15, "must not exceed 1e15")
            }
        };
        let base = unit.base(value);
        self.require(base <= 0.0 || (least..=most).contains(&base), at, words);
    }

    fn origin(&mut self, at: &str, from: Origin, source: &str) {
        let told = from == Origin::Assumed || !source.trim().is_empty();
        self.require(told, at, "a measured or seed number needs \"where\"");
    }

    fn quantity(&mut self, at: &str, quantity: &Quantity, wanted: Dimension) {
        self.number(at, quantity.unit, wanted, quantity.value);
        self.origin(at, quantity.from, &quantity.r#where);
    }

    fn count(&mut self, at: &str, quantity: &Quantity, least: f64) {
        self.origin(at, quantity.from, &quantity.r#where);
        self.require(quantity.unit == Unit::None, at, "the unit must be no unit");
        let value = quantity.value;
        let whole = value.fract() == 0.0 && value >= least && value <= 1e9;
        self.require(whole, at, &format!("must be a whole number from {least} to 1000000000"));
    }

    fn demand(&mut self, at: &str, demand: &Demand) {
        self.number(at, demand.unit, Dimension::Time, demand.value);
        self.origin(at, demand.from, &demand.r#where);
        match demand.law {
            Law::Exponential | Law::Constant | Law::Uniform => {}
            Law::Erlang { stages } => {
                self.require((1..=1000).contains(&stages), at, "stages must be 1 to 1000");
            }
            Law::Hyperexponential { scv } => {
                self.require((1.0..=1e6).contains(&scv), at, "scv must be 1 to 1000000");
            }
            Law::Lognormal { scv } => {
                self.require(scv > 0.0 && scv <= 1e6, at, "scv must be above 0, at most 1000000");
            }
            Law::Pareto { tail } => {
                self.require(tail > 1.0 && tail <= 1e6, at, "tail must be above 1");
            }
        }
    }

    fn names(&mut self, at: &str, names: &[String], model: &Model) {
        for name in names {
            if model.centre(name).is_none() {
                self.say(at, format!("there is no centre \"{name}\""));
            }
        }
    }
}

impl Model {
    /// Returns all problems of this model; empty if it can be solved and simulated.
    #[must_use]
    pub fn check(&self) -> Vec<Problem> {
        let mut report = Report { place: String::new(), problems: Vec::new() };
        report.require(self.format == FORMAT, "format", &format!("must be \"{FORMAT}\""));
        report.require(!self.centres.is_empty(), "centres", "must not be empty");
        report.require(!self.classes.is_empty(), "classes", "must not be empty");
        let mut seen = BTreeSet::new();
        for centre in &self.centres {
            report.place = format!("centres[\"{}\"]", centre.name);
            report.require(!centre.name.trim().is_empty(), "name", "must not be empty");
            report.require(seen.insert(&centre.name), "name", "two centres have this name");
            check_centre(&mut report, centre);
        }
        seen.clear();
        for class in &self.classes {
            report.place = format!("classes[\"{}\"]", class.name);
            report.require(!class.name.trim().is_empty(), "name", "must not be empty");
            report.require(seen.insert(&class.name), "name", "two classes have this name");
            self.check_class(&mut report, class);
        }
        report.problems
    }

    fn check_class(&self, report: &mut Report, class: &Class) {
        match &class.kind {
            ClassKind::Closed { population, think } => {
                report.count("population", population, 0.0);
                report.demand("think", think);
            }
            ClassKind::Open { rate, arrivals } => {
                report.quantity("rate", rate, Dimension::Rate);
                check_arrivals(report, arrivals);
            }
        }
        for (centre, demand) in &class.demands {
            report.demand(&format!("demands[\"{centre}\"]"), demand);
        }
        report.names("demands", &class.demands.keys().cloned().collect::<Vec<_>>(), self);
        let needs = class.demands.values().any(|demand| demand.value > 0.0);
        report.require(needs, "demands", "a request must need some service");
        self.check_route(report, class);
        if let Some(timeout) = &class.timeout {
            report.quantity("timeout.after", &timeout.after, Dimension::Time);
            report.require(timeout.after.value > 0.0, "timeout.after", "must be above 0");
            let grows = (1.0..=1e6).contains(&timeout.backoff);
            report.require(grows, "timeout.backoff", "must be 1 to 1000000");
        }
        if let Some(pause) = &class.try_again {
            report.quantity("try_again", pause, Dimension::Time);
            report.require(pause.value > 0.0, "try_again", "must be above 0");
        }
        if let Some(cache) = &class.cache {
            self.check_cache(report, cache);
        }
    }

    fn check_route(&self, report: &mut Report, class: &Class) {
        let mut visited: BTreeSet<&str> = BTreeSet::new();
        for step in &class.route {
            match step {
                Step::Visit(name) => {
                    report.names("route", core::slice::from_ref(name), self);
                    visited.insert(name);
                }
                Step::Fork { fork } => {
                    report.require(!fork.is_empty(), "route", "a fork needs a centre");
                    report.names("route", fork, self);
                    visited.extend(fork.iter().map(String::as_str));
                }
            }
        }
        for (centre, demand) in &class.demands {
            let reached = class.route.is_empty() || visited.contains(centre.as_str());
            let at = format!("demands[\"{centre}\"]");
            report.require(reached || demand.value == 0.0, &at, "the route never goes there");
        }
    }

    fn check_cache(&self, report: &mut Report, cache: &Cache) {
        report.count("cache.blocks", &cache.blocks, 1.0);
        report.count("cache.objects", &cache.objects, 1.0);
        report.require((0.0..=100.0).contains(&cache.zipf), "cache.zipf", "must be 0 to 100");
        report.require((0.0..=1.0).contains(&cache.writes), "cache.writes", "a share of 0 to 1");
        report.names("cache.skips", &cache.skips, self);
        if let Some(lease) = &cache.lease {
            report.quantity("cache.lease.term", &lease.term, Dimension::Time);
            report.names("cache.lease.renewal", &lease.renewal, self);
        }
    }
}

fn check_centre(report: &mut Report, centre: &Centre) {
    match &centre.kind {
        Kind::Delay | Kind::Queue => {}
        Kind::Servers { count } => {
            report.count("kind.servers.count", count, 1.0);
            let few = count.value <= 10_000.0;
            report.require(few, "kind.servers.count", "more than 10000 servers: use a delay");
        }
        Kind::LoadDependent { rates, from, r#where } => {
            let positive = rates.iter().all(|rate| (1e-6..=1e6).contains(rate));
            let few = (1..=10_000).contains(&rates.len());
            report.require(positive && few, "rates", "one to 10000, each from 1e-6 to 1e6");
            report.origin("rates", *from, r#where);
        }
        Kind::Ethernet { frame, bandwidth, slot } => {
            report.quantity("frame", frame, Dimension::Size);
            report.quantity("bandwidth", bandwidth, Dimension::Bandwidth);
            report.quantity("slot", slot, Dimension::Time);
            let sent = frame.value > 0.0 && bandwidth.value > 0.0;
            report.require(sent, "frame", "frame and bandwidth must be above 0");
        }
    }
    let served_one_by_one = matches!(centre.kind, Kind::Queue | Kind::Servers { .. });
    let by_priority =
        matches!(centre.discipline, Discipline::Priority | Discipline::PreemptivePriority);
    let ordered = served_one_by_one || !by_priority;
    report.require(ordered, "discipline", "priorities need a centre of kind queue or servers");
    if let Some(capacity) = &centre.capacity {
        report.count("capacity", capacity, 1.0);
    }
    if let Some(loss) = &centre.loss {
        report.quantity("loss", loss, Dimension::Number);
        report.require(loss.value < 1.0, "loss", "must be below 1");
    }
    if let Some(crashes) = &centre.crashes {
        report.quantity("crashes.up", &crashes.up, Dimension::Time);
        report.quantity("crashes.down", &crashes.down, Dimension::Time);
        report.require(crashes.up.value > 0.0, "crashes.up", "must be above 0");
        report.require(centre.kind != Kind::Delay, "crashes", "a delay cannot crash");
    }
}

fn check_arrivals(report: &mut Report, arrivals: &Arrivals) {
    match arrivals {
        Arrivals::Poisson | Arrivals::Regular => {}
        Arrivals::Bursts { phases } => {
            for phase in phases {
                report.quantity("arrivals.stay", &phase.stay, Dimension::Time);
                report.require(phase.stay.value > 0.0, "arrivals.stay", "must be above 0");
                report.require(phase.rate >= 0.0, "arrivals.rate", "must not be negative");
            }
            let busy = phases.iter().any(|phase| phase.rate > 0.0);
            report.require(busy, "arrivals.phases", "some phase needs a rate above 0");
        }
        Arrivals::Trace { seconds } => {
            let rising = seconds.windows(2).all(|two| two[0] <= two[1]);
            let positive = seconds.first().is_some_and(|first| *first >= 0.0)
                && seconds.last().is_some_and(|last| *last > 0.0 && last.is_finite());
            report.require(rising && positive, "arrivals.seconds", "must rise from 0 or later");
        }
    }
}
