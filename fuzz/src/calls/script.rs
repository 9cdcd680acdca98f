//! The bytes of an input, as a source of choices; zeros after the end.

/// The rest of an input.
pub(super) struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    pub(super) const fn new(input: &'a [u8]) -> Self {
        Self(input)
    }

    /// Returns the next byte; `None` at the end.
    pub(super) fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The next byte.
    pub(super) fn byte(&mut self) -> u8 {
        self.next().unwrap_or_default()
    }

    /// Up to `count` bytes.
    pub(super) fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    /// Returns a number: at an edge, small, or arbitrary.
    pub(super) fn number(&mut self) -> u64 {
        const EDGES: [u64; 16] = [
            0,
            1,
            2,
            0o644,
            512,
            4096,
            8191,
            1 << 16,
            1 << 20,
            (1 << 31) - 1,
            1 << 31,
            u32::MAX as u64,
            1 << 32,
            i64::MAX as u64,
            u64::MAX - 1,
            u64::MAX,
        ];
        let choice = self.byte();
        match choice {
            0..=15 => EDGES[usize::from(choice)],
            16..=249 => u64::from(choice),
            250..=255 => {
                let mut bytes = [0; 8];
                let given = self.bytes(8);
                bytes[..given.len()].copy_from_slice(given);
                u64::from_be_bytes(bytes)
            }
        }
    }

    /// Returns the low half of a number.
    pub(super) fn word(&mut self) -> u32 {
        let [.., a, b, c, d] = self.number().to_be_bytes();
        u32::from_be_bytes([a, b, c, d])
    }
}
