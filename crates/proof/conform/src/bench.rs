//! What a case works with: clients of the server, a directory of its own, and helpers.

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

/// A clock that does not move in this time stands still.
const CLOCK_PATIENCE: Duration = Duration::from_secs(5);

/// The longest that a server takes to come back.
const RESTART_PATIENCE: Duration = Duration::from_secs(60);

/// The pause between two attempts to reach a server that restarts.
const RESTART_PAUSE: Duration = Duration::from_millis(50);

/// The time in which a server that ended may come back by itself.
const RETURN_PATIENCE: Duration = Duration::from_secs(3);

/// What has become of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Survival {
    /// It takes connections.
    Serves,
    /// It ended, and serves again.
    Returned,
    /// It ended.
    Ended,
}

/// What a case works with.
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
    /// Whether the next further client calls the server under test itself.
    is_here_next: Cell<bool>,
}

impl<'s> Bench<'s> {
    pub(crate) fn new(server: &'s Server, listed: Listed) -> Self {
        let talk = Talk::new();
        let name = format!("{}.{}", listed.group.name, listed.case.name);
        // FNV-1a: every case has numbers of its own, whichever cases run.
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

    /// The directory of the run; found anew where its handle has died in a restart.
    fn place3(&mut self) -> Result<nfs3::Handle, Stop> {
        let place = self.server.place.version3.ok_or_else(|| Stop::skip("no version 3"))?;
        if !self.server.restarted.load(Ordering::Relaxed) || self.v3.getattr(place)?.is_done() {
            return Ok(place);
        }
        let root = self.mounter().mnt(&self.server.export)?.done()?.directory;
        self.v3.find(root, &self.server.place.name)
    }

    /// The case's own directory, as version 2 has it.
    pub(crate) fn dir2(&mut self) -> Result<nfs2::Handle, Stop> {
        if let Some(own) = self.own2 {
            return Ok(own);
        }
        let place = self.place2()?;
        if self.own3.is_some() {
            self.own2 = Some(self.v2.find(place, &self.name)?);
        } else {
            self.own2 = Some(self.v2.directory(place, &self.name)?);
            // The other version finds what this one has made.
            if let Some(place) = self.server.place.version3 {
                self.own3 = Some(self.v3.find(place, &self.name)?);
            }
        }
        Ok(self.own2.expect("it was just found"))
    }

    /// The directory of the run, as version 2 has it.
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
            // Whatever state the case has left its own client in.
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

    /// The export's root, as version 2 has it.
    pub(crate) fn root2(&self) -> Result<nfs2::Handle, Stop> {
        self.server.root2.ok_or_else(|| Stop::skip("no version 2"))
    }

    /// What FSINFO says.
    pub(crate) fn info(&self) -> Result<fsinfo::Done, Stop> {
        self.server.info.ok_or_else(|| Stop::skip("FSINFO says nothing"))
    }

    /// What PATHCONF says.
    pub(crate) fn limits(&self) -> Result<pathconf::Done, Stop> {
        self.server.limits.ok_or_else(|| Stop::skip("PATHCONF says nothing"))
    }

    /// Skips the case where the file system has no hard links.
    pub(crate) fn needs_links(&self) -> Verdict {
        match self.info()?.properties.links {
            true => Ok(()),
            false => Err(Stop::skip("FSINFO says that there are no hard links")),
        }
    }

    /// Skips the case where the file system has no symbolic links.
    pub(crate) fn needs_symlinks(&self) -> Verdict {
        match self.info()?.properties.symlinks {
            true => Ok(()),
            false => Err(Stop::skip("FSINFO says that there are no symbolic links")),
        }
    }

    /// Another client of version 3, with a connection of its own: where another server has the same
    /// files it calls that one and this one by turns.
    pub(crate) fn another(&self) -> V3 {
        self.another_as(&self.server.me)
    }

    /// The same, who calls as somebody else.
    pub(crate) fn another_as(&self, credential: &Credential) -> V3 {
        let elsewhere = self.server.also.filter(|_| !self.is_here_next.get());
        self.is_here_next.set(elsewhere.is_some());
        let here = self.server.route(Carrier::Tcp);
        let route = Route { address: elsewhere.unwrap_or(here.address), ..here };
        self.server.v3_over(route, credential, &self.talk)
    }

    /// Another client of version 3 of the server under test itself, with a connection of its own.
    pub(crate) fn another_here(&self) -> V3 {
        self.server.v3(&self.server.me, &self.talk)
    }

    /// A client of version 3 that calls as somebody else.
    pub(crate) fn as_user(&self, credential: &Credential) -> V3 {
        self.server.v3(credential, &self.talk)
    }

    /// A client of version 2 that calls as somebody else.
    pub(crate) fn as_user2(&self, credential: &Credential) -> V2 {
        self.server.v2(credential, &self.talk)
    }

    /// One of several ordinary users; skips the case where the server believes nobody's word.
    pub(crate) fn user(&self, number: u32) -> Result<Credential, Stop> {
        if !self.server.believes {
            return Err(Stop::skip("the server does not take the caller's word for who it is"));
        }
        Ok(Credential::user(ORDINARY_USER + number, ORDINARY_USER + number))
    }

    /// A directory that belongs to one of several ordinary users, and a client that calls as that
    /// user.
    pub(crate) fn users_dir(&mut self, number: u32) -> Result<(V3, nfs3::Handle), Stop> {
        let mut user = self.as_user(&self.user(number)?);
        let dir = self.dir()?;
        self.v3.setattr(dir, v3::mode(0o777))?.done()?;
        let own = user.directory(dir, format!("of user {number}"))?;
        Ok((user, own))
    }

    /// A client of version 3 over UDP; skips the case where NFS is not served there.
    pub(crate) fn udp(&self) -> Result<V3, Stop> {
        Ok(self.server.v3_over(self.trusted_udp_route()?, &self.server.me, &self.talk))
    }

    /// A client of version 2 over UDP; skips the case where NFS is not served there.
    pub(crate) fn udp2(&self) -> Result<V2, Stop> {
        self.root2()?;
        let route = self.trusted_udp_route()?;
        Ok(V2 { client: Client::new(route, self.server.me.clone(), &self.talk) })
    }

    /// The way over UDP on which the server takes the caller's word.
    fn trusted_udp_route(&self) -> Result<Route, Stop> {
        self.needs_udp()?;
        let source = self.server.udp_source.ok_or_else(|| {
            Stop::skip("over UDP the server does not take the caller's word for who it is")
        })?;
        Ok(Route { source, ..self.server.route(Carrier::Udp) })
    }

    /// The way to NFS over UDP; skips the case where it is not served there.
    pub(crate) fn udp_route(&self) -> Result<Route, Stop> {
        self.needs_udp()?;
        Ok(self.server.route(Carrier::Udp))
    }

    /// Calls NULL over UDP; skips the case where NFS is not served there.
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

    /// A client of portmap; skips the case where portmap is not part of what is tested.
    pub(crate) fn portmap(&self) -> Result<Client, Stop> {
        let address = self.server.portmap.ok_or_else(|| {
            Stop::skip("the address names a port, so portmap is not tested; see --portmap-port")
        })?;
        let route = Route { address, ..self.server.route(Carrier::Tcp) };
        Ok(Client::new(route, self.server.me.clone(), &self.talk))
    }

    /// A connection for whatever bytes the case likes.
    pub(crate) fn stream(&self) -> Result<Stream, Stop> {
        self.stream_from(self.server.source)
    }

    /// A connection from a port.
    pub(crate) fn stream_from(&self, source: Source) -> Result<Stream, Stop> {
        connect(self.server.nfs, source, &self.talk)
    }

    /// A socket for whatever datagrams the case likes.
    pub(crate) fn datagrams(&self) -> Result<Datagrams, Stop> {
        self.needs_udp()?;
        Datagrams::open(self.server.nfs, self.server.source, &self.talk)
            .map_err(|error| Stop::fail(format!("no socket for datagrams: {error}")))
    }

    /// The NULL call of version 3 or, where there is none, of version 2.
    pub(crate) fn null(&self) -> Procedure {
        let number = rpc::null::NUMBER;
        match self.server.root3 {
            Some(_) => v3::procedure(number),
            None => v2::procedure(number),
        }
    }

    /// A call as bytes, with the credential of the run.
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

    /// Notes what is advisable, and does not fail the case.
    pub(crate) fn advise(&mut self, follows: bool, advice: impl Into<String>) {
        let advice = advice.into();
        if !follows && !self.advice.contains(&advice) {
            self.advice.push(advice);
        }
    }

    /// All advice that was not followed.
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

    /// Waits until what the server changes gets a later time than this one.
    pub(crate) fn wait_past(&mut self, time: Time) -> Verdict {
        let dir = self.dir()?;
        let how = create::How::Unchecked(SetAttributes::default());
        let made = self.v3.create(dir, ".clock", how)?;
        let clock = self.v3.made(made, dir, ".clock")?;
        let end = Instant::now() + CLOCK_PATIENCE;
        let now = SetAttributes { modified: SetTime::Now, ..SetAttributes::default() };
        while after(time) >= after(self.v3.attributes(clock)?.changed) {
            ensure!(Instant::now() < end, "the server's clock stands still");
            self.v3.setattr(clock, now)?.done()?;
        }
        self.v3.remove(dir, ".clock")?.done()?;
        Ok(())
    }

    /// The case's own directory on the server's disk; skips the case where that is not here.
    pub(crate) fn back(&mut self) -> Result<PathBuf, Stop> {
        let back = self.server.back_dir.clone().ok_or_else(|| {
            Stop::skip("the exported directory is not known to be on this machine; see --back-dir")
        })?;
        self.dir()?;
        let own = back.join(&self.server.place.name).join(&self.name);
        ensure!(own.is_dir(), "{} is not there: is --back-dir the export?", own.display());
        Ok(own)
    }

    /// Restarts the server and waits until it serves; skips the case where there is no way to.
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
        ensure!(back, "the server does not come back");
        Ok(())
    }

    /// Whether the server serves within a time.
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

    /// What has become of the server after a case that failed; it is started again if need be.
    pub(crate) fn survival(&mut self) -> Survival {
        if !self.server.is_gone() {
            return Survival::Serves;
        }
        // Several cases may notice at the same time.
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

    /// Skips the case where the server cannot be restarted, before it has done its work.
    pub(crate) fn needs_restart(&self) -> Verdict {
        match self.server.restart {
            Some(_) => Ok(()),
            None => Err(Stop::skip("no way to restart the server; see --restart-command")),
        }
    }
}

/// A time in the order of times.
pub(crate) const fn after(time: Time) -> (u32, u32) {
    (time.seconds, time.nanoseconds)
}

fn connect(address: SocketAddr, source: Source, talk: &Talk) -> Result<Stream, Stop> {
    Stream::connect(address, source, talk)
        .map_err(|error| Stop::fail(format!("{address} takes no connection: {error}")))
}

/// The head of a call with any words in it, and no arguments.
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

/// What a raw exchange on a connection gave.
pub(crate) fn replied(
    stream: &mut Stream,
    message: &[u8],
    patience: Duration,
) -> Result<Got, Stop> {
    match stream.send(message) {
        Ok(()) => Ok(stream.receive(patience)),
        // A server may well have closed the connection by now.
        Err(_) => Ok(Got::Closed),
    }
}
