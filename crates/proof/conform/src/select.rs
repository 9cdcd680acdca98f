//! Selects the cases that run.

use crate::case::{Group, Listed};
use crate::cases::GROUPS;
use crate::options::Options;
use crate::server::Problem;

/// Every case.
pub(crate) fn all() -> impl Iterator<Item = Listed> {
    GROUPS
        .iter()
        .flat_map(|group: &&Group| group.cases.iter().map(move |case| Listed { group, case }))
}

/// Returns the cases that the options select.
pub(crate) fn chosen(options: &Options) -> Result<Vec<Listed>, Problem> {
    if let Some(wrong) = options.group.iter().find(|name| !GROUPS.iter().any(|g| g.name == **name))
    {
        let known: Vec<&str> = GROUPS.iter().map(|group| group.name).collect();
        return Err(Problem(format!(
            "group {wrong} does not exist; the groups are {}",
            known.join(", ")
        )));
    }
    let by_group = |one: &Listed| {
        options.group.is_empty() || options.group.iter().any(|name| name == one.group.name)
    };
    let by_name = |one: &Listed| {
        let name = one.to_string();
        options.case.is_empty() || options.case.iter().any(|pattern| matches(pattern, &name))
    };
    let chosen: Vec<Listed> = all().filter(by_group).filter(by_name).collect();
    if chosen.is_empty() {
        return Err(Problem("no case matches; --list shows all".to_owned()));
    }
    Ok(chosen)
}

/// Returns true if a name matches a pattern as a whole, if the pattern has a `*`, or contains it.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(last) = parts.next_back() else {
        return name.contains(pattern);
    };
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn patterns_match_parts_or_wholes() {
        assert!(matches("read", "v3_read/at_the_end"));
        assert!(matches("v3_*end", "v3_read/at_the_end"));
        assert!(matches("*at*end*", "v3_read/at_the_end"));
        assert!(!matches("read*", "v3_read/at_the_end"));
        assert!(!matches("v3_read/a*a", "v3_read/a"));
    }

    #[test]
    fn every_case_has_a_name_of_its_own_and_a_clause() {
        let mut names = BTreeSet::new();
        for one in all() {
            assert!(names.insert(one.to_string()), "{one} is there twice");
            let known = ["RFC ", "NFS Version 3, "];
            assert!(known.iter().any(|source| one.case.clause.starts_with(source)), "{one}");
        }
        assert!(names.len() >= 30, "{} cases", names.len());
    }
}
