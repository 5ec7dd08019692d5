//! Latest statistics of the Redis servers, and the warnings that follow from them.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tollgate_limiter::store::redis::{ServerInfo, StoreError};

/// Latest reply of each Redis server to `INFO`, by server name. Servers that did not reply are absent.
#[derive(Debug, Default)]
pub struct RedisServers(Mutex<BTreeMap<String, RedisServer>>);

/// Latest statistics of one server.
#[derive(Clone, Debug)]
pub struct RedisServer {
    /// Statistics of the server, or the error that it replied.
    pub info: InfoReply,
    /// Share of the server's CPU time that scripts took lately, from 0 to 1; `None` until two replies are known.
    pub script_share: Option<f64>,
    /// True if the server evicted keys between the last two replies.
    evicts: bool,
}

/// A server's reply to `INFO`.
pub type InfoReply = Result<ServerInfo, StoreError>;

/// A change in a server's state that is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ServerEvent {
    /// The eviction policy allows evicting counters.
    EvictionAllowed { policy: String },
    /// The eviction policy no longer allows it.
    EvictionDisabled,
    /// The server has started to evict keys: `keys` since the previous reply.
    EvictionStarted { keys: u64 },
    /// The server refuses `INFO`.
    InfoRefused(StoreError),
}

impl RedisServers {
    /// Latest statistics of each server.
    pub fn all(&self) -> BTreeMap<String, RedisServer> {
        self.0.lock().clone()
    }

    /// Replaces the statistics of all servers by `replies`, and logs what changed.
    pub(super) fn update(&self, replies: Vec<(String, InfoReply)>) {
        let before = std::mem::take(&mut *self.0.lock());
        let mut now = BTreeMap::new();
        for (name, info) in replies {
            let before = before.get(&name);
            for event in server_events(before, &info) {
                event.log(&name);
            }
            let both = before.and_then(|server| server.info.as_ref().ok()).zip(info.as_ref().ok());
            // An idle server used no CPU time: the previous share stays.
            let script_share = both.and_then(|(before, now)| now.script_share(before));
            let script_share = script_share.or_else(|| before.and_then(|server| server.script_share));
            let evicts = evicted_since(before, &info) > 0;
            now.insert(name, RedisServer { info, script_share, evicts });
        }
        *self.0.lock() = now;
    }
}

impl ServerEvent {
    fn log(&self, node: &str) {
        match self {
            Self::EvictionAllowed { policy } => tracing::warn!(
                %node,
                policy,
                "redis may evict counters, which resets limits: set `maxmemory-policy noeviction`"
            ),
            Self::EvictionDisabled => tracing::info!(%node, "redis no longer evicts counters"),
            Self::EvictionStarted { keys } => tracing::warn!(
                %node,
                keys,
                "redis evicts keys, which resets limits: raise `maxmemory`, or use a server for counters alone"
            ),
            Self::InfoRefused(kind) => tracing::warn!(
                %node,
                reason = kind.as_str(),
                error = %kind,
                "redis refuses INFO, `tollgate_redis_used_memory_bytes` and related metrics are missing: \
                 the redis user may lack the permission for INFO"
            ),
        }
    }
}

/// Events that `info` brings. For a server that was unknown before, every condition is an event.
fn server_events(before: Option<&RedisServer>, info: &InfoReply) -> Vec<ServerEvent> {
    let now = match info {
        Ok(now) => now,
        Err(kind) => {
            let was_refused = before.is_some_and(|before| before.info.as_ref().err() == Some(kind));
            return if was_refused { Vec::new() } else { vec![ServerEvent::InfoRefused(*kind)] };
        }
    };
    let mut events = Vec::new();
    let info_before = before.and_then(|before| before.info.as_ref().ok());
    let policy_before = info_before.filter(|before| before.may_evict()).map(|before| &before.maxmemory_policy);
    match &now.maxmemory_policy {
        Some(policy) if now.may_evict() && policy_before != Some(&now.maxmemory_policy) => {
            events.push(ServerEvent::EvictionAllowed { policy: policy.clone() });
        }
        _ if !now.may_evict() && policy_before.is_some() => events.push(ServerEvent::EvictionDisabled),
        _ => {}
    }
    let keys = evicted_since(before, info);
    if keys > 0 && before.is_some_and(|before| !before.evicts) {
        events.push(ServerEvent::EvictionStarted { keys });
    }
    events
}

/// Returns the number of keys evicted since the previous reply; 0 after a restart of the server.
fn evicted_since(before: Option<&RedisServer>, info: &InfoReply) -> u64 {
    let evicted = |info: &InfoReply| info.as_ref().ok()?.evicted_keys;
    let since = before.and_then(|before| evicted(info)?.checked_sub(evicted(&before.info)?));
    since.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(maxmemory: u64, policy: &str, evicted: u64) -> InfoReply {
        Ok(ServerInfo {
            maxmemory: Some(maxmemory),
            maxmemory_policy: Some(policy.into()),
            evicted_keys: Some(evicted),
            ..ServerInfo::default()
        })
    }

    fn events(before: &InfoReply, now: &InfoReply) -> Vec<ServerEvent> {
        server_events(Some(&RedisServer { info: before.clone(), script_share: None, evicts: false }), now)
    }

    #[test]
    fn an_eviction_policy_is_reported_once_and_after_each_change() {
        let lru = || vec![ServerEvent::EvictionAllowed { policy: "allkeys-lru".into() }];
        let good = info(1, "noeviction", 0);
        let bad = info(1, "allkeys-lru", 0);
        assert_eq!(server_events(None, &good), []);
        assert_eq!(server_events(None, &bad), lru());
        assert_eq!(events(&bad, &bad), []);
        assert_eq!(events(&good, &bad), lru());
        assert_eq!(events(&info(1, "volatile-ttl", 0), &bad), lru());
        assert_eq!(events(&info(0, "allkeys-lru", 0), &bad), lru());
        assert_eq!(events(&bad, &good), [ServerEvent::EvictionDisabled]);
        assert_eq!(events(&bad, &info(0, "allkeys-lru", 0)), [ServerEvent::EvictionDisabled]);
    }

    #[test]
    fn the_start_of_eviction_is_reported() {
        let at = |evicted| info(1, "noeviction", evicted);
        assert_eq!(server_events(None, &at(9)), [], "the eviction may have been long ago");
        assert_eq!(events(&at(9), &at(9)), []);
        assert_eq!(events(&at(9), &at(12)), [ServerEvent::EvictionStarted { keys: 3 }]);
        assert_eq!(
            server_events(Some(&RedisServer { info: at(9), script_share: None, evicts: true }), &at(12)),
            [],
            "the eviction continues"
        );
        assert_eq!(events(&at(9), &at(0)), [], "the server was restarted");
    }

    #[test]
    fn a_refused_info_is_reported_once() {
        let refused = Err(StoreError::Auth);
        assert_eq!(server_events(None, &refused), [ServerEvent::InfoRefused(StoreError::Auth)]);
        assert_eq!(events(&refused, &refused), []);
        assert_eq!(events(&info(1, "noeviction", 0), &refused), [ServerEvent::InfoRefused(StoreError::Auth)]);
        assert_eq!(events(&refused, &info(1, "noeviction", 0)), []);
    }

    #[test]
    fn a_server_without_a_reply_is_absent() {
        let servers = RedisServers::default();
        servers.update(vec![("a".into(), info(1, "noeviction", 0)), ("b".into(), info(1, "noeviction", 0))]);
        assert_eq!(servers.all().len(), 2);
        servers.update(vec![("b".into(), Err(StoreError::Auth))]);
        assert_eq!(servers.all().keys().collect::<Vec<_>>(), ["b"]);
    }
}
