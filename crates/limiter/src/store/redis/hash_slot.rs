//! In which slot of Redis Cluster a key is.

use crc::{CRC_16_XMODEM, Crc};

const CRC16: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// One of the 16,384 slots among which the nodes of a cluster share the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HashSlot(u16);

impl HashSlot {
    /// How many there are.
    pub(crate) const COUNT: u16 = 16_384;

    /// The slot of that number, if there is one.
    pub(crate) fn new(number: u16) -> Option<Self> {
        (number < Self::COUNT).then_some(Self(number))
    }

    /// The slot of `key`: of what is within its first braces, unless that is nothing (Redis Cluster specification,
    /// "Hash tags").
    pub(crate) fn of(key: &[u8]) -> Self {
        let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
            let rest = &key[open + 1..];
            let close = rest.iter().position(|&byte| byte == b'}')?;
            (close > 0).then(|| &rest[..close])
        });
        Self(CRC16.checksum(tag.unwrap_or(key)) % Self::COUNT)
    }

    /// Its number.
    pub(crate) fn number(self) -> u16 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        let slot = |key: &str| HashSlot::of(key.as_bytes()).number();
        assert_eq!(slot("123456789"), 0x31C3);
        // CLUSTER KEYSLOT says so.
        assert_eq!(slot("foo"), 12_182);
        assert_eq!(slot("gcra.{foo}"), slot("request_rate_limiter.{foo}.tokens"));
        assert_eq!(slot("foo{}{bar}"), 8_363);
        assert_eq!(slot("foo{{bar}}zap"), slot("{bar"));
        assert_eq!(slot("foo{bar}{zap}"), slot("bar"));
        assert_ne!(slot("foo{bar"), slot("bar"));
    }
}
