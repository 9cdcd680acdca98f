//! Operations on attributes: GETATTR, SETATTR, VERIFY and NVERIFY.

use leasehold_base::units::FileId;
use leasehold_fs::{self as fs, Entry, ExportId, FileType, FsError, ObjectId, Space, ops};
use leasehold_wire::nfs4::{
    Attribute, AttributeError, Attributes, Bitmap, EncodedAttributes, FileSystemId, Status,
    setattr as wire_setattr,
};

use super::attributes::{self, Object};
use super::compound::{Compound, Place};
use super::convert;
use super::opens;
use super::operations::{Encoded, Failed};
use crate::context::Target;

pub(super) use super::attributes::has_write_only;

/// Encodes the requested attributes of some values.
fn select(values: &Attributes<'_>, requested: &Bitmap) -> Encoded {
    Encoded::of(&values.select(*requested))
}

pub(super) async fn getattr(compound: &mut Compound, requested: Bitmap) -> Result<Encoded, Status> {
    if has_write_only(&requested) {
        return Err(Status::Invalid);
    }
    of_place(compound, compound.place()?, &requested).await
}

/// Returns the requested attributes of an object.
pub(super) async fn of_place(
    compound: &Compound,
    place: Place,
    requested: &Bitmap,
) -> Result<Encoded, Status> {
    let (export, object) = match place {
        Place::Node(node) => {
            let handle = compound.handle_of(place);
            let values = attributes::of_node(compound.minor, node.file_id(), handle);
            return Ok(select(&values, requested));
        }
        Place::Top(export, object) | Place::Object(export, object) => (export, object),
    };
    let target = compound.target_of((export, object)).await?;
    let found = if attributes::needs_space(requested) {
        let found = ops::space(&target.request, &object).await;
        found.map(|(space, attributes)| (attributes, Some(space))).map_err(|failed| failed.error)
    } else {
        ops::getattr(&target.request, &object).await.map(|attributes| (attributes, None))
    };
    let (found, space) = found.map_err(convert::status)?;
    Ok(encoded(compound, &target, (&object, &found, space), requested))
}

/// Returns the requested attributes of an entry of a directory. The store leaves out the attributes
/// of a mount point, so the server looks the name up.
pub(super) async fn of_entry(
    compound: &Compound,
    target: &Target<'_>,
    entry: &Entry<'_>,
    requested: &Bitmap,
) -> Result<Encoded, Status> {
    let needed = requested.without(&Bitmap::of(&[Attribute::ReadError]));
    if needed.without(&Bitmap::of(&[Attribute::FileId, Attribute::MountedOnFileId])).is_empty() {
        let values = Attributes {
            file_id: Some(entry.file_id),
            mounted_on_file_id: Some(entry.file_id),
            ..Attributes::default()
        };
        return Ok(select(&values, &needed));
    }
    let space = match attributes::needs_space(&needed) {
        true => {
            let found = ops::space(&target.request, &target.object).await;
            Some(found.map_err(|failed| convert::status(failed.error))?.0)
        }
        false => None,
    };
    if let (Some(object), Some(found)) = (entry.object, entry.attributes) {
        return Ok(encoded(compound, target, (&object, &found, space), &needed));
    }
    let found = ops::lookup(&target.request, &target.object, entry.name).await;
    let found = found.map_err(|failed| convert::status(failed.error))?;
    Ok(encoded(compound, target, (&found.object, &found.attributes, space), &needed))
}

fn encoded(
    compound: &Compound,
    target: &Target<'_>,
    (object, found, space): (&ObjectId, &fs::Attributes, Option<Space>),
    requested: &Bitmap,
) -> Encoded {
    let export = target.request.export;
    let (owner, group) = (convert::owner_name(found.uid), convert::owner_name(found.gid));
    let object_values = Object {
        minor: compound.minor,
        attributes: found,
        change: compound.change(found),
        properties: &export.store.properties(object),
        space,
        file_system: file_system(export.id, found),
        handle: compound.handle_of(Place::Object(export.id, *object)),
        mounted_on: mounted_on(compound, target, object, found),
        transfer_bytes_max: target.offer.transfer_bytes_max(compound.context.arrival.transport()),
        has_xattrs: export.store.capabilities().extended_attributes.is_some(),
        owner: &owner,
        group: &group,
    };
    select(&object_values.values(), requested)
}

/// Returns the file system of an object. Each export has file systems of its own, because a client
/// that sees one file system twice assumes that both places are one.
fn file_system(export: ExportId, found: &fs::Attributes) -> FileSystemId {
    FileSystemId { major: found.file_system.0, minor: u64::from(export.0) + 1 }
}

/// Returns the number of the directory on which an export is mounted, for the root of the export.
fn mounted_on(
    compound: &Compound,
    target: &Target<'_>,
    object: &ObjectId,
    found: &fs::Attributes,
) -> FileId {
    let export = target.request.export;
    let is_root = found.file_type == FileType::Directory
        && export.store.identity(object) == export.store.identity(&export.store.root());
    let pseudo = compound.pseudo();
    let place = is_root.then(|| pseudo.above(export.id).and_then(|_| pseudo.place(export.id)));
    place.flatten().map_or(found.file_id, super::pseudo::NodeId::file_id)
}

/// Decodes attributes that a client sets.
pub(super) fn decode<'a>(
    compound: &Compound,
    encoded: &EncodedAttributes<'a>,
    settable: &Bitmap,
) -> Result<Attributes<'a>, Status> {
    if !encoded.mask.without(&attributes::supported(compound.minor)).is_empty() {
        return Err(Status::AttributeNotSupported);
    }
    if !encoded.mask.without(settable).is_empty() {
        return Err(Status::Invalid);
    }
    Attributes::decode(encoded, settable).map_err(|error| match error {
        AttributeError::NotSupported(_) => Status::AttributeNotSupported,
        AttributeError::BadXdr(_) => Status::BadXdr,
    })
}

pub(super) async fn setattr(
    compound: &mut Compound,
    args: wire_setattr::Args<'_>,
) -> Result<Bitmap, Failed> {
    let failed = |status| Failed::Set(status, Bitmap::EMPTY);
    let settable = attributes::settable(compound.minor);
    let (export, object) = compound.object(Status::ReadOnly).map_err(failed)?;
    let wanted = decode(compound, &args.attributes, &settable).map_err(failed)?;
    let changes = convert::set_attributes(&wanted).map_err(failed)?;
    let target = compound.target_of((export, object)).await.map_err(failed)?;
    if changes.size.is_some() {
        let allowed = opens::may_use(compound, &target, args.stateid, opens::Access::Write).await;
        allowed.map_err(failed)?;
    }
    let changed = ops::setattr(&target.request, &object, &changes, None).await;
    compound.noted(&changed);
    match changed.result {
        Ok(()) => Ok(args.attributes.mask),
        Err(error) => Err(failed(convert::status(error))),
    }
}

pub(super) async fn verify(
    compound: &mut Compound,
    expected: EncodedAttributes<'_>,
) -> Result<(), Status> {
    match are_equal(compound, &expected).await? {
        true => Ok(()),
        false => Err(Status::NotSame),
    }
}

pub(super) async fn nverify(
    compound: &mut Compound,
    expected: EncodedAttributes<'_>,
) -> Result<(), Status> {
    match are_equal(compound, &expected).await? {
        true => Err(Status::Same),
        false => Ok(()),
    }
}

/// Compares the encoded values: equal values have equal encodings, except for owner names with a
/// domain.
async fn are_equal(compound: &Compound, expected: &EncodedAttributes<'_>) -> Result<bool, Status> {
    let place = compound.place()?;
    if has_write_only(&expected.mask) || expected.mask.has(Attribute::ReadError) {
        return Err(Status::Invalid);
    }
    if !expected.mask.without(&attributes::supported(compound.minor)).is_empty() {
        return Err(Status::AttributeNotSupported);
    }
    let found = of_place(compound, place, &expected.mask).await?;
    Ok(found == Encoded::of(expected))
}

/// Returns the error for an object that is not a regular file.
pub(super) const fn not_a_file(file_type: FileType) -> Status {
    match file_type {
        FileType::Directory => Status::IsDirectory,
        FileType::Symlink => Status::Symlink,
        FileType::Regular
        | FileType::BlockDevice
        | FileType::CharacterDevice
        | FileType::Socket
        | FileType::Fifo => Status::WrongType,
    }
}

/// Returns the status of an error of an operation on the data of a file.
pub(super) const fn data_status(error: FsError) -> Status {
    if matches!(error, FsError::Invalid) { Status::WrongType } else { convert::status(error) }
}
