//! The READs, WRITEs and COMMITs that the cache asks for.

use bytes::Bytes;
use leasehold_core::cache::{Committed, Effect, Event, Fetched, JobId, Stored};
use leasehold_session::{Credential, Error};
use leasehold_wire::nfs3::write::Stability;
use leasehold_wire::nfs3::{self, Handle, Status};

use crate::client::Client;
use crate::convert;
use crate::nodes::{NodeId, Nodes};
use crate::ride::{FIRST, How};

/// One call for a file's data.
pub(crate) struct Call {
    job: JobId,
    node: NodeId,
    handle: Handle,
    who: Credential,
    what: What,
}

enum What {
    Read { offset: u64, count: u32 },
    Write { offset: u64, data: Bytes, stable: bool },
    Commit,
}

impl Call {
    /// The call of an effect that is one.
    pub(crate) fn new(nodes: &Nodes, effect: Effect<Error>) -> Self {
        let (job, file, what) = match effect {
            Effect::Fetch { job, file, offset, count } => (job, file, What::Read { offset, count }),
            Effect::Store { job, file, offset, data, stable } => {
                (job, file, What::Write { offset, data, stable })
            }
            Effect::Commit { job, file } => (job, file, What::Commit),
            Effect::Read { .. }
            | Effect::Wrote { .. }
            | Effect::Synced { .. }
            | Effect::Held { .. }
            | Effect::Idle { .. } => unreachable!("only calls are called"),
        };
        let node = nodes.get(NodeId::of(file)).expect("a file with data is known");
        let handle = nodes.handle(NodeId::of(file)).expect("a file with data is known");
        let who = match &what {
            What::Read { .. } => node.reader(),
            What::Write { .. } | What::Commit => node.writer(),
        };
        Self { job, node: NodeId::of(file), handle, who, what }
    }

    /// Calls, and tells the cache what came of it.
    pub(crate) async fn run(self, client: Client) {
        let Self { job, node, handle, who, what } = self;
        let event = match what {
            What::Read { offset, count } => {
                let result = read(&client, &who, &handle, offset, count).await;
                Event::Fetched { job, result: told(&client, node, result) }
            }
            What::Write { offset, data, stable } => {
                let result =
                    write_under(&client, (&who, node), &handle, offset, (data, stable)).await;
                Event::Stored { job, result: told(&client, node, result) }
            }
            What::Commit => {
                let result = commit(&client, &who, &handle).await;
                Event::Committed { job, result: told(&client, node, result) }
            }
        };
        client.with(|state, now, doings| {
            state.step(now, event, doings);
            state.note_saved(now, node, doings);
            // Its data may have been all that kept it.
            if let Some(forget) = state.forget_unused(node) {
                state.step(now, forget, doings);
            }
        });
    }
}

/// A file that is gone is looked up again by whoever comes next.
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
        // A server that brings nothing and does not say why would be asked for ever.
        return Err(Error::Failed(Status::Io));
    }
    let attributes = done.attributes.as_ref().map(convert::attributes);
    Ok(Fetched { data: done.data, end: done.end, attributes })
}

/// Writes what was changed under a lease. What is too late for that by itself, as another WRITE of
/// ours came before, is sent again.
async fn write_under(
    client: &Client,
    (who, node): (&Credential, NodeId),
    file: &Handle,
    offset: u64,
    (data, stable): (Bytes, bool),
) -> Result<Stored, Error> {
    let stability = if stable { Stability::FileSync } else { Stability::Unstable };
    loop {
        let base = client.shared.state().begin_write(node);
        let ride = client.ride(&[], base);
        let reply = ride.nfs.write(who, file, offset, (data.clone(), stability)).await;
        client.shared.state().end_write(node);
        if let Some(now) = ride.told().late {
            if client.is_late_for_ours(node, base, now).await {
                continue;
            }
            client.hand_over(node, (offset, &data), base, now);
            client.shared.state().note_late(node);
        }
        let how = ride.change(FIRST);
        if how != How::Unknown {
            client.with(|state, now, doings| state.wrote(now, node, how, doings));
        }
        return stored(reply?.done()?);
    }
}

fn stored(done: nfs3::write::Done) -> Result<Stored, Error> {
    if done.count == 0 {
        return Err(Error::Failed(Status::Io));
    }
    let unstable = (done.stability == Stability::Unstable).then_some(done.verifier);
    Ok(Stored { count: done.count, unstable, wcc: convert::wcc(&done.file) })
}

async fn commit(client: &Client, who: &Credential, file: &Handle) -> Result<Committed, Error> {
    match client.shared.nfs.commit(who, file, 0, 0).await? {
        nfs3::Reply::Done(done) => {
            Ok(Committed { verifier: done.verifier, wcc: convert::wcc(&done.file) })
        }
        nfs3::Reply::Failed(status, _) => Err(Error::Failed(status)),
    }
}
