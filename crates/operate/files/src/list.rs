//! Lists the objects in a directory.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, stream};
use leasehold_session as session;
use leasehold_session::nfs::Place;

use crate::server::is_name;
use crate::{Error, Remote};

/// The maximum number of names in one directory: a malicious server may list names without end.
const NAMES_MAX: usize = 1 << 20;

/// Lists the objects in a directory. If the server returns no attributes with the names, requests
/// the attributes in parallel, at most `in_flight` at a time. An object may fail alone, if it was
/// removed meanwhile.
///
/// # Errors
/// The directory cannot be listed, or its listing does not end.
pub async fn entries(
    directory: &Remote,
    in_flight: usize,
) -> Result<Vec<(Vec<u8>, Result<Remote, session::Error>)>, Error> {
    let (nfs, who) = (directory.nfs(), &directory.who);
    let bytes = directory.mounted.bounds.directory_bytes;
    let mut all = Vec::new();
    let (mut count, mut seen) = (0, BTreeSet::new());
    let mut from = Some(Place::default());
    while let Some(place) = from {
        let listed = nfs.list(who, &directory.handle, place, bytes, true).await?.done()?;
        from = listed.next();
        count += listed.entries.len();
        let comes_back = from.is_some_and(|next| !seen.insert(next.cookie));
        if count > NAMES_MAX || comes_back {
            return Err(Error::Endless);
        }
        let named = listed.entries.into_iter().filter(|entry| is_name(&entry.name));
        let objects = stream::iter(named).map(|entry| async move {
            let object = match entry.object {
                Some(object) => directory.known(object, entry.attributes).await,
                None => directory.child(&entry.name).await,
            };
            (entry.name.to_vec(), object)
        });
        all.extend(objects.buffered(in_flight).collect::<Vec<_>>().await);
    }
    Ok(all)
}
