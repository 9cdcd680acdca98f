//! The result in one sentence.

use crate::slo::{Slo, time};
use leasehold_lab_network::model::{Class, ClassKind};

/// One resource, and the load that the system carries with one more of it.
#[derive(Clone, Debug)]
pub struct Upgrade {
    /// Its name.
    pub centre: String,
    /// Its utilisation.
    pub utilisation: f64,
    /// The largest load with one more of it.
    pub clients: u32,
}

/// The inputs of the sentence.
#[derive(Clone, Debug)]
pub struct Verdict<'a> {
    /// The class whose customers are counted.
    pub class: &'a Class,
    /// The service level.
    pub slo: Slo,
    /// The largest load that the search considers.
    pub most: u32,
    /// The largest load that keeps the service level.
    pub clients: u32,
    /// The bounded time under that load.
    pub reached: f64,
    /// The bounded time with one more customer.
    pub beyond: f64,
    /// The resources, the busiest first.
    pub upgrades: &'a [Upgrade],
}

/// Returns the singular and the plural name of a class' customers.
#[must_use]
pub const fn unit(class: &Class) -> (&'static str, &'static str) {
    match class.kind {
        ClassKind::Closed { .. } => ("client", "clients"),
        ClassKind::Open { .. } => ("request a second", "requests a second"),
    }
}

impl Verdict<'_> {
    /// Returns a sentence with the number of clients that the system carries, its bottleneck, and
    /// the gain of one more of each centre.
    #[must_use]
    pub fn sentence(&self) -> String {
        let (one, several) = unit(self.class);
        let counted = |count: u32| format!("{count} {}", if count == 1 { one } else { several });
        let (name, bound) = (self.slo.name(), time(self.slo.bound));
        let (reached, beyond) = (time(self.reached), time(self.beyond));
        let clients = self.clients;
        let keep = if clients == 1 { "keeps" } else { "keep" };
        let head = if clients == 0 {
            format!("Not even one {one} keeps {name} below {bound}: it takes {beyond}")
        } else if clients >= self.most {
            format!("{} and more {keep} {name} below {bound}", counted(clients))
        } else {
            let (counted, next) = (counted(clients), clients + 1);
            format!("{counted} {keep} {name} below {bound} ({reached}; {next} give {beyond})")
        };
        let Some((next, others)) = self.upgrades.split_first() else { return format!("{head}.") };
        if self.upgrades.iter().all(|upgrade| upgrade.clients == 0) {
            return format!("{head}, and one more of any centre does not help.");
        }
        let mut text = format!(
            "{head}; \"{}\" is next, {:.0} % busy: one more of it carries {}",
            next.centre,
            next.utilisation * 100.0,
            next.clients
        );
        for other in others {
            text += &format!(", one more of \"{}\" {}", other.centre, other.clients);
        }
        text + "."
    }
}

/// Returns the largest load that holds, where `known` holds: doubles the step, then bisects.
/// `holds` is called with loads up to `most`, and may fail.
///
/// # Errors
/// The error of `holds`.
pub fn most<E>(
    known: u32,
    most: u32,
    holds: &mut dyn FnMut(u32) -> Result<bool, E>,
) -> Result<u32, E> {
    let (mut good, mut step) = (known, 1);
    let mut bad = loop {
        let next = good + step;
        if next > most || !holds(next)? {
            break next.min(most + 1);
        }
        good = next;
        step *= 2;
    };
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if holds(middle)? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_load_is_found_in_few_steps() {
        for limit in [0, 1, 2, 3, 7, 100, 999, 1000] {
            let mut asked = 0;
            let found = most(0, 1000, &mut |count| {
                asked += 1;
                Ok::<bool, ()>(count <= limit)
            });
            assert_eq!(found, Ok(limit));
            assert!(asked <= 20, "{asked}");
        }
        assert_eq!(most(0, 5, &mut |_| Ok::<bool, ()>(true)), Ok(5));
        assert_eq!(most(3, 9, &mut |_| Err("no")), Err("no"));
    }
}
