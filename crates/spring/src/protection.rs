//! Sections of Spring that protect an application and have no counterpart here.

use crate::service_discovery;
use crate::tree::take;
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::Node;

/// Drops the settings of Spring Security with a warning.
pub(super) fn drop_security(whole: &mut Node, diagnostics: &mut Diagnostics) {
    if let Some(security) = take(whole, &["spring", "security"]) {
        diagnostics.warn(security.span.key(), "`spring.security` is not read: requests that Spring Security rejects are let in here")
            .help("authenticate in front of the gateway or in the upstreams; `jwt` and a key resolver `jwt:sub` limit by the user of a token");
    }
}

/// Drops the settings of Sentinel with a warning. Its rules come from Java, a dashboard or a data source.
pub(super) fn drop_sentinel(whole: &mut Node, diagnostics: &mut Diagnostics) {
    if let Some(sentinel) =
        take(whole, &["spring", "cloud", "sentinel"]).filter(|node| !service_discovery::is_off(node))
    {
        diagnostics
            .warn(
                sentinel.span.key(),
                "`spring.cloud.sentinel` is not read: requests that its flow rules reject are let in here",
            )
            .help("`RequestRateLimiter` limits requests by route and key, and `CircuitBreaker` replaces degrade rules");
    }
}
