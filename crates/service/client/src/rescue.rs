//! Data that came too late for its file, which others have changed since: the server refused it,
//! and it is handed to who keeps it.

use std::sync::Arc;

use bytes::Bytes;
use leasehold_session::leases::messages::Base;

use crate::client::Client;
use crate::nodes::NodeId;

/// Data that the server refused, as it was made from an earlier state of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// The file.
    pub node: NodeId,
    /// The names that led to it when it was last seen, from the top; none where that is not known.
    pub path: Option<Vec<Box<[u8]>>>,
    /// Where the data belongs.
    pub offset: u64,
    /// The data.
    pub data: Bytes,
    /// The revision of the file that it was made from.
    pub made_from: u64,
    /// The revision that the file had when it was refused.
    pub found: u64,
}

/// Who keeps what was refused.
pub trait Rescuer: Send + Sync {
    /// Keeps it. What wrote it is told only afterwards that it failed.
    fn rescue(&self, late: &Late);
}

impl Client {
    /// Says who keeps what the server refuses because its file was changed since.
    pub fn rescue_by(&self, rescuer: Arc<dyn Rescuer>) {
        if let Some(leased) = &mut self.shared.state().leases {
            leased.rescuer = Some(rescuer);
        }
    }

    pub(crate) fn hand_over(
        &self,
        node: NodeId,
        (offset, data): (u64, &Bytes),
        base: Option<Base>,
        found: u64,
    ) {
        let state = self.shared.state();
        let rescuer = state.leases.as_ref().and_then(|leased| leased.rescuer.clone());
        let path = state.nodes.path(node);
        drop(state);
        if let Some(rescuer) = rescuer {
            let made_from = base.map_or(0, |base| base.modrev);
            rescuer.rescue(&Late { node, path, offset, data: data.clone(), made_from, found });
        }
    }
}
