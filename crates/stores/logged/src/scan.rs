//! The reader of a log.

use std::io;

use crate::format::{BLOCK, FRAME_HEAD, Head, Layout, frame_bytes, open};
use crate::media::Media;
use crate::outcome::Outcome;

/// The result of reading the frames of a log.
pub(crate) struct Scanned {
    pub(crate) outcome: Outcome,
    /// The number of unreadable frames whose changes had been answered.
    pub(crate) damaged: u64,
}

/// Reads all frames with changes that the file system may not have. These are the frames of at most
/// two generations, because a third generation starts only when the changes of the first one are on
/// the disk.
pub(crate) fn scan(media: &dyn Media, head: &Head, layout: &Layout) -> io::Result<Scanned> {
    let mut scanned = Scanned { outcome: Outcome::default(), damaged: 0 };
    for generation in [head.oldest, head.oldest + 1] {
        scanned.half(media, head, layout, generation)?;
    }
    Ok(scanned)
}

impl Scanned {
    fn half(
        &mut self,
        media: &dyn Media,
        head: &Head,
        layout: &Layout,
        generation: u64,
    ) -> io::Result<()> {
        let mut offset = layout.half(generation);
        let end = offset + layout.half_bytes;
        let mut next = 0;
        while offset < end {
            // An unreadable block may be a torn last frame, whose changes were never answered, so
            // it is no damage by itself. But no frame follows a torn frame. So a valid frame after
            // a gap shows that the frames in the gap are damaged; they are counted then.
            let Some((frame, payload)) = open(media, &head.id, generation, offset, end)? else {
                offset += BLOCK;
                continue;
            };
            self.damaged += frame.number.saturating_sub(next);
            let position = offset + FRAME_HEAD as u64;
            if !self.outcome.take(&payload, position, frame.first) {
                self.damaged += 1;
            }
            next = frame.number + 1;
            offset += frame_bytes(payload.len());
        }
        Ok(())
    }
}
