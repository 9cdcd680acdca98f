//! Calls from the server to clients: EVICT and REPORT with their replies, and EVICTED to clients of
//! NQNFS, which send no reply.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::{Time, Xid};
use leasehold_base::xdr::{Decode as _, Encode, Message, Reader, Writer, decode_all};
use leasehold_core::leases::table::{self, Told};
use leasehold_core::leases::{Client, Object, Serial};
use leasehold_fs::{ExportId, ObjectId};
use leasehold_wire::lease::callback::{self, evict, report};
use leasehold_wire::list::List;
use leasehold_wire::nfs3::{self, Handle};
use leasehold_wire::nqnfs::{self, evicted};
use leasehold_wire::rpc::{AuthSys, Call, OpaqueAuth, Reply, ReplyStatus, flavor};

use super::{Handles, Leases, Protocol, ReturnPath};
use crate::effects::{Eviction, Inquiry};
use crate::registry::Registry;

/// The maximum number of calls from the server to clients whose reply has not arrived.
const PENDING_MAX: usize = 1 << 14;

/// The maximum number of leases in one EVICT call, so that the call fits into a datagram.
const TOGETHER_MAX: usize = 256;

/// The calls from the server to clients whose replies have not arrived.
#[derive(Default)]
pub(super) struct Callbacks {
    pending: BTreeMap<Xid, Callback>,
    next_xid: u32,
}

/// A call from the server to a client whose reply has not arrived.
struct Callback {
    client: Client,
    about: About,
}

/// The leases of a call to a client.
enum About {
    Evict(Vec<(Object, Serial)>),
    Report { object: Object, serial: Serial, round: u64 },
}

impl Leases {
    /// Processes a message that is not a call: a reply of a client, or garbage.
    pub fn answered(self: &Arc<Self>, now: Time, way: ReturnPath, message: &Bytes) {
        let mut reader = Reader::new(message);
        let Ok(Reply { xid, status: ReplyStatus::Success }) = Reply::decode(&mut reader) else {
            return;
        };
        self.tell(now);
        let Some(Callback { client, about }) = self.registry().replied(xid, way) else { return };
        match about {
            About::Evict(leases) => {
                for (object, serial) in leases {
                    self.on(object, |shard, effects| {
                        shard.step(table::Event::Received(client, object, serial), effects);
                    });
                }
            }
            About::Report { object, serial, round } => {
                let Ok(now) = decode_all::<report::Reply>(&mut reader) else { return };
                let told = now.map(|now| Told {
                    size: now.size,
                    modified: nanoseconds(now.modified),
                    set: now.set.map(|set| (set.mode, nanoseconds(set.accessed))),
                });
                self.on(object, |shard, effects| {
                    let event = table::Event::Reported(client, object, serial, round, told);
                    shard.step(event, effects);
                });
            }
        }
    }
}

fn nanoseconds(time: nfs3::Time) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
}

impl Registry {
    /// Returns the call that a reply answers. The server accepts a reply only on a return path of the
    /// called client, so that no client can reply for another client.
    fn replied(&mut self, xid: Xid, way: ReturnPath) -> Option<Callback> {
        let Callback { client, .. } = self.callbacks.pending.get(&xid)?;
        let peer = self.peers.get(client)?;
        if peer.ways.contains(&way) { self.callbacks.pending.remove(&xid) } else { None }
    }

    /// Encodes the calls of one step; all recalls for one client share one call.
    pub(super) fn write_calls(
        &mut self,
        evictions: BTreeMap<Client, Vec<Eviction>>,
        inquiries: &[Inquiry],
        handles: &Handles,
        messages: &mut Vec<(ReturnPath, Message)>,
    ) {
        for (client, evictions) in evictions {
            let Some(peer) = self.peers.get(&client) else { continue };
            if peer.protocol == Protocol::Nqnfs {
                for eviction in evictions {
                    let Some(name) = eviction.name else { continue };
                    let message = self.callbacks.write_evicted(handle(handles, name));
                    messages.extend(peer.ways.iter().map(|way| (*way, message.clone().into())));
                }
                continue;
            }
            let Some(to) = self.way(client) else { continue };
            for some in evictions.chunks(TOGETHER_MAX) {
                messages.push((to, self.write_evict(client, some, handles)));
            }
        }
        for inquiry in inquiries {
            let Inquiry { client, object, serial, round, name } = *inquiry;
            let (Some(to), Some(name)) = (self.way(client), name) else { continue };
            let lease = evict::Lease { object: handle(handles, name), serial: serial.0 };
            let args = report::Args { epoch: self.clients.epoch(), lease };
            let about = About::Report { object, serial, round };
            let message = self.callbacks.call(Callback { client, about }, report::NUMBER, &args);
            messages.push((to, message));
        }
    }

    fn write_evict(
        &mut self,
        client: Client,
        evictions: &[Eviction],
        handles: &Handles,
    ) -> Message {
        let evicted = |eviction: &Eviction| {
            let object = handle(handles, eviction.name?);
            Some(evict::Lease { object, serial: eviction.serial.0 })
        };
        let leases = List(evictions.iter().filter_map(evicted).collect());
        let args = evict::Args { epoch: self.clients.epoch(), leases };
        let leases = evictions.iter().map(|eviction| (eviction.object, eviction.serial));
        let about = About::Evict(leases.collect());
        self.callbacks.call(Callback { client, about }, evict::NUMBER, &args)
    }

    fn way(&self, client: Client) -> Option<ReturnPath> {
        self.peers.get(&client)?.ways.front().copied()
    }
}

impl Callbacks {
    /// Encodes EVICTED for an object. The server sends it on each return path of the client, because
    /// only the host knows which of its mounts caches the object.
    fn write_evicted(&mut self, object: Handle) -> Bytes {
        let mut credential = Writer::new();
        AuthSys::default().encode(&mut credential);
        let credential = credential.finish().into_bytes();
        let mut writer = Writer::new();
        Call {
            xid: self.next(),
            program: nqnfs::PROGRAM,
            version: nqnfs::VERSION,
            procedure: evicted::NUMBER,
            credential: OpaqueAuth { flavor: flavor::SYS, body: &credential },
            verifier: OpaqueAuth::NONE,
        }
        .encode(&mut writer);
        evicted::Args { object }.encode(&mut writer);
        writer.finish().into_bytes()
    }

    fn call(&mut self, callback: Callback, procedure: u32, args: &impl Encode) -> Message {
        let xid = self.next();
        // At the limit the server forgets its oldest call: the lease table repeats a recall whose
        // reply does not arrive.
        if self.pending.len() >= PENDING_MAX {
            self.pending.pop_first();
        }
        self.pending.insert(xid, callback);
        let (program, version) = (callback::PROGRAM, callback::VERSION);
        let (credential, verifier) = (OpaqueAuth::NONE, OpaqueAuth::NONE);
        let mut writer = Writer::new();
        Call { xid, program, version, procedure, credential, verifier }.encode(&mut writer);
        args.encode(&mut writer);
        writer.finish()
    }

    const fn next(&mut self) -> Xid {
        self.next_xid = self.next_xid.wrapping_add(1);
        Xid(self.next_xid)
    }
}

/// Returns the handle by which a client knows an object.
fn handle(handles: &Handles, (export, id): (ExportId, ObjectId)) -> Handle {
    Handle::from(handles.seal(export, &id))
}
