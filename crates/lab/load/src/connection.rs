//! A stream to a server: calls are sent in batches, replies are processed as they arrive.

use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Decode, Encode, Reader, Writer, decode_all};
use leasehold_wire::record::{Next, Splitter, mark};
use leasehold_wire::rpc::{AuthSys, Call, OpaqueAuth, Reply, ReplyStatus, flavor};
use leasehold_wire::{mount, nfs2, nfs3};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketType};

use crate::Error;

/// A program and its version.
#[derive(Clone, Copy)]
pub(crate) struct Program(pub(crate) u32, pub(crate) u32);

pub(crate) const NFS: Program = Program(nfs3::PROGRAM, nfs3::VERSION);
pub(crate) const NFS_2: Program = Program(nfs2::PROGRAM, nfs2::VERSION);
pub(crate) const MOUNT: Program = Program(mount::PROGRAM, 3);

/// The run fails if the server sends nothing for this time.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);

/// The largest number of bytes in one read from the socket.
const RECEIVE_BYTES: usize = 256 << 10;

pub(crate) struct Connection {
    stream: TcpStream,
    /// The number of the first call. A port is reused before a server forgets its replies to the
    /// last owner of the port. If the numbers were equal, the server would treat new calls as
    /// retransmissions.
    first: u32,
    credential: Vec<u8>,
    out: Vec<u8>,
    /// A reused buffer.
    writer: Writer,
    received: BytesMut,
    splitter: Splitter,
    room: Vec<u8>,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Connection {
    pub(crate) fn open(server: SocketAddr) -> Result<Self, Error> {
        Self::of(TcpStream::connect(server)?)
    }

    /// Opens a connection from an address of this machine.
    pub(crate) fn open_from(source: Ipv4Addr, server: SocketAddr) -> Result<Self, Error> {
        let connected = || {
            let socket = net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
            net::bind(&socket, &SocketAddrV4::new(source, 0))?;
            net::connect(&socket, &server)?;
            Ok(socket)
        };
        let socket: OwnedFd = connected().map_err(|error: Errno| io::Error::from(error))?;
        Self::of(TcpStream::from(socket))
    }

    fn of(stream: TcpStream) -> Result<Self, Error> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        let mut writer = Writer::new();
        AuthSys { machine_name: b"load", ..AuthSys::default() }.encode(&mut writer);
        let first = RandomState::new().hash_one(stream.local_addr()?);
        Ok(Self {
            stream,
            first: u32::try_from(first & u64::from(u32::MAX)).unwrap_or_default(),
            credential: writer.finish().into_bytes().to_vec(),
            out: Vec::new(),
            writer: Writer::new(),
            received: BytesMut::new(),
            splitter: Splitter::default(),
            room: vec![0; RECEIVE_BYTES],
        })
    }

    /// Adds a call to the next batch, with a number that the caller chooses. Returns its size in
    /// bytes.
    pub(crate) fn queue(
        &mut self,
        xid: u32,
        Program(program, version): Program,
        procedure: u32,
        args: &(impl Encode + ?Sized),
    ) -> usize {
        let mut writer = core::mem::take(&mut self.writer);
        let credential = OpaqueAuth { flavor: flavor::SYS, body: &self.credential };
        let verifier = OpaqueAuth::NONE;
        let xid = Xid(self.first.wrapping_add(xid));
        Call { xid, program, version, procedure, credential, verifier }.encode(&mut writer);
        args.encode(&mut writer);
        let message = writer.finish();
        let (mark, bytes) = (mark(message.len()), message.len());
        self.out.extend_from_slice(&mark);
        let (before, payload, after) = message.parts();
        for part in [before, payload, after] {
            self.out.extend_from_slice(part);
        }
        self.writer = message.into_writer();
        mark.len() + bytes
    }

    /// Sends the batch.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// Returns the number and the results of the next reply. Waits only if `wait` is set.
    pub(crate) fn reply(&mut self, wait: bool) -> Result<Option<(u32, Bytes)>, Error> {
        loop {
            let next = self.splitter.next(&mut self.received);
            match next.map_err(|error| Error::Wrong(error.to_string()))? {
                Next::Record(record) => {
                    let (xid, results) = results(record)?;
                    return Ok(Some((xid.wrapping_sub(self.first), results)));
                }
                Next::Need(_) if !wait => return Ok(None),
                Next::Need(bytes) => self.receive(bytes)?,
            }
        }
    }

    /// Receives at least `bytes` bytes.
    fn receive(&mut self, bytes: usize) -> Result<(), Error> {
        self.received.reserve(bytes);
        let wanted = self.received.len() + bytes;
        while self.received.len() < wanted {
            let count = self.stream.read(&mut self.room)?;
            if count == 0 {
                return Err(Error::Wrong("it closed the connection".to_owned()));
            }
            self.received.extend_from_slice(&self.room[..count]);
        }
        Ok(())
    }

    /// Sends a call and waits for its reply.
    pub(crate) fn call<T: for<'a> Decode<'a>>(
        &mut self,
        program: Program,
        procedure: u32,
        args: &impl Encode,
    ) -> Result<T, Error> {
        self.queue(0, program, procedure, args);
        self.flush()?;
        let (_, results) = self.reply(true)?.expect("waits until there is one");
        decode(&results)
    }
}

/// Returns the number of a reply, and the bytes after its head.
fn results(mut record: Bytes) -> Result<(u32, Bytes), Error> {
    let mut reader = Reader::new(&record);
    let reply = Reply::decode(&mut reader).map_err(|error| Error::Wrong(error.to_string()))?;
    if reply.status != ReplyStatus::Success {
        return Err(Error::Wrong(format!("{:?}", reply.status)));
    }
    let head_bytes = record.len() - reader.rest().len();
    record.advance(head_bytes);
    Ok((reply.xid.0, record))
}

/// Decodes the results of the procedure.
pub(crate) fn decode<'a, T: Decode<'a>>(results: &'a Bytes) -> Result<T, Error> {
    decode_all(&mut Reader::new(results)).map_err(|error| Error::Wrong(error.to_string()))
}
