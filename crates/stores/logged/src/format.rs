//! How a log lies on its device.
//!
//! | part | holds |
//! |---|---|
//! | two blocks | the head, written to one and the other in turn; the newer whole one counts |
//! | two areas of names | which new object stands for which that was lost, in turn as well |
//! | two halves | frames, each what one sync put there; a half is one generation of them |
//!
//! A frame begins at a block and no block holds parts of two, so that a write cut short spoils
//! no frame that was answered. Its checksum is keyed with the log's number, and covers its
//! generation and place in it: what a client writes, or an older generation left, is no frame.

use std::hash::Hasher as _;
use std::io;

use leasehold_base::units::FileSystemId;
use leasehold_fs::ObjectId;
use siphasher::sip::SipHasher13;

use crate::media::Media;
use crate::record::{Reader, Writer};

/// What is written at once, or not at all, is no more on any device.
pub(crate) const BLOCK: u64 = 4096;
const BLOCK_BYTES: usize = 4096;

/// The smallest log: a half holds some of the largest writes.
pub const SIZE_MIN: u64 = 8 << 20;

/// The largest payload of a frame: what a fast device takes in some milliseconds.
pub(crate) const PAYLOAD_MAX: usize = 2 << 20;

const MAGIC: [u8; 8] = *b"LHLOG\0\0\x01";
const FRAME_MAGIC: [u8; 4] = *b"LHFR";

/// The bytes of a frame before its payload.
pub(crate) const FRAME_HEAD: usize = 64;

/// Where the parts of a log are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The length of the whole.
    pub(crate) size: u64,
    names_bytes: u64,
    pub(crate) half_bytes: u64,
}

impl Layout {
    /// The layout of a log of so many bytes; none when that is too few.
    pub(crate) fn of(size: u64) -> Option<Self> {
        let size = size / BLOCK * BLOCK;
        if size < SIZE_MIN {
            return None;
        }
        let names_bytes = size / 64 / BLOCK * BLOCK;
        let half_bytes = (size - 2 * BLOCK - 2 * names_bytes) / 2 / BLOCK * BLOCK;
        Some(Self { size, names_bytes, half_bytes })
    }

    /// The part of a half: generations take them in turn.
    pub(crate) fn half(&self, generation: u64) -> u64 {
        2 * BLOCK + 2 * self.names_bytes + generation % 2 * self.half_bytes
    }

    fn names(&self, area: u8) -> u64 {
        2 * BLOCK + u64::from(area % 2) * self.names_bytes
    }
}

/// What tells one log from another, and keys its checksums.
pub(crate) type LogId = [u8; 16];

/// What tells a volume from every other, wherever and under whatever number it is mounted.
pub(crate) type VolumeId = [u8; 16];

/// What stands for a volume of which nothing is known.
const NO_VOLUME: VolumeId = [0; 16];

/// Whose changes a log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) root: ObjectId,
    pub(crate) file_system: FileSystemId,
    /// What tells the volume from every other, where that is known.
    pub(crate) volume: Option<VolumeId>,
}

/// What is known of a log as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) id: LogId,
    pub(crate) owner: Owner,
    pub(crate) size: u64,
    /// Which boot of the machine its changes were made in.
    pub(crate) boot: u128,
    /// Whether all that it says is on the disk.
    pub(crate) is_clean: bool,
    /// Whether the file system failed to take what it says.
    pub(crate) is_owed: bool,
    /// The first generation that may not be on the disk yet.
    pub(crate) oldest: u64,
    /// Which area of names counts, with how many bytes of what checksum.
    pub(crate) names_area: u8,
    pub(crate) names_bytes: u64,
    pub(crate) names_checksum: u64,
    /// How often the head was written.
    pub(crate) turn: u64,
}

/// What stands where a head should be.
#[derive(Debug)]
pub(crate) enum Found {
    /// A head.
    Head(Box<Head>),
    /// Nothing: zeros, or no bytes at all, as far as one can tell without reading all of it.
    Nothing,
    /// Something that is no log of this version.
    Other,
}

impl Head {
    /// The head of a log that holds nothing.
    pub(crate) fn new(id: LogId, owner: Owner, size: u64) -> Self {
        Self {
            id,
            owner,
            size,
            boot: 0,
            is_clean: true,
            is_owed: false,
            oldest: 0,
            names_area: 0,
            names_bytes: 0,
            names_checksum: checksum(&id, &[]),
            turn: 0,
        }
    }

    /// Reads the head of what lies on a device.
    pub(crate) fn read(media: &dyn Media) -> io::Result<Found> {
        let length = media.size()?.min(2 * BLOCK);
        let mut bytes = vec![0; usize::try_from(length).expect("two blocks")];
        media.read(0, &mut bytes)?;
        let heads = bytes.chunks(BLOCK_BYTES).filter_map(Self::decode);
        Ok(match heads.max_by_key(|head| head.turn) {
            Some(head) => Found::Head(Box::new(head)),
            None if is_blank(media)? => Found::Nothing,
            None => Found::Other,
        })
    }

    /// Writes the head, over the older of the two, and syncs it.
    pub(crate) fn write(&mut self, media: &dyn Media) -> io::Result<()> {
        self.turn += 1;
        media.write(self.turn % 2 * BLOCK, &self.encode())?;
        media.sync()
    }

    /// Writes a table of names into the area that does not count, and has it count.
    pub(crate) fn write_names(
        &mut self,
        media: &dyn Media,
        layout: &Layout,
        names: &[u8],
    ) -> io::Result<()> {
        if names.len() as u64 > layout.names_bytes {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "too many lost objects"));
        }
        let area = self.names_area ^ 1;
        media.write(layout.names(area), names)?;
        media.sync()?;
        self.names_area = area;
        self.names_bytes = names.len() as u64;
        self.names_checksum = checksum(&self.id, &[names]);
        self.write(media)
    }

    /// The table of names that counts; none when it is damaged.
    pub(crate) fn read_names(
        &self,
        media: &dyn Media,
        layout: &Layout,
    ) -> io::Result<Option<Vec<u8>>> {
        if self.names_bytes > layout.names_bytes {
            return Ok(None);
        }
        let mut names = vec![0; usize::try_from(self.names_bytes).map_err(io::Error::other)?];
        media.read(layout.names(self.names_area), &mut names)?;
        Ok((checksum(&self.id, &[&names]) == self.names_checksum).then_some(names))
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(BLOCK_BYTES));
        out.0.extend_from_slice(&MAGIC);
        out.0.extend_from_slice(&self.id);
        out.object(&self.owner.root);
        out.long(self.owner.file_system.0);
        out.0.extend_from_slice(&self.owner.volume.unwrap_or(NO_VOLUME));
        out.long(self.size);
        out.0.extend_from_slice(&self.boot.to_be_bytes());
        out.byte(u8::from(self.is_clean));
        out.byte(u8::from(self.is_owed));
        out.long(self.oldest);
        out.byte(self.names_area);
        out.long(self.names_bytes);
        out.long(self.names_checksum);
        out.long(self.turn);
        let sum = checksum(&self.id, &[&out.0]);
        out.long(sum);
        out.0.resize(BLOCK_BYTES, 0);
        out.0
    }

    fn decode(block: &[u8]) -> Option<Self> {
        let mut from = Reader(block);
        if from.array()? != MAGIC {
            return None;
        }
        let head = Self {
            id: from.array()?,
            owner: Owner {
                root: from.object()?,
                file_system: FileSystemId(from.long()?),
                volume: Some(from.array()?).filter(|volume| *volume != NO_VOLUME),
            },
            size: from.long()?,
            boot: u128::from_be_bytes(from.array()?),
            is_clean: from.byte()? == 1,
            is_owed: from.byte()? == 1,
            oldest: from.long()?,
            names_area: from.byte()?,
            names_bytes: from.long()?,
            names_checksum: from.long()?,
            turn: from.long()?,
        };
        let covered = &block[..block.len() - from.0.len()];
        (from.long()? == checksum(&head.id, &[covered])).then_some(head)
    }
}

/// Whether nothing is where file systems, partitions, arrays and volumes have what tells of them:
/// the first MiB and the last 128 KiB.
fn is_blank(media: &dyn Media) -> io::Result<bool> {
    let size = media.size()?;
    for (from, to) in [(0, size.min(1 << 20)), (size.saturating_sub(128 << 10), size)] {
        let mut bytes = vec![0; usize::try_from(to - from).expect("not above a MiB")];
        media.read(from, &mut bytes)?;
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Which frame it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FrameHead {
    /// The generation.
    pub(crate) generation: u64,
    /// Its number in the generation.
    pub(crate) number: u64,
    /// The number of its first record.
    pub(crate) first: u64,
}

/// How many bytes a frame takes with such a payload.
pub(crate) fn frame_bytes(payload: usize) -> u64 {
    ((FRAME_HEAD + payload) as u64).next_multiple_of(BLOCK)
}

/// The bytes of a frame, whose payload stands behind room for the head already.
pub(crate) fn seal(id: &LogId, head: FrameHead, mut frame: Vec<u8>) -> Vec<u8> {
    let payload = frame.len() - FRAME_HEAD;
    let mut out = Writer(Vec::with_capacity(FRAME_HEAD));
    out.0.extend_from_slice(&FRAME_MAGIC);
    out.word(u32::try_from(payload).expect("a payload is bounded"));
    out.long(head.generation);
    out.long(head.number);
    out.long(head.first);
    let sum = checksum(id, &[&out.0, &frame[FRAME_HEAD..]]);
    out.long(sum);
    frame[..out.0.len()].copy_from_slice(&out.0);
    frame.resize(usize::try_from(frame_bytes(payload)).expect("a payload is bounded"), 0);
    frame
}

/// Reads the frame of a generation that begins at `offset` and ends before `end`, if a whole one
/// does; gives its payload.
pub(crate) fn open(
    media: &dyn Media,
    id: &LogId,
    generation: u64,
    offset: u64,
    end: u64,
) -> io::Result<Option<(FrameHead, Vec<u8>)>> {
    let mut block = vec![0; BLOCK_BYTES];
    media.read(offset, &mut block)?;
    let mut from = Reader(&block);
    let Some((payload, head, sum)) = read_head(&mut from) else { return Ok(None) };
    let covered = BLOCK_BYTES - from.0.len() - size_of::<u64>();
    if head.generation != generation || payload > PAYLOAD_MAX || offset + frame_bytes(payload) > end
    {
        return Ok(None);
    }
    let mut bytes = vec![0; payload];
    media.read(offset + FRAME_HEAD as u64, &mut bytes)?;
    let is_whole = checksum(id, &[&block[..covered], &bytes]) == sum;
    Ok(is_whole.then_some((head, bytes)))
}

fn read_head(from: &mut Reader<'_>) -> Option<(usize, FrameHead, u64)> {
    if from.array()? != FRAME_MAGIC {
        return None;
    }
    let payload = usize::try_from(from.word()?).ok()?;
    let head = FrameHead { generation: from.long()?, number: from.long()?, first: from.long()? };
    Some((payload, head, from.long()?))
}

fn checksum(id: &LogId, parts: &[&[u8]]) -> u64 {
    let mut hasher = SipHasher13::new_with_key(id);
    for part in parts {
        hasher.write(part);
    }
    hasher.finish()
}
