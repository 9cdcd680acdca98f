//! The quantities that a study estimates.

use crate::interval::Interval;
use leasehold_lab_network::model::Model;
use serde::Serialize;

/// The quantity of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Replies per second.
    Throughput,
    /// Mean seconds from request to reply.
    Response,
    /// Median of the response time.
    ResponseP50,
    /// 95th percentile.
    ResponseP95,
    /// 99th percentile.
    ResponseP99,
    /// The share of requests that end without a reply.
    Unanswered,
    /// Retransmissions for each request.
    Retransmitted,
    /// Replies for which no customer waits any more, for each request.
    Wasted,
    /// The share of requests answered from the cache.
    Hits,
    /// The share of requests that renew a lease.
    Renewals,
    /// Mean number present at a centre.
    Queue,
    /// Service requested at a centre over its capacity; the number busy for a delay.
    Utilisation,
    /// Services done per second at a centre.
    CentreThroughput,
}

/// One number that a study estimates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Metric {
    /// The quantity.
    pub quantity: Quantity,
    /// The class.
    pub class: String,
    /// The centre; absent for a quantity of a class as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub centre: Option<String>,
}

/// One metric with its interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The estimated metric.
    #[serde(flatten)]
    pub metric: Metric,
    /// Mean and half width.
    #[serde(flatten)]
    pub interval: Interval,
}

/// Returns true if a study continues until this metric is narrow and steady.
pub(crate) const fn decides(quantity: Quantity) -> bool {
    matches!(quantity, Quantity::Throughput | Quantity::Response)
}

/// Returns the metrics of a model, in the order of `Study::values`.
pub(crate) fn metrics(model: &Model) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for class in &model.classes {
        let mut quantities = vec![
            Quantity::Throughput,
            Quantity::Response,
            Quantity::ResponseP50,
            Quantity::ResponseP95,
            Quantity::ResponseP99,
            Quantity::Unanswered,
            Quantity::Retransmitted,
            Quantity::Wasted,
        ];
        if class.cache.is_some() {
            quantities.extend([Quantity::Hits, Quantity::Renewals]);
        }
        metrics.extend(quantities.into_iter().map(|quantity| Metric {
            quantity,
            class: class.name.clone(),
            centre: None,
        }));
    }
    for centre in &model.centres {
        for class in &model.classes {
            for quantity in [Quantity::Queue, Quantity::Utilisation, Quantity::CentreThroughput] {
                metrics.push(Metric {
                    quantity,
                    class: class.name.clone(),
                    centre: Some(centre.name.clone()),
                });
            }
        }
    }
    metrics
}
