//! Figures: measured anew, printed as JSON lines, and kept in `docs/figures` with machine and
//! commit when that is wanted.

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

/// What is measured, and what becomes of it.
#[derive(Args)]
pub(crate) struct Options {
    /// The area that is measured.
    area: Area,
    /// Write the figures to docs/figures.
    #[arg(long)]
    keep: bool,
    /// Take the lines of such figures from a file, where parts were measured one by one.
    #[arg(long, value_name = "FILE", requires = "keep", conflicts_with = "options")]
    from: Option<PathBuf>,
    /// Only draw the pictures of docs/figures anew, from what the page beside them tells.
    #[arg(long, conflicts_with_all = ["keep", "from", "options"])]
    draw: bool,
    /// Options of the measurement, such as --pairs 9.
    #[arg(last = true)]
    options: Vec<String>,
}

/// The areas that have figures.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Area {
    /// The client's mount against sshfs, the kernel's client and the local disk.
    Client,
    /// How many instructions of the server a call takes, as it is built for use.
    Instructions,
    /// The server against nfs-ganesha, under the kernel's client.
    Kernel,
    /// The client's mount with leases against the mount without, the local disk and memory.
    Leases,
    /// Several metaservers of one file system, in namespaces with narrow links.
    Metaservers,
    /// The laboratory's core: solvers, simulator, WebAssembly.
    Model,
    /// What the paper on version 3 measured, by our server over disks as slow as theirs.
    Seed,
    /// The server against nfs-ganesha.
    Speed,
    /// Stripes against a plain directory.
    Stripes,
}

impl Area {
    /// How it is called.
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// The program that measures, the packages to build for it, and what must be installed.
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

    /// Whether pictures go with its page.
    const fn has_pictures(self) -> bool {
        matches!(self, Self::Metaservers | Self::Stripes)
    }

    /// How to read the figures.
    const fn how(self) -> &'static str {
        match self {
            Self::Client => CLIENT,
            Self::Instructions => {
                "As valgrind counts them from when the server receives calls to when it has sent the \
                 replies, 16 calls in flight on one connection; the kernel's are not among them. \
                 Accounting is in the others too. `cargo xtask test instructions` holds those of \
                 the build for tests against `bench/instructions.json`."
            }
            Self::Kernel => {
                "The Linux kernel's client in a guest, which mounts ours and the other with one \
                 connection or two each and does the same work on them in turn: 64 MiB written \
                 and synced, read back, 200 small files made, read and removed, a `git clone` of \
                 138 headers, seven small programs compiled. Times are the worse end of the 90% \
                 interval of the ratio of ours to the other, and mostly the guest's own; `.cpu` \
                 is the server's processor time, all rounds together. Of the tier `memory` ours \
                 promises for names what the other does; of `disk` they are on it first."
            }
            Self::Leases => LEASES,
            Self::Model => {
                "Speeds are by processor time of one thread, the best of a few runs. A service is \
                 one visit of a customer at one centre, done. The approximation is the slower of \
                 Bard-Schweitzer and Linearizer."
            }
            Self::Metaservers => METASERVERS,
            Self::Seed => {
                "Our server in one process with the load, beside what \"NFS Version 3: Design and \
                 Implementation\" (1994) has. A sync takes 22 ms and the time of its data: 2.3 MB/s \
                 on one disk, 19.2 on four; the disks are played ten times as fast, and the rates \
                 are on their clock. The stable log lies in memory. In find(1) one call is on its \
                 way at a time, and pages have 8 KiB; theirs took a network and a disk. In table 1 a \
                 client of ours makes the calls of the Connectathon suite's basic tests, and keeps \
                 what replies bring; tests 3, 5b and 9 meet no disk. Figure 4 has our calls for \
                 those tests beside theirs for the whole suite."
            }
            Self::Stripes => {
                "Stripes and a plain directory of the same disk in turn in one run, 16 calls in \
                 flight on one connection; a figure is the worse end of the 90% interval of their \
                 ratio. A metaserver has two iods on this machine, and there is one copy of each \
                 stripe; `.cluster` is the processor time of all three. The file that is read is in \
                 memory."
            }
            Self::Speed => {
                "Ours and the other server in turn in one run; a figure is the worse end of the \
                 90% interval of their ratio. Medians hold for this run only. One connection, 16 \
                 calls in flight, on ext4 with a journal in an image on a loop device, unless a \
                 figure says otherwise. `latency` has one GETATTR in flight; `.echo` is beside a \
                 TCP echo that makes its system call, each side on a processor of its own. \
                 `scale` is of READDIRPLUS, which costs the server most and the client least, as \
                 they share two processors. In `fairness` 1,000 connections make GETATTRs; that \
                 memory stays flat meanwhile is for `cargo xtask soak` to say. Attributes from \
                 before and after are in all figures, and in those of CREATE and REMOVE two system \
                 calls for them alone (docs/design/0010); how loops and threads share the work is \
                 in 0002, what a sync waits for in 0020."
            }
        }
    }

    /// What is said behind them.
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

/// What is said behind the figures of stripes.
const STRIPES: &str = "
What a metaserver adds to a READ that it relays is to receive it: one more copy, from the iod's \
     connection, in place of that from the memory of files, and calls and replies of its own. What \
     two copies of each stripe cost is not measured.

`read.links` and `write.links` are the worst points, in parts of what is asked for there; \
     [links.md](links.md) has what the points mean, and the same of a paper. Its curves are lost: its \
     points are made from its text, those of writing from what links allow alone.

![Reading by entry points with narrow links](stripes-reads.svg)

![Writing by entry points with narrow links](stripes-writes.svg)

`killed-iods.lost-bytes` is what `kernel::killed_iods_lose_nothing` counts: three iods, killed twelve \
     times at random under the kernel's client, and every byte compared. So do \
     `kernel::with_two_copies_dead_iods_cause_no_errors` and `kernel::iods_come_and_go_under_the_load`, \
     with two copies, where iods stay away, are added, left and replaced.
";

/// How to read the figures of that area.
const CLIENT: &str = "The mount and the other in turn in one run; a figure is the worse end of the \
     90% interval of their ratio. A proxy makes the round trip: 1 ms, unless a figure says \
     otherwise; none for streams. sshfs speaks without ssh's encryption to ssh's own \
     server of files, rclone to its own of WebDAV. Those servers sync nothing, and rclone \
     answers a close before it sends anything; so our server keeps data in memory beside \
     them, and our mount has leases (`cache=lease`), unless a figure says otherwise. The \
     kernel's client runs in a guest, an ordinary process with slow memory and \
     processor, and ours is close-to-open beside it. Each is set beside its own local \
     disk: by the time that is added to the disk's, or by the share of the disk's speed. \
     500 small files are made, read and removed, one after the other, and once 10,000. \
     `git status` is of 100 new files that were just added, a build is of 6 files with \
     gcc; 1000 stands where no time was added that could be measured, as gcc takes far longer in \
     that guest. The processor time is that of the mount's process. A small file, made, read and \
     removed, takes these calls: with leases CREATE and REMOVE; close-to-open LOOKUP, CREATE, \
     WRITE, ACCESS and REMOVE; the kernel's client CREATE, WRITE, GETATTR, ACCESS and REMOVE. It \
     knows while it looks a name up that the file is to be made, which FUSE does not tell us. \
     Under leases the kernel asks us for each name, so a storm of stat is slower than where it may \
     keep names by itself; none of it goes to the server.";

/// How to read the figures of metaservers.
const METASERVERS: &str = "Each host is a network namespace with a link of 100 Mbit/s, and each server has one thread, all on \
     this machine: where little of its processors was idle (`idle`) the machine is what was measured. \
     Names have 2 to 16 metaservers and one iod. A hundred empty files are made at the last and looked \
     for at another, one after the other; `miss.ms` is what one more metaserver costs where they are \
     asked in sequence, as in figure 3 of Avila et al. (2004), who had 66 ms. `creates` is files a \
     second at 1, 2 and 4, lazy and strict, with four clients at each that make files in directories of \
     their own: on a machine with fewer cores than processes it says little of more machines, but \
     `creates.cpu` does, the processor time for a file, of all metaservers and of each for those made \
     there. `build` is a program of 25 files that as many clients make as there are metaservers, each \
     by a mount of its own of another metaserver, and that the first links and runs; by each mount each \
     object file is then held against a local build's (`build.unlike`). `lazy.staleness` is by how much \
     a time that a client is shown is older than one that another client had been answered at another \
     metaserver, at worst in 10 s. Figures 4 and 5 have 7 metaservers and 12 iods, under 1 to 21 \
     clients that read one file (`fig4`) or write one each (`fig5`), 144 MiB, twelve \
     rows of stripes, so that each iod has as much to do and what links allow can be reached exactly: \
     through lazy metaservers (`relay`), and by clients with leases of strict ones, which go to the \
     iods themselves (`direct`); such a client is a program on our library, without a mount. The first figure of each is the worst \
     point in parts of what is asked for: 95% of what links allow, and 90% beyond 12 clients where the \
     iods' links are shared. Clients come to metaservers in turn and all have the same to do, so that 8 \
     wait for the two that share a metaserver's link: relayed, no more is allowed, while `steps` says \
     that nobody waits so on the direct path, and `relayed` what went by metaservers all the same. \
     `gigabit` has links of 1 Gbit/s at metaservers; `slow` has 20 Mbit/s everywhere and three \
     rows, for which the machine has time. All connections of a host share one queue before its link, \
     in pieces of one size (`bench/hosts.sh`). Earlier versions of this table may be of other machines: \
     what changed between two is told by runs in turn on one, in the commits that changed it.";

/// What is said behind the figures of metaservers.
const PICTURES: &str = "
The paper's curves are lost: its points are made from its text, those of figure 5 from what links \
     allow alone (its mean efficiency was about half of that). Its iods answered readers themselves, so \
     that figure 4 is to be held against the direct path. Where metaservers have 1 Gbit/s, links allow \
     what they allow directly either way.

![Cost of a miss](metaservers-misses.svg)

![Reading one file](metaservers-reads.svg)

![Writing a file each](metaservers-writes.svg)
";

/// How to read the figures of that area.
const LEASES: &str = "Two in turn in one run; a figure is the worse end of the 90% interval of their \
     ratio. The server keeps files on the disk; there is no delay in between unless a figure \
     says so. `mab` is a workload like the Modified Andrew Benchmark, run once before on \
     the same mount: five directories with 70 files, 200 KB, are made and copied, looked \
     at, searched, and 20 of them compiled and archived; its programs lie on the mount, \
     what the compiler keeps meanwhile in /tmp. Calls are counted at the server until \
     the mount is gone, so those that bring back what was delayed are among them. The \
     paper has 1718 with leases and 2894 without. `nqnfs` is all that it measured, our \
     seconds beside its: of another workload on other machines, so only how they grow can \
     be compared; each run has a mount of its own. In table 4 the wires are long for the \
     compilation alone, of which the programs lie on the disk, and the longer they are the \
     more runs wait for them at once. \
     `visible` is from when a write begins at one mount until it is read at another that \
     had the file cached. Worlds and mutants are of the simulator, the bytes of a lease of \
     the server's accounting.";

const LIMIT: Duration = Duration::from_hours(2);

/// A short look at the server beside nfs-ganesha, while one works on it: too few pairs for a
/// figure that one could quote.
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

/// The lines of an area's figures, measured now where no file has them.
fn lines(repository: &Repository, options: &Options) -> Result<String, String> {
    match &options.from {
        Some(path) => {
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
        }
        None => measure(repository, options),
    }
}

/// Builds what an area needs, and says which program measures and draws.
fn build(repository: &Repository, area: Area) -> Result<String, String> {
    let (name, packages, _) = area.program();
    let mut words = vec!["cargo", "build", "--release", "--quiet"];
    words.extend(packages.iter().flat_map(|package| ["-p", package]));
    if !program::run(repository.root(), &words, LIMIT).succeeded {
        return Err("the build failed".to_owned());
    }
    Ok(repository.target().join("release").join(name).display().to_string())
}

/// The lines of an area's figures, measured now.
fn measure(repository: &Repository, options: &Options) -> Result<String, String> {
    let (_, _, tools) = options.area.program();
    // Where WebAssembly is missing the measurement of the laboratory says so, and has all else.
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

/// Writes figures to where they are read, with their pictures.
fn keep(repository: &Repository, area: Area, lines: &str) -> Result<(), String> {
    let name = area.name();
    let folder = repository.root().join("docs/figures");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let path = folder.join(format!("{name}.md"));
    let text = document(repository, area, &name, lines)?;
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    if area.has_pictures() { draw(repository, area) } else { Ok(()) }
}

/// Draws what the page of an area tells.
fn draw(repository: &Repository, area: Area) -> Result<(), String> {
    let name = area.name();
    if !area.has_pictures() {
        return Err(format!("{name} has no pictures"));
    }
    let program = build(repository, area)?;
    program::output(repository.root(), &[&program, "pictures", &name, "docs/figures"])?;
    Ok(())
}

/// The figure that a test counts: it passes where every byte is there.
fn killed_iods(repository: &Repository) -> Value {
    let tests = ["--test=kernel", "--", "--exact", "killed_iods_lose_nothing"];
    let Tally { passed, failed } = system(repository, 15, &[GUEST], &tests);
    let holds = passed > 0 && failed == 0;
    let ours = if holds { Value::from(0) } else { Value::Null };
    json!({ "figure": "killed-iods.lost-bytes", "ours": ours, "target": "0", "unit": "bytes",
            "tier": "disk", "holds": holds })
}

/// The figures as a document.
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

/// A number with digits that tell something, whatever its size.
fn readable(number: f64) -> String {
    if number == 0.0 || (1e-3..1e6).contains(&number.abs()) {
        format!("{number:.3}")
    } else {
        format!("{number:.3e}")
    }
}

/// What the machine is: its processor and how many of them.
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
