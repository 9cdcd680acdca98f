//! A raw caller: any credential and any bytes, by TCP and by UDP.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use leasehold_base::groups::Groups;
use leasehold_base::units::Xid;
use leasehold_base::xdr::{Decode as _, Encode, Reader, Writer};
use leasehold_system_tests::Server;
use leasehold_wire::nfs3::{self, DirectoryArgs, Handle, Name, lookup};
use leasehold_wire::record::mark;
use leasehold_wire::rpc::{AuthSys, Call, OpaqueAuth, Reply, ReplyStatus, flavor};

/// Longer than a reply takes on a loaded machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The reply to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// How the server received the call.
    pub(crate) status: ReplyStatus,
    /// The results, where the procedure ran.
    pub(crate) results: Bytes,
}

impl Answer {
    /// Reads a reply.
    ///
    /// # Panics
    /// If the server sent no well-formed reply.
    pub(crate) fn of(record: &[u8]) -> Self {
        let record = Bytes::copy_from_slice(record);
        let mut reader = Reader::new(&record);
        let reply = Reply::decode(&mut reader).expect("the server sends well-formed replies");
        Self { status: reply.status, results: reader.rest_shared() }
    }

    /// The first word of the results, which is the status in each program; none if the procedure
    /// did not run.
    pub(crate) fn word(&self) -> Option<u32> {
        let is_run = self.status == ReplyStatus::Success;
        is_run.then(|| self.results.first_chunk().map(|word| u32::from_be_bytes(*word)))?
    }
}

/// A credential of AUTH_SYS, as the body of the call's head has it.
pub(crate) fn system(uid: u32, gid: u32) -> Vec<u8> {
    let groups = Groups::default();
    encoded(&AuthSys { stamp: 0, machine_name: b"stranger", uid, gid, groups })
}

/// Arguments as bytes.
pub(crate) fn encoded<T: Encode>(args: &T) -> Vec<u8> {
    let mut writer = Writer::new();
    args.encode(&mut writer);
    writer.finish().into_bytes().into()
}

/// A procedure of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Procedure {
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) number: u32,
}

impl Procedure {
    /// A procedure of NFS version 3.
    pub(crate) const fn nfs3(number: u32) -> Self {
        Self { program: nfs3::PROGRAM, version: nfs3::VERSION, number }
    }

    /// A call by AUTH_SYS.
    pub(crate) fn by(self, uid: u32, args: &[u8]) -> Vec<u8> {
        self.with(OpaqueAuth { flavor: flavor::SYS, body: &system(uid, uid) }, args)
    }

    /// A call without a credential.
    pub(crate) fn by_nobody(self, args: &[u8]) -> Vec<u8> {
        self.with(OpaqueAuth::NONE, args)
    }

    /// A call with any credential.
    pub(crate) fn with(self, credential: OpaqueAuth<'_>, args: &[u8]) -> Vec<u8> {
        static XID: AtomicU32 = AtomicU32::new(1);
        let Self { program, version, number: procedure } = self;
        let (xid, verifier) = (Xid(XID.fetch_add(1, Ordering::Relaxed)), OpaqueAuth::NONE);
        let head = encoded(&Call { xid, program, version, procedure, credential, verifier });
        [&head, args].concat()
    }
}

/// A connection that sends any bytes.
pub(crate) struct Connection(pub(crate) TcpStream);

impl Connection {
    /// Connects.
    ///
    /// # Panics
    /// If no server listens.
    pub(crate) fn to(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).expect("the server listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a socket takes a timeout");
        stream.set_write_timeout(Some(TIMEOUT)).expect("a socket takes a timeout");
        stream.set_nodelay(true).expect("a socket of TCP has the option");
        Self(stream)
    }

    /// The answer to a call; none if the server closes the connection.
    pub(crate) fn call(&mut self, message: &[u8]) -> Option<Answer> {
        self.send(message).then(|| self.receive())?
    }

    /// Sends a record; returns true if the connection took all bytes of the record.
    pub(crate) fn send(&mut self, message: &[u8]) -> bool {
        self.0.write_all(&[&mark(message.len())[..], message].concat()).is_ok()
    }

    /// The next reply; none if the server closes the connection.
    pub(crate) fn receive(&mut self) -> Option<Answer> {
        let mut mark = [0; 4];
        self.0.read_exact(&mut mark).ok()?;
        let mut record = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
        self.0.read_exact(&mut record).ok()?;
        Some(Answer::of(&record))
    }
}

/// A UDP socket with a port above 1023, from which the server accepts no user id.
pub(crate) struct Stranger {
    socket: UdpSocket,
    server: SocketAddr,
}

impl Stranger {
    /// A new socket.
    ///
    /// # Panics
    /// If the machine has no port left.
    pub(crate) fn of(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("the machine has a free port");
        socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket takes a timeout");
        Self { socket, server }
    }

    /// The answer to a call.
    ///
    /// # Panics
    /// If no answer comes.
    pub(crate) fn call(&self, message: &[u8]) -> Answer {
        Answer::of(&self.reply(message).expect("the server answers"))
    }

    /// The datagram that the server sends in reply; a datagram may be lost, so the call is sent
    /// again.
    pub(crate) fn reply(&self, message: &[u8]) -> Option<Vec<u8>> {
        let mut room = vec![0; 65_536];
        for _ in 0..5 {
            self.socket.send_to(message, self.server).expect("the machine sends a datagram");
            while let Ok((length, from)) = self.socket.recv_from(&mut room) {
                if from == self.server && room[..4] == message[..4] {
                    return Some(room[..length].to_vec());
                }
            }
        }
        None
    }
}

/// The address of a server.
pub(crate) fn address(server: &Server) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], server.port()))
}

/// The handle of a name in the directory of a handle, as root finds it.
///
/// # Panics
/// If the server does not find the name.
pub(crate) fn find(connection: &mut Connection, directory: Handle, name: &str) -> Handle {
    let args = encoded(&DirectoryArgs { directory, name: Name(name.as_bytes()) });
    let answer = connection.call(&Procedure::nfs3(lookup::NUMBER).by(0, &args));
    let answer = answer.expect("the server answers");
    assert_eq!(answer.word(), Some(0), "{name} is there");
    let mut reader = Reader::new(&answer.results);
    let done: lookup::Reply =
        leasehold_base::xdr::decode_all(&mut reader).expect("the results are well formed");
    match done {
        nfs3::Reply::Done(found) => found.object,
        nfs3::Reply::Failed(status, _) => panic!("{name}: {status:?}"),
    }
}

/// The handle of the root of an export.
///
/// # Panics
/// If the server refuses the call.
pub(crate) fn root(server: SocketAddr) -> Handle {
    let mut client = leasehold_system_tests::Client::connect(server, 0).expect("it listens");
    client.mount().expect("it answers")
}

/// Numbers that look random and are the same in each run (xorshift, Marsaglia 2003).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next().to_be_bytes()[3]).collect()
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("it is below a usize")
    }
}
