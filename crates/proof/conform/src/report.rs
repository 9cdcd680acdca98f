//! The reports: text for people, lines of JSON, and a JUnit file.

mod junit;
mod timings;

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::case::{Listed, Weight};
use crate::cases::GROUPS;
use crate::runner::{Ended, Finished, Summary};
use crate::server::Server;

pub(crate) use junit::junit;

/// A case as a line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    case: String,
    clause: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    advice: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    known: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    milliseconds: Option<u128>,
}

fn write_json(out: &mut dyn Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    writeln!(out)
}

/// Lists cases and their clauses.
pub(crate) fn list(cases: &[Listed], json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        return cases.iter().try_for_each(|one| {
            let line = Line {
                case: one.to_string(),
                clause: one.case.clause,
                result: None,
                detail: None,
                advice: "",
                known: None,
                milliseconds: None,
            };
            write_json(out, &line)
        });
    }
    for group in GROUPS {
        let mut cases = cases.iter().filter(|one| one.group.name == group.name).peekable();
        let width = group.cases.iter().map(|case| case.name.len()).max().unwrap_or_default();
        if cases.peek().is_some() {
            writeln!(out, "{}: {}", group.name, group.about)?;
        }
        for one in cases {
            let weight = if one.case.weight == Weight::Advice { " (advice)" } else { "" };
            writeln!(out, "  {:width$}  {}{weight}", one.case.name, one.case.clause)?;
        }
    }
    writeln!(out, "{} cases", cases.len())
}

/// Reports each case at its end, and the whole run at the end.
pub(crate) struct Reporter<'a> {
    out: &'a mut dyn Write,
    json: bool,
    count: usize,
    done: usize,
    failed: usize,
    /// True if the output is a terminal.
    watched: bool,
}

impl<'a> Reporter<'a> {
    pub(crate) fn new(out: &'a mut dyn Write, json: bool, count: usize, watched: bool) -> Self {
        Self { out, json, count, done: 0, failed: 0, watched }
    }

    /// Reports one case.
    pub(crate) fn case(&mut self, one: &Finished) -> io::Result<()> {
        self.done += 1;
        self.failed += usize::from(one.surprises());
        self.clear()?;
        if self.json {
            write_json(self.out, &line(one))?;
        } else if one.ended == Ended::Failed && one.known.is_none() {
            writeln!(self.out, "FAIL {}  ({})", one.listed, one.listed.case.clause)?;
            writeln!(self.out, "  {}", one.detail)?;
            for said in one.talk.lines() {
                writeln!(self.out, "    {said}")?;
            }
        }
        self.progress(&one.listed.to_string())
    }

    fn clear(&mut self) -> io::Result<()> {
        if self.watched { write!(io::stderr(), "\r\x1b[K") } else { Ok(()) }
    }

    fn progress(&mut self, name: &str) -> io::Result<()> {
        if !self.watched {
            return Ok(());
        }
        let (done, count, failed) = (self.done, self.count, self.failed);
        write!(io::stderr(), "{done} of {count} cases, {failed} failed: {name}")?;
        io::stderr().flush()
    }

    /// Reports the whole run.
    pub(crate) fn end(
        &mut self,
        finished: &[Finished],
        server: &Server,
        timings: bool,
    ) -> io::Result<()> {
        self.clear()?;
        if !self.json {
            self.table(finished)?;
            self.remarks(finished)?;
            self.last_line(finished, server)?;
        }
        if timings { timings::write(finished, self.json, self.out) } else { Ok(()) }
    }

    fn table(&mut self, finished: &[Finished]) -> io::Result<()> {
        let width = GROUPS.iter().map(|group| group.name.len()).max().unwrap_or_default();
        writeln!(self.out, "{:width$}  pass  fail  skip", "group")?;
        for group in GROUPS {
            let of_group = |ended| {
                let cases = finished.iter().filter(|one| one.listed.group.name == group.name);
                cases.filter(|one| one.ended == ended).count()
            };
            let counts = [Ended::Passed, Ended::Failed, Ended::Skipped].map(of_group);
            if counts.iter().sum::<usize>() > 0 {
                let [passed, failed, skipped] =
                    counts.map(|n| if n == 0 { "-".to_owned() } else { n.to_string() });
                writeln!(
                    self.out,
                    "{:width$}  {passed:>4}  {failed:>4}  {skipped:>4}",
                    group.name
                )?;
            }
        }
        Ok(())
    }

    /// Prints the skipped cases with the reasons, the known failures, and the advice.
    fn remarks(&mut self, finished: &[Finished]) -> io::Result<()> {
        let mut reasons = BTreeMap::<&str, Vec<Listed>>::new();
        for one in finished.iter().filter(|one| one.ended == Ended::Skipped) {
            reasons.entry(&one.detail).or_default().push(one.listed);
        }
        for (reason, cases) in reasons {
            writeln!(self.out, "skipped, as {reason}:\n  {}", named(&cases).join("\n  "))?;
        }
        for one in finished {
            match (&one.known, one.ended) {
                (Some(known), Ended::Failed) => {
                    writeln!(self.out, "known to fail: {}: {}", one.listed, known.reason)?;
                }
                (Some(_), Ended::Passed) if one.surprises() => {
                    let how = "passes although it is known to fail: remove it from the list";
                    writeln!(self.out, "{} {how}", one.listed)?;
                }
                _ => {}
            }
            if !one.advice.is_empty() {
                writeln!(self.out, "advice: {}: {}", one.listed, one.advice)?;
            }
        }
        Ok(())
    }

    fn last_line(&mut self, finished: &[Finished], server: &Server) -> io::Result<()> {
        let summary = Summary::of(finished);
        let seconds: f64 = finished.iter().map(|one| one.took.as_secs_f64()).sum();
        write!(self.out, "{} cases: {} passed", finished.len(), summary.passed)?;
        for (count, what) in [
            (summary.failed.len(), "failed"),
            (summary.known, "known to fail"),
            (summary.surprising.len(), "no longer failing"),
            (summary.skipped.len(), "skipped"),
            (self.count - finished.len(), "not run"),
        ] {
            if count > 0 {
                write!(self.out, ", {count} {what}")?;
            }
        }
        writeln!(self.out, "; {seconds:.1} s, seed {}", server.seed)
    }
}

/// Returns the names of cases; if all cases of a group are present, the group's name.
fn named(cases: &[Listed]) -> Vec<String> {
    let mut names = Vec::new();
    for group in GROUPS {
        let of_group: Vec<_> = cases.iter().filter(|one| one.group.name == group.name).collect();
        if of_group.len() == group.cases.len() {
            names.push(format!("{}/*", group.name));
        } else {
            names.extend(of_group.iter().map(ToString::to_string));
        }
    }
    names
}

fn line(one: &Finished) -> Line<'_> {
    Line {
        case: one.listed.to_string(),
        clause: one.listed.case.clause,
        result: Some(match one.ended {
            Ended::Passed => "pass",
            Ended::Failed => "fail",
            Ended::Skipped => "skip",
        }),
        detail: Some(&one.detail),
        advice: &one.advice,
        known: one.known.as_ref().map(|known| known.reason.as_str()),
        milliseconds: Some(one.took.as_millis()),
    }
}
