//! Written data that the server refused after the program's write had returned: the client hands
//! the data to a rescuer, which can keep it.

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
    /// The names from the root to the file, as they were last seen; `None` if one of them is
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
    /// The data was made from an earlier state of its file, which another writer has changed since.
    Late {
        /// The revision of the file that the data was made from.
        made_from: u64,
        /// The revision that the file had when the data was refused.
        found: u64,
    },
    /// The call failed, for example because the disk is full.
    Failed(Error),
}

/// Keeps the data that the server refused.
pub trait Rescuer: Send + Sync {
    /// Keeps the data. A program learns of the refusal only afterwards.
    fn rescue(&self, refused: &Refused);
}

impl Client {
    /// Sets the rescuer that keeps the written data that the server refuses.
    pub fn rescue_by(&self, rescuer: Arc<dyn Rescuer>) {
        self.shared.state().refusals.rescuer = Some(rescuer);
    }

    /// Hands over refused data. The client holds no lock meanwhile: the rescuer writes to a disk.
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
