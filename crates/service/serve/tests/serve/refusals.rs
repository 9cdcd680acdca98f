//! The answers to clients when the duplicate request cache is full.

use bytes::Bytes;
use leasehold_base::xdr::{Decode as _, Message, Reader, Writer, decode_all};
use leasehold_fs::MaybeReady;
use leasehold_serve::Response;
use leasehold_wire::nfs3::{
    DirectoryArgs, Handle, Name, PROGRAM, Reply, Status, VERSION, getattr, remove,
};
use leasehold_wire::{nfs2, rpc};

use crate::support::{NAME, Server};

/// Returns the immediate answer, or None if the call runs. Running calls are stored and never end.
fn said(server: &Server, message: &Bytes, running: &mut Vec<Response>) -> Option<Option<Bytes>> {
    let response = server.service.answer(server.arrival, message.clone(), Writer::new());
    if let MaybeReady::Now(reply) = response.reply {
        return Some(reply.flatten().map(Message::into_bytes));
    }
    assert!(response.must_end);
    running.push(response);
    None
}

/// Without a reply a client on a stream would wait for a long time before it retransmits.
#[test]
fn client_with_too_many_calls_gets_a_retry_status() {
    let mut server = Server::new();
    let root = server.service.root_handle(NAME).expect("the export is there");
    let place = DirectoryArgs { directory: Handle::from(root), name: Name(b"none") };
    let mut running = Vec::new();
    let (refused, reply) = loop {
        let remove = server.message((PROGRAM, VERSION, remove::NUMBER), &place);
        if let Some(reply) = said(&server, &remove, &mut running) {
            break (remove, reply.expect("the reply contains it"));
        }
    };
    let mut reader = Reader::new(&reply);
    rpc::Reply::decode(&mut reader).expect("a reply");
    let results: remove::Reply = decode_all(&mut reader).expect("results of REMOVE");
    assert!(matches!(results, Reply::Failed(Status::Jukebox, _)), "{results:?}");

    // Version 2 has no retry status, and a client retransmits a datagram soon, so the server sends
    // no reply in these cases.
    let args = nfs2::DirectoryArgs { directory: nfs2::Handle(root), name: nfs2::Name(b"none") };
    let old = server.message((PROGRAM, nfs2::VERSION, nfs2::remove::NUMBER), &args);
    assert_eq!(said(&server, &old, &mut running), Some(None));
    let on_stream = server.arrival;
    server.arrival.connection = None;
    assert_eq!(said(&server, &refused, &mut running), Some(None));
    server.arrival = on_stream;

    // Another client has its own limit, and idempotent calls still run.
    server.arrival.from = "192.0.2.2:700".parse().expect("an address");
    assert_eq!(said(&server, &refused, &mut running), None);
    server.arrival = on_stream;
    let args = getattr::Args { object: place.directory };
    let reply: getattr::Reply = server.call((PROGRAM, VERSION, getattr::NUMBER), &args).read();
    assert!(matches!(reply, Reply::Done(_)));

    // The cache does not store the refusal: the same call runs when the cache has a free entry.
    running.truncate(running.len() - 2);
    assert_eq!(said(&server, &refused, &mut running), None);
}
