//! Positions of version 2 that are searched for.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use leasehold_base::xdr::{Message, Writer};
use leasehold_fs::{Answer, Export, FsError};
use leasehold_wire::nfs2::{Cookie, Handle, PROGRAM, VERSION, readdir};

use crate::statuses::Failing;
use crate::support::{NAME, Server};

type Listing = Answer<'static, Option<Message>>;

fn server() -> Server {
    Server::with(|export| Export { store: Arc::new(Failing(FsError::Io, 100_000)), ..export })
}

/// Asks for the names behind a made-up position.
fn list(server: &mut Server) -> Listing {
    let directory = Handle(server.service.root_handle(NAME).expect("the export is there"));
    let args = readdir::Args { directory, cookie: Cookie(1 << 31 | 7), count: 4096 };
    let message = server.message((PROGRAM, VERSION, readdir::NUMBER), &args);
    server.service.answer(server.arrival, &message, Writer::new())
}

fn poll(listing: &mut Listing) -> Poll<Option<Message>> {
    core::pin::Pin::new(listing).poll(&mut Context::from_waker(Waker::noop()))
}

/// One small call listed a whole directory while all others waited.
#[test]
fn a_search_lets_others_go_first() {
    let mut server = server();
    let mut listing = list(&mut server);
    let mut steps = 0;
    let reply = loop {
        if let Poll::Ready(reply) = poll(&mut listing) {
            break reply.expect("it is answered").into_bytes();
        }
        steps += 1;
    };
    assert!(steps > 100, "{steps} steps");
    assert_eq!(reply[24..], [0, 0, 0, 5], "an I/O error: there is no such position");
}

/// Many small calls would keep a server busy.
#[test]
fn a_directory_is_searched_once_at_a_time() {
    let mut server = server();
    let mut first = list(&mut server);
    assert!(poll(&mut first).is_pending());
    assert!(matches!(poll(&mut list(&mut server)), Poll::Ready(None)), "it goes unanswered");
    drop(first);
    assert!(poll(&mut list(&mut server)).is_pending());
}
