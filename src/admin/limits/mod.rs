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
pub(super) use self::bucket_store::{BucketStore, KeyRule};
pub(super) use self::change::ChangeBody;
use self::change::{Change, Lost};
pub(super) use self::error::LimitsError;
use self::reply::{Budget, ChangedLimit, EffectReply, LimitReply, RuleReply, enforced};
use self::selection::{KeyPlan, Selector, key_plan, only, rules, select, select_for};
use crate::admin::admin_state::AdminState;
use crate::admin::reply::{Reply, audited, audited_each, json, whole_millis};
use crate::admin::request::{MAX_BYTES, parameter, read_body};
use tollgate_config::{Config, NamedLimit, Route};
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
        let selector = selector(self.query);
        let route = config.routes.iter().find(|route| *route.id == *id);
        Ok((route.ok_or_else(|| LimitsError::no_route(id, config))?, selector))
    }
}

/// Lists every rule of every route, or of the one that `route=ID` names.
pub(super) fn list(query: &str, state: &AdminState) -> Result<Reply, LimitsError> {
    let config = state.config.load();
    let id = parameter(query, "route");
    let is_listed = |route: &&Route| id.as_ref().is_none_or(|id| *route.id == **id);
    let mut routes = config.routes.iter().filter(is_listed).peekable();
    if let (Some(id), None) = (&id, routes.peek()) {
        return Err(LimitsError::no_route(id, &config));
    }
    let of_route = |route| rules(route).iter().map(|rule| RuleReply::new(route, rule)).collect::<Vec<_>>();
    Ok(json(StatusCode::OK, &routes.flat_map(of_route).collect::<Vec<_>>()))
}

/// Returns the budget of a key under each rule.
pub(super) async fn read(place: Place<'_>, state: &AdminState) -> Result<Reply, LimitsError> {
    let config = state.config.load_full();
    let (route, selector) = place.route(&config)?;
    let call = KeyCall::new(&place, route, select(route, &selector)?, &config, state);
    Ok(call.describe(call.read().await?))
}

/// Sets the budget of a key, or adds to it.
pub(super) async fn set(place: Place<'_>, body: Incoming, state: &AdminState) -> Result<Reply, LimitsError> {
    let config = state.config.load_full();
    let (route, selector) = place.route(&config)?;
    let body: ChangeBody = read_body(body, MAX_BYTES, ChangeBody::EXPECTED).await?;
    let change = body.change()?;
    let selected = select_for(route, &selector.or(body.rule, body.plan), place.key, &config, state).await;
    let rule = only(&selected.map_err(|error| error.before(change))?)?;
    Ok(KeyCall::new(&place, route, vec![rule], &config, state).apply(change).await)
}

/// Makes the buckets of a key full.
pub(super) async fn reset(place: Place<'_>, state: &AdminState) -> Result<Reply, LimitsError> {
    let config = state.config.load_full();
    let (route, selector) = place.route(&config)?;
    let rules = select(route, &selector)?;
    Ok(KeyCall::new(&place, route, rules, &config, state).apply(Change::Reset).await)
}

/// Reads many keys of one rule, and grants tokens to them.
pub(super) async fn read_many(place: Place<'_>, body: Incoming, state: &AdminState) -> Result<Reply, LimitsError> {
    let config = state.config.load_full();
    place.id()?;
    let selector = selector(place.query);
    let mut batch: Batch = read_body(body, Batch::MAX_BYTES, Batch::EXPECTED).await?;
    batch.check()?;
    let selector = selector.or(batch.rule.take(), batch.plan.take());
    let (route, _) = place.route(&config)?;
    let mut changes = Vec::new();
    let response = batch::apply(batch, route, &selector, &config, state, &mut changes).await;
    Ok(audited_each(response.unwrap_or_else(|error| error.response(state)), changes))
}

/// Reads the names of a query: `rule=NAME&plan=NAME`.
fn selector(query: &str) -> Selector {
    let mut selector = Selector::default();
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = percent_decode_str(value).decode_utf8_lossy().into_owned();
        match name {
            "rule" => selector.rule = Some(value),
            "plan" => selector.plan = Some(value),
            _ => {}
        }
    }
    selector
}

/// Key of a call, and the rules that count it.
struct KeyCall<'c> {
    route: &'c Route,
    rules: Vec<NamedLimit<'c>>,
    /// Id under which the rules count the key.
    key: Cow<'c, [u8]>,
    config: &'c Config,
    state: &'c AdminState,
}

/// Plan of a key, and its state under each rule.
type KeyState<L> = (KeyPlan, Vec<L>);

impl<'c> KeyCall<'c> {
    fn new(
        place: &Place<'c>,
        route: &'c Route,
        rules: Vec<NamedLimit<'c>>,
        config: &'c Config,
        state: &'c AdminState,
    ) -> Self {
        let key = place.key.unwrap_or_default();
        let key = rules.first().map_or(Cow::Borrowed(key), |rule| rule.key_resolver().normal_id(key));
        Self { route, rules, key, config, state }
    }

    fn describe<L: Serialize>(&self, (plan, limits): KeyState<L>) -> Reply {
        let key = key_display::shown(&self.key);
        json(StatusCode::OK, &Budget { route: &self.route.id, key, limits, plan })
    }

    /// Applies `change`, and returns the state of the key. The log gets the change, made or not.
    async fn apply(&self, change: Change) -> Reply {
        let applied = change.audit(&self.route.id, &self.rules, &key_display::shown(&self.key));
        match self.change(change).await {
            Ok(key_state) => audited(self.describe(key_state), applied),
            Err(error) => audited(error.response(self.state), format!("{applied} failed: {error}")),
        }
    }

    /// Applies `change` under each rule. Returns the state of the key afterwards.
    async fn change(&self, change: Change) -> Result<KeyState<ChangedLimit>, LimitsError> {
        let unconfirmed = |error, position| match error {
            LimitsError::Unreachable => Lost::unsent().during(change, &self.rules, position).into(),
            error => error,
        };
        // Everything that may fail without a change comes first.
        self.plan().await.map_err(|error| unconfirmed(error, 0))?;
        let stores = self.rules.iter().map(|rule| self.store(rule)).collect::<Result<Vec<_>, _>>();
        let stores = stores.map_err(|error| unconfirmed(error, 0))?;
        let mut ended = Vec::with_capacity(self.rules.len());
        for (position, (selected, store)) in self.rules.iter().zip(&stores).enumerate() {
            let rule = self.rule(selected);
            let ends_leases = store.ends_leases(rule.in_effect(), change, self.config);
            let changed = store.change(rule.check(0), change, ends_leases).await;
            changed.map_err(|lost| lost.during(change, &self.rules, position))?;
            ended.push(ends_leases);
        }
        let read = self.read().await;
        let (plan, limits) = read.map_err(|error| unconfirmed(error, self.rules.len()))?;
        let limits = limits.into_iter().zip(ended).map(|(limit, ended)| ChangedLimit {
            limit,
            leases_end_within_ms: ended.then(|| whole_millis(RedisStore::MAX_LEASE)),
        });
        Ok((plan, limits.collect()))
    }

    /// Returns the state of the key under each rule.
    async fn read(&self) -> Result<KeyState<LimitReply>, LimitsError> {
        let plan = self.plan().await?;
        let mut limits = Vec::with_capacity(self.rules.len());
        for selected in &self.rules {
            let (store, rule) = (self.store(selected)?, self.rule(selected));
            let probe = store.probe(&rule, 1).await?;
            limits.push(LimitReply {
                rule: RuleReply::under(self.route, selected, rule.in_effect()),
                effect: rule.overridden.as_ref().map(EffectReply::new),
                enforced: enforced(selected.enforcement(), &self.key),
                store: store.name(),
                remaining: probe.remaining,
                reset_after_ms: whole_millis(probe.reset_after),
                retry_after_ms: if probe.is_exceeded { probe.retry_after.map(whole_millis) } else { Some(0) },
            });
        }
        Ok((plan, limits))
    }

    async fn plan(&self) -> Result<KeyPlan, LimitsError> {
        key_plan(&self.rules, &self.key, self.config, self.state).await
    }

    fn store(&self, rule: &NamedLimit<'_>) -> Result<BucketStore, LimitsError> {
        BucketStore::of(rule.limiter, self.config, self.state)
    }

    fn rule<'r>(&'r self, rule: &'r NamedLimit<'_>) -> KeyRule<'r> {
        KeyRule::of(BucketKey { scope: &rule.scope, id: &self.key }, &rule.limit.rule, self.state)
    }
}
