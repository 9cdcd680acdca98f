//! File system properties: STATFS.

use leasehold_base::limits::TRANSFER_V2_BYTES_MAX;
use leasehold_fs::ops;
use leasehold_wire::nfs2 as wire;

use crate::context::Context;
use crate::procedure::Refusal;

/// The maximum number of blocks in a reply. It has 31 bits, because some clients of version 2 use a
/// signed number.
const BLOCKS_MAX: u64 = 0x7fff_ffff;

const BLOCK_BYTES_MIN: u32 = 4096;

pub(super) async fn statfs(
    context: &Context,
    args: wire::statfs::Args,
) -> Result<wire::statfs::Done, Refusal<()>> {
    let target = context.target(&args.0).await?;
    let (space, _) = ops::space(&target.request, &target.object).await?;
    // The block size doubles until the number of blocks of a large file system fits.
    let mut block_bytes = BLOCK_BYTES_MIN;
    while space.bytes / u64::from(block_bytes) > BLOCKS_MAX && block_bytes < 1 << 31 {
        block_bytes <<= 1;
    }
    let blocks = |bytes: u64| {
        u32::try_from((bytes / u64::from(block_bytes)).min(BLOCKS_MAX)).unwrap_or(u32::MAX)
    };
    Ok(wire::statfs::Done {
        transfer_bytes_best: TRANSFER_V2_BYTES_MAX,
        block_bytes,
        blocks: blocks(space.bytes),
        free_blocks: blocks(space.free_bytes),
        available_blocks: blocks(space.available_bytes),
    })
}
