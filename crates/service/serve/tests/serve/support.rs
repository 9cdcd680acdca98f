//! A server over a store in memory, called at the byte level as a client does.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use leasehold_base::limits::TRANSFER_BYTES_MAX;
use leasehold_base::units::{ConnectionId, Time, Xid};
use leasehold_base::xdr::{Decode, Encode, Reader, Writer, decode_all};
use leasehold_fs::{Export, ExportId};
use leasehold_serve::access::{Access, Clients, Identity, Rule};
use leasehold_serve::{Arrival, Deaf, HandleKey, Offer, Service, Trust};
use leasehold_store_mem::{Config, MemStore};
use leasehold_wire::rpc::{AuthSys, Call, OpaqueAuth, Reply, ReplyStatus, flavor};

/// A server, with the properties of its caller.
pub(crate) struct Server {
    pub(crate) service: Arc<Service>,
    pub(crate) store: Arc<MemStore>,
    pub(crate) arrival: Arrival,
    pub(crate) uid: u32,
    /// The caller's group, if the group id differs from the user id.
    pub(crate) gid: Option<u32>,
    /// The name of the caller's machine.
    pub(crate) machine: String,
    next_xid: u32,
}

/// The name and the absolute path of the export.
pub(crate) const NAME: &str = "data";
pub(crate) const PATH: &str = "/srv/data";

impl Server {
    pub(crate) fn new() -> Self {
        Self::with(|export| export)
    }

    pub(crate) fn with(change: impl FnOnce(Export) -> Export) -> Self {
        Self::make(Config::default(), change)
    }

    /// Returns a server over a store with a special configuration.
    pub(crate) fn over(config: Config) -> Self {
        Self::make(config, |export| export)
    }

    fn make(config: Config, change: impl FnOnce(Export) -> Export) -> Self {
        let store = Arc::new(MemStore::new(config));
        let export = change(export(&store));
        Self {
            service: Arc::new(Service::new(vec![export], HandleKey([1; 16]), Box::new(Deaf))),
            store,
            arrival: Arrival {
                from: "192.0.2.1:700".parse().expect("an address"),
                to: "192.0.2.9".parse().expect("an address"),
                connection: Some(ConnectionId::default()),
                trust: Trust::Claimed,
                now: Time::ZERO,
            },
            uid: 0,
            gid: None,
            machine: "client".to_owned(),
            next_xid: 1,
        }
    }

    /// Restricts the export to clients in these networks.
    pub(crate) fn allow(&self, networks: &[&str]) {
        let clients = networks.iter().map(|text| Clients {
            text: (*text).to_owned(),
            networks: vec![text.parse().expect("a network")],
        });
        let rule = Rule {
            clients: clients.collect(),
            read_only: false,
            insecure: false,
            identity: Identity::default(),
        };
        self.service.offer(vec![Offer {
            export: export(&self.store),
            access: Access::new(vec![rule]),
            transfer_bytes_max: TRANSFER_BYTES_MAX,
            secret: None,
        }]);
    }

    /// Replaces the server by another server over the same files.
    pub(crate) fn restart(&mut self, with: impl FnOnce(Service) -> Service) {
        let service = Service::new(vec![export(&self.store)], HandleKey([1; 16]), Box::new(Deaf));
        self.service = Arc::new(with(service));
    }

    /// Returns the message of a call with an AUTH_SYS credential and a new xid.
    pub(crate) fn message(
        &mut self,
        (program, version, procedure): (u32, u32, u32),
        args: &impl Encode,
    ) -> Bytes {
        let mut body = Writer::new();
        let (machine_name, uid) = (self.machine.as_bytes(), self.uid);
        let gid = self.gid.unwrap_or(uid);
        AuthSys { machine_name, uid, gid, ..AuthSys::default() }.encode(&mut body);
        let body = body.finish().into_bytes();
        let credential = OpaqueAuth { flavor: flavor::SYS, body: &body };
        let xid = Xid(self.next_xid);
        self.next_xid += 1;
        let mut writer = Writer::new();
        Call { xid, program, version, procedure, credential, verifier: OpaqueAuth::NONE }
            .encode(&mut writer);
        args.encode(&mut writer);
        writer.finish().into_bytes()
    }

    /// Returns the whole reply to a message; the store in memory never waits.
    pub(crate) fn answer(&self, message: &Bytes) -> Option<Bytes> {
        let answer = pin!(self.service.answer(self.arrival, message.clone(), Writer::new()).reply);
        match answer.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => reply.map(leasehold_base::xdr::Message::into_bytes),
            Poll::Pending => panic!("the store in memory answers at once"),
        }
    }

    /// Returns the reply status of a call.
    pub(crate) fn status(&mut self, procedure: (u32, u32, u32), args: &impl Encode) -> ReplyStatus {
        let message = self.message(procedure, args);
        let reply = self.answer(&message).expect("a call is answered");
        Reply::decode(&mut Reader::new(&reply)).expect("a reply").status
    }

    /// Returns the results of a call.
    pub(crate) fn call(&mut self, procedure: (u32, u32, u32), args: &impl Encode) -> Results {
        let message = self.message(procedure, args);
        let reply = self.answer(&message).expect("a call is answered");
        let mut reader = Reader::new(&reply);
        let head = Reply::decode(&mut reader).expect("a reply");
        assert_eq!(head.status, ReplyStatus::Success);
        Results(reader.rest_shared())
    }
}

pub(crate) fn export(store: &Arc<MemStore>) -> Export {
    let store = Arc::<MemStore>::clone(store);
    Export {
        id: ExportId(1),
        name: NAME.to_owned(),
        path: PATH.to_owned(),
        read_only: false,
        store,
    }
}

/// Encoded results.
pub(crate) struct Results(Bytes);

impl Results {
    /// Returns the bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Decodes the results, which must use all bytes.
    pub(crate) fn read<'a, T: Decode<'a>>(&'a self) -> T {
        decode_all(&mut Reader::new(&self.0)).expect("results of that kind")
    }
}
