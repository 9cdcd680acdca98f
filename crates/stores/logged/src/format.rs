//! The format of a log on its device.
//!
//! | part | contents |
//! |---|---|
//! | two blocks | two copies of the header, written alternately; the newer valid copy counts |
//! | two areas of names | the table of surrogate objects, written alternately as well |
//! | two halves | frames, each written by one sync; a half contains one generation of frames |
//!
//! A frame starts at a block boundary and no block contains parts of two frames. So a torn write of
//! a frame damages no earlier frame, whose changes may have been answered. The checksum of a frame
//! is keyed with the log's id, and covers the frame's generation and position. So the reader
//! mistakes neither client data nor a frame of an older generation for a valid frame.

use std::hash::Hasher as _;
use std::io;

use leasehold_base::units::FileSystemId;
use leasehold_fs::ObjectId;
use siphasher::sip::SipHasher13;

use crate::media::Media;
use crate::record::{Reader, Writer};

/// The block size in bytes. No known device writes a larger unit atomically.
pub(crate) const BLOCK: u64 = 4096;
const BLOCK_BYTES: usize = 4096;

/// The minimum size of a log in bytes: a half has space for several writes of the maximum size.
pub const SIZE_MIN: u64 = 8 << 20;

/// The maximum size of a frame's payload, in bytes: a fast device writes so much within
/// milliseconds.
pub(crate) const PAYLOAD_MAX: usize = 2 << 20;

const MAGIC: [u8; 8] = *b"LHLOG\0\0\x01";
const FRAME_MAGIC: [u8; 4] = *b"LHFR";

/// The size of the frame header, before the payload.
pub(crate) const FRAME_HEAD: usize = 64;

/// The offsets of the parts of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The size of the log in bytes.
    pub(crate) size: u64,
    names_bytes: u64,
    pub(crate) half_bytes: u64,
}

impl Layout {
    /// Returns the layout of a log of this size, or `None` if the size is too small.
    pub(crate) fn of(size: u64) -> Option<Self> {
        let size = size / BLOCK * BLOCK;
        if size < SIZE_MIN {
            return None;
        }
        let names_bytes = size / 64 / BLOCK * BLOCK;
        let half_bytes = (size - 2 * BLOCK - 2 * names_bytes) / 2 / BLOCK * BLOCK;
        Some(Self { size, names_bytes, half_bytes })
    }

    /// Returns the offset of the half that a generation uses. Consecutive generations use different
    /// halves.
    pub(crate) fn half(&self, generation: u64) -> u64 {
        2 * BLOCK + 2 * self.names_bytes + generation % 2 * self.half_bytes
    }

    fn names(&self, area: u8) -> u64 {
        2 * BLOCK + u64::from(area % 2) * self.names_bytes
    }
}

/// The id of a log, which is also the key of its checksums.
pub(crate) type LogId = [u8; 16];

/// The UUID of a volume, which is independent of its mount point and device number.
pub(crate) type VolumeId = [u8; 16];

/// The encoding of an absent volume id.
const NO_VOLUME: VolumeId = [0; 16];

/// The exported directory that a log belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) root: ObjectId,
    pub(crate) file_system: FileSystemId,
    /// The UUID of the volume, if the volume has one.
    pub(crate) volume: Option<VolumeId>,
}

/// The header of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) id: LogId,
    pub(crate) owner: Owner,
    pub(crate) size: u64,
    /// The boot id of the machine at the time when the records were written.
    pub(crate) boot: u128,
    /// True if the disk has all changes in the log, so that no replay is necessary.
    pub(crate) is_clean: bool,
    /// True if the file system may have lost changes in the log by a failed sync, so that a replay
    /// is necessary even in the same boot.
    pub(crate) is_owed: bool,
    /// The first generation whose changes may not be on the disk.
    pub(crate) oldest: u64,
    /// The number of the valid names area. The next fields are the length and the checksum of its
    /// contents.
    pub(crate) names_area: u8,
    pub(crate) names_bytes: u64,
    pub(crate) names_checksum: u64,
    /// The number of times that the header was written. The greater number identifies the newer
    /// copy.
    pub(crate) turn: u64,
}

/// The result of reading the header of a log.
#[derive(Debug)]
pub(crate) enum Found {
    /// A valid header.
    Head(Box<Head>),
    /// No data: the checked parts of the device contain zeros, or the device has a size of zero.
    Nothing,
    /// Other data, or a log of another version.
    Other,
}

impl Head {
    /// Returns the header of an empty log.
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

    /// Reads the log header from a device.
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

    /// Overwrites the older of the two copies of the header, and syncs the device.
    pub(crate) fn write(&mut self, media: &dyn Media) -> io::Result<()> {
        self.turn += 1;
        media.write(self.turn % 2 * BLOCK, &self.encode())?;
        media.sync()
    }

    /// Writes the table of surrogate objects to the names area that is not the valid one, and then
    /// makes this area valid by a new header.
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

    /// Reads the table of surrogate objects from the valid names area; `None` if the table is
    /// damaged.
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

/// Returns true if the first MiB and the last 128 KiB of the device contain only zeros. File
/// systems, partition tables, RAID arrays and volume managers store their metadata there.
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

/// The position of a frame in the sequence of all frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FrameHead {
    /// The generation of the frame.
    pub(crate) generation: u64,
    /// The number of the frame in its generation.
    pub(crate) number: u64,
    /// The number of the first record in the frame.
    pub(crate) first: u64,
}

/// Returns the size of a frame with a payload of this size, in bytes.
pub(crate) fn frame_bytes(payload: usize) -> u64 {
    ((FRAME_HEAD + payload) as u64).next_multiple_of(BLOCK)
}

/// Completes a frame: writes the frame header into the space before the payload.
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

/// Reads a frame of a generation at `offset`. Returns its header and payload; `None` if there is no
/// valid frame of this generation that ends by `end`.
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
