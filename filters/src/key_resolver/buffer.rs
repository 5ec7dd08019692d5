//! Buffer for key ids that are not contiguous in the request.

use std::fmt;

/// Byte buffer that stays on the stack up to 96 bytes: enough for every address, most names and most pairs of them.
#[derive(Clone, Debug)]
pub struct KeyBuf {
    inline: [u8; INLINE],
    len: usize,
    /// Holds all bytes once they exceed the inline part.
    heap: Vec<u8>,
}

const INLINE: usize = 96;

impl KeyBuf {
    /// Creates an empty buffer.
    #[must_use]
    pub fn new() -> Self {
        Self { inline: [0; INLINE], len: 0, heap: Vec::new() }
    }

    /// Returns the written bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        if self.heap.is_empty() { &self.inline[..self.len] } else { &self.heap }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.heap.clear();
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if self.heap.is_empty() && end <= INLINE {
            self.inline[self.len..end].copy_from_slice(bytes);
            self.len = end;
            return;
        }
        if self.heap.is_empty() {
            self.heap.reserve(end);
            self.heap.extend_from_slice(&self.inline[..self.len]);
        }
        self.heap.extend_from_slice(bytes);
    }
}

impl Default for KeyBuf {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Write for KeyBuf {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn bytes_survive_the_move_to_the_heap() {
        for split in 0..=200 {
            let bytes: Vec<u8> = (0..200).collect();
            let mut buf = KeyBuf::new();
            buf.push(&bytes[..split]);
            buf.push(&bytes[split..]);
            assert_eq!(buf.as_bytes(), bytes);
            buf.clear();
            assert!(buf.as_bytes().is_empty());
        }
    }
}
