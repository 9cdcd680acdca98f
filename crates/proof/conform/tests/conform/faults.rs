//! Servers that do one thing wrong: each fault changes calls before our own server sees them, or
//! its replies.

use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Decode, Encode, Message, Reader, Writer, decode_all};
use leasehold_fs::MaybeReady;
use leasehold_serve::{Arrival, Service};
use leasehold_wire::list::List;
use leasehold_wire::nfs3::{self, Wcc};
use leasehold_wire::rpc::{self, AuthSys, Call, OpaqueAuth};
use leasehold_wire::{mount, nfs2};

use crate::wire::Wire;

/// One fault of a server.
pub(crate) struct Fault {
    /// The fault's name.
    pub(crate) name: &'static str,
    /// Carries the fault out.
    wrong: fn(&Exchange<'_>) -> Option<Vec<u8>>,
    /// The additional loss in a restart, besides that of a crash.
    pub(crate) forgets: Forgets,
    /// A fault before a call is decoded.
    pub(crate) wire: Option<Wire>,
}

/// The loss in a restart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forgets {
    /// Only unstable data, with a new verifier.
    Nothing,
    /// The key of handles.
    Handles,
    /// Everything.
    Everything,
}

impl Fault {
    pub(crate) fn answer(
        &self,
        service: &Arc<Service>,
        arrival: Arrival,
        message: &Bytes,
        seen: &AtomicU32,
    ) -> MaybeReady<'static, Option<Message>> {
        let exchange = Exchange { service, arrival, message, seen };
        let reply = (self.wrong)(&exchange);
        MaybeReady::now(reply.map(|reply| Message::from(Bytes::from(reply))))
    }
}

/// A call, and the server that would answer it correctly.
struct Exchange<'a> {
    service: &'a Arc<Service>,
    arrival: Arrival,
    message: &'a Bytes,
    /// A counter of this server for faults that count calls.
    seen: &'a AtomicU32,
}

/// The offset of results in a reply that reached its procedure: after the xid, the message type,
/// the accepted state, an empty verifier, and success.
const RESULTS_AT: usize = 24;

impl Exchange<'_> {
    /// Returns the server's reply to a call, which the fault may have changed.
    fn serve(&self, message: Vec<u8>) -> Option<Vec<u8>> {
        let answer = self.service.answer(self.arrival, Bytes::from(message), Writer::new()).reply;
        let mut answer = pin!(answer);
        loop {
            // A store in memory completes every call at once.
            if let Poll::Ready(reply) =
                answer.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            {
                return reply.map(|reply| reply.into_bytes().to_vec());
            }
        }
    }

    /// Returns the correct reply.
    fn right(&self) -> Option<Vec<u8>> {
        self.serve(self.message.to_vec())
    }

    /// Returns the program, the version and the procedure of the call.
    fn called(&self) -> (u32, u32, u32) {
        let word = |at: usize| {
            let word = self.message.get(at..at + 4).and_then(<[u8]>::first_chunk);
            word.map_or(0, |word| u32::from_be_bytes(*word))
        };
        (word(12), word(16), word(20))
    }

    fn is3(&self, number: u32) -> bool {
        self.called() == (nfs3::PROGRAM, nfs3::VERSION, number)
    }

    fn is2(&self, number: u32) -> bool {
        self.called() == (nfs2::PROGRAM, nfs2::VERSION, number)
    }

    /// Returns the header of the call and its arguments.
    fn parts(&self) -> Option<(Call<'_>, Vec<u8>)> {
        let mut reader = Reader::new(self.message);
        let call = Call::decode(&mut reader).ok()?;
        Some((call, reader.rest().to_vec()))
    }

    /// Returns the correct reply to other arguments.
    fn with_args(&self, args: &[u8]) -> Option<Vec<u8>> {
        let (call, _) = self.parts()?;
        self.serve([bytes(&call), args.to_vec()].concat())
    }

    /// Returns the correct reply with changed bytes of its results.
    fn with_results(&self, change: impl FnOnce(&mut Vec<u8>)) -> Option<Vec<u8>> {
        let mut reply = self.right()?;
        if succeeded_call(&reply) {
            let mut results = reply.split_off(RESULTS_AT);
            change(&mut results);
            reply.extend(results);
        }
        Some(reply)
    }

    /// Returns the correct reply with changed results of a type.
    fn with_reply<T>(&self, change: impl FnOnce(&mut T)) -> Option<Vec<u8>>
    where
        T: for<'a> Decode<'a> + Encode,
    {
        self.with_results(|results| {
            let shared = Bytes::copy_from_slice(results);
            if let Ok(mut reply) = decode_all::<T>(&mut Reader::new(&shared)) {
                change(&mut reply);
                *results = bytes(&reply);
            }
        })
    }

    /// Returns a success with these words as results.
    fn success(&self, words: &[u32]) -> Option<Vec<u8>> {
        let (call, _) = self.parts()?;
        let head = rpc::Reply { xid: call.xid, status: rpc::ReplyStatus::Success };
        let results = words.iter().flat_map(|word| word.to_be_bytes());
        Some([bytes(&head), results.collect()].concat())
    }
}

fn bytes(value: &impl Encode) -> Vec<u8> {
    let mut writer = Writer::new();
    value.encode(&mut writer);
    writer.finish().into_bytes().into()
}

fn succeeded_call(reply: &[u8]) -> bool {
    reply.get(8..12) == Some(&[0; 4]) && reply.get(20..24) == Some(&[0; 4])
}

fn count() -> u32 {
    static COUNT: AtomicU32 = AtomicU32::new(1);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

/// Changes no call.
fn right(exchange: &Exchange<'_>) -> Option<Vec<u8>> {
    exchange.right()
}

const fn fault(name: &'static str, wrong: fn(&Exchange<'_>) -> Option<Vec<u8>>) -> Fault {
    Fault { name, wrong, forgets: Forgets::Nothing, wire: None }
}

/// Attributes of version 3 in results of GETATTR, by their offset behind the status.
mod at3 {
    pub(super) const TYPE: usize = 4;
    pub(super) const MODE: usize = 8;
    pub(super) const LINKS: usize = 12;
    pub(super) const UID: usize = 16;
    pub(super) const SIZE: usize = 24;
    pub(super) const USED: usize = 32;
    pub(super) const DEVICE: usize = 44;
    pub(super) const FILE_SYSTEM: usize = 52;
    pub(super) const FILE_ID: usize = 60;
    pub(super) const MODIFIED: usize = 72;
    pub(super) const CHANGED: usize = 80;
    pub(super) const ACCESSED: usize = 64;
}

/// Changes a word of GETATTR of version 3.
fn getattr3(
    exchange: &Exchange<'_>,
    at: usize,
    change: impl FnOnce(u32) -> u32,
) -> Option<Vec<u8>> {
    if !exchange.is3(nfs3::getattr::NUMBER) {
        return exchange.right();
    }
    exchange.with_results(|results| change_word(results, at, change))
}

fn change_word(results: &mut [u8], at: usize, change: impl FnOnce(u32) -> u32) {
    if results.starts_with(&[0; 4])
        && let Some(word) = results.get_mut(at..at + 4)
    {
        let old = u32::from_be_bytes(*word.first_chunk().expect("the slice is a word"));
        word.copy_from_slice(&change(old).to_be_bytes());
    }
}

/// Changes the status of failures.
fn another_failure(exchange: &Exchange<'_>, status: u32) -> Option<Vec<u8>> {
    let (program, version, number) = exchange.called();
    let has_status = match program {
        nfs3::PROGRAM => number != 0,
        mount::PROGRAM => number == mount::mnt::NUMBER,
        _ => false,
    };
    let status = if program == nfs3::PROGRAM && version == 2 { 99 } else { status };
    if !has_status {
        return exchange.right();
    }
    exchange.with_results(|results| {
        if !results.starts_with(&[0; 4]) && results.len() >= 4 {
            results[..4].copy_from_slice(&status.to_be_bytes());
        }
    })
}

/// A procedure without effect: success with no attributes at all.
fn idle3(exchange: &Exchange<'_>, number: u32, words: &[u32]) -> Option<Vec<u8>> {
    if exchange.is3(number) { exchange.success(words) } else { exchange.right() }
}

fn idle2(exchange: &Exchange<'_>, number: u32) -> Option<Vec<u8>> {
    if exchange.is2(number) { exchange.success(&[0]) } else { exchange.right() }
}

/// Returns a success for a call with any header.
fn success_of_any(exchange: &Exchange<'_>, words: &[u32]) -> Option<Vec<u8>> {
    let xid = Xid(u32::from_be_bytes(*exchange.message.first_chunk()?));
    let head = rpc::Reply { xid, status: rpc::ReplyStatus::Success };
    let results = words.iter().flat_map(|word| word.to_be_bytes());
    Some([bytes(&head), results.collect()].concat())
}

/// Runs the call with the superuser's credential.
fn as_superuser(exchange: &Exchange<'_>) -> Option<Vec<u8>> {
    let (call, args) = exchange.parts()?;
    let body = bytes(&AuthSys::default());
    let credential = OpaqueAuth { flavor: rpc::flavor::SYS, body: &body };
    exchange.serve([bytes(&Call { credential, ..call }), args].concat())
}

/// Runs the call under another xid and restores the xid in the reply: so the server recognises no
/// retransmission.
fn forgetful(exchange: &Exchange<'_>) -> Option<Vec<u8>> {
    let (call, args) = exchange.parts()?;
    let other = Call { xid: Xid(count()), ..call.clone() };
    let mut reply = exchange.serve([bytes(&other), args].concat())?;
    reply[..4].copy_from_slice(&call.xid.0.to_be_bytes());
    Some(reply)
}

/// Replaces a slash in a name: links may have slashes in their texts, and files in their data.
fn slashes(exchange: &Exchange<'_>) -> Option<Vec<u8>> {
    use nfs3::{create, link, lookup, mkdir, mknod, remove, rename, rmdir};
    let named = [
        lookup::NUMBER,
        create::NUMBER,
        mkdir::NUMBER,
        mknod::NUMBER,
        remove::NUMBER,
        rmdir::NUMBER,
        rename::NUMBER,
        link::NUMBER,
    ];
    let (_, mut args) = exchange.parts()?;
    let slash = args.windows(6).position(|window| window == b"inner/");
    match slash {
        Some(at) if named.iter().any(|number| exchange.is3(*number)) => {
            args[at + 5] = b'_';
            exchange.with_args(&args)
        }
        _ => exchange.right(),
    }
}

type Created = nfs3::Reply<nfs3::Made, Wcc>;

/// Changes both directories' attributes from before in all replies that have them.
fn other_before(exchange: &Exchange<'_>) -> Option<Vec<u8>> {
    let spoil = |wcc: &mut Wcc| {
        if let Some(before) = &mut wcc.before {
            before.size += 1;
        }
    };
    each_wcc(exchange, spoil)
}

/// Changes attributes from after in all replies that have them.
fn other_after(exchange: &Exchange<'_>) -> Option<Vec<u8>> {
    let spoil = |wcc: &mut Wcc| {
        if let Some(after) = &mut wcc.after {
            after.modified.seconds ^= 7;
        }
    };
    each_wcc(exchange, spoil)
}

fn each_wcc(exchange: &Exchange<'_>, spoil: impl Fn(&mut Wcc)) -> Option<Vec<u8>> {
    use nfs3::{Reply, commit, link, remove, rename, setattr, write};
    let (_, version, number) = exchange.called();
    if version != nfs3::VERSION {
        return exchange.right();
    }
    match number {
        setattr::NUMBER | remove::NUMBER | nfs3::rmdir::NUMBER => {
            exchange.with_reply(|reply: &mut remove::Reply| match reply {
                Reply::Done(wcc) | Reply::Failed(_, wcc) => spoil(wcc),
            })
        }
        write::NUMBER => exchange.with_reply(|reply: &mut write::Reply| match reply {
            Reply::Done(done) => spoil(&mut done.file),
            Reply::Failed(_, wcc) => spoil(wcc),
        }),
        commit::NUMBER => exchange.with_reply(|reply: &mut commit::Reply| match reply {
            Reply::Done(done) => spoil(&mut done.file),
            Reply::Failed(_, wcc) => spoil(wcc),
        }),
        8..=11 => exchange.with_reply(|reply: &mut Created| match reply {
            Reply::Done(made) => spoil(&mut made.directory),
            Reply::Failed(_, wcc) => spoil(wcc),
        }),
        rename::NUMBER => exchange.with_reply(|reply: &mut rename::Reply| match reply {
            Reply::Done(both) | Reply::Failed(_, both) => {
                spoil(&mut both.from);
                spoil(&mut both.to);
            }
        }),
        link::NUMBER => exchange.with_reply(|reply: &mut link::Reply| match reply {
            Reply::Done(both) | Reply::Failed(_, both) => spoil(&mut both.directory),
        }),
        _ => exchange.right(),
    }
}

/// Changes the entries of READDIR and READDIRPLUS of version 3.
fn listing3(
    exchange: &Exchange<'_>,
    bare: impl Fn(&mut Vec<nfs3::readdir::Entry<'_>>),
    full: impl Fn(&mut Vec<nfs3::readdirplus::Entry<'_>>),
) -> Option<Vec<u8>> {
    let is_bare = exchange.is3(nfs3::readdir::NUMBER);
    if !is_bare && !exchange.is3(nfs3::readdirplus::NUMBER) {
        return exchange.right();
    }
    exchange.with_results(|results| {
        let shared = Bytes::copy_from_slice(results);
        let mut reader = Reader::new(&shared);
        if is_bare {
            if let Ok(mut reply) = decode_all::<nfs3::readdir::Listing<'_>>(&mut reader) {
                if let nfs3::Reply::Done(done) = &mut reply {
                    bare(&mut done.entries.0);
                }
                *results = bytes(&reply);
            }
        } else if let Ok(mut reply) = decode_all::<nfs3::readdirplus::Listing<'_>>(&mut reader) {
            if let nfs3::Reply::Done(done) = &mut reply {
                full(&mut done.entries.0);
            }
            *results = bytes(&reply);
        }
    })
}

/// Changes the entries of READDIR of version 2.
fn listing2(
    exchange: &Exchange<'_>,
    change: impl Fn(&mut List<nfs2::readdir::Entry<'_>>),
) -> Option<Vec<u8>> {
    if !exchange.is2(nfs2::readdir::NUMBER) {
        return exchange.right();
    }
    exchange.with_results(|results| {
        let shared = Bytes::copy_from_slice(results);
        let decoded = decode_all::<nfs2::readdir::Listing<'_>>(&mut Reader::new(&shared));
        if let Ok(mut reply) = decoded {
            if let leasehold_wire::outcome::Outcome::Done(done) = &mut reply {
                change(&mut done.entries);
            }
            *results = bytes(&reply);
        }
    })
}

mod rest;
mod table;

/// Returns all faults, in the order of the trials.
pub(crate) fn all() -> Vec<&'static Fault> {
    table::FAULTS.iter().chain(rest::FAULTS).collect()
}
