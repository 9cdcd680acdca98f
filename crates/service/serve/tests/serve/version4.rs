//! Version 4 at the byte level, over a store in memory (RFC 8881, RFC 7862).

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use core::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use leasehold_base::units::{ConnectionId, Time, Xid};
use leasehold_base::xdr::{Decode, Encode, Message, Reader, Writer};
use leasehold_serve::{Arrival, HandleKey, Nfs4, NfsVersions, Post, Router};
use leasehold_wire::list::Array;
use leasehold_wire::nfs4::callback::{self, notify_lock};
use leasehold_wire::nfs4::compound::{Args, CallWriter, ReplyHeader, ReplyWriter, Results};
use leasehold_wire::nfs4::{
    self as wire, AttributeValues, Bitmap, ChannelAttributes, ClientId, ClientOwner,
    ClientVerifier, EncodedAttributes, Identifier, LockKind, Name, Number, OwnerSequence,
    SequenceId, SessionId, SlotId, StateOwner, Stateid, Status, Tag, create, create_session,
    exchange_id, lock, open, read, rename, sequence,
};
use leasehold_wire::rpc::{Call, Reply, ReplyStatus};

use crate::support::{NAME, Server};

/// A server of version 4.
struct Bed {
    server: Server,
    router: Router,
    sent: Arc<Sent>,
}

/// The messages that the server has sent to its clients.
#[derive(Default)]
struct Sent(Mutex<Vec<(ConnectionId, Bytes)>>);

impl Post for Sent {
    fn send(&self, to: ConnectionId, message: Message) {
        self.0.lock().expect("no panic").push((to, message.into_bytes()));
    }

    fn send_datagram(&self, _: SocketAddr, _: IpAddr, _: Message) {}

    fn hurry(&self) {}
}

impl Sent {
    fn take(&self) -> Vec<(ConnectionId, Bytes)> {
        core::mem::take(&mut self.0.lock().expect("no panic"))
    }
}

/// The body of a reply to COMPOUND.
struct Answered(Bytes);

impl Answered {
    fn results(&self) -> Vec<Results<'_>> {
        let mut reader = Reader::new(&self.0);
        let header = ReplyHeader::decode(&mut reader).expect("a reply to COMPOUND");
        (0..header.count).map(|_| Results::decode(&mut reader).expect("a result")).collect()
    }

    /// Returns the status of the last operation.
    fn status(&self) -> Result<(), Status> {
        match ReplyHeader::decode(&mut Reader::new(&self.0)).expect("a reply").status {
            wire::Completion::Done(()) => Ok(()),
            wire::Completion::Failed(status) => Err(status),
        }
    }
}

/// Arguments that are encoded already.
struct Encoded(Bytes);

impl Encode for Encoded {
    fn encode(&self, writer: &mut Writer) {
        writer.raw(&self.0);
    }
}

/// A client with one session.
struct Peer {
    name: &'static str,
    connection: ConnectionId,
    client: ClientId,
    session: SessionId,
    requests: u32,
}

const CHANNEL: ChannelAttributes = ChannelAttributes {
    header_padding_bytes: 0,
    request_bytes_max: 1 << 20,
    reply_bytes_max: 1 << 20,
    cached_reply_bytes_max: 4096,
    operations_max: 16,
    slots: 4,
    rdma_reads: None,
};

const NOTHING: EncodedAttributes<'static> =
    EncodedAttributes { mask: Bitmap::EMPTY, values: AttributeValues(&[]) };

impl Bed {
    fn new() -> Self {
        let mut server = Server::new();
        let versions = NfsVersions { v4_1: true, v4_2: true, ..NfsVersions::default() };
        server.restart(|service| service.with_versions(versions));
        let service = Arc::clone(&server.service);
        let nfs4 = Arc::new(Nfs4::new(Arc::clone(&service), HandleKey([1; 16]), 1, Time::ZERO));
        let sent = Arc::new(Sent::default());
        nfs4.call_clients_by(Arc::<Sent>::clone(&sent));
        Self { server, router: Router::new(service, vec![nfs4.row()]), sent }
    }

    fn arrival(&self, connection: ConnectionId) -> Arrival {
        Arrival { connection: Some(connection), ..self.server.arrival }
    }

    fn answer(&self, connection: ConnectionId, message: Bytes) -> Option<Bytes> {
        let reply = self.router.answer(self.arrival(connection), message, Writer::new()).reply;
        match pin!(reply).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => reply.map(Message::into_bytes),
            Poll::Pending => panic!("the store in memory answers at once"),
        }
    }

    /// Runs a compound of minor version 2.
    fn run(&mut self, connection: ConnectionId, operations: &[Args<'_>]) -> Answered {
        let mut calls = CallWriter::new(Writer::new(), Tag(b""), 2);
        operations.iter().for_each(|operation| calls.append(operation));
        let args = Encoded(calls.finish().finish().into_bytes());
        let procedure = (wire::PROGRAM, wire::VERSION, wire::COMPOUND);
        let message = self.server.message(procedure, &args);
        let reply = self.answer(connection, message).expect("a call is answered");
        let mut reader = Reader::new(&reply);
        let head = Reply::decode(&mut reader).expect("a reply");
        assert_eq!(head.status, ReplyStatus::Success);
        Answered(reader.rest_shared())
    }

    /// Returns a new client.
    fn peer(&mut self, name: &'static str) -> Peer {
        let slot = u32::from(name.as_bytes()[0]);
        let connection = ConnectionId { slot, ..ConnectionId::default() };
        let exchanged = self.run(connection, &[exchange(name, exchange_id::Flags(0))]);
        let Results::ExchangeId(exchange_id::Reply::Done(done)) = &exchanged.results()[0] else {
            panic!("EXCHANGE_ID failed")
        };
        let (client, flags) = (done.client, create_session::Flags::BACK_CHANNEL);
        let created = self.run(connection, &[make_session(client, done.sequence, flags)]);
        let Results::CreateSession(create_session::Reply::Done(done)) = created.results()[0] else {
            panic!("CREATE_SESSION failed")
        };
        let mut peer = Peer { name, connection, client, session: done.session, requests: 0 };
        let complete =
            Args::ReclaimComplete(wire::reclaim_complete::Args { one_file_system: false });
        assert_eq!(peer.run(self, &[complete]).status(), Ok(()));
        peer.answer_callbacks(self);
        peer
    }
}

fn exchange(name: &str, flags: exchange_id::Flags) -> Args<'_> {
    Args::ExchangeId(exchange_id::Args {
        owner: ClientOwner { verifier: ClientVerifier([1; 8]), id: Identifier(name.as_bytes()) },
        flags,
        protection: exchange_id::Protection::None,
        implementation: None,
    })
}

fn make_session(
    client: ClientId,
    sequence: SequenceId,
    flags: create_session::Flags,
) -> Args<'static> {
    Args::CreateSession(create_session::Args {
        client,
        sequence,
        flags,
        fore: CHANNEL,
        back: CHANNEL,
        callback_program: callback::PROGRAM,
        callback_security: Array(vec![wire::CallbackSecurity::None]),
    })
}

impl Peer {
    /// Runs operations after SEQUENCE.
    fn run(&mut self, bed: &mut Bed, operations: &[Args<'_>]) -> Answered {
        self.requests += 1;
        let sequence = sequence::Args {
            session: self.session,
            sequence: SequenceId(self.requests),
            slot: SlotId(0),
            highest_slot: SlotId(0),
            cache: false,
        };
        let first = [Args::Sequence(sequence)];
        bed.run(self.connection, &[&first, operations].concat())
    }

    /// Answers the callbacks that the server has sent. Returns the arguments after CB_SEQUENCE.
    fn answer_callbacks(&self, bed: &Bed) -> Vec<Bytes> {
        let mut operations = Vec::new();
        for (to, message) in bed.sent.take() {
            assert_eq!(to, self.connection);
            let mut reader = Reader::new(&message);
            let call = Call::decode(&mut reader).expect("a call");
            let xid = call.xid;
            let header = callback::Header::decode(&mut reader).expect("CB_COMPOUND");
            assert_eq!(header.minor_version, 2, "the minor version of the session");
            let args = callback::Args::decode(&mut reader).expect("an operation");
            let callback::Args::Sequence(args) = args else { panic!("CB_SEQUENCE is first") };
            assert_eq!(args.session, self.session);
            if header.count > 1 {
                operations.push(reader.rest_shared());
            }
            assert_eq!(bed.answer(self.connection, callback_reply(xid, &args)), None);
        }
        operations
    }

    fn owner(&self) -> StateOwner<'static> {
        StateOwner { client: self.client, owner: Identifier(self.name.as_bytes()) }
    }

    /// Opens a file in the root to read and to write, and makes it if there is none.
    fn open(&mut self, bed: &mut Bed, name: &str) -> open::Done<'static> {
        let how = open::How::Create(open::CreateHow::Unchecked(NOTHING));
        let args = open::Args {
            sequence: OwnerSequence(0),
            access: open::ShareAccess::BOTH,
            deny: open::ShareDeny::NONE,
            owner: self.owner(),
            how,
            claim: open::Claim::Name(Name(name.as_bytes())),
        };
        let opened = self.run(bed, &[root(), Args::Open(args)]);
        let Results::Open(open::Reply::Done(done)) = &opened.results()[2] else {
            panic!("{:?}", opened.results())
        };
        let delegation = wire::Delegation::None;
        open::Done {
            stateid: done.stateid,
            directory: done.directory,
            flags: done.flags,
            set: done.set,
            delegation,
        }
    }
}

fn callback_reply(xid: Xid, args: &callback::sequence::Args) -> Bytes {
    let mut writer = Writer::new();
    Reply { xid, status: ReplyStatus::Success }.encode(&mut writer);
    let mut replies = ReplyWriter::new(writer, Tag(b""));
    let done = callback::sequence::Done {
        session: args.session,
        sequence: args.sequence,
        slot: args.slot,
        highest_slot: SlotId(3),
        target_highest_slot: SlotId(3),
    };
    let reply = callback::sequence::Reply::Done(done);
    replies.append(Number::from(callback::Operation::Sequence), &reply);
    replies.finish(wire::Completion::Done(())).finish().into_bytes()
}

fn root() -> Args<'static> {
    Args::PutRootHandle(())
}

fn lookup(name: &'static str) -> Args<'static> {
    Args::Lookup(Name(name.as_bytes()))
}

/// A client renews its session over the old one (RFC 8881 18.35.3, 18.36.3, 18.50.3).
#[test]
fn client_operations_follow_sequence() {
    let mut bed = Bed::new();
    let mut peer = bed.peer("a");
    let exchanged = peer.run(&mut bed, &[exchange("b", exchange_id::Flags(0))]);
    let results = exchanged.results();
    let exchanged = &results[1];
    let Results::ExchangeId(exchange_id::Reply::Done(done)) = exchanged else {
        panic!("{exchanged:?}");
    };
    let client = done.client;
    let flags = create_session::Flags(0);
    let created = peer.run(&mut bed, &[make_session(client, SequenceId(1), flags)]);
    assert_eq!(created.status(), Ok(()));
    let destroyed = peer.run(&mut bed, &[Args::DestroyClientId(client)]);
    assert_eq!(destroyed.status(), Err(Status::ClientIdBusy));
    let bind = wire::bind_conn_to_session::Args {
        session: peer.session,
        direction: wire::bind_conn_to_session::Requested::Fore,
        rdma: false,
    };
    let bound = peer.run(&mut bed, &[Args::BindConnection(bind)]);
    assert_eq!(bound.status(), Err(Status::NotOnlyOperation));
}

#[test]
fn unknown_flags_are_invalid() {
    let mut bed = Bed::new();
    let connection = ConnectionId::default();
    let exchanged = bed.run(connection, &[exchange("a", exchange_id::Flags(8))]);
    assert_eq!(exchanged.status(), Err(Status::Invalid));
    let exchanged = bed.run(connection, &[exchange("a", exchange_id::Flags(4))]);
    let results = exchanged.results();
    let exchanged = &results[0];
    let Results::ExchangeId(exchange_id::Reply::Done(done)) = exchanged else {
        panic!("{exchanged:?}");
    };
    let client = done.client;
    let flags = create_session::Flags(8);
    let created = bed.run(connection, &[make_session(client, SequenceId(1), flags)]);
    assert_eq!(created.status(), Err(Status::Invalid));
}

#[test]
fn objects_of_another_kind_have_their_own_status() {
    let mut bed = Bed::new();
    let mut peer = bed.peer("a");
    peer.open(&mut bed, "file");
    let link = create::Args {
        kind: create::Kind::Symlink(wire::Path(b"file")),
        name: Name(b"link"),
        attributes: NOTHING,
    };
    assert_eq!(peer.run(&mut bed, &[root(), Args::Create(link)]).status(), Ok(()));
    let rename = || Args::Rename(rename::Args { from: Name(b"file"), to: Name(b"other") });
    let save = || Args::SaveHandle(());
    for (operations, status) in [
        (vec![root(), rename()], Status::NoFileHandle),
        (vec![root(), Args::RestoreHandle(())], Status::NoSavedHandle),
        (vec![root(), lookup("file"), save(), root(), rename()], Status::NotDirectory),
        (vec![root(), save(), lookup("file"), rename()], Status::NotDirectory),
        (vec![root(), lookup("file"), Args::LookupParent(())], Status::NotDirectory),
        (vec![root(), lookup("link"), Args::LookupParent(())], Status::Symlink),
    ] {
        assert_eq!(peer.run(&mut bed, &operations).status(), Err(status), "{operations:?}");
    }
}

#[test]
fn read_plus_returns_data_and_holes() {
    let mut bed = Bed::new();
    let mut peer = bed.peer("a");
    let stateid = peer.open(&mut bed, "file").stateid;
    let data = Bytes::from(vec![7; 4096]);
    for offset in [1 << 16, 1 << 20] {
        let write = wire::write::Args {
            stateid,
            offset,
            stability: wire::Stability::Unstable,
            data: data.clone(),
        };
        let written = peer.run(&mut bed, &[root(), lookup("file"), Args::Write(write)]);
        assert_eq!(written.status(), Ok(()));
    }
    let mut read = |offset: u64, count| {
        let args = read::Args { stateid, offset, count };
        let done = peer.run(&mut bed, &[root(), lookup("file"), Args::ReadPlus(args)]);
        match done.results().pop() {
            Some(Results::ReadPlus(wire::read_plus::Reply::Done(done))) => done,
            other => panic!("{other:?}"),
        }
    };
    let hole =
        |offset, length| wire::read_plus::Segment::Hole(wire::read_plus::Hole { offset, length });
    let part = |offset, data: &Bytes| {
        let data = data.clone();
        wire::read_plus::Segment::Data(wire::read_plus::Data { offset, data })
    };
    let done = read(0, 1 << 17);
    assert!(!done.end);
    let (at, behind) = (1 << 16, (1 << 16) + 4096);
    let segments = vec![hole(0, at), part(at, &data), hole(behind, (1 << 17) - behind)];
    assert_eq!(done.segments, Array(segments));
    let done = read((1 << 20) + 96, 1 << 17);
    assert!(done.end);
    assert_eq!(done.segments, Array(vec![part((1 << 20) + 96, &data.slice(96..))]));
    let done = read(1 << 30, 1 << 17);
    assert_eq!((done.end, done.segments), (true, Array(Vec::new())));
}

/// A client that waits for a lock polls rarely if the server promises a notification.
#[test]
fn the_end_of_a_lock_notifies_the_next_owner() {
    let mut bed = Bed::new();
    let (mut first, mut second) = (bed.peer("a"), bed.peer("b"));
    let lock = |peer: &mut Peer, bed: &mut Bed, opened: Stateid| {
        let args = lock::Args {
            kind: LockKind::WriteWaiting,
            reclaim: false,
            offset: 0,
            length: u64::MAX,
            locker: lock::Locker::New(lock::NewOwner {
                open_sequence: OwnerSequence(0),
                open: opened,
                lock_sequence: OwnerSequence(0),
                owner: peer.owner(),
            }),
        };
        let locked = peer.run(bed, &[root(), lookup("file"), Args::Lock(args)]);
        match locked.results().pop() {
            Some(Results::Lock(reply)) => reply.done(),
            other => panic!("{other:?}"),
        }
    };
    let (of_first, of_second) = (first.open(&mut bed, "file"), second.open(&mut bed, "file"));
    assert!(of_second.flags.has(open::ResultFlags::MAY_NOTIFY_LOCK));
    let locked = lock(&mut first, &mut bed, of_first.stateid).expect("no other lock exists");
    assert_eq!(lock(&mut second, &mut bed, of_second.stateid), Err(Status::Denied));
    let unlock = wire::locku::Args {
        kind: LockKind::Write,
        sequence: OwnerSequence(0),
        stateid: locked,
        offset: 0,
        length: u64::MAX,
    };
    let unlocked = first.run(&mut bed, &[root(), lookup("file"), Args::Unlock(unlock)]);
    assert_eq!(unlocked.status(), Ok(()));
    let operations = second.answer_callbacks(&bed);
    assert_eq!(operations.len(), 1, "one callback has an operation");
    let args = callback::Args::decode(&mut Reader::new(&operations[0])).expect("an operation");
    let got = first.run(&mut bed, &[root(), lookup("file"), Args::GetHandle(())]);
    let Some(Results::GetHandle(wire::getfh::Reply::Done(file))) = got.results().pop() else {
        panic!("GETFH failed")
    };
    let owner = second.owner();
    assert_eq!(args, callback::Args::NotifyLock(notify_lock::Args { file, owner }));
    // The lock is reserved for the second client.
    assert_eq!(lock(&mut first, &mut bed, of_first.stateid), Err(Status::Denied));
    assert!(lock(&mut second, &mut bed, of_second.stateid).is_ok());
}

/// Linux fails with ELOOP at a path that leads back to the handle of the root.
#[test]
fn root_and_name_of_the_export_have_handles_of_their_own() {
    let mut bed = Bed::new();
    let mut peer = bed.peer("a");
    peer.open(&mut bed, "file");
    let mut handle = |mut path: Vec<Args<'static>>| {
        path.push(Args::GetHandle(()));
        let got = peer.run(&mut bed, &path);
        match got.results().pop() {
            Some(Results::GetHandle(wire::getfh::Reply::Done(handle))) => Ok(handle),
            _ => Err(got.status()),
        }
    };
    let at_root = handle(vec![root()]).expect("there is a root");
    let by_name = handle(vec![root(), lookup(NAME)]).expect("MOUNT knows the name");
    assert_ne!(at_root, by_name);
    assert_eq!(handle(vec![Args::PutHandle(at_root)]), Ok(at_root));

    // Both are one directory.
    let files = [at_root, by_name]
        .map(|directory| handle(vec![Args::PutHandle(directory), lookup("file")]));
    assert_eq!(files[0], files[1]);
    assert!(files[0].is_ok());
    // The name of the export begins in the root of the server only.
    let below = handle(vec![Args::PutHandle(by_name), lookup(NAME)]);
    assert_eq!(below, Err(Err(Status::NotFound)));
}
