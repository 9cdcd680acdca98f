//! A client of version 4.2 at the byte level.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use bytes::Bytes;
use leasehold_base::limits::sessions::COMPOUND_BYTES_MAX;
use leasehold_base::xdr::{Decode as _, Encode, Message, Reader, Writer};
use leasehold_serve::{Program as _, Response};
use leasehold_wire::nfs4::compound::{Args, CallWriter, Operations, ReplyHeader, Results};
use leasehold_wire::nfs4::{
    Attribute, AttributeValues, Attributes, Bitmap, COMPOUND, ChannelAttributes, ClientId,
    ClientOwner, ClientVerifier, Completion, DelegationKind, EncodedAttributes, Handle, Identifier,
    LockKind, Name, OwnerSequence, PROGRAM, SequenceId, SessionId, SlotId, StateOwner, Stateid,
    Status, Tag, VERSION, create_session, exchange_id, lock, open, reclaim_complete, sequence,
};
use leasehold_wire::rpc;

use super::World;

/// A client with one session and one slot.
pub(super) struct Client {
    name: &'static [u8],
    incarnation: u8,
    id: ClientId,
    session: SessionId,
    next: u32,
}

/// The reply to a compound, or a compound that still runs.
pub(super) struct Running(Response);

/// The results of a compound.
pub(super) struct Reply(Bytes);

struct Raw(Bytes);

impl Encode for Raw {
    fn encode(&self, writer: &mut Writer) {
        writer.raw(&self.0);
    }
}

const CHANNEL: ChannelAttributes = ChannelAttributes {
    header_padding_bytes: 0,
    request_bytes_max: COMPOUND_BYTES_MAX,
    reply_bytes_max: COMPOUND_BYTES_MAX,
    cached_reply_bytes_max: 4096,
    operations_max: 16,
    slots: 1,
    rdma_reads: None,
};

impl Running {
    pub(super) fn poll(&mut self) -> Option<Reply> {
        match Pin::new(&mut self.0.reply).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => Some(Reply(reply.map(Message::into_bytes).expect("a reply"))),
            Poll::Pending => None,
        }
    }
}

impl Reply {
    /// Returns the results.
    pub(super) fn results(&self) -> Vec<Results<'_>> {
        let mut reader = Reader::new(&self.0);
        let head = rpc::Reply::decode(&mut reader).expect("a reply");
        assert_eq!(head.status, rpc::ReplyStatus::Success);
        let header = ReplyHeader::decode(&mut reader).expect("a header");
        Operations::new(reader, header.count).map(|one| one.expect("a result")).collect()
    }

    /// Returns the last result.
    pub(super) fn last(&self) -> Results<'_> {
        self.results().pop().expect("a result")
    }

    /// Returns the status of the last result.
    pub(super) fn status(&self) -> Result<(), Status> {
        match self.last().status() {
            Completion::Done(()) => Ok(()),
            Completion::Failed(status) => Err(status),
        }
    }
}

/// Starts a compound.
pub(super) fn start(world: &mut World, operations: &[Args<'_>]) -> Running {
    let mut call = CallWriter::new(Writer::new(), Tag(b""), 2);
    operations.iter().for_each(|operation| call.append(operation));
    let args = Raw(call.finish().finish().into_bytes());
    let message = world.server.message((PROGRAM, VERSION, COMPOUND), &args);
    Running(world.nfs4.answer(world.server.arrival, message, Writer::new()))
}

/// Runs a compound.
pub(super) fn run(world: &mut World, operations: &[Args<'_>]) -> Reply {
    start(world, operations).poll().expect("the compound needs no event")
}

impl Client {
    /// Introduces a client and creates a session.
    pub(super) fn begin(world: &mut World, name: &'static [u8], incarnation: u8) -> Self {
        let mut client =
            Self { name, incarnation, id: ClientId(0), session: SessionId([0; 16]), next: 1 };
        client.begin_again(world);
        client
    }

    /// Introduces the same incarnation to a restarted server.
    pub(super) fn begin_again(&mut self, world: &mut World) {
        let verifier = ClientVerifier([self.incarnation; 8]);
        let reply = run(
            world,
            &[Args::ExchangeId(exchange_id::Args {
                owner: ClientOwner { verifier, id: Identifier(self.name) },
                flags: exchange_id::Flags(0),
                protection: exchange_id::Protection::None,
                implementation: None,
            })],
        );
        let Results::ExchangeId(results) = reply.last() else { panic!("another result") };
        let exchanged = results.done().expect("the server accepts the client");
        let number = exchanged.sequence;
        self.id = exchanged.client;
        let reply = run(
            world,
            &[Args::CreateSession(create_session::Args {
                client: self.id,
                sequence: number,
                flags: create_session::Flags::PERSISTENT,
                fore: CHANNEL,
                back: CHANNEL,
                callback_program: 0x4000_0000,
                callback_security: leasehold_wire::list::Array(Vec::new()),
            })],
        );
        let Results::CreateSession(results) = reply.last() else { panic!("another result") };
        let created = results.done().expect("the server creates a session");
        assert_eq!(created.flags, create_session::Flags(0), "the server keeps no reply");
        (self.session, self.next) = (created.session, 1);
    }

    /// Ends the session and the client id.
    pub(super) fn end(self, world: &mut World) {
        let session = Args::DestroySession(self.session);
        assert_eq!(run(world, &[session]).status(), Ok(()));
        let client = Args::DestroyClientId(self.id);
        assert_eq!(run(world, &[client]).status(), Ok(()));
    }

    fn sequence(&mut self) -> Args<'static> {
        let number = self.next;
        self.next += 1;
        Args::Sequence(sequence::Args {
            session: self.session,
            sequence: SequenceId(number),
            slot: SlotId(0),
            highest_slot: SlotId(0),
            cache: false,
        })
    }

    /// Starts operations in the session.
    pub(super) fn start(&mut self, world: &mut World, operations: &[Args<'_>]) -> Running {
        let all: Vec<_> = [self.sequence()].into_iter().chain(operations.iter().cloned()).collect();
        start(world, &all)
    }

    /// Runs operations in the session.
    pub(super) fn run(&mut self, world: &mut World, operations: &[Args<'_>]) -> Reply {
        self.start(world, operations).poll().expect("the compound needs no event")
    }

    /// Sends RECLAIM_COMPLETE.
    pub(super) fn complete(&mut self, world: &mut World) -> Result<(), Status> {
        self.run(world, &[complete()]).status()
    }

    /// Opens a file of the root by name, creating it if necessary; returns its state and handle.
    pub(super) fn open(
        &mut self,
        world: &mut World,
        name: &[u8],
    ) -> Result<(Stateid, Handle), Status> {
        let attributes = EncodedAttributes { mask: Bitmap::EMPTY, values: AttributeValues(&[]) };
        let how = open::How::Create(open::CreateHow::Unchecked(attributes));
        let open = open_args(open::Claim::Name(Name(name)), how);
        let root = Args::PutRootHandle(());
        let reply = self.run(world, &[root, open, Args::GetHandle(())]);
        reply.status()?;
        let [.., Results::Open(opened), Results::GetHandle(handle)] = &reply.results()[..] else {
            panic!("other results");
        };
        let opened = opened.clone().done()?;
        Ok((opened.stateid, (*handle).done()?))
    }

    /// Opens a file as before the restart of the server.
    pub(super) fn reclaim(
        &mut self,
        world: &mut World,
        handle: &Handle,
    ) -> Result<Stateid, Status> {
        let claim = open::Claim::Previous(DelegationKind::None);
        let open = open_args(claim, open::How::Existing);
        let reply = self.run(world, &[to(handle), open]);
        reply.status()?;
        let Results::Open(opened) = reply.last() else { panic!("another result") };
        Ok(opened.done()?.stateid)
    }

    /// Locks the whole file for writing.
    pub(super) fn lock(
        &mut self,
        world: &mut World,
        (handle, open): (&Handle, Stateid),
        reclaim: bool,
    ) -> Result<Stateid, Status> {
        let lock = Args::Lock(lock::Args {
            kind: LockKind::Write,
            reclaim,
            offset: 0,
            length: u64::MAX,
            locker: lock::Locker::New(lock::NewOwner {
                open_sequence: OwnerSequence(0),
                open,
                lock_sequence: OwnerSequence(0),
                owner: StateOwner { client: ClientId(0), owner: Identifier(b"process") },
            }),
        });
        let reply = self.run(world, &[to(handle), lock]);
        reply.status()?;
        let Results::Lock(locked) = reply.last() else { panic!("another result") };
        locked.done()
    }
}

/// Returns GETATTR of the change attribute.
pub(super) fn change() -> Args<'static> {
    Args::GetAttributes(Bitmap::of(&[Attribute::Change]))
}

/// Returns the change attribute in encoded attributes.
pub(super) fn change_in(encoded: &EncodedAttributes<'_>) -> u64 {
    let supported = Bitmap::of(&[Attribute::Change]);
    let attributes = Attributes::decode(encoded, &supported).expect("the values are valid");
    attributes.change.expect("the server supports the attribute").0
}

/// Returns RECLAIM_COMPLETE.
pub(super) fn complete() -> Args<'static> {
    Args::ReclaimComplete(reclaim_complete::Args { one_file_system: false })
}

/// Returns PUTFH.
pub(super) fn to(handle: &Handle) -> Args<'static> {
    Args::PutHandle(*handle)
}

fn open_args<'a>(claim: open::Claim<'a>, how: open::How<'a>) -> Args<'a> {
    Args::Open(open::Args {
        sequence: OwnerSequence(0),
        access: open::ShareAccess::BOTH,
        deny: open::ShareDeny::NONE,
        owner: StateOwner { client: ClientId(0), owner: Identifier(b"user") },
        how,
        claim,
    })
}
