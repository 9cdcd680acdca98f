//! The list of commands in the help, the manual page and the reference, in groups.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::error::ErrorKind;
use clap::{Command, CommandFactory as _};

use crate::options::Options;

/// The groups of commands, each with its commands, in the order of the definition.
pub(crate) const GROUPS: &[(&str, &[&str])] = &[
    ("Servers", &["serve", "status", "top", "leases", "forget", "clients", "reload", "restart"]),
    ("Mounts", &["mount", "umount", "rescue"]),
    ("Files", &["ls", "cat", "stat", "cp"]),
    ("Clusters", &["meta", "iod", "cluster", "layout"]),
    ("Names", &["find", "names"]),
    ("Checks", &["check", "why", "doctor", "conform"]),
    ("Set-up", &["config", "completions"]),
    ("Models", &["lab"]),
];

/// The width of the column with the headings: the longest heading, a colon and a blank.
const MARGIN: usize = 10;

/// The maximum width of the help, as of all other help.
const WIDTH_MAX: usize = 100;

/// Returns the heading of the group that begins with a command.
fn heading(command: &str) -> Option<&'static str> {
    let begins = |(_, commands): &&(&str, &[&str])| commands.first() == Some(&command);
    GROUPS.iter().find(begins).map(|(heading, _)| *heading)
}

/// Returns the error of the same arguments with the grouped list of commands, if the error is the
/// help of the whole program. The list is built here and not in the definition, because most
/// commands do not show it.
pub(crate) fn with_groups(error: clap::Error, arguments: Vec<OsString>) -> clap::Error {
    let shows_help = [ErrorKind::DisplayHelp, ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand]
        .contains(&error.kind());
    if !shows_help {
        return error;
    }
    let grouped = grouped(Options::command(), width());
    grouped.try_get_matches_from(arguments).err().unwrap_or(error)
}

/// Returns the width of the terminal, up to [`WIDTH_MAX`].
fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok();
    let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    columns.map_or(WIDTH_MAX, |columns| columns.min(WIDTH_MAX))
}

/// Returns a definition whose help lists the commands in groups: the heading of each group stands
/// beside its first command, so that the help has no more lines than without groups.
fn grouped(program: Command, width: usize) -> Command {
    let list = program.clone().help_template("{subcommands}");
    let list = list.term_width(width.saturating_sub(MARGIN)).render_help();
    let (plain, styled) = (list.to_string(), list.ansi().to_string());
    let style = *program.get_styles().get_header();
    let mut text = String::new();
    for (plain, styled) in plain.lines().zip(styled.lines()) {
        // The first column contains names, and continued lines have no text there.
        let name = plain.strip_prefix("  ").and_then(|line| line.split(' ').next());
        let heading = name.and_then(heading).map(|heading| format!("{heading}:"));
        let heading = heading.unwrap_or_default();
        let _ = match heading.is_empty() {
            true => writeln!(text, "{:MARGIN$}{styled}", ""),
            false => {
                let rest = MARGIN - heading.len();
                writeln!(text, "{style}{heading}{style:#}{:rest$}{styled}", "")
            }
        };
    }
    program.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n\n{text}\n{style}Options:{style:#}\n\
         {{options}}{{after-help}}"
    ))
}

/// Inserts the headings of the groups into the manual page of the whole program.
pub(crate) fn manual_page(page: &str) -> String {
    let mut text = String::new();
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let name = lines.peek().and_then(|next| next.strip_prefix("leasehold\\-"));
        let name = name.and_then(|name| name.strip_suffix("(1)"));
        if let (".TP", Some(heading)) = (line, name.and_then(heading)) {
            let _ = writeln!(text, ".SS \"{heading}\"");
        }
        let _ = writeln!(text, "{line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_in_one_group_in_the_order_of_the_definition() {
        let program = Options::command();
        let shown = program.get_subcommands().filter(|command| !command.is_hide_set());
        let shown: Vec<_> = shown.map(Command::get_name).collect();
        let grouped: Vec<_> = GROUPS.iter().flat_map(|(_, commands)| *commands).copied().collect();
        assert_eq!(grouped, shown);
    }

    #[test]
    fn help_has_each_heading_beside_its_first_command() {
        for width in [60, 80, 100] {
            let text = grouped(Options::command(), width).render_help().to_string();
            for (heading, commands) in GROUPS {
                let line = format!("{:MARGIN$}  {} ", format!("{heading}:"), commands[0]);
                assert!(text.lines().any(|one| one.starts_with(&line)), "{line}: {text}");
            }
            let list = text.lines().skip_while(|line| !line.starts_with("Servers:"));
            let list = list.take_while(|line| !line.is_empty());
            assert!(list.clone().all(|line| line.len() <= width), "{text}");
            assert!(text.contains("--version") && text.contains("Exit codes:"), "{text}");
        }
        let text = grouped(Options::command(), WIDTH_MAX).render_help().to_string();
        assert!(text.lines().count() <= 40, "{text}");
    }

    #[test]
    fn manual_page_has_a_section_for_each_group() {
        let page =
            ".SH SUBCOMMANDS\n.TP\nleasehold\\-serve(1)\nServe\n.TP\nleasehold\\-top(1)\nShow\n";
        let text = manual_page(page);
        assert!(text.starts_with(".SH SUBCOMMANDS\n.SS \"Servers\"\n.TP\nleasehold\\-serve(1)\n"));
        assert_eq!(text.matches(".SS").count(), 1, "{text}");
    }
}
