//! The checks of a worker after an outage: all guaranteed state must be present.
//!
//! The worker checks names and attributes, with regard to the one operation that was requested
//! without a reply. Then it continues like a reconnecting client: it commits its writes, and if the
//! verifier is unchanged, that data must not be lost. It retransmits the operation without a reply,
//! and rewrites data that may be lost.

use std::collections::BTreeMap;

use leasehold_base::units::Cookie;
use leasehold_wire::nfs3::write::Stability;
use leasehold_wire::nfs3::{
    Attributes, DirectoryArgs, FileType, Handle, Name, Reply, Status, create, getattr, lookup,
    read, readdirplus, readlink,
};

use super::op::{Key, Op, Spot};
use super::tree::{COMMON, Object};
use super::worker::{Fault, Stop, Worker};
use crate::Site;
use crate::nfs::{Lost, decoded};

/// The state of the operation in flight: true if it was done.
struct InFlight {
    op: Op,
    message: Vec<u8>,
    /// The objects that the operation changes.
    touched: Vec<Key>,
    is_done: bool,
}

impl InFlight {
    /// Returns true if the operation removed an object's last name.
    fn removed(&self, key: Key, worker: &Worker) -> bool {
        self.is_done && self.op.removes(key, worker)
    }
}

impl Worker {
    /// Checks all state, and repairs the effects of an outage that clients must repair. An error
    /// means that the server has ended.
    pub(crate) fn check(&mut self) -> Result<Vec<Fault>, Lost> {
        let mut faults = Vec::new();
        let in_flight = self.in_flight.take();
        let mut in_flight = in_flight.map(|(op, message)| {
            let touched = self.tree.touched(&op);
            InFlight { op, message, touched, is_done: false }
        });
        if let Some(InFlight { op, .. }) = &in_flight {
            self.note(&format!("in flight: {op:?}"));
        }
        self.check_names(in_flight.as_mut(), &mut faults)?;
        self.check_attributes(in_flight.as_ref(), &mut faults)?;
        if faults.is_empty() {
            self.commit_pending(in_flight.as_ref(), &mut faults)?;
            self.check_contents(in_flight.as_ref(), &mut faults)?;
        }
        if !faults.is_empty() {
            // Further checks would report the same fault again.
            return Ok(faults);
        }
        if let Some(in_flight) = in_flight {
            self.repeat(in_flight, &mut faults)?;
        }
        self.check_exclusive(&mut faults)?;
        if self.site.file_system.forgets_removed() {
            self.check_gone(&mut faults)?;
        }
        if faults.is_empty() {
            self.write_again(&mut faults)?;
        }
        Ok(faults)
    }

    /// Commits uncommitted data. If the verifier equals the verifier of the writes, they are stable
    /// now.
    fn commit_pending(
        &mut self,
        in_flight: Option<&InFlight>,
        faults: &mut Vec<Fault>,
    ) -> Result<(), Lost> {
        let is_pending = |object: &Object| {
            object.content.as_ref().is_some_and(|content| !content.pending().is_empty())
        };
        let mut files: Vec<Key> = self.tree.objects.keys().copied().collect();
        files.retain(|&key| is_pending(self.tree.object(key)));
        // The operation in flight may have truncated or removed the file.
        files.retain(|key| in_flight.is_none_or(|in_flight| !in_flight.touched.contains(key)));
        for file in files {
            self.again(&Op::Commit { file, blocks: 0..0 }, faults)?;
        }
        Ok(())
    }

    /// Performs an operation that cannot fail on a correct server.
    fn again(&mut self, op: &Op, faults: &mut Vec<Fault>) -> Result<(), Lost> {
        match self.perform(op) {
            Ok(()) => Ok(()),
            Err(Stop::Lost) => Err(Lost),
            Err(Stop::Broken(status)) => {
                faults.push(format!("{op:?} is answered {status:?}"));
                Ok(())
            }
            Err(Stop::Fault(fault)) => {
                faults.push(fault);
                Ok(())
            }
        }
    }

    /// Checks that every directory has exactly the expected names.
    fn check_names(
        &mut self,
        mut in_flight: Option<&mut InFlight>,
        faults: &mut Vec<Fault>,
    ) -> Result<(), Lost> {
        let mut found = BTreeMap::new();
        for (key, object) in self.tree.objects.clone() {
            if object.file_type != FileType::Directory {
                continue;
            }
            let may_be_gone =
                in_flight.as_ref().is_some_and(|in_flight| in_flight.op.removes(key, self));
            match self.list(object.handle)? {
                Ok(names) => found.extend(
                    names.into_iter().map(|(name, handle)| (Spot { directory: key, name }, handle)),
                ),
                Err(Status::Stale) if may_be_gone => {}
                Err(status) => faults.push(format!("{key:?} is listed with {status:?}")),
            }
        }
        let mine = format!("w{}-", self.number);
        found.retain(|spot, _| spot.directory != COMMON || spot.name.starts_with(&mine));
        let mut wanted: BTreeMap<Spot, Handle> = self
            .tree
            .names
            .iter()
            .map(|(spot, key)| (spot.clone(), self.tree.handle(*key)))
            .collect();
        if let Some(in_flight) = &mut in_flight {
            in_flight.is_done = self.judge(&in_flight.op, &found, faults);
            for spot in in_flight.op.spots() {
                found.remove(spot);
                wanted.remove(spot);
            }
        }
        for (spot, handle) in &wanted {
            match found.get(spot) {
                Some(other) if other == handle => {}
                Some(_) => faults.push(format!("{spot:?} has become another object")),
                None => faults.push(format!("{spot:?} is lost")),
            }
        }
        let unwanted = found.keys().filter(|spot| !wanted.contains_key(spot));
        faults.extend(unwanted.map(|spot| format!("{spot:?} is there again")));
        Ok(())
    }

    /// Determines from the changed names if the operation in flight was done: completely, or not at
    /// all.
    fn judge(&self, op: &Op, found: &BTreeMap<Spot, Handle>, faults: &mut Vec<Fault>) -> bool {
        let before = |spot: &Spot| self.tree.names.get(spot).map(|key| self.tree.handle(*key));
        let now = |spot: &Spot| found.get(spot).copied();
        match op {
            Op::Create { spot, .. }
            | Op::Mkdir { spot, .. }
            | Op::Symlink { spot, .. }
            | Op::Fifo { spot } => now(spot).is_some(),
            Op::Link { object, spot } => {
                if now(spot).is_some_and(|found| found != self.tree.handle(*object)) {
                    faults.push(format!("{op:?} was done to another object"));
                }
                now(spot).is_some()
            }
            Op::Remove { spot } | Op::Rmdir { spot } => {
                if now(spot).is_some_and(|found| Some(found) != before(spot)) {
                    faults.push(format!("{op:?} left another object"));
                }
                now(spot).is_none()
            }
            Op::Rename { from, to } => {
                let moved = before(from);
                let is_done = now(from).is_none() && now(to) == moved;
                let is_undone = now(from) == moved && now(to) == before(to);
                if !is_done && !is_undone {
                    let (old, new) = (now(from), now(to));
                    faults.push(format!("{op:?} was done by half: {old:?}, {new:?}"));
                }
                is_done
            }
            Op::Setattr { .. } | Op::Write { .. } | Op::Commit { .. } | Op::Getattr { .. } => false,
        }
    }

    /// Checks the attributes of every object through its original handle.
    fn check_attributes(
        &mut self,
        in_flight: Option<&InFlight>,
        faults: &mut Vec<Fault>,
    ) -> Result<(), Lost> {
        for (key, object) in self.tree.objects.clone() {
            let is_gone = in_flight.is_some_and(|in_flight| in_flight.removed(key, self));
            match self.getattr(object.handle)? {
                Ok(_) if is_gone => faults.push(format!("{key:?} has no name and a handle")),
                Ok(found) => {
                    let is_touched =
                        in_flight.is_some_and(|in_flight| in_flight.touched.contains(&key));
                    let wrong = wrong_attributes(&self.site, &object, &found, is_touched);
                    faults.extend(wrong.into_iter().map(|fault| format!("{key:?}: {fault}")));
                }
                Err(Status::Stale) if is_gone => {}
                Err(status) => faults.push(format!("the handle of {key:?}: {status:?}")),
            }
        }
        Ok(())
    }

    /// Checks the contents of files and symbolic links.
    fn check_contents(
        &mut self,
        in_flight: Option<&InFlight>,
        faults: &mut Vec<Fault>,
    ) -> Result<(), Lost> {
        for (key, object) in self.tree.objects.clone() {
            if in_flight.is_some_and(|in_flight| in_flight.removed(key, self)) {
                continue;
            }
            if let Some(content) = &object.content {
                let size = self.getattr(object.handle)?.map_or(0, |found| found.size);
                let (offset, count) = content.place(&(0..content.capacity()));
                match self.read(object.handle, offset, count)? {
                    Ok(data) => {
                        let found = content.faults(size, &data);
                        faults.extend(found.into_iter().map(|fault| format!("{key:?}: {fault}")));
                    }
                    Err(status) => faults.push(format!("{key:?} is read with {status:?}")),
                }
            }
            if let Some(target) = &object.target {
                let args = readlink::Args { symlink: object.handle };
                let results = self.client().results(readlink::NUMBER, &args)?;
                let reply: readlink::Reply<'_> = decoded(&results);
                let is_right =
                    matches!(&reply, Reply::Done(done) if done.target.0 == target.as_bytes());
                if !is_right {
                    faults.push(format!("{key:?} says {reply:?}, not {target}"));
                }
            }
        }
        Ok(())
    }

    /// Retransmits the operation in flight with the same message.
    fn repeat(&mut self, in_flight: InFlight, faults: &mut Vec<Fault>) -> Result<(), Lost> {
        let InFlight { op, message, is_done, .. } = in_flight;
        let mut results = self.client().exchange(&message)?;
        while crate::nfs::is_jukebox(&results) {
            let (procedure, args) = op.call(&self.tree);
            results = self.client().results(procedure, &args)?;
        }
        match op.outcome(&results) {
            Ok(done) => {
                self.note(&format!("again: {op:?}"));
                if op.parts(&done).1.is_some() {
                    faults.push(format!("{op:?} is done in part, and all are there"));
                }
                self.tree.settle(&op, &done);
            }
            Err(status) if is_done && op.if_done_already() == Some(status) => {
                self.note(&format!("was done: {op:?}"));
                return self.adopt(&op, faults);
            }
            Err(status) => {
                let past = if is_done { "was done, and" } else { "was not done, and" };
                faults.push(format!("{op:?} {past} is answered {status:?} when asked again"));
            }
        }
        Ok(())
    }

    /// Adopts the effects of an operation whose reply was lost permanently.
    pub(crate) fn adopt(&mut self, op: &Op, faults: &mut Vec<Fault>) -> Result<(), Lost> {
        let mut done = super::op::Done::default();
        let makes = matches!(
            op,
            Op::Create { .. } | Op::Mkdir { .. } | Op::Symlink { .. } | Op::Fifo { .. }
        );
        if makes && let [spot] = op.spots()[..] {
            let (directory, name) = (self.tree.handle(spot.directory), Name(spot.name.as_bytes()));
            let args = DirectoryArgs { directory, name };
            match self.client().call::<lookup::Reply>(lookup::NUMBER, &args)? {
                Reply::Done(found) => done.object = Some(found.object),
                Reply::Failed(status, _) => {
                    faults.push(format!("{op:?} was done, and is not found: {status:?}"));
                    return Ok(());
                }
            }
        }
        self.tree.settle(op, &done);
        if let (Op::Create { spot, .. }, true) = (op, makes) {
            self.tree.doubt_size(spot);
        }
        Ok(())
    }

    /// Checks that a file from an exclusive CREATE without attributes is found by its own verifier,
    /// and by no other.
    fn check_exclusive(&mut self, faults: &mut Vec<Fault>) -> Result<(), Lost> {
        for (spot, key) in self.tree.names.clone() {
            let object = self.tree.object(key);
            let (handle, directory) = (object.handle, self.tree.handle(spot.directory));
            let Some(verifier) = object.exclusive else { continue };
            let mut other = verifier;
            other[0] ^= 1;
            for (verifier, is_known) in [(verifier, true), (other, false)] {
                let place = DirectoryArgs { directory, name: Name(spot.name.as_bytes()) };
                let how = create::How::Exclusive(verifier);
                let args = create::Args { place, how };
                let reply = self.client().call::<create::Reply>(create::NUMBER, &args)?;
                let is_right = match &reply {
                    Reply::Done(made) => is_known && made.object == Some(handle),
                    Reply::Failed(status, _) => !is_known && *status == Status::AlreadyExists,
                };
                if !is_right {
                    faults.push(format!("{spot:?}: exclusive CREATE again: {reply:?}"));
                }
            }
        }
        Ok(())
    }

    /// Checks that removed objects stay removed, and that their handles name no other object.
    fn check_gone(&mut self, faults: &mut Vec<Fault>) -> Result<(), Lost> {
        for handle in self.tree.gone.clone() {
            let found = self.getattr(handle)?;
            if found != Err(Status::Stale) {
                faults.push(format!("the handle of what was removed: {found:?}"));
            }
        }
        Ok(())
    }

    /// Rewrites data that may be lost.
    fn write_again(&mut self, faults: &mut Vec<Fault>) -> Result<(), Lost> {
        let files: Vec<Key> = self.tree.objects.keys().copied().collect();
        for file in files {
            let Some(content) = &self.tree.object(file).content else { continue };
            for (blocks, stamp) in content.pending() {
                let stability = Stability::Unstable;
                self.again(&Op::Write { file, blocks, stamp, stability }, faults)?;
            }
        }
        Ok(())
    }

    fn getattr(&mut self, object: Handle) -> Result<Result<Attributes, Status>, Lost> {
        let args = getattr::Args { object };
        Ok(match self.client().call::<getattr::Reply>(getattr::NUMBER, &args)? {
            Reply::Done(done) => Ok(done.attributes),
            Reply::Failed(status, ()) => Err(status),
        })
    }

    /// Reads data of a file, up to its end.
    fn read(
        &mut self,
        file: Handle,
        offset: u64,
        count: u32,
    ) -> Result<Result<Vec<u8>, Status>, Lost> {
        let mut data = Vec::new();
        while data.len() < count as usize {
            let left = count - u32::try_from(data.len()).expect("it is below the count");
            let args = read::Args { file, offset: offset + data.len() as u64, count: left };
            match self.client().call::<read::Reply>(read::NUMBER, &args)? {
                Reply::Done(done) => {
                    data.extend_from_slice(&done.data);
                    if done.end {
                        break;
                    }
                }
                Reply::Failed(status, _) => return Ok(Err(status)),
            }
        }
        Ok(Ok(data))
    }

    /// Returns all names in a directory, with their handles.
    fn list(&mut self, directory: Handle) -> Result<Result<Vec<(String, Handle)>, Status>, Lost> {
        let (mut names, mut cookie, mut verifier) = (Vec::new(), Cookie(0), [0; 8]);
        loop {
            let (names_count, count) = (8 << 10, 32 << 10);
            let args = readdirplus::Args { directory, cookie, verifier, names_count, count };
            let results = self.client().results(readdirplus::NUMBER, &args)?;
            let done = match decoded::<readdirplus::Listing<'_>>(&results) {
                Reply::Done(done) => done,
                Reply::Failed(status, _) => return Ok(Err(status)),
            };
            verifier = done.verifier;
            for entry in done.entries.0 {
                cookie = entry.cookie;
                let name = String::from_utf8_lossy(entry.name.0).into_owned();
                if name != "." && name != ".." {
                    let object = match entry.object {
                        Some(object) => object,
                        None => match self.lookup(directory, entry.name)? {
                            Ok(object) => object,
                            Err(status) => return Ok(Err(status)),
                        },
                    };
                    names.push((name, object));
                }
            }
            if done.end {
                return Ok(Ok(names));
            }
        }
    }

    fn lookup(
        &mut self,
        directory: Handle,
        name: Name<'_>,
    ) -> Result<Result<Handle, Status>, Lost> {
        let args = DirectoryArgs { directory, name };
        match self.client().call::<lookup::Reply>(lookup::NUMBER, &args)? {
            Reply::Done(done) => Ok(Ok(done.object)),
            Reply::Failed(status, _) => Ok(Err(status)),
        }
    }
}

impl Op {
    /// Returns true if the operation removes an object's last name.
    fn removes(&self, key: Key, worker: &Worker) -> bool {
        let tree = &worker.tree;
        let doomed = match self {
            Self::Remove { spot } | Self::Rmdir { spot } => tree.names.get(spot),
            Self::Rename { to, .. } => tree.names.get(to),
            Self::Create { .. }
            | Self::Mkdir { .. }
            | Self::Symlink { .. }
            | Self::Fifo { .. }
            | Self::Link { .. }
            | Self::Setattr { .. }
            | Self::Write { .. }
            | Self::Commit { .. }
            | Self::Getattr { .. } => None,
        };
        doomed == Some(&key) && tree.name_count(key) == 1
    }
}

/// Returns the differences between attributes and their guaranteed values. The data checks cover
/// the size of a file; the size of a directory depends on the file system.
fn wrong_attributes(
    site: &Site,
    object: &Object,
    found: &Attributes,
    is_touched: bool,
) -> Vec<Fault> {
    let Some(known) = object.attributes else { return Vec::new() };
    let mut faults = Vec::new();
    let mut compare = |what: &str, known: String, found: String| {
        if known != found {
            faults.push(format!("its {what} is {found}, not {known}"));
        }
    };
    let kind = |attributes: &Attributes| {
        let Attributes { file_type, file_system, file_id, device, .. } = *attributes;
        format!("{file_type:?} {file_system:?} {file_id:?} {device:?}")
    };
    compare("kind", kind(&known), kind(found));
    let Attributes { mode, uid, gid, link_count, accessed, modified, changed, .. } = known;
    if !is_touched {
        compare("mode", format!("{mode:o}"), format!("{:o}", found.mode));
        compare("owner", format!("{uid} {gid}"), format!("{} {}", found.uid, found.gid));
    }
    if object.is_exact && !is_touched {
        compare("number of names", link_count.to_string(), found.link_count.to_string());
        // A replay leaves a new exclusive file in its initial state: its times may contain its
        // verifier.
        if !(site.has_log && object.exclusive.is_some()) {
            compare("access time", format!("{accessed:?}"), format!("{:?}", found.accessed));
            compare("modification time", format!("{modified:?}"), format!("{:?}", found.modified));
        }
        if site.keeps_change_times() {
            compare("change time", format!("{changed:?}"), format!("{:?}", found.changed));
        }
    }
    faults
}
