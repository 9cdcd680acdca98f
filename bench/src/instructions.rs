//! The instructions of our code for each call, counted by valgrind: equal on a busy and a quiet
//! machine, so that a test can compare them with the counts in the tree.
//!
//! The server runs twice for each operation, with a number of calls and with twice as many; the
//! difference belongs to the calls alone. It does not include the kernel. The test does not compare
//! counts that differ between machines: the wait for calls, the C library, file access if the
//! kernel does not permit this user to open files by handle, and the output of another compiler.

mod callgrind;

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_base::units::Time;
use leasehold_base::xdr::Writer;
use leasehold_fs::Verifier;
use leasehold_load::{Load, Operation, Sample, Setting, run};
use leasehold_serve::account::{Account, Timing};
use leasehold_shell::Pool;
use leasehold_store_dir::{self as dir, DirStore};
use serde::{Deserialize, Serialize};

use crate::Options;
use crate::disk::run as run_program;
use crate::figure::Figure;
use crate::servers::{Server, ours};
use crate::speed::IN_FLIGHT;
use callgrind::{Counting, Counts};

/// The argument with which this program only counts calls without any work.
pub(crate) const WORD: &str = "account";

/// The stored counts, for a `cargo build` without incremental compilation.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// The version of the compiler, and its target.
    compiler: String,
    instructions: BTreeMap<String, f64>,
}

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.json");

/// The environment variable that requests new stored counts.
const REWRITE: &str = "INSTRUCTIONS";

/// The tolerance of the comparison: the scheduler determines the number of calls that arrive
/// together.
const TOLERANCE: f64 = 0.04;

/// The function that a connection runs after an event: it receives, replies and sends.
const TURN: &str = "leasehold_shell::connection::Connection::turn";

/// This durability needs no sync, so that each call is complete where it is received, independent
/// of a disk.
const DURABILITY: &str = "memory";

/// The file of the duplicate request cache in the state directory.
const NOTES: &str = "replies";

/// A load above this time has failed.
const LOAD_TIMEOUT: Duration = Duration::from_mins(2);

struct Case {
    name: &'static str,
    operation: Operation,
    /// Enough calls to make the constant part negligible, and no more: calls take fifty times as
    /// long under valgrind.
    calls: u64,
    in_flight: u32,
    /// The divisor of its instructions.
    per: fn(&Sample) -> u64,
}

const CASES: [Case; 7] = [
    case("null", Operation::Null, 8000),
    case("getattr", Operation::Getattr, 4000),
    case("lookup", Operation::Lookup, 4000),
    case("read4k", Operation::Read(4096), 4000),
    case("write4k", Operation::Write { bytes: 4096, stable: true }, 4000),
    case("create-remove", Operation::CreateRemove, 2000),
    Case {
        name: "readdirplus.entry",
        operation: Operation::Readdirplus,
        calls: 400,
        // With more in flight, the amount of reply data that the socket accepts would determine the
        // batches, which is random.
        in_flight: 1,
        per: |sample| sample.entries,
    },
];

const fn case(name: &'static str, operation: Operation, calls: u64) -> Case {
    Case { name, operation, calls, in_flight: IN_FLIGHT, per: |sample| sample.calls }
}

/// The calls that are counted but not made.
const ACCOUNTED: u64 = 100_000;

/// Counts, and fails if a count exceeds the stored one. The counts of an optimized build are only
/// printed: they change with every version of the compiler.
pub(crate) fn measure(options: &Options) -> Result<(), Box<dyn Error>> {
    let (served, state, out) = (tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?);
    let ours = ours()?;
    let by_handle = opens_by_handle(served.path());
    let server = Server::serve(Command::new(&ours), served.path(), DURABILITY, state.path())?;
    let setting = Setting::make(server.nfs, server.mount, &server.export)?;
    server.stop()?;
    let mut counts = Vec::new();
    for case in CASES.iter().filter(|case| options.wants(case.name)) {
        if !by_handle && !matches!(case.operation, Operation::Null) {
            eprintln!("bench: {}: this user cannot open files by handle", case.name);
            continue;
        }
        let counting =
            Counting { program: &ours, out: out.path().join("counts"), within: Some(TURN) };
        let count = |calls| -> Result<(Counts, u64), Box<dyn Error>> {
            // The next run would load the journal of this one.
            match fs::remove_file(state.path().join(NOTES)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                Ok(()) | Err(_) => {}
            }
            let server =
                Server::serve(counting.command(), served.path(), DURABILITY, state.path())?;
            let load = Load::timed(case.operation, case.in_flight, 1, LOAD_TIMEOUT);
            let load = Load { calls_max: calls, ..load };
            let sample = run(&setting.at(server.nfs), &load, server.process())?;
            server.stop()?;
            Ok((counting.counts()?, (case.per)(&sample)))
        };
        counts.push((case.name, difference(count(case.calls)?, count(2 * case.calls)?)));
    }
    if options.wants("accounting") {
        let program = std::env::current_exe()?;
        let counting = Counting { program: &program, out: out.path().join("counts"), within: None };
        let count = |calls: u64| -> Result<(Counts, u64), Box<dyn Error>> {
            run_program(counting.command().arg(WORD).arg(calls.to_string()))?;
            Ok((counting.counts()?, calls))
        };
        counts.push(("accounting", difference(count(ACCOUNTED)?, count(2 * ACCOUNTED)?)));
    }
    judge(&counts)
}

/// Returns true if this machine opens files in the same way as the machine of the stored counts.
fn opens_by_handle(directory: &Path) -> bool {
    let options = dir::Options {
        blocking: Arc::new(Pool::new()),
        verifier: Verifier([0; 8]),
        durability: dir::Durability::Memory,
        descriptors_max: 64,
        handles: dir::HandleSource::Probe,
    };
    DirStore::open(directory, options)
        .is_ok_and(|store| store.opens_by_handle() && store.acts_as_callers())
}

/// Returns the additional instructions of the longer run for each call: for compared counts only
/// the instructions compiled with our code; otherwise all.
fn difference(short: (Counts, u64), long: (Counts, u64)) -> f64 {
    let of = |counts: Counts| if HELD { counts.own } else { counts.all };
    (of(long.0) as f64 - of(short.0) as f64) / (long.1 as f64 - short.1 as f64)
}

/// True if counts are compared with the stored ones.
const HELD: bool = cfg!(debug_assertions);

fn judge(counts: &[(&'static str, f64)]) -> Result<(), Box<dyn Error>> {
    if !HELD {
        for (name, count) in counts {
            Figure::beside((*name).to_owned(), *count, None, "instructions").print();
        }
        return Ok(());
    }
    let mut kept: Kept = serde_json::from_str(&fs::read_to_string(KEPT)?)?;
    let compiler = compiler()?;
    if std::env::var_os(REWRITE).is_some_and(|value| value == "rewrite") {
        let rounded = counts.iter().map(|(name, count)| ((*name).to_owned(), count.round()));
        kept.instructions.extend(rounded);
        kept.compiler.clone_from(&compiler);
        fs::write(KEPT, format!("{}\n", serde_json::to_string_pretty(&kept)?))?;
    }
    if kept.compiler != compiler {
        eprintln!("bench: {compiler} generates other instructions than {}", kept.compiler);
        return Ok(());
    }
    let mut wrong = Vec::new();
    for (name, count) in counts {
        let kept = *kept
            .instructions
            .get(*name)
            .ok_or_else(|| format!("no count is stored for {name}"))?;
        let figure = Figure::kept((*name).to_owned(), (*count, kept), TOLERANCE);
        figure.print();
        let change = (count / kept - 1.0) * 100.0;
        if change < -TOLERANCE * 100.0 {
            eprintln!("bench: {name} takes {change:+.1}%: store this with {REWRITE}=rewrite");
        }
        if !figure.holds {
            wrong.push(format!("{name} takes {count:.0}, {change:+.1}% of the {kept:.0} kept"));
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let wrong = wrong.join("; ");
    Err(format!("{wrong}: correct this, or store it with {REWRITE}=rewrite in the environment")
        .into())
}

/// Returns the compiler that `cargo` uses.
fn compiler() -> Result<String, Box<dyn Error>> {
    let said = Command::new("rustc").arg("-vV").output()?;
    let said = String::from_utf8(said.stdout)?;
    let word = |name: &str| said.lines().find_map(|line| line.strip_prefix(name));
    let (Some(release), Some(host)) = (word("release: "), word("host: ")) else {
        return Err("rustc does not report its version".into());
    };
    Ok(format!("rustc {release} for {host}"))
}

/// Counts calls like a loop of the server, without any other work.
pub(crate) fn only_count(calls: &OsStr) {
    let calls = calls.to_str().and_then(|calls| calls.parse().ok()).unwrap_or(0_u64);
    count_calls(calls, Timing::default);
}

/// Counts calls; `timing` determines for each if its time is measured.
pub(crate) fn count_calls(calls: u64, timing: impl Fn() -> Timing) {
    let mut account = Account::new();
    let client = account.client([127, 0, 0, 1].into(), Time::ZERO);
    let call = getattr();
    let mut writer = Writer::new();
    // Accepted, success; and the NFS status, with zeros in place of attributes.
    for word in [0, 1, 0, 0, 0, 0, 0].into_iter().chain([0; 21]) {
        writer.u32(word);
    }
    let reply = writer.finish();
    for _ in 0..calls {
        let begun = account.begin(&call, client);
        account.end(begun, Some(&reply), begun.timed.then(&timing).as_ref());
    }
}

/// Returns a GETATTR with a common credential, and a handle of the right length.
fn getattr() -> Bytes {
    let mut writer = Writer::new();
    for word in [0, 0, 2, 100_003, 3, 1, 1, 28].into_iter().chain([0; 7]).chain([0, 0, 32]) {
        writer.u32(word);
    }
    for _ in 0..8 {
        writer.u32(0);
    }
    Bytes::copy_from_slice(writer.finish().front())
}
