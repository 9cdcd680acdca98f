//! The client of MOUNT, which returns the first handle (RFC 1813 appendix I, RFC 1094 appendix A).

use bytes::Bytes;
use leasehold_base::xdr::{Encode, Reader};
use leasehold_core::calls::Weight;
use leasehold_wire::mount::{self, Path, export, mnt, umnt};
use leasehold_wire::nfs2;
use leasehold_wire::nfs3::Handle;

use crate::call::Results;
use crate::credential::Credential;
use crate::error::Error;
use crate::nfs::Version;
use crate::session::{Procedure, Session};

/// A directory that clients can mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The directory.
    pub directory: Bytes,
    /// The clients that may mount the directory; all clients if the list is empty.
    pub groups: Vec<Bytes>,
}

/// Returns the version of MOUNT that belongs to a version of NFS.
#[must_use]
pub const fn version_for(version: Version) -> u32 {
    match version {
        Version::V2 => mount::VERSION_1,
        Version::V3 => mount::VERSION_3,
    }
}

/// Returns the handle of a directory for a version of NFS, or the status of the failure.
///
/// # Errors
/// An error if the call failed.
pub async fn mount(
    session: &Session,
    who: &Credential,
    version: Version,
    path: &[u8],
) -> Result<Result<Handle, mnt::Status>, Error> {
    let results = call(session, who, version, mnt::NUMBER, &Path(path)).await?;
    let mut reader = Reader::new(results.bytes());
    match (reader.u32().map_err(Error::Garbled)?, version) {
        (0, Version::V2) => results_of::<nfs2::Handle>(&mut reader).map(|of| Ok(of.0.into())),
        (0, Version::V3) => results_of::<Handle>(&mut reader).map(Ok),
        // Versions 1 and 2 return Unix error numbers; most statuses of version 3 are equal.
        (word, _) => {
            let known = mnt::Status::ALL.iter().find(|status| **status as u32 == word);
            Ok(Err(known.copied().unwrap_or(mnt::Status::Io)))
        }
    }
}

fn results_of<'a, T: leasehold_base::xdr::Decode<'a>>(reader: &mut Reader<'a>) -> Result<T, Error> {
    T::decode(reader).map_err(Error::Garbled)
}

/// Returns the exports of the server.
///
/// # Errors
/// An error if the call failed.
pub async fn exports(
    session: &Session,
    who: &Credential,
    version: Version,
) -> Result<Vec<Export>, Error> {
    let results = call(session, who, version, export::NUMBER, &()).await?;
    let list: export::Reply<'_> = results.read()?;
    let share = |part: &[u8]| results.bytes().slice_ref(part);
    let own = |entry: &export::Entry<'_>| Export {
        directory: share(entry.directory.0),
        groups: entry.groups.0.iter().map(|group| share(group.0)).collect(),
    };
    Ok(list.0.iter().map(own).collect())
}

/// Reports to the server that a directory is no longer mounted; the server only updates its list of
/// mounts.
///
/// # Errors
/// An error if the call failed.
pub async fn unmount(
    session: &Session,
    who: &Credential,
    version: Version,
    path: &[u8],
) -> Result<(), Error> {
    call(session, who, version, umnt::NUMBER, &Path(path)).await.map(drop)
}

async fn call(
    session: &Session,
    who: &Credential,
    version: Version,
    number: u32,
    args: &impl Encode,
) -> Result<Results, Error> {
    let (program, version) = (mount::PROGRAM, version_for(version));
    let procedure = Procedure { program, version, number, weight: Weight::Light };
    session.call(who, procedure, args).await
}
