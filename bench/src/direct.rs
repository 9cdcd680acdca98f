//! A client with leases that reads or writes one file at the iods themselves, for `links.sh`.

use std::error::Error;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use leasehold_client::{Client, Mode, OpenHow, Options, Servers, Variant};
use leasehold_session::nfs::{Nfs, Version};
use leasehold_session::{Credential, Options as Calling};
use leasehold_shell::client::{Runtime, SourcePort, Target, block_on, mount};
use leasehold_shell::clock;

/// The first argument that selects this client.
pub(crate) const WORD: &str = "direct";

/// The size of one read or write.
const PART_BYTES: u32 = 1 << 20;

/// The timeout of an iod, equal to the mount's.
const IOD_TIMEOUT: Duration = Duration::from_secs(5);

struct Reach(Runtime);

impl Servers for Reach {
    fn at(&self, address: SocketAddr) -> Option<Nfs> {
        let options = Calling::stream().impatient(IOD_TIMEOUT);
        let session = self.0.session(address, options, SourcePort::default()).ok()?;
        Some(Nfs::new(session, Version::V3))
    }
}

/// Runs the command of the script.
pub(crate) fn run(words: &[String]) -> Result<(), Box<dyn Error>> {
    let [what, server, name, data] = words else {
        return Err("usage: direct read|write SERVER NAME DATA".into());
    };
    let data = Data::open(data)?;
    let client = client(server.parse()?)?;
    let user = client.user(who());
    let done: Result<(), Box<dyn Error>> = block_on(async {
        match what.as_str() {
            "read" => {
                let file = user.open(name.as_bytes(), OpenHow::READ).await?;
                let mut offset = 0;
                loop {
                    let read = file.read_at(offset, PART_BYTES).await?.into_bytes();
                    if read.is_empty() {
                        break;
                    }
                    if data.part(offset, read.len() as u64)? != read {
                        return Err("the read data differs from DATA".into());
                    }
                    offset += read.len() as u64;
                }
                if offset != data.bytes {
                    return Err("the file is shorter than DATA".into());
                }
                file.close().await?;
            }
            "write" => {
                let file = user.create(name.as_bytes(), Mode::from_bits(0o644), false).await?;
                let mut offset = 0;
                while offset < data.bytes {
                    let part = data.part(offset, PART_BYTES.into())?;
                    let length = part.len() as u64;
                    file.write_at(offset, part).await?;
                    offset += length;
                }
                file.sync().await?;
                file.close().await?;
            }
            what => return Err(format!("there is no {what}").into()),
        }
        Ok(())
    });
    block_on(client.goodbye());
    done
}

/// The data to read or write, in a local file: twenty clients with the data in memory would need
/// too much memory.
struct Data {
    file: File,
    bytes: u64,
}

impl Data {
    fn open(path: &str) -> io::Result<Self> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { file, bytes })
    }

    /// Returns a part, or as much as there is of it.
    fn part(&self, offset: u64, length: u64) -> io::Result<Bytes> {
        let length = length.min(self.bytes.saturating_sub(offset));
        let mut part = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut part, offset)?;
        Ok(part.into())
    }
}

fn client(server: SocketAddr) -> Result<Client, Box<dyn Error>> {
    let runtime = Runtime::start()?;
    let target = Target::new(&server.ip().to_string(), b"/x", Calling::stream());
    let target = Target { port: Some(server.port()), ..target };
    let who = who();
    let mounted = block_on(mount(&runtime, &target, &who)).map_err(|error| error.to_string())?;
    let seed = u64::from(std::process::id());
    let mut id = [0; 16];
    id[..8].copy_from_slice(&seed.to_be_bytes());
    let nfs = block_on(mounted.nfs.with_leases(&who, id, b"bench"))?;
    let options = Options { variant: Variant::Lease, ..Options::new(clock::time_of_day, seed) };
    let client = Client::new(nfs, mounted.root, mounted.bounds, &who, options);
    let client = block_on(client)?;
    client.reach_by(Arc::new(Reach(runtime)));
    Ok(client)
}

fn who() -> Credential {
    Credential::system("bench", 0, 0, &[])
}
