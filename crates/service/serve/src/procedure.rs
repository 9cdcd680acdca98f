//! What every procedure is made of, whatever its program.

use core::future::Future;
use core::pin::Pin;

use bytes::Bytes;
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Decode, Encode, Message, Reader, Writer, decode_all};
use leasehold_fs::FsError;
use leasehold_wire::rpc::{Reply, ReplyStatus};

use crate::context::Context;
use crate::errors::Errors;

/// One procedure of a program's version: its arguments, its results and what it does.
pub(crate) trait Procedure: 'static {
    /// How its program says whether it succeeded.
    type Dialect: Dialect;
    /// What the caller sends.
    type Args<'a>: Decode<'a> + Send;
    /// What the caller gets when it succeeds.
    type Done: Encode + Send;
    /// What the caller gets beside the status when it does not.
    type Failed: Default + Encode + Send;

    /// Does it.
    fn run(
        context: &Context,
        args: Self::Args<'_>,
    ) -> impl Future<Output = Result<Self::Done, Refusal<Self::Failed>>> + Send;
}

/// How a program's version says whether a procedure succeeded.
pub(crate) trait Dialect {
    /// Whether it has a word for [`FsError::Later`]. Where it has none the call goes unanswered,
    /// and its caller asks again by itself.
    const SAYS_LATER: bool = true;

    /// Whether it has a reply at all.
    const IS_ANSWERED: bool = true;

    /// Whether its results begin with a status, which is zero for success.
    const HAS_STATUS: bool = true;

    /// Writes what stands before the results of success.
    fn done(writer: &mut Writer);

    /// Writes what stands before the results of a failure.
    fn failed(error: FsError, writer: &mut Writer);
}

/// Why a procedure failed, and what its caller gets beside the status.
pub(crate) struct Refusal<Failed> {
    pub(crate) error: FsError,
    pub(crate) results: Failed,
}

impl<Failed: Default> From<FsError> for Refusal<Failed> {
    fn from(error: FsError) -> Self {
        Self { error, results: Failed::default() }
    }
}

/// A procedure on its way to its reply.
pub(crate) type Running = Pin<Box<dyn Future<Output = Option<Message>> + Send>>;

/// A failure of an operation that changes nothing, where its caller gets the status alone.
impl From<leasehold_fs::ops::Failed> for Refusal<()> {
    fn from(failed: leasehold_fs::ops::Failed) -> Self {
        failed.error.into()
    }
}

/// Runs a procedure on arguments that are not decoded yet, and writes its reply, with no error in
/// it but those that the procedure may answer.
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
        if !P::Dialect::SAYS_LATER && matches!(&results, Err(r) if r.error == FsError::Later) {
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

/// The reply to arguments that cannot be decoded.
pub(crate) fn garbage(xid: Xid, mut writer: Writer) -> Message {
    Reply { xid, status: ReplyStatus::GarbageArguments }.encode(&mut writer);
    writer.finish()
}

/// The reply that has the caller of a procedure ask again later.
pub(crate) fn ask_again<P: Procedure>(xid: Xid, mut writer: Writer) -> Message {
    Reply { xid, status: ReplyStatus::Success }.encode(&mut writer);
    P::Dialect::failed(FsError::Later, &mut writer);
    P::Failed::default().encode(&mut writer);
    writer.finish()
}

/// The reply of a procedure whose change failed to reach stable storage.
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

/// Results without a status: those of procedures that cannot fail.
pub(crate) struct Plain;

impl Dialect for Plain {
    const HAS_STATUS: bool = false;

    fn done(_: &mut Writer) {}

    fn failed(_: FsError, _: &mut Writer) {}
}

/// No results, and no reply: a message that is sent as a call.
pub(crate) struct Told;

impl Dialect for Told {
    const IS_ANSWERED: bool = false;
    const HAS_STATUS: bool = false;

    fn done(_: &mut Writer) {}

    fn failed(_: FsError, _: &mut Writer) {}
}

/// Procedure 0 of every program: does nothing, and shows that the server is there.
pub(crate) async fn null(_: &Context, (): ()) -> Result<(), Refusal<()>> {
    Ok(())
}

#[cfg(test)]
mod tests;
