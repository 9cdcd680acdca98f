//! A client of version 3 that makes one call after another, for tests that must know exactly what
//! was asked and what was answered.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use leasehold_base::groups::Groups;
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Decode, Encode, Reader, Writer, decode_all};
use leasehold_wire::mount;
use leasehold_wire::nfs3::{self, Handle, Status};
use leasehold_wire::outcome::Outcome;
use leasehold_wire::record::{Next, Splitter, mark};
use leasehold_wire::rpc::{AuthSys, Call, OpaqueAuth, Reply, ReplyStatus, flavor};

/// A server that says nothing for so long is taken for gone: a disk that others use, too, may take
/// half a minute for a sync.
const PATIENCE: Duration = Duration::from_mins(2);

/// The pause before a call is made again that was answered JUKEBOX.
const JUKEBOX_PAUSE: Duration = Duration::from_millis(50);

/// The server is gone, with or without having done what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

impl From<io::Error> for Lost {
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// A connection.
pub struct Client {
    stream: TcpStream,
    user: u32,
    received: BytesMut,
    splitter: Splitter,
}

/// Ends a connection from outside; what has been received can still be read.
pub struct Breaker(TcpStream);

impl Breaker {
    /// Ends it.
    pub fn end(&self) {
        // It may be broken already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Client {
    /// Connects, to call as a user.
    ///
    /// # Errors
    /// If nobody listens.
    pub fn connect(server: SocketAddr, user: u32) -> Result<Self, Lost> {
        let stream = TcpStream::connect_timeout(&server, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (received, splitter) = (BytesMut::new(), Splitter::default());
        Ok(Self { stream, user, received, splitter })
    }

    /// What ends the connection from another thread.
    ///
    /// # Panics
    /// If there are no more descriptors.
    #[must_use]
    pub fn breaker(&self) -> Breaker {
        Breaker(self.stream.try_clone().expect("there are descriptors left"))
    }

    /// The root of what the server exports.
    ///
    /// # Errors
    /// If the server is gone.
    ///
    /// # Panics
    /// If it refuses.
    pub fn mount(&mut self) -> Result<Handle, Lost> {
        let message =
            self.message(mount::PROGRAM, mount::VERSION_3, mount::mnt::NUMBER, &mount::Path(b"/"));
        match decoded(&self.exchange(&message)?) {
            Outcome::Done(mount::mnt::Done { directory, .. }) => Ok(directory),
            Outcome::Failed::<_, mount::mnt::Status>(status) => panic!("MNT: {status:?}"),
        }
    }

    /// Calls a procedure of version 3, again when the server asks for that.
    ///
    /// # Errors
    /// If the server is gone.
    ///
    /// # Panics
    /// If the results cannot be read.
    pub fn call<T: for<'a> Decode<'a>>(
        &mut self,
        procedure: u32,
        args: &impl Encode,
    ) -> Result<T, Lost> {
        Ok(decoded(&self.results(procedure, args)?))
    }

    /// As [`Self::call`]: the results as they came.
    ///
    /// # Errors
    /// If the server is gone.
    pub fn results(&mut self, procedure: u32, args: &impl Encode) -> Result<Bytes, Lost> {
        loop {
            let message = self.call_message(procedure, args);
            let results = self.exchange(&message)?;
            if !is_jukebox(&results) {
                return Ok(results);
            }
            sleep(JUKEBOX_PAUSE);
        }
    }

    /// The status that a procedure of a version answers. The numbers mean the same in both.
    ///
    /// # Errors
    /// If the server is gone.
    ///
    /// # Panics
    /// If the results have none.
    pub fn status(
        &mut self,
        version: u32,
        procedure: u32,
        args: &impl Encode,
    ) -> Result<u32, Lost> {
        loop {
            let message = self.message(nfs3::PROGRAM, version, procedure, args);
            let results = self.exchange(&message)?;
            if !is_jukebox(&results) {
                let status = results.first_chunk().expect("there is a status");
                return Ok(u32::from_be_bytes(*status));
            }
            sleep(JUKEBOX_PAUSE);
        }
    }

    /// A new call of a procedure of version 3.
    #[must_use]
    pub fn call_message(&self, procedure: u32, args: &impl Encode) -> Vec<u8> {
        self.message(nfs3::PROGRAM, nfs3::VERSION, procedure, args)
    }

    fn message(&self, program: u32, version: u32, procedure: u32, args: &impl Encode) -> Vec<u8> {
        static XID: AtomicU32 = AtomicU32::new(1);
        let (uid, gid, groups) = (self.user, self.user, Groups::default());
        let mut body = Writer::new();
        AuthSys { stamp: 0, machine_name: b"test", uid, gid, groups }.encode(&mut body);
        let body = body.finish().into_bytes();
        let credential = OpaqueAuth { flavor: flavor::SYS, body: &body };
        let (xid, verifier) = (Xid(XID.fetch_add(1, Ordering::Relaxed)), OpaqueAuth::NONE);
        let mut writer = Writer::new();
        Call { xid, program, version, procedure, credential, verifier }.encode(&mut writer);
        args.encode(&mut writer);
        writer.finish().into_bytes().into()
    }

    /// Sends a call and waits for its results.
    ///
    /// # Errors
    /// If the server is gone.
    ///
    /// # Panics
    /// If the server answers what is no reply to the call.
    pub fn exchange(&mut self, message: &[u8]) -> Result<Bytes, Lost> {
        self.stream.write_all(&[&mark(message.len())[..], message].concat())?;
        let record = self.receive()?;
        let mut reader = Reader::new(&record);
        let reply = Reply::decode(&mut reader).expect("replies are well formed");
        assert_eq!(reply.status, ReplyStatus::Success, "the server refuses a call");
        assert_eq!(reply.xid.0.to_be_bytes(), message[..4], "the reply is that of another call");
        Ok(reader.rest_shared())
    }

    fn receive(&mut self) -> Result<Bytes, Lost> {
        let mut room = vec![0; 64 << 10];
        loop {
            match self.splitter.next(&mut self.received).expect("records are well formed") {
                Next::Record(record) => return Ok(record),
                Next::Need(_) => {
                    let count = self.stream.read(&mut room)?;
                    if count == 0 {
                        return Err(Lost);
                    }
                    self.received.extend_from_slice(&room[..count]);
                }
            }
        }
    }
}

/// Arguments as bytes.
pub struct Encoded(Vec<u8>);

impl Encoded {
    /// The bytes of some arguments.
    #[must_use]
    pub fn of(args: &impl Encode) -> Self {
        let mut writer = Writer::new();
        args.encode(&mut writer);
        Self(writer.finish().into_bytes().into())
    }
}

impl Encode for Encoded {
    fn encode(&self, writer: &mut Writer) {
        writer.fixed(&self.0);
    }
}

/// Whether results say that the call is to be made again.
pub(crate) fn is_jukebox(results: &Bytes) -> bool {
    results.first_chunk() == Some(&(Status::Jukebox as u32).to_be_bytes())
}

/// Results as the procedure has them.
///
/// # Panics
/// If they are not.
pub(crate) fn decoded<'a, T: Decode<'a>>(results: &'a Bytes) -> T {
    decode_all(&mut Reader::new(results)).expect("results are well formed")
}
