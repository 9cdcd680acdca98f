//! MOUNT and portmap as cases call them.

use leasehold_base::xdr::{Decode, Encode, Reader};
use leasehold_wire::mount::{Path, dump, export, exportall, mnt, pathconf, umnt, umntall};
use leasehold_wire::outcome::Outcome;
use leasehold_wire::portmap::{Mapping, getport};
use leasehold_wire::{mount, nfs2, portmap};

use crate::answer::Answered;
use crate::case::Stop;
use crate::client::Client;
use crate::talk::{Procedure, procedure_name};
use crate::v3::readable;

/// The procedure of a version and a number of MOUNT.
pub(crate) const fn procedure(version: u32, number: u32) -> Procedure {
    Procedure { program: mount::PROGRAM, version, number }
}

/// The procedure of a version and a number of portmap.
pub(crate) const fn portmap_procedure(version: u32, number: u32) -> Procedure {
    Procedure { program: portmap::PROGRAM, version, number }
}

/// The result of MNT of version 3.
pub(crate) type Mounted = Answered<mnt::Done, mnt::Status, ()>;

/// The result of MNT of versions 1 and 2.
pub(crate) type OldMounted = Answered<nfs2::Handle, mnt::ErrorNumber, ()>;

/// A machine and a directory that it has mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mounting {
    pub(crate) machine: Vec<u8>,
    pub(crate) directory: Vec<u8>,
}

/// A directory and the machines that may mount it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Export {
    pub(crate) directory: Vec<u8>,
    pub(crate) machines: Vec<Vec<u8>>,
}

/// A client of MOUNT.
pub(crate) struct Mount {
    pub(crate) client: Client,
}

impl Mount {
    fn ask<Done, Status>(
        &mut self,
        version: u32,
        path: &[u8],
    ) -> Result<Answered<Done, Status, ()>, Stop>
    where
        Done: for<'a> Decode<'a>,
        Status: for<'a> Decode<'a>,
    {
        let procedure = procedure(version, mnt::NUMBER);
        let results = self.client.call(procedure, &Path(path))?;
        let name = procedure_name(procedure);
        let reply = readable::<Outcome<Done, Status>>(&name, &results)?;
        Ok(Answered::plain(name, reply))
    }

    /// MNT of version 3.
    pub(crate) fn mnt(&mut self, path: impl AsRef<[u8]>) -> Result<Mounted, Stop> {
        self.ask(mount::VERSION_3, path.as_ref())
    }

    /// MNT of versions 1 and 2.
    pub(crate) fn old_mnt(
        &mut self,
        version: u32,
        path: impl AsRef<[u8]>,
    ) -> Result<OldMounted, Stop> {
        self.ask(version, path.as_ref())
    }

    /// Makes a call whose results the caller reads.
    fn results<T>(
        &mut self,
        version: u32,
        number: u32,
        args: &impl Encode,
        read: impl FnOnce(&str, &bytes::Bytes) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let procedure = procedure(version, number);
        let results = self.client.call(procedure, args)?;
        read(&procedure_name(procedure), &results)
    }

    pub(crate) fn umnt(&mut self, version: u32, path: impl AsRef<[u8]>) -> Result<(), Stop> {
        self.results(version, umnt::NUMBER, &Path(path.as_ref()), |name, b| readable(name, b))
    }

    pub(crate) fn umntall(&mut self, version: u32) -> Result<(), Stop> {
        self.results(version, umntall::NUMBER, &(), |name, bytes| readable(name, bytes))
    }

    /// Returns the list of mounts.
    pub(crate) fn dump(&mut self, version: u32) -> Result<Vec<Mounting>, Stop> {
        self.results(version, dump::NUMBER, &(), |name, bytes| {
            let list = readable::<dump::Reply<'_>>(name, bytes)?;
            let mounting = |entry: &dump::Entry<'_>| Mounting {
                machine: entry.host.0.to_vec(),
                directory: entry.directory.0.to_vec(),
            };
            Ok(list.0.iter().map(mounting).collect())
        })
    }

    /// Returns the exports, by EXPORT.
    pub(crate) fn exports(&mut self, version: u32) -> Result<Vec<Export>, Stop> {
        self.results(version, export::NUMBER, &(), exports_of)
    }

    /// Returns the exports, by EXPORTALL.
    pub(crate) fn exports_all(&mut self, version: u32) -> Result<Vec<Export>, Stop> {
        self.results(version, exportall::NUMBER, &(), exports_of)
    }

    pub(crate) fn pathconf(&mut self, path: impl AsRef<[u8]>) -> Result<pathconf::Reply, Stop> {
        let path = Path(path.as_ref());
        self.results(mount::VERSION_2, pathconf::NUMBER, &path, |name, bytes| readable(name, bytes))
    }
}

fn exports_of(name: &str, bytes: &bytes::Bytes) -> Result<Vec<Export>, Stop> {
    let list = readable::<export::Reply<'_>>(name, bytes)?;
    let export = |entry: &export::Entry<'_>| Export {
        directory: entry.directory.0.to_vec(),
        machines: entry.groups.0.iter().map(|name| name.0.to_vec()).collect(),
    };
    Ok(list.0.iter().map(export).collect())
}

/// Returns the port of a program by portmap; zero for none.
pub(crate) fn port_of(
    client: &mut Client,
    program: u32,
    version: u32,
    protocol: u32,
) -> Result<u32, Stop> {
    let procedure = portmap_procedure(portmap::VERSION, getport::NUMBER);
    let results = client.call(procedure, &Mapping { program, version, protocol, port: 0 })?;
    getport::Reply::decode(&mut Reader::new(&results))
        .map_err(|error| Stop::fail(format!("the reply to GETPORT is malformed: {error}")))
}
