//! Arguments of a command in one buffer: a call has a dozen, and a gateway sends tens of thousands of calls a second.

/// Arguments in order.
#[derive(Default)]
pub(crate) struct ArgList {
    bytes: Vec<u8>,
    /// End of each argument in `bytes`.
    ends: Vec<usize>,
}

impl ArgList {
    pub(crate) fn with_capacity(args: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(args) }
    }

    /// Adds the bytes that `write` appends as one argument.
    pub(crate) fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn push(&mut self, arg: &[u8]) {
        self.push_with(|out| out.extend_from_slice(arg));
    }

    pub(crate) fn truncate(&mut self, args: usize) {
        self.ends.truncate(args);
        self.bytes.truncate(self.ends.last().copied().unwrap_or_default());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the bytes of all arguments.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn get(&self, at: usize) -> Option<&[u8]> {
        let start = at.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.bytes.get(start..*self.ends.get(at)?)
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|at| self.get(at).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_keep_their_order() {
        let mut args = ArgList::with_capacity(2, 4);
        for arg in ["a", "", "bcd"] {
            args.push(arg.as_bytes());
        }
        assert_eq!(args.iter().collect::<Vec<_>>(), [&b"a"[..], b"", b"bcd"]);
        assert_eq!((args.len(), args.bytes(), args.get(3)), (3, 4, None));
        args.truncate(1);
        args.push(b"e");
        assert_eq!(args.iter().collect::<Vec<_>>(), [b"a", b"e"]);
        args.truncate(0);
        assert_eq!((args.len(), args.bytes(), args.get(0)), (0, 0, None));
    }
}
