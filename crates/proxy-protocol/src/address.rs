//! Addresses and ports in text.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::v1::Line;

/// Groups of an IPv6 address.
const GROUPS: usize = 8;

impl Line<'_> {
    /// Skips `byte`.
    pub(crate) fn skip(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    /// Reads a port.
    pub(crate) fn port(&mut self) -> Option<u16> {
        self.decimal()?.try_into().ok()
    }

    /// Reads four numbers with points between.
    pub(crate) fn ipv4(&mut self) -> Option<Ipv4Addr> {
        let mut octets = [0; 4];
        for (index, octet) in octets.iter_mut().enumerate() {
            if index > 0 {
                self.skip(b'.')?;
            }
            *octet = self.decimal()?.try_into().ok()?;
        }
        Some(octets.into())
    }

    /// Reads groups with colons between. `::` stands for at least one group of zeros, and an IPv4 address for the last two groups.
    pub(crate) fn ipv6(&mut self) -> Option<Ipv6Addr> {
        let (mut groups, mut count, mut gap) = ([0; GROUPS], 0, None);
        loop {
            if gap.is_none() && self.0.starts_with(b"::") {
                (self.0, gap) = (&self.0[2..], Some(count));
            } else if count > 0 && gap != Some(count) {
                // The address ends, unless another group follows.
                match self.0 {
                    [b':', ..] if count < GROUPS => self.0 = &self.0[1..],
                    _ => break,
                }
            }
            let (mut group, mut digits) = (0, 0);
            while let Some(digit) = self.0.get(digits).and_then(|byte| char::from(*byte).to_digit(16)) {
                group = group << 4 | digit;
                digits += 1;
            }
            if self.0.get(digits) == Some(&b'.') && count <= GROUPS - 2 {
                let [a, b, c, d] = self.ipv4()?.octets();
                groups[count] = u16::from_be_bytes([a, b]);
                groups[count + 1] = u16::from_be_bytes([c, d]);
                count += 2;
                break;
            }
            match digits {
                0 if gap == Some(count) => break,
                1..=4 if count < GROUPS => groups[count] = u16::try_from(group).ok()?,
                _ => return None,
            }
            self.0 = &self.0[digits..];
            count += 1;
        }
        match gap {
            Some(at) if count < GROUPS => {
                groups[at..].rotate_right(GROUPS - count);
                Some(groups.into())
            }
            None if count == GROUPS => Some(groups.into()),
            _ => None,
        }
    }

    /// Reads a number of at most five digits, without a sign and without leading zeros.
    fn decimal(&mut self) -> Option<u32> {
        let (mut value, mut length) = (0, 0);
        while let Some(digit @ b'0'..=b'9') = self.0.get(length) {
            value = value * 10 + u32::from(digit - b'0');
            length += 1;
            if length > 5 {
                return None;
            }
        }
        let is_canonical = length == 1 || length > 1 && self.0[0] != b'0';
        self.0 = &self.0[length..];
        is_canonical.then_some(value)
    }
}
