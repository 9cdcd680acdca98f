//! The response of the service to a message.

use leasehold_base::xdr::Message;
use leasehold_fs::MaybeReady;

/// The response of the service to a message.
pub struct Response {
    /// The reply; None if the server must send no reply.
    pub reply: MaybeReady<'static, Option<Message>>,
    /// True if the future must run to its end even after the caller is gone: the call may have had
    /// its effect, and a retransmission must receive its reply.
    pub must_end: bool,
}

impl From<MaybeReady<'static, Option<Message>>> for Response {
    /// Returns a response that may be dropped if the caller is gone.
    fn from(reply: MaybeReady<'static, Option<Message>>) -> Self {
        Self { reply, must_end: false }
    }
}
