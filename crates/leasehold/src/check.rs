//! `leasehold check`.

use std::path::Path;

use leasehold_doctor::below;
use leasehold_doctor::mountinfo::{self, Mount};
use leasehold_serve::access::{Access, Network, Rule, Squash};
use leasehold_shell::process;
use serde_json::json;

use crate::config::options::Durability;
use crate::config::{Difference, Facts, LACKS_V4, Plan, Planned};
use crate::control::{self, Request};
use crate::failure::Failure;
use crate::options::Check;
use crate::output::say;
use crate::running;

/// Prints the effect of a configuration.
pub(crate) fn run(options: &Check) -> Result<(), Failure> {
    let mut plan = Plan::checked(&options.config)?;
    let mut risks: Vec<String> = plan.look_up().iter().map(|host| no_address(host)).collect();
    risks.extend(self::risks(&plan));
    let ask = |state: &Path| control::ask(state, &Request::Facts).ok();
    // The server that runs with the file may use a state directory from its command line, so the
    // search by the file is the second attempt.
    let by_file = || running::state_of(None, Some(&options.config)).ok().and_then(|it| ask(&it));
    let running = ask(&plan.state).or_else(by_file);
    let running = running.and_then(|facts| serde_json::from_value::<Facts>(facts).ok());
    let difference = running.map(|facts| facts.difference(&Facts::of(&plan)));
    let text = match options.json {
        true => json(&plan, &risks, difference.as_ref()),
        false => text(&plan, &risks, difference.as_ref()),
    };
    say(text)
}

fn no_address(host: &str) -> String {
    format!("a rule has no effect now, because its host has no address: {host}")
}

fn json(plan: &Plan, risks: &[String], difference: Option<&Difference>) -> String {
    let mounts = mountinfo::read();
    let export = |export: &Planned| {
        json!({
            "begin_below": below::find(&export.directory, &mounts),
            "name": export.name,
            "directory": export.directory,
            "read_only": export.read_only,
            "cross": export.cross,
            "stripes": export.spread(),
            "rules": export.lines(),
        })
    };
    let exports: Vec<_> = plan.exports.iter().map(export).collect();
    let value = json!({
        "exports": exports,
        "iod_directory": plan.iod_directory,
        "open_to_everybody": plan.open_to_everybody(&plan.listen()),
        "risks": risks,
        "difference": difference,
    });
    format!("{value}\n")
}

fn text(plan: &Plan, risks: &[String], difference: Option<&Difference>) -> String {
    let mut text = String::new();
    let mounts = mountinfo::read();
    for export in &plan.exports {
        text += &format!("{} is {}\n", export.name, export.directory.display());
        if let Some(spread) = export.spread() {
            text += &format!("  data is on {spread}\n");
        }
        for line in export.lines() {
            text += &format!("  {line}\n");
        }
        let all = export.rules.iter().flat_map(|rule| &rule.clients).any(|one| one.text == "*");
        text += if all { "" } else { "  hidden from all other clients\n" };
        text += &begins(export, &mounts);
    }
    let listen: Vec<_> = plan.listen().iter().map(ToString::to_string).collect();
    text += &format!("served on {}, state in {}\n", listen.join(", "), plan.state.display());
    if let Some(directory) = &plan.iod_directory {
        let place = directory.display();
        text +=
            &format!("iods with this file (`leasehold iod --config`) store stripes in {place}\n");
    }
    for line in plan.open_to_everybody(&plan.listen()) {
        text += &format!("{line}\n");
    }
    for risk in risks {
        text += &format!("risk: {risk}\n");
    }
    match difference {
        None => text += "no server runs with this state directory\n",
        Some(difference) => text += &difference.text("would change", "would need a restart"),
    }
    text
}

/// Formats a line for each directory below an export where another file system is mounted.
fn begins(export: &Planned, mounts: &[Mount]) -> String {
    let all = below::find(&export.directory, mounts);
    all.iter().map(|one| format!("  {}\n", one.line(export.cross))).collect()
}

/// Lists settings that may be unintended.
fn risks(plan: &Plan) -> Vec<String> {
    let mut risks = Vec::new();
    if plan.lacks_v4 {
        risks.push(LACKS_V4.to_owned());
    }
    let is_local = plan.listen().iter().all(|address| address.ip().is_loopback());
    if plan.durability() == Durability::Memory {
        risks.push("a crash of this machine loses the latest changes (durability)".to_owned());
    }
    if !process::can_act_as_others() {
        let text = "the server runs as an unprivileged user: it serves only that user and root, \
                    and acts as that user for both; run it as root to act as each caller";
        risks.push(text.to_owned());
    }
    for export in &plan.exports {
        let name = &export.name;
        let access = Access::new(export.rules.clone());
        for (at, rule) in export.rules.iter().enumerate() {
            let has_clients = rule.clients.iter().any(|clients| !clients.networks.is_empty());
            if has_clients && !access.counts(at) {
                let text = "never applies: earlier rules match all of its clients";
                risks.push(format!("{name}: rule {} {text}", at + 1));
            }
            let mine = of_rule(rule, export.read_only, is_local);
            risks.extend(mine.into_iter().map(|text| format!("{name}: rule {} {text}", at + 1)));
        }
        for outer in plan.exports.iter().filter(|other| other.directory != export.directory) {
            if export.directory.starts_with(&outer.directory)
                && (outer.cross || below::on_the_way(&outer.directory, &export.directory).is_none())
            {
                let outer = &outer.name;
                let text = "clients of the outer export reach it too, under the outer rules";
                risks.push(format!("{name} lies within {outer}: {text}"));
            }
        }
    }
    risks
}

fn of_rule(rule: &Rule, export_is_read_only: bool, server_is_local: bool) -> Vec<&'static str> {
    let networks = || rule.clients.iter().flat_map(|clients| &clients.networks);
    let everybody = networks().any(Network::is_everywhere);
    let this_machine = [[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into()];
    let elsewhere = networks().any(|network| {
        network.is_everywhere() || !this_machine.iter().any(|own| network.contains(*own))
    });
    let mut risks = Vec::new();
    if server_is_local {
        if elsewhere && !everybody {
            risks.push("names other machines, but the server listens on this machine only");
        }
        return risks;
    }
    if everybody && !rule.read_only && !export_is_read_only {
        risks.push("lets every client that reaches the server change files");
    }
    if elsewhere && rule.identity.squash == Squash::None {
        risks.push("makes root of its clients root here (squash)");
    }
    if elsewhere && rule.insecure {
        risks
            .push("trusts the user ids that any program on its clients' machines sends (insecure)");
    }
    if rule.identity.users.ranges().iter().any(|range| range.to == 0) {
        risks.push("maps a user to root here (uid-map)");
    }
    risks
}
