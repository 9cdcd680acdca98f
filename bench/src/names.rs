//! Names at several metaservers: what one costs that another made, and how many are made in a
//! second. The words of `metaservers.sh`, which this runs as well.

use std::error::Error;
use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use leasehold_session::nfs::messages::{Handle, SetAttributes, create};
use leasehold_session::{Credential, Options as Calling};
use leasehold_shell::client::{Mounted, Runtime, Target, block_on, mount};

use crate::figure::Figure;
use crate::servers::ours;

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

/// Measures in namespaces, and prints the figures.
pub(crate) fn measure() -> Result<(), Box<dyn Error>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/metaservers.sh");
    let mut command = Command::new("bash");
    let done = command.arg(script).arg(ours()?).arg(std::env::current_exe()?).output()?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        return Err(format!("metaservers.sh: {}: {said}", done.status).into());
    }
    print(&String::from_utf8(done.stdout)?)
}

fn print(text: &str) -> Result<(), Box<dyn Error>> {
    let mut misses = Vec::new();
    let mut creates = Vec::new();
    for line in text.lines() {
        match *line.split(' ').collect::<Vec<_>>() {
            ["miss", order, count, ms] => {
                misses.push((order, count.parse::<u32>()?, ms.parse::<f64>()?));
            }
            ["creates", count, rate] => creates.push((count.parse::<u32>()?, rate.parse()?)),
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
    let one = creates.first().map(|create| create.1);
    for &(count, rate) in &creates {
        Figure::beside(format!("creates.{count}"), rate, one, "a second; of one alone").print();
    }
    Ok(())
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
        _ => return Err("it is miss MAKER SEEKER or creates SERVERS".into()),
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
