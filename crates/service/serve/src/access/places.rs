//! The map from addresses to rules, with binary search.

use core::net::IpAddr;

use super::Rule;
use super::network::number;

/// The address ranges of rules, in ascending order for each family.
#[derive(Default)]
pub(super) struct Places {
    four: Vec<Stretch>,
    six: Vec<Stretch>,
}

/// An address range that begins at `first` and ends before the next range, with the rule that
/// applies there.
struct Stretch {
    first: u128,
    rule: Option<usize>,
}

impl Places {
    pub(super) fn new(rules: &[Rule]) -> Self {
        Self { four: stretches(rules, true), six: stretches(rules, false) }
    }

    /// Returns true if a rule applies to any address.
    pub(super) fn have(&self, rule: usize) -> bool {
        self.four.iter().chain(&self.six).any(|stretch| stretch.rule == Some(rule))
    }

    /// Returns the rule that applies to an address.
    pub(super) fn find(&self, address: IpAddr) -> Option<usize> {
        let address = address.to_canonical();
        let stretches = if address.is_ipv4() { &self.four } else { &self.six };
        let number = number(address);
        let after = stretches.partition_point(|stretch| stretch.first <= number);
        stretches.get(after.checked_sub(1)?)?.rule
    }
}

fn stretches(rules: &[Rule], four: bool) -> Vec<Stretch> {
    let mut spans = Vec::new();
    for (rule, one) in rules.iter().enumerate() {
        let networks = one.clients.iter().flat_map(|clients| &clients.networks);
        let ours = networks.filter(|network| network.is_ipv4() == four);
        spans.extend(ours.map(|network| (network.span(), rule)));
    }
    let mut firsts: Vec<u128> = spans
        .iter()
        .flat_map(|((first, last), _)| [Some(*first), last.checked_add(1)])
        .flatten()
        .collect();
    firsts.sort_unstable();
    firsts.dedup();
    let mut stretches: Vec<Stretch> = Vec::new();
    for first in firsts {
        let has = |((from, to), _): &&((u128, u128), usize)| (*from..=*to).contains(&first);
        let rule = spans.iter().filter(has).map(|(_, rule)| *rule).min();
        // Adjacent address ranges with the same rule are merged into one range.
        if stretches.last().is_none_or(|before| before.rule != rule) {
            stretches.push(Stretch { first, rule });
        }
    }
    stretches
}
