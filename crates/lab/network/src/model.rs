//! The model file: what a person or a measurement writes, and both solver and simulator read.
//!
//! JSON, version 1. Every number carries its unit and where it is from; nothing is assumed in
//! silence. [`Model::parse`] refuses unknown keys and names line and column; [`Model::check`]
//! names the part of the model that contradicts itself.

mod check;
mod convert;
mod quantity;
mod unique;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use check::Problem;
pub use quantity::{Origin, Quantity, Unit};

/// The version of the format, as it stands in the file.
pub const FORMAT: &str = "leasehold-model-1";

/// A system and its load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Always "leasehold-model-1".
    pub format: String,
    /// One line that says what is modelled.
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
    /// A name of its own.
    pub name: String,
    /// How it serves.
    pub kind: Kind,
    /// Who is served next.
    #[serde(default, skip_serializing_if = "is_default")]
    pub discipline: Discipline,
    /// How many requests fit, those in service included; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Quantity>,
    /// The probability that a request is lost when it arrives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Quantity>,
    /// How it crashes and comes back; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crashes: Option<Crashes>,
}

/// How a centre serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Kind {
    /// Everybody at once: a client's own processor, a propagation time.
    Delay,
    /// One server.
    Queue,
    /// Several equal servers behind one queue.
    Servers {
        /// How many.
        count: Quantity,
    },
    /// One whose speed depends on how many are present.
    LoadDependent {
        /// The rate with 1, 2, 3 ... present relative to one present; the last one holds on.
        rates: Vec<f64>,
        /// Where the rates are from.
        from: Origin,
        /// The source in words.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        r#where: String,
    },
    /// One Ethernet segment: frames collide more the more stations want to send.
    Ethernet {
        /// Bytes in a frame.
        frame: Quantity,
        /// Bits per second.
        bandwidth: Quantity,
        /// The contention slot.
        slot: Quantity,
    },
}

/// Who is served next; the simulator honours it, the solver says when it matters.
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
    /// The class of highest priority first; an interrupted service goes on later where it was.
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
    /// A name of its own.
    pub name: String,
    /// How its customers come.
    pub kind: ClassKind,
    /// The service that one request needs, by centre; no service where absent.
    #[serde(deserialize_with = "unique::map")]
    pub demands: BTreeMap<String, Demand>,
    /// The way of a request; the centres with a demand in the file's order when absent. A centre
    /// named k times serves a k-th of its demand each time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub route: Vec<Step>,
    /// Served before classes of lower priority where the centre's discipline says so.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: u8,
    /// What a client does when no answer comes; it waits for ever when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Timeout>,
    /// What a client does when a centre is full: it tries again after an exponential time with
    /// this mean. The request is lost when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub try_again: Option<Quantity>,
    /// What a cache in front of the centres saves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
}

/// How customers come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ClassKind {
    /// A fixed number that think between two requests.
    Closed {
        /// How many.
        population: Quantity,
        /// Time between an answer and the next request (exponential unless a law says else).
        think: Demand,
    },
    /// From outside, at a mean rate.
    Open {
        /// Requests per second.
        rate: Quantity,
        /// In which rhythm.
        #[serde(default, skip_serializing_if = "is_default")]
        arrivals: Arrivals,
    },
}

/// The rhythm of arrivals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Arrivals {
    /// Independent of each other.
    #[default]
    Poisson,
    /// Equal gaps.
    Regular,
    /// Bursts: a Poisson process whose rate jumps between phases (MMPP), scaled to the mean rate.
    Bursts {
        /// The phases, visited in turn.
        phases: Vec<Phase>,
    },
    /// Recorded: seconds of each arrival from the start, repeated when they run out.
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

/// A time with the law that single values follow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Demand {
    /// The mean.
    pub value: f64,
    /// The unit of the mean.
    #[serde(default)]
    pub unit: Unit,
    /// Where the number is from.
    pub from: Origin,
    /// The source in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub r#where: String,
    /// How single values spread around the mean.
    #[serde(default, skip_serializing_if = "is_default")]
    pub law: Law,
}

/// How single values spread around their mean; `scv` is variance over squared mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Law {
    /// The memoryless law, `scv` 1.
    #[default]
    Exponential,
    /// Always the mean, `scv` 0.
    Constant,
    /// The sum of equal exponential stages, `scv` 1 / stages.
    Erlang {
        /// How many.
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

/// One step of a request's way.
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
    /// Parts at several centres at once; the request goes on when the last is done.
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
    /// What each further wait is multiplied by.
    #[serde(default = "two")]
    pub backoff: f64,
    /// How many retransmissions at most; then the request is given up.
    pub retries: u32,
}

/// A least-recently-used cache of blocks. A hit skips centres.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Whose it is.
    pub scope: Scope,
    /// How many blocks fit.
    pub blocks: Quantity,
    /// How many blocks there are.
    pub objects: Quantity,
    /// Popularity: the k-th block is asked for in proportion to k to the power of minus this.
    #[serde(default)]
    pub zipf: f64,
    /// The share of requests that write: they visit every centre and evict the block from the
    /// other clients' caches.
    #[serde(default)]
    pub writes: f64,
    /// The centres that a hit does not visit.
    pub skips: Vec<String>,
    /// A hit is good only under a lease; it is always good when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
}

/// Whose a cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Each client has one.
    Client,
    /// All clients share one, at the server.
    Server,
}

/// How long a cached block may be used without asking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// From the grant.
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
    /// What is wrong with the text, with line and column; or what [`Model::check`] finds.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let model: Self =
            serde_json::from_str(text).map_err(|error| vec![Problem::of_text(&error)])?;
        let problems = model.check();
        if problems.is_empty() { Ok(model) } else { Err(problems) }
    }

    /// Writes a model file.
    ///
    /// # Panics
    /// Never: every part of a model can be written as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("names and numbers can be written")
    }

    /// The position of a centre by name.
    #[must_use]
    pub fn centre(&self, name: &str) -> Option<usize> {
        self.centres.iter().position(|centre| centre.name == name)
    }
}

#[cfg(test)]
mod tests;
