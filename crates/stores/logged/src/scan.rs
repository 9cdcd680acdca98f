//! Reading a log back.

use std::io;

use crate::format::{BLOCK, FRAME_HEAD, Head, Layout, frame_bytes, open};
use crate::media::Media;
use crate::outcome::Outcome;

/// What the frames of a log come to.
pub(crate) struct Scanned {
    pub(crate) outcome: Outcome,
    /// Frames that had been answered and cannot be read any more.
    pub(crate) damaged: u64,
}

/// Reads all frames that the file system may not hold: those of two generations at most, for a
/// third begins when the first is on the disk.
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
            // Behind the last frame there may be the beginning of one that was never answered.
            // Frames behind that one were lost with it, so they show a damage.
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
