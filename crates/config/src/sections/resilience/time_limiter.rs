//! `resilience4j.timelimiter`: time limits of calls.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use crate::de::defaults::{Or, secs};
use crate::de::ranged::PositiveTime;
use crate::de::spanned::{NodeRef, Spanned};
use crate::diagnostics::Diagnostics;
use crate::sections::resilience::inherit::Based;

/// Time limits by the name of the breaker.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawTimeLimiters {
    /// Named settings that instances are based on; `default` applies to breakers without settings. Default: none.
    pub(crate) configs: BTreeMap<String, Spanned<RawTimeLimiter>>,
    /// Time limit of each breaker. Default: none.
    pub(crate) instances: BTreeMap<String, Spanned<RawTimeLimiter>>,
    pub(crate) time_limiter_aspect_order: Option<NodeRef>,
    pub(crate) metrics: Option<NodeRef>,
    pub(crate) tags: Option<NodeRef>,
}

/// One time limit.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RawTimeLimiter {
    /// Entry of `configs` with the values that are absent here. Default: the entry with the breaker's name, else `default`.
    pub(crate) base_config: Option<Spanned<String>>,
    /// Timeout for the head of the upstream's response.
    pub(crate) timeout_duration: Option<Or<PositiveTime, { secs(1) }>>,
    pub(crate) cancel_running_future: Option<Spanned<bool>>,
    pub(crate) event_consumer_buffer_size: Option<NodeRef>,
}

/// Checks a time limit; `None` if not configured.
pub(super) fn check(raw: &RawTimeLimiter, diagnostics: &mut Diagnostics) -> Option<Duration> {
    if let Some(Spanned { value: false, span }) = raw.cancel_running_future {
        diagnostics.note(span, "calls past the time limit are always cancelled here");
    }
    raw.timeout_duration.map(Or::get)
}

impl Based for RawTimeLimiter {
    fn base(&self) -> Option<&Spanned<String>> {
        self.base_config.as_ref()
    }

    fn over(self, base: Self) -> Self {
        Self {
            base_config: None,
            timeout_duration: self.timeout_duration.or(base.timeout_duration),
            cancel_running_future: self.cancel_running_future.or(base.cancel_running_future),
            event_consumer_buffer_size: None,
        }
    }
}
