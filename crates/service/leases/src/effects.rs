//! The actions of a step, which the owner performs after it has released the mutexes.

use std::collections::BTreeMap;

use futures_channel::oneshot;
use leasehold_base::units::Time;
use leasehold_core::leases::clients::Name;
use leasehold_core::leases::table::{self, Charge, Run};
use leasehold_core::leases::{Client, Object, Serial, Ticket};
use leasehold_fs::{ExportId, ObjectId};

use crate::list::ListWrite;
use crate::programs::Program;

/// The actions of a step.
#[derive(Default)]
pub(crate) struct Effects {
    pub(crate) evictions: BTreeMap<Client, Vec<Eviction>>,
    pub(crate) inquiries: Vec<Inquiry>,
    /// Calls that waited, with their results.
    pub(crate) settled: Vec<Settled>,
    /// Lease requests that waited for the stable list, each with true if the call may request
    /// leases.
    pub(crate) admitted: Vec<(oneshot::Sender<bool>, bool)>,
    /// Local programs that may continue, each with the object and the ticket of its call in the
    /// lease table. The call ends when the program has continued.
    pub(crate) freed: Vec<(Program, Option<(Object, Ticket)>)>,
    /// The charges of clients, each with the shard that has recorded it.
    pub(crate) charges: Vec<(usize, Charge)>,
    /// The events of the registry for the lease tables of all shards.
    pub(crate) events: Vec<table::Event>,
    /// The clients that the stable list contains.
    pub(crate) listed: Vec<Client>,
    /// The clients that the registry has forgotten.
    pub(crate) forgotten: Vec<(Name, Client)>,
    /// A write of the stable list.
    pub(crate) list: Option<ListWrite>,
    /// The time of the next action of the parts that the step has visited.
    pub(crate) next: Option<Time>,
}

/// The recall of a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Eviction {
    pub(crate) object: Object,
    pub(crate) serial: Serial,
    /// The export and the object id by which the client knows the object.
    pub(crate) name: Option<(ExportId, ObjectId)>,
}

/// The request for a report from the holder of a write lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inquiry {
    pub(crate) client: Client,
    pub(crate) object: Object,
    pub(crate) serial: Serial,
    /// The round of inquiries, which the report repeats.
    pub(crate) round: u64,
    /// The export and the object id by which the client knows the object.
    pub(crate) name: Option<(ExportId, ObjectId)>,
}

/// A call whose wait has ended.
pub(crate) struct Settled {
    pub(crate) object: Object,
    pub(crate) ticket: Ticket,
    pub(crate) sender: oneshot::Sender<Option<Run>>,
    pub(crate) run: Option<Run>,
}

impl Effects {
    /// Records the time of the next action of a part.
    pub(crate) fn next_at(&mut self, next: Option<Time>) {
        self.next = self.next.into_iter().chain(next).min();
    }
}
