//! Access control lists (RFC 8881 6.2.1).

use leasehold_base::limits::ACES_MAX;
use leasehold_base::xdr_struct;

use super::OwnerName;
use crate::list::Array;

words! {
    /// The effect of an entry.
    #[doc(alias = "acetype4")]
    AceType;
}

impl AceType {
    /// The entry permits access.
    #[doc(alias = "ACE4_ACCESS_ALLOWED_ACE_TYPE")]
    pub const ALLOW: Self = Self(0);
    /// The entry denies access.
    #[doc(alias = "ACE4_ACCESS_DENIED_ACE_TYPE")]
    pub const DENY: Self = Self(1);
    /// The server logs access.
    #[doc(alias = "ACE4_SYSTEM_AUDIT_ACE_TYPE")]
    pub const AUDIT: Self = Self(2);
    /// The server raises an alarm at access.
    #[doc(alias = "ACE4_SYSTEM_ALARM_ACE_TYPE")]
    pub const ALARM: Self = Self(3);
}

bits! {
    /// The scope of an entry.
    #[doc(alias = "aceflag4")]
    AceFlags {
        /// New files inherit the entry.
        FILE_INHERIT = 0x01,
        /// New directories inherit the entry.
        DIRECTORY_INHERIT = 0x02,
        /// Children of new directories do not inherit the entry.
        NO_PROPAGATE = 0x04,
        /// The entry does not apply to the directory itself.
        INHERIT_ONLY = 0x08,
        /// An audit or alarm entry applies to permitted access.
        SUCCESSFUL_ACCESS = 0x10,
        /// An audit or alarm entry applies to denied access.
        FAILED_ACCESS = 0x20,
        /// The principal is a group.
        GROUP = 0x40,
        /// The entry is inherited.
        INHERITED = 0x80,
    }

    /// The access of an entry.
    #[doc(alias = "acemask4")]
    AceMask {
        /// To read a file, or to list a directory.
        READ_DATA = 0x01,
        /// To write to a file, or to add a file to a directory.
        WRITE_DATA = 0x02,
        /// To append to a file, or to add a directory to a directory.
        APPEND_DATA = 0x04,
        /// To read named attributes.
        READ_NAMED_ATTRIBUTES = 0x08,
        /// To write named attributes.
        WRITE_NAMED_ATTRIBUTES = 0x10,
        /// To run a file, or to look up names in a directory.
        EXECUTE = 0x20,
        /// To remove names from a directory.
        DELETE_CHILD = 0x40,
        /// To read attributes.
        READ_ATTRIBUTES = 0x80,
        /// To write attributes.
        WRITE_ATTRIBUTES = 0x100,
        /// To change the retention.
        WRITE_RETENTION = 0x200,
        /// To change administrative holds.
        WRITE_RETENTION_HOLD = 0x400,
        /// To remove the object.
        DELETE = 0x1_0000,
        /// To read the list.
        READ_ACL = 0x2_0000,
        /// To write the list.
        WRITE_ACL = 0x4_0000,
        /// To change the owner.
        WRITE_OWNER = 0x8_0000,
        /// To use the object synchronously at the server.
        SYNCHRONIZE = 0x10_0000,
    }
}

xdr_struct! {
    /// One entry.
    #[doc(alias = "nfsace4")]
    #[derive(Copy)]
    pub struct Ace<'a> {
        /// The effect.
        pub kind: AceType,
        /// The scope.
        pub flags: AceFlags,
        /// The access.
        pub mask: AceMask,
        /// The user or group, or a special name such as `OWNER@`.
        pub principal: OwnerName<'a>,
    }

    /// A list with flags of its own (RFC 8881 6.2.2).
    #[doc(alias = "nfsacl41")]
    pub struct FlaggedAcl<'a> {
        /// The flags.
        pub flags: u32,
        /// The entries.
        pub entries: Acl<'a>,
    }
}

/// A list.
pub type Acl<'a> = Array<Ace<'a>, ACES_MAX>;
