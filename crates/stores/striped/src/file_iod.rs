//! An iod that stores objects as files in a directory, in this process or on another server.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use leasehold_fs::{
    FsError, MaybeReady, NotedTurns, Owner, Spot, Stability, TURN_NOTE, TURN_NOTE_BYTES, Verifier,
    noted_turn,
};
use leasehold_session::Traffic;

use crate::files::Files;
use crate::iod::{Extent, Iod, ObjectName, Room, Written};

/// The maximum number of object handles in memory.
const KNOWN_MAX: usize = 65_536;

/// The number of hexadecimal digits in the name of a directory. An object is in the directory of
/// the first byte of its object name.
const DIRECTORY_DIGITS: usize = 2;

/// The name of the file that marks a directory of objects and records its volume.
pub const MARK: &str = "leasehold-iod";

/// The maximum size of a mark; a longer file is not a mark.
const MARK_BYTES_MAX: u32 = 64 << 10;

/// The last line of a mark; any text after it is the rest of an earlier, longer mark.
const END: &str = "end";

/// The first word of every mark. A health check writes this word again.
const FIRST_WORD: &str = "volume";

/// The number of attempts of a WRITE if the server restarts during the write.
const TRIES: u32 = 3;

/// An iod that stores each object in a file.
pub struct FileIod<F: Files> {
    files: F,
    mark: F::Object,
    known: Mutex<Known<F::Object>>,
}

struct Known<Object> {
    directories: BTreeMap<u8, Object>,
    objects: BTreeMap<ObjectName, Object>,
}

/// The identity of an iod in its volume. The mark is stored in the directory of the objects, so
/// that a metaserver detects exchanged directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The identity of the volume.
    pub volume: u64,
    /// The number of the iod in the volume, from zero.
    pub number: u16,
    /// All iods of the volume in the order of their numbers. An iod that an administrator gave up
    /// as lost keeps its number.
    pub members: Vec<Member>,
}

/// An iod of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The administrator's name of the iod, on one line.
    pub label: String,
    /// True if the iod is permanently lost.
    pub gone: bool,
}

/// The reason why the mark of an iod cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkError {
    /// The file system of the iod failed.
    Files(FsError),
    /// The directory contains names but no mark.
    NotEmpty,
    /// The text of the mark is malformed.
    Damaged,
}

impl Mark {
    /// Reads the mark of a directory; returns `None` if the directory is empty.
    ///
    /// # Errors
    /// See [`MarkError`].
    pub async fn of(files: &impl Files) -> Result<Option<Self>, MarkError> {
        let root = files.root();
        let find = async || files.lookup(root, MARK).await.map_err(MarkError::Files);
        let file = match find().await? {
            Some(file) => file,
            None if files.is_empty(root).await.map_err(MarkError::Files)? => return Ok(None),
            // The directory is not empty, because another metaserver may have created the mark
            // after the first lookup. So look the mark up again.
            None => find().await?.ok_or(MarkError::NotEmpty)?,
        };
        let (text, _) = files.read(file, 0, MARK_BYTES_MAX).await.map_err(MarkError::Files)?;
        // The mark is empty if a crash came after its creation and before its text was written. It
        // then counts as absent.
        if text.is_empty() {
            return Ok(None);
        }
        Self::parse(&text).ok_or(MarkError::Damaged).map(Some)
    }

    fn text(&self) -> String {
        let mut text = format!("{FIRST_WORD} {:016x}\niod {}\n", self.volume, self.number);
        for Member { label, gone } in &self.members {
            let what = if *gone { "gone" } else { "member" };
            text.push_str(&format!("{what} {}\n", label.replace('\n', "?")));
        }
        text.push_str(END);
        text
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let mut lines = core::str::from_utf8(text).ok()?.lines();
        let volume =
            u64::from_str_radix(lines.next()?.strip_prefix(FIRST_WORD)?.trim_start(), 16).ok()?;
        let number = lines.next()?.strip_prefix("iod ")?.parse().ok()?;
        let mut members = Vec::new();
        for line in lines.take_while(|line| *line != END) {
            let (what, label) = line.split_once(' ')?;
            let gone = match what {
                "member" => false,
                "gone" => true,
                _ => return None,
            };
            members.push(Member { label: label.to_owned(), gone });
        }
        Some(Self { volume, number, members })
    }
}

impl<F: Files> FileIod<F> {
    /// Opens the iod of a directory that has this mark; writes the mark if it is missing.
    ///
    /// # Errors
    /// The file system of the iod failed.
    pub async fn open(files: F, mark: &Mark) -> Result<Self, FsError> {
        let file = files.make_file(files.root(), MARK).await?;
        let text = Bytes::from(mark.text() + "\n");
        let known = Known { directories: BTreeMap::new(), objects: BTreeMap::new() };
        let iod = Self { files, mark: file, known: Mutex::new(known) };
        let (there, _) = iod.files.read(file, 0, MARK_BYTES_MAX).await?;
        if !there.starts_with(&text) {
            iod.write_all(file, 0, &text, Stability::FileSync).await?;
        }
        Ok(iod)
    }

    /// Returns the files of the iod.
    #[must_use]
    pub const fn files(&self) -> &F {
        &self.files
    }

    /// Returns the objects whose names have the same first byte as `like`.
    async fn listed(&self, like: ObjectName) -> Result<Vec<ObjectName>, FsError> {
        let Some(directory) = self.directory(like).await? else { return Ok(Vec::new()) };
        let names = self.files.names(directory).await?;
        let known = names.iter().filter_map(|name| ObjectName::parse(name));
        Ok(known.filter(|object| object.0[0] == like.0[0]).collect())
    }

    fn known<T>(&self, look: impl FnOnce(&mut Known<F::Object>) -> T) -> T {
        look(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the directory of an object; `None` if the directory does not exist yet.
    async fn directory(&self, name: ObjectName) -> Result<Option<F::Object>, FsError> {
        let number = name.0[0];
        if let Some(found) = self.known(|known| known.directories.get(&number).copied()) {
            return Ok(Some(found));
        }
        let found = self.files.lookup(self.files.root(), &name.text()[..DIRECTORY_DIGITS]).await?;
        if let Some(found) = found {
            self.known(|known| known.directories.insert(number, found));
        }
        Ok(found)
    }

    /// Returns the file of an object; `None` if the object was never written.
    async fn find(&self, name: ObjectName) -> Result<Option<F::Object>, FsError> {
        if let Some(object) = self.known(|known| known.objects.get(&name).copied()) {
            return Ok(Some(object));
        }
        let found = match self.look_up(name).await {
            Err(FsError::Stale) => {
                self.forget(name);
                self.look_up(name).await
            }
            found => found,
        };
        Ok(found.map_err(ours)?.inspect(|object| self.keep(name, *object)))
    }

    async fn look_up(&self, name: ObjectName) -> Result<Option<F::Object>, FsError> {
        let Some(directory) = self.directory(name).await? else { return Ok(None) };
        self.files.lookup(directory, &name.text()).await
    }

    /// Removes the file of an object, if the file exists.
    async fn take_away(&self, name: ObjectName) -> Result<(), FsError> {
        self.known(|known| known.objects.remove(&name));
        let Some(directory) = self.directory(name).await? else { return Ok(()) };
        match self.files.remove(directory, &name.text()).await {
            Ok(()) | Err(FsError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the file of an object, and creates it if necessary.
    async fn find_or_make(&self, name: ObjectName) -> Result<F::Object, FsError> {
        if let Some(object) = self.find(name).await? {
            return Ok(object);
        }
        let text = name.text();
        let directory = match self.directory(name).await.map_err(ours)? {
            Some(directory) => directory,
            None => {
                let root = self.files.root();
                let made = self.files.make_directory(root, &text[..DIRECTORY_DIGITS]).await;
                made.map_err(ours)?
            }
        };
        let object = self.files.make_file(directory, &text).await.map_err(ours)?;
        self.keep(name, object);
        Ok(object)
    }

    fn keep(&self, name: ObjectName, object: F::Object) {
        self.known(|known| {
            if known.objects.len() >= KNOWN_MAX {
                known.objects.clear();
            }
            known.objects.insert(name, object);
        });
    }

    /// Runs `work` on the file of an object. If the cached handle is stale, as after a restart of a
    /// server that assigns new handles, looks the file up once more. If the file is gone, returns
    /// an error and creates no new file, because a new file would hide the loss of data.
    async fn with<T, W>(
        &self,
        name: ObjectName,
        file: F::Object,
        work: impl Fn(F::Object) -> W + Send,
    ) -> Result<T, FsError>
    where
        W: Future<Output = Result<T, FsError>> + Send,
    {
        match work(file).await {
            Err(FsError::Stale) => {
                self.forget(name);
                let there = self.find(name).await?.ok_or(FsError::Io)?;
                work(there).await.map_err(ours)
            }
            done => done,
        }
    }

    /// Drops the cached handles of an object and of its directory.
    fn forget(&self, name: ObjectName) {
        self.known(|known| {
            known.objects.remove(&name);
            known.directories.remove(&name.0[0]);
        });
    }

    async fn write_all(
        &self,
        file: F::Object,
        offset: u64,
        data: &Bytes,
        stability: Stability,
    ) -> Result<Written, FsError> {
        for _ in 0..TRIES {
            if let Some(written) = self.write_once(file, offset, data, stability).await? {
                return Ok(written);
            }
        }
        Err(FsError::Io)
    }

    /// Writes the data. Returns `None` if the server restarted during the write and may have lost
    /// the beginning of the data.
    async fn write_once(
        &self,
        file: F::Object,
        offset: u64,
        data: &Bytes,
        stability: Stability,
    ) -> Result<Option<Written>, FsError> {
        let mut first = None;
        let mut done = 0;
        loop {
            let (rest, place) = (data.slice(done..), offset + done as u64);
            let (count, verifier, extent) = self.files.write(file, place, rest, stability).await?;
            if *first.get_or_insert(verifier) != verifier && stability == Stability::Unstable {
                return Ok(None);
            }
            done += count.min(data.len() - done);
            if done == data.len() {
                let extent = match extent {
                    Some(extent) => extent,
                    None => self.files.extent(file).await?,
                };
                return Ok(Some(Written { extent, verifier }));
            }
            if count == 0 {
                return Err(FsError::Io);
            }
        }
    }

    async fn read_all(&self, file: F::Object, offset: u64, count: u32) -> Result<Bytes, FsError> {
        let (first, end) = self.files.read(file, offset, count).await?;
        if end || first.len() >= count as usize {
            return Ok(first);
        }
        // The server returned less than requested, so request the rest.
        let mut data = BytesMut::from(&*first);
        while data.len() < count as usize {
            let rest = count - u32::try_from(data.len()).map_err(|_| FsError::ServerFault)?;
            let (part, end) = self.files.read(file, offset + data.len() as u64, rest).await?;
            data.extend_from_slice(&part);
            if end {
                break;
            }
            if part.is_empty() {
                return Err(FsError::Io);
            }
        }
        Ok(data.freeze())
    }
}

impl<F: Files> Iod for FileIod<F> {
    fn extent(&self, object: ObjectName) -> MaybeReady<'_, Result<Extent, FsError>> {
        MaybeReady::later(async move {
            match self.find(object).await? {
                Some(file) => self.with(object, file, |file| self.files.extent(file)).await,
                None => Ok(Extent::default()),
            }
        })
    }

    fn read(
        &self,
        object: ObjectName,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'_, Result<Bytes, FsError>> {
        MaybeReady::later(async move {
            let Some(file) = self.find(object).await? else { return Ok(Bytes::new()) };
            self.with(object, file, |file| self.read_all(file, offset, count)).await
        })
    }

    fn write(
        &self,
        object: ObjectName,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'_, Result<Written, FsError>> {
        MaybeReady::later(async move {
            let file = self.find_or_make(object).await?;
            self.with(object, file, |file| self.write_all(file, offset, &data, stability)).await
        })
    }

    fn resize(&self, object: ObjectName, size: u64) -> MaybeReady<'_, Result<Extent, FsError>> {
        MaybeReady::later(async move {
            let file = match self.find(object).await? {
                None if size == 0 => return Ok(Extent::default()),
                None => self.find_or_make(object).await?,
                Some(file) => file,
            };
            self.with(object, file, |file| self.files.resize(file, size)).await
        })
    }

    fn commit(&self, object: ObjectName) -> MaybeReady<'_, Result<Verifier, FsError>> {
        MaybeReady::later(async move {
            match self.find(object).await? {
                Some(file) => self.with(object, file, |file| self.files.commit(file)).await,
                None => self.files.commit(self.mark).await.map_err(ours),
            }
        })
    }

    fn remove(&self, object: ObjectName) -> MaybeReady<'_, Result<(), FsError>> {
        MaybeReady::later(async move {
            match self.take_away(object).await {
                Err(FsError::Stale) => {
                    self.forget(object);
                    self.take_away(object).await.map_err(ours)
                }
                done => done,
            }
        })
    }

    fn give(
        &self,
        object: ObjectName,
        owner: Owner,
    ) -> MaybeReady<'_, Result<Option<Spot>, FsError>> {
        MaybeReady::later(async move {
            let file = self.find_or_make(object).await?;
            self.with(object, file, |file| self.files.give(file, owner)).await
        })
    }

    fn list(&self, first: u8) -> MaybeReady<'_, Result<Vec<ObjectName>, FsError>> {
        MaybeReady::later(async move {
            let mut like = ObjectName([0; 16]);
            like.0[0] = first;
            match self.listed(like).await {
                Err(FsError::Stale) => {
                    self.forget(like);
                    self.listed(like).await.map_err(ours)
                }
                done => done,
            }
        })
    }

    fn verifier(&self) -> MaybeReady<'_, Result<Verifier, FsError>> {
        MaybeReady::later(async move { self.files.commit(self.mark).await.map_err(ours) })
    }

    fn probe(&self) -> MaybeReady<'_, Result<(), FsError>> {
        MaybeReady::later(async move { probe(&self.files).await.map_err(ours) })
    }

    fn space(&self) -> MaybeReady<'_, Result<Room, FsError>> {
        MaybeReady::later(async move { self.files.space().await.map_err(ours) })
    }

    fn traffic(&self) -> Traffic {
        self.files.traffic()
    }

    fn connections(&self) -> u64 {
        self.files.connections()
    }

    fn turns(&self) -> MaybeReady<'_, Result<NotedTurns, FsError>> {
        MaybeReady::later(async move {
            // Check the mark first. If the disk of the iod is not mounted, its empty mount point
            // has no counter file either, and must not count as an iod without rollback counters.
            self.files.extent(self.mark).await?;
            let note = self.files.note(TURN_NOTE, TURN_NOTE_BYTES).await?;
            Ok(NotedTurns::read(&note.unwrap_or_default()))
        })
    }

    fn note_turn(&self, turn: u64) -> MaybeReady<'_, Result<(), FsError>> {
        MaybeReady::later(async move {
            let file = self.files.make_file(self.files.root(), TURN_NOTE).await.map_err(ours)?;
            let (place, text) = noted_turn(turn);
            let text = Bytes::from(text);
            self.write_all(file, place, &text, Stability::FileSync).await.map_err(ours)?;
            Ok(())
        })
    }

    fn let_clients_in(&self, turn: u64) -> MaybeReady<'_, Result<(), FsError>> {
        MaybeReady::later(self.files.let_clients_in(turn))
    }
}

/// Executes a change without effect: writes the first word of the mark once more. If the directory
/// has no mark, the call writes nothing.
///
/// # Errors
/// The error of the change, as for a read-only file system.
pub async fn probe(files: &impl Files) -> Result<(), FsError> {
    let Some(mark) = files.lookup(files.root(), MARK).await? else { return Ok(()) };
    let word = Bytes::from_static(FIRST_WORD.as_bytes());
    files.write(mark, 0, word, Stability::FileSync).await.map(drop)
}

/// Translates an error about a file or directory of this iod for the client. The handle and the
/// name in such an error belong to the iod, and the client knows neither of them. The metaserver
/// checks whether the client's own file still exists.
fn ours(error: FsError) -> FsError {
    if matches!(error, FsError::Stale | FsError::NotFound) { FsError::Io } else { error }
}
