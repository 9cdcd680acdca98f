//! Searches for cookies of version 2.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use leasehold_base::xdr::{Message, Writer};
use leasehold_fs::{Export, FsError, MaybeReady};
use leasehold_wire::nfs2::{self, Cookie, Handle, PROGRAM, VERSION, readdir};

use crate::statuses::Failing;
use crate::support::{NAME, Server};

type Listing = MaybeReady<'static, Option<Message>>;

/// Returns a server of a directory with names at these cookies.
fn server(positions: impl IntoIterator<Item = u64>) -> Server {
    let store = Arc::new(Failing(FsError::Io, positions.into_iter().collect()));
    Server::with(|export| Export { store, ..export })
}

/// Returns a server of a directory with many names.
fn large() -> Server {
    server((1..=100_000).map(|number| number << 32))
}

fn behind(server: &Server, cookie: Cookie, count: u32) -> readdir::Args {
    let directory = Handle(server.service.root_handle(NAME).expect("the export is there"));
    readdir::Args { directory, cookie, count }
}

const READDIR: (u32, u32, u32) = (PROGRAM, VERSION, readdir::NUMBER);

/// Lists the names after a forged cookie.
fn list(server: &mut Server) -> Listing {
    let args = behind(server, Cookie(1 << 31 | 7), 4096);
    let message = server.message(READDIR, &args);
    server.service.answer(server.arrival, message, Writer::new()).reply
}

/// Returns the file ids of the entries after a cookie, each with the cookie of its entry, or the
/// status of the failure.
fn names(
    server: &mut Server,
    cookie: Cookie,
    count: u32,
) -> Result<Vec<(u32, Cookie)>, nfs2::Status> {
    let args = behind(server, cookie, count);
    let results = server.call(READDIR, &args);
    match results.read::<readdir::Listing<'_>>() {
        readdir::Listing::Done(page) => {
            Ok(page.entries.0.iter().map(|entry| (entry.file_id.0, entry.cookie)).collect())
        }
        readdir::Listing::Failed(status) => Err(status),
    }
}

fn poll(listing: &mut Listing) -> Poll<Option<Message>> {
    core::pin::Pin::new(listing).poll(&mut Context::from_waker(Waker::noop()))
}

/// Without yields one small call searches a whole directory while all other calls wait.
#[test]
fn search_yields_to_other_calls() {
    let mut server = large();
    let mut listing = list(&mut server);
    let mut steps = 0;
    let reply = loop {
        if let Poll::Ready(reply) = poll(&mut listing) {
            break reply.expect("it is answered").into_bytes();
        }
        steps += 1;
    };
    assert!(steps > 100, "{steps} steps");
    assert_eq!(reply[24..], [0, 0, 0, 5], "an I/O error: the cookie does not exist");
}

/// Without this bound many small calls with forged cookies would keep a server busy.
#[test]
fn a_directory_is_searched_once_at_a_time() {
    let mut server = large();
    let mut first = list(&mut server);
    assert!(poll(&mut first).is_pending());
    assert!(matches!(poll(&mut list(&mut server)), Poll::Ready(None)), "it gets no reply");
    drop(first);
    assert!(poll(&mut list(&mut server)).is_pending());
}

/// The multiplier of the cookie hash.
const MIXING: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns another cookie with the same 31-bit hash.
fn twin(position: u64) -> u64 {
    // Newton's method: each round doubles the number of correct bits.
    let inverse = (0..6).fold(MIXING, |inverse, _| {
        inverse.wrapping_mul(2_u64.wrapping_sub(MIXING.wrapping_mul(inverse)))
    });
    position.wrapping_add(inverse)
}

const ONE: u64 = 1 << 40;
const ONLY: u64 = 3 << 40;
const ONE_ENTRY: u32 = readdir::EMPTY_BYTES + readdir::ENTRY_BYTES + 4;

/// While one client was about to continue after a name, another client listed a name with the same
/// 4 bytes, and the first listing skipped the names between the two.
#[test]
fn cookies_with_the_same_bytes_are_distinguished() {
    let mut server = server([ONE, 2 << 40, twin(ONE), ONLY]);
    let first = names(&mut server, Cookie(0), ONE_ENTRY).expect("it can be listed");
    let [(1, behind_one)] = first[..] else { panic!("one name fits: {first:?}") };
    let all = names(&mut server, Cookie(0), 4096).expect("it can be listed");
    let cookies: std::collections::BTreeSet<_> = all.iter().map(|(_, cookie)| cookie.0).collect();
    assert_eq!(cookies.len(), 4);
    assert_eq!(all[0], (1, behind_one), "the answer is the same again");
    for (number, cookie) in all {
        let next = names(&mut server, cookie, ONE_ENTRY).expect("it can be listed");
        let next: Vec<_> = next.into_iter().map(|(next, _)| next).collect();
        assert_eq!(next, (number + 1..=4).take(1).collect::<Vec<_>>());
    }
}

/// After a restart the server has forgotten the originals of both cookies and cannot distinguish
/// them.
#[test]
fn ambiguous_cookie_is_refused_once_forgotten() {
    let positions = [ONE, 2 << 40, twin(ONE), ONLY];
    let told = names(&mut server(positions), Cookie(0), 4096).expect("it can be listed");
    let mut server = server(positions);
    let mut next = |number: usize| {
        let next = names(&mut server, told[number - 1].1, 4096);
        next.map(|next| next.into_iter().map(|(number, _)| number).collect())
    };
    assert_eq!(next(1), Err(nfs2::Status::Io));
    assert_eq!(next(3), Err(nfs2::Status::Io));
    assert_eq!(next(2), Ok(vec![3, 4]));
    assert_eq!(next(4), Ok(vec![]));
}
