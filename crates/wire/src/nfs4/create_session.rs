//! CREATE_SESSION, operation 43: makes a session, and confirms the client id (RFC 8881 18.36).

use leasehold_base::xdr_struct;

use super::{CallbackSecurities, ChannelAttributes, ClientId, SequenceId, SessionId};

bits! {
    /// Properties of a session.
    Flags {
        /// The server's cache of replies survives a restart.
        #[doc(alias = "CREATE_SESSION4_FLAG_PERSIST")]
        PERSISTENT = 0x1,
        /// The connection serves callbacks too.
        #[doc(alias = "CREATE_SESSION4_FLAG_CONN_BACK_CHAN")]
        BACK_CHANNEL = 0x2,
        /// The connection changes to RDMA.
        #[doc(alias = "CREATE_SESSION4_FLAG_CONN_RDMA")]
        RDMA = 0x4,
    }
}

xdr_struct! {
    /// The wished session.
    #[doc(alias = "CREATE_SESSION4args")]
    pub struct Args<'a> {
        /// The client.
        pub client: ClientId,
        /// The number of the request.
        pub sequence: SequenceId,
        /// The wished properties.
        pub flags: Flags,
        /// The wished limits of calls of the client.
        pub fore: ChannelAttributes,
        /// The wished limits of callbacks.
        pub back: ChannelAttributes,
        /// The program number of callbacks.
        pub callback_program: u32,
        /// The credentials of callbacks.
        pub callback_security: CallbackSecurities<'a>,
    }

    /// The session.
    #[doc(alias = "CREATE_SESSION4resok")]
    #[derive(Copy)]
    pub struct Done {
        /// The session.
        pub session: SessionId,
        /// The number of the request.
        pub sequence: SequenceId,
        /// The properties.
        pub flags: Flags,
        /// The limits of calls of the client.
        pub fore: ChannelAttributes,
        /// The limits of callbacks.
        pub back: ChannelAttributes,
    }
}

/// The results.
#[doc(alias = "CREATE_SESSION4res")]
pub type Reply = super::Reply<Done>;
