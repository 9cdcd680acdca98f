//! The persistent form of a cached reply (a reply journal entry).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};

use super::{Call, Origin, Port};

/// The persistent form of a cached reply, for a restarted server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The sender of the call.
    pub origin: Origin,
    /// The identity of the call.
    pub call: Call,
    /// The whole reply.
    pub reply: Bytes,
}

/// The longest reply in a note: the replies of all calls that must not run twice are less than half
/// as long.
const REPLY_BYTES_MAX: u32 = 1024;

const IPV4: u32 = 4;
const IPV6: u32 = 6;
const DATAGRAM: u32 = 17;
const STREAM: u32 = 6;

impl Encode for Note {
    fn encode(&self, writer: &mut Writer) {
        match self.origin.client {
            IpAddr::V4(address) => {
                writer.u32(IPV4);
                writer.fixed(&address.octets());
            }
            IpAddr::V6(address) => {
                writer.u32(IPV6);
                writer.fixed(&address.octets());
            }
        }
        let (transport, port) = match self.origin.port {
            Port::Datagram(port) => (DATAGRAM, port),
            Port::Stream(port) => (STREAM, port),
        };
        let Call { xid, program, version, procedure, checksum } = self.call;
        writer.words(&[transport, port.into(), xid.0, program, version, procedure]);
        writer.u64(checksum);
        writer.opaque(&self.reply);
    }
}

impl<'a> Decode<'a> for Note {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let client = match reader.u32()? {
            IPV4 => Ipv4Addr::from(*reader.fixed::<4>()?).into(),
            IPV6 => Ipv6Addr::from(*reader.fixed::<16>()?).into(),
            _ => return Err(Error::BadValue),
        };
        let (transport, port) = (reader.u32()?, reader.u32()?);
        let port = u16::try_from(port).map_err(|_| Error::BadValue)?;
        let port = match transport {
            DATAGRAM => Port::Datagram(port),
            STREAM => Port::Stream(port),
            _ => return Err(Error::BadValue),
        };
        let call = Call {
            xid: Xid(reader.u32()?),
            program: reader.u32()?,
            version: reader.u32()?,
            procedure: reader.u32()?,
            checksum: reader.u64()?,
        };
        let reply = reader.shared(REPLY_BYTES_MAX)?;
        Ok(Self { origin: Origin { client, port }, call, reply })
    }
}
