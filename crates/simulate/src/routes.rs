//! Routes of a configuration, prepared for a simulation.

use std::sync::Arc;

use http::HeaderName;
use tollgate_filters::key_resolver::{KeyResolver, KeySource};
use tollgate_filters::request_rate_limiter::Enforcement;

use crate::context::LogContext;
use crate::keys::{NeededKey, chooses_by_key};
use crate::local_responses::LocalResponses;
use crate::log_facts::{LackingParts, LogFacts, Treatment, map_hint};
use crate::log_route::LogRoute;
use crate::report::Note;
use tollgate_config::{Audience, Config, Filter, Limit, Naming, PlanResolver, RateLimiter, Route, Rules, Target};
use tollgate_proxy::gateway::stack::route_service;
use tollgate_proxy::http::service::SharedService;
use tollgate_routing::{Predicate, RequestPart, RouteTable};

/// Builds the routes, and notes their parts that cannot be simulated.
pub(super) struct RouteBuilder<'c> {
    pub(super) config: &'c Config,
    pub(super) log_facts: &'c LogFacts,
    pub(super) local_responses: &'c LocalResponses,
    pub(super) context: &'c LogContext,
    pub(super) notes: Vec<Note>,
    /// Rules of the current route that are switched off.
    pub(super) switched_off: usize,
}

impl RouteBuilder<'_> {
    /// Returns the table of all routes.
    pub(super) fn table(&mut self) -> RouteTable<LogRoute> {
        let config = self.config;
        RouteTable::new(config.routes.iter().map(|route| self.route(route)).collect())
    }

    fn route(&mut self, route: &Route) -> (Vec<Predicate>, LogRoute) {
        let (predicates, is_uncertain) = self.predicates(route);
        self.switched_off = 0;
        let (filters, keys, all_rules) = self.filters(route);
        let switched_off = self.switched_off;
        let is_limited = route.rate_limiters().next().is_some();
        let checks_size = self.note_sizes(route);
        if let Some(text) = self.local_responses.note().filter(|_| is_limited) {
            self.note(route, None, text.to_owned());
        }
        if matches!(route.uri, Target::Forward(_)) {
            self.note(route, None, "limits of the route behind `forward:` are not simulated".to_owned());
        }
        let keeps_lists = self.keeps_lists(route);
        if keeps_lists {
            let text = match self.log_facts.hashes_keys {
                true => {
                    "verdicts of its lists are taken from the log, which has hashes of keys (`management.hash-keys`)"
                }
                false => {
                    "its lists exempt and block at least the requests that they did in the log, which lacks their keys"
                }
            };
            self.note(route, None, text.to_owned());
        }
        let prepared = Route { filters, ..route.clone() };
        let service =
            route_service(&prepared, self.config.repeated_keys, (None, None), SharedService::empty(), self.context);
        let needs_variables = prepared.filters.iter().any(|filter| filter.properties().needs_variables);
        let id = Arc::clone(&route.id);
        (
            predicates,
            LogRoute {
                id,
                service,
                needs_variables,
                conditions: prepared.conditions(),
                is_limited,
                is_uncertain,
                checks_size,
                keeps_lists,
                keys,
                all_rules,
                switched_off,
            },
        )
    }

    /// Returns the predicates that the log can decide, and true if it lacks parts that others read, which are noted.
    fn predicates(&mut self, route: &Route) -> (Vec<Predicate>, bool) {
        let (lacking, decidable): (Vec<_>, Vec<_>) = (route.predicates.iter().enumerate())
            .partition(|(_, predicate)| self.log_facts.lacks_for_predicate(predicate));
        if !lacking.is_empty() {
            let texts = route.definition.masked_predicates(Audience::Shell);
            let names: Vec<_> = lacking.iter().filter_map(|(at, _)| texts.get(*at)).map(String::as_str).collect();
            let by = if self.log_facts.is_tollgate_log { "taken from the log" } else { "not simulated" };
            let mut parts = lacking.iter().flat_map(|(_, predicate)| predicate.reads());
            let lacks_method = parts.any(|part| matches!(part, RequestPart::Method)) && !self.log_facts.has_method;
            let hint = map_hint(lacks_method.then_some(KeySource::Method));
            let text = format!("{by}: `{}` reads parts of requests that the log lacks{hint}", names.join("`, `"));
            self.note(route, None, text);
        }
        (decidable.into_iter().map(|(_, predicate)| predicate.clone()).collect(), !lacking.is_empty())
    }

    /// Returns the filters that run, the keys of their rules that single lines may lack, and the number of all rules. Others
    /// are noted.
    fn filters(&mut self, route: &Route) -> (Vec<Filter>, Vec<NeededKey>, usize) {
        let (mut filters, mut keys, mut names) = (Vec::new(), Vec::new(), Vec::new());
        let mut number = 0;
        for filter in &route.filters {
            match Treatment::of(filter) {
                Treatment::Limiter(limiter) => {
                    number += 1;
                    let mut limiter = Box::new(limiter.clone());
                    names.extend(self.limiter(route, number, &mut limiter, &mut keys));
                    filters.push(Filter::RequestRateLimiter(limiter));
                }
                Treatment::Runs => filters.push(filter.clone()),
                Treatment::Noted(text) => self.note(route, None, text.to_owned()),
                Treatment::ChecksSize(_) | Treatment::LeftOut => {}
            }
        }
        keys.iter_mut().for_each(|key: &mut NeededKey| key.all_rules.clone_from(&names));
        (filters, keys, names.len())
    }

    /// Notes the filters in front of a limiter that refuse requests by their size. Returns true if there are any.
    fn note_sizes(&mut self, route: &Route) -> bool {
        let is_limiter = |filter: &Filter| matches!(filter, Filter::RequestRateLimiter(_));
        let last_limiter = route.filters.iter().rposition(is_limiter).unwrap_or_default();
        let sizes = route.filters[..last_limiter].iter().filter_map(|filter| match Treatment::of(filter) {
            Treatment::ChecksSize(name) => Some(name),
            Treatment::Limiter(_) | Treatment::Runs | Treatment::Noted(_) | Treatment::LeftOut => None,
        });
        let names = sizes.collect::<Vec<_>>().join("`, `");
        if names.is_empty() {
            return false;
        }
        let text = match self.log_facts.is_tollgate_log {
            true => format!("refusals by `{names}` are taken from the log, which holds if the filter is unchanged"),
            false => {
                format!("refusals by `{names}` are not simulated: the log lacks the sizes, so every request is counted")
            }
        };
        self.note(route, None, text);
        true
    }

    /// Returns true if access lists of the route read keys that the log has only for requests that rules counted.
    fn keeps_lists(&self, route: &Route) -> bool {
        let is_kept = |naming: Naming<'_>| {
            let settings = &naming.limiter.settings;
            let rules = naming.all();
            let of_rules = rules.iter().filter_map(|rule| rule.limit.key_resolver.as_ref());
            !(settings.exempt.is_empty() && settings.block.is_empty())
                && of_rules.chain([&settings.key_resolver]).any(|resolver| self.log_facts.lacks(resolver).is_some())
        };
        self.log_facts.is_tollgate_log && route.rate_limiters().any(is_kept)
    }

    /// Replaces keys that the log lacks by those that it has, and switches off rules that stay unknown. Returns the names of
    /// all rules.
    fn limiter(
        &mut self,
        route: &Route,
        number: usize,
        limiter: &mut RateLimiter,
        keys: &mut Vec<NeededKey>,
    ) -> Vec<String> {
        let naming = Naming { route: &route.id, number, limiter };
        let rules = naming.all().into_iter().map(|rule| (rule.label.to_string(), rule.scope.to_string()));
        let (names, scopes): (Vec<String>, Vec<String>) = rules.unzip();
        let default = limiter.settings.key_resolver.clone();
        if limiter.forwards() {
            self.note(route, None, "limits of the route behind `on-limit: forward:` are not simulated".to_owned());
        }
        if let Some(text) = self.unknown_plan(limiter) {
            limiter.settings.enforcement = Enforcement::Off;
            self.switched_off += names.len();
            self.note(route, None, format!("the limiter is not simulated: {text}"));
            return names;
        }
        // Responses are not read.
        limiter.settings.headers.include = false;
        let (first, shared) = (keys.len(), limiter.settings.enforcement);
        let (is_chosen_by, conditions) = (chooses_by_key(limiter), route.conditions());
        for ((limit, name), scope) in limits_mut(limiter).zip(&names).zip(scopes) {
            let resolver = limit.key_resolver.as_ref().unwrap_or(&default).clone();
            let lacking = self.log_facts.lacks(&resolver);
            let is_share = matches!(limit.enforcement.and(shared), Enforcement::PerTenThousand(1..10_000));
            if let Some(text) = self.unknown_rule(limit, lacking.as_ref(), is_share) {
                limit.enforcement = Enforcement::Off;
                self.switched_off += 1;
                self.note(route, Some(name), format!("not simulated: {text}"));
                continue;
            }
            let Some(key) = self.needed_key(keys, first, &resolver, lacking.is_some()) else { continue };
            key.rules.push(name.clone());
            key.scopes.push(scope);
            key.add_condition(conditions.of_rule(limit));
            key.is_chosen_by |= !self.log_facts.hashes_keys && (is_chosen_by || is_share);
            if let Some(logged) = key.log_resolver() {
                limit.key_resolver = Some(logged);
            }
        }
        if keys.len() > first {
            // Requests without a key in the log are counted, not refused.
            limiter.settings.deny_empty_key = false;
        }
        // Access lists and plans read the key of the limiter.
        let key = keys[first..].iter().find(|key| key.is_of(&default));
        if let Some(resolver) = key.and_then(NeededKey::log_resolver) {
            limiter.settings.key_resolver = resolver;
        }
        names
    }

    /// Describes why a rule cannot be simulated, whose key the log has but for the parts `lacking`; `None` if it can. A rule
    /// that `is_share` is enforced for a share of the keys.
    fn unknown_rule(&self, limit: &Limit, lacking: Option<&LackingParts<'_>>, is_share: bool) -> Option<String> {
        let mut conditions = limit.when.iter().flat_map(|when| when.predicates.iter().zip(when.texts(Audience::Shell)));
        if let Some((_, text)) = conditions.find(|(predicate, _)| self.log_facts.lacks_for_predicate(predicate)) {
            return Some(format!("`{text}` of its `when` reads parts of requests that the log lacks"));
        }
        if let Some(text) = self.log_facts.lacks_for_cost(&limit.cost) {
            return Some(format!("{text}, which the log lacks"));
        }
        match lacking? {
            lacking if !self.log_facts.is_tollgate_log => {
                Some(format!("its key is `{lacking}`, which the log lacks{}", lacking.hint()))
            }
            _ if is_share && self.log_facts.hashes_keys => Some(
                "`enforce-percent` chooses keys, and the log has hashes of them (`management.hash-keys`)".to_owned(),
            ),
            _ => None,
        }
    }

    /// Returns the key of `resolver` that single lines may lack, of those from `first` on, and adds it if it is not there.
    /// `None` if every line has it.
    fn needed_key<'k>(
        &self,
        keys: &'k mut Vec<NeededKey>,
        first: usize,
        resolver: &KeyResolver,
        is_lacking: bool,
    ) -> Option<&'k mut NeededKey> {
        if let Some(position) = keys[first..].iter().position(|key| key.is_of(resolver)) {
            return keys.get_mut(first + position);
        }
        let key = if is_lacking {
            let field = HeaderName::try_from(format!("x-tollgate-simulated-key-{}", keys.len())).ok()?;
            NeededKey::logged(resolver, field)
        } else {
            NeededKey::of_request(resolver).filter(|_| self.log_facts.is_mapped)?
        };
        keys.push(key);
        keys.last_mut()
    }

    /// Describes why the plans of requests are unknown; `None` if they are known, or if there are none.
    fn unknown_plan(&self, limiter: &RateLimiter) -> Option<String> {
        match &limiter.plans.as_ref()?.resolver {
            PlanResolver::RedisHash { key, .. } => Some(format!("plans are in the Redis hash `{key}`")),
            PlanResolver::Request(resolver) => {
                self.log_facts.lacks(resolver).map(|lacking| format!("the plan is in `{lacking}`, which the log lacks"))
            }
            PlanResolver::Table(_) => {
                let lacking = self.log_facts.lacks(&limiter.settings.key_resolver)?;
                match (self.log_facts.hashes_keys, self.log_facts.is_tollgate_log) {
                    (true, _) => {
                        Some("plans are by key, and the log has hashes of keys (`management.hash-keys`)".to_owned())
                    }
                    (false, true) => None,
                    (false, false) => Some(format!("plans are by the key `{lacking}`, which the log lacks")),
                }
            }
        }
    }

    fn note(&mut self, route: &Route, rule: Option<&str>, text: String) {
        let note = Note { route: route.id.to_string(), rule: rule.map(str::to_owned), text };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Returns every rule in the order of [`Naming::all`].
pub(super) fn limits_mut(limiter: &mut RateLimiter) -> impl Iterator<Item = &mut Limit> {
    let plans = limiter.plans.iter_mut().flat_map(|plans| &mut plans.sets).map(|(_, rules)| rules);
    std::iter::once(&mut limiter.rules).chain(plans).flat_map(|rules| {
        let (one, several) = match rules {
            Rules::One(limit) => (Some(&mut **limit), [].as_mut_slice()),
            Rules::Several(limits) => (None, limits.as_mut_slice()),
        };
        one.into_iter().chain(several.iter_mut().map(|(_, limit)| limit))
    })
}
