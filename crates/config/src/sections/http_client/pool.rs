//! `httpclient.pool`.

use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;

use crate::de::defaults::{Or, Word, secs};
use crate::de::ranged::PositiveTime;
use crate::de::spanned::Spanned;
use crate::de::units::Time;
use crate::diagnostics::Diagnostics;
use crate::sections::no_effect;
use crate::yaml::Span;

/// Connection pool.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawPool {
    /// `elastic` has no bound of connections, `fixed` has `max-connections`, `disabled` uses one per request.
    #[serde(rename = "type")]
    kind: Option<Spanned<Word<RawPoolType>>>,
    /// Upper bound of connections of a `fixed` pool to one target, divided evenly among the workers. Default: twice the cores, at least 16, as in Spring.
    max_connections: Option<Spanned<NonZeroUsize>>,
    /// Time for which a request waits for a connection of a `fixed` pool, or for a stream of one, before it gets 503. Default {}, as in Spring.
    acquire_timeout: Option<Spanned<AcquireTimeout>>,
    /// Time after which an idle connection is closed. Default {}, less than the 75s common with upstreams.
    max_idle_time: Or<PositiveTime, { secs(60) }>,
    /// Idle connections per worker and target.
    max_idle: Option<Or<usize, 512>>,
    /// Age after which a connection serves no new request. Default: none.
    max_life_time: Option<PositiveTime>,
    /// Order in which idle connections are used: `lifo`, the most recently used first, or `fifo`. Default {}, which lets connections of a burst time out.
    leasing_strategy: Word<Leasing>,
    name: Option<Spanned<String>>,
    eviction_interval: Option<Spanned<Time>>,
    metrics: Option<Spanned<bool>>,
}

/// Bound of the number of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RawPoolType {
    /// No bound.
    #[default]
    Elastic,
    /// A bound: `max-connections`.
    Fixed,
    /// One connection per request.
    Disabled,
}

/// Connection pool for one origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionPool {
    /// Idle connections per worker; 0: one connection per request.
    pub max_idle: usize,
    /// Time after which an idle connection is closed.
    pub max_idle_time: Duration,
    /// Age after which a connection serves no new request.
    pub max_life_time: Option<Duration>,
    /// Upper bound of connections over all workers.
    pub max_connections: Option<NonZeroUsize>,
    /// Time for which a request waits for a connection.
    pub acquire_timeout: Duration,
    /// Order in which idle connections are used.
    pub leasing: Leasing,
}

/// Order in which idle connections are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema, serde::Serialize))]
pub enum Leasing {
    #[default]
    #[serde(rename = "lifo")]
    /// Most recently used first: connections of a past burst age and are closed.
    Newest,
    #[serde(rename = "fifo")]
    /// Least recently used first: all are used in turn.
    Oldest,
}

/// Default of Reactor Netty.
type AcquireTimeout = Or<PositiveTime, { secs(45) }>;

/// Checks `httpclient.pool`.
pub(super) fn check(raw: &RawPool, diagnostics: &mut Diagnostics) -> ConnectionPool {
    let kind = raw.kind.map(|kind| kind.value.0).unwrap_or_default();
    let default_timeout = AcquireTimeout::default().get();
    if kind != RawPoolType::Fixed {
        let timeout = raw.acquire_timeout.filter(|time| time.value.get() != default_timeout);
        let limits = [
            (raw.max_connections.map(|limit| limit.span), "max-connections"),
            (timeout.map(|limit| limit.span), "acquire-timeout"),
        ];
        for (at, name) in limits {
            let Some(at) = at else { continue };
            diagnostics
                .mistake(at.key(), format!("`{name}` has no effect without `type: fixed`"))
                .help("add `type: fixed`, or remove it");
        }
    }
    if kind == RawPoolType::Disabled && raw.max_idle.is_some_and(|most| most.get() > 0) {
        let at = raw.kind.map(|kind| kind.span).unwrap_or(Span::ROOT);
        diagnostics
            .mistake(at, "`max-idle` has no effect with `type: disabled`, which keeps no connection")
            .ineffective()
            .help("remove one of the two");
    }
    let keys = [
        (raw.name.as_ref().map(|name| name.span), "name", "it names a series of Spring's metrics"),
        (raw.eviction_interval.map(|at| at.span), "eviction-interval", "idle connections are checked every second"),
        (raw.metrics.filter(|on| on.value).map(|on| on.span), "metrics", "there are no metrics of connections"),
    ];
    no_effect("httpclient.pool.", &keys, diagnostics);
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let springs = NonZeroUsize::MIN.saturating_add(2 * cores.max(8) - 1);
    ConnectionPool {
        max_idle: if kind == RawPoolType::Disabled { 0 } else { raw.max_idle.unwrap_or_default().get() },
        max_idle_time: raw.max_idle_time.get(),
        max_life_time: raw.max_life_time.map(PositiveTime::get),
        max_connections: (kind == RawPoolType::Fixed).then(|| raw.max_connections.map_or(springs, |most| most.value)),
        acquire_timeout: raw.acquire_timeout.map_or(default_timeout, |time| time.value.get()),
        leasing: raw.leasing_strategy.0,
    }
}
