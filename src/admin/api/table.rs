//! Table of the endpoints.

use crate::admin::api::{Access, Base, Endpoint, Verb};

/// Work of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Dashboard,
    DashboardFile,
    Events,
    Live,
    Ready,
    Health,
    Metrics,
    Index,
    GatewayIndex,
    Routes,
    Route,
    CombinedFilters,
    RouteDefinitions,
    RouteFilters,
    RoutePredicates,
    GlobalFilters,
    Refresh,
    Rules,
    ReadLimit,
    ManyLimits,
    SetLimit,
    ResetLimit,
    Overrides,
    Override,
    OverrideAll,
    EndOverride,
    EndOverrideAll,
    Top,
    Explain,
    Config,
    Reload,
    Upstreams,
    Drain,
    EndDrain,
    Breakers,
    ForceBreaker,
    EndForce,
    OpenApi,
}

/// Every endpoint. If several match a request, the first one serves it.
pub(crate) const ENDPOINTS: &[Endpoint] = &[
    get(Base::Root, "/", Access::Open, Operation::Dashboard),
    get(Base::Root, "/dashboard/{file}", Access::Open, Operation::DashboardFile),
    get(Base::Root, "/api/events", Access::Read, Operation::Events),
    get(Base::Root, "/health/live", Access::Open, Operation::Live),
    get(Base::Root, "/health/ready", Access::Open, Operation::Ready),
    get(Base::Root, "/metrics", Access::Metrics, Operation::Metrics),
    get(Base::Root, "/api/limits", Access::Read, Operation::Rules),
    get(Base::Root, "/api/limits/{route}/{key...}", Access::Read, Operation::ReadLimit),
    change(Verb::Post, Base::Root, "/api/limits/{route}", Operation::ManyLimits),
    change(Verb::Put, Base::Root, "/api/limits/{route}/{key...}", Operation::SetLimit),
    change(Verb::Delete, Base::Root, "/api/limits/{route}/{key...}", Operation::ResetLimit),
    change(Verb::Put, Base::Root, "/api/overrides/{route}", Operation::OverrideAll),
    change(Verb::Put, Base::Root, "/api/overrides/{route}/{key...}", Operation::Override),
    get(Base::Root, "/api/overrides", Access::Read, Operation::Overrides),
    change(Verb::Delete, Base::Root, "/api/overrides/{route}", Operation::EndOverrideAll),
    change(Verb::Delete, Base::Root, "/api/overrides/{route}/{key...}", Operation::EndOverride),
    get(Base::Root, "/api/top", Access::Read, Operation::Top),
    get(Base::Root, "/api/explain", Access::Read, Operation::Explain),
    get(Base::Root, "/api/routes", Access::Read, Operation::Routes),
    get(Base::Root, "/api/routes/{id...}", Access::Read, Operation::Route),
    get(Base::Root, "/api/upstreams", Access::Read, Operation::Upstreams),
    change(Verb::Put, Base::Root, "/api/upstreams/{upstream}/drains/{endpoint...}", Operation::Drain),
    change(Verb::Delete, Base::Root, "/api/upstreams/{upstream}/drains/{endpoint...}", Operation::EndDrain),
    get(Base::Root, "/api/breakers", Access::Read, Operation::Breakers),
    change(Verb::Put, Base::Root, "/api/breakers/{name...}", Operation::ForceBreaker),
    change(Verb::Delete, Base::Root, "/api/breakers/{name...}", Operation::EndForce),
    get(Base::Root, "/api/config", Access::Read, Operation::Config),
    change(Verb::Post, Base::Root, "/api/reload", Operation::Reload),
    get(Base::Root, "/openapi.json", Access::Read, Operation::OpenApi),
    get(Base::Actuator, "", Access::Read, Operation::Index),
    get(Base::Health, "", Access::Open, Operation::Health),
    get(Base::Health, "/liveness", Access::Open, Operation::Live),
    get(Base::Health, "/readiness", Access::Open, Operation::Ready),
    get(Base::Prometheus, "", Access::Metrics, Operation::Metrics),
    get(Base::Gateway, "", Access::Read, Operation::GatewayIndex),
    get(Base::Gateway, "/routes", Access::Read, Operation::Routes),
    get(Base::Gateway, "/routes/{id...}/combinedfilters", Access::Read, Operation::CombinedFilters),
    get(Base::Gateway, "/routes/{id...}", Access::Read, Operation::Route),
    get(Base::Gateway, "/routedefinitions", Access::Read, Operation::RouteDefinitions),
    get(Base::Gateway, "/routefilters", Access::Read, Operation::RouteFilters),
    get(Base::Gateway, "/routepredicates", Access::Read, Operation::RoutePredicates),
    get(Base::Gateway, "/globalfilters", Access::Read, Operation::GlobalFilters),
    change(Verb::Post, Base::Gateway, "/refresh", Operation::Refresh),
];

impl Operation {
    /// Returns true if the operation reads the query.
    pub(super) fn reads_parameters(self) -> bool {
        matches!(
            self,
            Self::Rules
                | Self::ReadLimit
                | Self::ManyLimits
                | Self::SetLimit
                | Self::ResetLimit
                | Self::Override
                | Self::OverrideAll
                | Self::EndOverride
                | Self::EndOverrideAll
                | Self::Top
                | Self::Explain
        )
    }
}

const fn get(base: Base, path: &'static str, access: Access, operation: Operation) -> Endpoint {
    Endpoint { method: Verb::Get, base, path, access, operation }
}

const fn change(method: Verb, base: Base, path: &'static str, operation: Operation) -> Endpoint {
    Endpoint { method, base, path, access: Access::Write, operation }
}
