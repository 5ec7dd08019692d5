//! Merge of sketches: the sums of their counts.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::top_keys::{KeyCount, RuleName, SketchTop, WorkerTop};

/// Most frequent keys of all workers.
#[derive(Debug, Default)]
pub struct Top {
    /// Time that the counts cover.
    pub covered: Duration,
    /// True if every worker answered.
    pub is_complete: bool,
    /// Rules with events, those with the most first.
    pub rules: Vec<RuleTop>,
}

/// Most frequent keys of one rule.
#[derive(Debug)]
pub struct RuleTop {
    /// The rule.
    pub name: RuleName,
    /// Events of all its keys.
    pub total: u64,
    /// Keys with the highest certain counts (`count - error`) first.
    pub keys: Vec<KeyCount>,
}

/// Merges the responses of workers, `limit` keys for each rule.
///
/// A key that a sketch does not list may have as many events as that sketch's lowest listed count. The sum adds that to
/// the count and to its error, so the count stays an upper bound (Agarwal et al., "Mergeable Summaries", PODS 2012).
pub(super) fn merge(of_workers: Vec<WorkerTop>, workers: usize, limit: usize) -> Top {
    let is_complete = of_workers.len() == workers;
    let covered = of_workers.iter().map(|top| top.covered).max().unwrap_or_default();
    let mut by_rule: BTreeMap<RuleName, Vec<SketchTop>> = BTreeMap::new();
    for sketch in of_workers.into_iter().flat_map(|top| top.sketches) {
        by_rule.entry(sketch.name.clone()).or_default().push(sketch);
    }
    let mut rules: Vec<RuleTop> =
        by_rule.into_iter().map(|(name, sketches)| merge_rule(name, sketches, limit)).collect();
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.total));
    Top { covered, is_complete, rules }
}

/// Kept bytes of a key id, true if it is cut, and the hash of the whole id.
type KeyName = (Box<[u8]>, bool, u64);

fn merge_rule(name: RuleName, sketches: Vec<SketchTop>, limit: usize) -> RuleTop {
    let total = sketches.iter().map(|sketch| sketch.total).sum();
    let others: u64 = sketches.iter().map(|sketch| sketch.others).sum();
    let mut sums: HashMap<KeyName, (u64, u64)> = HashMap::new();
    for sketch in sketches {
        for KeyCount { key, is_cut, hash, count, error } in sketch.keys {
            let (sum, errors) = sums.entry((key, is_cut, hash)).or_insert((others, others));
            *sum = sum.saturating_sub(sketch.others) + count;
            *errors = errors.saturating_sub(sketch.others) + error;
        }
    }
    let key = |((key, is_cut, hash), (count, error))| KeyCount { key, is_cut, hash, count, error };
    let mut keys: Vec<KeyCount> = sums.into_iter().map(key).collect();
    keys.sort_unstable_by(|a, b| {
        let certain = |key: &KeyCount| key.count.saturating_sub(key.error);
        certain(b).cmp(&certain(a)).then(b.count.cmp(&a.count)).then_with(|| (&a.key, a.hash).cmp(&(&b.key, b.hash)))
    });
    keys.truncate(limit);
    RuleTop { name, total, keys }
}
