//! The client of the portmapper (RFC 1833, version 2).

use leasehold_core::calls::{Carrier, Weight};
use leasehold_wire::portmap::{Mapping, PROGRAM, VERSION, getport, protocol};

use crate::credential::Credential;
use crate::error::Error;
use crate::session::{Procedure, Session};

/// Returns the port of a program and version over a transport; None if the server does not serve
/// the program. `session` must be a session with the portmapper, on port
/// [`PORT`](leasehold_wire::portmap::PORT).
///
/// # Errors
/// An error if the call failed.
pub async fn port(
    session: &Session,
    program: u32,
    version: u32,
    carrier: Carrier,
) -> Result<Option<u16>, Error> {
    let protocol = match carrier {
        Carrier::Stream => protocol::TCP,
        Carrier::Datagram => protocol::UDP,
    };
    let number = getport::NUMBER;
    let procedure = Procedure { program: PROGRAM, version: VERSION, number, weight: Weight::Light };
    let args = Mapping { program, version, protocol, port: 0 };
    let port: getport::Reply = session.call(&Credential::none(), procedure, &args).await?.read()?;
    Ok(u16::try_from(port).ok().filter(|port| *port != 0))
}
