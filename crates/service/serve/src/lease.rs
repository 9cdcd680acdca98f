//! The front end of the lease program (`spec/lease.x`): the procedures of NFS version 3 with
//! leases, and the procedures that only this program has.

use core::future::ready;
use core::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Encode as _, Message, Reader, Writer, decode_all};
use leasehold_core::leases::clients::{Event, Refusal as Refused};
use leasehold_core::leases::{Client, Open, Serial};
use leasehold_fs::{FsError, LaidOut, Layout, Owner, Purpose};
use leasehold_leases::{
    Admission, ChangeBase, LeaseRequests, LeasedCall, LeasedStore, Piggyback, Protocol,
};
use leasehold_wire::lease::{
    self, Answer, Call, Caller, append, goodbye, hello, layout, leases, objects as laid_out, write,
};
use leasehold_wire::list::List;
use leasehold_wire::nfs3::{self, Handle, SetAttributes, Wcc};
use leasehold_wire::rpc::{Reply, ReplyStatus};

use crate::context::{Context, Leased};
use crate::errors::Errors;
use crate::nfs3::{Nfs3, data, objects};
use crate::procedure::{Dialect, Plain, Procedure, Refusal, Running, garbage, null};
use crate::table::{Keep, Row, row};

/// The maximum number of lease requests of one call that run concurrently.
const TOGETHER_MAX: usize = 64;

/// The procedures in the order of their numbers.
pub(crate) const ROWS: &[Row] = &[
    row!(Plain, "NULL", null, () => (), ()),
    crate::nfs3::ROWS[1].with_leases(),
    crate::nfs3::ROWS[2].with_leases(),
    crate::nfs3::ROWS[3].with_leases(),
    crate::nfs3::ROWS[4].with_leases(),
    crate::nfs3::ROWS[5].with_leases(),
    crate::nfs3::ROWS[6].with_leases(),
    row!(Nfs3, "WRITE", merged_write, write::Merged => nfs3::write::Done, Wcc)
        .fails(crate::nfs3::errors::WRITE)
        .writes()
        .keep(Keep::Late)
        .with_leases(),
    crate::nfs3::ROWS[8].with_leases(),
    crate::nfs3::ROWS[9].with_leases(),
    crate::nfs3::ROWS[10].with_leases(),
    crate::nfs3::ROWS[11].with_leases(),
    crate::nfs3::ROWS[12].with_leases(),
    crate::nfs3::ROWS[13].with_leases(),
    crate::nfs3::ROWS[14].with_leases(),
    crate::nfs3::ROWS[15].with_leases(),
    crate::nfs3::ROWS[16].with_leases(),
    crate::nfs3::ROWS[17].with_leases(),
    crate::nfs3::ROWS[18].with_leases(),
    crate::nfs3::ROWS[19].with_leases(),
    crate::nfs3::ROWS[20].with_leases(),
    crate::nfs3::ROWS[21].with_leases(),
    row!(Nfs3, "APPEND", append, append::Data => append::Appended, Wcc)
        .fails(crate::nfs3::errors::WRITE)
        .writes()
        .keep(Keep::Always)
        .with_leases(),
    row!(Worded, "HELLO", hello, hello::Args<'a> => hello::Reply, ()),
    row!(Worded, "LEASE", lease, leases::Args => leases::Reply, ()),
    row!(Worded, "GOODBYE", goodbye, goodbye::Args => goodbye::Reply, ()),
    row!(Nfs3, "LAYOUT", layout, layout::Wanted => layout::Layout, ())
        .fails(crate::nfs3::errors::WRITE)
        .with_leases(),
    row!(Nfs3, "OBJECTS", find_objects, laid_out::Wanted => laid_out::Layout, ())
        .fails(crate::nfs3::errors::WRITE)
        .with_leases(),
];

/// The dialect of the lease program's own procedures: every reply begins with a status of the lease
/// program, and no procedure fails in another way.
struct Worded;

impl Dialect for Worded {
    fn done(_: &mut Writer) {}

    fn failed(_: FsError, writer: &mut Writer) {
        Answer::<()>::Later.encode(writer);
    }
}

/// Returns the answer to a call that the server refuses.
const fn refused<T>(why: Refused) -> Answer<T> {
    match why {
        Refused::Epoch(now) => Answer::Epoch(now),
        Refused::Instance(now) => Answer::Instance(now),
        Refused::Unknown => Answer::Unknown,
        Refused::Later => Answer::Later,
    }
}

/// Wraps a result that does not belong to a procedure of NFS.
const fn done<T>(results: T) -> Answer<T> {
    Answer::Done(lease::Done { granted: List(Vec::new()), changes: List(Vec::new()), results })
}

impl Context {
    /// Returns the client of a call.
    fn admitted(&self, caller: &Caller) -> Result<Client, Refused> {
        let leases = &self.service.leases;
        leases.admit(self.arrival.now, self.arrival.return_path(), caller)
    }
}

/// Runs a procedure of NFS for a client with leases, and encodes its reply.
pub(crate) fn handler<P: Procedure>(
    errors: Errors,
    mut context: Context,
    xid: Xid,
    arguments: Bytes,
    mut writer: Writer,
) -> Running {
    Box::pin(async move {
        let Ok(Call { head, args }) = decode_all::<Call<P::Args<'_>>>(&mut Reader::new(&arguments))
        else {
            return Some(garbage(xid, writer));
        };
        Reply { xid, status: ReplyStatus::Success }.encode(&mut writer);
        let client = match context.admitted(&head.caller) {
            Ok(client) => client,
            Err(why) => return Some(answered(&refused(why), writer)),
        };
        let mut asks = LeaseRequests::new(&head.asks.0);
        if !asks.is_empty() {
            match context.service.leases.may_ask(client).await {
                Admission::Allowed => {}
                // The operation itself does not need a lease, so it runs without the requests.
                Admission::Declined => asks = LeaseRequests::default(),
                Admission::Later => return Some(answered(&Answer::Later, writer)),
            }
        }
        let asked = Arc::new(Piggyback::new(client, asks, ChangeBase::Named(head.base)));
        context.leased = Some(Box::new(Leased::new(Arc::clone(&asked))));
        let results = P::run(&context, args).await;
        let told = asked.outcome();
        if let Some(now) = told.late {
            return Some(answered(&Answer::Late(now), writer));
        }
        if matches!(&results, Err(refusal) if refusal.error == FsError::Delay) {
            asked.unacknowledged(&context.service.leases, &told);
            return Some(answered(&Answer::Later, writer));
        }
        writer.u32(0);
        List(told.granted).encode(&mut writer);
        List(told.changes).encode(&mut writer);
        match results {
            Ok(done) => {
                P::Dialect::done(&mut writer);
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

fn answered(answer: &Answer<()>, mut writer: Writer) -> Message {
    answer.encode(&mut writer);
    writer.finish()
}

/// Encodes the reply that requests a client with leases to retry later.
pub(crate) fn ask_again(xid: Xid, mut writer: Writer) -> Message {
    Reply { xid, status: ReplyStatus::Success }.encode(&mut writer);
    answered(&Answer::Later, writer)
}

async fn merged_write(
    context: &Context,
    args: write::Merged,
) -> Result<nfs3::write::Done, Refusal<Wcc>> {
    let file = args.write.file;
    let written = data::write(context, args.write).await?;
    if args.attributes == SetAttributes::default() {
        return Ok(written);
    }
    let set = nfs3::setattr::Args { object: file, attributes: args.attributes, guard: None };
    let after = objects::setattr(context, set).await?;
    Ok(nfs3::write::Done { file: Wcc { before: written.file.before, ..after }, ..written })
}

async fn append(context: &Context, args: append::Data) -> Result<append::Appended, Refusal<Wcc>> {
    let append::Data { file, stability, data } = args;
    let count = u32::try_from(data.len()).map_err(|_| FsError::Invalid)?;
    let write = nfs3::write::Args { file, offset: 0, count, stability, data };
    let asked = &context.leased.as_ref().ok_or(FsError::ServerFault)?.asked;
    asked.append();
    let written = data::write(context, write).await?;
    Ok(append::Appended { offset: asked.offset(), written })
}

/// Ends a layout. A client of an earlier version that requests a layout gets an empty one, because
/// the iods no longer accept the user and group numbers in the calls of such a client.
async fn layout(context: &Context, args: layout::Wanted) -> Result<layout::Layout, Refusal<()>> {
    let target = context.target(args.file.as_bytes()).await?;
    if args.kind.is_none() {
        target.request.export.store.recall_layout(&target.object).await?;
    }
    Ok(layout::Layout { unit: 0, owner: 0, verifier: [0; 8], objects: List(Vec::new()) })
}

async fn find_objects(
    context: &Context,
    args: laid_out::Wanted,
) -> Result<laid_out::Layout, Refusal<()>> {
    let target = context.target(args.file.as_bytes()).await?;
    let (request, object) = (&target.request, &target.object);
    let purpose = match args.kind {
        lease::Kind::Write if request.read_only => return Err(FsError::ReadOnly.into()),
        // An access rule may change the caller's user, and the iods do not apply access rules. A
        // caller whose user is changed therefore gets no layout.
        _ if !target.trusted => return Ok(told(None, context.arrival.to)),
        lease::Kind::Write => Purpose::Write,
        lease::Kind::Read => Purpose::Read,
    };
    let found = request.export.store.open_layout(&request.caller, object, purpose).await?;
    Ok(told(found, context.arrival.to))
}

/// Encodes a layout for a client that reaches this server at `server`. The function replaces a
/// loopback address of an iod by `server`, because the client cannot reach the iod at a loopback
/// address.
fn told(found: Option<Layout>, server: IpAddr) -> laid_out::Layout {
    let nowhere = || {
        let (unit, user, group, verifier) = (0, 0, 0, [0; 8]);
        laid_out::Layout { unit, user, group, verifier, objects: List(Vec::new()) }
    };
    let Some(Layout { unit, caller, verifier, objects, .. }) = found else { return nowhere() };
    let objects = objects.into_iter().map(|LaidOut { spot, verifier }| {
        let at = spot.address.ip().to_canonical();
        let host = match if at.is_loopback() { server.to_canonical() } else { at } {
            IpAddr::V4(host) => host.to_ipv6_mapped(),
            IpAddr::V6(host) => host,
        };
        let (port, object) = (spot.address.port().into(), Handle::new(&spot.handle)?);
        Some(layout::Object { host: host.octets(), port, object, verifier: verifier.0 })
    });
    let Some(objects) = objects.collect::<Option<Vec<_>>>() else { return nowhere() };
    let Owner { user, group } = caller;
    laid_out::Layout { unit, user, group, verifier: verifier.0, objects: List(objects) }
}

async fn hello(context: &Context, args: hello::Args<'_>) -> Result<hello::Reply, Refusal<()>> {
    let hello::Args { client, instance, name } = args;
    let service = &context.service;
    let name = String::from_utf8_lossy(name.0);
    if let Err(why) = service.welcome(&context.arrival, (client, instance), Protocol::Lease, &name)
    {
        return Ok(refused(why));
    }
    let (epoch, recovering) = service.leases.standing();
    let terms = service.leases.terms();
    let millis = |time: core::time::Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
    Ok(done(hello::Welcome {
        epoch,
        recovering,
        default_term_ms: millis(terms.default_term),
        longest_term_ms: millis(terms.longest_term),
        write_slack_ms: millis(terms.write_slack),
        drift_ppm: terms.drift_ppm,
        leases_names: service.leases_names(),
    }))
}

async fn lease(context: &Context, args: leases::Args) -> Result<leases::Reply, Refusal<()>> {
    let client = match context.admitted(&args.caller) {
        Ok(client) => client,
        Err(why) => return Ok(refused(why)),
    };
    let service = &context.service;
    for leases::Returned { object, serial, open } in args.returned.0 {
        // The server grants leases only on handles that it issued, so it ignores any other handle.
        if let Ok((export, id)) = service.handles.open(object.as_bytes()) {
            let open = match open {
                lease::Open::No => Open::No,
                lease::Open::Read => Open::Read,
                lease::Open::Write => Open::Write,
            };
            let id = service.exports().by_id(export).map_or(id, |o| o.export.store.identity(&id));
            service.leases.returned(client, (export, id), Serial(serial), open);
        }
    }
    let mut wanted = args.wanted.0;
    if !wanted.is_empty() {
        let reclaims = wanted.iter().any(|one| one.reclaim);
        match service.leases.may_ask(client).await {
            Admission::Allowed => {}
            // A reply without leases would make the client give up the leases that it reclaims. A
            // call with a reclaim therefore gets a retry status instead.
            Admission::Declined if !reclaims => wanted = Vec::new(),
            Admission::Declined | Admission::Later => return Ok(Answer::Later),
        }
    }
    let held = all_granted(context, client, wanted).await;
    match args.progress {
        leases::Progress::Reclaiming => {}
        leases::Progress::Reclaimed => service.leases.progressed(Event::Reclaimed(client)),
        leases::Progress::Recovered => {
            service.leases.progressed(Event::Reclaimed(client));
            service.leases.progressed(Event::Recovered(client));
        }
    }
    Ok(done(leases::AllHeld { held: List(held) }))
}

/// Grants all requested leases of a call concurrently. If a few requests waited some seconds each,
/// for example for unreachable iods, a sequential reply would arrive after the terms of all leases,
/// which begin at the time of the request.
async fn all_granted(
    context: &Context,
    client: Client,
    wanted: Vec<leases::Wanted>,
) -> Vec<leases::Held> {
    let granted = |(place, wanted)| granted(context, client, place, wanted);
    let asked = stream::iter((0..).zip(wanted).map(granted));
    asked.buffered(TOGETHER_MAX).filter_map(ready).collect().await
}

/// Grants one requested lease.
async fn granted(
    context: &Context,
    client: Client,
    place: u32,
    wanted: leases::Wanted,
) -> Option<leases::Held> {
    let target = context.target(wanted.object.as_bytes()).await.ok()?;
    let asks = LeaseRequests::first(&wanted.terms, wanted.reclaim);
    let asked = Arc::new(Piggyback::new(client, asks, ChangeBase::Named(None)));
    let by = LeasedCall {
        asked: Arc::clone(&asked),
        caller: target.request.caller.clone(),
        read_only: target.request.read_only,
    };
    let store = Arc::clone(&target.offer.export.store);
    let gate = LeasedStore::new(
        store,
        target.offer.export.id,
        Arc::clone(&context.service.leases),
        Some(by),
    );
    let (attributes, _) = gate.lease(&target.object).await.ok()?;
    let grant = asked.outcome().granted.first()?.grant;
    let attributes = attributes.as_ref().map(crate::nfs3::convert::attributes);
    Some(leases::Held { place, grant, attributes })
}

async fn goodbye(context: &Context, caller: Caller) -> Result<goodbye::Reply, Refusal<()>> {
    match context.admitted(&caller) {
        Ok(_) | Err(Refused::Later) => {
            context.service.leases.goodbye(caller.client);
            Ok(done(()))
        }
        Err(why) => Ok(refused(why)),
    }
}
