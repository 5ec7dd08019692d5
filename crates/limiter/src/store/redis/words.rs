//! Words of a command, one behind the other in one piece of memory: a call has a dozen, and decides tens of thousands of
//! requests a second.

/// Words that are added and read in order.
#[derive(Default)]
pub(super) struct Words {
    bytes: Vec<u8>,
    /// Where each word ends.
    ends: Vec<usize>,
}

impl Words {
    pub(super) fn with_capacity(words: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(words) }
    }

    /// Adds what `write` appends as one word.
    pub(super) fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn push(&mut self, word: &[u8]) {
        self.push_with(|out| out.extend_from_slice(word));
    }

    pub(super) fn truncate(&mut self, words: usize) {
        self.ends.truncate(words);
        self.bytes.truncate(self.ends.last().copied().unwrap_or_default());
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of all words together.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn get(&self, at: usize) -> Option<&[u8]> {
        let start = at.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.bytes.get(start..*self.ends.get(at)?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|at| self.get(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_in_order() {
        let mut words = Words::with_capacity(2, 4);
        for word in ["a", "", "bcd"] {
            words.push(word.as_bytes());
        }
        assert_eq!(words.iter().collect::<Vec<_>>(), [&b"a"[..], b"", b"bcd"]);
        assert_eq!((words.len(), words.bytes(), words.get(3)), (3, 4, None));
        words.truncate(1);
        words.push(b"e");
        assert_eq!(words.iter().collect::<Vec<_>>(), [b"a", b"e"]);
        words.truncate(0);
        assert_eq!((words.len(), words.bytes(), words.get(0)), (0, 0, None));
    }
}
