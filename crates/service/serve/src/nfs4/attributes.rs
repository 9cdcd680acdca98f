//! The attributes of objects, and the attributes that clients may set.

use leasehold_base::limits::TRANSFER_BYTES_MAX;
use leasehold_base::limits::sessions::LEASE;
use leasehold_fs::{self as fs, Properties, Space};
use leasehold_wire::nfs4::{
    self as wire, Attribute, Attributes, Bitmap, Device, FileSystemId, Handle, OwnerName,
};

use super::convert;

/// The attributes that the server supports on all objects.
const SUPPORTED: &[Attribute] = &[
    Attribute::Supported,
    Attribute::FileType,
    Attribute::HandleExpiry,
    Attribute::Change,
    Attribute::Size,
    Attribute::LinkSupport,
    Attribute::SymlinkSupport,
    Attribute::NamedAttributes,
    Attribute::FileSystem,
    Attribute::UniqueHandles,
    Attribute::LeaseSeconds,
    Attribute::ReadError,
    Attribute::AclSupport,
    Attribute::CanSetTime,
    Attribute::CaseInsensitive,
    Attribute::CasePreserving,
    Attribute::ChownRestricted,
    Attribute::Handle,
    Attribute::FileId,
    Attribute::FilesAvailable,
    Attribute::FilesFree,
    Attribute::FilesTotal,
    Attribute::Homogeneous,
    Attribute::FileBytesMax,
    Attribute::LinkMax,
    Attribute::NameBytesMax,
    Attribute::ReadBytesMax,
    Attribute::WriteBytesMax,
    Attribute::Mode,
    Attribute::RefusesLongNames,
    Attribute::LinkCount,
    Attribute::Owner,
    Attribute::OwnerGroup,
    Attribute::Device,
    Attribute::SpaceAvailable,
    Attribute::SpaceFree,
    Attribute::SpaceTotal,
    Attribute::SpaceUsed,
    Attribute::Accessed,
    Attribute::SetAccessed,
    Attribute::TimeStep,
    Attribute::Changed,
    Attribute::Modified,
    Attribute::SetModified,
    Attribute::MountedOnFileId,
    Attribute::SupportedExclusive,
];

/// The attributes of minor version 2 that the server supports as well.
const SUPPORTED_SINCE_2: &[Attribute] = &[Attribute::ModeUmask, Attribute::XattrSupport];

/// The attributes that SETATTR, CREATE and OPEN accept.
const SETTABLE: &[Attribute] = &[
    Attribute::Size,
    Attribute::Mode,
    Attribute::Owner,
    Attribute::OwnerGroup,
    Attribute::SetAccessed,
    Attribute::SetModified,
];

/// The attributes that an exclusive creation accepts. A store may keep the verifier of the creation
/// in the times of the file, so the client sets times by a later SETATTR.
const SETTABLE_EXCLUSIVE: &[Attribute] =
    &[Attribute::Mode, Attribute::Owner, Attribute::OwnerGroup];

/// The attributes that need a query of the space of the file system.
const OF_SPACE: &[Attribute] = &[
    Attribute::FilesAvailable,
    Attribute::FilesFree,
    Attribute::FilesTotal,
    Attribute::SpaceAvailable,
    Attribute::SpaceFree,
    Attribute::SpaceTotal,
];

/// Attributes that clients may write and not read (RFC 8881 5.6).
const WRITE_ONLY: &[Attribute] =
    &[Attribute::SetAccessed, Attribute::SetModified, Attribute::ModeUmask];

/// Returns the supported attributes of a minor version.
pub(super) fn supported(minor: u32) -> Bitmap {
    let all = Bitmap::of(SUPPORTED);
    if minor < 2 { all } else { all.or(&Bitmap::of(SUPPORTED_SINCE_2)) }
}

/// Returns the attributes that clients may set.
pub(super) fn settable(minor: u32) -> Bitmap {
    let mut settable = Bitmap::of(SETTABLE);
    if minor >= 2 {
        settable.insert(Attribute::ModeUmask);
    }
    settable
}

/// Returns the attributes that an exclusive creation sets.
pub(super) fn settable_exclusive() -> Bitmap {
    Bitmap::of(SETTABLE_EXCLUSIVE)
}

/// Returns true if a request has an attribute that clients may only write.
pub(super) fn has_write_only(requested: &Bitmap) -> bool {
    WRITE_ONLY.iter().any(|attribute| requested.has(*attribute))
}

/// Returns true if a request needs the space of the file system.
pub(super) fn needs_space(requested: &Bitmap) -> bool {
    OF_SPACE.iter().any(|attribute| requested.has(*attribute))
}

/// An object with all the values from which its attributes derive.
pub(super) struct Object<'a> {
    pub(super) minor: u32,
    pub(super) attributes: &'a fs::Attributes,
    pub(super) change: wire::ChangeId,
    pub(super) properties: &'a Properties,
    pub(super) space: Option<Space>,
    pub(super) file_system: FileSystemId,
    pub(super) handle: Handle,
    /// The number of the place of the object: differs from its file id at the root of an export.
    pub(super) mounted_on: leasehold_base::units::FileId,
    pub(super) transfer_bytes_max: u32,
    /// True if the object can have extended attributes.
    pub(super) has_xattrs: bool,
    pub(super) owner: &'a str,
    pub(super) group: &'a str,
}

impl<'a> Object<'a> {
    /// Returns the values of the attributes that the client requested, and of some others.
    pub(super) fn values(&self) -> Attributes<'a> {
        let fs::Attributes { mode, link_count, size, used, device, .. } = *self.attributes;
        let Properties { file_bytes_max, name_bytes_max, link_max, .. } = *self.properties;
        let space = self.space;
        Attributes {
            supported: Some(supported(self.minor)),
            file_type: Some(convert::file_type(self.attributes.file_type)),
            handle_expiry: Some(0),
            change: Some(self.change),
            size: Some(size),
            link_support: Some(self.properties.links),
            symlink_support: Some(self.properties.symlinks),
            named_attributes: Some(false),
            file_system: Some(self.file_system),
            // One object can have several handles: with another path below a mount point.
            unique_handles: Some(false),
            lease_seconds: Some(u32::try_from(LEASE.as_secs()).unwrap_or(u32::MAX)),
            acl_support: Some(0),
            can_set_time: Some(self.properties.can_set_time),
            case_insensitive: Some(self.properties.case_insensitive),
            case_preserving: Some(true),
            chown_restricted: Some(self.properties.chown_restricted),
            handle: Some(self.handle),
            file_id: Some(self.attributes.file_id),
            files_available: space.map(|space| space.available_files),
            files_free: space.map(|space| space.free_files),
            files_total: space.map(|space| space.files),
            homogeneous: Some(true),
            file_bytes_max: Some(file_bytes_max),
            link_max: Some(link_max),
            name_bytes_max: Some(name_bytes_max),
            read_bytes_max: Some(u64::from(self.transfer_bytes_max.min(TRANSFER_BYTES_MAX))),
            write_bytes_max: Some(u64::from(self.transfer_bytes_max.min(TRANSFER_BYTES_MAX))),
            mode: Some(mode.bits()),
            refuses_long_names: Some(true),
            link_count: Some(link_count),
            owner: Some(OwnerName(self.owner.as_bytes())),
            owner_group: Some(OwnerName(self.group.as_bytes())),
            device: Some(Device { major: device.major, minor: device.minor }),
            space_available: space.map(|space| space.available_bytes),
            space_free: space.map(|space| space.free_bytes),
            space_total: space.map(|space| space.bytes),
            space_used: Some(used),
            accessed: Some(self.attributes.accessed.into()),
            time_step: Some(convert::time_step(self.properties.time_step)),
            changed: Some(self.attributes.changed.into()),
            modified: Some(self.attributes.modified.into()),
            mounted_on_file_id: Some(self.mounted_on),
            supported_exclusive: Some(settable_exclusive()),
            xattr_support: (self.minor >= 2).then_some(self.has_xattrs),
            ..Attributes::default()
        }
    }
}

/// Returns the attributes of a directory above the exports.
pub(super) fn of_node<'a>(
    minor: u32,
    file_id: leasehold_base::units::FileId,
    handle: Handle,
) -> Attributes<'a> {
    let time = wire::Time::default();
    Attributes {
        supported: Some(supported(minor)),
        file_type: Some(wire::FileType::Directory),
        handle_expiry: Some(0),
        change: Some(wire::ChangeId(1)),
        size: Some(0),
        link_support: Some(false),
        symlink_support: Some(false),
        named_attributes: Some(false),
        file_system: Some(FileSystemId { major: 0, minor: 0 }),
        unique_handles: Some(true),
        lease_seconds: Some(u32::try_from(LEASE.as_secs()).unwrap_or(u32::MAX)),
        acl_support: Some(0),
        can_set_time: Some(false),
        case_insensitive: Some(false),
        case_preserving: Some(true),
        chown_restricted: Some(true),
        handle: Some(handle),
        file_id: Some(file_id),
        files_available: Some(0),
        files_free: Some(0),
        files_total: Some(0),
        homogeneous: Some(true),
        file_bytes_max: Some(0),
        link_max: Some(1),
        name_bytes_max: Some(255),
        read_bytes_max: Some(u64::from(TRANSFER_BYTES_MAX)),
        write_bytes_max: Some(u64::from(TRANSFER_BYTES_MAX)),
        mode: Some(0o555),
        refuses_long_names: Some(true),
        link_count: Some(2),
        owner: Some(OwnerName(b"0")),
        owner_group: Some(OwnerName(b"0")),
        device: Some(Device::default()),
        space_available: Some(0),
        space_free: Some(0),
        space_total: Some(0),
        space_used: Some(0),
        accessed: Some(time),
        time_step: Some(wire::Time { seconds: 0, nanoseconds: 1 }),
        changed: Some(time),
        modified: Some(time),
        mounted_on_file_id: Some(file_id),
        supported_exclusive: Some(settable_exclusive()),
        xattr_support: (minor >= 2).then_some(false),
        ..Attributes::default()
    }
}
