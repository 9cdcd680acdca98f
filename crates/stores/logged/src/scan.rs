//! The reader of a log.

use std::io;

use crate::format::{BLOCK, FRAME_HEAD, Head, Layout, frame_bytes, open};
use crate::media::Media;
use crate::outcome::Outcome;

/// The contents of the frames of a log.
pub(crate) struct Scanned {
    pub(crate) outcome: Outcome,
    /// The number of frames that had been answered and are unreadable.
    pub(crate) damaged: u64,
}

/// Reads all frames with changes that the file system may not have. There are at most two
/// generations of them, because a third one starts only after the first one is on the disk.
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
            // After the last frame there may be a torn frame that was never answered. A valid frame
            // behind a gap shows damage, since frames after a torn frame do not exist.
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
