//! Lists all objects in an export, with sizes.
//!
//! ```text
//! cargo run -p leasehold-shell --example tree -- 127.0.0.1 2049 /srv/data
//! ```

#![allow(clippy::print_stdout, reason = "the example prints its result")]

use std::error::Error;

use leasehold_base::units::FileTime;
use leasehold_client::{Client, Credential, FileType, Options};
use leasehold_shell::client::{Runtime, Target, block_on, mount};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, export] = &words[..] else {
        return Err("usage: tree HOST PORT EXPORT".into());
    };
    let calling = leasehold_session::Options::stream();
    let target =
        Target { port: Some(port.parse()?), ..Target::new(host, export.as_bytes(), calling) };
    // The calls run as the superuser, if the server trusts the credential.
    let who = Credential::system("example", 0, 0, &[]);

    let runtime = Runtime::start()?;
    block_on(async {
        let mounted = mount(&runtime, &target, &who).await?;
        // The client mounts a directory at or above the requested directory; `top` is the path from
        // the mounted directory to the requested directory.
        let top = mounted.rest.join(&b'/');
        // Each client of a server needs a different seed. This program does not write, so it does
        // not need the time of day.
        let options = Options::new(FileTime::default, u64::from(std::process::id()));
        let client = Client::new(mounted.nfs, mounted.root, mounted.bounds, &who, options).await?;
        let user = client.user(who);

        let mut folders = vec![top];
        while let Some(folder) = folders.pop() {
            for listed in user.list(&folder, true).await? {
                let path = [&folder[..], b"/", &listed.name].concat();
                // A server may omit attributes in a listing, so the program requests missing
                // attributes.
                let attributes = match listed.attributes {
                    Some(attributes) => attributes,
                    None => user.attributes(&path).await?,
                };
                println!("{:>12} {}", attributes.size, String::from_utf8_lossy(&path));
                if attributes.file_type == FileType::Directory {
                    folders.push(path);
                }
            }
        }
        Ok(())
    })
}
