//! An iod refuses superseded metaservers.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use leasehold_base::xdr::{Decode as _, Encode, Message, Reader, Writer};
use leasehold_fs::MaybeReady;
use leasehold_serve::{Epoch, EpochKey};
use leasehold_wire::mount::{self, Path, mnt};
use leasehold_wire::nfs3::{
    DirectoryArgs, Handle, Name, PROGRAM, SetAttributes, VERSION, create, getattr, read, remove,
    rename, setattr, write,
};
use leasehold_wire::rpc::{AuthStatus, Reply, ReplyStatus};

use crate::support::{NAME, Server};

const KEY: EpochKey = EpochKey([9; 16]);
const OVER: ReplyStatus = ReplyStatus::AuthError(AuthStatus::RejectedCredential);

/// Returns the token of a metaserver in an epoch.
fn word(metaserver: u32, number: u64) -> String {
    Epoch { volume: 5, metaserver, number }.word(KEY)
}

/// Creates an iod with an object; returns the handles of its root and of the object.
fn iod(noted: &[Epoch]) -> (Server, Handle, Handle) {
    let mut server = Server::new();
    server.restart(|service| service.with_epochs(KEY, noted));
    let root = Handle::from(server.service.root_handle(NAME).expect("the export is there"));
    let place = DirectoryArgs { directory: root, name: Name(b"object") };
    let args = create::Args { place, how: create::How::Guarded(SetAttributes::default()) };
    let made = server.call((PROGRAM, VERSION, create::NUMBER), &args);
    let create::Reply::Done(made) = made.read() else { panic!("there is room") };
    (server, root, made.object.expect("a handle"))
}

fn written(file: Handle, text: &'static str) -> write::Args {
    let data = Bytes::from_static(text.as_bytes());
    let count = u32::try_from(data.len()).expect("it is short");
    write::Args { file, offset: 0, count, stability: write::Stability::FileSync, data }
}

/// Reads the object as a caller without an epoch.
fn content(server: &mut Server, file: Handle) -> Bytes {
    server.machine = "client".to_owned();
    let args = read::Args { file, offset: 0, count: 100 };
    let read = server.call((PROGRAM, VERSION, read::NUMBER), &args);
    let read::Reply::Done(read) = read.read() else { panic!("READ failed") };
    read.data
}

fn status(server: &mut Server, procedure: u32, args: &impl Encode) -> ReplyStatus {
    server.status((PROGRAM, VERSION, procedure), args)
}

#[test]
fn superseded_metaserver_changes_nothing() {
    let (mut server, root, file) = iod(&[]);
    server.machine = word(1, 4);
    assert_eq!(status(&mut server, write::NUMBER, &written(file, "old")), ReplyStatus::Success);
    // A successor has begun its epoch, and has not written yet.
    server.machine = word(1, 6);
    assert_eq!(
        status(&mut server, getattr::NUMBER, &getattr::Args { object: file }),
        ReplyStatus::Success
    );

    server.machine = word(1, 5);
    assert_eq!(status(&mut server, write::NUMBER, &written(file, "late")), OVER);
    let place = |name| DirectoryArgs { directory: root, name: Name(name) };
    assert_eq!(status(&mut server, remove::NUMBER, &place(b"object")), OVER);
    let args = rename::Args { from: place(b"object"), to: place(b"other") };
    assert_eq!(status(&mut server, rename::NUMBER, &args), OVER);
    let attributes = SetAttributes { size: Some(0), ..SetAttributes::default() };
    let args = setattr::Args { object: file, attributes, guard: None };
    assert_eq!(status(&mut server, setattr::NUMBER, &args), OVER);
    // The superseded metaserver cannot mount either.
    assert_eq!(server.status((mount::PROGRAM, 3, mnt::NUMBER), &Path(b"/")), OVER);
    assert_eq!(content(&mut server, file), "old");
    assert_eq!(server.service.metaservers_refused(), 5);

    // The iod accepts all other callers: metaservers with another metaserver number or volume, and
    // callers without a valid epoch.
    let other = Epoch { volume: 6, metaserver: 1, number: 1 }.word(KEY);
    let forged = Epoch { volume: 5, metaserver: 1, number: 9 }.word(EpochKey([8; 16]));
    for machine in [word(2, 1), word(Epoch::ALONE, 1), other, forged, "client".to_owned()] {
        server.machine = machine;
        let done = status(&mut server, write::NUMBER, &written(file, "new"));
        assert_eq!(done, ReplyStatus::Success, "{}", server.machine);
    }
    // The forged token has begun no epoch.
    server.machine = word(1, 6);
    assert_eq!(status(&mut server, write::NUMBER, &written(file, "new")), ReplyStatus::Success);
}

#[test]
fn stored_epochs_are_known_at_the_start() {
    let (mut server, _, file) = iod(&[Epoch { volume: 5, metaserver: 1, number: 6 }]);
    server.machine = word(1, 5);
    assert_eq!(status(&mut server, write::NUMBER, &written(file, "late")), OVER);
    server.machine = word(1, 6);
    assert_eq!(status(&mut server, write::NUMBER, &written(file, "new")), ReplyStatus::Success);
}

type Pending = MaybeReady<'static, Option<Message>>;

fn begin(server: &mut Server, args: &impl Encode) -> Pending {
    let message = server.message((PROGRAM, VERSION, write::NUMBER), args);
    server.service.answer(server.arrival, message, Writer::new()).reply
}

fn poll(pending: &mut Pending) -> Option<ReplyStatus> {
    match Pin::new(pending).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(reply) => {
            let reply = reply.expect("a call is answered").into_bytes();
            Some(Reply::decode(&mut Reader::new(&reply)).expect("a reply").status)
        }
        Poll::Pending => None,
    }
}

/// The writes of a metaserver's successor wait for a WRITE that the disk is still processing.
#[test]
fn running_calls_precede_the_successor() {
    let (mut server, _, file) = iod(&[]);
    server.machine = word(1, 4);
    let [mut first, given_up] =
        ["first", "given up"].map(|text| begin(&mut server, &written(file, text)));
    server.machine = word(1, 6);
    let mut second = begin(&mut server, &written(file, "second"));
    assert_eq!(poll(&mut second), None);
    // Calls of other metaservers do not wait.
    server.machine = word(2, 1);
    assert_eq!(poll(&mut begin(&mut server, &written(file, "other"))), Some(ReplyStatus::Success));
    assert_eq!(poll(&mut first), Some(ReplyStatus::Success));
    drop(first);
    assert_eq!(poll(&mut second), None);
    drop(given_up);
    assert_eq!(poll(&mut second), Some(ReplyStatus::Success));
    assert_eq!(content(&mut server, file), "second");

    // A waiting call is superseded by the next epoch.
    server.machine = word(1, 6);
    let mut first = begin(&mut server, &written(file, "first"));
    let [mut second, mut third] = [7, 8].map(|number| {
        server.machine = word(1, number);
        begin(&mut server, &written(file, "next"))
    });
    assert_eq!((poll(&mut second), poll(&mut third)), (Some(OVER), None));
    assert_eq!(server.service.metaservers_refused(), 1);
    assert_eq!(poll(&mut first), Some(ReplyStatus::Success));
    drop((first, second));
    assert_eq!(poll(&mut third), Some(ReplyStatus::Success));
}
