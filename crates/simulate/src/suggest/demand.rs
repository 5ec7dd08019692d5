//! Smallest burst that each key needs at a few rates, in one pass over the requests.

use std::collections::HashMap;
use std::hash::BuildHasher as _;

use foldhash::fast::FixedState;

/// Refill rates that are tried, in tokens per minute: two per power of ten.
pub(super) const RATES: [u32; 8] = [6, 20, 60, 180, 600, 1_800, 6_000, 18_000];
/// One token in the unit of a level: `RATES` of them leak in a microsecond.
const TOKEN: u64 = 60_000_000;
/// Keys whose requests are measured, of all rules together: some 160 MB.
pub(super) const MAX_KEYS: usize = 1 << 20;
/// Keys that are named per rate.
const NAMED_KEYS: usize = 10;

/// Token buckets of one key, which never deny.
#[derive(Clone, Debug, Default)]
struct Buckets {
    last_us: u64,
    /// Tokens that are missing in the bucket of each rate.
    missing: [u64; RATES.len()],
    /// The most tokens that were missing: the smallest burst that denies no request of the key.
    needed: [u32; RATES.len()],
}

/// Key by name, with the smallest burst that denies none of its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedKey {
    pub(super) needed: u32,
    hash: u64,
    pub(super) name: Box<[u8]>,
}

/// Requests of the keys of one resolver on one route.
#[derive(Debug, Default)]
pub(super) struct Demand {
    pub(super) requests: u64,
    /// Requests of keys beyond the bound.
    pub(super) unmeasured: u64,
    index: HashMap<u64, u32, FixedState>,
    keys: Vec<Buckets>,
    /// Keys with the largest bursts by rate, in no order.
    largest: [Vec<NamedKey>; RATES.len()],
}

/// Limit of a token bucket, and what it would do to the clients of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    /// Tokens per minute.
    pub(super) per_minute: u32,
    pub(super) burst: u32,
    /// Keys with at least one denied request.
    pub(super) touched: usize,
    /// The first of them, with the largest need first.
    pub(super) neediest: Vec<NamedKey>,
}

impl Demand {
    /// Adds a request of `key` at `now_us`, which never decreases. `free_keys` is the number of keys that may be added.
    pub(super) fn add(&mut self, key: &[u8], now_us: u64, free_keys: &mut usize) {
        self.requests += 1;
        let hash = FixedState::default().hash_one(key);
        let position = match self.index.get(&hash) {
            Some(position) => *position as usize,
            None if *free_keys == 0 => {
                self.unmeasured += 1;
                return;
            }
            None => {
                *free_keys -= 1;
                let position = self.keys.len();
                self.index.insert(hash, u32::try_from(position).unwrap_or(u32::MAX));
                self.keys.push(Buckets { last_us: now_us, ..Buckets::default() });
                position
            }
        };
        let Some(buckets) = self.keys.get_mut(position) else { return };
        let elapsed_us = now_us.saturating_sub(std::mem::replace(&mut buckets.last_us, now_us));
        let tried = buckets.missing.iter_mut().zip(&mut buckets.needed).zip(RATES).zip(&mut self.largest);
        for (((missing, needed), rate), largest) in tried {
            *missing = missing.saturating_sub(elapsed_us.saturating_mul(rate.into())) + TOKEN;
            let now_needed = u32::try_from(missing.div_ceil(TOKEN)).unwrap_or(u32::MAX);
            if now_needed > *needed {
                *needed = now_needed;
                name_key(largest, now_needed, hash, key);
            }
        }
    }

    /// Returns the number of measured keys.
    pub(super) fn clients(&self) -> usize {
        self.keys.len()
    }

    /// Returns the tightest bucket that denies requests of at most `max_touched` keys. The tightest one admits the fewest
    /// requests of a key in a minute.
    pub(super) fn bucket(&self, max_touched: usize) -> Option<Bucket> {
        let buckets = (0..RATES.len()).filter_map(|at| self.bucket_at(at, max_touched));
        buckets.min_by_key(|bucket| u64::from(bucket.burst) + u64::from(bucket.per_minute))
    }

    /// Returns the smallest bucket with the rate at the position `at`.
    fn bucket_at(&self, at: usize, max_touched: usize) -> Option<Bucket> {
        let mut needed: Vec<u32> = self.keys.iter().filter_map(|buckets| buckets.needed.get(at).copied()).collect();
        let last = needed.len().checked_sub(1)?;
        let (_, burst, _) = needed.select_nth_unstable_by(max_touched.min(last), |a, b| b.cmp(a));
        let burst = *burst;
        let mut neediest: Vec<_> = self.largest.get(at)?.iter().filter(|key| key.needed > burst).cloned().collect();
        neediest.sort_unstable_by(|a, b| b.needed.cmp(&a.needed).then_with(|| a.name.cmp(&b.name)));
        let touched = needed.iter().filter(|needed| **needed > burst).count();
        Some(Bucket { per_minute: *RATES.get(at)?, burst, touched, neediest })
    }
}

/// Keeps `key` among the keys with the largest bursts.
fn name_key(largest: &mut Vec<NamedKey>, needed: u32, hash: u64, key: &[u8]) {
    if let Some(key) = largest.iter_mut().find(|key| key.hash == hash) {
        key.needed = needed;
    } else if largest.len() < NAMED_KEYS {
        largest.push(NamedKey { needed, hash, name: key.into() });
    } else if let Some(least) = largest.iter_mut().min_by_key(|key| key.needed)
        && least.needed < needed
    {
        *least = NamedKey { needed, hash, name: key.into() };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn demand(requests: &[(&str, u64)]) -> Demand {
        let (mut demand, mut free_keys) = (Demand::default(), MAX_KEYS);
        for (key, at_ms) in requests {
            demand.add(key.as_bytes(), at_ms * 1000, &mut free_keys);
        }
        demand
    }

    #[test]
    fn the_burst_of_a_rate_is_the_most_that_a_key_needed_at_once() {
        // Ten at once, then one every second.
        let mut requests: Vec<_> = (0..10).map(|_| ("a", 5_000)).collect();
        requests.extend((1..100).map(|second| ("a", 5_000 + second * 1_000)));
        let demand = demand(&requests);
        let bursts: Vec<_> = (0..RATES.len()).map(|at| demand.bucket_at(at, 0).unwrap().burst).collect();
        // 109 requests in 99 seconds, in which 9 tokens come at 6 a minute and 33 at 20.
        assert_eq!(bursts, [100, 76, 10, 10, 10, 10, 10, 10]);
        let tightest = demand.bucket(0).unwrap();
        assert_eq!((tightest.per_minute, tightest.burst, tightest.touched), (60, 10, 0));
    }

    #[test]
    fn the_clients_with_the_largest_bursts_are_touched_and_named() {
        let mut requests = Vec::new();
        let names: Vec<_> = (0..100).map(|client| format!("c{client:02}")).collect();
        for (client, name) in names.iter().enumerate() {
            requests.extend((0..=client / 10).map(|_| (name.as_str(), client as u64 * 100_000)));
        }
        let demand = demand(&requests);
        for (max, burst, touched) in [(0, 10, 0), (1, 10, 0), (9, 10, 0), (10, 9, 10), (25, 8, 20), (1000, 1, 90)] {
            let bucket = demand.bucket_at(7, max).unwrap();
            assert_eq!((bucket.burst, bucket.touched), (burst, touched), "{max}");
            assert_eq!(bucket.neediest.len(), touched.min(NAMED_KEYS));
            assert!(bucket.neediest.iter().all(|key| key.needed == 10 && key.name.starts_with(b"c9")));
        }
        assert!(Demand::default().bucket(0).is_none());
    }

    #[test]
    fn keys_beyond_the_bound_are_counted_and_not_measured() {
        let (mut demand, mut free_keys) = (Demand::default(), 2);
        for key in ["a", "b", "c", "a", "c"] {
            demand.add(key.as_bytes(), 0, &mut free_keys);
        }
        assert_eq!((demand.requests, demand.unmeasured, demand.clients()), (5, 2, 2));
    }
}
