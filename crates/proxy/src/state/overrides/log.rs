//! Log lines of overrides.

use std::time::{Duration, Instant};

use crate::state::overrides::entry::Override;

/// Logs an override that begins. The key is not shown: it may be personal data.
pub(super) fn start(it: &Override) {
    let left = it.until.saturating_duration_since(Instant::now());
    let expires_in = Duration::from_secs_f64(left.as_secs_f64().ceil());
    let (names, effect) = (&it.names, &it.effect);
    let scope = if it.target.key.is_some() { "key" } else { "rule" };
    let (route, rule, caller) = (&*names.route, &*names.rule, &*names.by);
    tracing::info!(route, rule, scope, %effect, caller, ?expires_in, "override in effect");
}

/// Logs an override that has ended or was removed.
pub(super) fn end(it: &Override) {
    let (names, effect) = (&it.names, &it.effect);
    let scope = if it.target.key.is_some() { "key" } else { "rule" };
    let (route, rule, caller) = (&*names.route, &*names.rule, &*names.by);
    tracing::info!(route, rule, scope, %effect, caller, "override ended");
}
