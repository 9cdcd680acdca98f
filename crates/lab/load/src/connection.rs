//! A stream to a server: calls go out in batches, replies come in as they come.

use std::hash::{BuildHasher as _, RandomState};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Decode, Encode, Reader, Writer, decode_all};
use leasehold_wire::record::{Next, Splitter, mark};
use leasehold_wire::rpc::{AuthSys, Call, OpaqueAuth, Reply, ReplyStatus, flavor};
use leasehold_wire::{mount, nfs2, nfs3};

use crate::Error;

/// A program and its version.
#[derive(Clone, Copy)]
pub(crate) struct Program(pub(crate) u32, pub(crate) u32);

pub(crate) const NFS: Program = Program(nfs3::PROGRAM, nfs3::VERSION);
pub(crate) const NFS_2: Program = Program(nfs2::PROGRAM, nfs2::VERSION);
pub(crate) const MOUNT: Program = Program(mount::PROGRAM, 3);

/// A server that says nothing for so long fails the run.
const PATIENCE: Duration = Duration::from_secs(20);

/// How much is asked of the socket at once.
const RECEIVE_BYTES: usize = 256 << 10;

pub(crate) struct Connection {
    stream: TcpStream,
    /// The number of the first call. A port comes again before a server forgets what it replied to
    /// the port's last owner: calls that began at the same number would be taken for its calls.
    first: u32,
    credential: Vec<u8>,
    out: Vec<u8>,
    /// Memory that is used again.
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
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
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

    /// Adds a call to the next batch; its number is the caller's to give. Says how many bytes it has.
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

    /// The next reply: its number and its results. Waits only when `wait` is set.
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

    /// Receives at least so many bytes.
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

    /// Calls and waits.
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

/// The number of a reply, and what follows its head.
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

/// Results as the procedure has them.
pub(crate) fn decode<'a, T: Decode<'a>>(results: &'a Bytes) -> Result<T, Error> {
    decode_all(&mut Reader::new(results)).map_err(|error| Error::Wrong(error.to_string()))
}
