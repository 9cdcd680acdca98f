//! Distributions of times in the format of the tool.

use super::super::xml::Writer;
use leasehold_lab_network::model::Law;
use roxmltree::Node;

const STRATEGIES: &str = "jmt.engine.NetStrategies.ServiceStrategies";

/// Writes the service of a class; `None` if the node does not serve the class.
pub(super) fn write(xml: &mut Writer, time: Option<(Law, f64)>) {
    let Some((law, mean)) = time else {
        let path = format!("{STRATEGIES}.DisabledServiceTimeStrategy");
        let name = ("name", "DisabledServiceTimeStrategy");
        xml.empty("subParameter", &[("classPath", path.as_str()), name]);
        return;
    };
    let (class, name, parameters) = of(law, mean);
    let path = format!("{STRATEGIES}.ServiceTimeStrategy");
    xml.open("subParameter", &[("classPath", path.as_str()), ("name", "ServiceTimeStrategy")]);
    let path = format!("jmt.engine.random.{class}");
    xml.empty("subParameter", &[("classPath", path.as_str()), ("name", name)]);
    let path = format!("jmt.engine.random.{class}Par");
    xml.open("subParameter", &[("classPath", path.as_str()), ("name", "distrPar")]);
    for (name, value) in parameters {
        let path = if name == "r" { "java.lang.Long" } else { "java.lang.Double" };
        xml.open("subParameter", &[("classPath", path), ("name", name)]);
        xml.words("value", &[], &value.to_string());
        xml.close();
    }
    xml.close();
    xml.close();
}

/// Returns the tool's class, its display name, and its parameters.
fn of(law: Law, mean: f64) -> (&'static str, &'static str, Vec<(&'static str, f64)>) {
    match law {
        Law::Exponential => ("Exponential", "Exponential", vec![("lambda", 1.0 / mean)]),
        Law::Constant => ("DeterministicDistr", "Deterministic", vec![("t", mean)]),
        Law::Erlang { stages } => {
            let stages = f64::from(stages);
            ("Erlang", "Erlang", vec![("alpha", stages / mean), ("r", stages)])
        }
        Law::Hyperexponential { scv } => {
            let p = 0.5 * (1.0 + ((scv - 1.0) / (scv + 1.0)).sqrt());
            let rates =
                vec![("p", p), ("lambda1", 2.0 * p / mean), ("lambda2", 2.0 * (1.0 - p) / mean)];
            ("HyperExp", "Hyperexponential", rates)
        }
        Law::Uniform => ("Uniform", "Uniform", vec![("min", 0.0), ("max", 2.0 * mean)]),
        Law::Lognormal { scv } => {
            let variance = (1.0 + scv).ln();
            let mu = mean.ln() - 0.5 * variance;
            ("Lognormal", "Lognormal", vec![("mu", mu), ("sigma", variance.sqrt())])
        }
        Law::Pareto { tail } => {
            ("Pareto", "Pareto", vec![("alpha", tail), ("k", mean * (tail - 1.0) / tail)])
        }
    }
}

/// Reads the service of a class; `None` if the node does not serve the class.
pub(super) fn read(strategy: Node<'_, '_>) -> Result<Option<(Law, f64)>, String> {
    let name = strategy.attribute("name").unwrap_or("");
    if name != "ServiceTimeStrategy" {
        return match name {
            "DisabledServiceTimeStrategy" | "ZeroServiceTimeStrategy" => Ok(None),
            other => Err(format!("service \"{other}\" is not covered")),
        };
    }
    let value = |name: &str| super::find(strategy, name).and_then(super::first_number);
    let both = |a: &str, b: &str| Some((value(a)?, value(b)?));
    let first = strategy.children().find(Node::is_element);
    let law = first.and_then(|law| law.attribute("name")).unwrap_or("");
    let read = match law {
        "Exponential" => value("lambda").map(|rate| (Law::Exponential, 1.0 / rate)),
        "Deterministic" => value("t").map(|mean| (Law::Constant, mean)),
        "Erlang" => both("alpha", "r").map(|(rate, stages)| {
            let whole = (1..=1_000).find(|whole| f64::from(*whole) >= stages).unwrap_or(1_000);
            (Law::Erlang { stages: whole }, stages / rate)
        }),
        "Hyperexponential" => value("p").zip(both("lambda1", "lambda2")).map(|(p, (a, b))| {
            let mean = p / a + (1.0 - p) / b;
            let second = 2.0 * (p / (a * a) + (1.0 - p) / (b * b));
            (Law::Hyperexponential { scv: (second / (mean * mean) - 1.0).max(1.0) }, mean)
        }),
        "Uniform" => match both("min", "max") {
            Some((0.0, max)) => Some((Law::Uniform, 0.5 * max)),
            Some(_) => return Err("a uniform law that does not begin at 0 is not covered".into()),
            None => None,
        },
        "Lognormal" => both("mu", "sigma").map(|(mu, sigma)| {
            let variance = sigma * sigma;
            (Law::Lognormal { scv: variance.exp_m1() }, (mu + 0.5 * variance).exp())
        }),
        "Pareto" => both("alpha", "k")
            .map(|(tail, least)| (Law::Pareto { tail }, least * tail / (tail - 1.0))),
        other => return Err(format!("the law \"{other}\" is not covered")),
    };
    read.map(Some).ok_or_else(|| format!("the law \"{law}\" lacks a parameter"))
}
