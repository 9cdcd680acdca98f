//! Operations on the current file handle, and on the security of names.

use leasehold_base::xdr::{Encode, Writer};
use leasehold_fs::{ExportId, FileType, FsError, Name, ObjectId, Step as Component, ops};
use leasehold_wire::nfs4::{self as wire, Flavor, Handle, Status, secinfo_no_name};
use leasehold_wire::rpc::flavor;

use super::compound::{Compound, Cursor, Place};
use super::convert;
use super::pseudo::{NodeId, Pseudo, Step};
use leasehold_leases::Opened;

/// The security flavours in the order of preference.
const FLAVORS: [Flavor<'_>; 2] = [Flavor::Plain(flavor::SYS), Flavor::Plain(flavor::NONE)];

/// The list of security flavours, as a result.
pub(super) struct Flavors;

impl Encode for Flavors {
    fn encode(&self, writer: &mut Writer) {
        let count = u32::try_from(FLAVORS.len()).expect("there are two");
        count.encode(writer);
        FLAVORS.iter().for_each(|flavor| flavor.encode(writer));
    }
}

pub(super) async fn putfh(compound: &mut Compound, handle: Handle) -> Result<(), Status> {
    let service = &compound.context.service;
    let opened = service.handles.open_any(handle.as_bytes()).map_err(convert::status)?;
    let place = match opened {
        Opened::Node(node) => compound.place_of_node(NodeId(node)).ok_or(Status::Stale)?,
        Opened::Object(export, object) => Place::Object(export, object),
    };
    compound.go_to(place);
    Ok(())
}

pub(super) async fn putrootfh(compound: &mut Compound, (): ()) -> Result<(), Status> {
    let place = compound.place_of(&compound.pseudo().root());
    compound.go_to(place);
    Ok(())
}

pub(super) async fn getfh(compound: &mut Compound, (): ()) -> Result<Handle, Status> {
    Ok(compound.handle_of(compound.place()?))
}

pub(super) async fn savefh(compound: &mut Compound, (): ()) -> Result<(), Status> {
    compound.saved = Some(compound.current.ok_or(Status::NoFileHandle)?);
    Ok(())
}

pub(super) async fn restorefh(compound: &mut Compound, (): ()) -> Result<(), Status> {
    compound.current = Some(compound.saved.ok_or(Status::NoSavedHandle)?);
    Ok(())
}

pub(super) async fn lookup(compound: &mut Compound, name: wire::Name<'_>) -> Result<(), Status> {
    let place = compound.find(name.0).await?;
    compound.go_to(place);
    Ok(())
}

pub(super) async fn lookupp(compound: &mut Compound, (): ()) -> Result<(), Status> {
    let place = compound.parent().await?;
    compound.go_to(place);
    Ok(())
}

/// SECINFO: all names have the same flavours. Consumes the file handle (RFC 8881 2.6.3.1.1.8).
pub(super) async fn secinfo(
    compound: &mut Compound,
    name: wire::Name<'_>,
) -> Result<Flavors, Status> {
    compound.find(name.0).await?;
    compound.current = None;
    Ok(Flavors)
}

pub(super) async fn secinfo_no_name(
    compound: &mut Compound,
    style: secinfo_no_name::Args,
) -> Result<Flavors, Status> {
    match style {
        secinfo_no_name::Args::Current => drop(compound.place()?),
        secinfo_no_name::Args::Parent => drop(compound.parent().await?),
    }
    compound.current = None;
    Ok(Flavors)
}

/// Parses a name that a client looks up, creates or removes.
///
/// # Errors
/// [`Status::Invalid`] for the empty name, [`Status::BadName`] for `.` and `..` (RFC 8881 18.13),
/// [`Status::BadCharacter`] for a slash or NUL.
pub(super) fn name(bytes: &[u8]) -> Result<Name<'_>, Status> {
    match Component::parse(bytes) {
        Ok(Component::Child(name)) => Ok(name),
        Ok(Component::This | Component::Parent) => Err(Status::BadName),
        Err(_) if bytes.is_empty() => Err(Status::Invalid),
        Err(_) => Err(Status::BadCharacter),
    }
}

impl Compound {
    /// Returns the pseudo file system as the client sees it.
    pub(super) fn pseudo(&self) -> Pseudo<'_> {
        Pseudo::new(&self.context.exports, self.context.arrival.from.ip())
    }

    pub(super) fn place_of(&self, step: &Step<'_>) -> Place {
        match step {
            Step::Node(node) => Place::Node(*node),
            Step::Export(offer) => Place::Object(offer.export.id, offer.export.store.root()),
            Step::Top(offer) => Place::Top(offer.export.id, offer.export.store.root()),
        }
    }

    /// Returns the directory of a handle without an object of a store.
    fn place_of_node(&self, node: NodeId) -> Option<Place> {
        let pseudo = self.pseudo();
        match pseudo.top(node) {
            Some(offer) => Some(self.place_of(&Step::Top(offer))),
            None => pseudo.exists(node).then_some(Place::Node(node)),
        }
    }

    pub(super) fn handle_of(&self, place: Place) -> Handle {
        let handles = &self.context.service.handles;
        let handle = match place {
            Place::Node(node) => handles.seal_node(node.0),
            Place::Top(export, _) => handles.seal_node(NodeId::top_of(export).0),
            Place::Object(export, object) => handles.seal(export, &object),
        };
        Handle::new(&handle).expect("a handle of ours has 32 bytes")
    }

    /// Returns the object that a name identifies in the current directory.
    async fn find(&self, bytes: &[u8]) -> Result<Place, Status> {
        let place = self.place()?;
        let name = name(bytes)?;
        let (export, object) = match place {
            Place::Node(node) => {
                let step = self.pseudo().lookup(node, bytes).ok_or(Status::NotFound)?;
                return Ok(self.place_of(&step));
            }
            Place::Top(export, object) | Place::Object(export, object) => (export, object),
        };
        // Rules 1 and 5 of `pseudo`: the paths of the only visible export begin in the root.
        let beside = |whole| match place {
            Place::Top(..) => {
                self.pseudo().beside_root(bytes, whole).map(|step| self.place_of(&step))
            }
            Place::Node(_) | Place::Object(..) => None,
        };
        if let Some(place) = beside(true) {
            return Ok(place);
        }
        let target = self.target_of((export, object)).await?;
        match ops::lookup(&target.request, &object, name.as_bytes()).await {
            Ok(found) => Ok(Place::Object(export, found.object)),
            Err(failed) => {
                match (failed.error, failed.attributes.map(|attributes| attributes.file_type)) {
                    (FsError::NotFound, _) => beside(false).ok_or(Status::NotFound),
                    (FsError::NotDirectory, Some(FileType::Symlink)) => Err(Status::Symlink),
                    (error, _) => Err(convert::status(error)),
                }
            }
        }
    }

    /// Returns the parent of the current directory.
    async fn parent(&self) -> Result<Place, Status> {
        let (export, object) = match self.place()? {
            Place::Node(node) => {
                let parent = self.pseudo().parent(node).ok_or(Status::NotFound)?;
                return Ok(self.place_of(&parent));
            }
            Place::Top(export, object) | Place::Object(export, object) => (export, object),
        };
        let target = self.target_of((export, object)).await?;
        let store = &target.request.export.store;
        if store.identity(&object) == store.identity(&store.root()) {
            let above = self.pseudo().above(export).ok_or(Status::NotFound)?;
            return Ok(self.place_of(&above));
        }
        match ops::lookup(&target.request, &object, b"..").await {
            Ok(found) => Ok(Place::Object(export, found.object)),
            Err(failed) => match failed.attributes.map(|attributes| attributes.file_type) {
                Some(FileType::Symlink) => Err(Status::Symlink),
                _ => Err(convert::status(failed.error)),
            },
        }
    }
}

/// Returns the saved object. Only RESTOREFH reports a missing saved handle by another status (RFC
/// 8881 15.2).
pub(super) fn saved(compound: &Compound) -> Result<(ExportId, ObjectId), Status> {
    match compound.saved {
        Some(Cursor {
            place: Place::Top(export, object) | Place::Object(export, object), ..
        }) => Ok((export, object)),
        Some(Cursor { place: Place::Node(_), .. }) => Err(Status::CrossDevice),
        None => Err(Status::NoFileHandle),
    }
}
