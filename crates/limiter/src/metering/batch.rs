//! Batch: counts taken from the ledger at once, grouped by their hash in Redis, and the calls of `lua/request_counter.lua`
//! that add them.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::Counts;
use super::ledger::{Cell, split};
use crate::store::redis::{HashSlot, Script};

/// Script that adds a delta to a hash.
pub(super) static REQUEST_COUNTER: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../../lua/request_counter.lua")));

/// Time for which Redis stores the number of a sender's last batch. It is longer than [`RESEND_FOR`]. A sender is one
/// run of a process, and its numbers expire this long after it.
const REMEMBERED_FOR: Duration = Duration::from_secs(24 * 3_600);

/// Time after the first attempt within which a batch may be sent again. The remaining hour allows for clock drift.
pub(super) const RESEND_FOR: Duration = Duration::from_secs(23 * 3_600);

/// Largest increment that the script accepts.
const MAX_INCREMENT: u64 = 999_999_999_999_999_999;

/// Cells that are sent under one number.
#[derive(Debug)]
pub(super) struct Batch {
    /// Number of the batch; greater than that of the previous batch.
    pub(super) number: u64,
    /// Deltas that Redis has not confirmed yet.
    pub(super) deltas: Vec<Delta>,
    /// Time of the first attempt.
    pub(super) sent_at: Option<Instant>,
}

/// Counts that are added to one hash.
#[derive(Debug)]
pub(super) struct Delta {
    pub(super) name: Box<[u8]>,
    pub(super) ttl_secs: u64,
    /// Counts by the prefix of their fields.
    pub(super) fields: Vec<(Box<[u8]>, Counts)>,
    /// Number of cells in the delta.
    pub(super) cells: usize,
}

impl Batch {
    /// Creates batch `number` and merges cells of the same name into one delta.
    pub(super) fn new(number: u64, mut cells: Vec<(Box<[u8]>, Cell)>) -> Self {
        cells.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        let mut deltas: Vec<Delta> = Vec::new();
        for (key, cell) in &cells {
            let (name, field) = split(key);
            match deltas.last_mut() {
                Some(delta) if *delta.name == *name => delta.add(field, cell),
                _ => {
                    let mut delta = Delta { name: name.into(), ttl_secs: 1, fields: Vec::new(), cells: 0 };
                    delta.add(field, cell);
                    deltas.push(delta);
                }
            }
        }
        Self { number, deltas, sent_at: None }
    }

    /// Returns the number of cells not confirmed yet.
    pub(super) fn cells(&self) -> usize {
        self.deltas.iter().map(|delta| delta.cells).sum()
    }

    /// Returns the number of requests not confirmed yet.
    pub(super) fn requests(&self) -> u64 {
        self.deltas.iter().map(Delta::requests).sum()
    }
}

impl Delta {
    /// Adds a cell. Its field equals that of the last cell (from another shard) or follows it.
    fn add(&mut self, field: &[u8], cell: &Cell) {
        self.ttl_secs = self.ttl_secs.max(cell.ttl_secs);
        self.cells += 1;
        match self.fields.last_mut() {
            Some((last, counts)) if **last == *field => counts.add(&cell.counts),
            _ => self.fields.push((field.into(), cell.counts)),
        }
    }

    pub(super) fn requests(&self) -> u64 {
        self.fields.iter().map(|(_, counts)| counts.requests).sum()
    }
}

/// Result of one delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeltaOutcome {
    /// The counts are in Redis, from this call or an earlier one.
    Added,
    /// The counts cannot be added, because the key holds another type.
    Rejected,
}

/// Returns the calls that add `deltas` as batch `number` of `sender`, each with the hash slot of its keys. `prefix` stands
/// before the names.
pub(super) fn calls(prefix: &str, sender: &str, number: u64, deltas: &[Delta]) -> Vec<(HashSlot, Cmd)> {
    deltas.iter().map(|delta| (HashSlot::of(&delta.name), add(prefix, sender, number, delta))).collect()
}

fn add(prefix: &str, sender: &str, number: u64, delta: &Delta) -> Cmd {
    let name = [prefix.as_bytes(), &delta.name].concat();
    let marker = [&name, &b"."[..], sender.as_bytes()].concat();
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(REQUEST_COUNTER.sha1()).arg(2).arg(name).arg(marker);
    cmd.arg(number).arg(delta.ttl_secs).arg(REMEMBERED_FOR.as_secs());
    for (field, counts) in &delta.fields {
        for (what, count) in counts.named() {
            if count > 0 {
                cmd.arg([field, what.as_bytes()].concat()).arg(count.min(MAX_INCREMENT));
            }
        }
    }
    cmd
}

/// Parses the reply for a delta; `None` if it is invalid.
pub(super) fn delta_outcome(reply: &Value) -> Option<DeltaOutcome> {
    match reply {
        Value::Int(0 | 1) => Some(DeltaOutcome::Added),
        Value::Int(-1) => Some(DeltaOutcome::Rejected),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::metering::Counts;

    #[test]
    fn the_command_has_the_order_of_the_script_and_no_zeros() {
        let delta = Delta {
            name: (*b"request_counter.{r.a}.2026-11-21").into(),
            ttl_secs: 60,
            fields: vec![((*b"GET.").into(), Counts { requests: 3, bytes_in: 0, bytes_out: u64::MAX })],
            cells: 1,
        };
        let text = String::from_utf8(add("p:", "g", 7, &delta).get_packed_command()).unwrap();
        let args: Vec<&str> = text.split("\r\n").skip(2).step_by(2).collect();
        let (name, marker) = ("p:request_counter.{r.a}.2026-11-21", "p:request_counter.{r.a}.2026-11-21.g");
        let evalsha = ["EVALSHA", REQUEST_COUNTER.sha1(), "2", name, marker, "7", "60", "86400"];
        assert_eq!(args[..8], evalsha);
        assert_eq!(args[8..], ["GET.requests", "3", "GET.bytes_out", "999999999999999999"]);
    }

    #[test]
    fn replies_are_parsed_as_outcomes() {
        let outcomes = [1, 0, -1].map(|number| delta_outcome(&Value::Int(number)).unwrap());
        assert_eq!(outcomes, [DeltaOutcome::Added, DeltaOutcome::Added, DeltaOutcome::Rejected]);
        assert_eq!([Value::Int(2), Value::Nil].map(|reply| delta_outcome(&reply)), [None, None]);
    }
}
