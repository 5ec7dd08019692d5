//! Arguments of a command in one buffer: a call has a dozen, and a gateway sends tens of thousands of calls a second.

/// Arguments in order.
#[derive(Default)]
pub(crate) struct ArgList {
    /// Each argument behind its length.
    buffer: Vec<u8>,
    len: usize,
}

/// Bytes of a length.
const LENGTH: usize = size_of::<u32>();

impl ArgList {
    pub(crate) fn with_capacity(args: usize, bytes: usize) -> Self {
        Self { buffer: Vec::with_capacity(args * LENGTH + bytes), len: 0 }
    }

    /// Adds the bytes that `write` appends as one argument, shorter than 4 GB.
    pub(crate) fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.buffer.extend_from_slice(&[0; LENGTH]);
        let start = self.buffer.len();
        write(&mut self.buffer);
        let length = self.buffer.len() - start;
        self.buffer[start - LENGTH..start].copy_from_slice(&(length as u32).to_ne_bytes());
        self.len += 1;
    }

    pub(crate) fn push(&mut self, arg: &[u8]) {
        self.push_with(|out| out.extend_from_slice(arg));
    }

    /// Keeps the first `args` arguments.
    pub(crate) fn truncate(&mut self, args: usize) {
        let kept: usize = self.iter().take(args).map(|arg| LENGTH + arg.len()).sum();
        self.buffer.truncate(kept);
        self.len = self.len.min(args);
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the bytes of all arguments.
    pub(crate) fn bytes(&self) -> usize {
        self.buffer.len() - self.len * LENGTH
    }

    pub(crate) fn get(&self, at: usize) -> Option<&[u8]> {
        self.iter().nth(at)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &*self.buffer;
        std::iter::from_fn(move || {
            let (length, after) = rest.split_first_chunk::<LENGTH>()?;
            let (arg, next) = after.split_at_checked(u32::from_ne_bytes(*length) as usize)?;
            rest = next;
            Some(arg)
        })
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
