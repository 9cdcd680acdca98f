//! Servers that implement only the mandatory parts of the protocol.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::{ConnectionId, Time};
use leasehold_base::xdr::{Decode, Encode, Message, Reader, Writer, decode_all};
use leasehold_fs::MaybeReady;
use leasehold_serve::{Arrival, Response, Service};
use leasehold_shell::Handler;
use leasehold_wire::nfs3::{
    self, Attributes, Made, Wcc, access, commit, create, fsinfo, fsstat, link, lookup, pathconf,
    read, readdir, readdirplus, readlink, remove, rename, setattr, write,
};
use leasehold_wire::rpc::{Call, Reply, ReplyStatus, Versions};
use leasehold_wire::{mount, nfs2};

/// The features that a test server has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manners {
    /// All features of Leasehold's server.
    #[default]
    Full,
    /// Only the mandatory parts of version 3: no optional attributes or handles, one byte in each
    /// WRITE, and small sizes in FSINFO.
    Stingy,
    /// Only version 2 of NFS and version 1 of MOUNT.
    Version2Only,
}

/// A service that hides some features of the full service.
pub(crate) struct Mannered {
    service: Arc<Service>,
    manners: Manners,
}

impl Mannered {
    pub(crate) fn new(service: Arc<Service>, manners: Manners) -> Self {
        Self { service, manners }
    }
}

impl Handler for Mannered {
    fn answer(&self, arrival: Arrival, message: Bytes, mut writer: Writer) -> Response {
        let mut reader = Reader::new(&message);
        let Ok(call) = Call::decode(&mut reader) else {
            return self.service.answer(arrival, message, writer);
        };
        let is_version_3 =
            call.version == nfs3::VERSION && matches!(call.program, nfs3::PROGRAM | mount::PROGRAM);
        if self.manners == Manners::Version2Only && is_version_3 {
            let low = if call.program == nfs3::PROGRAM { nfs2::VERSION } else { mount::VERSION_1 };
            let high = low;
            let status = ReplyStatus::ProgramMismatch(Versions { low, high });
            Reply { xid: call.xid, status }.encode(&mut writer);
            return MaybeReady::now(Some(writer.finish())).into();
        }
        let is_nfs3 = call.program == nfs3::PROGRAM && is_version_3;
        if self.manners != Manners::Stingy || !is_nfs3 {
            return self.service.answer(arrival, message, writer);
        }
        let procedure = call.procedure;
        let shorter = (procedure == write::NUMBER).then(|| one_byte(&call, reader)).flatten();
        let response = self.service.answer(arrival, shorter.unwrap_or(message), writer);
        let reply = response.reply.map(move |reply| reply.map(|reply| poorer(procedure, reply)));
        Response { reply, must_end: response.must_end }
    }

    fn connection_closed(&self, from: SocketAddr, connection: ConnectionId) {
        self.service.connection_closed(from, connection);
    }

    fn wake(&self, now: Time) -> Option<Time> {
        self.service.wake(now)
    }
}

/// Returns a WRITE with only its first byte.
fn one_byte(call: &Call<'_>, mut args: Reader<'_>) -> Option<Bytes> {
    let args: write::Args = decode_all(&mut args).ok()?;
    let data = args.data.slice(..args.data.len().min(1));
    let count = u32::try_from(data.len()).ok()?;
    let mut writer = Writer::new();
    call.encode(&mut writer);
    write::Args { count, data, ..args }.encode(&mut writer);
    Some(writer.finish().into_bytes())
}

/// Returns a reply without its optional parts.
fn poorer(procedure: u32, reply: Message) -> Message {
    let message = reply.into_bytes();
    let mut reader = Reader::new(&message);
    let mut writer = Writer::new();
    let head = Reply::decode(&mut reader).expect("our replies are well-formed");
    head.encode(&mut writer);
    if head.status == ReplyStatus::Success && !strip(procedure, &mut reader, &mut writer) {
        return message.into();
    }
    writer.finish()
}

/// A structure of the protocol with optional parts.
trait Strip {
    /// Removes the optional parts.
    fn strip(&mut self);
}

/// Copies the results of a procedure without their optional parts; returns false if the procedure
/// has none.
fn strip(procedure: u32, reader: &mut Reader<'_>, writer: &mut Writer) -> bool {
    match procedure {
        setattr::NUMBER => copy::<Wcc, Wcc>(reader, writer),
        lookup::NUMBER => copy::<lookup::Done, Option<Attributes>>(reader, writer),
        access::NUMBER => copy::<access::Done, Option<Attributes>>(reader, writer),
        readlink::NUMBER => copy::<readlink::Done<'_>, Option<Attributes>>(reader, writer),
        read::NUMBER => copy::<read::Done, Option<Attributes>>(reader, writer),
        write::NUMBER => copy::<write::Done, Wcc>(reader, writer),
        // MKDIR, SYMLINK and MKNOD have the same results as CREATE.
        create::NUMBER..=nfs3::mknod::NUMBER => copy::<Made, Wcc>(reader, writer),
        // RMDIR has the same results as REMOVE.
        remove::NUMBER | nfs3::rmdir::NUMBER => copy::<Wcc, Wcc>(reader, writer),
        rename::NUMBER => copy::<rename::Done, rename::Done>(reader, writer),
        link::NUMBER => copy::<link::Done, link::Done>(reader, writer),
        readdir::NUMBER => copy::<Names<'_>, Option<Attributes>>(reader, writer),
        readdirplus::NUMBER => copy::<NamesPlus<'_>, Option<Attributes>>(reader, writer),
        fsstat::NUMBER => copy::<fsstat::Done, Option<Attributes>>(reader, writer),
        fsinfo::NUMBER => copy::<fsinfo::Done, Option<Attributes>>(reader, writer),
        pathconf::NUMBER => copy::<pathconf::Done, Option<Attributes>>(reader, writer),
        commit::NUMBER => copy::<commit::Done, Wcc>(reader, writer),
        _ => return false,
    }
    true
}

type Names<'a> = readdir::Done<leasehold_wire::list::List<readdir::Entry<'a>>>;
type NamesPlus<'a> = readdirplus::Done<leasehold_wire::list::List<readdirplus::Entry<'a>>>;

fn copy<'a, Done, Failed>(reader: &mut Reader<'a>, writer: &mut Writer)
where
    Done: Decode<'a> + Encode + Strip,
    Failed: Decode<'a> + Encode + Strip,
{
    let reply: nfs3::Reply<Done, Failed> = decode_all(reader).expect("our replies are well-formed");
    match reply {
        nfs3::Reply::Done(mut done) => {
            done.strip();
            nfs3::Reply::<_, Failed>::Done(done).encode(writer);
        }
        nfs3::Reply::Failed(status, mut failed) => {
            failed.strip();
            nfs3::Reply::<Done, _>::Failed(status, failed).encode(writer);
        }
    }
}

impl Strip for Option<Attributes> {
    fn strip(&mut self) {
        *self = None;
    }
}

impl Strip for Wcc {
    fn strip(&mut self) {
        *self = Self::default();
    }
}

impl Strip for Made {
    fn strip(&mut self) {
        (self.object, self.attributes) = (None, None);
        self.directory.strip();
    }
}

impl Strip for rename::Done {
    fn strip(&mut self) {
        *self = Self::default();
    }
}

impl Strip for link::Done {
    fn strip(&mut self) {
        *self = Self::default();
    }
}

impl Strip for lookup::Done {
    fn strip(&mut self) {
        (self.attributes, self.directory) = (None, None);
    }
}

impl Strip for write::Done {
    fn strip(&mut self) {
        self.file.strip();
    }
}

impl Strip for commit::Done {
    fn strip(&mut self) {
        self.file.strip();
    }
}

impl Strip for fsinfo::Done {
    /// Sets the preferred sizes to zero, which the protocol permits.
    fn strip(&mut self) {
        self.attributes = None;
        (self.read_bytes_best, self.write_bytes_best, self.directory_bytes_best) = (0, 0, 0);
        (self.read_bytes_multiple, self.write_bytes_multiple) = (0, 0);
    }
}

impl Strip for NamesPlus<'_> {
    fn strip(&mut self) {
        self.attributes = None;
        for entry in &mut self.entries.0 {
            (entry.attributes, entry.object) = (None, None);
        }
    }
}

/// Implements [`Strip`] for structures whose only optional parts are attributes.
macro_rules! strip_attributes {
    ($($type:ty),*) => {$(
        impl Strip for $type {
            fn strip(&mut self) {
                self.attributes = None;
            }
        }
    )*};
}

strip_attributes!(access::Done, readlink::Done<'_>, read::Done, Names<'_>, fsstat::Done);
strip_attributes!(pathconf::Done);
