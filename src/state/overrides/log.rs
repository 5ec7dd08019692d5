//! Log lines of overrides.

use std::time::Instant;

use crate::state::overrides::entry::Override;

/// Logs an override that begins. The key is not shown: it may be personal data.
pub(super) fn start(it: &Override) {
    let expires_in = it.until.saturating_duration_since(Instant::now());
    let (names, effect, is_of_one_key) = (&it.names, &it.effect, it.target.key.is_some());
    let (route, rule, by) = (&*names.route, &*names.rule, &*names.by);
    tracing::info!(route, rule, is_of_one_key, %effect, by, ?expires_in, "override in effect");
}

/// Logs an override that has ended or was removed.
pub(super) fn end(it: &Override) {
    let (names, effect, is_of_one_key) = (&it.names, &it.effect, it.target.key.is_some());
    let (route, rule, by) = (&*names.route, &*names.rule, &*names.by);
    tracing::info!(route, rule, is_of_one_key, %effect, by, "override ended");
}
