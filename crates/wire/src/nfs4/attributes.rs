//! Values of attributes.
//!
//! A message contains a bitmap and then the values in the order of their numbers, which only a
//! decoder that knows all of them can separate. [`EncodedAttributes`] keeps them as they arrived;
//! [`Attributes`] has a field for each attribute that this project can serve.

use leasehold_base::units::FileId;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};

use super::attribute_types::{
    ChangeKind, ChangePolicy, LayoutTypes, ModeMasked, ModeUmask, OpenArguments, SetTime, Time,
};
use super::{
    Acl, Attribute, Bitmap, ChangeId, Completion, Device, EncodedAttributes, FileSystemId,
    FileType, FlaggedAcl, FsLocations, Handle, OwnedAttributes, OwnerName,
};

/// Declares the structure with a field for each attribute, and the choice of a field by number.
macro_rules! attributes {
    (
        untyped: $untyped:pat,
        $($(#[$attribute:meta])* $field:ident: $type:ty = $variant:ident,)*
    ) => {
        /// The values of some attributes.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Attributes<'a> {
            $($(#[$attribute])* pub $field: Option<$type>,)*
        }

        /// The attributes with a field in [`Attributes`].
        const TYPED: &[Attribute] = &[$(Attribute::$variant,)*];

        impl<'a> Attributes<'a> {
            /// Returns the attributes with a value.
            #[must_use]
            pub fn present(&self) -> Bitmap {
                let mut present = Bitmap::EMPTY;
                $(
                    if self.$field.is_some() {
                        present.insert(Attribute::$variant);
                    }
                )*
                present
            }

            fn encode_value(&self, attribute: Attribute, writer: &mut Writer) {
                match attribute {
                    $(Attribute::$variant => {
                        if let Some(value) = &self.$field {
                            value.encode(writer);
                        }
                    })*
                    $untyped => {}
                }
            }

            fn decode_value(
                &mut self,
                attribute: Attribute,
                reader: &mut Reader<'a>,
            ) -> Result<(), AttributeError> {
                match attribute {
                    $(Attribute::$variant => self.$field = Some(Decode::decode(reader)?),)*
                    $untyped => return Err(AttributeError::NotSupported(attribute.into())),
                }
                Ok(())
            }
        }
    };
}

attributes! {
    untyped: Attribute::MimeType
        | Attribute::Sacl
        | Attribute::FsStatus
        | Attribute::LayoutHint
        | Attribute::FsLocationsInfo
        | Attribute::MdsThreshold
        | Attribute::RetentionGet
        | Attribute::RetentionSet
        | Attribute::RetentionEventGet
        | Attribute::RetentionEventSet
        | Attribute::RetentionHold
        | Attribute::SecurityLabel,
    /// The attributes that the file system supports.
    supported: Bitmap = Supported,
    /// The type of the object.
    file_type: FileType = FileType,
    /// The reasons for which handles expire; zero if they never do.
    handle_expiry: u32 = HandleExpiry,
    /// The number that differs after each change.
    change: ChangeId = Change,
    /// The size in bytes.
    size: u64 = Size,
    /// True if an object may have several names.
    link_support: bool = LinkSupport,
    /// True if symbolic links can exist.
    symlink_support: bool = SymlinkSupport,
    /// True if the object has named attributes.
    named_attributes: bool = NamedAttributes,
    /// The file system.
    file_system: FileSystemId = FileSystem,
    /// True if two handles never denote one object.
    unique_handles: bool = UniqueHandles,
    /// The term of a client's lease, in seconds.
    lease_seconds: u32 = LeaseSeconds,
    /// In a listing, the error that prevented other attributes.
    read_error: Completion = ReadError,
    /// The access control list of version 4.0.
    acl: Acl<'a> = Acl,
    /// The kinds of supported entries of access control lists.
    acl_support: u32 = AclSupport,
    /// True if the file has been archived.
    archive: bool = Archive,
    /// True if times can be set.
    can_set_time: bool = CanSetTime,
    /// True if names that differ in case are equal.
    case_insensitive: bool = CaseInsensitive,
    /// True if names keep their case.
    case_preserving: bool = CasePreserving,
    /// True if only a privileged user may change owners.
    chown_restricted: bool = ChownRestricted,
    /// The handle.
    handle: Handle = Handle,
    /// The number within the file system.
    file_id: FileId = FileId,
    /// The number of objects that the caller can make.
    files_available: u64 = FilesAvailable,
    /// The number of free objects.
    files_free: u64 = FilesFree,
    /// The number of objects that the file system can have.
    files_total: u64 = FilesTotal,
    /// The servers of the file system.
    locations: FsLocations<'a> = Locations,
    /// True if the file is hidden.
    hidden: bool = Hidden,
    /// True if all objects have equal limits.
    homogeneous: bool = Homogeneous,
    /// The largest size of a file, in bytes.
    file_bytes_max: u64 = FileBytesMax,
    /// The largest number of names of an object.
    link_max: u32 = LinkMax,
    /// The longest name, in bytes.
    name_bytes_max: u32 = NameBytesMax,
    /// The largest READ, in bytes.
    read_bytes_max: u64 = ReadBytesMax,
    /// The largest WRITE, in bytes.
    write_bytes_max: u64 = WriteBytesMax,
    /// The permission bits.
    mode: u32 = Mode,
    /// True if too long a name is an error.
    refuses_long_names: bool = RefusesLongNames,
    /// The number of names.
    link_count: u32 = LinkCount,
    /// The owner.
    owner: OwnerName<'a> = Owner,
    /// The owning group.
    owner_group: OwnerName<'a> = OwnerGroup,
    /// The bytes until the caller's hard quota.
    quota_available_hard: u64 = QuotaAvailableHard,
    /// The bytes until the caller's soft quota.
    quota_available_soft: u64 = QuotaAvailableSoft,
    /// The bytes that count against the quota.
    quota_used: u64 = QuotaUsed,
    /// The device of a device special file.
    device: Device = Device,
    /// The bytes that the caller can still use.
    space_available: u64 = SpaceAvailable,
    /// The free bytes.
    space_free: u64 = SpaceFree,
    /// The bytes of the file system.
    space_total: u64 = SpaceTotal,
    /// The bytes that the object occupies.
    space_used: u64 = SpaceUsed,
    /// True if the file belongs to the system.
    system: bool = System,
    /// The time of the last read of the data.
    accessed: Time = Accessed,
    /// A new time of the last read; write-only.
    set_accessed: SetTime = SetAccessed,
    /// The time of the last backup.
    backed_up: Time = BackedUp,
    /// The time of creation.
    created: Time = Created,
    /// The smallest difference of times.
    time_step: Time = TimeStep,
    /// The time of the last change of data or attributes.
    changed: Time = Changed,
    /// The time of the last change of the data.
    modified: Time = Modified,
    /// A new time of the last change of the data; write-only.
    set_modified: SetTime = SetModified,
    /// The file id of the directory below the root of a mounted file system.
    mounted_on_file_id: FileId = MountedOnFileId,
    /// The delay of notices of changed directory attributes.
    directory_notice_delay: Time = DirectoryNoticeDelay,
    /// The delay of notices of changed attributes of children.
    entry_notice_delay: Time = EntryNoticeDelay,
    /// The access control list of version 4.1.
    dacl: FlaggedAcl<'a> = Dacl,
    /// The version of the policies of the file system.
    change_policy: ChangePolicy = ChangePolicy,
    /// The layout types of the file system.
    fs_layout_types: LayoutTypes = FsLayoutTypes,
    /// The layout types of the object.
    layout_types: LayoutTypes = LayoutTypes,
    /// The best size of I/O under a layout, in bytes.
    layout_block_bytes: u32 = LayoutBlockBytes,
    /// The best alignment of I/O under a layout, in bytes.
    layout_alignment_bytes: u32 = LayoutAlignmentBytes,
    /// Some permission bits to set; write-only.
    set_mode_masked: ModeMasked = SetModeMasked,
    /// The attributes that an exclusive creation can set.
    supported_exclusive: Bitmap = SupportedExclusive,
    /// The encodings of names.
    character_sets: u32 = CharacterSets,
    /// The alignment of CLONE, in bytes.
    clone_block_bytes: u32 = CloneBlockBytes,
    /// The bytes that become free if the file is removed.
    space_freed: u64 = SpaceFreed,
    /// The properties of the change number.
    change_kind: ChangeKind = ChangeKind,
    /// The permission bits of a new object, and the creator's mask (RFC 8275); write-only.
    mode_umask: ModeUmask = ModeUmask,
    /// True if the object can have extended attributes (RFC 8276).
    xattr_support: bool = XattrSupport,
    /// True if reading the file takes long (RFC 9754).
    offline: bool = Offline,
    /// The time of the last read at the holder of a delegation (RFC 9754).
    delegated_accessed: Time = DelegatedAccessed,
    /// The time of the last change at the holder of a delegation (RFC 9754).
    delegated_modified: Time = DelegatedModified,
    /// The arguments of OPEN that the server supports (RFC 9754).
    open_arguments: OpenArguments = OpenArguments,
}

/// The reason for which values cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeError {
    /// The attribute with this number is not supported: ATTRNOTSUPP.
    NotSupported(u32),
    /// The values are invalid XDR: BADXDR.
    BadXdr(Error),
}

impl From<Error> for AttributeError {
    fn from(error: Error) -> Self {
        Self::BadXdr(error)
    }
}

impl<'a> Attributes<'a> {
    /// Returns the set of attributes with a field.
    #[must_use]
    pub fn typed() -> Bitmap {
        Bitmap::of(TYPED)
    }

    /// Decodes values, all of which must be in `supported`.
    ///
    /// # Errors
    /// [`AttributeError::NotSupported`] for the first attribute outside of `supported`, even if the
    /// values before it are invalid; else [`AttributeError::BadXdr`].
    pub fn decode(
        encoded: &EncodedAttributes<'a>,
        supported: &Bitmap,
    ) -> Result<Self, AttributeError> {
        if let Some(number) = encoded.mask.without(supported).iter().next() {
            return Err(AttributeError::NotSupported(number));
        }
        let mut attributes = Self::default();
        let mut reader = Reader::of_part(encoded.values.0);
        for number in encoded.mask.iter() {
            let attribute = Attribute::of_number(number);
            let attribute = attribute.ok_or(AttributeError::NotSupported(number))?;
            attributes.decode_value(attribute, &mut reader)?;
        }
        reader.finish()?;
        Ok(attributes)
    }

    /// Returns the requested attributes for encoding; attributes without a value are omitted.
    #[must_use]
    pub const fn select(&self, requested: Bitmap) -> Selected<'_, 'a> {
        Selected { attributes: self, requested }
    }

    /// Returns the encoded values of all attributes with a value.
    #[must_use]
    pub fn to_encoded(&self) -> OwnedAttributes {
        let (mask, mut writer) = (self.present(), Writer::new());
        self.encode_values(&mask, &mut writer);
        OwnedAttributes { mask, values: writer.finish().into_bytes() }
    }

    fn encode_values(&self, mask: &Bitmap, writer: &mut Writer) {
        mask.iter()
            .filter_map(Attribute::of_number)
            .for_each(|attribute| self.encode_value(attribute, writer));
    }
}

/// The values to encode: the requested attributes that have a value, in the layout of
/// [`EncodedAttributes`].
#[derive(Clone, Copy, Debug)]
pub struct Selected<'s, 'a> {
    attributes: &'s Attributes<'a>,
    requested: Bitmap,
}

impl Encode for Selected<'_, '_> {
    fn encode(&self, writer: &mut Writer) {
        let mask = self.requested.and(&self.attributes.present());
        mask.encode(writer);
        let length = writer.hole();
        let start = writer.len();
        self.attributes.encode_values(&mask, writer);
        let bytes = writer.len() - start;
        writer.fill(&length, u32::try_from(bytes).expect("attributes of ours are short"));
    }
}
