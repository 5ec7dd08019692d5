//! Hash slots of Redis Cluster.

use crc::{CRC_16_XMODEM, Crc};

const CRC16: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// One of the 16,384 slots that the nodes of a cluster share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HashSlot(u16);

impl HashSlot {
    /// Number of slots.
    pub(crate) const COUNT: u16 = 16_384;

    /// Slot `number`, if it exists.
    pub(crate) fn new(number: u16) -> Option<Self> {
        (number < Self::COUNT).then_some(Self(number))
    }

    /// Slot of `key`: the hash of the text within its first braces, unless that is empty (Redis Cluster specification,
    /// "Hash tags").
    pub(crate) fn of(key: &[u8]) -> Self {
        let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
            let rest = &key[open + 1..];
            let close = rest.iter().position(|&byte| byte == b'}')?;
            (close > 0).then(|| &rest[..close])
        });
        Self(CRC16.checksum(tag.unwrap_or(key)) % Self::COUNT)
    }

    /// Returns the number of the slot, from 0 to 16,383.
    pub(crate) fn number(self) -> u16 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_match_the_specification() {
        let slot = |key: &str| HashSlot::of(key.as_bytes()).number();
        assert_eq!(slot("123456789"), 0x31C3);
        // As CLUSTER KEYSLOT replies.
        assert_eq!(slot("foo"), 12_182);
        assert_eq!(slot("gcra.{foo}"), slot("request_rate_limiter.{foo}.tokens"));
        assert_eq!(slot("foo{}{bar}"), 8_363);
        assert_eq!(slot("foo{{bar}}zap"), slot("{bar"));
        assert_eq!(slot("foo{bar}{zap}"), slot("bar"));
        assert_ne!(slot("foo{bar"), slot("bar"));
    }
}
