//! `LocalResponseCache` as a layer of the gateway: its key, the identity of requests, and the reuse of responses to
//! tokens.

use std::rc::Rc;
use std::sync::Arc;

use http::header::HeaderName;
use http::{Request, Response};
use tollgate_filters::edit::{Edit, EditLayer};
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_filters::local_response_cache::{LocalResponseCacheLayer, ReceivedTarget, ReuseUntil, StoringBody};
use tollgate_filters::request_rate_limiter::IdentityCheck;
use tollgate_filters::verify_api_key::FilterSettings;
use tower::util::{MapRequest, MapResponse};
use tower::{Layer, service_fn};

use crate::gateway::layer_context::LayerContext;
use crate::gateway::stack::as_edit;
use crate::http::body::Body;
use crate::http::service::SharedService;
use crate::http::upgrade::Upgrade;
use tollgate_config::{Filter, PlainFilter, RateLimiter, ResponseCache, RouteConditions};

/// Puts a response cache in front of `service`, which has those of `filters` that follow the cache.
///
/// Requests that a limiter behind the cache would refuse for their identity bypass it, so that the limiter refuses them.
/// Upgrade requests bypass it as well.
pub(super) fn with_response_cache(
    route_id: &Arc<str>,
    filters: &[Filter],
    cache: &ResponseCache,
    service: SharedService,
    context: &dyn LayerContext,
) -> SharedService {
    let vary = varying_headers(filters);
    // The names belong to the scope: an entry lists the fields of the configuration that created it.
    let names: Vec<&str> = vary.iter().map(HeaderName::as_str).collect();
    let scope = format!("{route_id}#{:x}#{}", cache.identity, names.join(","));
    let layer = LocalResponseCacheLayer::new(scope, cache.settings, context.response_cache(route_id, cache));
    let layer = layer.vary_by(vary).status_name(cache.status_name.clone());
    let outer = |response: Response<StoringBody<Body>>| response.map(Body::from);
    let cached = SharedService::new(MapResponse::new(layer.layer(service.clone()), outer));
    let position = filters.iter().position(is_cache).map_or(filters.len(), |at| at + 1);
    let behind = filters.get(position..).unwrap_or_default();
    let conditions = RouteConditions::of(filters.iter().filter_map(Filter::as_rate_limiter));
    let identity = Rc::new(Identity::of(behind, &conditions));
    SharedService::new(service_fn(move |request: Request<Body>| {
        let bypasses = request.extensions().get::<Upgrade>().is_some() || !identity.passes(&request);
        if bypasses { service.respond(request) } else { cached.respond(request) }
    }))
}

/// Ends the reuse of responses to a token with the token, if `filter` verifies one behind a cache among `outer`.
pub(super) fn with_reuse_limit(filter: &Filter, outer: &[Filter], service: SharedService) -> SharedService {
    let resolvers: Rc<[_]> = filter.key_resolvers().filter(|resolver| resolver.reads_token()).cloned().collect();
    if resolvers.is_empty() || !outer.iter().any(is_cache) {
        return service;
    }
    SharedService::new(service_fn(move |request: Request<Body>| {
        let until = resolvers.iter().filter_map(|resolver| resolver.token_expiry(&request)).min();
        let response = service.respond(request);
        async move {
            let mut response = response.await?;
            if let Some(until) = until {
                ReuseUntil(until).limit(&mut response);
            }
            Ok(response)
        }
    }))
}

/// Keeps the received target for the key of a cache, if filters in front of it edit requests.
pub(super) fn with_received_target(filters: &[Filter], service: SharedService) -> SharedService {
    let edits_before = filters.iter().take_while(|filter| !is_cache(filter)).filter_map(as_edit);
    if !filters.iter().any(is_cache) || !edits_before.into_iter().any(Edit::is_request_side) {
        return service;
    }
    SharedService::new(MapRequest::new(service, |mut request: Request<Body>| {
        let received = ReceivedTarget::of(&request);
        request.extensions_mut().insert(received);
        request
    }))
}

/// Returns the name of the cache of `route`; empty for the one that routes share.
pub(super) fn cache_name<'n>(route: &'n str, cache: &ResponseCache) -> &'n str {
    if cache.is_shared { "" } else { route }
}

fn is_cache(filter: &Filter) -> bool {
    matches!(filter, Filter::LocalResponseCache(_))
}

/// Returns the request fields that distinguish cached responses of a route: those that select an upstream, those that
/// keys are read from, and those that are copied to others.
fn varying_headers(filters: &[Filter]) -> Vec<HeaderName> {
    let edits = || filters.iter().filter_map(as_edit);
    let of_edits = edits().filter_map(Edit::target_header).chain(edits().filter_map(Edit::copied_header));
    let of_keys = filters.iter().flat_map(Filter::key_resolvers).flat_map(KeyResolver::headers);
    let mut names: Vec<_> = of_edits.chain(of_keys).cloned().collect();
    names.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    names.dedup();
    names
}

/// Identity that the limiters behind a cache require.
struct Identity {
    steps: Vec<Step>,
}

/// Step of a request on its way through the filters behind a cache.
enum Step {
    Edit(EditLayer),
    Limiter(Box<IdentityCheck>),
    ApiKey(FilterSettings),
    /// A resolver, and true if it must find a key id.
    Key(KeyResolver, bool),
}

impl Identity {
    /// Creates the check for a cache in front of `filters`. `conditions` are those of the route.
    fn of(filters: &[Filter], conditions: &RouteConditions) -> Self {
        let mut steps: Vec<_> = filters.iter().filter_map(|filter| Step::of(filter, conditions)).collect();
        // Edits behind the last limiter do not matter.
        let end = steps.iter().rposition(|step| !matches!(step, Step::Edit(_))).map_or(0, |last| last + 1);
        steps.truncate(end);
        Self { steps }
    }

    /// Returns true if the limiters would refuse `request` at most for its rate.
    fn passes<B>(&self, request: &Request<B>) -> bool {
        if !self.steps.iter().any(|step| matches!(step, Step::Edit(_))) {
            return self.steps.iter().all(|step| step.passes(request));
        }
        // Edits may set what a key is read from.
        let mut edited = Request::new(());
        *edited.method_mut() = request.method().clone();
        *edited.uri_mut() = request.uri().clone();
        *edited.headers_mut() = request.headers().clone();
        *edited.extensions_mut() = request.extensions().clone();
        self.steps.iter().all(|step| match step {
            Step::Edit(edit) => edit.edit_request(&mut edited),
            Step::Limiter(_) | Step::ApiKey(_) | Step::Key(..) => step.passes(&edited),
        })
    }
}

impl Step {
    fn of(filter: &Filter, conditions: &RouteConditions) -> Option<Self> {
        match filter {
            Filter::Edit(edit) if edit.is_request_side() => Some(Self::Edit(EditLayer::new([edit.clone()]))),
            Filter::RequestRateLimiter(limiter) => Some(Self::Limiter(Box::new(identity_check(limiter, conditions)))),
            Filter::ConcurrencyLimiter(limiter) => {
                Some(Self::Key(limiter.settings.key_resolver.clone(), limiter.settings.deny_empty_key))
            }
            Filter::Plain(plain) => Self::of_plain(plain),
            Filter::Edit(_) | Filter::RequestSize(_) | Filter::LocalResponseCache(_) => None,
            Filter::RequestCounter(_) | Filter::Retry(_) | Filter::CircuitBreaker(_) => None,
        }
    }

    fn of_plain(filter: &PlainFilter) -> Option<Self> {
        match filter {
            PlainFilter::ApiKey(settings) => Some(Self::ApiKey(settings.clone())),
            PlainFilter::RequireKey(settings) => Some(Self::Key(settings.key_resolver.clone(), true)),
            PlainFilter::FallbackHeaders(_) | PlainFilter::RedirectTo(_) | PlainFilter::RemoveJsonAttributes(_) => None,
            PlainFilter::RequestHeaderSize(_) | PlainFilter::SecureHeaders(_) | PlainFilter::SetStatus(_) => None,
        }
    }

    fn passes<B>(&self, request: &Request<B>) -> bool {
        match self {
            Self::Edit(_) => true,
            Self::Limiter(check) => check.passes(request),
            Self::ApiKey(settings) => settings.admits(request),
            Self::Key(resolver, needs_key) => resolver.identifies(request, *needs_key),
        }
    }
}

fn identity_check(limiter: &RateLimiter, conditions: &RouteConditions) -> IdentityCheck {
    let rules = limiter.limits();
    let rules = rules.map(|limit| (limit.key_resolver.as_ref(), limit.enforcement, conditions.of_rule(limit)));
    let rules: Vec<_> = rules.collect();
    IdentityCheck::new(&limiter.settings, rules.into_iter())
}
