//! The front end of versions 4.1 and 4.2, with the stable records of its clients.

use std::path::Path;
use std::sync::Arc;

use leasehold_serve::{HandleKey, Nfs4, NfsVersions, Service};
use leasehold_shell::{Pool, StableClients, clock};

use crate::failure::{Failure, Kind};

/// Creates the front end of version 4 over a service with leases, if the server serves the version.
/// `last_epoch` is the epoch of the previous server in this state directory. If clients of the
/// previous server may reclaim opens and locks, the grace period begins.
///
/// # Errors
/// The client records are not readable.
pub(crate) fn begin(
    service: &Arc<Service>,
    (key, versions): (HandleKey, NfsVersions),
    (state, last_epoch): (&Path, u64),
) -> Result<Option<Arc<Nfs4>>, Failure> {
    if !versions.has_v4() {
        return Ok(None);
    }
    let pool = Pool::own()
        .map_err(|error| Kind::Running.because(format!("cannot start to serve: {error}")))?;
    // Each start of the server has a greater epoch, and the first epoch is 1.
    let epoch = service.lease_view(0).epoch.max(1);
    let opened = StableClients::open(state, Arc::new(pool), (last_epoch, epoch));
    let (stable, records) = opened.map_err(|error| {
        Kind::State.because(format!(
            "{error}: the server would not know clients that may reclaim opens and locks; remove \
             the file if these clients may lose their opens and locks"
        ))
    })?;
    let stable = (records, Arc::new(stable) as _);
    let nfs4 = Nfs4::restarted(Arc::clone(service), key, stable, clock::now());
    nfs4.time_by(clock::now);
    Ok(Some(Arc::new(nfs4)))
}
