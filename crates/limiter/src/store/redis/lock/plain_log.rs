//! Sliding window log, read and written without a script: a sorted set with one member per request.

use redis::{Cmd, Value};

use super::plain_state::PlainState;
use crate::algorithm::Algorithm;
use crate::algorithm::sliding_window_log::{Entry, Log, StoredEntry};
use crate::rule::{MAX_SAFE_INTEGER, SlidingWindowLog};

impl PlainState for SlidingWindowLog {
    fn read(&self, key: &[u8]) -> Cmd {
        command("ZRANGE", key, |cmd| cmd.arg(0).arg(-1).arg("WITHSCORES"))
    }

    fn parse(&self, reply: &Value) -> Option<Log> {
        let members: Vec<(String, f64)> = redis::from_redis_value_ref(reply).ok()?;
        let (windows, entries) = members.split_at(members.partition_point(|(_, at)| *at <= 0.0));
        let entries: Option<Vec<_>> = entries.iter().map(|(member, at)| stored_entry(member, *at)).collect();
        Log::from_stored(windows.iter().map(|(window, _)| window.as_str()), &entries?)
    }

    /// Removes and adds the members that differ.
    fn write(&self, key: &[u8], before: Option<Log>, change: Entry, now_us: u64) -> Vec<Cmd> {
        let (old_windows, old) = before.as_ref().map(Log::to_stored).unwrap_or_default();
        let log = Self::apply(before, change);
        let (new_windows, new) = log.to_stored();
        let first = new.first();
        let dropped = old.iter().take_while(|entry| first.is_none_or(|first| entry.at_us < first.at_us)).count();
        let kept = old[dropped..].iter().zip(&new).take_while(|(old, new)| old == new).count();
        let mut commands = Vec::with_capacity(4);
        // An invalid state counts as missing, and is replaced.
        if old.is_empty() {
            commands.push(command("DEL", key, |cmd| cmd));
        }
        if dropped + kept < old.len() {
            commands.push(command("ZREMRANGEBYRANK", key, |cmd| cmd.arg(old_windows.len() + dropped + kept).arg(-1)));
        }
        let replaces_windows = old_windows != new_windows;
        let leading = if replaces_windows { old_windows.len() + dropped } else { 0 };
        if leading > 0 {
            commands.push(command("ZREMRANGEBYRANK", key, |cmd| cmd.arg(0).arg(leading - 1)));
        } else if dropped > 0 {
            let from = old_windows.len();
            commands.push(command("ZREMRANGEBYRANK", key, |cmd| cmd.arg(from).arg(from + dropped - 1)));
        }
        let windows = if replaces_windows { &new_windows[..] } else { &[] };
        if kept < new.len() || !windows.is_empty() {
            commands.push(command("ZADD", key, |cmd| {
                let cmd = windows.iter().fold(cmd, |cmd, window| cmd.arg(0).arg(window));
                new[kept..]
                    .iter()
                    .fold(cmd, |cmd, entry| cmd.arg(entry.at_us).arg(format!("{}:{}", entry.before, entry.count)))
            }));
        }
        let kept_ms = log.kept_us(now_us, self.window_us()) / 1_000;
        commands.push(command("PEXPIRE", key, |cmd| cmd.arg(kept_ms + 1_000)));
        commands
    }
}

fn command(name: &str, key: &[u8], with: impl FnOnce(&mut Cmd) -> &mut Cmd) -> Cmd {
    let mut cmd = redis::cmd(name);
    with(cmd.arg(key));
    cmd
}

fn stored_entry(member: &str, at: f64) -> Option<StoredEntry> {
    let (before, count) = member.split_once(':')?;
    let in_range = (0.0..=MAX_SAFE_INTEGER as f64).contains(&at);
    let number = |text: &str| text.parse().ok().filter(|&number| number <= MAX_SAFE_INTEGER);
    in_range.then_some(StoredEntry { at_us: at as u64, before: number(before)?, count: number(count)? })
}
