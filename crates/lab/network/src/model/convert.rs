//! Conversion of the model file to the numbers that the solvers read.

use super::{Centre, ClassKind, Demand, Discipline, Kind, Law, Model, Origin};
use crate::ethernet::Ethernet;
use crate::{self as solver, CentreKind, Network};

/// The number of stations for an Ethernet's efficiency if open classes set no bound; with a
/// thousand stations it is within 0.02 % of its limit.
const ETHERNET_STATIONS: usize = 1_024;

impl Demand {
    /// Returns the mean in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.unit.base(self.value)
    }

    /// Returns an assumed mean in seconds.
    #[must_use]
    pub const fn assumed_seconds(value: f64) -> Self {
        Self {
            value,
            unit: super::Unit::Seconds,
            from: Origin::Assumed,
            r#where: String::new(),
            law: Law::Exponential,
        }
    }
}

impl Kind {
    /// Returns the relative rates of an Ethernet centre.
    fn ethernet(&self) -> Option<Ethernet> {
        match self {
            Self::Ethernet { frame, bandwidth, slot } => Some(Ethernet {
                frame_bytes: frame.base(),
                bits_per_second: bandwidth.base(),
                slot_seconds: slot.base(),
            }),
            Self::Delay | Self::Queue | Self::Servers { .. } | Self::LoadDependent { .. } => None,
        }
    }
}

impl Model {
    /// Returns the product-form network of this model. [`Model::left_out`] lists the properties
    /// that a solver omits.
    #[must_use]
    pub fn network(&self) -> Network {
        let closed: usize = self
            .classes
            .iter()
            .map(|class| match &class.kind {
                ClassKind::Closed { population, .. } => population.count(),
                ClassKind::Open { .. } => 0,
            })
            .sum();
        let any_open = self.classes.iter().any(|c| matches!(c.kind, ClassKind::Open { .. }));
        let stations = if any_open { closed.max(ETHERNET_STATIONS) } else { closed.max(1) };
        let classes = self
            .classes
            .iter()
            .map(|class| solver::Class {
                name: class.name.clone(),
                kind: match &class.kind {
                    ClassKind::Closed { population, think } => solver::ClassKind::Closed {
                        population: population.count(),
                        think: think.seconds(),
                    },
                    ClassKind::Open { rate, .. } => solver::ClassKind::Open { rate: rate.base() },
                },
            })
            .collect();
        let centres = self
            .centres
            .iter()
            .map(|centre| solver::Centre {
                name: centre.name.clone(),
                kind: centre.kind.of_solver(stations),
                demands: self
                    .classes
                    .iter()
                    .map(|class| class.demands.get(&centre.name).map_or(0.0, Demand::seconds))
                    .collect(),
            })
            .collect();
        Network { classes, centres }
    }

    /// Returns sentences on the properties of this model that the analytic solvers omit; empty if
    /// the solution is exact for the model.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for centre in &self.centres {
            self.left_out_of_centre(centre, &mut notes);
        }
        for class in &self.classes {
            let mut note = |what: &str| notes.push(format!("class \"{}\": {what}", class.name));
            if class.timeout.is_some() || class.try_again.is_some() {
                note("timeouts and tries are left out");
            }
            if class.cache.is_some() {
                note("the cache is left out; every request counts as a miss");
            }
            if class.route.iter().any(|step| matches!(step, super::Step::Fork { .. })) {
                note("parts of a fork are taken one after the other");
            }
            if matches!(&class.kind, ClassKind::Open { arrivals, .. } if *arrivals != super::Arrivals::Poisson)
            {
                note("arrivals are taken as Poisson");
            }
        }
        notes
    }

    fn left_out_of_centre(&self, centre: &Centre, notes: &mut Vec<String>) {
        let mut note = |what: &str| notes.push(format!("centre \"{}\": {what}", centre.name));
        if centre.capacity.is_some() || centre.loss.is_some() || centre.crashes.is_some() {
            note("limits, losses and crashes are left out");
        }
        if matches!(centre.kind, Kind::Delay) {
            return;
        }
        let demands: Vec<&Demand> = self
            .classes
            .iter()
            .filter_map(|class| class.demands.get(&centre.name))
            .filter(|demand| demand.value > 0.0)
            .collect();
        match centre.discipline {
            Discipline::ProcessorSharing => {}
            Discipline::Priority | Discipline::PreemptivePriority => {
                note("priorities are left out");
            }
            Discipline::Fcfs => {
                if demands.iter().any(|demand| demand.law != Law::Exponential) {
                    note("service is taken as exponential");
                }
                if demands.windows(2).any(|two| two[0].seconds() != two[1].seconds()) {
                    note("first come first served with unequal means is taken as shared");
                }
            }
        }
    }
}

impl Kind {
    /// Converts a centre for the solvers; `stations` bounds the number of present customers.
    #[must_use]
    pub fn of_solver(&self, stations: usize) -> CentreKind {
        match self {
            Self::Delay => CentreKind::Delay,
            Self::Queue => CentreKind::Queue,
            Self::Servers { count } => CentreKind::Servers(count.count()),
            Self::LoadDependent { rates, .. } => CentreKind::LoadDependent(rates.clone()),
            Self::Ethernet { .. } => self
                .ethernet()
                .map_or(CentreKind::Queue, |e| CentreKind::LoadDependent(e.rates(stations))),
        }
    }
}
