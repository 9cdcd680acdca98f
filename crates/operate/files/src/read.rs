//! Reads one file in order, with several requests in flight.

use std::io::Write;

use futures_util::{StreamExt as _, stream};

use crate::file::{Read, Reading, Source};
use crate::{Error, Remote};

/// Writes the contents of a file on a server to `out`, with at most `in_flight` concurrent requests.
///
/// # Errors
/// The server fails, or `out` cannot be written.
pub async fn write_out(file: Remote, in_flight: usize, out: &mut impl Write) -> Result<(), Error> {
    let reading = &Reading::new(Source::Remote(file), in_flight);
    let pieces = stream::iter(reading.pieces()).map(|piece| reading.read(piece));
    let mut pieces = pieces.buffered(in_flight);
    let (mut end, mut is_at_end) = (0, false);
    while let Some(piece) = pieces.next().await {
        let Read { at, data, is_last } = piece?;
        if at != end {
            // The file was truncated during the read, and this piece lies beyond the new end: stop.
            break;
        }
        out.write_all(&data)?;
        end += data.len() as u64;
        is_at_end = is_last;
    }
    // Continue beyond the size that the server reported: the file may have grown meanwhile, and
    // some files, such as files in /proc, report no size.
    while !is_at_end {
        let Read { data, is_last, .. } = reading.read(reading.piece_at(end)).await?;
        is_at_end = is_last || data.is_empty();
        out.write_all(&data)?;
        end += data.len() as u64;
    }
    Ok(out.flush()?)
}
