//! What a solver answers.

use core::fmt;
use serde::Serialize;

/// Steady-state means of a network; rates per second, times in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Solution {
    /// Requests per second of each class.
    pub throughput: Vec<f64>,
    /// Seconds from request to answer of each class, without think time.
    pub response: Vec<f64>,
    /// Customers present, by centre and class.
    pub queue: Vec<Vec<f64>>,
    /// Busy share of one server, by centre and class; the mean number present for a delay.
    pub utilisation: Vec<Vec<f64>>,
    /// The probability that somebody is present at a centre; unknown for delays and for
    /// approximations of centres with several servers.
    pub busy: Vec<Option<f64>>,
}

impl Solution {
    /// The centre that limits the network: the highest utilisation of one server. `None` when
    /// there are only delays.
    #[must_use]
    pub fn bottleneck(&self, network: &crate::Network) -> Option<usize> {
        let used = |centre: usize| self.utilisation[centre].iter().sum::<f64>();
        (0..network.centres.len())
            .filter(|&centre| network.centres[centre].top_rate().is_finite())
            .max_by(|&a, &b| used(a).total_cmp(&used(b)))
    }
}

/// Why a network has no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum SolveError {
    /// The open classes alone ask for more than a centre can give.
    Saturated {
        /// The centre.
        centre: String,
        /// What is asked for, relative to what it can give.
        utilisation: f64,
    },
    /// A closed class that never waits anywhere would have an infinite throughput.
    NoDemand {
        /// The class.
        class: String,
    },
    /// The population lattice does not fit in memory; an approximation does.
    TooLarge {
        /// Numbers that would have to be kept.
        numbers: u128,
        /// Numbers that may be kept.
        limit: u128,
    },
    /// The method does not cover a part of the network.
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
