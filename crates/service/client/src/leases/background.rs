//! Background lease work in calls of its own: lease requests, renewals and returns, and writes of
//! data before a return.

use leasehold_core::leases::holder::{self, Request};
use leasehold_session::leases::messages::leases::{Progress, Returned, Wanted};
use leasehold_session::{Credential, spawn};

use super::object_of;
use crate::client::Client;
use crate::nodes::NodeId;

/// The maximum number of lease requests in one call. Many leases need renewal at the same time, and
/// one call then carries many requests.
const TOGETHER_MAX: usize = 64;

/// The maximum number of leases that one call returns, so that the call fits into a datagram.
const RETURNED_MAX: usize = 256;

/// The lease work that the client does after it has released the mutex of the state.
#[derive(Default)]
pub(crate) struct Errands {
    pub(super) asks: Vec<Errand>,
    pub(super) returns: Vec<Returned>,
    pub(super) pushes: Vec<NodeId>,
    pub(super) withdraws: Vec<NodeId>,
    pub(super) replaced: Vec<NodeId>,
    pub(super) progressed: bool,
}

/// A lease request.
pub(super) struct Errand {
    pub(super) request: Request,
    pub(super) node: NodeId,
    pub(super) who: Credential,
    pub(super) wanted: Wanted,
}

impl Client {
    /// Performs the collected lease work. The caller must not hold the mutex of the state.
    pub(crate) fn run_errands(&self, errands: Errands) {
        let Errands { asks, returns, pushes, withdraws, replaced, progressed } = errands;
        if !withdraws.is_empty() || !replaced.is_empty() {
            let state = self.shared.state();
            let watcher = state.leases.as_ref().and_then(|leased| leased.watcher.clone());
            drop(state);
            for node in replaced {
                if let Some(watcher) = &watcher {
                    watcher.replaced(self, node);
                }
            }
            for node in withdraws {
                match &watcher {
                    Some(watcher) => watcher.withdraw(self, node),
                    None => self.withdrawn(node),
                }
            }
        }
        let mut asks = asks.into_iter().peekable();
        while let Some(first) = asks.next() {
            let mut together = vec![first];
            while let Some(next) =
                asks.next_if(|next| together.len() < TOGETHER_MAX && next.who == together[0].who)
            {
                together.push(next);
            }
            spawn(ask(self.clone(), together));
        }
        if returns.is_empty() && progressed {
            spawn(give_back(self.clone(), Vec::new()));
        }
        for some in returns.chunks(RETURNED_MAX) {
            spawn(give_back(self.clone(), some.to_vec()));
        }
        for node in pushes {
            spawn(push(self.clone(), node));
        }
    }

    fn progress(&self) -> Progress {
        let state = self.shared.state();
        state.leases.as_ref().map_or(Progress::Recovered, |leased| leased.progress)
    }
}

/// Requests several leases in one call.
async fn ask(client: Client, errands: Vec<Errand>) {
    let (Some(leases), Some(first)) = (client.shared.nfs.leases(), errands.first()) else { return };
    let asked = client.ask();
    let wanted = errands.iter().map(|errand| errand.wanted).collect();
    // `progress` reports to the server that the client has finished its reclaims, if it has.
    let answer = leases.lease(&first.who, wanted, Vec::new(), client.progress()).await;
    let held = answer.map(|(_, held)| held).unwrap_or_default();
    client.with(|state, now, actions| {
        for (place, Errand { request, node, .. }) in (0..).zip(&errands) {
            let held = held.iter().find(|held| held.place == place);
            state.answered(now, (*node, asked, *request), held, actions);
        }
    });
}

async fn give_back(client: Client, returns: Vec<Returned>) {
    let Some(leases) = client.shared.nfs.leases().cloned() else { return };
    let who = client.shared.state().leases.as_ref().map(|leased| leased.who.clone());
    let Some(who) = who else { return };
    // A failure is ignored: a lease that the client cannot return expires.
    let _ = leases.lease(&who, Vec::new(), returns, client.progress()).await;
}

/// Informs the server of the address at which it reaches the client.
pub(super) async fn call_in(client: Client) {
    let who = client.shared.state().leases.as_ref().map(|leased| leased.who.clone());
    if let (Some(leases), Some(who)) = (client.shared.nfs.leases(), who) {
        // A failure is ignored: if the server cannot reach the client, the leases end.
        let _ = leases.lease(&who, Vec::new(), Vec::new(), client.progress()).await;
    }
    if let Some(leased) = &mut client.shared.state().leases {
        leased.calling = false;
    }
}

/// Saves the changes of a node before its lease is returned.
async fn push(client: Client, node: NodeId) {
    loop {
        client.sync_node(node).await;
        // Writes that waited for free space in the cache may have added data meanwhile, so the loop
        // ends only when no unsaved data is left.
        if !client.shared.state().cache.is_unsaved(node.key()) {
            break;
        }
    }
    client.with(|state, now, actions| {
        let Some(leased) = &mut state.leases else { return };
        let object = object_of(node);
        let event = match leased.late.remove(&node) {
            Some(_) => holder::Event::Refused(object),
            None => holder::Event::Pushed(object),
        };
        state.lease(now, event, actions);
    });
}
