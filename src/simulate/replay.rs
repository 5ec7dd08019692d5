//! Replay of requests through one configuration.

use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::header::{CONTENT_LENGTH, HOST};
use http::request::Parts;
use http::{HeaderValue, Request};
use tollgate_filters::context::RequestContext;
use tollgate_filters::request_rate_limiter::VerdictKind;

use crate::gateway::sanitize::{SanitizeRules, sanitize};
use crate::http::body::Body;
use crate::http::facts::{self, RequestFacts};
use crate::simulate::context::LogContext;
use crate::simulate::input::{Entry, LoggedVerdict};
use crate::simulate::knowledge::Known;
use crate::simulate::report::{KeyCount, Note, Outcome, Reproduced, RouteOutcome, RuleOutcome, percent, time};
use crate::simulate::routes::{LogRoute, RouteBuilder};
use crate::simulate::statistics::Counts;
use tollgate_config::Config;
use tollgate_routing::{RequestView, RouteTable};

/// Number of keys that are reported per rule.
const TOP_KEYS: usize = 10;

/// Replay of requests through one configuration.
pub struct Replay {
    table: RouteTable<LogRoute>,
    context: LogContext,
    sanitize: SanitizeRules,
    notes: Vec<Note>,
    counts: Counts,
    /// Requests and denials by position of the route.
    routes: Vec<(u64, u64)>,
    totals: Outcome,
    reproduced: Reproduced,
}

/// Times at which a request is replayed, in microseconds.
#[derive(Clone, Debug)]
pub struct ReplayTimes {
    /// Time of the request.
    pub now_us: u64,
    /// Times of the decisions; empty for `now_us`.
    pub decided_us: Vec<u64>,
}

impl Replay {
    /// Prepares the routes of `config` for logs with the facts `known`. `file` names the configuration in the report.
    pub(super) fn new(file: &str, config: &Config, known: &Known) -> Self {
        let context = LogContext::new(config);
        let mut builder = RouteBuilder { config, known, context: &context, notes: Vec::new() };
        let table = builder.table();
        let notes = builder.notes;
        Self {
            routes: vec![(0, 0); table.len()],
            table,
            context,
            sanitize: SanitizeRules::of(config),
            notes,
            counts: Counts::default(),
            totals: Outcome { file: file.to_owned(), ..Outcome::default() },
            reproduced: Reproduced::default(),
        }
    }

    /// Replays a request. Returns true if limiters refused it.
    pub fn run(&mut self, entry: &Entry, times: &ReplayTimes) -> bool {
        self.totals.requests += 1;
        let Some(mut head) = head(entry) else {
            self.totals.refused += 1;
            return false;
        };
        if sanitize(&mut head, self.sanitize).is_err() {
            self.totals.refused += 1;
            return false;
        }
        let client = entry.client.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let view = RequestView::new(&head.method, &head.uri, &head.headers, client, 0);
        let index = match find(&self.table, &view, entry.logged.route.as_deref()) {
            Found::Route(index) => index,
            Found::None => {
                self.totals.unrouted += 1;
                return false;
            }
            Found::Undetermined => {
                self.totals.undetermined += 1;
                return false;
            }
        };
        let Some((predicates, route)) = self.table.iter().nth(index) else { return false };
        let mut variables = Vec::new();
        if route.needs_variables {
            predicates.iter().for_each(|predicate| predicate.capture_variables(&view, &mut variables));
        }
        add_logged_keys(&mut head, entry, route);
        head.extensions.insert(RequestContext {
            client_ip: entry.client,
            route_id: Some(Arc::clone(&route.id)),
            variables,
            ..RequestContext::default()
        });
        self.context.clock.set(times.now_us, times.decided_us.iter().copied());
        let facts = judge(route, Request::from_parts(head, Body::default()));
        let route_id = Arc::clone(&route.id);
        self.count(index, &route_id, entry, times, &facts)
    }

    /// Counts the verdicts on a request. Returns true if limiters refused it.
    fn count(
        &mut self,
        index: usize,
        route: &Arc<str>,
        entry: &Entry,
        times: &ReplayTimes,
        facts: &RequestFacts,
    ) -> bool {
        let limiter = &facts.limiter;
        self.counts.add(route, limiter, times.now_us);
        let verdict = limiter.verdict();
        let is_refused = matches!(verdict, Some(VerdictKind::Denied | VerdictKind::Blocked));
        if let Some(counts) = self.routes.get_mut(index) {
            counts.0 += 1;
            counts.1 += u64::from(is_refused);
        }
        self.totals.denied += u64::from(is_refused);
        if let Some(logged) = entry.logged.verdict {
            let is_same = verdict.is_some() && (logged == LoggedVerdict::Refused) == is_refused;
            *(if is_same { &mut self.reproduced.same } else { &mut self.reproduced.different }) += 1;
        }
        is_refused
    }

    /// Returns the result.
    #[must_use]
    pub fn finish(mut self) -> Outcome {
        let routes = self.table.iter().zip(&self.routes).map(|((_, route), (requests, denied))| RouteOutcome {
            route: route.id.to_string(),
            requests: *requests,
            denied: *denied,
        });
        let routes = routes.collect();
        let rules = std::mem::take(&mut self.counts.rules).into_iter().map(|((route, rule), counts)| {
            let mut top: Vec<_> = counts.denied_keys.iter().collect();
            let denied_keys = top.len();
            top.sort_unstable_by(|(a, x), (b, y)| y.cmp(x).then(a.cmp(b)));
            top.truncate(TOP_KEYS);
            let key_count = |(key, denied): (&Box<[u8]>, &u64)| KeyCount {
                key: String::from_utf8_lossy(key).into_owned(),
                denied: *denied,
            };
            RuleOutcome {
                route: route.to_string(),
                rule: rule.to_string(),
                requests: counts.requests,
                denied: counts.denied,
                observed: counts.observed,
                share: percent(counts.denied + counts.observed, counts.requests),
                peak_per_second: counts.peak,
                peak_at: (counts.peak > 0).then(|| time(counts.peak_second * 1_000_000)).flatten(),
                denied_keys,
                top: top.into_iter().map(key_count).collect(),
                chart: counts.chart,
            }
        });
        let mut rules: Vec<RuleOutcome> = rules.collect();
        rules.sort_by(|a, b| (&a.route, &a.rule).cmp(&(&b.route, &b.rule)));
        let has_verdicts = self.reproduced != Reproduced::default();
        Outcome { routes, rules, notes: self.notes, reproduced: has_verdicts.then_some(self.reproduced), ..self.totals }
    }
}

/// Route of a request.
enum Found {
    Route(usize),
    None,
    Undetermined,
}

/// Finds the route of a request. The route in the log decides on routes that read parts which the log lacks.
fn find(table: &RouteTable<LogRoute>, view: &RequestView<'_>, logged: Option<&str>) -> Found {
    let first = match table.find(view) {
        Ok(Some(found)) => found,
        Ok(None) => return Found::None,
        Err(_) => return Found::Undetermined,
    };
    if !first.value.is_uncertain {
        return Found::Route(first.index);
    }
    let Some(logged) = logged else { return Found::Undetermined };
    for (index, (predicates, route)) in table.iter().enumerate().skip(first.index) {
        if (!route.is_uncertain || *route.id == *logged) && predicates.iter().all(|predicate| predicate.matches(view)) {
            return Found::Route(index);
        }
    }
    Found::None
}

/// Builds the head of a request; `None` if its target is malformed.
fn head(entry: &Entry) -> Option<Parts> {
    let mut request = Request::builder().method(entry.method.clone()).uri(entry.target.as_str()).body(()).ok()?;
    let headers = request.headers_mut();
    let host = entry.host.as_deref().and_then(|host| HeaderValue::from_str(host).ok());
    headers.insert(HOST, host.unwrap_or(HeaderValue::from_static("localhost")));
    for (name, value) in &entry.headers {
        headers.append(name.clone(), value.clone());
    }
    if let Some(bytes @ 1..) = entry.received_bytes {
        headers.insert(CONTENT_LENGTH, bytes.into());
    }
    Some(request.into_parts().0)
}

/// Adds the keys that the log has for rules of the route.
fn add_logged_keys(head: &mut Parts, entry: &Entry, route: &LogRoute) {
    if entry.logged.route.as_deref() != Some(&*route.id) {
        return;
    }
    for (rule, field) in &route.logged_keys {
        let key = entry.logged.keys.iter().find(|(logged, _)| logged == rule);
        if let Some(value) = key.and_then(|(_, key)| HeaderValue::from_str(key).ok()) {
            head.headers.insert(field.clone(), value);
        }
    }
}

/// Passes a request through the layers of a route, and returns the facts that they report.
fn judge(route: &LogRoute, request: Request<Body>) -> RequestFacts {
    let mut facts = Some(Box::<RequestFacts>::default());
    facts::collect(&mut facts, || {
        let mut response = pin!(route.service.respond(request));
        // Stores in memory decide at once, and the upstream answers at once.
        let polled = response.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        debug_assert!(matches!(polled, Poll::Ready(_)));
    });
    facts.map(|facts| *facts).unwrap_or_default()
}
