//! What the servers say of themselves, every ten seconds, and what an operator should know of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;
use tollgate_limiter::store::redis::{ServerInfo, StoreError};

use crate::state::stores::SharedLimits;

/// How often servers are asked: often enough for a chart, and 10 KB each that they must write.
const EVERY: Duration = Duration::from_secs(10);

/// How often it is looked whether there is a server to ask.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What the servers said last, by their names. Those that did not answer are not among them.
#[derive(Debug, Default)]
pub struct Servers(Mutex<BTreeMap<String, Server>>);

/// What one server said last.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its figures; the reason where it keeps them to itself.
    pub told: Told,
    /// The share of its processor time that scripts took lately, from 0 to 1; `None` until it is known.
    pub script_share: Option<f64>,
    /// It has dropped keys since it was asked before.
    evicts: bool,
}

/// A server's figures, or why it does not give them.
type Told = Result<ServerInfo, StoreError>;

/// What an operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Remark {
    /// It may drop counters to make room.
    MayEvict { policy: String },
    /// It no longer may.
    EvictsNoMore,
    /// It has begun to drop keys: so many since it was asked last.
    Evicts { keys: u64 },
    /// It does not say how it is.
    Refuses(StoreError),
}

/// Asks the servers again and again.
pub(super) async fn look(limits: Arc<SharedLimits>) {
    loop {
        let told = match limits.redis_client() {
            Some(client) => {
                client.wait_attempted(LOOK_EVERY).await;
                client.info().await
            }
            None => Vec::new(),
        };
        let pause = if told.is_empty() { LOOK_EVERY } else { EVERY };
        limits.servers().learn(told);
        sleep(pause).await;
    }
}

impl Servers {
    /// What each said last.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, Server> {
        self.0.lock().clone()
    }

    /// Takes the place of what they said before.
    fn learn(&self, told: Vec<(String, Told)>) {
        let before = std::mem::take(&mut *self.0.lock());
        let mut now = BTreeMap::new();
        for (name, told) in told {
            let before = before.get(&name);
            for remark in remarks(before, &told) {
                remark.log(&name);
            }
            let known = before.and_then(|server| server.told.as_ref().ok()).zip(told.as_ref().ok());
            // One that was idle says nothing new.
            let script_share = known.and_then(|(before, now)| now.script_share(before));
            let script_share = script_share.or_else(|| before.and_then(|server| server.script_share));
            let evicts = evicted(before, &told) > 0;
            now.insert(name, Server { told, script_share, evicts });
        }
        *self.0.lock() = now;
    }
}

impl Remark {
    fn log(&self, redis: &str) {
        match self {
            Self::MayEvict { policy } => tracing::warn!(
                %redis,
                policy,
                "redis may drop counters to make room, and who was limited starts afresh: set `maxmemory-policy noeviction`"
            ),
            Self::EvictsNoMore => tracing::info!(%redis, "redis drops no counters to make room any more"),
            Self::Evicts { keys } => tracing::warn!(
                %redis,
                keys,
                "redis drops keys to make room, and counters with them: give it more memory, or a server to counters alone"
            ),
            Self::Refuses(kind) => tracing::warn!(
                %redis,
                kind = kind.as_str(),
                "redis does not say how it is: for `tollgate_redis_used_memory_bytes` and the like the user must be allowed INFO"
            ),
        }
    }
}

/// What is news: of a server that was not known before, whatever an operator should know.
fn remarks(before: Option<&Server>, told: &Told) -> Vec<Remark> {
    let now = match told {
        Ok(now) => now,
        Err(kind) => {
            let known = before.is_some_and(|before| before.told.as_ref().err() == Some(kind));
            return if known { Vec::new() } else { vec![Remark::Refuses(*kind)] };
        }
    };
    let mut remarks = Vec::new();
    let info_before = before.and_then(|before| before.told.as_ref().ok());
    let policy_before = info_before.filter(|before| before.may_evict()).map(|before| &before.maxmemory_policy);
    match &now.maxmemory_policy {
        Some(policy) if now.may_evict() && policy_before != Some(&now.maxmemory_policy) => {
            remarks.push(Remark::MayEvict { policy: policy.clone() });
        }
        _ if !now.may_evict() && policy_before.is_some() => remarks.push(Remark::EvictsNoMore),
        _ => {}
    }
    let keys = evicted(before, told);
    if keys > 0 && before.is_some_and(|before| !before.evicts) {
        remarks.push(Remark::Evicts { keys });
    }
    remarks
}

/// How many keys it has dropped since it was asked before.
fn evicted(before: Option<&Server>, told: &Told) -> u64 {
    let evicted = |told: &Told| told.as_ref().ok()?.evicted_keys;
    let since = before.and_then(|before| evicted(told)?.checked_sub(evicted(&before.told)?));
    since.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(maxmemory: u64, policy: &str, evicted: u64) -> Told {
        Ok(ServerInfo {
            maxmemory: Some(maxmemory),
            maxmemory_policy: Some(policy.into()),
            evicted_keys: Some(evicted),
            ..ServerInfo::default()
        })
    }

    fn news(before: &Told, now: &Told) -> Vec<Remark> {
        remarks(Some(&Server { told: before.clone(), script_share: None, evicts: false }), now)
    }

    #[test]
    fn an_operator_is_told_of_a_policy_that_drops_counters_once_and_of_each_change() {
        let lru = || vec![Remark::MayEvict { policy: "allkeys-lru".into() }];
        let good = told(1, "noeviction", 0);
        let bad = told(1, "allkeys-lru", 0);
        assert_eq!(remarks(None, &good), []);
        assert_eq!(remarks(None, &bad), lru());
        assert_eq!(news(&bad, &bad), []);
        assert_eq!(news(&good, &bad), lru());
        assert_eq!(news(&told(1, "volatile-ttl", 0), &bad), lru());
        assert_eq!(news(&told(0, "allkeys-lru", 0), &bad), lru());
        assert_eq!(news(&bad, &good), [Remark::EvictsNoMore]);
        assert_eq!(news(&bad, &told(0, "allkeys-lru", 0)), [Remark::EvictsNoMore]);
    }

    #[test]
    fn an_operator_is_told_when_a_server_begins_to_drop_keys() {
        let at = |evicted| told(1, "noeviction", evicted);
        assert_eq!(remarks(None, &at(9)), [], "that may have been long ago");
        assert_eq!(news(&at(9), &at(9)), []);
        assert_eq!(news(&at(9), &at(12)), [Remark::Evicts { keys: 3 }]);
        assert_eq!(remarks(Some(&Server { told: at(9), script_share: None, evicts: true }), &at(12)), [], "it goes on");
        assert_eq!(news(&at(9), &at(0)), [], "it was restarted");
    }

    #[test]
    fn a_server_that_keeps_its_figures_to_itself_is_named_once() {
        let refused = Err(StoreError::Auth);
        assert_eq!(remarks(None, &refused), [Remark::Refuses(StoreError::Auth)]);
        assert_eq!(news(&refused, &refused), []);
        assert_eq!(news(&told(1, "noeviction", 0), &refused), [Remark::Refuses(StoreError::Auth)]);
        assert_eq!(news(&refused, &told(1, "noeviction", 0)), []);
    }

    #[test]
    fn a_server_that_does_not_answer_has_no_figures() {
        let servers = Servers::default();
        servers.learn(vec![("a".into(), told(1, "noeviction", 0)), ("b".into(), told(1, "noeviction", 0))]);
        assert_eq!(servers.all().len(), 2);
        servers.learn(vec![("b".into(), Err(StoreError::Auth))]);
        assert_eq!(servers.all().keys().collect::<Vec<_>>(), ["b"]);
    }
}
