//! Reads all files of a directory concurrently, twice, and prints a checksum of each file. The
//! second time the data comes from the cache.
//!
//! ```text
//! cargo run -p leasehold-shell --example sums -- 127.0.0.1 2049 /srv/data pictures
//! ```

#![allow(clippy::print_stdout, reason = "the example prints its result")]

use std::error::Error;
use std::time::Instant;

use futures_util::future::join_all;
use leasehold_base::units::FileTime;
use leasehold_client::{Client, Credential, FileType, Options, User};
use leasehold_shell::client::{Runtime, Target, block_on, mount};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, export, folder] = &words[..] else {
        return Err("usage: sums HOST PORT EXPORT DIRECTORY".into());
    };
    let calling = leasehold_session::Options::stream();
    let target =
        Target { port: Some(port.parse()?), ..Target::new(host, export.as_bytes(), calling) };
    let who = Credential::system("example", 0, 0, &[]);

    let runtime = Runtime::start()?;
    block_on(async {
        let mounted = mount(&runtime, &target, &who).await?;
        // The client mounts a directory at or above the requested directory; `top` is the path from
        // the mounted directory to the requested directory.
        let top = mounted.rest.join(&b'/');
        let options = Options::new(FileTime::default, u64::from(std::process::id()));
        let client = Client::new(mounted.nfs, mounted.root, mounted.bounds, &who, options).await?;
        let user = client.user(who);
        let folder = [&top, folder.as_bytes()].join(&b'/');
        for _ in 0..2 {
            let start = Instant::now();
            // The program reads all files at once; the client limits the number of calls in
            // progress.
            let listed = user.list(&folder, false).await?;
            let paths = listed.iter().map(|listed| [&folder, &b"/"[..], &listed.name].concat());
            let sums = paths.map(async |path| (sum(&user, &path).await, path));
            for (sum, path) in join_all(sums).await {
                if let Some(sum) = sum? {
                    println!("{sum:016x} {}", String::from_utf8_lossy(&path));
                }
            }
            println!("{:?}", start.elapsed());
        }
        Ok(())
    })
}

/// Returns the checksum of a regular file (FNV-1a).
async fn sum(user: &User, path: &[u8]) -> Result<Option<u64>, leasehold_client::Error> {
    if user.attributes(path).await?.file_type != FileType::Regular {
        return Ok(None);
    }
    let bytes = user.read(path).await?;
    let start = 0xcbf2_9ce4_8422_2325_u64;
    let sum = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    Ok(Some(bytes.iter().fold(start, sum)))
}
