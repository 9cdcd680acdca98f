//! The common parts of all procedures, of any program.

use core::future::Future;
use core::pin::Pin;

use bytes::Bytes;
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Decode, Encode, Message, Reader, Writer, decode_all};
use leasehold_fs::FsError;
use leasehold_wire::rpc::{Reply, ReplyStatus};

use crate::context::Context;
use crate::errors::Errors;

/// One procedure of one version of a program: its arguments, its results and its function.
pub(crate) trait Procedure: 'static {
    /// The encoding of success and failure in the procedure's program.
    type Dialect: Dialect;
    /// The arguments.
    type Args<'a>: Decode<'a> + Send;
    /// The results of success.
    type Done: Encode + Send;
    /// The results of failure, in addition to the status.
    type Failed: Default + Encode + Send;

    /// Runs the procedure.
    fn run(
        context: &Context,
        args: Self::Args<'_>,
    ) -> impl Future<Output = Result<Self::Done, Refusal<Self::Failed>>> + Send;
}

/// The encoding of success and failure in a program's version.
pub(crate) trait Dialect {
    /// True if the version has a status for [`FsError::Delay`]. Otherwise the server sends no
    /// reply, and the caller retransmits.
    const SAYS_LATER: bool = true;

    /// True if the version has replies.
    const IS_ANSWERED: bool = true;

    /// True if results begin with a status, which is zero for success.
    const HAS_STATUS: bool = true;

    /// Encodes the part before the results of success.
    fn done(writer: &mut Writer);

    /// Encodes the part before the results of a failure.
    fn failed(error: FsError, writer: &mut Writer);
}

/// The failure of a procedure, with its results in addition to the status.
pub(crate) struct Refusal<Failed> {
    pub(crate) error: FsError,
    pub(crate) results: Failed,
}

impl<Failed: Default> From<FsError> for Refusal<Failed> {
    fn from(error: FsError) -> Self {
        Self { error, results: Failed::default() }
    }
}

/// A running procedure, as a future of its reply.
pub(crate) type Running = Pin<Box<dyn Future<Output = Option<Message>> + Send>>;

/// Converts a failure for procedures that return the status alone.
impl From<leasehold_fs::ops::Failed> for Refusal<()> {
    fn from(failed: leasehold_fs::ops::Failed) -> Self {
        failed.error.into()
    }
}

/// A function that decodes arguments, runs a procedure and encodes its reply. The reply contains
/// only errors that the procedure may return.
pub(crate) type Handler = fn(Errors, Context, Xid, Bytes, Writer) -> Running;

/// The handler of a procedure.
pub(crate) fn handler<P: Procedure>(
    errors: Errors,
    context: Context,
    xid: Xid,
    arguments: Bytes,
    mut writer: Writer,
) -> Running {
    Box::pin(async move {
        let Ok(args) = decode_all::<P::Args<'_>>(&mut Reader::new(&arguments)) else {
            return Some(garbage(xid, writer));
        };
        let results = P::run(&context, args)
            .await
            .map_err(|Refusal { error, results }| Refusal { error: errors.word(error), results });
        if !P::Dialect::IS_ANSWERED {
            return None;
        }
        if !P::Dialect::SAYS_LATER && matches!(&results, Err(r) if r.error == FsError::Delay) {
            return None;
        }
        Reply { xid, status: ReplyStatus::Success }.encode(&mut writer);
        match results {
            Ok(done) => {
                P::Dialect::done(&mut writer);
                done.encode(&mut writer);
            }
            Err(refusal) => {
                P::Dialect::failed(refusal.error, &mut writer);
                refusal.results.encode(&mut writer);
            }
        }
        Some(writer.finish())
    })
}

/// Encodes the reply to arguments that cannot be decoded.
pub(crate) fn garbage(xid: Xid, mut writer: Writer) -> Message {
    Reply { xid, status: ReplyStatus::GarbageArguments }.encode(&mut writer);
    writer.finish()
}

/// Encodes the reply that requests the caller of a procedure to retry later.
pub(crate) fn ask_again<P: Procedure>(xid: Xid, mut writer: Writer) -> Message {
    Reply { xid, status: ReplyStatus::Success }.encode(&mut writer);
    P::Dialect::failed(FsError::Delay, &mut writer);
    P::Failed::default().encode(&mut writer);
    writer.finish()
}

/// Encodes the reply of a procedure whose change failed to reach stable storage.
pub(crate) fn unsettled<P: Procedure>(
    errors: Errors,
    xid: Xid,
    error: FsError,
    mut writer: Writer,
) -> Message {
    Reply { xid, status: ReplyStatus::Success }.encode(&mut writer);
    P::Dialect::failed(errors.word(error), &mut writer);
    P::Failed::default().encode(&mut writer);
    writer.finish()
}

/// The dialect of procedures that cannot fail: the reply contains results without a status.
pub(crate) struct Plain;

impl Dialect for Plain {
    const HAS_STATUS: bool = false;

    fn done(_: &mut Writer) {}

    fn failed(_: FsError, _: &mut Writer) {}
}

/// The dialect of one-way messages, which have no results and no reply.
pub(crate) struct OneWay;

impl Dialect for OneWay {
    const IS_ANSWERED: bool = false;
    const HAS_STATUS: bool = false;

    fn done(_: &mut Writer) {}

    fn failed(_: FsError, _: &mut Writer) {}
}

/// Procedure 0 of every program: does nothing, and shows that the server runs.
pub(crate) async fn null(_: &Context, (): ()) -> Result<(), Refusal<()>> {
    Ok(())
}

#[cfg(test)]
mod tests;
