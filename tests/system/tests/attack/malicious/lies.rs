//! Servers of NFS version 3 that lie, each in one way.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileId, FileSystemId};
use leasehold_base::xdr::{Reader, decode_all};
use leasehold_wire::list::List;
use leasehold_wire::mount::{self, mnt};
use leasehold_wire::nfs3::{
    self, Attributes, Device, FileType, Handle, Name, Time, access, fsinfo, getattr, lookup,
    pathconf, read, readdir, readdirplus,
};
use leasehold_wire::outcome::Outcome;
use leasehold_wire::record::mark;
use leasehold_wire::rpc::{Call, Reply, ReplyStatus};

use crate::wire::encoded;

/// The single lie of a server that otherwise follows the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    /// Bytes that are no record.
    Garbage,
    /// No answer, ever.
    Silence,
    /// The connection ends when a call comes.
    ClosedConnection,
    /// A record ends before its mark says so.
    ShortRecord,
    /// A record claims two gibibytes.
    HugeMark,
    /// Fragments without bytes, endlessly.
    EmptyFragments,
    /// A reply to a call that the client did not make.
    OtherXid,
    /// Calls in place of replies.
    CallsInReply,
    /// Each reply lacks its last half.
    CutReplies,
    /// A status that no standard has.
    UnknownStatus,
    /// A handle of 65 bytes.
    LongHandle,
    /// A listing whose name claims two gibibytes.
    LongList,
    /// An object of kind 99.
    UnknownType,
    /// The root of the export is a file.
    FileAsRoot,
    /// Names such as `..` and `a/b` in the listing.
    NamesThatClimb,
    /// READ gives more bytes than the client asked for.
    MoreDataThanAsked,
    /// The count of READ is not the length of its data.
    OtherCount,
    /// The file claims eight exbibytes and has 100,000 bytes.
    HugeSize,
    /// A listing with endless new names.
    EndlessNames,
    /// A listing that returns to its first names.
    CircularListing,
    /// A directory that holds itself.
    DirectoryInItself,
    /// Endlessly nested directories, each of them a new one.
    DirectoriesWithoutEnd,
}

/// A server that lies; the server ends when this value is dropped.
pub(super) struct Evil {
    port: u16,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Evil {
    /// Starts a server.
    pub(super) fn start(lie: Lie) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the machine has a free port");
        let port = listener.local_addr().expect("the socket is bound").port();
        let ends = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ends);
        let thread = spawn(move || {
            for stream in listener.incoming() {
                if seen.load(Ordering::Acquire) {
                    return;
                }
                let ends = Arc::clone(&seen);
                spawn(move || {
                    // The client closes the connection when it detects the lie.
                    let _ = stream.and_then(|stream| serve(stream, lie, &ends));
                });
            }
        });
        Self { port, ends, thread: Some(thread) }
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address of a path there.
    pub(super) fn url(&self, path: &str) -> String {
        format!("nfs://127.0.0.1:{}/{path}", self.port)
    }
}

impl Drop for Evil {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Replies to calls until the client closes the connection, or the server ends.
fn serve(mut stream: TcpStream, lie: Lie, ends: &AtomicBool) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_millis(500)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    while !ends.load(Ordering::Acquire) {
        let mut head = [0; 4];
        match stream.peek(&mut head) {
            Ok(0) => return Ok(()),
            Ok(4..) => {}
            Ok(_) | Err(_) => continue,
        }
        stream.read_exact(&mut head)?;
        let mut record = vec![0; (u32::from_be_bytes(head) & 0x7fff_ffff) as usize];
        stream.read_exact(&mut record)?;
        for bytes in sent(lie, &record) {
            stream.write_all(&bytes)?;
        }
        if matches!(lie, Lie::ClosedConnection | Lie::ShortRecord) {
            return Ok(());
        }
    }
    Ok(())
}

/// The bytes that a server sends for a call.
fn sent(lie: Lie, record: &[u8]) -> Vec<Vec<u8>> {
    let framed = |reply: &[u8]| [&mark(reply.len())[..], reply].concat();
    let reply = reply(lie, record);
    match lie {
        Lie::Garbage => vec![b"HTTP/1.1 200 OK\r\n\r\n".repeat(20)],
        Lie::Silence | Lie::ClosedConnection => Vec::new(),
        Lie::ShortRecord => vec![mark(1000).to_vec(), reply],
        Lie::HugeMark => vec![vec![0xff; 4], reply],
        Lie::EmptyFragments => vec![vec![0; 4 << 10]; 4096],
        Lie::OtherXid => {
            let mut other = reply;
            other[0] ^= 0x55;
            vec![framed(&other)]
        }
        Lie::CallsInReply => vec![framed(record)],
        Lie::CutReplies => vec![framed(&reply[..reply.len().min(24) / 2])],
        Lie::UnknownStatus
        | Lie::LongHandle
        | Lie::LongList
        | Lie::UnknownType
        | Lie::FileAsRoot
        | Lie::NamesThatClimb
        | Lie::MoreDataThanAsked
        | Lie::OtherCount
        | Lie::HugeSize
        | Lie::EndlessNames
        | Lie::CircularListing
        | Lie::DirectoryInItself
        | Lie::DirectoriesWithoutEnd => vec![framed(&reply)],
    }
}

/// The reply to a call, before the lie changes its bytes.
fn reply(lie: Lie, record: &[u8]) -> Vec<u8> {
    let mut reader = Reader::of_part(record);
    let Ok(call) = Call::decode(&mut reader) else { return vec![0; 24] };
    let args = reader.rest().to_vec();
    let (status, results) = match (call.program, call.version) {
        (mount::PROGRAM, mount::VERSION_3) => mounted(lie, call.procedure),
        (nfs3::PROGRAM, nfs3::VERSION) => done(lie, call.procedure, &args),
        _ => (ReplyStatus::ProgramUnavailable, Vec::new()),
    };
    [encoded(&Reply { xid: call.xid, status }), results].concat()
}

fn mounted(lie: Lie, procedure: u32) -> (ReplyStatus, Vec<u8>) {
    let results = match (procedure, lie) {
        (mnt::NUMBER, Lie::LongHandle) => {
            [&0_u32.to_be_bytes()[..], &65_u32.to_be_bytes(), &[7; 68], &[0; 4]].concat()
        }
        (mnt::NUMBER, Lie::UnknownStatus) => vec![0x7f; 4],
        (mnt::NUMBER, _) => {
            let done = mnt::Done { directory: handle("root"), flavors: mnt::Flavors(vec![1]) };
            encoded::<mnt::Reply>(&Outcome::Done(done))
        }
        _ => Vec::new(),
    };
    (ReplyStatus::Success, results)
}

fn handle(name: &str) -> Handle {
    Handle::new(name.as_bytes()).expect("a short name")
}

/// The size of the file, in bytes.
pub(super) const SIZE: usize = 100_000;

/// The attributes of an object: a file, if its handle says so.
fn attributes(lie: Lie, object: &Handle) -> Attributes {
    let is_root = object.as_bytes() == b"root";
    let is_file = object.as_bytes() == b"file" || (is_root && lie == Lie::FileAsRoot);
    let time = Time { seconds: 1_700_000_000, nanoseconds: 0 };
    Attributes {
        file_type: if is_file { FileType::Regular } else { FileType::Directory },
        mode: 0o755,
        link_count: 1,
        uid: 0,
        gid: 0,
        size: if lie == Lie::HugeSize { (1 << 63) - 1 } else { SIZE as u64 },
        used: SIZE as u64,
        device: Device::default(),
        file_system: FileSystemId(7),
        file_id: FileId(if is_root { 1 } else { 2 }),
        accessed: time,
        modified: time,
        changed: time,
    }
}

/// The names that a directory lists.
fn names(lie: Lie) -> Vec<&'static [u8]> {
    if lie != Lie::NamesThatClimb {
        return vec![b"file"];
    }
    vec![
        b"honest",
        b"..",
        b".",
        b"",
        b"../escaped",
        b"../../escaped",
        b"/escaped",
        b"a/b",
        b"x/",
        b"escaped\0",
        b"/",
    ]
}

/// The part of a listing behind a cookie: names with their cookies, and true for the last part.
fn part(lie: Lie, from: u64) -> (Vec<(u64, Vec<u8>)>, bool) {
    let numbered = |numbers: std::ops::RangeInclusive<u64>| {
        numbers.map(|number| (number, format!("name {number}").into_bytes())).collect()
    };
    if lie == Lie::EndlessNames {
        return (numbered(from + 1..=from + 500), false);
    }
    if lie == Lie::CircularListing {
        return (numbered(1..=10), false);
    }
    let names = (1..).zip(names(lie)).map(|(number, name)| (number, name.to_vec()));
    (names.collect(), true)
}

/// Returns the object of a name in a directory.
fn child(lie: Lie, directory: &Handle) -> Handle {
    if lie == Lie::DirectoryInItself {
        return *directory;
    }
    if lie == Lie::DirectoriesWithoutEnd {
        let above = str::from_utf8(directory.as_bytes()).ok();
        let depth: u64 = above.and_then(|above| above.parse().ok()).unwrap_or(0);
        return handle(&(depth + 1).to_string());
    }
    handle("file")
}

/// Runs a procedure of version 3.
fn done(lie: Lie, procedure: u32, args: &[u8]) -> (ReplyStatus, Vec<u8>) {
    if lie == Lie::UnknownStatus {
        return (ReplyStatus::Success, vec![0x7f; 4]);
    }
    let first = Handle::decode_first(args);
    let object = first.unwrap_or_else(|| handle("root"));
    let known = attributes(lie, &object);
    let results = match procedure {
        0 => Vec::new(),
        getattr::NUMBER => {
            encoded::<getattr::Reply>(&nfs3::Reply::Done(getattr::Done { attributes: known }))
        }
        lookup::NUMBER => {
            // The path in the clients' mounts leads to the root, every other name to the file.
            let is_root = args.windows(4).any(|four| four == b"data");
            let object = if is_root { handle("root") } else { child(lie, &object) };
            let attributes = Some(attributes(lie, &object));
            let done = lookup::Done { object, attributes, directory: Some(known) };
            encoded::<lookup::Reply>(&nfs3::Reply::Done(done))
        }
        access::NUMBER => {
            let access = access::Access { read: true, lookup: true, ..Default::default() };
            let done = access::Done { attributes: Some(known), access };
            encoded::<access::Reply>(&nfs3::Reply::Done(done))
        }
        read::NUMBER => data(lie, args, known),
        readdir::NUMBER => listing(lie, args, known),
        readdirplus::NUMBER => listing_plus(lie, args, &object, known),
        fsinfo::NUMBER => information(known),
        pathconf::NUMBER => limits(known),
        _ => return (ReplyStatus::ProcedureUnavailable, Vec::new()),
    };
    let results = match lie == Lie::UnknownType && procedure == getattr::NUMBER {
        // The kind of an object is the first word of its attributes.
        true => [&results[..4], &99_u32.to_be_bytes(), &results[8..]].concat(),
        false => results,
    };
    (ReplyStatus::Success, results)
}

fn data(lie: Lie, args: &[u8], known: Attributes) -> Vec<u8> {
    let asked: read::Args = match decode_all(&mut Reader::of_part(args)) {
        Ok(asked) => asked,
        Err(_) => return vec![0, 0, 0, 22, 0, 0, 0, 0],
    };
    let left = (SIZE as u64).saturating_sub(asked.offset);
    let count = asked.count.min(u32::try_from(left).unwrap_or(u32::MAX));
    let length = count as usize + if lie == Lie::MoreDataThanAsked { 500_000 } else { 0 };
    let said = if lie == Lie::OtherCount { count / 2 + 1 } else { count };
    let said = if lie == Lie::MoreDataThanAsked { count + 500_000 } else { said };
    let end = asked.offset + u64::from(count) >= SIZE as u64;
    let data = Bytes::from(vec![b'e'; length]);
    let attributes = Some(known);
    encoded::<read::Reply>(&nfs3::Reply::Done(read::Done { attributes, count: said, end, data }))
}

/// The cookie in the arguments of a listing, which comes behind the handle.
fn cookie(args: &[u8], directory: &Handle) -> u64 {
    let at = 4 + directory.as_bytes().len().next_multiple_of(4);
    args.get(at..at + 8).and_then(|cookie| cookie.try_into().ok()).map_or(0, u64::from_be_bytes)
}

fn listing(lie: Lie, args: &[u8], known: Attributes) -> Vec<u8> {
    let directory = Handle::decode_first(args).unwrap_or_else(|| handle("root"));
    let (names, end) = part(lie, cookie(args, &directory));
    let entry = |(number, name): (&u64, _)| readdir::Entry {
        file_id: FileId(number + 10),
        name: Name(name),
        cookie: Cookie(*number),
    };
    let entries = names.iter().map(|(number, name)| (number, &name[..])).map(entry);
    let entries = List(entries.collect());
    let done = readdir::Done { attributes: Some(known), verifier: [0; 8], entries, end };
    stretched(lie, encoded::<readdir::Listing<'_>>(&nfs3::Reply::Done(done)))
}

fn listing_plus(lie: Lie, args: &[u8], directory: &Handle, known: Attributes) -> Vec<u8> {
    let (names, end) = part(lie, cookie(args, directory));
    let object = child(lie, directory);
    let entry = |(number, name): (&u64, _)| readdirplus::Entry {
        file_id: FileId(number + 10),
        name: Name(name),
        cookie: Cookie(*number),
        attributes: Some(attributes(lie, &object)),
        object: Some(object),
    };
    let entries = names.iter().map(|(number, name)| (number, &name[..])).map(entry);
    let entries = List(entries.collect());
    let done = readdir::Done { attributes: Some(known), verifier: [0; 8], entries, end };
    stretched(lie, encoded::<readdirplus::Listing<'_>>(&nfs3::Reply::Done(done)))
}

/// Lets the first name of a listing claim two gibibytes.
fn stretched(lie: Lie, mut listing: Vec<u8>) -> Vec<u8> {
    // Status, flag and attributes, verifier, flag of the first entry, number of its object.
    let at = 4 + 4 + nfs3::ATTRIBUTES_BYTES as usize + 8 + 4 + 8;
    if lie == Lie::LongList {
        listing[at..at + 4].copy_from_slice(&0x7fff_ffff_u32.to_be_bytes());
    }
    listing
}

fn information(known: Attributes) -> Vec<u8> {
    let done = fsinfo::Done {
        attributes: Some(known),
        read_bytes_max: 65_536,
        read_bytes_best: 65_536,
        read_bytes_multiple: 4096,
        write_bytes_max: 65_536,
        write_bytes_best: 65_536,
        write_bytes_multiple: 4096,
        directory_bytes_best: 65_536,
        file_bytes_max: u64::MAX,
        time_step: Time { seconds: 0, nanoseconds: 1 },
        properties: fsinfo::Properties::default(),
    };
    encoded::<fsinfo::Reply>(&nfs3::Reply::Done(done))
}

fn limits(known: Attributes) -> Vec<u8> {
    let done = pathconf::Done {
        attributes: Some(known),
        link_max: 1000,
        name_bytes_max: 255,
        refuses_long_names: true,
        chown_restricted: true,
        case_insensitive: false,
        case_preserving: true,
    };
    encoded::<pathconf::Reply>(&nfs3::Reply::Done(done))
}

/// The handle that the arguments of most procedures begin with.
trait First: Sized {
    fn decode_first(args: &[u8]) -> Option<Self>;
}

impl First for Handle {
    fn decode_first(args: &[u8]) -> Option<Self> {
        let length = u32::from_be_bytes(*args.first_chunk()?) as usize;
        Self::new(args.get(4..4 + length)?)
    }
}
