//! Callbacks of the server: recalls of leases, requests for the state under a lease, and reports
//! that the server no longer knows the client.

use std::sync::{Arc, Weak};

use leasehold_core::leases::{Open, Serial, holder};
use leasehold_session::leases::Listener;
use leasehold_session::leases::messages::callback::{evict, report};
use leasehold_session::leases::messages::hello;
use leasehold_session::leases::messages::leases::Progress;
use leasehold_session::spawn;

use super::background::call_in;
use super::{object_of, returned};
use crate::client::{Client, Shared};
use crate::convert;

impl Client {
    /// Registers the receiver of the server's callbacks.
    pub(crate) fn listen(&self) {
        if let Some(leases) = self.shared.nfs.leases() {
            leases.listen(Arc::new(Callbacks(Arc::downgrade(&self.shared))));
        }
    }
}

/// Receives the server's callbacks.
struct Callbacks(Weak<Shared>);

impl Callbacks {
    fn client(&self) -> Option<Client> {
        Some(Client { shared: self.0.upgrade()? })
    }
}

impl Listener for Callbacks {
    fn welcomed(&self, welcome: &hello::Welcome) {
        let Some(client) = self.client() else { return };
        client.with(|state, now, actions| {
            let Some(leased) = &mut state.leases else { return };
            let event = if welcome.recovering {
                leased.progress = Progress::Reclaiming;
                holder::Event::Restarted
            } else {
                holder::Event::Forgotten
            };
            state.lease(now, event, actions);
        });
    }

    fn disconnected(&self) {
        let Some(client) = self.client() else { return };
        let now = client.shared.nfs.session().now();
        let calls = match &mut client.shared.state().leases {
            Some(leased) if !leased.calling && !leased.holder.is_idle(now) => {
                leased.calling = true;
                true
            }
            Some(_) | None => false,
        };
        if calls {
            spawn(call_in(client));
        }
    }

    fn evicted(&self, leases: &[evict::Lease]) {
        let Some(client) = self.client() else { return };
        client.with(|state, now, actions| {
            for lease in leases {
                let serial = Serial(lease.serial);
                match state.nodes.by_handle(&lease.object) {
                    Some(node) => {
                        let object = object_of(node);
                        if let Some(leased) = &mut state.leases {
                            let who = leased.who.clone();
                            leased.asked_of.entry(node).or_insert((lease.object, who));
                        }
                        state.lease(now, holder::Event::Evicted(object, serial), actions);
                    }
                    None => {
                        if let Some(leased) = &mut state.leases {
                            leased.holder.disown(serial);
                        }
                        actions.errands.returns.push(returned(lease.object, serial, Open::No));
                    }
                }
            }
        });
    }

    fn reported(&self, lease: &evict::Lease) -> Option<report::Now> {
        let client = self.client()?;
        let at = client.time_of_day();
        client.with(|state, now, actions| {
            let Some(node) = state.nodes.by_handle(&lease.object) else {
                state.leases.as_mut()?.holder.disown(Serial(lease.serial));
                return None;
            };
            let event = holder::Event::Inquired(object_of(node), Serial(lease.serial), 0);
            state.lease(now, event, actions);
            state.leases.as_mut()?.reported.take().filter(|held| *held)?;
            // The server shows the reported times to other clients from now on, so the client makes
            // them final.
            state.settle_times(now, (node, at), actions);
            let (attributes, _) = state.cache.attributes(now, node.key())?;
            Some(report::Now {
                size: attributes.size,
                modified: convert::wire_time(attributes.modified),
                changed: convert::wire_time(attributes.changed),
                set: state.cache.is_altered(node.key()).then(|| report::Set {
                    mode: attributes.mode.bits(),
                    accessed: convert::wire_time(attributes.accessed),
                }),
            })
        })
    }
}
