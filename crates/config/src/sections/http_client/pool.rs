//! `httpclient.pool`.

use std::num::NonZeroUsize;

use serde::Deserialize;

use crate::de::{Or, PositiveTime, Spanned, Word, secs};
use crate::diagnostics::Diagnostics;

/// Connection pool.
#[section(Clone, PartialEq, Eq)]
pub struct ConnectionPool {
    /// `elastic` has no bound of connections, `fixed` has `max-connections`, `disabled` uses one per request.
    #[serde(rename = "type")]
    kind: Spanned<Word<PoolType>>,
    /// Upper bound of connections of a `fixed` pool to one target, divided evenly among the workers. Default: twice the cores, at least 16, as in Spring.
    max_connections: Option<Spanned<NonZeroUsize>>,
    /// Time for which a request waits for a connection of a `fixed` pool, or for a stream of one, before it gets 503. Default {}, as in Spring.
    pub acquire_timeout: Spanned<Or<PositiveTime, { secs(45) }>>,
    /// Time after which an idle connection is closed. Default {}, less than the 75s common with upstreams.
    pub max_idle_time: Or<PositiveTime, { secs(60) }>,
    /// Idle connections per worker and target.
    pub max_idle: Spanned<Or<usize, 512>>,
    /// Age after which a connection serves no new request. Default: none.
    pub max_life_time: Option<PositiveTime>,
    /// Order in which idle connections are used: `lifo`, the most recently used first, or `fifo`. Default {}, which lets connections of a burst time out.
    pub leasing_strategy: Word<Leasing>,
}

/// Bound of the number of connections.
#[word(Default)]
enum PoolType {
    /// No bound.
    #[default]
    Elastic,
    /// A bound: `max-connections`.
    Fixed,
    /// One connection per request.
    Disabled,
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

impl ConnectionPool {
    /// Reports settings without effect, and drops them.
    pub(super) fn check(&mut self, diagnostics: &mut Diagnostics) {
        let kind = self.kind.0;
        if kind != PoolType::Fixed {
            let timeout = Some(self.acquire_timeout).filter(|timeout| timeout.value != Or::default());
            let limits = [
                (self.max_connections.map(|limit| limit.span), "max-connections"),
                (timeout.map(|timeout| timeout.span), "acquire-timeout"),
            ];
            for (at, name) in limits {
                let Some(at) = at else { continue };
                diagnostics
                    .mistake(at.key(), format!("`{name}` has no effect without `type: fixed`"))
                    .help("add `type: fixed`, or remove it");
            }
            (self.max_connections, self.acquire_timeout) = (None, Spanned::default());
        }
        if kind == PoolType::Disabled && self.max_idle.is_given() && self.max_idle.get() > 0 {
            diagnostics
                .mistake(self.kind.span, "`max-idle` has no effect with `type: disabled`, which keeps no connection")
                .ineffective()
                .help("remove one of the two");
        }
        if kind == PoolType::Disabled {
            self.max_idle.value = Or::new(0);
        }
    }

    /// Returns the upper bound of connections over all workers.
    #[must_use]
    pub fn max_connections(&self) -> Option<NonZeroUsize> {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let springs = NonZeroUsize::MIN.saturating_add(2 * cores.max(8) - 1);
        (self.kind.0 == PoolType::Fixed).then(|| self.max_connections.map_or(springs, |limit| limit.value))
    }
}
