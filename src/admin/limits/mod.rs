//! `/api/limits`: lists the rules, and reads, sets, grants or resets the budget of one key, or reads and grants many.

mod batch;
mod bucket_store;
mod change;
mod error;
pub(super) mod overrides;
pub(super) mod reply;
mod selection;

use std::borrow::Cow;

use http::StatusCode;
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::store::redis::RedisStore;

pub(super) use self::batch::Batch;
pub(super) use self::bucket_store::BucketStore;
pub(super) use self::change::ChangeBody;
use self::change::{Change, Lost};
use self::error::LimitsError;
use self::reply::{Budget, ChangedLimit, EffectReply, LimitReply, RuleReply};
use self::selection::{KeyPlan, RouteRule, Selector, key_plan, rules, select};
use crate::admin::admin_state::AdminState;
use crate::admin::reply::{Reply, audited, audited_each, json, whole_millis};
use crate::admin::request::{MAX_BYTES, parameters, read_body};
use tollgate_config::{Config, Route};
use tollgate_telemetry::key_display;

/// Names of a call: route, key and query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'c> {
    pub(super) route: &'c [u8],
    /// Key; `None` if the path names every key.
    pub(super) key: Option<&'c [u8]>,
    pub(super) query: &'c str,
}

impl<'c> Place<'c> {
    fn id(&self) -> Result<&'c str, LimitsError> {
        std::str::from_utf8(self.route).map_err(|_| LimitsError::BadPath)
    }

    /// Returns the route, and the names of the query.
    fn route<'r>(&self, config: &'r Config) -> Result<(&'r Route, Selector), LimitsError> {
        let id = self.id()?;
        let selector = selector(self.query)?;
        let route = config.routes.iter().find(|route| *route.id == *id);
        Ok((route.ok_or_else(|| LimitsError::no_route(id, config))?, selector))
    }
}

/// Lists every rule of every route, or of the one that `route=ID` names.
pub(super) fn list(query: &str, state: &AdminState) -> Reply {
    match all_rules(&state.config.load(), query) {
        Ok(rules) => json(StatusCode::OK, &rules),
        Err(error) => error.response(state),
    }
}

/// Returns the budget of a key under each rule.
pub(super) async fn read(place: Place<'_>, state: &AdminState) -> Reply {
    let config = state.config.load_full();
    let read = async {
        let (route, selector) = place.route(&config)?;
        let rules = select(route, &selector, false)?;
        let key = key_id(&place, &rules);
        let state = read_rules(route, &rules, &key, &config, state).await?;
        Ok(described_key(route, &key, state))
    };
    read.await.unwrap_or_else(|error: LimitsError| error.response(state))
}

/// Sets the budget of a key, or adds to it.
pub(super) async fn set(place: Place<'_>, body: Incoming, state: &AdminState) -> Reply {
    let config = state.config.load_full();
    let set = async {
        let (route, selector) = place.route(&config)?;
        let body: ChangeBody = read_body(body, MAX_BYTES, ChangeBody::EXPECTED).await?;
        let change = body.change()?;
        let rules = select(route, &selector.or(body.rule, body.plan), true)?;
        Ok(apply(change, route, &rules, &place, &config, state).await)
    };
    set.await.unwrap_or_else(|error: LimitsError| error.response(state))
}

/// Makes the buckets of a key full.
pub(super) async fn reset(place: Place<'_>, state: &AdminState) -> Reply {
    let config = state.config.load_full();
    let reset = async {
        let (route, selector) = place.route(&config)?;
        let rules = select(route, &selector, false)?;
        Ok(apply(Change::Reset, route, &rules, &place, &config, state).await)
    };
    reset.await.unwrap_or_else(|error: LimitsError| error.response(state))
}

/// Reads many keys of one rule, and grants tokens to them.
pub(super) async fn read_many(place: Place<'_>, body: Incoming, state: &AdminState) -> Reply {
    let config = state.config.load_full();
    let mut changes = Vec::new();
    let read = async {
        place.id()?;
        let selector = selector(place.query)?;
        let mut batch: Batch = read_body(body, Batch::MAX_BYTES, Batch::EXPECTED).await?;
        batch.check()?;
        let selector = selector.or(batch.rule.take(), batch.plan.take());
        let (route, _) = place.route(&config)?;
        batch::apply(batch, route, &selector, &config, state, &mut changes).await
    };
    let response = read.await.unwrap_or_else(|error| error.response(state));
    audited_each(response, changes)
}

/// Applies `change` to a key, and returns its state. The log gets the change, made or not.
async fn apply(
    change: Change,
    route: &Route,
    rules: &[RouteRule<'_>],
    place: &Place<'_>,
    config: &Config,
    state: &AdminState,
) -> Reply {
    let key = key_id(place, rules);
    let applied = change.audit(&route.id, rules, &key_display::shown(&key));
    match change_and_read(change, route, rules, &key, config, state).await {
        Ok(key_state) => audited(described_key(route, &key, key_state), applied),
        Err(error) => audited(error.response(state), format!("{applied} failed: {error}")),
    }
}

/// Returns the id under which `rules` count the key.
fn key_id<'c>(place: &Place<'c>, rules: &[RouteRule<'_>]) -> Cow<'c, [u8]> {
    let key = place.key.unwrap_or_default();
    rules.first().map_or(Cow::Borrowed(key), |rule| rule.key_id(key))
}

fn described_key<L: Serialize>(route: &Route, key: &[u8], (plan, limits): KeyState<L>) -> Reply {
    json(StatusCode::OK, &Budget { route: &route.id, key: key_display::shown(key), limits, plan })
}

/// Reads the names of a query: `rule=NAME&plan=NAME`.
fn selector(query: &str) -> Result<Selector, LimitsError> {
    let mut selector = Selector::default();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
        match name {
            "rule" => selector.rule = Some(value),
            "plan" => selector.plan = Some(value),
            other => return Err(LimitsError::BadQuery(other.to_owned())),
        }
    }
    Ok(selector)
}

/// Plan of a key, and its state under each rule.
type KeyState<L> = (KeyPlan, Vec<L>);

/// Applies `change` to each of `rules`. Returns the state of the key afterwards.
async fn change_and_read(
    change: Change,
    route: &Route,
    rules: &[RouteRule<'_>],
    key: &[u8],
    config: &Config,
    state: &AdminState,
) -> Result<KeyState<ChangedLimit>, LimitsError> {
    let unsent = |error| match error {
        LimitsError::Unreachable => Lost::unsent().during(change, rules, 0).into(),
        error => error,
    };
    // Everything that may fail without a change comes first.
    key_plan(rules, key, config, state).await.map_err(unsent)?;
    let store = |selected: &RouteRule<'_>| BucketStore::of(selected.limiter, config, state).map_err(unsent);
    let stores = rules.iter().map(store).collect::<Result<Vec<_>, _>>()?;
    let mut ended = Vec::with_capacity(rules.len());
    for (position, (selected, store)) in rules.iter().zip(&stores).enumerate() {
        let key = BucketKey { scope: &selected.named.scope, id: key };
        let rule = &selected.named.limit.rule;
        let effective = state.stores.overrides.effective_rule(key, rule);
        let rule = effective.as_ref().map_or(rule, |(effective, _)| effective.rule().unwrap_or(rule));
        let ends_leases = store.ends_leases(rule, change, config);
        let changed = store.change(key, rule, change, ends_leases).await;
        changed.map_err(|lost| lost.during(change, rules, position))?;
        ended.push(ends_leases);
    }
    let read = read_rules(route, rules, key, config, state).await;
    let (plan, limits) = read.map_err(|error| match error {
        LimitsError::Unreachable => Lost::unsent().during(change, rules, rules.len()).into(),
        error => error,
    })?;
    let limits = limits.into_iter().zip(ended).map(|(limit, ended)| ChangedLimit {
        limit,
        leases_end_within_ms: ended.then(|| whole_millis(RedisStore::MAX_LEASE)),
    });
    Ok((plan, limits.collect()))
}

/// Returns the state of a key under each of `rules`.
async fn read_rules(
    route: &Route,
    rules: &[RouteRule<'_>],
    key: &[u8],
    config: &Config,
    state: &AdminState,
) -> Result<KeyState<LimitReply>, LimitsError> {
    let plan = key_plan(rules, key, config, state).await?;
    let mut limits = Vec::with_capacity(rules.len());
    for selected in rules {
        let store = BucketStore::of(selected.limiter, config, state)?;
        let key = BucketKey { scope: &selected.named.scope, id: key };
        let rule = &selected.named.limit.rule;
        let effective = state.stores.overrides.effective_rule(key, rule);
        let rule = effective.as_ref().map_or(rule, |(effective, _)| effective.rule().unwrap_or(rule));
        let probe = store.probe(key, rule, 1).await?.under(effective.as_ref());
        limits.push(LimitReply {
            rule: RuleReply::under(route, selected, rule),
            effect: effective.as_ref().map(EffectReply::new),
            store: store.name(),
            remaining: probe.remaining,
            reset_after_ms: whole_millis(probe.reset_after),
            retry_after_ms: if probe.is_exceeded { probe.retry_after.map(whole_millis) } else { Some(0) },
        });
    }
    Ok((plan, limits))
}

/// Describes the rules that `query` selects.
fn all_rules(config: &Config, query: &str) -> Result<Vec<RuleReply>, LimitsError> {
    let mut id = None;
    for (name, value) in parameters(query) {
        match name.as_str() {
            "route" => id = Some(value).filter(|id| !id.is_empty()),
            _ => return Err(LimitsError::BadListQuery(name)),
        }
    }
    let is_listed = |route: &&Route| id.as_ref().is_none_or(|id| *route.id == **id);
    let mut routes = config.routes.iter().filter(is_listed).peekable();
    if let (Some(id), None) = (&id, routes.peek()) {
        return Err(LimitsError::no_route(id, config));
    }
    let of_route = |route| rules(route).iter().map(|rule| RuleReply::new(route, rule)).collect::<Vec<_>>();
    Ok(routes.flat_map(of_route).collect())
}
