//! The model file: a user or a measurement writes it, and solver and simulator read it.
//!
//! JSON, version 1. Every number has its unit and its origin; no value is assumed silently.
//! [`Model::parse`] rejects unknown keys and reports line and column; [`Model::check`] reports the
//! part of the model that contradicts itself.

mod check;
mod convert;
mod quantity;
mod unique;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use check::Problem;
pub use quantity::{Origin, Quantity, Unit};

/// The version of the format in the file.
pub const FORMAT: &str = "leasehold-model-1";

/// A system and its load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Always "leasehold-model-1".
    pub format: String,
    /// One line that describes the modelled system.
    pub title: String,
    /// The resources, in the order in which requests visit them.
    pub centres: Vec<Centre>,
    /// The kinds of customer.
    pub classes: Vec<Class>,
}

/// A resource that requests need.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Centre {
    /// A unique name.
    pub name: String,
    /// The kind of its servers.
    pub kind: Kind,
    /// The order of service.
    #[serde(default, skip_serializing_if = "is_default")]
    pub discipline: Discipline,
    /// The largest number of requests, including requests in service; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Quantity>,
    /// The probability that a request is lost when it arrives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Quantity>,
    /// The times of crashes and restarts; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crashes: Option<Crashes>,
}

/// The kind of the servers of a centre.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Kind {
    /// All customers at once: a client's own processor, a propagation time.
    Delay,
    /// One server.
    Queue,
    /// Several equal servers behind one queue.
    Servers {
        /// The number of servers.
        count: Quantity,
    },
    /// One server whose speed depends on the number of present customers.
    LoadDependent {
        /// The rate with 1, 2, 3 ... present relative to one present; the last rate applies to
        /// larger numbers.
        rates: Vec<f64>,
        /// The origin of the rates.
        from: Origin,
        /// The source in words.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        r#where: String,
    },
    /// One Ethernet segment: collisions increase with the number of stations that have a frame to
    /// send.
    Ethernet {
        /// Bytes in a frame.
        frame: Quantity,
        /// Bits per second.
        bandwidth: Quantity,
        /// The contention slot.
        slot: Quantity,
    },
}

/// The order of service; the simulator implements it, the solver reports if it matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// First come, first served.
    #[default]
    Fcfs,
    /// All present share the server.
    ProcessorSharing,
    /// The class of highest priority first, without interrupting a service.
    Priority,
    /// The class of highest priority first; an interrupted service later continues where it
    /// stopped.
    PreemptivePriority,
}

/// Crash and restart of a centre. Requests in it are lost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Crashes {
    /// Mean time from a restart to the next crash (exponential).
    pub up: Quantity,
    /// Time from a crash to the restart (constant).
    pub down: Quantity,
}

/// A kind of customer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// A unique name.
    pub name: String,
    /// The arrivals of its customers.
    pub kind: ClassKind,
    /// The service that one request needs, by centre; zero when absent.
    #[serde(deserialize_with = "unique::map")]
    pub demands: BTreeMap<String, Demand>,
    /// The route of a request; the centres with a demand in the file's order when absent. A centre
    /// named k times serves a k-th of its demand each time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub route: Vec<Step>,
    /// Precedence over classes of lower priority if the centre's discipline uses priorities.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: u8,
    /// The client's reaction to a missing reply; without a timeout it waits without limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Timeout>,
    /// The client's reaction to a full centre: it retries after an exponential time with this mean.
    /// The request is lost when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub try_again: Option<Quantity>,
    /// A cache that saves visits to centres.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
}

/// The arrivals of customers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ClassKind {
    /// A fixed number of customers that think between two requests.
    Closed {
        /// The number of customers.
        population: Quantity,
        /// Time between a reply and the next request (exponential by default).
        think: Demand,
    },
    /// Arrivals from outside, at a mean rate.
    Open {
        /// Requests per second.
        rate: Quantity,
        /// The arrival process.
        #[serde(default, skip_serializing_if = "is_default")]
        arrivals: Arrivals,
    },
}

/// The arrival process of an open class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// Independent arrivals.
    #[default]
    Poisson,
    /// Equal gaps.
    Regular,
    /// Bursts: a Poisson process whose rate jumps between phases (MMPP), scaled to the mean rate.
    Bursts {
        /// The phases, visited in turn.
        phases: Vec<Phase>,
    },
    /// Recorded: seconds of each arrival from the start, repeated after the last one.
    Trace {
        /// Rising times.
        seconds: Vec<f64>,
    },
}

/// A phase of bursty arrivals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// The rate in this phase relative to the other phases.
    pub rate: f64,
    /// Mean time in this phase (exponential).
    pub stay: Quantity,
}

/// A time and the distribution of its single values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Demand {
    /// The mean.
    pub value: f64,
    /// The unit of the mean.
    #[serde(default)]
    pub unit: Unit,
    /// The origin of the number.
    pub from: Origin,
    /// The source in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub r#where: String,
    /// The distribution of single values around the mean.
    #[serde(default, skip_serializing_if = "is_default")]
    pub law: Law,
}

/// The distribution of single values around their mean; `scv` is variance over squared mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Law {
    /// The memoryless distribution, `scv` 1.
    #[default]
    Exponential,
    /// Always the mean, `scv` 0.
    Constant,
    /// The sum of equal exponential stages, `scv` 1 / stages.
    Erlang {
        /// The number of stages.
        stages: u32,
    },
    /// A mix of two exponentials with balanced means, `scv` above 1.
    Hyperexponential {
        /// Variance over squared mean.
        scv: f64,
    },
    /// Equally likely between zero and twice the mean.
    Uniform,
    /// The logarithm is normal.
    Lognormal {
        /// Variance over squared mean.
        scv: f64,
    },
    /// A heavy tail: exceeds x with a probability like x to the power of minus `tail`.
    Pareto {
        /// The exponent, above 1.
        tail: f64,
    },
}

/// One step of a request's route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a step is the name of a centre or { \"fork\": [names] }"
)]
pub enum Step {
    /// One centre.
    Visit(String),
    /// Parts at several centres at once; the request continues when the last part is complete.
    Fork {
        /// The centres.
        fork: Vec<String>,
    },
}

/// Timeout and retransmission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Timeout {
    /// Time until the first retransmission.
    pub after: Quantity,
    /// The factor by which each further timeout grows.
    #[serde(default = "two")]
    pub backoff: f64,
    /// The largest number of retransmissions; then the client abandons the request.
    pub retries: u32,
}

/// A least-recently-used cache of blocks. A hit skips centres.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// The owner of the cache.
    pub scope: Scope,
    /// The capacity in blocks.
    pub blocks: Quantity,
    /// The number of different blocks.
    pub objects: Quantity,
    /// Popularity: the k-th block is requested in proportion to k to the power of minus this value.
    #[serde(default)]
    pub zipf: f64,
    /// The share of requests that write: they visit every centre and evict the block from the
    /// caches of other clients.
    #[serde(default)]
    pub writes: f64,
    /// The centres that a hit does not visit.
    pub skips: Vec<String>,
    /// A hit is valid only under a lease; it is always valid when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
}

/// The owner of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Each client has its own cache.
    Client,
    /// All clients share one cache, at the server.
    Server,
}

/// The time for which a cached block may be used without a renewal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// The term from the grant.
    pub term: Quantity,
    /// The centres that a renewal visits.
    pub renewal: Vec<String>,
}

const fn two() -> f64 {
    2.0
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Model {
    /// Reads a model file.
    ///
    /// # Errors
    /// The errors in the text, with line and column, or the problems that [`Model::check`] finds.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let model: Self =
            serde_json::from_str(text).map_err(|error| vec![Problem::of_text(&error)])?;
        let problems = model.check();
        if problems.is_empty() { Ok(model) } else { Err(problems) }
    }

    /// Writes a model file.
    ///
    /// # Panics
    /// Never: every part of a model has a JSON form.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("names and numbers can be written")
    }

    /// Returns the position of a centre by name.
    #[must_use]
    pub fn centre(&self, name: &str) -> Option<usize> {
        self.centres.iter().position(|centre| centre.name == name)
    }
}

#[cfg(test)]
mod tests;
