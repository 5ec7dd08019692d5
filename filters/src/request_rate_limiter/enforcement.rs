//! Enforcement of a rule: all keys, a share of them, or observation only.

/// Enforcement of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// The rule is not checked (`mode: off`).
    Off,
    /// The rule denies this many of 10,000 keys, always the same ones. For other keys, the verdict is reported and the
    /// request is forwarded. 0 is `mode: observe`.
    PerTenThousand(u16),
}

/// Stage of the evaluation in which a rule is checked for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Enforced,
    Observed,
}

impl Enforcement {
    /// Denies every key that is over the limit (`mode: enforce`).
    pub const FULL: Self = Self::PerTenThousand(ALL_KEYS);
    /// Denies no key (`mode: observe`).
    pub const OBSERVE: Self = Self::PerTenThousand(0);

    /// Returns the weaker of the two, such as of a filter and of a rule in it.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::PerTenThousand(a), Self::PerTenThousand(b)) => Self::PerTenThousand(a.min(b)),
            (Self::Off, _) | (_, Self::Off) => Self::Off,
        }
    }

    /// Returns true if the rule is checked for the key `id` without denying it.
    #[must_use]
    pub fn observes(self, id: &[u8]) -> bool {
        self.stage_for(id) == Some(Stage::Observed)
    }

    /// Returns true if the rule denies a key. Then it also refuses requests that have no key, or that are blocked: an
    /// enforced key that omits itself must not pass.
    #[must_use]
    pub fn denies_any(self) -> bool {
        !matches!(self, Self::Off | Self::OBSERVE)
    }

    /// Returns the stage for the key `id`, the same in every gateway; `None` if the rule is off. The empty id, which requests
    /// without a key share, is always enforced.
    #[inline]
    pub(super) fn stage_for(self, id: &[u8]) -> Option<Stage> {
        match self {
            Self::FULL => Some(Stage::Enforced),
            Self::Off => None,
            Self::PerTenThousand(0) => Some(Stage::Observed),
            Self::PerTenThousand(share) if id.is_empty() || bucket_of(id) < share => Some(Stage::Enforced),
            Self::PerTenThousand(_) => Some(Stage::Observed),
        }
    }
}

const ALL_KEYS: u16 = 10_000;

/// Hashes `id` to a number below 10,000: FNV-1a (64 bit), its bits mixed by the finaliser of MurmurHash3.
fn bucket_of(id: &[u8]) -> u16 {
    let mut hash = id
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    ((hash ^ (hash >> 33)) % u64::from(ALL_KEYS)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_a_share_stay_in_it_as_it_grows() {
        let keys: Vec<String> = (0..20_000).map(|n| format!("user-{n}")).collect();
        let enforced = |share: u16| {
            let holds =
                |key: &&String| Enforcement::PerTenThousand(share).stage_for(key.as_bytes()) == Some(Stage::Enforced);
            keys.iter().filter(holds).collect::<Vec<_>>()
        };
        let (tenth, half) = (enforced(1_000), enforced(5_000));
        assert!((1_800..2_200).contains(&tenth.len()), "{}", tenth.len());
        assert!((9_700..10_300).contains(&half.len()), "{}", half.len());
        assert!(tenth.iter().all(|key| half.contains(key)));
        assert_eq!((enforced(0).len(), enforced(10_000).len()), (0, keys.len()));
        assert_eq!(Enforcement::PerTenThousand(1).stage_for(b""), Some(Stage::Enforced), "requests without a key");
    }

    #[test]
    fn a_key_has_the_same_hash_in_every_gateway() {
        // These never change: gateways of different versions run side by side.
        assert_eq!([&b""[..], b"alice", b"10.0.0.1"].map(bucket_of), [4342, 7236, 1640]);
    }

    #[test]
    fn the_weaker_enforcement_wins() {
        assert_eq!(Enforcement::FULL.and(Enforcement::OBSERVE), Enforcement::OBSERVE);
        assert_eq!(Enforcement::FULL.and(Enforcement::PerTenThousand(70)), Enforcement::PerTenThousand(70));
        assert_eq!(Enforcement::OBSERVE.and(Enforcement::Off), Enforcement::Off);
    }
}
