//! Names at several metaservers: the cost of a name that another metaserver made, the rate of
//! creation, and the staleness of attributes. The commands of `metaservers.sh`.

use std::error::Error;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use leasehold_session::nfs::messages::{Handle, SetAttributes, SetTime, Time, create};
use leasehold_session::{Credential, Options as Calling};
use leasehold_shell::client::{Mounted, Runtime, Target, block_on, mount};

/// The first argument that selects these commands.
pub(crate) const WORD: &str = "names";

/// The number of files to create and look up.
const FILES: u32 = 100;

/// The duration of file creation.
pub(crate) const SPAN: Duration = Duration::from_secs(3);

/// The number of concurrent creations of each client at a metaserver.
const AT_ONCE: usize = 4;

/// The duration of the staleness test: a few windows.
const LOOK: Duration = Duration::from_secs(10);

/// Runs the command of the script, and prints its result.
pub(crate) fn run(words: &[String]) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::start()?;
    let (what, addresses) = words.split_first().ok_or("the command is missing")?;
    let servers: Vec<Mounted> = addresses
        .iter()
        .map(|address| mounted(&runtime, address.parse()?))
        .collect::<Result<_, _>>()?;
    match (what.as_str(), &*servers) {
        ("miss", [maker, seeker]) => println!("{:.3}", miss(maker, seeker)?),
        ("creates", servers) => {
            let made: Vec<String> = creates(servers)?.iter().map(u32::to_string).collect();
            println!("{}", made.join(" "));
        }
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

/// Returns the mean time to find a name that another metaserver has made, in milliseconds.
fn miss(maker: &Mounted, seeker: &Mounted) -> Result<f64, Box<dyn Error>> {
    for number in 0..FILES {
        block_on(make(maker, &format!("miss{number}")))?;
    }
    // The root is cached from here on; a window is longer than the whole measurement.
    block_on(seeker.nfs.getattr(&who(), &seeker.root))?.done().map_err(|it| format!("{it:?}"))?;
    let began = Instant::now();
    for number in 0..FILES {
        let name = format!("miss{number}");
        let found = block_on(seeker.nfs.lookup(&who(), &seeker.root, name.as_bytes()))?;
        found.done().map_err(|status| format!("{name}: {status:?}"))?;
    }
    Ok(began.elapsed().as_secs_f64() * 1e3 / f64::from(FILES))
}

/// Returns the largest staleness in seconds: the age of an attribute relative to a change
/// acknowledged to another client.
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
                // A call with a retry-later status returned no attributes.
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
    // The first acknowledged change that was not visible; its value is an index only if it is a
    // small number.
    let first_missing = |value: u64| match usize::try_from(value) {
        Ok(value) if value < answered.len() => answered.get(value + 1),
        _ => answered.first(),
    };
    let old = seen.iter().filter_map(|(sent, value)| {
        sent.checked_duration_since(*first_missing(*value)?).map(|old| old.as_secs_f64())
    });
    Ok(old.fold(0.0, f64::max))
}

/// Returns the number of files created concurrently at each server by clients with their own
/// directories.
fn creates(servers: &[Mounted]) -> Result<Vec<u32>, Box<dyn Error>> {
    let made: Result<Vec<u32>, String> = thread::scope(|scope| {
        let at = servers.iter().enumerate().flat_map(|it| (0..AT_ONCE).map(move |one| (it, one)));
        let threads: Vec<_> = at
            .map(|((number, server), one)| scope.spawn(move || fill(server, number, one)))
            .collect();
        let joined = threads.into_iter().map(|it| it.join().map_err(|_| "a panic".to_owned()));
        joined.map(|made| made?).collect()
    });
    Ok(made?.chunks(AT_ONCE).map(|of_one| of_one.iter().sum()).collect())
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
