//! Which metaserver a client is told to go by: the least busy of those that serve.

use core::pin::pin;
use core::time::Duration;

use futures_util::future::{Either, join_all, select};

use crate::{Load, Metaserver};

/// How long a metaserver may take to say how busy it is: somebody waits to mount.
const PATIENCE: Duration = Duration::from_secs(1);

impl Metaserver {
    /// The least busy of these that serve, itself where it is among them and no other is less so.
    /// Whoever asks counts as a connection there, until this one is said to be so busy anew: what is
    /// known of the others is as old as that.
    pub async fn least_busy(&self, among: &[u32]) -> Option<u32> {
        let loads = join_all(among.iter().map(|number| self.load_soon(*number))).await;
        let mut node = self.node();
        let (me, is_open) = (node.me().0, node.peers.is_open());
        let known = among.iter().zip(loads).filter_map(|(number, load)| Some((*number, load?)));
        let serving = known.filter(|(number, _)| *number != me || is_open);
        let rank = |&(number, load): &(u32, Load)| {
            let told = node.told.get(&number).copied().unwrap_or_default();
            let connections = load.connections.saturating_add(told);
            (Load { connections, ..load }, number != me, number)
        };
        let (least, _) = serving.min_by_key(rank)?;
        *node.told.entry(least).or_default() += 1;
        drop(node);
        Some(least)
    }

    async fn load_soon(&self, number: u32) -> Option<Load> {
        let end = self.shared.outside.sleep(PATIENCE);
        match select(pin!(self.load_of(number)), end).await {
            Either::Left((load, _)) => load,
            Either::Right(_) => None,
        }
    }
}
