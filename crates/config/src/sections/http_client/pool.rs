//! `httpclient.pool`.

use std::num::NonZeroUsize;
use std::time::Duration;

use crate::de::units::positive;
use crate::diagnostics::Diagnostics;
use crate::sections::http_client::model::{ConnectionPool, Leasing};
use crate::sections::http_client::no_effect;
use crate::sections::http_client::raw::{RawLeasing, RawPool, RawPoolType};
use crate::yaml::Span;

/// Default of Reactor Netty.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(45);

/// Checks `httpclient.pool`.
pub(super) fn check(raw: &RawPool, diagnostics: &mut Diagnostics) -> ConnectionPool {
    let kind = raw.kind.map_or(RawPoolType::Elastic, |kind| kind.value);
    if kind != RawPoolType::Fixed {
        let limits = [
            (raw.max_connections.map(|limit| limit.span), "max-connections"),
            (
                raw.acquire_timeout.filter(|time| time.value.0 != ACQUIRE_TIMEOUT).map(|limit| limit.span),
                "acquire-timeout",
            ),
        ];
        for (at, name) in limits {
            let Some(at) = at else { continue };
            diagnostics
                .mistake(at.key(), format!("`{name}` has no effect without `type: fixed`"))
                .help("add `type: fixed`, or remove it");
        }
    }
    if kind == RawPoolType::Disabled && raw.max_idle.is_some_and(|most| most > 0) {
        let at = raw.kind.map(|kind| kind.span).unwrap_or(Span::ROOT);
        diagnostics
            .mistake(at, "`max-idle` has no effect with `type: disabled`, which keeps no connection")
            .ineffective()
            .help("remove one of the two");
    }
    for (at, name, why) in [
        (raw.name.as_ref().map(|name| name.span), "name", "it names a series of Spring's metrics"),
        (
            raw.eviction_interval.map(|interval| interval.span),
            "eviction-interval",
            "idle connections are checked every second",
        ),
        (raw.metrics.filter(|on| on.value).map(|on| on.span), "metrics", "there are no metrics of connections"),
    ] {
        if let Some(at) = at {
            no_effect(at, &format!("httpclient.pool.{name}"), why, diagnostics);
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let springs = NonZeroUsize::MIN.saturating_add(2 * cores.max(8) - 1);
    ConnectionPool {
        max_idle: if kind == RawPoolType::Disabled { 0 } else { raw.max_idle.unwrap_or(512) },
        max_idle_time: positive(raw.max_idle_time, 60, diagnostics),
        max_life_time: raw.max_life_time.map(|age| positive(Some(age), 0, diagnostics)),
        max_connections: (kind == RawPoolType::Fixed).then(|| raw.max_connections.map_or(springs, |most| most.value)),
        acquire_timeout: positive(raw.acquire_timeout, ACQUIRE_TIMEOUT.as_secs(), diagnostics),
        leasing: match raw.leasing_strategy {
            Some(RawLeasing::Fifo) => Leasing::Oldest,
            None | Some(RawLeasing::Lifo) => Leasing::Newest,
        },
    }
}
