//! Route of a simulation, and the choice of a request's route.

use std::sync::Arc;

use crate::input::{LogEntry, LoggedVerdict};
use crate::keys::NeededKey;
use tollgate_config::RouteConditions;
use tollgate_proxy::http::service::SharedService;
use tollgate_routing::{RequestView, RouteTable};

/// Route of a simulation.
pub(super) struct LogRoute {
    pub(super) id: Arc<str>,
    pub(super) service: SharedService,
    pub(super) needs_variables: bool,
    /// Conditions of its rules.
    pub(super) conditions: RouteConditions,
    /// True if the route has a limiter. Requests of other routes are counted without their layers.
    pub(super) is_limited: bool,
    /// True if a predicate reads a part of the request that the log lacks. Only the route in the log decides then.
    pub(super) is_uncertain: bool,
    /// True if `RequestSize` or `RequestHeaderSize` precede a limiter.
    pub(super) checks_size: bool,
    /// True if access lists read keys that the log lacks for exempt and blocked requests.
    pub(super) keeps_lists: bool,
    /// Keys of rules that single lines of the log may lack.
    pub(super) keys: Vec<NeededKey>,
    /// Rules of its limiters.
    pub(super) all_rules: usize,
    /// Rules that are switched off, since the log lacks what they need.
    pub(super) switched_off: usize,
}

impl LogRoute {
    /// Returns the number of rules that are not simulated, at the end of the log.
    pub(super) fn unsimulated_rules(&self) -> usize {
        let unknown = self.keys.iter().filter(|key| key.is_unknown()).map(|key| key.rules.len());
        self.switched_off + unknown.sum::<usize>()
    }

    /// Returns the verdict of access lists in the log that the request keeps.
    pub(super) fn listed_verdict(&self, entry: &LogEntry) -> Option<LoggedVerdict> {
        let is_listed = |verdict: &LoggedVerdict| matches!(verdict, LoggedVerdict::Exempt | LoggedVerdict::Blocked);
        entry
            .verdict
            .filter(|verdict| self.keeps_lists && is_listed(verdict) && entry.route() == Some(self.id.as_bytes()))
    }
}

/// Route of a request.
pub(super) enum RouteMatch {
    Route(usize),
    None,
    Undetermined,
}

/// Finds the route of a request. The route in the log decides on routes that read parts which the log lacks.
pub(super) fn find_route(table: &RouteTable<LogRoute>, view: &RequestView<'_>, logged: Option<&[u8]>) -> RouteMatch {
    let first = match table.find(view) {
        Ok(Some(first)) => first,
        Ok(None) => return RouteMatch::None,
        Err(_) => return RouteMatch::Undetermined,
    };
    if !first.value.is_uncertain {
        return RouteMatch::Route(first.index);
    }
    let Some(logged) = logged else { return RouteMatch::Undetermined };
    for (index, (predicates, route)) in table.iter().enumerate().skip(first.index) {
        if (!route.is_uncertain || route.id.as_bytes() == logged)
            && predicates.iter().all(|predicate| predicate.matches(view))
        {
            return RouteMatch::Route(index);
        }
    }
    RouteMatch::None
}
