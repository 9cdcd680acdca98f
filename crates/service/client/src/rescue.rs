//! The rescue of written data that the server refused after the program's write had returned: the
//! client passes the data to a [`Rescuer`], which can store it elsewhere.

use std::sync::Arc;

use bytes::Bytes;
use leasehold_session::Error;

use crate::client::Client;
use crate::nodes::NodeId;

/// Written data that the server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The file.
    pub node: NodeId,
    /// The names from the root to the file, as they were last seen; `None` if one of the names is
    /// unknown.
    pub path: Option<Vec<Box<[u8]>>>,
    /// The offset of the data in the file.
    pub offset: u64,
    /// The data.
    pub data: Bytes,
    /// The reason why the server refused the data.
    pub why: Why,
}

/// The reason why the server refused written data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The data is based on an earlier state of the file, which another writer has changed since.
    Late {
        /// The revision of the file on which the data is based.
        made_from: u64,
        /// The revision that the file had when the data was refused.
        found: u64,
    },
    /// The call failed, for example because the disk is full.
    Failed(Error),
}

/// A rescuer: an implementation of the client's owner that stores written data that the server
/// refused, for example in a local directory.
pub trait Rescuer: Send + Sync {
    /// Stores the data. The client reports the refusal to programs only after this method has
    /// returned.
    fn rescue(&self, refused: &Refused);
}

impl Client {
    /// Sets the rescuer, which receives all written data that the server refuses.
    pub fn rescue_by(&self, rescuer: Arc<dyn Rescuer>) {
        self.shared.state().refusals.rescuer = Some(rescuer);
    }

    /// Passes refused data to the rescuer. The caller must not hold the mutex of the state, because
    /// the rescuer may write to a disk.
    pub(crate) fn hand_over(&self, all: &[Refused]) {
        if all.is_empty() {
            return;
        }
        let rescuer = self.shared.state().refusals.rescuer.clone();
        if let Some(rescuer) = rescuer {
            all.iter().for_each(|refused| rescuer.rescue(refused));
        }
    }
}
