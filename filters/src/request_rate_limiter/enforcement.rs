//! For whom a rule is held to, and for whom it only looks.

/// Whether a rule denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// It is not asked at all (`mode: off`).
    Off,
    /// It denies so many of 10,000 keys, always the same ones; for the others it is decided and reported, but the
    /// request goes on. 0 is `mode: observe`.
    Keys(u16),
}

/// What becomes of one key under a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Enforced,
    Observed,
}

impl Enforcement {
    /// Denies everybody that is over the limit (`mode: enforce`).
    pub const FULL: Self = Self::Keys(ALL);
    /// Denies nobody (`mode: observe`).
    pub const OBSERVE: Self = Self::Keys(0);

    /// The weaker of the two: of a filter and of a rule in it.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Keys(a), Self::Keys(b)) => Self::Keys(a.min(b)),
            _ => Self::Off,
        }
    }

    /// Whether it denies every key.
    pub(super) fn is_full(self) -> bool {
        self == Self::FULL
    }

    /// What it says of the key `id`. All gateways say the same.
    #[inline]
    pub(super) fn part(self, id: &[u8]) -> Option<Part> {
        match self {
            Self::FULL => Some(Part::Enforced),
            Self::Off => None,
            Self::Keys(0) => Some(Part::Observed),
            Self::Keys(share) if draw(id) < share => Some(Part::Enforced),
            Self::Keys(_) => Some(Part::Observed),
        }
    }
}

const ALL: u16 = 10_000;

/// A number below 10,000 that depends on `id` alone: FNV-1a (64 bit), its bits mixed by the finaliser of MurmurHash3.
fn draw(id: &[u8]) -> u16 {
    let mut hash = id
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    ((hash ^ (hash >> 33)) % u64::from(ALL)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_keys_is_enforced_and_stays_in_it_as_it_grows() {
        let keys: Vec<String> = (0..20_000).map(|n| format!("user-{n}")).collect();
        let enforced = |share: u16| {
            let holds = |key: &&String| Enforcement::Keys(share).part(key.as_bytes()) == Some(Part::Enforced);
            keys.iter().filter(holds).collect::<Vec<_>>()
        };
        let (tenth, half) = (enforced(1_000), enforced(5_000));
        assert!((1_800..2_200).contains(&tenth.len()), "{}", tenth.len());
        assert!((9_700..10_300).contains(&half.len()), "{}", half.len());
        assert!(tenth.iter().all(|key| half.contains(key)));
        assert_eq!((enforced(0).len(), enforced(10_000).len()), (0, keys.len()));
    }

    #[test]
    fn a_key_draws_the_same_number_in_every_gateway() {
        // Fixed for ever: gateways of different versions stand side by side.
        assert_eq!([&b""[..], b"alice", b"10.0.0.1"].map(draw), [4342, 7236, 1640]);
    }

    #[test]
    fn the_weaker_holds() {
        assert_eq!(Enforcement::FULL.and(Enforcement::OBSERVE), Enforcement::OBSERVE);
        assert_eq!(Enforcement::FULL.and(Enforcement::Keys(70)), Enforcement::Keys(70));
        assert_eq!(Enforcement::OBSERVE.and(Enforcement::Off), Enforcement::Off);
    }
}
