//! Keys of rules that single lines of a log may lack.

use std::cell::{Cell, RefCell};

use http::header::COOKIE;
use http::request::Parts;
use http::{HeaderName, HeaderValue};
use tollgate_filters::context::Condition;
use tollgate_filters::key_resolver::{KeyResolver, KeySource};

use crate::input::LogEntry;
use tollgate_config::{PlanResolver, RateLimiter};

/// Key of rules that single lines of a log may lack. The rules of one limiter with one key resolver share it.
#[derive(Clone, Debug)]
pub(super) struct NeededKey {
    /// Names of the rules.
    pub(super) rules: Vec<String>,
    /// Their scopes. A rule that counts under the scope of its limiter has that name in logs of the time when it stood alone.
    pub(super) scopes: Vec<String>,
    /// Key resolver of the rules.
    resolver: KeyResolver,
    origin: Origin,
    /// Requests of the route.
    requests: Cell<u64>,
    /// Requests whose line lacks the key.
    pub(super) lacking: Cell<u64>,
    /// Names of all rules of the route.
    pub(super) all_rules: Vec<String>,
    /// Rules that the route does not have, of which lines have keys instead.
    foreign: RefCell<Vec<String>>,
    /// True if plans, lists or `enforce-percent` choose by the key.
    pub(super) is_chosen_by: bool,
    /// Conditions of its rules; `None` if a rule applies to every request.
    conditions: Option<u64>,
    /// False once a key does not look like a hash.
    looks_hashed: Cell<bool>,
}

/// Upper bound of the foreign rules that are named.
const MAX_FOREIGN: usize = 3;

/// Origin of a key.
#[derive(Clone, Debug)]
enum Origin {
    /// Key in the log, which the replay adds to requests in this header field.
    Log(HeaderName),
    /// Client address, and header fields of the request.
    Request { needs_client: bool, headers: Vec<HeaderName> },
}

impl NeededKey {
    /// Returns the key of `resolver` that the log has by rule. The replay adds it to requests in the header field `field`.
    pub(super) fn logged(resolver: &KeyResolver, field: HeaderName) -> Self {
        Self::new(resolver, Origin::Log(field))
    }

    /// Returns the key of `resolver` from parts of requests that single lines may lack; `None` if it reads none of them.
    pub(super) fn of_request(resolver: &KeyResolver) -> Option<Self> {
        let (mut needs_client, mut headers) = (false, Vec::new());
        for (source, _) in resolver.parts() {
            match source {
                KeySource::Client => needs_client = true,
                KeySource::Header(name) => headers.push(name.clone()),
                KeySource::Cookie(_) => headers.push(COOKIE),
                KeySource::Query(_) | KeySource::Path | KeySource::Variable(_) | KeySource::Host => {}
                KeySource::Method | KeySource::Route => {}
                KeySource::Extension | KeySource::Principal | KeySource::Function => {}
                KeySource::Token(_) | KeySource::ApiKey(_) | KeySource::Certificate(_) => {}
            }
        }
        (needs_client || !headers.is_empty()).then(|| Self::new(resolver, Origin::Request { needs_client, headers }))
    }

    fn new(resolver: &KeyResolver, origin: Origin) -> Self {
        Self {
            rules: Vec::new(),
            scopes: Vec::new(),
            resolver: resolver.clone(),
            origin,
            requests: Cell::new(0),
            lacking: Cell::new(0),
            all_rules: Vec::new(),
            foreign: RefCell::default(),
            is_chosen_by: false,
            conditions: Some(0),
            looks_hashed: Cell::new(true),
        }
    }

    /// Returns true for the key of `resolver`.
    pub(super) fn is_of(&self, resolver: &KeyResolver) -> bool {
        self.resolver == *resolver
    }

    /// Returns true if the log has the key itself.
    pub(super) fn is_logged(&self) -> bool {
        matches!(self.origin, Origin::Log(_))
    }

    /// Returns true if requests needed the key, and no line has it.
    pub(super) fn is_unknown(&self) -> bool {
        self.lacking.get() > 0 && self.lacking == self.requests
    }

    /// Returns the key resolver that reads the key of the log; `None` if the key is read from the request.
    pub(super) fn log_resolver(&self) -> Option<KeyResolver> {
        let Origin::Log(field) = &self.origin else { return None };
        KeyResolver::parse(&format!("header:{field}")).ok()
    }

    /// Adds a rule that applies under `condition`.
    pub(super) fn add_condition(&mut self, condition: Option<Condition>) {
        self.conditions = self.conditions.zip(condition).map(|(bits, condition)| bits | condition.bit());
    }

    /// Returns true if a request needs the key for which the `conditions` hold: a rule applies to it, or the key chooses.
    pub(super) fn is_needed(&self, conditions: u64) -> bool {
        self.is_chosen_by || self.conditions.is_none_or(|bits| bits & conditions != 0)
    }

    /// Adds the key of the log to the request of `entry` on the route `route`. Counts the request, also if its line lacks
    /// the key.
    pub(super) fn apply(&self, head: &mut Parts, entry: &LogEntry, route: &str) {
        self.requests.set(self.requests.get() + 1);
        let has_key = match &self.origin {
            Origin::Log(field) => match self.in_line(entry, route) {
                Some(key) => head.headers.insert(field.clone(), key).is_none(),
                None => false,
            },
            Origin::Request { needs_client, headers } => {
                (!needs_client || entry.client.is_some()) && headers.iter().all(|name| head.headers.contains_key(name))
            }
        };
        self.lacking.set(self.lacking.get() + u64::from(!has_key));
    }

    fn in_line(&self, entry: &LogEntry, route: &str) -> Option<HeaderValue> {
        if entry.route() != Some(route.as_bytes()) {
            return None;
        }
        let mut names = self.rules.iter().chain(&self.scopes);
        let key = names.find_map(|name| entry.key_of(name)).filter(|key| !key.is_empty());
        match &key {
            Some(key) if self.looks_hashed.get() => self.looks_hashed.set(looks_hashed(key.as_bytes())),
            Some(_) => {}
            None => self.note_foreign(entry),
        }
        key
    }

    /// Notes the rules of other names that have a key in the line.
    fn note_foreign(&self, entry: &LogEntry) {
        let mut foreign = self.foreign.borrow_mut();
        for name in entry.rules_with_keys() {
            let is_known = self.all_rules.iter().chain(&*foreign).any(|rule| rule.as_bytes() == name);
            if foreign.len() < MAX_FOREIGN && !is_known {
                foreign.push(String::from_utf8_lossy(name).escape_debug().to_string());
            }
        }
    }

    /// Describes why the keys of the log may not be those of this configuration.
    fn hashing_hint(&self) -> &'static str {
        if self.is_chosen_by && self.looks_hashed.get() && self.requests.get() > self.lacking.get() {
            "; all keys look like hashes: if the gateway had `management.hash-keys`, set it in this configuration too, \
             since plans, lists and `enforce-percent` need the keys"
        } else {
            ""
        }
    }

    /// Describes how far the log has the key; `None` if each line of the route has what the request had.
    pub(super) fn note(&self) -> Option<String> {
        let (resolver, requests, lacking) = (&self.resolver, self.requests.get(), self.lacking.get());
        let condition = "which holds if the key resolver is unchanged";
        Some(match (self.is_logged(), lacking) {
            (true, 0) => format!("its key `{resolver}` is taken from the log, {condition}{}", self.hashing_hint()),
            (false, 0) => return None,
            (_, lacking) if lacking == requests => {
                let foreign = self.foreign.borrow().join("`, `");
                let hint = match foreign.as_str() {
                    "" => String::new(),
                    foreign => format!(
                        " under this name; the lines have keys of `{foreign}`: give a rule with the same key resolver that name"
                    ),
                };
                format!("not simulated: its key is `{resolver}`, which no line of the route has{hint}")
            }
            (true, lacking) => format!(
                "its key `{resolver}` is taken from the log, {condition}; {lacking} of {requests} requests are not \
                 simulated: their lines lack it{}",
                self.hashing_hint()
            ),
            (false, lacking) => {
                format!("{lacking} of {requests} requests are not simulated: their lines lack the key `{resolver}`")
            }
        })
    }
}

/// Returns true for a text of the form that `management.hash-keys` writes.
fn looks_hashed(key: &[u8]) -> bool {
    key.len() == 16 && key.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns true if plans or lists choose by the key of a request.
pub(super) fn chooses_by_key(limiter: &RateLimiter) -> bool {
    let has_table = limiter.plans.as_ref().is_some_and(|plans| matches!(plans.resolver, PlanResolver::Table(_)));
    has_table || !(limiter.settings.exempt.is_empty() && limiter.settings.block.is_empty())
}
