//! The numbers of attributes.

named! {
    /// The attributes of minor versions 1 and 2 and of later extensions (RFC 8881 5.6 and 5.7, RFC
    /// 7862 12.2, RFC 8275, RFC 8276 8.2, RFC 9754).
    Attribute {
        /// The attributes that the file system supports.
        Supported "supported_attrs" = 0,
        /// The type of the object.
        FileType "type" = 1,
        /// The reasons for which handles expire; zero if they never do.
        HandleExpiry "fh_expire_type" = 2,
        /// The number that differs after each change.
        Change "change" = 3,
        /// The size in bytes.
        Size "size" = 4,
        /// True if an object may have several names.
        LinkSupport "link_support" = 5,
        /// True if symbolic links can exist.
        SymlinkSupport "symlink_support" = 6,
        /// True if the object has named attributes.
        NamedAttributes "named_attr" = 7,
        /// The file system.
        FileSystem "fsid" = 8,
        /// True if two handles never denote one object.
        UniqueHandles "unique_handles" = 9,
        /// The term of a client's lease, in seconds.
        LeaseSeconds "lease_time" = 10,
        /// In a listing, the error that prevented other attributes.
        ReadError "rdattr_error" = 11,
        /// The access control list of version 4.0.
        Acl "acl" = 12,
        /// The kinds of supported entries of access control lists.
        AclSupport "aclsupport" = 13,
        /// True if the file has been archived.
        Archive "archive" = 14,
        /// True if times can be set.
        CanSetTime "cansettime" = 15,
        /// True if names that differ in case are equal.
        CaseInsensitive "case_insensitive" = 16,
        /// True if names keep their case.
        CasePreserving "case_preserving" = 17,
        /// True if only a privileged user may change owners.
        ChownRestricted "chown_restricted" = 18,
        /// The handle.
        Handle "filehandle" = 19,
        /// The number within the file system.
        FileId "fileid" = 20,
        /// The number of objects that the caller can make.
        FilesAvailable "files_avail" = 21,
        /// The number of free objects.
        FilesFree "files_free" = 22,
        /// The number of objects that the file system can have.
        FilesTotal "files_total" = 23,
        /// The servers of the file system.
        Locations "fs_locations" = 24,
        /// True if the file is hidden.
        Hidden "hidden" = 25,
        /// True if all objects have equal limits.
        Homogeneous "homogeneous" = 26,
        /// The largest size of a file, in bytes.
        FileBytesMax "maxfilesize" = 27,
        /// The largest number of names of an object.
        LinkMax "maxlink" = 28,
        /// The longest name, in bytes.
        NameBytesMax "maxname" = 29,
        /// The largest READ, in bytes.
        ReadBytesMax "maxread" = 30,
        /// The largest WRITE, in bytes.
        WriteBytesMax "maxwrite" = 31,
        /// The MIME type of the data.
        MimeType "mimetype" = 32,
        /// The permission bits.
        Mode "mode" = 33,
        /// True if too long a name is an error.
        RefusesLongNames "no_trunc" = 34,
        /// The number of names.
        LinkCount "numlinks" = 35,
        /// The owner.
        Owner "owner" = 36,
        /// The owning group.
        OwnerGroup "owner_group" = 37,
        /// The bytes until the caller's hard quota.
        QuotaAvailableHard "quota_avail_hard" = 38,
        /// The bytes until the caller's soft quota.
        QuotaAvailableSoft "quota_avail_soft" = 39,
        /// The bytes that count against the quota.
        QuotaUsed "quota_used" = 40,
        /// The device of a device special file.
        Device "rawdev" = 41,
        /// The bytes that the caller can still use.
        SpaceAvailable "space_avail" = 42,
        /// The free bytes.
        SpaceFree "space_free" = 43,
        /// The bytes of the file system.
        SpaceTotal "space_total" = 44,
        /// The bytes that the object occupies.
        SpaceUsed "space_used" = 45,
        /// True if the file belongs to the system.
        System "system" = 46,
        /// The time of the last read of the data.
        Accessed "time_access" = 47,
        /// A new time of the last read; write-only.
        SetAccessed "time_access_set" = 48,
        /// The time of the last backup.
        BackedUp "time_backup" = 49,
        /// The time of creation.
        Created "time_create" = 50,
        /// The smallest difference of times.
        TimeStep "time_delta" = 51,
        /// The time of the last change of data or attributes.
        Changed "time_metadata" = 52,
        /// The time of the last change of the data.
        Modified "time_modify" = 53,
        /// A new time of the last change of the data; write-only.
        SetModified "time_modify_set" = 54,
        /// The file id of the directory below the root of a mounted file system.
        MountedOnFileId "mounted_on_fileid" = 55,
        /// The delay of notices of changed directory attributes.
        DirectoryNoticeDelay "dir_notif_delay" = 56,
        /// The delay of notices of changed attributes of children.
        EntryNoticeDelay "dirent_notif_delay" = 57,
        /// The access control list of version 4.1.
        Dacl "dacl" = 58,
        /// The audit list of version 4.1.
        Sacl "sacl" = 59,
        /// The version of the policies of the file system.
        ChangePolicy "change_policy" = 60,
        /// The state of the file system among its copies.
        FsStatus "fs_status" = 61,
        /// The layout types of the file system.
        FsLayoutTypes "fs_layout_types" = 62,
        /// The wished layout of a new file.
        LayoutHint "layout_hint" = 63,
        /// The layout types of the object.
        LayoutTypes "layout_types" = 64,
        /// The best size of I/O under a layout, in bytes.
        LayoutBlockBytes "layout_blksize" = 65,
        /// The best alignment of I/O under a layout, in bytes.
        LayoutAlignmentBytes "layout_alignment" = 66,
        /// The servers of the file system, with their properties.
        FsLocationsInfo "fs_locations_info" = 67,
        /// The sizes below which I/O goes to the metadata server.
        MdsThreshold "mdsthreshold" = 68,
        /// The retention of the file.
        RetentionGet "retention_get" = 69,
        /// A new retention of the file; write-only.
        RetentionSet "retention_set" = 70,
        /// The retention of the file by event.
        RetentionEventGet "retentevt_get" = 71,
        /// A new retention by event; write-only.
        RetentionEventSet "retentevt_set" = 72,
        /// The administrative holds of the file.
        RetentionHold "retention_hold" = 73,
        /// Some permission bits to set; write-only.
        SetModeMasked "mode_set_masked" = 74,
        /// The attributes that an exclusive creation can set.
        SupportedExclusive "suppattr_exclcreat" = 75,
        /// The encodings of names.
        CharacterSets "fs_charset_cap" = 76,
        /// The alignment of CLONE, in bytes.
        CloneBlockBytes "clone_blksize" = 77,
        /// The bytes that become free if the file is removed.
        SpaceFreed "space_freed" = 78,
        /// The properties of the change number.
        ChangeKind "change_attr_type" = 79,
        /// The security label.
        SecurityLabel "sec_label" = 80,
        /// The permission bits of a new object, and the creator's mask (RFC 8275); write-only.
        ModeUmask "mode_umask" = 81,
        /// True if the object can have extended attributes (RFC 8276).
        XattrSupport "xattr_support" = 82,
        /// True if reading the file takes long (RFC 9754).
        Offline "offline" = 83,
        /// The time of the last read at the holder of a delegation (RFC 9754).
        DelegatedAccessed "time_deleg_access" = 84,
        /// The time of the last change at the holder of a delegation (RFC 9754).
        DelegatedModified "time_deleg_modify" = 85,
        /// The arguments of OPEN that the server supports (RFC 9754).
        OpenArguments "open_arguments" = 86,
    }
}

impl From<Attribute> for u32 {
    fn from(attribute: Attribute) -> Self {
        attribute as Self
    }
}
