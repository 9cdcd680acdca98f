//! Figures: measured, printed as JSON lines, and on request stored in `docs/figures` with machine
//! and commit.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::check::Tally;
use crate::program;
use crate::repository::Repository;
use crate::setup::{CLIENTS, COUNTER, GUEST, PEERS, Tool, WEB, ensure};
use crate::test::system;

/// The area to measure, and the use of the results.
#[derive(Args)]
pub(crate) struct Options {
    /// The area to measure.
    area: Area,
    /// Write the figures to docs/figures.
    #[arg(long)]
    keep: bool,
    /// Read the lines of the figures from a file, if parts were measured separately.
    #[arg(long, value_name = "FILE", requires = "keep", conflicts_with = "options")]
    from: Option<PathBuf>,
    /// Only draw the pictures of docs/figures from the pages there.
    #[arg(long, conflicts_with_all = ["keep", "from", "options"])]
    draw: bool,
    /// Options of the measurement, such as --pairs 9.
    #[arg(last = true)]
    options: Vec<String>,
}

/// The areas with figures.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Area {
    /// The client's mount against sshfs, the kernel's client and the local disk.
    Client,
    /// The number of the server's instructions for each call, in an optimized build.
    Instructions,
    /// The server against nfs-ganesha, under the kernel's client.
    Kernel,
    /// The client's mount with leases against the mount without, the local disk and memory.
    Leases,
    /// Several metaservers of one file system, in namespaces with narrow links.
    Metaservers,
    /// The laboratory's core: solvers, simulator, WebAssembly.
    Model,
    /// The measurements of the paper on version 3, by our server over disks of the same speed.
    Seed,
    /// The server against nfs-ganesha.
    Speed,
    /// Stripes against a plain directory.
    Stripes,
}

impl Area {
    /// Returns its name.
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Returns the program that measures, the packages to build for it, and the required tools.
    const fn program(self) -> (&'static str, &'static [&'static str], &'static [Tool]) {
        match self {
            Self::Client => ("leasehold-bench", &["leasehold", "leasehold-bench"], CLIENTS),
            Self::Instructions => ("leasehold-bench", &["leasehold", "leasehold-bench"], COUNTER),
            Self::Kernel => ("leasehold-bench", &["leasehold", "leasehold-bench"], PEERS),
            Self::Leases => ("leasehold-bench", &["leasehold", "leasehold-bench"], CLIENTS),
            Self::Model => ("leasehold-lab-figures", &["leasehold-lab-figures"], WEB),
            Self::Seed => ("leasehold-bench", &["leasehold-bench"], &[]),
            Self::Metaservers => ("leasehold-bench", &["leasehold", "leasehold-bench"], GUEST),
            Self::Stripes => ("leasehold-bench", &["leasehold", "leasehold-bench"], &[]),
            Self::Speed => ("leasehold-bench", &["leasehold", "leasehold-bench"], PEERS),
        }
    }

    /// Returns true if its page has pictures.
    const fn has_pictures(self) -> bool {
        matches!(self, Self::Metaservers | Self::Stripes)
    }

    /// Returns the explanation of the figures.
    const fn how(self) -> &'static str {
        match self {
            Self::Client => CLIENT,
            Self::Instructions => {
                "Instructions as counted by valgrind, from the receipt of calls by the server \
                 until the replies are sent, with 16 calls in flight on one connection; they do \
                 not include the kernel's instructions. The cost of accounting is part of the \
                 other figures too. `cargo xtask test instructions` compares the counts of the \
                 build for tests with `bench/instructions.json`."
            }
            Self::Kernel => {
                "The Linux kernel's client in a guest mounts both servers with one connection or \
                 two each and does the same work on them in turn: it writes and syncs 64 MiB, \
                 reads them back, creates, reads and removes 200 small files, runs a `git clone` \
                 of 138 headers, and compiles seven small programs. Times are the worse end of the \
                 90% interval of the ratio of ours to the other, and the guest itself takes most \
                 of the time; `.cpu` is the server's processor time of all rounds together. In the \
                 tier `memory` our server gives the same guarantee for names as the other; in the \
                 tier `disk` it syncs names before it replies."
            }
            Self::Leases => LEASES,
            Self::Model => {
                "Speeds are processor times of one thread, the best of several runs. A service is \
                 one completed visit of a customer at one centre. The approximation is the slower \
                 of Bard-Schweitzer and Linearizer."
            }
            Self::Metaservers => METASERVERS,
            Self::Seed => {
                "Our server runs in one process with the load; its values are next to the values \
                 of \"NFS Version 3: Design and Implementation\" (1994). A sync takes 22 ms and \
                 the time of its data: 2.3 MB/s on one disk, 19.2 on four. The simulated disks run \
                 ten times as fast, and the rates are by the clock of the disks. The write-ahead \
                 log is in memory. In find(1) one call is in flight at a time, and directory pages \
                 have 8 KiB; the paper's values include a network and a disk. In table 1 our \
                 client makes the calls of the Connectathon suite's basic tests, and caches \
                 replies; tests 3, 5b and 9 do not use the disk. Figure 4 shows our calls for \
                 these tests next to the paper's calls for the whole suite."
            }
            Self::Stripes => {
                "Stripes and a plain directory of the same disk are measured in turn in one run, \
                 with 16 calls in flight on one connection; a figure is the worse end of the 90% \
                 interval of their ratio. A metaserver has two iods on this machine, with one copy \
                 of each stripe; `.cluster` is the processor time of all three programs. The file \
                 for reads is in memory."
            }
            Self::Speed => {
                "Our server and the other are measured in turn in one run; a figure is the worse \
                 end of the 90% interval of their ratio. Medians apply to this run only. The load \
                 has one connection with 16 calls in flight, on ext4 with a journal in an image on \
                 a loop device, unless a figure states otherwise. `latency` has one GETATTR in \
                 flight; `.echo` compares with a TCP echo that makes the same system call, each \
                 side on a processor of its own. `scale` measures READDIRPLUS, the operation with \
                 the highest cost at the server and the lowest at the client, because both share \
                 two processors. In `fairness` 1,000 connections make GETATTRs; `cargo xtask soak` \
                 checks that memory stays constant meanwhile. All figures include attributes \
                 before and after the operation, which cost CREATE and REMOVE two additional \
                 system calls (docs/design/0010). docs/design/0002 describes the division of work \
                 between loops and threads, and 0020 the order of syncs."
            }
        }
    }

    /// Returns the text after the figures.
    const fn notes(&self) -> &'static str {
        match self {
            Self::Stripes => STRIPES,
            Self::Metaservers => PICTURES,
            Self::Client
            | Self::Instructions
            | Self::Kernel
            | Self::Leases
            | Self::Model
            | Self::Seed
            | Self::Speed => "",
        }
    }
}

/// The text after the figures of stripes.
const STRIPES: &str = "
A READ through a metaserver costs more than a local READ by its receipt: one more copy, from the \
     iod's connection instead of from the page cache, and additional calls and replies. The cost \
     of two copies of each stripe is not measured.

`read.links` and `write.links` are the worst points, relative to their targets; \
     [links.md](links.md) explains the points, and has the values of a paper. The paper's curves \
     are lost: its points are made from its text, the points for writing from the links' limit \
     alone.

![Reading by entry points with narrow links](stripes-reads.svg)

![Writing by entry points with narrow links](stripes-writes.svg)

`killed-iods.lost-bytes` is the count of `kernel::killed_iods_lose_nothing`: three iods are killed \
     twelve times at random under the kernel's client, and every byte is compared. \
     `kernel::with_two_copies_dead_iods_cause_no_errors` and \
     `kernel::iods_come_and_go_under_the_load` do the same with two copies, while iods are down \
     for long, added, drained and replaced.
";

/// The explanation of the figures of clients.
const CLIENT: &str = "The mount and the other client are measured in turn in one run; a figure is \
     the worse end of the 90% interval of their ratio. A proxy adds the round trip: 1 ms, unless a \
     figure states otherwise; none for streams. sshfs uses ssh's own file server without ssh's \
     encryption, and rclone uses its own WebDAV server. These servers sync nothing, and rclone \
     replies to a close before it sends data; so in these comparisons our server keeps data in \
     memory and our mount has leases (`cache=lease`), unless a figure states otherwise. The \
     kernel's client runs in a guest, an ordinary process with slow memory and processor, and is \
     compared with our mount in close-to-open mode. Each is related to its own local disk: by the \
     time that it adds to the disk's time, or by the share of the disk's speed. The test creates, \
     reads and removes 500 small files, one after the other, and once 10,000. `git status` \
     examines 100 new files that were just added, a build compiles 6 files with gcc; the value \
     1000 means that the added time was too small to measure, because gcc takes far longer in that \
     guest. The processor time is the time of the mount's process. A small file that is created, \
     read and removed takes these calls: with leases CREATE and REMOVE; close-to-open LOOKUP, \
     CREATE, WRITE, ACCESS and REMOVE; the kernel's client CREATE, WRITE, GETATTR, ACCESS and \
     REMOVE. During its lookup of a name the kernel's client knows that the program will create \
     the file, and FUSE does not pass this on. Under leases the kernel requests each name from our \
     mount, so a storm of stat is slower than with the kernel's own cache of names; none of these \
     requests goes to the server.";

/// The explanation of the figures of metaservers.
const METASERVERS: &str = "Each host is a network namespace with a link of 100 Mbit/s, and each \
     server has one thread, all on this machine: a low idle share of its processors (`idle`) means \
     that the machine limited the result. The tests of names have 2 to 16 metaservers and one iod. \
     The last metaserver creates a hundred empty files, and a client at another one looks them up, \
     one after the other; `miss.ms` is the cost of one more metaserver if they are queried in \
     sequence, as in figure 3 of Avila et al. (2004), with 66 ms. `creates` is the files per \
     second at 1, 2 and 4 metaservers, lazy and strict, with four clients at each that create \
     files in directories of their own. On a machine with fewer cores than processes it does not \
     predict a larger machine, but `creates.cpu` does: the processor time for a file, of all \
     metaservers and of each for the files created there. `build` is a program of 25 files that \
     one client for each metaserver builds together with the others, each through its own mount of \
     another metaserver; the first client links and runs it. Then each object file is compared \
     through each mount with a local build (`build.unlike`). `lazy.staleness` is the largest \
     staleness in 10 s: the difference between a time that a client receives and a later one that \
     another metaserver has acknowledged to another client. Figures 4 and 5 have 7 metaservers and \
     12 iods, under 1 to 21 clients that read one file (`fig4`) or write one each (`fig5`), 144 \
     MiB, twelve rows of stripes, so that all iods have equal work and the limit of the links can \
     be reached exactly: through lazy metaservers (`relay`), and with direct access to the iods by \
     clients with leases of strict metaservers (`direct`); such a client is a program with our \
     library, without a mount. The first figure of each is the worst point relative to its target: \
     95% of the links' limit, and 90% beyond 12 clients if they share the iods' links. Clients are \
     assigned to metaservers in turn and have equal work, so that with 8 clients all wait for the \
     two that share a metaserver's link: through relays no higher rate is possible, while `steps` \
     shows that the direct path has no such step, and `relayed` shows the data that went through \
     metaservers nevertheless. `gigabit` has links of 1 Gbit/s at metaservers; `slow` has 20 \
     Mbit/s at all hosts and three rows, which the machine can simulate. All connections of a host \
     share one queue before its link, in pieces of one size (`bench/hosts.sh`). Earlier versions \
     of this table may be from other machines: the commits that changed the programs compare two \
     versions in turn on one machine.";

/// The text after the figures of metaservers.
const PICTURES: &str = "
The paper's curves are lost: its points are made from its text, the points of figure 5 from the \
     links' limit alone (its mean efficiency was about half of that). The paper's iods replied to \
     readers directly, so figure 4 compares with the direct path. With 1 Gbit/s at metaservers, \
     the links have the same limit through relays as with direct access.

![Cost of a miss](metaservers-misses.svg)

![Reading one file](metaservers-reads.svg)

![Writing a file each](metaservers-writes.svg)
";

/// The explanation of the figures of leases.
const LEASES: &str = "Two variants are measured in turn in one run; a figure is the worse end of \
     the 90% interval of their ratio. The server stores files on the disk; the link has no delay \
     unless a figure states one. `mab` is a workload like the Modified Andrew Benchmark, run once \
     before on the same mount: it creates and copies five directories with 70 files, 200 KB, stats \
     and searches them, and compiles and archives 20 of them; its programs are on the mount, and \
     the compiler's temporary files are in /tmp. Calls are counted at the server until the mount \
     has ended, so they include the flush of delayed data. The paper has 1718 calls with leases \
     and 2894 without. `nqnfs` repeats all measurements of the paper, with our seconds next to the \
     paper's: workload and machines differ, so only the growth is comparable; each run has a mount \
     of its own. In table 4 the links are long for the compilation alone, whose programs are on \
     the disk, and the number of concurrent runs grows with the length of the link. `visible` is \
     the time from the start of a write on one mount to the end of a read on another that had the \
     file cached. Worlds and mutants are counted by the simulator, the bytes of a lease by the \
     server's accounting.";

const LIMIT: Duration = Duration::from_hours(2);

/// Compares the server with nfs-ganesha for a short time, for use during development: too few pairs
/// for a quotable figure.
pub(crate) fn bench(repository: &Repository, only: &str) -> Tally {
    let options = ["--pairs", "2", "--seconds", "0.3", "--only", only];
    let options = options.map(str::to_owned).to_vec();
    run(repository, &Options { area: Area::Speed, keep: false, from: None, draw: false, options })
}

/// Measures the figures of an area, or draws them.
pub(crate) fn run(repository: &Repository, options: &Options) -> Tally {
    let done = if options.draw {
        draw(repository, options.area)
    } else {
        lines(repository, options).and_then(|lines| {
            if options.keep { keep(repository, options.area, &lines) } else { Ok(()) }
        })
    };
    if let Err(error) = &done {
        println!("no figures: {error}");
    }
    Tally::of(done.is_ok())
}

/// Returns the lines of an area's figures, from a file or from a new measurement.
fn lines(repository: &Repository, options: &Options) -> Result<String, String> {
    match &options.from {
        Some(path) => {
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
        }
        None => measure(repository, options),
    }
}

/// Builds the programs of an area, and returns the program that measures and draws.
fn build(repository: &Repository, area: Area) -> Result<String, String> {
    let (name, packages, _) = area.program();
    let mut words = vec!["cargo", "build", "--release", "--quiet"];
    words.extend(packages.iter().flat_map(|package| ["-p", package]));
    if !program::run(repository.root(), &words, LIMIT).succeeded {
        return Err("the build failed".to_owned());
    }
    Ok(repository.target().join("release").join(name).display().to_string())
}

/// Measures the figures of an area, and returns their lines.
fn measure(repository: &Repository, options: &Options) -> Result<String, String> {
    let (_, _, tools) = options.area.program();
    // Without WebAssembly the measurement of the laboratory reports this, and all other figures.
    if !ensure(tools) && !matches!(options.area, Area::Model) {
        return Err("a tool is missing".to_owned());
    }
    let program = build(repository, options.area)?;
    let area = options.area.name();
    let mut words = vec![program.as_str(), area.as_str()];
    words.extend(options.options.iter().map(String::as_str));
    let mut outcome = program::run(repository.root(), &words, LIMIT);
    if !outcome.succeeded {
        return Err("the measurement failed".to_owned());
    }
    let is_whole = !options.options.iter().any(|word| word.starts_with("--only"));
    if matches!(options.area, Area::Stripes) && is_whole {
        let line = killed_iods(repository);
        println!("{line}");
        outcome.output += &format!("{line}\n");
    }
    Ok(outcome.output)
}

/// Writes figures to their page, with their pictures.
fn keep(repository: &Repository, area: Area, lines: &str) -> Result<(), String> {
    let name = area.name();
    let folder = repository.root().join("docs/figures");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let path = folder.join(format!("{name}.md"));
    let text = document(repository, area, &name, lines)?;
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    if area.has_pictures() { draw(repository, area) } else { Ok(()) }
}

/// Draws the pictures of an area's page.
fn draw(repository: &Repository, area: Area) -> Result<(), String> {
    let name = area.name();
    if !area.has_pictures() {
        return Err(format!("{name} has no pictures"));
    }
    let program = build(repository, area)?;
    program::output(repository.root(), &[&program, "pictures", &name, "docs/figures"])?;
    Ok(())
}

/// Returns the figure of a test's count: it passes if no byte is lost.
fn killed_iods(repository: &Repository) -> Value {
    let tests = ["--test=kernel", "--", "--exact", "killed_iods_lose_nothing"];
    let Tally { passed, failed } = system(repository, 15, &[GUEST], &tests);
    let holds = passed > 0 && failed == 0;
    let ours = if holds { Value::from(0) } else { Value::Null };
    json!({ "figure": "killed-iods.lost-bytes", "ours": ours, "target": "0", "unit": "bytes",
            "tier": "disk", "holds": holds })
}

/// Returns the figures as a document.
fn document(
    repository: &Repository,
    area: Area,
    name: &str,
    lines: &str,
) -> Result<String, String> {
    let output = |words: &[&str]| program::output(repository.root(), words);
    let commit = output(&["git", "describe", "--always", "--dirty"])?;
    let kernel = output(&["uname", "-sr"])?;
    let processor = processor()?;
    let figures: Vec<Value> = lines
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;
    let compares = figures.iter().any(|figure| !figure["medians"].is_null());
    let medians = if compares { " median of ours | of the other | in |" } else { "" };
    let rules = if compares { " --- | --- | --- |" } else { "" };
    let mut text = format!(
        "# Figures: {name}\n\n\
         Measured by `cargo xtask figures {name}` at commit {}, {}, {processor}. {}\n\n\
         | figure | ours | target | holds | tier | unit |{medians}\n\
         | --- | --- | --- | --- | --- | --- |{rules}\n",
        commit.trim(),
        kernel.trim(),
        area.how(),
    );
    for figure in &figures {
        let word = |name: &str| figure[name].as_str().unwrap_or("").to_owned();
        let holds = match (&figure["target"], &figure["holds"]) {
            (Value::String(target), _) if target == "printed" => "-",
            (_, Value::Bool(true)) => "yes",
            _ => "**no**",
        };
        let ours = readable(figure["ours"].as_f64().unwrap_or(f64::NAN));
        let row = [word("figure"), ours, word("target"), holds.into(), word("tier"), word("unit")];
        write!(text, "| {} |", row.join(" | ")).map_err(|error| error.to_string())?;
        if compares {
            let median = |of: &str| {
                figure["medians"][of].as_f64().map_or("-".to_owned(), |it| format!("{it:.4}"))
            };
            let unit = figure["medians"]["unit"].as_str().unwrap_or("");
            write!(text, " {} | {} | {unit} |", median("ours"), median("other"))
                .map_err(|error| error.to_string())?;
        }
        text.push('\n');
    }
    text.push_str(area.notes());
    Ok(text)
}

/// Formats a number with significant digits, independent of its size.
fn readable(number: f64) -> String {
    if number == 0.0 || (1e-3..1e6).contains(&number.abs()) {
        format!("{number:.3}")
    } else {
        format!("{number:.3e}")
    }
}

/// Returns the processor model of the machine, and the number of processors.
pub(crate) fn processor() -> Result<String, String> {
    let text = fs::read_to_string("/proc/cpuinfo").map_err(|error| error.to_string())?;
    let named = |line: &&str| line.starts_with("model name");
    let model = text.lines().find(named).and_then(|line| line.split_once(": "));
    let count = text.lines().filter(named).count();
    Ok(format!("{count} x {}", model.map_or("unknown processor", |(_, model)| model)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_pictures_where_it_has_any() {
        for area in Area::value_variants() {
            assert_eq!(area.notes().contains(".svg)"), area.has_pictures(), "{area:?}");
        }
    }
}
