//! The results of a solver.

use core::fmt;
use serde::Serialize;

/// Steady-state means of a network; rates per second, times in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Solution {
    /// Requests per second of each class.
    pub throughput: Vec<f64>,
    /// Seconds from request to reply of each class, without think time.
    pub response: Vec<f64>,
    /// Customers present, by centre and class.
    pub queue: Vec<Vec<f64>>,
    /// Busy share of one server, by centre and class; the mean number present for a delay.
    pub utilisation: Vec<Vec<f64>>,
    /// The probability that a customer is present at a centre; unknown for delays and for
    /// approximations of centres with several servers.
    pub busy: Vec<Option<f64>>,
}

impl Solution {
    /// Returns the centre that limits the network, with the highest utilisation of one server, or
    /// `None` if there are only delays.
    #[must_use]
    pub fn bottleneck(&self, network: &crate::Network) -> Option<usize> {
        let used = |centre: usize| self.utilisation[centre].iter().sum::<f64>();
        (0..network.centres.len())
            .filter(|&centre| network.centres[centre].top_rate().is_finite())
            .max_by(|&a, &b| used(a).total_cmp(&used(b)))
    }
}

/// The reasons for which a network has no solution.
#[derive(Clone, Debug, PartialEq)]
pub enum SolveError {
    /// The load of the open classes alone exceeds the capacity of a centre.
    Saturated {
        /// The centre.
        centre: String,
        /// The requested service, relative to the capacity.
        utilisation: f64,
    },
    /// A closed class without waiting and without demand would have an infinite throughput.
    NoDemand {
        /// The class.
        class: String,
    },
    /// The population lattice exceeds the memory limit; an approximation is possible.
    TooLarge {
        /// The count of numbers to store.
        numbers: u128,
        /// The limit for stored numbers.
        limit: u128,
    },
    /// The method does not support a part of the network.
    NotCovered(String),
    /// The network contradicts itself.
    Invalid(String),
}

impl fmt::Display for SolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Saturated { centre, utilisation } => write!(
                f,
                "open classes ask centre \"{centre}\" for {utilisation:.3} times what it can give"
            ),
            Self::NoDemand { class } => {
                write!(f, "class \"{class}\" neither thinks nor asks for service")
            }
            Self::TooLarge { numbers, limit } => write!(
                f,
                "an exact answer needs {numbers} numbers in memory, the limit is {limit}; \
                 use --method linearizer"
            ),
            Self::NotCovered(what) | Self::Invalid(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for SolveError {}
