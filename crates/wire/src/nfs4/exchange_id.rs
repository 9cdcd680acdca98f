//! EXCHANGE_ID, operation 42: introduces a client and a server to each other (RFC 8881 18.35).

use leasehold_base::limits::ALTERNATIVES_MAX;
use leasehold_base::xdr_struct;

use super::{
    Bitmap, ClientId, ClientOwner, GssHandle, Identifier, Oid, SequenceId, ServerOwner, Text, Time,
};
use crate::list::Array;

bits! {
    /// Capabilities and roles.
    Flags {
        /// Referrals.
        #[doc(alias = "EXCHGID4_FLAG_SUPP_MOVED_REFER")]
        REFERRALS = 0x1,
        /// Migration of file systems.
        #[doc(alias = "EXCHGID4_FLAG_SUPP_MOVED_MIGR")]
        MIGRATION = 0x2,
        /// Operations that fence a client, of a withdrawn extension.
        #[doc(alias = "EXCHGID4_FLAG_SUPP_FENCE_OPS")]
        FENCE_OPERATIONS = 0x4,
        /// State belongs to the principal that made it.
        #[doc(alias = "EXCHGID4_FLAG_BIND_PRINC_STATEID")]
        STATE_OF_PRINCIPAL = 0x100,
        /// A server without layouts.
        #[doc(alias = "EXCHGID4_FLAG_USE_NON_PNFS")]
        NON_PNFS = 0x1_0000,
        /// A metadata server.
        #[doc(alias = "EXCHGID4_FLAG_USE_PNFS_MDS")]
        METADATA_SERVER = 0x2_0000,
        /// A data server.
        #[doc(alias = "EXCHGID4_FLAG_USE_PNFS_DS")]
        DATA_SERVER = 0x4_0000,
        /// In a call: the client updates its properties.
        #[doc(alias = "EXCHGID4_FLAG_UPD_CONFIRMED_REC_A")]
        UPDATE = 0x4000_0000,
        /// In a reply: the client id is confirmed.
        #[doc(alias = "EXCHGID4_FLAG_CONFIRMED_R")]
        CONFIRMED = 0x8000_0000,
    }
}

xdr_struct! {
    /// The client.
    #[doc(alias = "EXCHANGE_ID4args")]
    pub struct Args<'a> {
        /// The client's name and incarnation.
        pub owner: ClientOwner<'a>,
        /// The capabilities and wished roles.
        pub flags: Flags,
        /// The protection of the client's state.
        pub protection: Protection<'a>,
        /// The client's software.
        pub implementation: Option<Implementation<'a>>,
    }

    /// The server.
    #[doc(alias = "EXCHANGE_ID4resok")]
    pub struct Done<'a> {
        /// The client's number.
        pub client: ClientId,
        /// The number of the next CREATE_SESSION.
        pub sequence: SequenceId,
        /// The capabilities and roles.
        pub flags: Flags,
        /// The protection of the client's state.
        pub protection: GrantedProtection<'a>,
        /// The server's name.
        pub owner: ServerOwner<'a>,
        /// The scope of handles, client names and state owners.
        pub scope: Identifier<'a>,
        /// The server's software.
        pub implementation: Option<Implementation<'a>>,
    }

    /// Software, for statistics and not for decisions.
    #[doc(alias = "nfs_impl_id4")]
    #[derive(Copy)]
    pub struct Implementation<'a> {
        /// The domain of the vendor.
        pub domain: Text<'a>,
        /// The product.
        pub name: Text<'a>,
        /// The time of the build.
        pub built: Time,
    }

    /// Operations that require, or may use, the machine's principal or the secret.
    #[doc(alias = "state_protect_ops4")]
    #[derive(Copy)]
    pub struct ProtectedOperations {
        /// The operations that require the principal or secret.
        pub enforced: Bitmap,
        /// The operations that may use the principal or secret.
        pub allowed: Bitmap,
    }

    /// The wished protection by a secret.
    #[doc(alias = "ssv_sp_parms4")]
    pub struct SecretParameters<'a> {
        /// The operations.
        pub operations: ProtectedOperations,
        /// The hash algorithms, in order of preference.
        pub hashes: Array<Oid<'a>, ALTERNATIVES_MAX>,
        /// The encryption algorithms, in order of preference.
        pub ciphers: Array<Oid<'a>, ALTERNATIVES_MAX>,
        /// The number of valid versions of the secret.
        pub window: u32,
        /// The number of requested context handles.
        pub handles: u32,
    }

    /// The granted protection by a secret.
    #[doc(alias = "ssv_prot_info4")]
    pub struct SecretInfo<'a> {
        /// The operations.
        pub operations: ProtectedOperations,
        /// The index of the hash algorithm in the client's list.
        pub hash: u32,
        /// The index of the encryption algorithm in the client's list.
        pub cipher: u32,
        /// The length of the secret, in bytes.
        pub secret_bytes: u32,
        /// The number of valid versions of the secret.
        pub window: u32,
        /// The context handles.
        pub handles: Array<GssHandle<'a>, ALTERNATIVES_MAX>,
    }
}

unions! {
    /// The wished protection of the client's state.
    #[doc(alias("state_protect4_a", "state_protect_how4"))]
    Protection<'a> {
        /// None.
        #[doc(alias = "SP4_NONE")]
        None = 0,
        /// By the principal of the client's machine.
        #[doc(alias = "SP4_MACH_CRED")]
        MachineCredential(ProtectedOperations) = 1,
        /// By a secret that client and server share.
        #[doc(alias = "SP4_SSV")]
        Secret(SecretParameters<'a>) = 2,
    }

    /// The granted protection of the client's state.
    #[doc(alias = "state_protect4_r")]
    GrantedProtection<'a> {
        /// None.
        #[doc(alias = "SP4_NONE")]
        None = 0,
        /// By the principal of the client's machine.
        #[doc(alias = "SP4_MACH_CRED")]
        MachineCredential(ProtectedOperations) = 1,
        /// By a secret that client and server share.
        #[doc(alias = "SP4_SSV")]
        Secret(SecretInfo<'a>) = 2,
    }
}

/// The results.
#[doc(alias = "EXCHANGE_ID4res")]
pub type Reply<'a> = super::Reply<Done<'a>>;
