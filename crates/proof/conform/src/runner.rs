//! Runs cases and reports their results.

use std::any::Any;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::process::CommandExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::bench::{Bench, Survival};
use crate::case::{Company, Listed, Needs, Stop, Verdict, Weight};
use crate::known::{Failing, How, Known};
use crate::options::Options;
use crate::report::{self, Reporter};
use crate::select;
use crate::server::{Problem, Restart, Server};
use crate::talk::Procedure;

/// The number of calls and replies that the report shows of a failed case.
const LINES_SHOWN_MAX: usize = 60;

/// The result of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Passed,
    Failed,
    Skipped,
}

/// A case that has run.
pub(crate) struct Finished {
    pub(crate) listed: Listed,
    pub(crate) ended: Ended,
    /// The reason of a failure or a skip.
    pub(crate) detail: String,
    /// Advice, which does not fail the case.
    pub(crate) advice: String,
    pub(crate) took: Duration,
    /// Calls and replies of a case that failed.
    pub(crate) talk: String,
    pub(crate) timings: BTreeMap<Procedure, Vec<Duration>>,
    /// The known failure, if the case is on the list.
    pub(crate) known: Option<Failing>,
}

impl Finished {
    /// Returns true if the run fails because of it: it failed and is not on the list, or the
    /// reverse.
    pub(crate) fn surprises(&self) -> bool {
        match (self.ended, &self.known) {
            (Ended::Failed, known) => known.is_none(),
            (Ended::Passed, Some(known)) => known.how == How::Always,
            (Ended::Passed, None) | (Ended::Skipped, _) => false,
        }
    }
}

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of cases that passed.
    pub passed: usize,
    /// The cases that failed and are not on the list of known failures.
    pub failed: Vec<String>,
    /// The number of cases that failed as listed.
    pub known: usize,
    /// The cases that passed although they are listed as failing.
    pub surprising: Vec<String>,
    /// The skipped cases, and the reasons.
    pub skipped: Vec<(String, String)>,
    /// The objects that could not be removed, and the reason.
    pub left: Option<String>,
}

impl Summary {
    /// Returns true if the run succeeded.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.failed.is_empty() && self.surprising.is_empty()
    }

    pub(crate) fn of(finished: &[Finished]) -> Self {
        let mut summary = Self::default();
        for one in finished {
            let name = one.listed.to_string();
            match one.ended {
                Ended::Passed if one.surprises() => summary.surprising.push(name),
                Ended::Passed => summary.passed += 1,
                Ended::Failed if one.surprises() => summary.failed.push(name),
                Ended::Failed => summary.known += 1,
                Ended::Skipped => summary.skipped.push((name, one.detail.clone())),
            }
        }
        summary
    }
}

/// Runs the tester with its options, and returns the documented exit code.
///
/// Once `stop` is set no more cases begin, and the run removes the objects that it has created.
#[must_use]
pub fn run(options: &Options, stop: &AtomicBool) -> ExitCode {
    if let Err(Problem(why)) = select::chosen(options) {
        complain(&why);
        return ExitCode::from(2);
    }
    let restart = options
        .restart_command
        .clone()
        .map(|command| -> Restart { Box::new(move || by_command(&command)) });
    let result = conform(options, restart, stop, &mut io::stdout().lock());
    let problem = match &result {
        Ok(summary) => summary.left.clone(),
        Err(Problem(why)) => Some(why.clone()),
    };
    if let Some(why) = problem {
        complain(&why);
    }
    match result {
        Ok(summary) if !summary.is_good() => ExitCode::from(1),
        Ok(Summary { left: None, .. }) if stop.load(Ordering::Relaxed) => ExitCode::from(130),
        Ok(Summary { left: None, .. }) => ExitCode::SUCCESS,
        Ok(_) | Err(_) => ExitCode::from(3),
    }
}

fn complain(why: &str) {
    // If stderr is closed no program reads the line.
    let _ = writeln!(io::stderr(), "leasehold: {why}");
}

/// Runs the command that restarts the server.
fn by_command(command: &str) -> Result<(), String> {
    // A terminal's interrupt of the tester must not reach the processes of the command.
    let mut shell = Command::new("sh");
    let status = shell.args(["-c", command]).process_group(0).status();
    let status = status.map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("{command} ended with {status}")) }
}

/// Tests a server as the options request, and writes the report to `out`.
///
/// # Errors
/// Returns an error if the server cannot be tested at all, or if the report cannot be written.
pub fn conform(
    options: &Options,
    restart: Option<Restart>,
    stop: &AtomicBool,
    out: &mut dyn Write,
) -> Result<Summary, Problem> {
    let chosen = select::chosen(options)?;
    let unwritten = |error: io::Error| Problem(format!("the report cannot be written: {error}"));
    let Some(target) = options.target.as_ref().filter(|_| !options.list) else {
        report::list(&chosen, options.json, out).map_err(unwritten)?;
        return Ok(Summary::default());
    };
    let known = match &options.known {
        Some(path) => Known::read(&read(path)?)?,
        None => Known::default(),
    };
    let server = Server::find(target, options, restart)?;
    let mut reporter = Reporter::new(out, options.json, chosen.len(), io::stderr().is_terminal());
    let mut finished = Vec::new();
    let (alone, shared): (Vec<Listed>, Vec<Listed>) =
        chosen.into_iter().partition(|one| one.group.company == Company::Alone);
    let mut written = Ok(());
    for (cases, jobs) in [(shared, options.jobs.max(1)), (alone, 1)] {
        written = written.and_then(|()| {
            run_cases(&server, options, &known, &cases, jobs.into(), stop, |one| {
                let written = reporter.case(&one);
                finished.push(one);
                written
            })
        });
    }
    let left = server.remove_place();
    written.map_err(unwritten)?;
    finished.sort_by_key(|one| {
        select::all().position(|case| case.to_string() == one.listed.to_string())
    });
    let name = &server.place.name;
    let left = left.err().map(|Problem(why)| format!("the directory {name} is left behind: {why}"));
    let summary = Summary { left, ..Summary::of(&finished) };
    reporter.end(&finished, &server, options.timings).map_err(unwritten)?;
    if let Some(path) = &options.junit {
        fs::write(path, report::junit(&finished)).map_err(unwritten)?;
    }
    Ok(summary)
}

fn read(path: &Path) -> Result<String, Problem> {
    fs::read_to_string(path)
        .map_err(|error| Problem(format!("{} cannot be read: {error}", path.display())))
}

/// Runs cases, several at a time, and passes on each result.
fn run_cases(
    server: &Server,
    options: &Options,
    known: &Known,
    cases: &[Listed],
    jobs: usize,
    stop: &AtomicBool,
    mut report: impl FnMut(Finished) -> io::Result<()>,
) -> io::Result<()> {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let stopped = || stop.load(Ordering::Relaxed) || server.ended.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(cases.len()) {
            let (sender, next, stopped) = (sender.clone(), &next, &stopped);
            scope.spawn(move || {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // If the receiver is gone, the report could not be written.
                    if stopped() || sender.send(run_case(server, options, known, *case)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        receiver.iter().try_for_each(&mut report)
    })
}

fn run_case(server: &Server, options: &Options, known: &Known, listed: Listed) -> Finished {
    let start = Instant::now();
    let known = known.get(&listed.to_string()).cloned();
    let mut bench = Bench::new(server, listed);
    let verdict = match missing(server, listed, known.as_ref()) {
        Some(why) => Err(Stop::skip(why)),
        None => catch_unwind(AssertUnwindSafe(|| (listed.case.run)(&mut bench))).unwrap_or_else(
            |panic| Err(Stop::fail(format!("the tester failed: {}", said(&panic)))),
        ),
    };
    let mut verdict = weighed(&mut bench, listed, options.strict, verdict);
    let mut talk = bench.talk.text(LINES_SHOWN_MAX);
    look_after(&mut bench, &mut verdict);
    // The remains of a case that did not pass are removed with the directory of the run.
    if let (Err(Stop::Fail(why) | Stop::Skip(why)), Ok(())) = (bench.sweep(), &verdict) {
        let why = format!("the objects of the case cannot be removed: {why}");
        if server.is_gone() {
            talk = bench.talk.text(LINES_SHOWN_MAX);
            verdict = Err(Stop::fail(why));
            look_after(&mut bench, &mut verdict);
        } else {
            // Other cases test if names can be removed.
            bench.advise(false, why);
        }
    }
    let (ended, mut detail) = match verdict {
        Ok(()) => (Ended::Passed, String::new()),
        Err(Stop::Fail(why)) => (Ended::Failed, why),
        Err(Stop::Skip(why)) => (Ended::Skipped, why),
    };
    if ended != Ended::Failed {
        talk.clear();
    } else if let Some(directory) = &options.capture
        && let Err(error) = capture(directory, listed, &bench)
    {
        detail = format!("{detail}; no capture file: {error}");
    }
    Finished {
        listed,
        ended,
        detail,
        advice: bench.advice(),
        took: start.elapsed(),
        talk,
        timings: bench.talk.timings(),
        known,
    }
}

/// Checks if the server has survived a failed case, and reports it otherwise.
fn look_after(bench: &mut Bench<'_>, verdict: &mut Verdict) {
    let Err(Stop::Fail(why)) = verdict else {
        return;
    };
    why.push_str(match bench.survival() {
        Survival::Serves => "",
        Survival::Returned => "; the server had ended, and serves again",
        Survival::Ended => "; the server has ended",
    });
}

/// Returns the final verdict: a violation of advice only counts with `strict`.
fn weighed(bench: &mut Bench<'_>, listed: Listed, strict: bool, verdict: Verdict) -> Verdict {
    match (verdict, listed.case.weight) {
        (Err(Stop::Fail(why)), Weight::Advice) if !strict => {
            bench.advise(false, why);
            Ok(())
        }
        (Ok(()), _) if strict && !bench.advice().is_empty() => Err(Stop::fail(bench.advice())),
        (verdict, _) => verdict,
    }
}

/// Returns the reason for which a case cannot run.
fn missing(server: &Server, listed: Listed, known: Option<&Failing>) -> Option<String> {
    if let Some(fatal) = known.filter(|known| known.how == How::Fatally) {
        return Some(format!("the case is known to end the server: {}", fatal.reason));
    }
    match listed.group.needs {
        Needs::Version2 if server.root2.is_none() => Some("version 2 is not served".to_owned()),
        Needs::Version3 if server.root3.is_none() => Some("version 3 is not served".to_owned()),
        Needs::Nothing | Needs::Version2 | Needs::Version3 => None,
    }
}

/// Returns the text of a panic.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn capture(directory: &Path, listed: Listed, bench: &Bench<'_>) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let name = format!("{}.{}.pcap", listed.group.name, listed.case.name);
    fs::write(directory.join(name), bench.talk.capture())
}
