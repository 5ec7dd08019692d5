//! Replay of requests through one configuration.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::task::{Context, Waker};

use http::Request;
use http::request::Parts;
use tollgate_filters::context::RequestContext;
use tollgate_filters::request_rate_limiter::VerdictKind;

use crate::context::{LogContext, RunningRequest};
use crate::input::{LogEntry, LogTime, LoggedVerdict, Slot};
use crate::keys::NeededKey;
use crate::local_responses::{LimiterReach, LocalResponses};
use crate::log_facts::LogFacts;
use crate::log_route::{LogRoute, RouteMatch, find_route};
use crate::report::{Note, Outcome, Reproduced, RouteOutcome};
use crate::routes::RouteBuilder;
use crate::run::{Finished, Refusal};
use crate::statistics::RouteCounts;
use crate::suggest::Measurement;
use tollgate_config::Config;
use tollgate_proxy::gateway::sanitize::{SanitizeRules, sanitize};
use tollgate_proxy::http::body::Body;
use tollgate_proxy::http::facts::{self, RequestFacts};
use tollgate_routing::{RequestView, RouteTable};

/// Replay of requests through one configuration.
pub struct Replay {
    table: RouteTable<LogRoute>,
    local_responses: LocalResponses,
    context: LogContext,
    sanitize: SanitizeRules,
    notes: Vec<Note>,
    /// Counts by position of the route.
    counts: Vec<RouteCounts>,
    totals: Outcome,
    reproduced: Reproduced,
    /// Measures requests instead of counting their verdicts.
    pub(super) measurement: Option<Measurement>,
    waiting: BTreeMap<(LogTime, u64), (RunningRequest, Vec<LogTime>)>,
    /// Facts of a finished request, emptied for the next one.
    spare_facts: Option<Box<RequestFacts>>,
}

/// Upper bound of the requests that wait for a further decision. Beyond it, the first continue early.
const MAX_WAITING: usize = 10_000;

/// Times at which a request is replayed.
#[derive(Clone, Debug)]
pub struct ReplayTimes<'t> {
    /// Time of the next request.
    pub horizon: LogTime,
    /// Time of the request.
    pub now: LogTime,
    /// Times of the decisions; empty for one at `now`.
    pub decided: &'t [LogTime],
}

impl Replay {
    /// Prepares the routes of `config` for logs with the facts `log_facts`. `file` names the configuration in the report.
    pub(super) fn new(file: &str, config: &Config, log_facts: &LogFacts) -> Self {
        let context = LogContext::new(config);
        let log_facts = &log_facts.under(config);
        let local_responses = LocalResponses::new(config, log_facts);
        let mut builder = RouteBuilder {
            config,
            log_facts,
            local_responses: &local_responses,
            context: &context,
            notes: Vec::new(),
            switched_off: 0,
        };
        let table = builder.table();
        let notes = builder.notes;
        Self {
            counts: table.iter().map(|_| RouteCounts::default()).collect(),
            table,
            local_responses,
            context,
            sanitize: SanitizeRules::of(config),
            notes,
            totals: Outcome { file: file.to_owned(), ..Outcome::default() },
            reproduced: Reproduced::default(),
            measurement: None,
            waiting: BTreeMap::new(),
            spare_facts: None,
        }
    }

    /// Returns true if requests need this field of the log. Other fields are not read from its lines.
    pub(super) fn reads(&self, slot: &Slot) -> bool {
        let any = |is_so: fn(&LogRoute) -> bool| self.table.iter().any(|(_, route)| is_so(route));
        let has_logged_keys = any(|route| route.keys.iter().any(NeededKey::is_logged));
        match slot {
            Slot::Status | Slot::Skipped => false,
            Slot::Rule | Slot::Key | Slot::Keys => has_logged_keys,
            Slot::Route => self.measurement.is_some() || has_logged_keys || any(|route| route.is_uncertain),
            Slot::Reason => has_logged_keys || self.local_responses.has_policies() || any(|route| route.checks_size),
            Slot::Time | Slot::Decided | Slot::DecidedOrder | Slot::Client | Slot::Method | Slot::Target => true,
            Slot::Query | Slot::Request | Slot::Host | Slot::ReceivedBytes | Slot::Verdict | Slot::Header(_) => true,
        }
    }

    /// Replays a request with this `number`, and adds it to `finished` unless it waits for a further decision.
    pub fn run(&mut self, number: u64, entry: &LogEntry, times: &ReplayTimes<'_>, finished: &mut Finished) {
        self.advance(times.now, finished);
        self.totals.requests += 1;
        let head = entry.head();
        let Some(mut head) = head.and_then(|mut head| sanitize(&mut head, self.sanitize, true).ok().map(|_| head))
        else {
            self.totals.refused += 1;
            return finished.push((number, None));
        };
        let client = entry.client.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let view = RequestView::new(&head.method, &head.uri, &head.headers, client, 0);
        let Some(index) = self.route_of(&head, &view, entry) else { return finished.push((number, None)) };
        let Some((predicates, route)) = self.table.get(index) else { return };
        if !route.is_limited {
            self.count_route(index, false);
            self.reproduced.different += u64::from(entry.verdict.is_some());
            return finished.push((number, None));
        }
        let listed = route.listed_verdict(entry);
        let is_blocked = listed == Some(LoggedVerdict::Blocked);
        // Earlier limiters counted a blocked request that has decisions. No limiter counted an exempt one.
        if listed.is_some() && !(is_blocked && entry.first_decided.is_some()) {
            let refusal = is_blocked.then(|| (Arc::clone(&route.id), Arc::clone(&route.id)));
            self.reproduced.same += 1;
            self.totals.denied += u64::from(is_blocked);
            self.count_route(index, is_blocked);
            return finished.push((number, refusal));
        }
        let Ok(conditions) = route.conditions.decide(&view) else {
            self.totals.undetermined += 1;
            return finished.push((number, None));
        };
        let mut variables = Vec::new();
        if route.needs_variables {
            predicates.iter().for_each(|predicate| predicate.capture_variables(&view, &mut variables));
        }
        let needed = route.keys.iter().filter(|key| key.is_needed(conditions));
        needed.for_each(|key| key.apply(&mut head, entry, &route.id));
        let context = RequestContext {
            client_ip: entry.client,
            route_id: Some(Arc::clone(&route.id)),
            variables,
            conditions,
            ..RequestContext::default()
        };
        if let Some(request) = self.start((number, index), head, context, entry, times) {
            self.poll(request, finished);
        }
    }

    /// Starts the layers of the route at `index` on a request with this `context`.
    fn start(
        &mut self,
        (number, index): (u64, usize),
        mut head: Parts,
        context: RequestContext,
        entry: &LogEntry,
        times: &ReplayTimes<'_>,
    ) -> Option<RunningRequest> {
        let (_, route) = self.table.get(index)?;
        head.extensions.insert(context);
        let further = times.decided.iter().rev().copied();
        self.context.clock.set(times.now, further, self.horizon(times.horizon));
        let mut facts = Some(self.spare_facts.take().unwrap_or_default());
        // The limiters decide in this call or in a poll.
        let collection = facts::collect(&mut facts);
        let response = route.service.respond(Request::from_parts(head, Body::default()));
        drop(collection);
        Some(RunningRequest {
            at: times.now,
            number,
            second_us: times.now.us,
            route: index,
            logged_route: self.measurement.as_mut().and_then(|it| it.logged_route(entry.route())),
            logged: entry.verdict,
            is_blocked: route.listed_verdict(entry) == Some(LoggedVerdict::Blocked),
            response,
            facts,
        })
    }

    /// Returns the position of the request's route if the request reaches the route's limiters. Otherwise counts the reason.
    fn route_of(&mut self, head: &Parts, view: &RequestView<'_>, entry: &LogEntry) -> Option<usize> {
        let is_endpoint = self.local_responses.is_traffic_endpoint(head.uri.path());
        let search = if is_endpoint { RouteMatch::None } else { find_route(&self.table, view, entry.route()) };
        let count = match search {
            _ if is_endpoint => &mut self.totals.answered,
            RouteMatch::None => &mut self.totals.unrouted,
            RouteMatch::Undetermined => &mut self.totals.undetermined,
            RouteMatch::Route(index) => {
                let (_, route) = self.table.get(index)?;
                match self.local_responses.reach(head, view, entry, route) {
                    LimiterReach::Reached => return Some(index),
                    LimiterReach::NotReached => &mut self.totals.answered,
                    LimiterReach::Unknown => &mut self.totals.undetermined,
                }
            }
        };
        *count += 1;
        None
    }

    /// Returns the time of the next decision of another request, if the next request has the time `next`.
    fn horizon(&self, next: LogTime) -> LogTime {
        self.waiting.keys().next().map_or(next, |(at, _)| next.min(*at))
    }

    /// Continues the requests whose next decision is due before a request at `now`.
    pub fn advance(&mut self, now: LogTime, finished: &mut Finished) {
        while self.waiting.len() > MAX_WAITING || self.waiting.keys().next().is_some_and(|(at, _)| *at <= now) {
            let Some((_, (request, further))) = self.waiting.pop_first() else { return };
            let at = request.at;
            self.context.clock.set(at, further, self.horizon(now).max(at));
            self.poll(request, finished);
        }
    }

    /// Polls a request until it ends or waits for the time of its next decision.
    fn poll(&mut self, mut request: RunningRequest, finished: &mut Finished) {
        let RunningRequest { response, facts, .. } = &mut request;
        let collection = facts::collect(facts);
        let polled = response.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop(collection);
        match self.context.clock.take_awaited() {
            Some((at, further)) if polled.is_pending() => {
                request.at = at;
                self.waiting.insert((at, request.number), (request, further));
            }
            _ => finished.push((request.number, self.count(request))),
        }
    }

    /// Counts the verdicts on a request. Returns the rule that refused it.
    fn count(&mut self, request: RunningRequest) -> Option<Refusal> {
        let (_, route) = self.table.get(request.route)?;
        let mut facts = request.facts.unwrap_or_default();
        let limiter = &facts.limiter;
        let counts = self.counts.get_mut(request.route)?;
        match &mut self.measurement {
            Some(measurement) => measurement.add(&route.id, request.logged_route, limiter, request.second_us),
            None => counts.add_verdicts(limiter, request.second_us),
        }
        let verdict = limiter.verdict();
        let is_refusal = |kind| matches!(kind, VerdictKind::Denied | VerdictKind::Blocked);
        let refusal = limiter.verdicts.iter().find(|verdict| is_refusal(verdict.kind));
        let refusal = refusal.map(|verdict| (Arc::clone(&route.id), Arc::clone(&verdict.labels.rule)));
        let refusal = refusal.or_else(|| request.is_blocked.then(|| (Arc::clone(&route.id), Arc::clone(&route.id))));
        let is_refused = refusal.is_some();
        counts.add(is_refused);
        self.totals.denied += u64::from(is_refused);
        facts.clear();
        self.spare_facts = Some(facts);
        if let Some(logged) = request.logged {
            let is_same = (verdict.is_some() || request.is_blocked)
                && matches!(logged, LoggedVerdict::Denied | LoggedVerdict::Blocked) == is_refused;
            *(if is_same { &mut self.reproduced.same } else { &mut self.reproduced.different }) += 1;
        }
        refusal
    }

    fn count_route(&mut self, index: usize, is_refused: bool) {
        if let Some(counts) = self.counts.get_mut(index) {
            counts.add(is_refused);
        }
    }

    /// Returns the result.
    #[must_use]
    pub fn finish(mut self) -> Outcome {
        let (mut routes, mut rules) = (Vec::new(), Vec::new());
        for ((_, route), mut counts) in self.table.iter().zip(std::mem::take(&mut self.counts)) {
            let id = route.id.to_string();
            for (key, rule) in route.keys.iter().flat_map(|key| key.rules.iter().map(move |rule| (key, rule))) {
                if let lacking @ 1.. = key.lacking.get() {
                    counts.rule(&rule.as_str().into()).unknown = lacking;
                }
                let note = key.note().map(|text| Note { route: id.clone(), rule: Some(rule.clone()), text });
                self.notes.extend(note.filter(|note| !self.notes.contains(note)));
            }
            routes.push(RouteOutcome {
                route: id.clone(),
                requests: counts.requests,
                denied: counts.denied,
                unsimulated_rules: route.unsimulated_rules(),
                all_rules: route.all_rules,
            });
            rules.extend(counts.outcomes(&id));
        }
        rules.sort_by(|a, b| a.route.cmp(&b.route));
        let has_verdicts = self.reproduced != Reproduced::default();
        Outcome { routes, rules, notes: self.notes, reproduced: has_verdicts.then_some(self.reproduced), ..self.totals }
    }
}
