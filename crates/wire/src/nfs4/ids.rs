//! Identifiers, each with a type of its own.

use leasehold_base::xdr_struct;

use super::Identifier;

hypers! {
    /// The number that the server assigns to a client (RFC 8881 3.3, 2.4).
    #[doc(alias = "clientid4")]
    ClientId;

    /// The change attribute, which differs after each change of an object (RFC 8881 5.8.1.4).
    #[doc(alias = "changeid4")]
    ChangeId;
}

words! {
    /// The number of a slot of a session (RFC 8881 2.10.6.1).
    #[doc(alias = "slotid4")]
    SlotId;

    /// The number of a request in its slot, or of a CREATE_SESSION of its client (RFC 8881
    /// 2.10.6.1, 18.36.4). The number after 2^32-1 is zero.
    #[doc(alias = "sequenceid4")]
    SequenceId;

    /// The number of a request of a state owner in minor version 0; minor versions 1 and 2 ignore
    /// the field (RFC 8881 8.8).
    #[doc(alias = "seqid4")]
    OwnerSequence;

    /// The number of changes of a state; in arguments, zero selects the latest (RFC 8881 8.2.2).
    StateSequence;

    /// The kind of layouts, devices and their opaque parts (RFC 8881 3.3.13).
    #[doc(alias = "layouttype4")]
    LayoutType;
}

impl LayoutType {
    /// Stripes over servers of version 4.1 (RFC 8881 13).
    #[doc(alias = "LAYOUT4_NFSV4_1_FILES")]
    pub const FILES: Self = Self(1);

    /// Objects (RFC 5664).
    #[doc(alias = "LAYOUT4_OSD2_OBJECTS")]
    pub const OBJECTS: Self = Self(2);

    /// Block devices (RFC 5663).
    #[doc(alias = "LAYOUT4_BLOCK_VOLUME")]
    pub const BLOCKS: Self = Self(3);

    /// Files at servers of any version (RFC 8435).
    #[doc(alias = "LAYOUT4_FLEX_FILES")]
    pub const FLEX_FILES: Self = Self(4);
}

fixed! {
    /// The identifier of a session (RFC 8881 2.10.1).
    #[doc(alias = "sessionid4")]
    SessionId = 16;

    /// The identifier of a device of layouts (RFC 8881 3.3.14).
    #[doc(alias = "deviceid4")]
    DeviceId = 16;

    /// The incarnation of a client (RFC 8881 2.4, `co_verifier`).
    ClientVerifier = 8;

    /// The verifier by which the server recognises a repeated exclusive creation (RFC 8881
    /// 18.16.3).
    CreateVerifier = 8;

    /// The verifier that changes whenever the server may have lost unstable data (RFC 8881 18.32.3).
    WriteVerifier = 8;

    /// The verifier of the cookies of a directory (RFC 8881 18.23.3).
    CookieVerifier = 8;

    /// The part of a state id that identifies the state (RFC 8881 8.2.2).
    StateOther = 12;
}

xdr_struct! {
    /// The identifier of an open, a lock, a delegation, a layout or a copy, and its version (RFC
    /// 8881 8.2).
    #[doc(alias = "stateid4")]
    #[derive(Copy, Default, PartialOrd, Ord, Hash)]
    pub struct Stateid {
        /// The version.
        pub sequence: StateSequence,
        /// The state.
        pub other: StateOther,
    }

    /// The numbers of a file system (RFC 8881 5.8.1.9).
    #[doc(alias = "fsid4")]
    #[derive(Copy, Default, PartialOrd, Ord, Hash)]
    pub struct FileSystemId {
        /// The first part.
        pub major: u64,
        /// The second part.
        pub minor: u64,
    }

    /// The name that a client gives itself, and its incarnation (RFC 8881 2.4).
    #[doc(alias = "client_owner4")]
    #[derive(Copy)]
    pub struct ClientOwner<'a> {
        /// The incarnation.
        pub verifier: ClientVerifier,
        /// The name, equal in all incarnations.
        pub id: Identifier<'a>,
    }

    /// The name of a server, equal at all addresses over which a client may share its state (RFC
    /// 8881 2.5).
    #[doc(alias = "server_owner4")]
    #[derive(Copy)]
    pub struct ServerOwner<'a> {
        /// If equal too, the addresses also share sessions.
        pub minor: u64,
        /// The server.
        pub major: Identifier<'a>,
    }

    /// An owner of opens or locks at a client (RFC 8881 8.5).
    #[doc(alias("state_owner4", "open_owner4", "lock_owner4"))]
    #[derive(Copy)]
    pub struct StateOwner<'a> {
        /// The client; the server ignores the field in arguments, because the session determines
        /// the client (RFC 8881 18.16.3).
        pub client: ClientId,
        /// The owner's name at the client.
        pub owner: Identifier<'a>,
    }
}

/// The state ids with a meaning of their own (RFC 8881 8.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialStateid {
    /// No state: the server checks share reservations as for an open without deny.
    Anonymous,
    /// No state; a READ with it bypasses share reservations.
    ReadBypass,
    /// The state id that an earlier operation of the compound returned.
    Current,
    /// The id of no state.
    Invalid,
    /// An id that the standard reserves without a meaning: BAD_STATEID.
    Reserved,
}

impl Stateid {
    /// See [`SpecialStateid::Anonymous`].
    pub const ANONYMOUS: Self = Self::special_with(0, 0);

    /// See [`SpecialStateid::ReadBypass`].
    pub const READ_BYPASS: Self = Self::special_with(u32::MAX, u8::MAX);

    /// See [`SpecialStateid::Current`].
    pub const CURRENT: Self = Self::special_with(1, 0);

    /// See [`SpecialStateid::Invalid`].
    pub const INVALID: Self = Self::special_with(u32::MAX, 0);

    const fn special_with(sequence: u32, byte: u8) -> Self {
        Self { sequence: StateSequence(sequence), other: StateOther([byte; 12]) }
    }

    /// Returns the special meaning of the id, or `None` for the id of a state.
    #[must_use]
    pub fn special(self) -> Option<SpecialStateid> {
        match self {
            Self::ANONYMOUS => Some(SpecialStateid::Anonymous),
            Self::READ_BYPASS => Some(SpecialStateid::ReadBypass),
            Self::CURRENT => Some(SpecialStateid::Current),
            Self::INVALID => Some(SpecialStateid::Invalid),
            _ if [[0; 12], [u8::MAX; 12]].contains(&self.other.0) => Some(SpecialStateid::Reserved),
            _ => None,
        }
    }
}
