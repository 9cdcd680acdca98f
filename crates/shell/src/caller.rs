//! Synchronous calls to a small service, by a thread that waits for each reply.

use std::io::{self, Read, Write};

use bytes::{Bytes, BytesMut};
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Decode, Encode, Reader, Writer, decode_all};
use leasehold_wire::record::{Next, Splitter, mark};
use leasehold_wire::rpc::{Call, OpaqueAuth, Reply, ReplyStatus};

/// A transport of calls and replies with its own timeout.
trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

/// A connection to a program.
pub(crate) struct Caller {
    stream: Box<dyn Stream>,
    program: u32,
    version: u32,
    xid: u32,
}

impl Caller {
    pub(crate) fn new(stream: impl Read + Write + 'static, program: u32, version: u32) -> Self {
        Self { stream: Box::new(stream), program, version, xid: 0 }
    }

    /// Calls a procedure and returns its results.
    pub(crate) fn call(&mut self, procedure: u32, args: &impl Encode) -> io::Result<Bytes> {
        self.xid += 1;
        let xid = Xid(self.xid);
        let mut writer = Writer::new();
        Call {
            xid,
            program: self.program,
            version: self.version,
            procedure,
            credential: OpaqueAuth::NONE,
            verifier: OpaqueAuth::NONE,
        }
        .encode(&mut writer);
        args.encode(&mut writer);
        let message = writer.finish().into_bytes();
        self.stream.write_all(&[&mark(message.len())[..], &message].concat())?;
        let reply = self.receive()?;
        let mut reader = Reader::new(&reply);
        let head = Reply::decode(&mut reader).map_err(io::Error::other)?;
        if head != (Reply { xid, status: ReplyStatus::Success }) {
            return Err(io::Error::other(format!("{:?}", head.status)));
        }
        Ok(reader.rest_shared())
    }

    fn receive(&mut self) -> io::Result<Bytes> {
        let (mut splitter, mut received) = (Splitter::default(), BytesMut::new());
        loop {
            match splitter.next(&mut received).map_err(io::Error::other)? {
                Next::Record(record) => return Ok(record),
                Next::Need(bytes) => {
                    let have = received.len();
                    received.resize(have + bytes, 0);
                    self.stream.read_exact(&mut received[have..])?;
                }
            }
        }
    }
}

/// Decodes results.
pub(crate) fn read<'a, T: Decode<'a>>(results: &'a Bytes) -> io::Result<T> {
    decode_all(&mut Reader::new(results)).map_err(io::Error::other)
}
