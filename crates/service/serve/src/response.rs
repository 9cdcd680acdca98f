//! What the service says to a message.

use leasehold_base::xdr::Message;
use leasehold_fs::Answer;

/// What the service says to a message.
pub struct Response {
    /// The reply; none, where there must be none.
    pub reply: Answer<'static, Option<Message>>,
    /// Whether it must be brought to its end though nobody waits for the reply any more: the call
    /// may have had its effect, and whoever asks again is to be given its reply.
    pub must_end: bool,
}

impl From<Answer<'static, Option<Message>>> for Response {
    /// One that nobody but who asked is served by.
    fn from(reply: Answer<'static, Option<Message>>) -> Self {
        Self { reply, must_end: false }
    }
}
