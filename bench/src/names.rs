//! Names at several metaservers: what one costs that another made, how many are made in a second,
//! and how old what is seen can be. The words of `metaservers.sh`, which this runs as well; `links.sh`
//! measures data, by way of metaservers and at the iods themselves.

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use leasehold_session::nfs::messages::{Handle, SetAttributes, SetTime, Time, create};
use leasehold_session::{Credential, Options as Calling};
use leasehold_shell::client::{Mounted, Runtime, Target, block_on, mount};

use crate::figure::Figure;
use crate::servers::ours;
use crate::stripes::LINK_MB_S;

/// The first word for who makes and looks names up.
pub(crate) const WORD: &str = "names";

/// The files that are made and looked for.
const FILES: u32 = 100;

/// How long files are made for.
const SPAN: Duration = Duration::from_secs(3);

/// The files that each client has under way at a metaserver.
const AT_ONCE: usize = 4;

/// The most milliseconds that a name may cost for each metaserver that is asked, and in all.
const MISS_MS: f64 = 1.0;
const CONSTANT_MS: f64 = 2.0;

/// Milliseconds that the paper needed for each metaserver that was asked.
const PAPER_MS: f64 = 66.0;

/// The lazy window of the metaservers, which is what they have unless told otherwise.
const WINDOW_S: f64 = 3.0;

/// How long changes are looked at: a few windows.
const LOOK: Duration = Duration::from_secs(10);

/// The share of what links allow that is to be reached.
const SHARE: f64 = 0.95;

/// The metaservers of figures 4 and 5, the clients that are measured, and the MiB of each.
const ENTRIES: u32 = 7;
const CLIENTS: [&str; 4] = ["1", "7", "14", "21"];
const CLIENT_MIB: &str = "32";

/// The iods that clients go to themselves, and those clients; beyond that many iods less is to be
/// reached.
const IODS: u32 = 12;
const DIRECT_CLIENTS: [&str; 8] = ["1", "4", "7", "8", "12", "14", "15", "21"];
const SHARE_BEYOND: f64 = 0.9;

/// Measures in namespaces, and prints the figures.
pub(crate) fn measure() -> Result<(), Box<dyn Error>> {
    let mut names = script("metaservers.sh")?;
    print(&output(names.arg(std::env::current_exe()?))?)?;
    let mut direct = script("links.sh")?;
    let direct =
        direct.arg(CLIENT_MIB).args(DIRECT_CLIENTS).env("DIRECT", std::env::current_exe()?);
    print_direct(&output(direct)?)?;
    let mut links = script("links.sh")?;
    let data = output(links.arg(CLIENT_MIB).args(CLIENTS).env("ENTRIES", ENTRIES.to_string()))?;
    print_data(&data)
}

/// A script that works in namespaces, with our program.
fn script(name: &str) -> Result<Command, Box<dyn Error>> {
    let mut command = Command::new("bash");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).arg(ours()?);
    Ok(command)
}

fn output(command: &mut Command) -> Result<String, Box<dyn Error>> {
    let done = command.output()?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        return Err(format!("{command:?}: {}: {said}", done.status).into());
    }
    Ok(String::from_utf8(done.stdout)?)
}

/// What `links.sh` measured of one kind of entry.
struct Point<'a> {
    /// Reading or writing.
    what: &'a str,
    clients: u32,
    /// MB/s of all clients.
    rate: f64,
}

fn points<'a>(text: &'a str, at: &str) -> Result<Vec<Point<'a>>, Box<dyn Error>> {
    let mut points = Vec::new();
    for line in text.lines() {
        let [what, name, clients, rate, _idle] = *line.split(' ').collect::<Vec<_>>() else {
            return Err(format!("links.sh wrote {line:?}").into());
        };
        if name == at {
            points.push(Point { what, clients: clients.parse()?, rate: rate.parse()? });
        }
    }
    if points.is_empty() {
        return Err(format!("links.sh measured nothing of {at}").into());
    }
    Ok(points)
}

/// What clients read and write at the iods themselves: the worst share of what the links allow, in
/// parts of what is asked for, and each point.
fn print_direct(text: &str) -> Result<(), Box<dyn Error>> {
    let points = points(text, "direct")?;
    for (figure, of) in [("fig4.direct", "read"), ("fig5.direct", "write")] {
        let mut worst = f64::INFINITY;
        for Point { clients, rate, .. } in points.iter().filter(|point| point.what == of) {
            let allowed = f64::from(*clients.min(&IODS)) * LINK_MB_S;
            let asked = if *clients > IODS { SHARE_BEYOND } else { SHARE };
            worst = worst.min(rate / allowed / asked);
            let unit = "MB/s of all clients; that the links allow";
            Figure::beside(format!("{figure}.{clients}"), *rate, Some(allowed), unit).print();
        }
        Figure::share(figure.to_owned(), worst * SHARE, SHARE).print();
    }
    Ok(())
}

/// What the links of the metaservers carry: the worst share of what they allow, and each point.
fn print_data(text: &str) -> Result<(), Box<dyn Error>> {
    let mut worst = f64::INFINITY;
    for Point { what, clients, rate } in points(text, &ENTRIES.to_string())? {
        let allowed = f64::from(clients.min(ENTRIES)) * LINK_MB_S;
        worst = worst.min(rate / allowed);
        let unit = "MB/s of all clients; that the links allow";
        Figure::beside(format!("fig5.relay.{what}.{clients}"), rate, Some(allowed), unit).print();
    }
    Figure::share("fig5.relay".to_owned(), worst, SHARE).print();
    Ok(())
}

fn print(text: &str) -> Result<(), Box<dyn Error>> {
    let mut misses = Vec::new();
    let mut creates = Vec::new();
    let mut builds = Vec::new();
    let mut stale = None;
    for line in text.lines() {
        match *line.split(' ').collect::<Vec<_>>() {
            ["miss", order, count, ms] => {
                misses.push((order, count.parse::<u32>()?, ms.parse::<f64>()?));
            }
            ["creates", mode, count, rate, cpu] => creates.push(Creates {
                is_strict: mode == "strict",
                count: count.parse()?,
                rate: rate.parse()?,
                cpu_s: cpu.parse()?,
            }),
            ["build", mode, count, seconds] => {
                builds.push((mode, count.parse::<u32>()?, seconds.parse::<f64>()?));
            }
            ["staleness", seconds] => stale = Some(seconds.parse::<f64>()?),
            _ => return Err(format!("metaservers.sh wrote {line:?}").into()),
        }
    }
    let of = |order: &'static str| misses.iter().filter(move |miss| miss.0 == order);
    // From the fewest to the most: what one more that is asked costs.
    let each = match (of("sequential").next(), of("sequential").next_back()) {
        (Some(few), Some(many)) if many.1 > few.1 => (many.2 - few.2) / f64::from(many.1 - few.1),
        _ => return Err("one more metaserver was not measured".into()),
    };
    let units = ("ms for each metaserver that is asked", "ms; of the paper");
    Figure::count("miss.ms".to_owned(), (each, PAPER_MS), MISS_MS, units).print();
    let most = of("constant")
        .map(|miss| (miss.2, miss.1))
        .fold((0.0, 0), |one, other| if other.0 > one.0 { other } else { one });
    let paper = PAPER_MS * f64::from(most.1.saturating_sub(1));
    let units = ("ms, however many there are", "ms; of the paper with as many");
    Figure::count("miss.constant.ms".to_owned(), (most.0, paper), CONSTANT_MS, units).print();
    for &(order, count, ms) in &misses {
        let paper = PAPER_MS * f64::from(count - 1);
        Figure::beside(format!("miss.{order}.{count}"), ms, Some(paper), "ms; of the paper")
            .print();
    }
    print_creates(&creates);
    let alone = builds.iter().find(|build| build.1 == 1).map(|build| build.2);
    for &(mode, count, seconds) in &builds {
        let mode = if mode == "strict" { "strict." } else { "" };
        let unit = "s; of one client at one metaserver";
        Figure::beside(format!("build.{mode}{count}"), seconds, alone, unit).print();
    }
    let stale = stale.ok_or("staleness was not measured")?;
    let units = ("s old at most", "s; of the window");
    Figure::count("lazy.staleness".to_owned(), (stale, WINDOW_S), WINDOW_S, units).print();
    Ok(())
}

/// Files that were made, and what that took.
struct Creates {
    is_strict: bool,
    count: u32,
    /// Files a second at all metaservers together.
    rate: f64,
    /// Processor time of all metaservers.
    cpu_s: f64,
}

fn print_creates(creates: &[Creates]) {
    let one = creates.iter().find(|it| it.count == 1 && !it.is_strict).map(|it| it.rate);
    let mut cpu_of_one = None;
    for Creates { is_strict, count, rate, cpu_s } in creates {
        let mode = if *is_strict { "strict." } else { "" };
        let unit = "a second; of one alone";
        Figure::beside(format!("creates.{mode}{count}"), *rate, one, unit).print();
        let cpu_us = cpu_s * 1e6 / (rate * SPAN.as_secs_f64());
        cpu_of_one.get_or_insert(cpu_us);
        let unit = "us of processor time for a file; at one alone";
        Figure::beside(format!("creates.cpu.{mode}{count}"), cpu_us, cpu_of_one, unit).print();
    }
    let four = creates.iter().find(|it| it.count == 4 && !it.is_strict).map(|it| it.rate);
    if let (Some(one), Some(four)) = (one, four) {
        let unit = "times the creates of one; the most that there could be";
        Figure::beside("creates.scale4".to_owned(), four / one, Some(4.0), unit).print();
    }
}

/// Does what the script asks for, and prints what it came to.
pub(crate) fn run(words: &[String]) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::start()?;
    let (what, addresses) = words.split_first().ok_or("say what to do")?;
    let servers: Vec<Mounted> = addresses
        .iter()
        .map(|address| mounted(&runtime, address.parse()?))
        .collect::<Result<_, _>>()?;
    match (what.as_str(), &*servers) {
        ("miss", [maker, seeker]) => println!("{:.3}", miss(maker, seeker)?),
        ("creates", servers) => println!("{:.1}", creates(servers)?),
        ("staleness", [writer, reader]) => println!("{:.3}", staleness(writer, reader)?),
        _ => {
            return Err(
                "it is miss MAKER SEEKER, creates SERVERS or staleness WRITER READER".into()
            );
        }
    }
    Ok(())
}

fn mounted(runtime: &Runtime, address: SocketAddr) -> Result<Mounted, Box<dyn Error>> {
    let options = Calling::stream().impatient(Duration::from_secs(20));
    let target = Target::new(&address.ip().to_string(), b"/x", options);
    let target = Target { port: Some(address.port()), ..target };
    block_on(mount(runtime, &target, &who())).map_err(|error| error.to_string().into())
}

fn who() -> Credential {
    Credential::system("bench", 1000, 1000, &[])
}

async fn make(server: &Mounted, name: &str) -> Result<Handle, String> {
    let how = create::How::Guarded(SetAttributes { mode: Some(0o644), ..Default::default() });
    let made = server.nfs.create(&who(), &server.root, name.as_bytes(), how).await;
    let made = made.map_err(|error| error.to_string())?.done();
    made.map_err(|status| format!("{name}: {status:?}"))?.object.ok_or("no handle".to_owned())
}

/// The mean time to find a name that another metaserver has made, in milliseconds.
fn miss(maker: &Mounted, seeker: &Mounted) -> Result<f64, Box<dyn Error>> {
    for number in 0..FILES {
        block_on(make(maker, &format!("miss{number}")))?;
    }
    // The root is known from here on; a window is longer than all of it takes.
    block_on(seeker.nfs.getattr(&who(), &seeker.root))?.done().map_err(|it| format!("{it:?}"))?;
    let began = Instant::now();
    for number in 0..FILES {
        let name = format!("miss{number}");
        let found = block_on(seeker.nfs.lookup(&who(), &seeker.root, name.as_bytes()))?;
        found.done().map_err(|status| format!("{name}: {status:?}"))?;
    }
    Ok(began.elapsed().as_secs_f64() * 1e3 / f64::from(FILES))
}

/// By how many seconds what a client was shown was older than what another had been answered.
fn staleness(writer: &Mounted, reader: &Mounted) -> Result<f64, Box<dyn Error>> {
    let file = block_on(make(writer, "changed"))?;
    let end = Instant::now() + LOOK;
    let (answered, seen) = thread::scope(|scope| {
        let reading = scope.spawn(move || -> Result<Vec<(Instant, u64)>, String> {
            let mut seen = Vec::new();
            while Instant::now() < end {
                let sent = Instant::now();
                let got = block_on(reader.nfs.getattr(&who(), &file));
                let got = got.map_err(|error| error.to_string())?.done();
                // One that is to come again was shown nothing.
                if let Ok(got) = got {
                    seen.push((sent, u64::from(got.attributes.modified.seconds)));
                }
            }
            Ok(seen)
        });
        let mut answered: Vec<Instant> = Vec::new();
        while Instant::now() < end {
            let seconds = u32::try_from(answered.len())?;
            let modified = SetTime::To(Time { seconds, nanoseconds: 0 });
            let set = SetAttributes { modified, ..Default::default() };
            let done = block_on(writer.nfs.setattr(&who(), &file, &set, None))?.done();
            done.map_err(|status| format!("{status:?}"))?;
            answered.push(Instant::now());
            thread::sleep(Duration::from_millis(10));
        }
        let seen = reading.join().map_err(|_| "a panic")??;
        Ok::<_, Box<dyn Error>>((answered, seen))
    })?;
    // The first change that was answered and not seen; the time it was made at is no number of one.
    let first_missing = |value: u64| match usize::try_from(value) {
        Ok(value) if value < answered.len() => answered.get(value + 1),
        _ => answered.first(),
    };
    let old = seen.iter().filter_map(|(sent, value)| {
        sent.checked_duration_since(*first_missing(*value)?).map(|old| old.as_secs_f64())
    });
    Ok(old.fold(0.0, f64::max))
}

/// Files made in a second at all servers together, each in a directory that is its own.
fn creates(servers: &[Mounted]) -> Result<f64, Box<dyn Error>> {
    let made: Result<Vec<u32>, String> = thread::scope(|scope| {
        let at = servers.iter().enumerate().flat_map(|it| (0..AT_ONCE).map(move |one| (it, one)));
        let threads: Vec<_> = at
            .map(|((number, server), one)| scope.spawn(move || fill(server, number, one)))
            .collect();
        let joined = threads.into_iter().map(|it| it.join().map_err(|_| "a panic".to_owned()));
        joined.map(|made| made?).collect()
    });
    let made: u32 = made?.iter().sum();
    Ok(f64::from(made) / SPAN.as_secs_f64())
}

fn fill(server: &Mounted, number: usize, one: usize) -> Result<u32, String> {
    let name = format!("directory{number}-{one}");
    let mode = SetAttributes { mode: Some(0o755), ..Default::default() };
    let made = block_on(server.nfs.mkdir(&who(), &server.root, name.as_bytes(), &mode));
    let made = made.map_err(|error| error.to_string())?.done();
    let directory = made.map_err(|status| format!("{name}: {status:?}"))?.object;
    let directory = directory.ok_or("no handle")?;
    let inside = Mounted { root: directory, ..server.clone() };
    let (began, mut made) = (Instant::now(), 0);
    while began.elapsed() < SPAN {
        block_on(make(&inside, &format!("file{made}")))?;
        made += 1;
    }
    Ok(made)
}
