//! One try: lock, read, decide, write and unlock, in two round trips.

use redis::aio::ConnectionLike;
use redis::{Pipeline, RedisError, Value};

use super::window::{self, Ask};
use crate::algorithm::Moment;
use crate::rule::Rule;
use crate::verdict::{Outcome, RuleVerdict};

/// What is to be decided: all of it, or nothing is taken.
pub(super) struct Job {
    pub(super) parts: Vec<Part>,
    /// Held while the parts are decided.
    pub(super) lock: Vec<u8>,
    pub(super) lock_ms: u64,
}

/// One rule of a job.
pub(super) struct Part {
    pub(super) key: Vec<u8>,
    pub(super) rule: Rule,
    pub(super) ask: Ask,
}

/// What came of a try.
pub(super) enum Outcomes {
    Decided(Vec<RuleVerdict>),
    /// Somebody else has the lock, or had it before everything was written. Nothing was taken.
    Contended,
    /// The answers make no sense.
    Nonsense,
}

/// Tries once, as `owner`.
///
/// The states are watched beside the lock, so that nothing is written over a change that somebody made without the
/// lock: with a script, or because the lock had expired. What holds the bound is therefore `EXEC`; the lock keeps those
/// who want the same key from failing there in turn.
pub(super) async fn attempt(
    connection: &mut impl ConnectionLike,
    job: &Job,
    owner: &str,
) -> Result<Outcomes, RedisError> {
    let mut replies = connection.req_packed_commands(&reading(job, owner), 0, 5 + job.parts.len()).await?.into_iter();
    let mut next = || replies.next().map_or(Ok(Value::Nil), Value::extract_error);
    let (_unwatched, locked, _watched, holder, time) = (next()?, next()?, next()?, next()?, next()?);
    if locked == Value::Nil || holder != Value::BulkString(owner.as_bytes().to_vec()) {
        return Ok(Outcomes::Contended);
    }
    let Ok((seconds, micros)) = redis::from_redis_value::<(u64, u64)>(time) else { return Ok(Outcomes::Nonsense) };
    let now = Moment::at(seconds.saturating_mul(1_000_000).saturating_add(micros));
    let mut decided = Vec::with_capacity(job.parts.len());
    for part in &job.parts {
        // A value of another type counts as missing, and is replaced.
        let state = next().unwrap_or(Value::Nil);
        let Some(of_part) = window::decide(&part.rule, &part.key, &state, now, part.ask) else {
            return Ok(Outcomes::Nonsense);
        };
        decided.push(of_part);
    }
    let (answers, writing) = conclude(job, decided);
    let written: Value = writing.query_async(connection).await?;
    Ok(if written == Value::Nil { Outcomes::Contended } else { Outcomes::Decided(answers) })
}

/// Everything up to the decision. Pipelined, not atomic: `GET` behind `WATCH` says whose lock is watched.
fn reading(job: &Job, owner: &str) -> Pipeline {
    let mut pipe = redis::pipe();
    pipe.cmd("UNWATCH");
    pipe.cmd("SET").arg(&job.lock).arg(owner).arg("NX").arg("PX").arg(job.lock_ms);
    pipe.cmd("WATCH").arg(&job.lock);
    for part in &job.parts {
        pipe.arg(&part.key);
    }
    pipe.cmd("GET").arg(&job.lock);
    pipe.cmd("TIME");
    for part in &job.parts {
        if let Some(read) = window::read(&part.rule, &part.key) {
            pipe.add_command(read);
        }
    }
    pipe
}

/// The answers, and the transaction that makes them true and unlocks.
fn conclude(job: &Job, decided: Vec<(RuleVerdict, Option<redis::Cmd>)>) -> (Vec<RuleVerdict>, Pipeline) {
    let admitted = decided.iter().all(|(answer, _)| answer.outcome == Outcome::Allowed);
    let mut writing = redis::pipe();
    writing.atomic();
    let mut answers = Vec::with_capacity(decided.len());
    for ((mut answer, write), part) in decided.into_iter().zip(&job.parts) {
        let takes = admitted || answer.outcome != Outcome::Allowed;
        match (takes, write, part.ask) {
            (true, Some(write), _) => {
                writing.add_command(write);
            }
            (false, _, Ask::Decide { cost }) => answer.remaining += cost,
            _ => {}
        }
        answers.push(answer);
    }
    writing.cmd("DEL").arg(&job.lock);
    (answers, writing)
}
