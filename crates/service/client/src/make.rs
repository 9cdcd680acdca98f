//! Creation of objects.

use leasehold_base::attributes::{Device, Mode, SetAttributes, SetTime};
use leasehold_core::cache::{Event, Source};
use leasehold_core::leases::Kind;
use leasehold_fs::Access;
use leasehold_session::{Credential, Error};
use leasehold_wire::nfs3::{self, Made, Reply, Status, Wcc, create, mknod};

use crate::client::{Change, Client};
use crate::convert;
use crate::names::{GONE_FOR, is_gone};
use crate::nodes::{Found, NodeId, Rights, Seen};
use crate::open::{OpenHow, OpenId};
use crate::piggyback::{FIRST, Piggyback, SECOND};

/// A special file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// A block device.
    BlockDevice(Device),
    /// A character device.
    CharacterDevice(Device),
    /// A socket.
    Socket,
    /// A named pipe.
    Fifo,
}

impl Client {
    /// Creates a regular file and opens it. With `exclusive`, fails if the name exists, even if
    /// calls or replies are lost and retransmitted. The mode does not limit the access of the
    /// returned open file.
    ///
    /// # Errors
    /// As [`Client::getattr`].
    pub async fn create(
        &self,
        who: &Credential,
        (directory, name): (NodeId, &[u8]),
        (mode, exclusive): (Mode, bool),
        how: OpenHow,
    ) -> Result<(Found, OpenId), Error> {
        let found = if exclusive {
            self.create_exclusive(who, (directory, name), mode).await?
        } else {
            let attributes = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
            let way = create::How::Unchecked(convert::set_attributes(&attributes));
            self.create_by(who, (directory, name), way).await?
        };
        self.know_access(who, &found);
        Ok((found, self.opened(who, found.node, how)))
    }

    /// Records the access of a caller that has just created a file and owns it with permission to
    /// read and write, which saves an ACCESS call. Records nothing if the server has assigned
    /// another owner; the client then sends ACCESS.
    fn know_access(&self, who: &Credential, found: &Found) {
        let Found { node, attributes, .. } = found;
        let mode = attributes.mode.bits();
        if attributes.uid != who.uid() || mode & 0o600 != 0o600 {
            return;
        }
        let asked =
            Access { read: true, modify: true, extend: true, execute: true, ..Access::default() };
        let granted = Access { execute: mode & 0o100 != 0, ..asked };
        self.with(|state, now, _| {
            if let Some(node) = state.nodes.get_mut(*node) {
                node.set_access(now, who, (asked, granted), Rights::of(attributes));
            }
        });
    }

    async fn create_exclusive(
        &self,
        who: &Credential,
        place: (NodeId, &[u8]),
        mode: Mode,
    ) -> Result<Found, Error> {
        let verifier = self.with(|state, _, _| state.random.next_u64()).to_be_bytes();
        let attributes = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
        let found = match self.create_by(who, place, create::How::Exclusive(verifier)).await {
            Err(Error::Failed(Status::NotSupported)) => {
                let way = create::How::Guarded(convert::set_attributes(&attributes));
                return self.create_by(who, place, way).await;
            }
            found => found?,
        };
        // The server may store the verifier of an exclusive CREATE in the times and the mode (RFC
        // 1813 3.3.8), so the client sets all these attributes afterwards.
        let (accessed, modified) = (SetTime::Now, SetTime::Now);
        let attributes = SetAttributes { accessed, modified, ..attributes };
        match self.setattr(who, found.node, &attributes).await {
            Ok(Seen { attributes, trusted_for }) => Ok(Found { attributes, trusted_for, ..found }),
            Err(error) if is_gone(&error) => Ok(Found { trusted_for: GONE_FOR, ..found }),
            Err(error) => {
                self.forget(found.node, 1);
                Err(error)
            }
        }
    }

    async fn create_by(
        &self,
        who: &Credential,
        (directory, name): (NodeId, &[u8]),
        how: create::How,
    ) -> Result<Found, Error> {
        let handle = self.handle(directory)?;
        let change = self.begin_change(directory);
        let piggyback = self.piggyback(&[(SECOND, Kind::Write)], None);
        // With UNCHECKED, the file may have existed before, and other clients may have it open. The
        // client then does not treat the file as its own new file.
        let is_new = !matches!(how, create::How::Unchecked(_));
        let reply = piggyback.nfs.create(who, &handle, name, how).await?;
        let found = self.made(who, (directory, name), reply, (change, piggyback)).await?;
        if is_new {
            self.with(|state, now, _| state.note_made(now, found.node));
        }
        Ok(found)
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// As [`Client::getattr`].
    pub async fn mkdir(
        &self,
        who: &Credential,
        (directory, name): (NodeId, &[u8]),
        mode: Mode,
    ) -> Result<Found, Error> {
        let handle = self.handle(directory)?;
        let attributes = of_mode(mode);
        let change = self.begin_change(directory);
        let piggyback = self.ride_to_make_other();
        let reply = piggyback.nfs.mkdir(who, &handle, name, &attributes).await?;
        self.made(who, (directory, name), reply, (change, piggyback)).await
    }

    /// Creates a symbolic link.
    ///
    /// # Errors
    /// As [`Client::getattr`].
    pub async fn symlink(
        &self,
        who: &Credential,
        (directory, name): (NodeId, &[u8]),
        target: &[u8],
    ) -> Result<Found, Error> {
        let handle = self.handle(directory)?;
        let attributes = of_mode(Mode::from_bits(0o777));
        let change = self.begin_change(directory);
        let piggyback = self.ride_to_make_other();
        let reply = piggyback.nfs.symlink(who, &handle, name, (target, &attributes)).await?;
        self.made(who, (directory, name), reply, (change, piggyback)).await
    }

    /// Creates a special file; version 2 of the protocol has none.
    ///
    /// # Errors
    /// As [`Client::getattr`].
    pub async fn mknod(
        &self,
        who: &Credential,
        (directory, name): (NodeId, &[u8]),
        mode: Mode,
        special: Special,
    ) -> Result<Found, Error> {
        let handle = self.handle(directory)?;
        let attributes = of_mode(mode);
        let device = |device: Device| mknod::DeviceData {
            attributes,
            device: nfs3::Device { major: device.major, minor: device.minor },
        };
        let node = match special {
            Special::BlockDevice(number) => mknod::Node::BlockDevice(device(number)),
            Special::CharacterDevice(number) => mknod::Node::CharacterDevice(device(number)),
            Special::Socket => mknod::Node::Socket(attributes),
            Special::Fifo => mknod::Node::Fifo(attributes),
        };
        let change = self.begin_change(directory);
        let piggyback = self.ride_to_make_other();
        let reply = piggyback.nfs.mknod(who, &handle, name, node).await?;
        self.made(who, (directory, name), reply, (change, piggyback)).await
    }

    /// Prepares a call that creates an object other than a regular file. The call requests a lease
    /// on the object if the server leases other objects than regular files.
    fn ride_to_make_other(&self) -> Piggyback {
        let asks: &[_] = if self.leases_names() { &[(SECOND, Kind::Read)] } else { &[] };
        self.piggyback(asks, None)
    }

    /// Passes a new object to the cache. If the reply lacks the handle or the attributes, requests
    /// them from the server.
    async fn made(
        &self,
        who: &Credential,
        (directory, name): (NodeId, &[u8]),
        reply: Reply<Made, Wcc>,
        (change, piggyback): (Change, Piggyback),
    ) -> Result<Found, Error> {
        let made = match reply {
            Reply::Done(made) => made,
            Reply::Failed(status, wcc) => {
                change.finish(&wcc, (&piggyback, FIRST));
                self.unname(directory, name);
                return Err(self.failed(directory, status));
            }
        };
        let named = change.finish(&made.directory, (&piggyback, FIRST));
        self.note_searched(who, directory);
        let Some(object) = &made.object else {
            self.unname(directory, name);
            return self.ask_lookup(who, directory, name).await;
        };
        let now = self.ask();
        let told = (Source::Asked, now, named);
        let node = self.learn((directory, name), (object, made.attributes.as_ref()), told);
        if let Some(grant) = piggyback.grant(SECOND) {
            self.take_grant((who, node), grant, (now, made.attributes.as_ref()));
        }
        if made.attributes.is_some_and(|made| made.file_type == nfs3::FileType::Directory) {
            self.step(Event::Empty { directory: node.key() });
        }
        self.found_made(who, node, (directory, name), made.attributes.as_ref()).await
    }
}

fn of_mode(mode: Mode) -> nfs3::SetAttributes {
    convert::set_attributes(&SetAttributes { mode: Some(mode), ..SetAttributes::default() })
}
