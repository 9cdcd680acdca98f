//! The front end of NQNFS version 3: the procedures of NFS version 3 with piggybacked leases,
//! GETLEASE, and VACATED. `docs/design/0019-nqnfs.md` lists the deviations from the paper.
//!
//! Rules:
//! - A client is a host with all its ports: the server sends each message about a lease on every
//!   return path of the host. A host becomes a client with its first lease request for an object
//!   with a valid handle, so that after a restart the server never waits for a host that had no
//!   access.
//! - The server reports a term without the paper's allowance for clock skew, in whole seconds.
//! - If the server refuses a lease, the reply to GETLEASE contains a lease under which the client
//!   may not cache, and other replies contain no lease.
//! - Any lease of the client on the file covers a WRITE of that client. After a restart the server
//!   accepts writes of listed clients once the clients that can reclaim have reclaimed their
//!   leases.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Decode as _, Encode as _, Reader, Writer, decode_all};
use leasehold_core::leases::clients::Refusal as Refused;
use leasehold_core::leases::{self, Client};
use leasehold_fs::FsError;
use leasehold_leases::{
    Admission, ChangeBase, LeaseRequests, LeasedCall, LeasedStore, Leases, Piggyback, Protocol,
};
use leasehold_wire::nfs3;
use leasehold_wire::nqnfs::{Ask, Call, Grant, Kind, Terms, evicted, getlease, vacated};
use leasehold_wire::rpc::{Reply, ReplyStatus};

use crate::context::{Context, Leased};
use crate::errors::Errors;
use crate::nfs3::{Nfs3, convert, data, errors};
use crate::procedure::{Dialect as _, OneWay, Plain, Procedure, Refusal, Running, garbage, null};
use crate::table::{Keep, Row, row};

/// The procedures in the order of their numbers.
pub(crate) const ROWS: &[Row] = &[
    row!(Plain, "NULL", null, () => (), ()),
    crate::nfs3::ROWS[1].in_nqnfs(),
    crate::nfs3::ROWS[2].in_nqnfs(),
    crate::nfs3::ROWS[3].in_nqnfs(),
    crate::nfs3::ROWS[4].in_nqnfs(),
    crate::nfs3::ROWS[5].in_nqnfs(),
    crate::nfs3::ROWS[6].in_nqnfs(),
    row!(Nfs3, "WRITE", write, nfs3::write::Args => nfs3::write::Done, nfs3::Wcc)
        .fails(errors::WRITE)
        .writes()
        .keep(Keep::Late)
        .in_nqnfs(),
    crate::nfs3::ROWS[8].in_nqnfs(),
    crate::nfs3::ROWS[9].in_nqnfs(),
    crate::nfs3::ROWS[10].in_nqnfs(),
    crate::nfs3::ROWS[11].in_nqnfs(),
    crate::nfs3::ROWS[12].in_nqnfs(),
    crate::nfs3::ROWS[13].in_nqnfs(),
    crate::nfs3::ROWS[14].in_nqnfs(),
    crate::nfs3::ROWS[15].in_nqnfs(),
    crate::nfs3::ROWS[16].in_nqnfs(),
    crate::nfs3::ROWS[17].in_nqnfs(),
    crate::nfs3::ROWS[18].in_nqnfs(),
    crate::nfs3::ROWS[19].in_nqnfs(),
    crate::nfs3::ROWS[20].in_nqnfs(),
    crate::nfs3::ROWS[21].in_nqnfs(),
    crate::nfs3::ROWS[1].in_nqnfs().named("GETLEASE", getlease).fails(errors::GETLEASE),
    row!(OneWay, "VACATED", vacated, vacated::Args => (), ()),
    row!(OneWay, "EVICTED", evicted, evicted::Args => (), ()),
];

/// The paper's allowance for clock skew, which also covers the rounding to whole seconds.
const CLOCK_SKEW: Duration = Duration::from_secs(3);

/// The shortest term, in seconds, reported with a lease that was not granted.
const TERM_SECONDS_MIN: u32 = 5;

/// Runs a procedure of NFS for a client of NQNFS, and encodes its reply.
pub(crate) fn handler<P: Procedure>(
    errors: Errors,
    mut context: Context,
    xid: Xid,
    arguments: Bytes,
    mut writer: Writer,
) -> Running {
    Box::pin(async move {
        let Ok(Call { ask, args }) = decode_all::<Call<P::Args<'_>>>(&mut Reader::new(&arguments))
        else {
            return Some(garbage(xid, writer));
        };
        let ask = ask.filter(|_| is_of_ours(&context, &arguments));
        let (results, grant) = match of_nqnfs(&mut context, ask).await {
            Ok(asked) => {
                let leased = asked.as_ref().map(|asked| Box::new(Leased::new(Arc::clone(asked))));
                context.leased = leased;
                let results = P::run(&context, args).await;
                (results, ask.zip(asked).and_then(|(ask, asked)| granted(ask, &asked)))
            }
            Err(error) => (Err(error.into()), None),
        };
        Reply { xid, status: ReplyStatus::Success }.encode(&mut writer);
        match results {
            Ok(done) => {
                P::Dialect::done(&mut writer);
                match grant {
                    Some(Grant { kind, terms }) => {
                        kind.encode(&mut writer);
                        terms.encode(&mut writer);
                    }
                    None => writer.u32(0),
                }
                done.encode(&mut writer);
            }
            Err(Refusal { error, results }) => {
                P::Dialect::failed(errors.word(error), &mut writer);
                results.encode(&mut writer);
            }
        }
        Some(writer.finish())
    })
}

/// Returns true if the call contains a valid handle of an object; the arguments of all calls with
/// leases begin with a handle.
fn is_of_ours(context: &Context, arguments: &Bytes) -> bool {
    let call = Call::<nfs3::Handle>::decode(&mut Reader::new(arguments));
    call.is_ok_and(|call| context.service.handles.open(call.args.as_bytes()).is_ok())
}

/// Returns the grant for the reply to a call.
fn granted(ask: Ask, asked: &Piggyback) -> Option<Grant> {
    let grant = asked.outcome().granted.first()?.grant;
    let term = Duration::from_millis(grant.term_ms.into()).saturating_sub(CLOCK_SKEW);
    let seconds = u32::try_from(term.as_secs()).unwrap_or(u32::MAX);
    let terms = Terms { cachable: grant.cachable, seconds, modrev: grant.modrev };
    Some(Grant { kind: ask.kind, terms })
}

/// Returns the lease requests of a call; None if the host is not a client with leases and requests
/// no lease.
async fn of_nqnfs(
    context: &mut Context,
    ask: Option<Ask>,
) -> Result<Option<Arc<Piggyback>>, FsError> {
    let Some(client) = host_of(context, ask.is_some())? else { return Ok(None) };
    let leases = &context.service.leases;
    let asks = match ask {
        Some(ask) if leases.may_ask(client).await == Admission::Allowed => asks(leases, ask),
        Some(_) | None => LeaseRequests::default(),
    };
    Ok(Some(Arc::new(Piggyback::new(client, asks, ChangeBase::Held))))
}

/// Returns the client of the calling host. Registers the host if it requests a lease or may have
/// had leases before a restart.
fn host_of(context: &mut Context, asks: bool) -> Result<Option<Client>, FsError> {
    let Context { service, exports, arrival, .. } = context;
    let (leases, host) = (&service.leases, arrival.from.ip());
    match leases.admit_host(arrival.now, arrival.return_path(), host) {
        Ok(client) => Ok(Some(client)),
        Err(Refused::Unknown) if asks || leases.waits_for_host(host) => {
            let (who, name) = ((service.handles.name_of(host), 0), format!("NQNFS {host}"));
            let welcome = service.welcome(arrival, who, Protocol::Nqnfs, &name);
            // This call started with the exports without lease enforcement. The server grants no
            // lease while a call uses those exports, so this call changes to the current exports.
            *exports = service.exports();
            let client =
                welcome.and_then(|()| leases.admit_host(arrival.now, arrival.return_path(), host));
            client.map(Some).map_err(|_| FsError::Delay)
        }
        Err(Refused::Unknown) => Ok(None),
        Err(Refused::Epoch(_) | Refused::Instance(_) | Refused::Later) => Err(FsError::Delay),
    }
}

fn asks(leases: &Leases, ask: Ask) -> LeaseRequests {
    let kind = match ask.kind {
        Kind::Read => leases::Kind::Read,
        Kind::Write => leases::Kind::Write,
    };
    let term = match ask.seconds {
        0 => leases.terms().default_term,
        seconds => Duration::from_secs(seconds.into()),
    };
    LeaseRequests::mute(kind, term + CLOCK_SKEW)
}

async fn write(
    context: &Context,
    args: nfs3::write::Args,
) -> Result<nfs3::write::Done, Refusal<nfs3::Wcc>> {
    if let Some(leased) = &context.leased {
        leased.asked.may_be_lost();
    }
    data::write(context, args).await
}

/// GETLEASE.
fn getlease(
    errors: Errors,
    mut context: Context,
    xid: Xid,
    arguments: Bytes,
    mut writer: Writer,
) -> Running {
    Box::pin(async move {
        let Ok(Call { args, .. }) = decode_all::<getlease::Args>(&mut Reader::new(&arguments))
        else {
            return Some(garbage(xid, writer));
        };
        Reply { xid, status: ReplyStatus::Success }.encode(&mut writer);
        match lease(&mut context, args).await {
            Ok(done) => getlease::Reply::Done(None, done).encode(&mut writer),
            Err(error) => Nfs3::failed(errors.word(error), &mut writer),
        }
        Some(writer.finish())
    })
}

async fn lease(context: &mut Context, wanted: getlease::Wanted) -> Result<getlease::Done, FsError> {
    let getlease::Wanted { object, kind, seconds } = wanted;
    let ask = Ask { kind, seconds };
    context.target(object.as_bytes()).await?;
    let asked = of_nqnfs(context, Some(ask)).await?.ok_or(FsError::ServerFault)?;
    // The registration of the host may have replaced the exports, so the call looks the object up
    // again.
    let target = context.target(object.as_bytes()).await?;
    if kind == Kind::Write && target.request.read_only {
        return Err(FsError::ReadOnly);
    }
    let by = LeasedCall {
        asked: Arc::clone(&asked),
        caller: target.request.caller.clone(),
        read_only: target.request.read_only,
    };
    let (store, leases) = (&target.offer.export.store, &context.service.leases);
    let gate =
        LeasedStore::new(Arc::clone(store), target.offer.export.id, Arc::clone(leases), Some(by));
    let (attributes, modrev) = gate.lease_known(&target.object).await?;
    let none = Terms { cachable: false, seconds: TERM_SECONDS_MIN, modrev: modrev.0 };
    let terms = granted(ask, &asked).map_or(none, |grant| grant.terms);
    Ok(getlease::Done { terms, attributes: convert::attributes(&attributes) })
}

async fn vacated(context: &Context, args: vacated::Args) -> Result<(), Refusal<()>> {
    let (service, arrival) = (&context.service, &context.arrival);
    // The server grants leases only on handles that it issued, so it ignores any other handle.
    if let Ok((export, id)) = service.handles.open(args.args.object.as_bytes()) {
        let id = service.exports().by_id(export).map_or(id, |o| o.export.store.identity(&id));
        service.leases.vacated(arrival.now, arrival.from.ip(), (export, id));
    }
    Ok(())
}

/// Does nothing: EVICTED recalls a lease from a client, and a server holds no leases.
async fn evicted(_: &Context, _: evicted::Args) -> Result<(), Refusal<()>> {
    Ok(())
}
