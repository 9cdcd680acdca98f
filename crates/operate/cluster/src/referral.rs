//! The referral of clients to the least loaded metaserver of a file system (`spec/binding.x`, rules
//! 13 and 14).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::xdr::{Encode as _, Reader, Writer, decode_all};
use leasehold_fs::MaybeReady;
use leasehold_serve::{Arrival, Program, Response, Service};
use leasehold_store_replica::Metaserver;
use leasehold_wire::binding::{Bound, Host, Identifier, Name, lookup};
use leasehold_wire::rpc::{Call, Reply, ReplyStatus, null};

use crate::Group;

/// The metaservers of a volume.
pub struct Referral {
    /// The name that clients mount.
    name: String,
    /// The same name in the form of the reply.
    told: String,
    /// The number of the volume.
    volume: u64,
    metaserver: Metaserver,
    /// The address of each metaserver, if it resolves.
    addresses: Vec<Option<SocketAddr>>,
}

impl Referral {
    /// Returns the referrals for a volume: `name` is the path that clients mount, and `number` the
    /// number of the volume.
    #[must_use]
    pub fn of(name: &str, number: u64, group: &Group, metaserver: Metaserver) -> Self {
        let name = name.trim_matches('/').to_owned();
        let (told, addresses) = (name.to_ascii_lowercase(), group.addresses());
        Self { name, told, volume: number, metaserver, addresses }
    }

    /// Returns the metaservers that a client may be referred to. Returns none if the client cannot
    /// access the volume, or if `name` is not the name of the volume.
    fn among(&self, service: &Service, from: IpAddr, name: &[u8]) -> Vec<u32> {
        let is_it = name.eq_ignore_ascii_case(self.name.as_bytes());
        if !is_it || !service.finds(from, self.name.as_bytes()) {
            return Vec::new();
        }
        let is_here = from.to_canonical().is_loopback();
        let is_told = |address: &SocketAddr| is_here || !address.ip().is_loopback();
        let all = (0..).zip(&self.addresses);
        let told = all.filter(|(_, address)| address.as_ref().is_some_and(is_told));
        told.map(|(number, _)| number).collect()
    }

    /// Returns the address of the least loaded metaserver in `among`.
    async fn bound(&self, among: &[u32], from: IpAddr) -> lookup::Reply<'_> {
        let number = self.metaserver.least_busy(among, from.to_canonical()).await?;
        let address = (*self.addresses.get(number as usize)?)?;
        let (name, identifier) = (Name(self.told.as_bytes()), self.identifier(number));
        Some(Bound { name, identifier, host: Host(address.ip()), port: address.port().into() })
    }

    fn identifier(&self, number: u32) -> Identifier {
        (u128::from(self.volume) << 64 | u128::from(number)).to_be_bytes()
    }
}

/// The binding program at a metaserver, which refers clients to the least loaded metaserver.
pub(crate) struct Binding {
    pub(crate) referral: Arc<Referral>,
    pub(crate) service: Arc<Service>,
}

impl Program for Binding {
    fn answer(&self, arrival: Arrival, message: Bytes, mut writer: Writer) -> Response {
        let mut reader = Reader::new(&message);
        let Ok(call) = Call::decode(&mut reader) else { return MaybeReady::now(None).into() };
        let xid = call.xid;
        let (status, name) = match wanted(&call, &mut reader) {
            Ok(name) => (ReplyStatus::Success, name),
            Err(status) => (status, None),
        };
        Reply { xid, status }.encode(&mut writer);
        let Some(Name(name)) = name else { return MaybeReady::now(Some(writer.finish())).into() };
        let from = arrival.from.ip();
        let referral = Arc::clone(&self.referral);
        let among = referral.among(&self.service, from, name);
        MaybeReady::later(async move {
            referral.bound(&among, from).await.encode(&mut writer);
            Some(writer.finish())
        })
        .into()
    }
}

/// Returns the name that a call looks up; `None` for NULL.
fn wanted<'a>(
    call: &Call<'_>,
    reader: &mut Reader<'a>,
) -> Result<Option<lookup::Args<'a>>, ReplyStatus> {
    match call.procedure {
        null::NUMBER => Ok(None),
        lookup::NUMBER => decode_all(reader).map(Some).map_err(|_| ReplyStatus::GarbageArguments),
        _ => Err(ReplyStatus::ProcedureUnavailable),
    }
}
