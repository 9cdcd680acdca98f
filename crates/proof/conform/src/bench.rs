//! The tools of a case: clients of the server, a directory of its own, and helpers.

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use leasehold_base::random::Random;
use leasehold_base::units::Xid;
use leasehold_base::xdr::Encode;
use leasehold_wire::nfs3::{SetAttributes, SetTime, Time, create, fsinfo, pathconf};
use leasehold_wire::rpc::{self, ReplyStatus};
use leasehold_wire::{mount, nfs2, nfs3};

use crate::case::{Listed, Stop, Verdict, ensure, equal};
use crate::client::{Client, Credential, Route, encoded, fresh_xid};
use crate::mount::Mount;
use crate::net::{Datagrams, Got, Source, Stream};
use crate::server::{ORDINARY_USER, Server};
use crate::sweep;
use crate::talk::{Carrier, Procedure, Talk};
use crate::v2::{self, V2};
use crate::v3::{self, V3};

/// A clock that does not move in this time has stopped.
const CLOCK_PATIENCE: Duration = Duration::from_secs(5);

/// The longest time for a server to serve again.
const RESTART_PATIENCE: Duration = Duration::from_secs(60);

/// The pause between two attempts to reach a server that restarts.
const RESTART_PAUSE: Duration = Duration::from_millis(50);

/// The time in which a server that ended may restart by itself.
const RETURN_PATIENCE: Duration = Duration::from_secs(3);

/// The state of the server after a failed case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Survival {
    /// It accepts connections.
    Serves,
    /// It ended, and serves again.
    Returned,
    /// It ended.
    Ended,
}

/// The tools of a case.
pub(crate) struct Bench<'s> {
    pub(crate) server: &'s Server,
    /// Calls version 3 as the user of the run.
    pub(crate) v3: V3,
    /// Calls version 2 as the user of the run.
    pub(crate) v2: V2,
    /// Fixed by the seed and the name of the case.
    pub(crate) random: Random,
    pub(crate) talk: Talk,
    name: String,
    own3: Option<nfs3::Handle>,
    own2: Option<nfs2::Handle>,
    advice: Vec<String>,
    /// True if the next further client calls the server under test itself.
    is_here_next: Cell<bool>,
}

impl<'s> Bench<'s> {
    pub(crate) fn new(server: &'s Server, listed: Listed) -> Self {
        let talk = Talk::new();
        let name = format!("{}.{}", listed.group.name, listed.case.name);
        // FNV-1a: every case has its own numbers, whichever cases run.
        let seed = name.bytes().fold(server.seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self {
            server,
            v3: server.v3(&server.me, &talk),
            v2: server.v2(&server.me, &talk),
            random: Random::from_seed(seed),
            talk,
            name,
            own3: None,
            own2: None,
            advice: Vec::new(),
            is_here_next: Cell::new(false),
        }
    }

    /// The case's own directory, mode 0755.
    pub(crate) fn dir(&mut self) -> Result<nfs3::Handle, Stop> {
        if let Some(own) = self.own3 {
            return Ok(own);
        }
        let place = self.place3()?;
        let own = self.v3.directory(place, &self.name)?;
        self.own3 = Some(own);
        Ok(own)
    }

    /// The directory of the run; looked up again if its handle has become invalid in a restart.
    fn place3(&mut self) -> Result<nfs3::Handle, Stop> {
        let place = self.server.place.version3.ok_or_else(|| Stop::skip("no version 3"))?;
        if !self.server.restarted.load(Ordering::Relaxed) || self.v3.getattr(place)?.is_done() {
            return Ok(place);
        }
        let root = self.mounter().mnt(&self.server.export)?.done()?.directory;
        self.v3.find(root, &self.server.place.name)
    }

    /// The handle of the case's own directory in version 2.
    pub(crate) fn dir2(&mut self) -> Result<nfs2::Handle, Stop> {
        if let Some(own) = self.own2 {
            return Ok(own);
        }
        let place = self.place2()?;
        if self.own3.is_some() {
            self.own2 = Some(self.v2.find(place, &self.name)?);
        } else {
            self.own2 = Some(self.v2.directory(place, &self.name)?);
            // Looks up the directory that the other version has created.
            if let Some(place) = self.server.place.version3 {
                self.own3 = Some(self.v3.find(place, &self.name)?);
            }
        }
        Ok(self.own2.expect("the directory was just found"))
    }

    /// The handle of the directory of the run in version 2.
    fn place2(&mut self) -> Result<nfs2::Handle, Stop> {
        let place = self.server.place.version2.ok_or_else(|| Stop::skip("no version 2"))?;
        if !self.server.restarted.load(Ordering::Relaxed) || self.v2.getattr(place)?.is_done() {
            return Ok(place);
        }
        let mounted = self.mounter().old_mnt(mount::VERSION_1, &self.server.export)?;
        self.v2.find(mounted.done()?, &self.server.place.name)
    }

    /// Removes the case's own directory.
    pub(crate) fn sweep(&mut self) -> Verdict {
        if self.own3.is_some() {
            // The case may have left its own client in any state.
            self.v3 = self.server.v3(&self.server.me, &self.talk);
            let place = self.place3()?;
            return sweep::sweep(&mut self.v3, place, self.name.as_bytes());
        }
        if self.own2.is_some() {
            self.v2 = self.server.v2(&self.server.me, &self.talk);
            let place = self.place2()?;
            return sweep::sweep(&mut self.v2, place, self.name.as_bytes());
        }
        Ok(())
    }

    /// The name of the case's own directory.
    pub(crate) fn dir_name(&self) -> &str {
        &self.name
    }

    /// The export's root.
    pub(crate) fn root(&self) -> Result<nfs3::Handle, Stop> {
        self.server.root3.ok_or_else(|| Stop::skip("no version 3"))
    }

    /// The export's root in version 2.
    pub(crate) fn root2(&self) -> Result<nfs2::Handle, Stop> {
        self.server.root2.ok_or_else(|| Stop::skip("no version 2"))
    }

    /// The results of FSINFO.
    pub(crate) fn info(&self) -> Result<fsinfo::Done, Stop> {
        self.server.info.ok_or_else(|| Stop::skip("FSINFO says nothing"))
    }

    /// The results of PATHCONF.
    pub(crate) fn limits(&self) -> Result<pathconf::Done, Stop> {
        self.server.limits.ok_or_else(|| Stop::skip("PATHCONF says nothing"))
    }

    /// Skips the case if the file system has no hard links.
    pub(crate) fn needs_links(&self) -> Verdict {
        match self.info()?.properties.links {
            true => Ok(()),
            false => Err(Stop::skip("FSINFO says that there are no hard links")),
        }
    }

    /// Skips the case if the file system has no symbolic links.
    pub(crate) fn needs_symlinks(&self) -> Verdict {
        match self.info()?.properties.symlinks {
            true => Ok(()),
            false => Err(Stop::skip("FSINFO says that there are no symbolic links")),
        }
    }

    /// Returns another client of version 3, with a connection of its own. If another server has the
    /// same files, such clients call that server and this one in turn.
    pub(crate) fn another(&self) -> V3 {
        self.another_as(&self.server.me)
    }

    /// Does the same for a client with another credential.
    pub(crate) fn another_as(&self, credential: &Credential) -> V3 {
        let elsewhere = self.server.also.filter(|_| !self.is_here_next.get());
        self.is_here_next.set(elsewhere.is_some());
        let here = self.server.route(Carrier::Tcp);
        let route = Route { address: elsewhere.unwrap_or(here.address), ..here };
        self.server.v3_over(route, credential, &self.talk)
    }

    /// Returns another client of version 3 of the server under test itself, with a connection of
    /// its own.
    pub(crate) fn another_here(&self) -> V3 {
        self.server.v3(&self.server.me, &self.talk)
    }

    /// Returns a client of version 3 with another credential.
    pub(crate) fn as_user(&self, credential: &Credential) -> V3 {
        self.server.v3(credential, &self.talk)
    }

    /// Returns a client of version 2 with another credential.
    pub(crate) fn as_user2(&self, credential: &Credential) -> V2 {
        self.server.v2(credential, &self.talk)
    }

    /// Returns the credential of one of several ordinary users; skips the case if the server trusts
    /// no credentials.
    pub(crate) fn user(&self, number: u32) -> Result<Credential, Stop> {
        if !self.server.believes {
            return Err(Stop::skip("the server does not trust the caller's credential"));
        }
        Ok(Credential::user(ORDINARY_USER + number, ORDINARY_USER + number))
    }

    /// Returns a directory that belongs to one of several ordinary users, and a client with that
    /// user's credential.
    pub(crate) fn users_dir(&mut self, number: u32) -> Result<(V3, nfs3::Handle), Stop> {
        let mut user = self.as_user(&self.user(number)?);
        let dir = self.dir()?;
        self.v3.setattr(dir, v3::mode(0o777))?.done()?;
        let own = user.directory(dir, format!("of user {number}"))?;
        Ok((user, own))
    }

    /// Returns a client of version 3 over UDP; skips the case if NFS is not served there.
    pub(crate) fn udp(&self) -> Result<V3, Stop> {
        Ok(self.server.v3_over(self.trusted_udp_route()?, &self.server.me, &self.talk))
    }

    /// Returns a client of version 2 over UDP; skips the case if NFS is not served there.
    pub(crate) fn udp2(&self) -> Result<V2, Stop> {
        self.root2()?;
        let route = self.trusted_udp_route()?;
        Ok(V2 { client: Client::new(route, self.server.me.clone(), &self.talk) })
    }

    /// Returns the route over UDP on which the server trusts the caller's credential.
    fn trusted_udp_route(&self) -> Result<Route, Stop> {
        self.needs_udp()?;
        let source = self.server.udp_source.ok_or_else(|| {
            Stop::skip("over UDP the server does not trust the caller's credential")
        })?;
        Ok(Route { source, ..self.server.route(Carrier::Udp) })
    }

    /// Returns the route to NFS over UDP; skips the case if NFS is not served there.
    pub(crate) fn udp_route(&self) -> Result<Route, Stop> {
        self.needs_udp()?;
        Ok(self.server.route(Carrier::Udp))
    }

    /// Calls NULL over UDP; skips the case if NFS is not served there.
    pub(crate) fn udp_null(&self) -> Verdict {
        let mut client = Client::new(self.udp_route()?, Credential::None, &self.talk);
        equal("NULL over UDP", client.received(self.null(), &())?, ReplyStatus::Success)
    }

    fn needs_udp(&self) -> Verdict {
        if self.server.udp { Ok(()) } else { Err(Stop::skip("NFS is not served over UDP")) }
    }

    /// A client of MOUNT.
    pub(crate) fn mounter(&self) -> Mount {
        self.server.mounter(&self.talk)
    }

    /// Returns a client of portmap; skips the case if portmap is not tested.
    pub(crate) fn portmap(&self) -> Result<Client, Stop> {
        let address = self.server.portmap.ok_or_else(|| {
            Stop::skip("the address names a port, so portmap is not tested; see --portmap-port")
        })?;
        let route = Route { address, ..self.server.route(Carrier::Tcp) };
        Ok(Client::new(route, self.server.me.clone(), &self.talk))
    }

    /// Opens a connection for arbitrary bytes.
    pub(crate) fn stream(&self) -> Result<Stream, Stop> {
        self.stream_from(self.server.source)
    }

    /// Opens a connection from a given port.
    pub(crate) fn stream_from(&self, source: Source) -> Result<Stream, Stop> {
        connect(self.server.nfs, source, &self.talk)
    }

    /// Opens a socket for arbitrary datagrams.
    pub(crate) fn datagrams(&self) -> Result<Datagrams, Stop> {
        self.needs_udp()?;
        Datagrams::open(self.server.nfs, self.server.source, &self.talk)
            .map_err(|error| Stop::fail(format!("no socket for datagrams: {error}")))
    }

    /// The NULL procedure of version 3 or, if version 3 is missing, of version 2.
    pub(crate) fn null(&self) -> Procedure {
        let number = rpc::null::NUMBER;
        match self.server.root3 {
            Some(_) => v3::procedure(number),
            None => v2::procedure(number),
        }
    }

    /// Encodes a call with the credential of the run.
    pub(crate) fn message(&self, procedure: Procedure, args: &impl Encode) -> (Xid, Vec<u8>) {
        let xid = fresh_xid();
        (xid, self.v3.client.message(xid, procedure, args))
    }

    /// Fails the case unless the server still answers on a new connection.
    pub(crate) fn still_serves(&self) -> Verdict {
        let mut client = self.another_here().client;
        let status = client.received(self.null(), &())?;
        ensure!(status == ReplyStatus::Success, "afterwards NULL is answered {status:?}");
        Ok(())
    }

    /// Records advice unless the server follows it; does not fail the case.
    pub(crate) fn advise(&mut self, follows: bool, advice: impl Into<String>) {
        let advice = advice.into();
        if !follows && !self.advice.contains(&advice) {
            self.advice.push(advice);
        }
    }

    /// Returns all advice that the server did not follow.
    pub(crate) fn advice(&self) -> String {
        self.advice.join("; ")
    }

    /// Random bytes.
    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.random.next_u64().to_be_bytes());
        }
        bytes.truncate(length);
        bytes
    }

    /// Waits until changes at the server get a later time than this one.
    pub(crate) fn wait_past(&mut self, time: Time) -> Verdict {
        let dir = self.dir()?;
        let how = create::How::Unchecked(SetAttributes::default());
        let made = self.v3.create(dir, ".clock", how)?;
        let clock = self.v3.made(made, dir, ".clock")?;
        let end = Instant::now() + CLOCK_PATIENCE;
        let now = SetAttributes { modified: SetTime::Now, ..SetAttributes::default() };
        while after(time) >= after(self.v3.attributes(clock)?.changed) {
            ensure!(Instant::now() < end, "the server's clock does not move");
            self.v3.setattr(clock, now)?.done()?;
        }
        self.v3.remove(dir, ".clock")?.done()?;
        Ok(())
    }

    /// Returns the case's own directory on the server's disk; skips the case if the disk is not
    /// here.
    pub(crate) fn back(&mut self) -> Result<PathBuf, Stop> {
        let back = self.server.back_dir.clone().ok_or_else(|| {
            Stop::skip("the exported directory is not known to be on this machine; see --back-dir")
        })?;
        self.dir()?;
        let own = back.join(&self.server.place.name).join(&self.name);
        ensure!(own.is_dir(), "{} does not exist: is --back-dir the export?", own.display());
        Ok(own)
    }

    /// Restarts the server and waits until it serves; skips the case without a restart command.
    pub(crate) fn restart(&mut self) -> Verdict {
        let restart = self
            .server
            .restart
            .as_ref()
            .ok_or_else(|| Stop::skip("no way to restart the server; see --restart-command"))?;
        self.v3.client.disconnect();
        self.v2.client.disconnect();
        self.server.restarted.store(true, Ordering::Relaxed);
        restart().map_err(|why| Stop::skip(format!("the server cannot be restarted: {why}")))?;
        let back = self.comes_back(RESTART_PATIENCE);
        ensure!(back, "the server does not serve again");
        Ok(())
    }

    /// Returns true if the server serves within a time.
    fn comes_back(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        while self.still_serves().is_err() {
            if Instant::now() >= end {
                return false;
            }
            std::thread::sleep(RESTART_PAUSE);
        }
        true
    }

    /// Returns the state of the server after a failed case; restarts the server if necessary.
    pub(crate) fn survival(&mut self) -> Survival {
        if !self.server.is_gone() {
            return Survival::Serves;
        }
        // Several cases may detect the end at the same time.
        let _one = self.server.revival.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.server.is_gone() || (self.server.restart.is_some() && self.restart().is_ok()) {
            return Survival::Returned;
        }
        if self.comes_back(RETURN_PATIENCE) {
            return Survival::Returned;
        }
        self.server.ended.store(true, Ordering::Relaxed);
        Survival::Ended
    }

    /// Skips the case if the server cannot be restarted, before it has done its work.
    pub(crate) fn needs_restart(&self) -> Verdict {
        match self.server.restart {
            Some(_) => Ok(()),
            None => Err(Stop::skip("no way to restart the server; see --restart-command")),
        }
    }
}

/// Returns a time as a value that can be ordered.
pub(crate) const fn after(time: Time) -> (u32, u32) {
    (time.seconds, time.nanoseconds)
}

fn connect(address: SocketAddr, source: Source, talk: &Talk) -> Result<Stream, Stop> {
    Stream::connect(address, source, talk)
        .map_err(|error| Stop::fail(format!("{address} accepts no connection: {error}")))
}

/// Returns the header of a call with any words in it, and without arguments.
pub(crate) fn call_head(xid: Xid, words: [u32; 5], credential: &Credential) -> Vec<u8> {
    let (flavor, body) = credential.encoded();
    let mut head = xid.0.to_be_bytes().to_vec();
    for word in words {
        head.extend_from_slice(&word.to_be_bytes());
    }
    head.extend(encoded(&rpc::OpaqueAuth { flavor, body: &body }));
    head.extend(encoded(&rpc::OpaqueAuth::NONE));
    head
}

/// Returns the result of a raw exchange on a connection.
pub(crate) fn replied(
    stream: &mut Stream,
    message: &[u8],
    patience: Duration,
) -> Result<Got, Stop> {
    match stream.send(message) {
        Ok(()) => Ok(stream.receive(patience)),
        // The server may have closed the connection already.
        Err(_) => Ok(Got::Closed),
    }
}
