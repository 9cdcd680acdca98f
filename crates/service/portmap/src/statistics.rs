//! The counters of GETSTAT.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use leasehold_base::xdr::{Encode as _, Writer};
use leasehold_wire::list::List;
use leasehold_wire::portmap::rpcbind::Text;
use leasehold_wire::portmap::rpcbind::getstat::{
    Addressed, Called, Counts, Reply, Statistics as Wire,
};
use leasehold_wire::portmap::{ForwardedCall, VERSION};

use crate::binding::Network;
use crate::request::Request;

/// The largest number of programs, and of procedures, with their own counters in each version.
/// Callers may invent numbers, so the server ignores further ones.
const KINDS_MAX: usize = 32;

/// The counters of each version of this program, from version 2 on.
#[derive(Default)]
pub(crate) struct Statistics(Mutex<[Counted; 3]>);

#[derive(Default)]
struct Counted {
    calls: Counts,
    searches: BTreeMap<Search, Outcomes>,
    forwards: BTreeMap<Forward, Outcomes>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Search {
    program: u32,
    version: u32,
    network: Network,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Forward {
    program: u32,
    version: u32,
    procedure: u32,
    network: Network,
}

#[derive(Clone, Copy, Default)]
struct Outcomes {
    success: u32,
    failure: u32,
    indirect: u32,
}

/// Counts an outcome of a kind if the kind has a counter or there is room for a new one.
fn count<K: Ord>(kinds: &mut BTreeMap<K, Outcomes>, kind: K, succeeded: bool, indirect: bool) {
    if kinds.len() < KINDS_MAX || kinds.contains_key(&kind) {
        let outcomes = kinds.entry(kind).or_default();
        let outcome = if succeeded { &mut outcomes.success } else { &mut outcomes.failure };
        *outcome = outcome.wrapping_add(1);
        outcomes.indirect = outcomes.indirect.wrapping_add(indirect.into());
    }
}

impl Statistics {
    /// Counts a call of an existing procedure.
    pub(crate) fn call(&self, version: u32, procedure: u32) {
        self.with(version, |counted| {
            if let Some(count) = counted.calls.0.get_mut(procedure as usize) {
                *count = count.wrapping_add(1);
            }
        });
    }

    /// Counts a search for a program.
    pub(crate) fn search(&self, request: &Request<'_>, program: u32, version: u32, found: bool) {
        let search = Search { program, version, network: request.asked.network() };
        self.with(request.version, |counted| count(&mut counted.searches, search, found, false));
    }

    /// Counts a forwarded call.
    pub(crate) fn forward(
        &self,
        request: &Request<'_>,
        call: &ForwardedCall<'_>,
        indirect: bool,
        called: bool,
    ) {
        let ForwardedCall { program, version, procedure, .. } = *call;
        let network = request.asked.network();
        let forward = Forward { program, version, procedure, network };
        self.with(request.version, |counted| {
            count(&mut counted.forwards, forward, called, indirect);
        });
    }

    /// Encodes all counters as the results of GETSTAT.
    pub(crate) fn encode(&self, writer: &mut Writer) {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let [version_2, version_3, version_4] = counted.each_ref().map(Counted::wire);
        Reply { version_2, version_3, version_4 }.encode(writer);
    }

    fn with(&self, version: u32, change: impl FnOnce(&mut Counted)) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = version.checked_sub(VERSION).map(|place| place as usize);
        if let Some(counted) = place.and_then(|place| counted.get_mut(place)) {
            change(counted);
        }
    }
}

impl Counted {
    fn wire(&self) -> Wire<'_> {
        let addressed = |(search, outcomes): (&Search, &Outcomes)| Addressed {
            program: search.program,
            version: search.version,
            success: outcomes.success,
            failure: outcomes.failure,
            network: Text(search.network.name().as_bytes()),
        };
        let called = |(forward, outcomes): (&Forward, &Outcomes)| Called {
            program: forward.program,
            version: forward.version,
            procedure: forward.procedure,
            success: outcomes.success,
            failure: outcomes.failure,
            indirect: outcomes.indirect,
            network: Text(forward.network.name().as_bytes()),
        };
        Wire {
            calls: self.calls,
            // SET and UNSET never succeed.
            set: 0,
            unset: 0,
            addressed: List(self.searches.iter().map(addressed).collect()),
            called: List(self.forwards.iter().map(called).collect()),
        }
    }
}
