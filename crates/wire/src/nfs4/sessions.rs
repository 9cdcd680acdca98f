//! Small operations on clients, sessions and connections, and the properties of channels.

use leasehold_base::limits::{ALTERNATIVES_MAX, AUTH_BYTES_MAX};
use leasehold_base::{xdr_enum, xdr_struct};

use super::{ClientId, Completion, GssService, Identifier, SessionId};
use crate::list::Array;
use crate::rpc::AuthSys;

opaques! {
    /// The handle of a context of RPCSEC_GSS.
    #[doc(alias = "gsshandle4_t")]
    GssHandle <= AUTH_BYTES_MAX;
}

xdr_struct! {
    /// The limits of one direction of a session (RFC 8881 18.36.3).
    #[doc(alias = "channel_attrs4")]
    #[derive(Copy)]
    pub struct ChannelAttributes {
        /// The padding of headers, in bytes, for RDMA.
        pub header_padding_bytes: u32,
        /// The largest request, in bytes, with the header of RPC.
        pub request_bytes_max: u32,
        /// The largest reply, in bytes, with the header of RPC.
        pub reply_bytes_max: u32,
        /// The largest cached reply, in bytes, with the header of RPC.
        pub cached_reply_bytes_max: u32,
        /// The largest number of operations in a compound.
        pub operations_max: u32,
        /// The number of slots.
        pub slots: u32,
        /// The number of reads that RDMA permits in parallel.
        pub rdma_reads: Option<u32>,
    }

    /// The contexts for callbacks with RPCSEC_GSS.
    #[doc(alias = "gss_cb_handles4")]
    #[derive(Copy)]
    pub struct GssHandles<'a> {
        /// The protection.
        pub service: GssService,
        /// The handle that the server issued.
        pub of_server: GssHandle<'a>,
        /// The handle that the client issued.
        pub of_client: GssHandle<'a>,
    }
}

unions! {
    /// The credential of callbacks (RFC 8881 18.33.1).
    #[doc(alias = "callback_sec_parms4")]
    CallbackSecurity<'a> {
        /// None.
        #[doc(alias = "AUTH_NONE")]
        None = 0,
        /// Numbers of a user and of groups.
        #[doc(alias = "AUTH_SYS")]
        Sys(AuthSys<'a>) = 1,
        /// RPCSEC_GSS.
        #[doc(alias = "RPCSEC_GSS")]
        Gss(GssHandles<'a>) = 6,
    }
}

/// The credentials that the client accepts in callbacks.
pub type CallbackSecurities<'a> = Array<CallbackSecurity<'a>, ALTERNATIVES_MAX>;

/// BACKCHANNEL_CTL, operation 40: changes the parameters of callbacks (RFC 8881 18.33).
pub mod backchannel_ctl {
    use super::{CallbackSecurities, Completion, xdr_struct};

    xdr_struct! {
        /// The parameters.
        #[doc(alias = "BACKCHANNEL_CTL4args")]
        pub struct Args<'a> {
            /// The program number of callbacks.
            pub program: u32,
            /// The credentials of callbacks.
            pub security: CallbackSecurities<'a>,
        }
    }

    /// The status.
    #[doc(alias = "BACKCHANNEL_CTL4res")]
    pub type Reply = Completion;
}

/// BIND_CONN_TO_SESSION, operation 41: binds the connection to a session (RFC 8881 18.34).
pub mod bind_conn_to_session {
    use super::{SessionId, xdr_enum, xdr_struct};

    xdr_enum! {
        /// The directions that the client requests.
        #[doc(alias = "channel_dir_from_client4")]
        pub enum Requested {
            /// Calls of the client.
            Fore = 0x1,
            /// Callbacks.
            Back = 0x2,
            /// Calls of the client; callbacks if possible.
            ForeOrBoth = 0x3,
            /// Callbacks; calls of the client if possible.
            BackOrBoth = 0x7,
        }

        /// The directions that the server permits.
        #[doc(alias = "channel_dir_from_server4")]
        pub enum Bound {
            /// Calls of the client.
            Fore = 0x1,
            /// Callbacks.
            Back = 0x2,
            /// Both.
            Both = 0x3,
        }
    }

    xdr_struct! {
        /// The session.
        #[doc(alias = "BIND_CONN_TO_SESSION4args")]
        #[derive(Copy)]
        pub struct Args {
            /// The session.
            pub session: SessionId,
            /// The directions.
            pub direction: Requested,
            /// True if the connection is to change to RDMA.
            pub rdma: bool,
        }

        /// The binding.
        #[doc(alias = "BIND_CONN_TO_SESSION4resok")]
        #[derive(Copy)]
        pub struct Done {
            /// The session.
            pub session: SessionId,
            /// The directions.
            pub direction: Bound,
            /// True if the connection changes to RDMA.
            pub rdma: bool,
        }
    }

    /// The results.
    #[doc(alias = "BIND_CONN_TO_SESSION4res")]
    pub type Reply = super::super::Reply<Done>;
}

/// DESTROY_SESSION, operation 44: ends a session (RFC 8881 18.37).
pub mod destroy_session {
    /// The session.
    #[doc(alias = "DESTROY_SESSION4args")]
    pub type Args = super::SessionId;

    /// The status.
    #[doc(alias = "DESTROY_SESSION4res")]
    pub type Reply = super::Completion;
}

/// DESTROY_CLIENTID, operation 57: ends a client id (RFC 8881 18.50).
pub mod destroy_clientid {
    /// The client.
    #[doc(alias = "DESTROY_CLIENTID4args")]
    pub type Args = super::ClientId;

    /// The status.
    #[doc(alias = "DESTROY_CLIENTID4res")]
    pub type Reply = super::Completion;
}

/// RECLAIM_COMPLETE, operation 58: ends the reclaims of a client (RFC 8881 18.51).
pub mod reclaim_complete {
    use super::{Completion, xdr_struct};

    xdr_struct! {
        /// The scope.
        #[doc(alias = "RECLAIM_COMPLETE4args")]
        #[derive(Copy)]
        pub struct Args {
            /// True for the file system of the current object only, after its migration.
            pub one_file_system: bool,
        }
    }

    /// The status.
    #[doc(alias = "RECLAIM_COMPLETE4res")]
    pub type Reply = Completion;
}

/// SET_SSV, operation 54: changes the secret of a client (RFC 8881 18.47).
pub mod set_ssv {
    use super::{Identifier, xdr_struct};

    xdr_struct! {
        /// The change of the secret.
        #[doc(alias = "SET_SSV4args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The number that changes the secret.
            pub ssv: Identifier<'a>,
            /// The proof of the secret.
            pub digest: Identifier<'a>,
        }
    }

    /// The server's proof of the secret.
    #[doc(alias("SET_SSV4res", "SET_SSV4resok"))]
    pub type Reply<'a> = super::super::Reply<Identifier<'a>>;
}
