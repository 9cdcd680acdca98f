//! Calls from the server to clients: EVICT and REPORT with their replies, and EVICTED to clients of
//! NQNFS, which send no reply.

use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::{Time, Xid};
use leasehold_base::xdr::{Decode as _, Encode, Message, Reader, Writer, decode_all};
use leasehold_core::leases::table::{self, Told};
use leasehold_core::leases::{Client, Object, Serial};
use leasehold_wire::lease::callback::{self, evict, report};
use leasehold_wire::list::List;
use leasehold_wire::nfs3::{self, Handle};
use leasehold_wire::nqnfs::{self, evicted};
use leasehold_wire::rpc::{AuthSys, Call, OpaqueAuth, Reply, ReplyStatus, flavor};

use super::{ASKED_MAX, Handles, Leases, Outs, Protocol, State, Way};

/// The maximum number of leases in one EVICT call, so that the call fits into a datagram.
const TOGETHER_MAX: usize = 256;

/// A call from the server to a client whose reply has not arrived.
pub(super) struct Asked {
    client: Client,
    what: What,
}

enum What {
    Evict(Vec<(Object, Serial)>),
    Report { object: Object, serial: Serial, round: u64 },
}

impl Leases {
    /// Processes a message that is not a call: a reply of a client, or garbage.
    pub fn answered(self: &Arc<Self>, now: Time, way: Way, message: &Bytes) {
        let mut reader = Reader::new(message);
        let Ok(Reply { xid, status: ReplyStatus::Success }) = Reply::decode(&mut reader) else {
            return;
        };
        self.with(now, |state, outs| {
            let Some(Asked { client, .. }) = state.asked.get(&xid) else { return };
            // The server accepts a reply only on a return path of the called client, so that no
            // client can reply for another client.
            let peer = state.peers.get(client);
            if peer.is_none_or(|peer| !peer.ways.contains(&way)) {
                return;
            }
            let Some(Asked { client, what }) = state.asked.remove(&xid) else { return };
            match what {
                What::Evict(leases) => {
                    for (object, serial) in leases {
                        state.step(table::Event::Received(client, object, serial), outs);
                    }
                }
                What::Report { object, serial, round } => {
                    let Ok(now) = decode_all::<report::Reply>(&mut reader) else { return };
                    let told = now.map(|now| Told {
                        size: now.size,
                        modified: nanoseconds(now.modified),
                        set: now.set.map(|set| (set.mode, nanoseconds(set.accessed))),
                    });
                    let event = table::Event::Reported(client, object, serial, round, told);
                    state.step(event, outs);
                }
            }
        });
    }
}

fn nanoseconds(time: nfs3::Time) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
}

impl State {
    /// Encodes the calls of one step; all recalls for one client share one call.
    pub(super) fn write_calls(&mut self, handles: &Handles, outs: &mut Outs) {
        for (client, leases) in core::mem::take(&mut outs.evictions) {
            if self.peers.get(&client).is_some_and(|peer| peer.protocol == Protocol::Nqnfs) {
                self.write_evicted(client, &leases, handles, outs);
                continue;
            }
            let Some(to) = self.way(client) else { continue };
            for some in leases.chunks(TOGETHER_MAX) {
                let message = self.write_evict(client, some, handles);
                outs.messages.push((to, message));
            }
        }
        for asked in core::mem::take(&mut outs.inquiries) {
            let (Some(to), What::Report { object, serial, .. }) =
                (self.way(asked.client), &asked.what)
            else {
                continue;
            };
            let Some((export, id)) = self.names.of(asked.client, *object) else { continue };
            let object = Handle::from(handles.seal(export, &id));
            let lease = evict::Lease { object, serial: serial.0 };
            let args = report::Args { epoch: self.clients.epoch(), lease };
            let message = self.call(asked, report::NUMBER, &args);
            outs.messages.push((to, message));
        }
    }

    fn write_evict(
        &mut self,
        client: Client,
        leases: &[(Object, Serial)],
        handles: &Handles,
    ) -> Message {
        let evicted = |(object, serial): &(Object, Serial)| {
            let (export, id) = self.names.of(client, *object)?;
            let object = Handle::from(handles.seal(export, &id));
            Some(evict::Lease { object, serial: serial.0 })
        };
        let evicted = leases.iter().filter_map(evicted).collect();
        let args = evict::Args { epoch: self.clients.epoch(), leases: List(evicted) };
        let asked = Asked { client, what: What::Evict(leases.to_vec()) };
        self.call(asked, evict::NUMBER, &args)
    }

    fn way(&self, client: Client) -> Option<Way> {
        self.peers.get(&client)?.ways.front().copied()
    }

    /// Sends EVICTED for each object on each return path of the client, because only the host knows
    /// which of its mounts caches the object.
    fn write_evicted(
        &mut self,
        client: Client,
        leases: &[(Object, Serial)],
        handles: &Handles,
        outs: &mut Outs,
    ) {
        let mut credential = Writer::new();
        AuthSys::default().encode(&mut credential);
        let credential = credential.finish().into_bytes();
        for (object, _) in leases {
            let Some((export, id)) = self.names.of(client, *object) else { continue };
            let object = Handle::from(handles.seal(export, &id));
            let mut writer = Writer::new();
            Call {
                xid: Xid(self.next_xid),
                program: nqnfs::PROGRAM,
                version: nqnfs::VERSION,
                procedure: evicted::NUMBER,
                credential: OpaqueAuth { flavor: flavor::SYS, body: &credential },
                verifier: OpaqueAuth::NONE,
            }
            .encode(&mut writer);
            evicted::Args { object }.encode(&mut writer);
            self.next_xid = self.next_xid.wrapping_add(1);
            let message = writer.finish().into_bytes();
            let ways = self.peers.get(&client).into_iter().flat_map(|peer| &peer.ways);
            outs.messages.extend(ways.map(|way| (*way, message.clone().into())));
        }
    }

    fn call(&mut self, asked: Asked, procedure: u32, args: &impl Encode) -> Message {
        let xid = Xid(self.next_xid);
        self.next_xid = self.next_xid.wrapping_add(1);
        // At the limit the server forgets its oldest call: the lease table repeats a recall whose
        // reply does not arrive.
        if self.asked.len() >= ASKED_MAX {
            self.asked.pop_first();
        }
        self.asked.insert(xid, asked);
        let (program, version) = (callback::PROGRAM, callback::VERSION);
        let (credential, verifier) = (OpaqueAuth::NONE, OpaqueAuth::NONE);
        let mut writer = Writer::new();
        Call { xid, program, version, procedure, credential, verifier }.encode(&mut writer);
        args.encode(&mut writer);
        writer.finish()
    }
}

impl Asked {
    pub(super) const fn report(client: Client, object: Object, serial: Serial, round: u64) -> Self {
        Self { client, what: What::Report { object, serial, round } }
    }
}
