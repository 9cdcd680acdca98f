//! The READ, WRITE, COMMIT and SETATTR calls that the cache requests.

use bytes::Bytes;
use leasehold_base::attributes::{SetAttributes, Wcc};
use leasehold_core::cache::{Committed, Effect, Event, Fetched, JobId, Stored};
use leasehold_session::{Credential, Error};
use leasehold_wire::nfs3::write::Stability;
use leasehold_wire::nfs3::{self, Handle, Status};

use crate::client::Client;
use crate::convert;
use crate::names::is_gone;
use crate::nodes::{NodeId, Nodes};

/// One call that transfers a file's data.
pub(crate) struct Call {
    job: JobId,
    node: NodeId,
    handle: Handle,
    who: Credential,
    what: What,
}

enum What {
    Read { offset: u64, count: u32 },
    Write { offset: u64, data: Bytes, stable: bool, set: Option<SetAttributes> },
    Commit,
    Alter { set: SetAttributes },
}

impl Call {
    /// Creates the call for an effect. If the client has already forgotten the handle of the file,
    /// there is no call; the error is then the event that the cache receives in place of a reply.
    pub(crate) fn new(nodes: &Nodes, effect: Effect<Error>) -> Result<Self, Box<Event<Error>>> {
        let (job, file, what) = match effect {
            Effect::Fetch { job, file, offset, count } => (job, file, What::Read { offset, count }),
            Effect::Store { job, file, offset, data, stable, set } => {
                (job, file, What::Write { offset, data, stable, set })
            }
            Effect::Commit { job, file } => (job, file, What::Commit),
            Effect::Alter { job, file, set } => (job, file, What::Alter { set }),
            Effect::Read { .. }
            | Effect::Wrote { .. }
            | Effect::Synced { .. }
            | Effect::Refused { .. }
            | Effect::Held { .. }
            | Effect::Idle { .. } => unreachable!("only calls are called"),
        };
        let of = NodeId::of(file);
        let Some((node, handle)) = nodes.get(of).zip(nodes.handle(of)) else {
            let error = Error::Failed(Status::Stale);
            return Err(Box::new(match what {
                What::Read { .. } => Event::Fetched { job, result: Err(error) },
                What::Write { .. } => Event::Stored { job, result: Err(error) },
                What::Commit => Event::Committed { job, result: Err(error) },
                What::Alter { .. } => Event::Altered { job, result: Err(error) },
            }));
        };
        let who = match &what {
            What::Read { .. } => node.reader(),
            What::Write { .. } | What::Commit | What::Alter { .. } => node.writer(),
        };
        Ok(Self { job, node: of, handle, who, what })
    }

    /// Sends the call and passes the result to the cache.
    pub(crate) async fn run(self, client: Client) {
        let Self { job, node, handle, who, what } = self;
        let event = match what {
            What::Read { offset, count } => {
                let there = client.read_objects(&who, (node, &handle), offset, count).await;
                let result = match there {
                    Some(fetched) => Ok(fetched),
                    None => read(&client, &who, &handle, offset, count).await,
                };
                Event::Fetched { job, result: told(&client, node, result) }
            }
            What::Write { offset, data, stable, set } => {
                let what = (data, stable, set);
                let result = write_under(&client, (&who, node), &handle, offset, what).await;
                Event::Stored { job, result: told(&client, node, result) }
            }
            What::Commit => {
                let result = commit(&client, (&who, node), &handle).await;
                Event::Committed { job, result: told(&client, node, result) }
            }
            What::Alter { set } => {
                let result = alter_under(&client, (&who, node), &handle, &set).await;
                Event::Altered { job, result: told(&client, node, result) }
            }
        };
        client.with(|state, now, actions| {
            if is_stale(&event) && state.nodes.is_losing(node) {
                // This client itself has removed the file, or the reply to its REMOVE is still in
                // transit. The stale handle is then no loss of data, so the cache discards the
                // file's data without an error.
                state.step(now, Event::Discard { file: node.key() }, actions);
            }
            let refused = state.cache.counters().refused_bytes;
            state.step(now, event, actions);
            if state.cache.counters().refused_bytes != refused {
                let (_, why) = state.cache.failure(node.key());
                state.refusals.refused(node, why);
            }
            state.note_saved(now, node, actions);
            // If the unsaved data was the only reason to keep the node, the client forgets the node
            // now.
            if let Some(forget) = state.forget_unused(node) {
                state.step(now, forget, actions);
            }
        });
    }
}

/// Returns true if the event reports that the file is gone.
const fn is_stale(event: &Event<Error>) -> bool {
    let (Event::Stored { result: Err(error), .. }
    | Event::Committed { result: Err(error), .. }
    | Event::Altered { result: Err(error), .. }) = event
    else {
        return false;
    };
    is_gone(error)
}

/// Forgets a file that is gone, so that its next use looks it up again.
fn told<T>(client: &Client, node: NodeId, result: Result<T, Error>) -> Result<T, Error> {
    if let Err(Error::Failed(status)) = result {
        client.failed(node, status);
    }
    result
}

pub(crate) async fn read(
    client: &Client,
    who: &Credential,
    file: &Handle,
    offset: u64,
    count: u32,
) -> Result<Fetched, Error> {
    let done = client.shared.nfs.read(who, file, offset, count).await?.done()?;
    if done.data.is_empty() && !done.end && count > 0 {
        // The server returned neither data nor the end of the file. A retry would loop without end,
        // so the read fails.
        return Err(Error::Failed(Status::Io));
    }
    let attributes = done.attributes.as_ref().map(convert::attributes);
    Ok(Fetched { data: done.data, end: done.end, attributes })
}

/// Writes data and sets attributes that were changed under a lease. If the server refused the data
/// as late only because another WRITE of this client came first, sends the call again.
async fn write_under(
    client: &Client,
    (who, node): (&Credential, NodeId),
    file: &Handle,
    offset: u64,
    (data, stable, mut set): (Bytes, bool, Option<SetAttributes>),
) -> Result<Stored, Error> {
    let stability = if stable { Stability::FileSync } else { Stability::Unstable };
    let writing = client.writing(node);
    let there = client.write_objects(who, (node, file), offset, (&data, stability)).await;
    drop(writing);
    if let Some(stored) = there? {
        return Ok(stored);
    }
    // Only the WRITE of the lease program can set attributes.
    set = set.filter(|_| client.is_leased());
    loop {
        let writing = client.writing(node);
        let base = writing.base;
        let piggyback = client.piggyback(&[], base);
        let also = convert::set_attributes(&set.unwrap_or_default());
        let sent = (client.shared.options.time_of_day)();
        let reply =
            piggyback.nfs.write_and_set(who, file, offset, (data.clone(), stability), also).await;
        writing.answered(&piggyback);
        client.with(|state, _, actions| state.layouts.changed(node, actions));
        if let Some(now) = piggyback.told().late {
            if client.is_late_for_ours(node, base).await {
                continue;
            }
            client.shared.state().note_late(node, base, now);
        }
        let reply = reply?;
        // The server may have refused only the attributes, so the loop sends the data again without
        // attributes.
        if matches!(reply, nfs3::Reply::Failed(..)) && set.take().is_some() {
            continue;
        }
        let done = reply.done()?;
        client.note_server_clock(sent, &done.file);
        return stored(done, set.is_some());
    }
}

/// Sets attributes that were changed under a lease.
async fn alter_under(
    client: &Client,
    (who, node): (&Credential, NodeId),
    file: &Handle,
    set: &SetAttributes,
) -> Result<Wcc, Error> {
    let set = convert::set_attributes(set);
    loop {
        let writing = client.writing(node);
        let base = writing.base;
        let piggyback = client.piggyback(&[], base);
        let reply = piggyback.nfs.setattr(who, file, &set, None).await;
        writing.answered(&piggyback);
        if let Some(now) = piggyback.told().late {
            if client.is_late_for_ours(node, base).await {
                continue;
            }
            client.shared.state().note_late(node, base, now);
        }
        // The SETATTR has ended the layout of the file at the server, so the client forgets the
        // layout.
        client.with(|state, _, actions| state.layouts.forget(node, actions));
        return match reply? {
            nfs3::Reply::Done(wcc) => Ok(convert::wcc(&wcc)),
            nfs3::Reply::Failed(status, _) => Err(Error::Failed(status)),
        };
    }
}

fn stored(done: nfs3::write::Done, set: bool) -> Result<Stored, Error> {
    if done.count == 0 {
        return Err(Error::Failed(Status::Io));
    }
    let unstable = (done.stability == Stability::Unstable).then_some(done.verifier);
    Ok(Stored { count: done.count, unstable, wcc: convert::wcc(&done.file), set })
}

async fn commit(
    client: &Client,
    (who, node): (&Credential, NodeId),
    file: &Handle,
) -> Result<Committed, Error> {
    let piggyback = client.piggyback(&[], None);
    let writing = client.writing(node);
    let reply = piggyback.nfs.commit(who, file, 0, 0).await;
    writing.answered(&piggyback);
    match reply? {
        nfs3::Reply::Done(done) => {
            client.with(|state, _, actions| state.layouts.committed(node, done.verifier, actions));
            Ok(Committed { verifier: done.verifier, wcc: convert::wcc(&done.file) })
        }
        nfs3::Reply::Failed(status, _) => Err(Error::Failed(status)),
    }
}
