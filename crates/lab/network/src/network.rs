//! The input of the solvers: a checked network, in seconds, by position.

use crate::solution::SolveError;

/// The arrivals and departures of the customers of a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClassKind {
    /// A fixed number of customers that think between two requests.
    Closed {
        /// The number of customers.
        population: usize,
        /// Seconds between a reply and the next request.
        think: f64,
    },
    /// Customers that arrive from outside and leave.
    Open {
        /// Arrivals per second.
        rate: f64,
    },
}

/// One kind of customer.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// The name in the results.
    pub name: String,
    /// Closed or open.
    pub kind: ClassKind,
}

/// The kind of the servers of a centre.
#[derive(Clone, Debug, PartialEq)]
pub enum CentreKind {
    /// All customers are served at once.
    Delay,
    /// One server: processor sharing, or first come first served with one exponential mean.
    Queue,
    /// Several equal servers behind one queue.
    Servers(usize),
    /// The rate with `n` present, relative to one present, is element `n - 1`; the last element
    /// applies to all larger `n`.
    LoadDependent(Vec<f64>),
}

/// A resource that customers queue for.
#[derive(Clone, Debug, PartialEq)]
pub struct Centre {
    /// The name in the results.
    pub name: String,
    /// The kind of its servers.
    pub kind: CentreKind,
    /// Seconds of service that one request of each class needs here.
    pub demands: Vec<f64>,
}

/// A product-form queueing network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// The kinds of customer.
    pub classes: Vec<Class>,
    /// The resources.
    pub centres: Vec<Centre>,
}

impl Centre {
    /// Returns the relative service rates by number present, or `None` for a delay.
    #[must_use]
    pub fn rates(&self) -> Option<Vec<f64>> {
        match &self.kind {
            CentreKind::Delay => None,
            CentreKind::Queue => Some(vec![1.0]),
            CentreKind::Servers(servers) => Some((1..=*servers).map(|n| n as f64).collect()),
            CentreKind::LoadDependent(rates) => Some(rates.clone()),
        }
    }

    /// Returns the divisor that converts a class' throughput times demand to utilisation per
    /// server.
    #[must_use]
    pub fn server_count(&self) -> f64 {
        match &self.kind {
            CentreKind::Servers(servers) => *servers as f64,
            CentreKind::Delay | CentreKind::Queue | CentreKind::LoadDependent(_) => 1.0,
        }
    }

    /// Returns the rate with as many customers as the centre can use, relative to one present.
    #[must_use]
    pub fn top_rate(&self) -> f64 {
        match &self.kind {
            CentreKind::Delay => f64::INFINITY,
            CentreKind::Queue => 1.0,
            CentreKind::Servers(servers) => *servers as f64,
            CentreKind::LoadDependent(rates) => rates.last().copied().unwrap_or(1.0),
        }
    }
}

impl Network {
    /// Returns the population of each closed class; zero for open classes.
    #[must_use]
    pub fn population(&self) -> Vec<usize> {
        self.classes
            .iter()
            .map(|class| match class.kind {
                ClassKind::Closed { population, .. } => population,
                ClassKind::Open { .. } => 0,
            })
            .collect()
    }

    /// Returns the think time of each closed class; zero for open classes.
    #[must_use]
    pub fn think_times(&self) -> Vec<f64> {
        self.classes
            .iter()
            .map(|class| match class.kind {
                ClassKind::Closed { think, .. } => think,
                ClassKind::Open { .. } => 0.0,
            })
            .collect()
    }

    /// Returns the arrival rate of each open class; zero for closed classes.
    #[must_use]
    pub fn arrival_rates(&self) -> Vec<f64> {
        self.classes
            .iter()
            .map(|class| match class.kind {
                ClassKind::Closed { .. } => 0.0,
                ClassKind::Open { rate } => rate,
            })
            .collect()
    }

    /// Returns the same network with other populations for its closed classes.
    #[must_use]
    pub fn with_population(&self, population: &[usize]) -> Self {
        let mut other = self.clone();
        for (class, &wanted) in other.classes.iter_mut().zip(population) {
            if let ClassKind::Closed { population, .. } = &mut class.kind {
                *population = wanted;
            }
        }
        other
    }

    /// Checks the preconditions of every solver.
    ///
    /// # Errors
    /// A number that is negative or not finite, a demand list of the wrong length, a centre without
    /// servers or rates, or a closed class without demand and think time.
    pub fn check(&self) -> Result<(), SolveError> {
        for centre in &self.centres {
            let name = || centre.name.clone();
            if centre.demands.len() != self.classes.len() {
                return Err(SolveError::Invalid(format!("{}: a demand for each class", name())));
            }
            if !centre.demands.iter().all(|demand| *demand >= 0.0 && demand.is_finite()) {
                return Err(SolveError::Invalid(format!("{}: a demand is negative", name())));
            }
            let rates_hold = centre.rates().is_none_or(|rates| {
                !rates.is_empty() && rates.iter().all(|rate| *rate > 0.0 && rate.is_finite())
            });
            if !rates_hold {
                return Err(SolveError::Invalid(format!("{}: rates must be positive", name())));
            }
        }
        for (index, class) in self.classes.iter().enumerate() {
            let demand: f64 = self.centres.iter().map(|centre| centre.demands[index]).sum();
            let number = match class.kind {
                ClassKind::Closed { think, .. } => think,
                ClassKind::Open { rate } => rate,
            };
            if !(number >= 0.0 && number.is_finite()) {
                return Err(SolveError::Invalid(format!("{}: a time or rate < 0", class.name)));
            }
            if matches!(class.kind, ClassKind::Closed { population, think } if population > 0 && think + demand <= 0.0)
            {
                return Err(SolveError::NoDemand { class: class.name.clone() });
            }
        }
        Ok(())
    }
}
