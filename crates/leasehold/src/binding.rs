//! `leasehold names`, the database of servers' names, and queries to such a database.

use std::env;
use std::fmt;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use leasehold_base::limits::BOUND_NAME_BYTES_MAX;
use leasehold_base::shown::shown;
use leasehold_names::Names;
use leasehold_shell::binding::{Binding, Database, Located};
use leasehold_shell::client::Address;
use leasehold_shell::log::Target;
use leasehold_shell::process::{self as own, Termination};
use leasehold_shell::systemd::{self, State};
use leasehold_shell::{self as shell, Policy, Server, state};
use leasehold_wire::binding::PORT;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::json;
use tracing_subscriber::filter::LevelFilter;

use crate::checks;
use crate::failure::{Failure, Kind};
use crate::logging;
use crate::options::{self, LogFormat};
use crate::output::say;

/// The variable that names the database for lookups.
const VARIABLE: &str = "LEASEHOLD_NAMES";

/// The maximum number of connections, and the time that a client may take for one request. The
/// values are small because each request has one short reply, or a list for few clients.
const CONNECTIONS_MAX: usize = 1024;
const STALL_MAX: Duration = Duration::from_secs(30);

/// The time that calls in progress may take after the request to end.
const GRACE: Duration = Duration::from_secs(1);

/// Parses a database, as `HOST[:PORT]`.
pub(crate) fn database(text: &str) -> Result<Database, String> {
    let wrong = || format!("{text:?} does not have the form HOST[:PORT]");
    let address: Address = format!("nfs://{text}").parse()?;
    if text.contains('/') {
        return Err(wrong());
    }
    Ok(Database { host: address.host, port: address.port.map_or(PORT, Into::into) })
}

/// The database in which a server registers, and its name there unless it is the machine's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BindAt {
    name: Option<String>,
    database: Database,
}

impl FromStr for BindAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((name, at)) = text.rsplit_once('@') else {
            return Ok(Self { name: None, database: database(text)? });
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let length_max = BOUND_NAME_BYTES_MAX as usize;
        if !(1..=length_max).contains(&name.len()) || !name.bytes().all(is_plain) {
            return Err(format!("a name has 1 to {length_max} letters, digits, '.', '-' and '_'"));
        }
        Ok(Self { name: Some(name.to_owned()), database: database(at)? })
    }
}

impl fmt::Display for BindAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}@")?;
        }
        self.database.fmt(f)
    }
}

impl<'de> Deserialize<'de> for BindAt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl BindAt {
    /// Registers a server, under the machine's name unless the option gives another name.
    pub(crate) fn begin(
        self,
        machine: &str,
        state: &Path,
        served: &[SocketAddr],
    ) -> Option<Binding> {
        let name = self.name.unwrap_or_else(|| machine.to_owned());
        let failed =
            |error: &dyn fmt::Display| tracing::warn!("cannot register the server: {error}");
        let identifier = state::identifier(state).inspect_err(|error| failed(error)).ok()?;
        let begun = Binding::begin(self.database, name, identifier, served);
        begun.inspect_err(|error| failed(error)).ok()
    }
}

/// Returns the server's address in the database, if the environment names a database.
pub(crate) fn lookup(name: &str) -> Option<SocketAddr> {
    let text = env::var(VARIABLE).ok().filter(|text| !text.is_empty())?;
    let found = database(&text).and_then(|database| {
        database.lookup(name).map_err(|error| format!("cannot query {database}: {error}"))
    });
    let found = found.inspect_err(|error| complain(&format!("{VARIABLE}: {error}"))).ok()??;
    tracing::info!(name, address = %found.address, "found in the database");
    Some(found.address)
}

/// Prints a warning to stderr, because a log may not exist: without the database the command may
/// reach another server than intended.
fn complain(text: &str) {
    // If stderr is closed, the warning has no reader.
    let _ = writeln!(io::stderr(), "leasehold: {}", shown(text));
}

/// Lists the entries of a database as lines.
pub(crate) fn listed(database: &Database, as_json: bool) -> Result<String, Failure> {
    let found = database
        .list()
        .map_err(|error| Kind::Running.because(format!("cannot query {database}: {error}")))?;
    if found.is_empty() && !as_json {
        return Ok("no server is registered: use `leasehold serve --bind-at`\n".to_owned());
    }
    Ok(found.iter().map(|one| if as_json { object(one) } else { line(one) }).collect())
}

fn line(Located { name, address, .. }: &Located) -> String {
    format!("{name:<20} {:<30} {address}\n", format!("nfs://{name}/"))
}

fn object(Located { name, identifier, address }: &Located) -> String {
    let identifier = format!("{:032x}", u128::from_be_bytes(*identifier));
    format!("{}\n", json!({ "server": name, "identifier": identifier, "addresses": [address] }))
}

/// Runs the database until a signal ends the process.
pub(crate) fn run(options: &options::Names) -> Result<(), Failure> {
    let termination = Termination::prepare();
    logging::start(Target::Stderr, LevelFilter::INFO, LogFormat::Plain)?;
    let descriptors = own::prepare();
    let usual = || vec![SocketAddr::from(([127, 0, 0, 1], PORT))];
    let server = Server::bind(shell::Options {
        listen: if options.listen.is_empty() { usual() } else { options.listen.clone() },
        loops: NonZeroUsize::MIN,
        connections_max: CONNECTIONS_MAX.min(descriptors / 2),
        connections_of_client_max: None,
        stall_max: STALL_MAX,
        // Only root and the user that runs the database may register. The process never changes its
        // user, so the effective user id is the id of that user.
        policy: Some(Policy {
            privileged: false,
            uid: rustix::process::geteuid().as_raw(),
            reserved_ports_end: shell::reserved_ports_end(),
        }),
        replies_in_turn: false,
        datagrams: true,
    })
    .map_err(|error| Kind::Address.because(checks::address_advice(&error)))?;
    let addresses: Vec<_> = server.addresses().iter().map(ToString::to_string).collect();
    let running = server
        .start(Arc::new(Names::new(options.insecure)))
        .map_err(|error| Kind::Running.because(format!("cannot start to serve: {error}")))?;
    systemd::tell(State::Ready);
    let ready = format!("Serving the names of servers on {}\n", addresses.join(", "));
    if let Err(failure) = say(ready) {
        // The database serves even if no process reads its ready message.
        tracing::warn!("{failure}");
    }
    termination.wait();
    systemd::tell(State::Stopping);
    running.stop(GRACE);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_read_and_written() {
        for (text, written) in [
            ("names.example", "names.example:20490"),
            ("192.0.2.9:99", "192.0.2.9:99"),
            ("files@[::1]:99", "files@[::1]:99"),
            ("a.b-c_d@[::1]", "a.b-c_d@[::1]:20490"),
        ] {
            let read: BindAt = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(read.to_string(), written);
        }
        let long = format!("{}@host", "a".repeat(256));
        for wrong in ["", "@host", "a b@host", "a/b@host", "host:0", "host/x", "name@", &long] {
            assert!(wrong.parse::<BindAt>().is_err(), "{wrong}");
        }
    }
}
