//! One attempt: lock, read, decide, write and unlock, in two round trips.

use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisError, Value};

use super::plain_state::{self, Operation};
use crate::algorithm::Moment;
use crate::rule::Rule;
use crate::verdict::{Outcome, RuleVerdict};

/// Rules that are decided together: all take their cost, or none does.
pub(super) struct Transaction {
    pub(super) rules: Vec<LockedRule>,
    /// Key of the lock.
    pub(super) lock: Vec<u8>,
    pub(super) lock_ms: u64,
}

/// One rule of a transaction.
pub(super) struct LockedRule {
    pub(super) key: Vec<u8>,
    pub(super) rule: Rule,
    pub(super) operation: Operation,
}

/// Outcome of an attempt.
pub(super) enum AttemptOutcome {
    Decided(Vec<RuleVerdict>),
    /// Another request holds the lock, or changed a key before everything was written. Nothing was taken.
    Contended,
    /// The replies are invalid.
    InvalidReply,
}

/// A decided rule, and the commands that apply the decision.
type Decided = (RuleVerdict, Vec<Cmd>);

/// Makes one attempt as `owner`. A decision keeps its owner, and so a lock that is left from a write of it that failed.
///
/// The states are watched as well as the lock. So nothing overwrites a change made without the lock: by a script, or
/// after the lock expired. `EXEC` therefore enforces the limit; the lock keeps requests for one key from failing there in
/// turn.
pub(super) async fn attempt(
    connection: &mut impl ConnectionLike,
    transaction: &Transaction,
    owner: &str,
) -> Result<AttemptOutcome, RedisError> {
    let replies = 5 + transaction.rules.len();
    let mut replies = connection.req_packed_commands(&read(transaction, owner), 0, replies).await?.into_iter();
    let mut next = || replies.next().map_or(Ok(Value::Nil), Value::extract_error);
    let (_unwatched, _locked, _watched, holder, time) = (next()?, next()?, next()?, next()?, next()?);
    if holder != Value::BulkString(owner.as_bytes().to_vec()) {
        return Ok(AttemptOutcome::Contended);
    }
    let Ok((seconds, micros)) = redis::from_redis_value::<(u64, u64)>(time) else {
        return Ok(AttemptOutcome::InvalidReply);
    };
    let now = Moment::at(seconds.saturating_mul(1_000_000).saturating_add(micros));
    let mut decided = Vec::with_capacity(transaction.rules.len());
    for rule in &transaction.rules {
        // A value of another type counts as missing, and is replaced.
        let stored = next().unwrap_or(Value::Nil);
        let Some(of_rule) = plain_state::decide(&rule.rule, &rule.key, &stored, now, rule.operation) else {
            return Ok(AttemptOutcome::InvalidReply);
        };
        decided.push(of_rule);
    }
    let (rule_verdicts, write) = write(transaction, decided);
    let written: Value = write.query_async(connection).await?;
    Ok(if written == Value::Nil { AttemptOutcome::Contended } else { AttemptOutcome::Decided(rule_verdicts) })
}

/// Commands before the decision. They are pipelined, not atomic: `GET` behind `WATCH` tells which owner is watched.
fn read(transaction: &Transaction, owner: &str) -> Pipeline {
    let mut pipe = redis::pipe();
    pipe.cmd("UNWATCH");
    pipe.cmd("SET").arg(&transaction.lock).arg(owner).arg("NX").arg("PX").arg(transaction.lock_ms);
    pipe.cmd("WATCH").arg(&transaction.lock);
    for rule in &transaction.rules {
        pipe.arg(&rule.key);
    }
    pipe.cmd("GET").arg(&transaction.lock);
    pipe.cmd("TIME");
    for rule in &transaction.rules {
        if let Some(read) = plain_state::read(&rule.rule, &rule.key) {
            pipe.add_command(read);
        }
    }
    pipe
}

/// Verdicts, and the transaction that applies and unlocks.
fn write(transaction: &Transaction, decided: Vec<Decided>) -> (Vec<RuleVerdict>, Pipeline) {
    let admitted = decided.iter().all(|(rule_verdict, _)| rule_verdict.outcome == Outcome::Allowed);
    let mut pipe = redis::pipe();
    pipe.atomic();
    let mut rule_verdicts = Vec::with_capacity(decided.len());
    for ((mut rule_verdict, write), rule) in decided.into_iter().zip(&transaction.rules) {
        let applies = admitted || rule_verdict.outcome != Outcome::Allowed;
        if applies {
            write.into_iter().for_each(|command| {
                pipe.add_command(command);
            });
        } else if let Operation::Decide { cost } = rule.operation {
            rule_verdict.remaining += cost;
        }
        rule_verdicts.push(rule_verdict);
    }
    pipe.cmd("DEL").arg(&transaction.lock);
    (rule_verdicts, pipe)
}
