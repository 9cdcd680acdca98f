//! The reference of all commands.

use std::fmt::Write as _;

use clap::{Arg, Command};

const HEAD: &str = "\
# Commands

Every command with its options, written by `cargo xtask reference` from the definition that the
program itself goes by: `leasehold COMMAND --help` says the same, and so do the manual pages.
";

/// The page.
pub(super) fn page(program: &Command) -> String {
    let mut text = HEAD.to_owned();
    let mut left: Vec<&Command> = vec![program];
    while let Some(command) = left.pop() {
        section(&mut text, command);
        let below: Vec<_> = command.get_subcommands().filter(|one| !one.is_hide_set()).collect();
        left.extend(below.into_iter().rev().filter(|one| one.get_name() != "help"));
    }
    text
}

fn section(text: &mut String, command: &Command) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let usage = command.clone().render_usage().to_string();
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string);
    let _ = write!(text, "\n## {name}\n\n{}\n\n", about.unwrap_or_default().trim());
    let _ = writeln!(text, "```\n{}\n```", usage.trim_start_matches("Usage: "));
    let shown = |argument: &&Arg| !argument.is_hide_set() && argument.get_id() != "help";
    let mut headings: Vec<Option<&str>> = Vec::new();
    for argument in command.get_arguments().filter(shown) {
        let heading = argument.get_help_heading();
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for heading in headings {
        let _ = writeln!(text, "\n{}:\n", heading.unwrap_or("Arguments and options"));
        let of = |argument: &&Arg| argument.get_help_heading() == heading;
        command.get_arguments().filter(shown).filter(of).for_each(|one| item(text, one));
    }
    if let Some(after) = command.get_after_help() {
        let _ = writeln!(text, "\n```\n{}\n```", after.to_string().trim());
    }
}

/// One argument or option, with what it stands for.
fn item(text: &mut String, argument: &Arg) {
    let names: Vec<String> = argument
        .get_short()
        .map(|short| format!("-{short}"))
        .into_iter()
        .chain(argument.get_long().map(|long| format!("--{long}")))
        .collect();
    let takes = argument.get_action().takes_values();
    let values = argument.get_value_names().unwrap_or_default().join(" ");
    let words = match (names.is_empty(), takes) {
        (true, _) => values,
        (false, true) if !values.is_empty() => format!("{} {values}", names.join(", ")),
        (false, _) => names.join(", "),
    };
    let help = argument.get_long_help().or_else(|| argument.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let mut paragraphs = help.trim().split("\n\n");
    let _ = writeln!(text, "- `{words}`: {}", joined(paragraphs.next().unwrap_or_default()));
    for paragraph in paragraphs {
        let _ = writeln!(text, "\n  {}\n", joined(paragraph));
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes && !defaults.is_empty() {
        let _ = writeln!(text, "  Default: `{}`.", defaults.join(" "));
    }
    let possible: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if takes && !possible.is_empty() {
        let _ = writeln!(text, "  One of {}.", possible.join(", "));
    }
    if let Some(variable) = argument.get_env() {
        let _ = writeln!(text, "  Or by the variable `{}`.", variable.to_string_lossy());
    }
}

/// A paragraph on one line.
fn joined(paragraph: &str) -> String {
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
}
