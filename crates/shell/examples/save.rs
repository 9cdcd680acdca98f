//! Saves standard input as a file, and exits successfully only if the file is on the server's
//! stable storage.
//!
//! ```text
//! tar c . | cargo run -p leasehold-shell --example save -- 127.0.0.1 2049 /srv/data backup.tar
//! ```

#![allow(clippy::print_stdout, reason = "the example prints its result")]

use std::error::Error;
use std::io::Read as _;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use leasehold_base::units::FileTime;
use leasehold_client::{Client, Credential, Mode, Options, Variant};
use leasehold_shell::client::{Runtime, Target, block_on, mount};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, export, path] = &words[..] else {
        return Err("usage: save HOST PORT EXPORT FILE".into());
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
        let options = Options {
            // The program reads nothing and no other client uses the file, so it needs no
            // consistency; this variant permits delayed writes.
            variant: Variant::BufferCache,
            unsaved_bytes_max: 16 << 20,
            calls_of_file_max: 8,
            ..Options::new(time_of_day, u64::from(std::process::id()))
        };
        let client = Client::new(mounted.nfs, mounted.root, mounted.bounds, &who, options).await?;

        let path = [&top, path.as_bytes()].join(&b'/');
        let file = client.user(who).create(&path, Mode::from_bits(0o644), true).await?;
        let mut offset = 0;
        let mut piece = vec![0; 1 << 20];
        loop {
            let count = std::io::stdin().read(&mut piece)?;
            if count == 0 {
                break;
            }
            // The write waits only for free space in the cache. `sync` reports failures that occur
            // later.
            file.write_at(offset, Bytes::copy_from_slice(&piece[..count])).await?;
            offset += count as u64;
        }
        file.sync().await?;
        file.close().await?;
        let again = client.counters().rewritten_bytes;
        println!("{offset} bytes are saved; {again} were written again after a server restart");
        Ok(())
    })
}

fn time_of_day() -> FileTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    FileTime { seconds, nanoseconds: since.subsec_nanos() }
}
