//! Errors of the limits API.

use http::StatusCode;
use thiserror::Error;
use tollgate_limiter::store::redis::StoreError;

use crate::admin::admin_state::AdminState;
use crate::admin::limits::change::{Change, Lost, Unconfirmed};
use crate::admin::reply::{Reply, known_names, problem};
use crate::admin::request::BodyError;
use tollgate_config::Config;
use tollgate_proxy::state::overrides::OverrideError;

/// Error of a request, sent as a problem (RFC 9457).
#[derive(Debug, Error)]
pub(in crate::admin) enum LimitsError {
    #[error("unknown route `{route}`; {route_ids}")]
    NoRoute { route: String, route_ids: String },
    #[error("route `{0}` has no rules")]
    NoRules(String),
    #[error("route `{route}` has no {selection}; {rule_names}")]
    NoRule { route: String, selection: String, rule_names: String },
    #[error("several rules of the route count this key: name one with \"rule\" (and \"plan\"): {0}")]
    SeveralRules(String),
    #[error("these rules count the keys of different resolvers: name one with \"rule\" (and \"plan\"): {0}")]
    SeveralResolvers(String),
    #[error("the path must be /api/limits/ROUTE/KEY, each percent-encoded")]
    BadPath,
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error("{0}; nothing was changed")]
    BadOverride(String),
    #[error("there is no such override")]
    NoOverride,
    #[error("several overrides of this key: name one with \"rule\" (and \"plan\"): {0}")]
    SeveralOverrides(String),
    #[error(
        "another plan has an equal rule with the same buckets, so an override of every key would concern both: override \
         single keys, or give the rules buckets of their own"
    )]
    AmbiguousOverride,
    #[error("{0}; nothing was changed")]
    Override(OverrideError),
    #[error("Redis did not reply in time: list the overrides to see if this one was changed")]
    OverrideTimeout,
    #[error("limits under `atomicity: lock` cannot be read or changed here: use Redis commands")]
    Locked,
    #[error("Redis is unreachable")]
    Unreachable,
    #[error(transparent)]
    Unconfirmed(#[from] Unconfirmed),
}

impl LimitsError {
    /// Returns the error of an unknown route, with the routes that have rules.
    pub(super) fn no_route(route: &str, config: &Config) -> Self {
        let limited = config.routes.iter().filter(|route| route.rate_limiters().next().is_some());
        let route_ids = known_names("routes with rules", limited.map(|route| route.id.to_string()));
        Self::NoRoute { route: route.to_owned(), route_ids }
    }

    /// Returns the error of a call that ended before it sent `change` to Redis.
    pub(super) fn before(self, change: Change) -> Self {
        match self {
            Self::Unreachable => Lost::unsent().during(change, &[], 0).into(),
            error => error,
        }
    }

    /// Returns the problem. That of a lost Redis has the latest error of its connections.
    pub(in crate::admin) fn response(&self, state: &AdminState) -> Reply {
        let status = self.status();
        let clients = state.stores.redis();
        let mut lost = clients.iter().filter(|client| !client.connected());
        let reason = lost.find_map(|client| client.last_error().map(str::to_owned));
        match reason.filter(|_| status == StatusCode::SERVICE_UNAVAILABLE) {
            Some(reason) => problem(status, &format!("{self}; latest error of the connection: {reason}")),
            None => problem(status, &self.to_string()),
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::NoRoute { .. } | Self::NoRules(_) | Self::NoRule { .. } | Self::NoOverride => StatusCode::NOT_FOUND,
            Self::AmbiguousOverride | Self::Override(OverrideError::TooMany) => StatusCode::CONFLICT,
            Self::BadPath
            | Self::BadOverride(_)
            | Self::SeveralRules(_)
            | Self::SeveralOverrides(_)
            | Self::SeveralResolvers(_) => StatusCode::BAD_REQUEST,
            Self::Locked | Self::Override(OverrideError::Redis(StoreError::NoScripts)) => StatusCode::NOT_IMPLEMENTED,
            Self::Unreachable | Self::Unconfirmed(_) | Self::Override(_) | Self::OverrideTimeout => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Body(error) => error.status(),
        }
    }
}

impl From<OverrideError> for LimitsError {
    fn from(error: OverrideError) -> Self {
        match error {
            OverrideError::Redis(StoreError::Timeout) => Self::OverrideTimeout,
            error => Self::Override(error),
        }
    }
}
