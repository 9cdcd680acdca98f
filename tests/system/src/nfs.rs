//! A synchronous client of version 3, for tests that must control each call and examine each reply.

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

/// The time after which a silent server counts as ended: a disk under other load may take half a
/// minute for a sync.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The pause before a call is retried after JUKEBOX.
const JUKEBOX_PAUSE: Duration = Duration::from_millis(50);

/// The server has ended, possibly after it executed the call.
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

/// Ends a connection from another thread; received bytes stay readable.
pub struct Breaker(TcpStream);

impl Breaker {
    /// Ends the connection.
    pub fn end(&self) {
        // The connection may be broken already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

impl Client {
    /// Connects, with the credential of a user.
    ///
    /// # Errors
    /// No server accepts the connection.
    pub fn connect(server: SocketAddr, user: u32) -> Result<Self, Lost> {
        let stream = TcpStream::connect_timeout(&server, TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let (received, splitter) = (BytesMut::new(), Splitter::default());
        Ok(Self { stream, user, received, splitter })
    }

    /// Returns a handle that ends the connection from another thread.
    ///
    /// # Panics
    /// Panics if no file descriptor is available.
    #[must_use]
    pub fn breaker(&self) -> Breaker {
        Breaker(self.stream.try_clone().expect("there are descriptors left"))
    }

    /// Returns the root of the export.
    ///
    /// # Errors
    /// The server has ended.
    ///
    /// # Panics
    /// Panics if the server denies the mount.
    pub fn mount(&mut self) -> Result<Handle, Lost> {
        let message =
            self.message(mount::PROGRAM, mount::VERSION_3, mount::mnt::NUMBER, &mount::Path(b"/"));
        match decoded(&self.exchange(&message)?) {
            Outcome::Done(mount::mnt::Done { directory, .. }) => Ok(directory),
            Outcome::Failed::<_, mount::mnt::Status>(status) => panic!("MNT: {status:?}"),
        }
    }

    /// Calls a procedure of version 3, with retries after JUKEBOX.
    ///
    /// # Errors
    /// The server has ended.
    ///
    /// # Panics
    /// Panics if the results cannot be decoded.
    pub fn call<T: for<'a> Decode<'a>>(
        &mut self,
        procedure: u32,
        args: &impl Encode,
    ) -> Result<T, Lost> {
        Ok(decoded(&self.results(procedure, args)?))
    }

    /// Calls a procedure like [`Self::call`], and returns the encoded results.
    ///
    /// # Errors
    /// The server has ended.
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

    /// Calls a procedure of a version and returns its status. Both versions use the same numbers.
    ///
    /// # Errors
    /// The server has ended.
    ///
    /// # Panics
    /// Panics if the results have no status.
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

    /// Returns a new call of a procedure of version 3.
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
    /// The server has ended.
    ///
    /// # Panics
    /// Panics if the message from the server is not a reply to the call.
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

/// Encoded arguments.
pub struct Encoded(Vec<u8>);

impl Encoded {
    /// Encodes arguments.
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

/// Returns true if the results request a retry.
pub(crate) fn is_jukebox(results: &Bytes) -> bool {
    results.first_chunk() == Some(&(Status::Jukebox as u32).to_be_bytes())
}

/// Decodes the results of a procedure.
///
/// # Panics
/// Panics if they are malformed.
pub(crate) fn decoded<'a, T: Decode<'a>>(results: &'a Bytes) -> T {
    decode_all(&mut Reader::new(results)).expect("results are well formed")
}
