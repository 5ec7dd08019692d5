//! Facts about requests that a log holds, and the treatment of filters by the simulation. Rules and predicates that read other
//! facts are reported, never guessed.

#![deny(clippy::wildcard_enum_match_arm)]

use std::fmt;

use http::HeaderName;
use http::header::{ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN};
use tollgate_filters::key_resolver::{KeyResolver, KeySource};
use tollgate_filters::request_rate_limiter::{Cost, CostSource};

use crate::input::{Map, Slot};
use tollgate_config::{Config, Filter, PlainFilter, RateLimiter, TrustedProxies};
use tollgate_routing::{Predicate, RequestPart};

/// Facts about requests that a log holds.
#[derive(Clone, Debug)]
pub(super) struct LogFacts {
    has_client: bool,
    pub(super) has_method: bool,
    has_host: bool,
    has_received_bytes: bool,
    headers: Vec<HeaderName>,
    /// True if predicates read the address of a proxy but the log has the address of the client.
    hides_peer: bool,
    /// True if the log has the keys of rules and the routes of requests.
    pub(super) is_tollgate_log: bool,
    /// True if keys in the log are hashes.
    pub(super) hashes_keys: bool,
    /// True if single lines may lack a part that others have: JSON of other servers.
    pub(super) is_mapped: bool,
}

impl LogFacts {
    /// Returns the facts in JSON lines with the fields of `map`, or in lines of the common or combined format.
    pub(super) fn of(map: &Map, is_json: bool) -> Self {
        let field_names =
            map.fields().filter_map(|slot| if let Slot::Header(name) = slot { Some(name.clone()) } else { None });
        let headers =
            if is_json { field_names.collect() } else { vec![http::header::REFERER, http::header::USER_AGENT] };
        Self {
            has_client: !is_json || map.has(&Slot::Client),
            has_method: !is_json || map.has(&Slot::Method) || map.has(&Slot::Request),
            has_host: is_json && map.has(&Slot::Host),
            has_received_bytes: is_json && map.has(&Slot::ReceivedBytes),
            headers,
            hides_peer: false,
            is_tollgate_log: is_json && map.is_tollgate_format(),
            is_mapped: is_json && !map.is_tollgate_format(),
            hashes_keys: false,
        }
    }

    /// Returns the facts for a gateway with `config`.
    pub(super) fn under(&self, config: &Config) -> Self {
        let forwarding = &config.forwarding;
        let has_proxies = !matches!(forwarding.trusted_proxies, TrustedProxies::None);
        Self { hides_peer: has_proxies && !forwarding.trusts_client_address, ..self.clone() }
    }

    /// Returns the parts of a key that `resolver` reads and the log lacks; `None` if it lacks none.
    pub(super) fn lacks<'r>(&self, resolver: &'r KeyResolver) -> Option<LackingParts<'r>> {
        let mut parts = resolver.parts();
        parts.retain(|(source, _)| match source {
            KeySource::Client => !self.has_client,
            KeySource::Method => !self.has_method,
            KeySource::Host => !self.has_host,
            KeySource::Header(name) => !self.has_header(name.as_str()),
            KeySource::Cookie(_) => !self.has_header("cookie"),
            KeySource::Extension | KeySource::Principal | KeySource::Function => true,
            KeySource::Token(_) | KeySource::ApiKey(_) | KeySource::Certificate(_) => true,
            KeySource::Query(_) | KeySource::Path | KeySource::Variable(_) | KeySource::Route => false,
        });
        (!parts.is_empty()).then_some(LackingParts(parts))
    }

    /// Returns true if the log lacks a part of the request that the predicate reads.
    pub(super) fn lacks_for_predicate(&self, predicate: &Predicate) -> bool {
        predicate.reads().into_iter().any(|part| match part {
            RequestPart::Path | RequestPart::Query => false,
            RequestPart::Method => !self.has_method,
            RequestPart::Host => !self.has_host,
            RequestPart::RemoteAddr => !self.has_client || self.hides_peer,
            RequestPart::Header(name) => !self.has_header(name.as_str()),
            RequestPart::Time | RequestPart::Random => true,
        })
    }

    /// Describes what the log lacks to know a cost.
    pub(super) fn lacks_for_cost(&self, cost: &Cost) -> Option<String> {
        match &cost.source {
            CostSource::Fixed => None,
            CostSource::RequestHeader(name) => {
                (!self.has_header(name.as_str())).then(|| format!("its cost is in the header {name}"))
            }
            CostSource::RequestBody { .. } => {
                (!self.has_received_bytes).then(|| "its cost is the size of the request".to_owned())
            }
            CostSource::ResponseHeader(_) | CostSource::ResponseBody { .. } => {
                Some("its cost depends on the response".to_owned())
            }
        }
    }

    /// Returns true if the log has the header field `name` of requests.
    pub(super) fn has_header(&self, name: &str) -> bool {
        self.headers.iter().any(|header| header.as_str().eq_ignore_ascii_case(name))
    }
}

/// Parts of a key that the log lacks.
#[derive(Debug)]
pub(super) struct LackingParts<'r>(Vec<(KeySource<'r>, &'r KeyResolver)>);

impl LackingParts<'_> {
    /// Returns the items of `--map` that would add them, as [`map_hint`] does.
    pub(super) fn hint(&self) -> String {
        map_hint(self.0.iter().map(|(source, _)| *source))
    }
}

impl fmt::Display for LackingParts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|(_, resolver)| resolver.to_string()).collect();
        f.write_str(&names.join(", "))
    }
}

/// Returns the items of `--map` that would add `sources`, in parentheses behind a space; empty if a log cannot have them.
pub(super) fn map_hint<'r>(sources: impl IntoIterator<Item = KeySource<'r>>) -> String {
    let items = sources.into_iter().filter_map(|source| match source {
        KeySource::Client => Some("client=FIELD".to_owned()),
        KeySource::Method => Some("method=FIELD".to_owned()),
        KeySource::Host => Some("host=FIELD".to_owned()),
        KeySource::Header(name) => Some(format!("header.{name}=FIELD")),
        KeySource::Cookie(_) => Some("header.Cookie=FIELD".to_owned()),
        KeySource::Query(_) | KeySource::Path | KeySource::Variable(_) | KeySource::Route => None,
        KeySource::Extension | KeySource::Principal | KeySource::Function => None,
        KeySource::Token(_) | KeySource::ApiKey(_) | KeySource::Certificate(_) => None,
    });
    let items: Vec<_> = items.collect();
    if items.is_empty() { String::new() } else { format!(" (--map {})", items.join(",")) }
}

/// Returns true if a route or CORS may read the header field.
pub(super) fn may_read_header(config: &Config, name: &HeaderName) -> bool {
    let of_cors = [ORIGIN, ACCESS_CONTROL_REQUEST_METHOD, ACCESS_CONTROL_REQUEST_HEADERS];
    of_cors.contains(name) || config.request_headers().contains(name)
}

/// Treatment of a filter by the simulation.
pub(super) enum Treatment<'f> {
    /// Its rules decide with the keys that the log has.
    Limiter(&'f RateLimiter),
    /// It runs as in the gateway.
    Runs,
    /// It refuses requests by their size. The log tells which ones.
    ChecksSize(&'static str),
    /// It is left out, which the note tells: it decides which requests reach a limiter.
    Noted(&'static str),
    /// It is left out: it changes no verdict.
    LeftOut,
}

impl<'f> Treatment<'f> {
    pub(super) fn of(filter: &'f Filter) -> Self {
        match filter {
            Filter::RequestRateLimiter(limiter) => Self::Limiter(limiter),
            Filter::Edit(_) => Self::Runs,
            Filter::RequestSize(_) => Self::ChecksSize("RequestSize"),
            Filter::LocalResponseCache(_) => {
                Self::Noted("cached responses are not simulated: every request reaches the limiter")
            }
            Filter::Retry(_) => Self::Noted("repeated attempts of `Retry` are not simulated"),
            Filter::CircuitBreaker(_) => Self::Noted("the circuit breaker is taken as closed"),
            Filter::ConcurrencyLimiter(_) => Self::Noted("`ConcurrencyLimiter` is not simulated"),
            Filter::RequestCounter(_) => Self::LeftOut,
            Filter::Plain(filter) => Self::of_plain(filter),
        }
    }

    fn of_plain(filter: &PlainFilter) -> Self {
        match filter {
            PlainFilter::RedirectTo(_) => Self::Runs,
            PlainFilter::RequestHeaderSize(_) => Self::ChecksSize("RequestHeaderSize"),
            PlainFilter::RequireKey(_) => Self::Noted("`RequireToken` is not simulated: the log has no tokens"),
            PlainFilter::ApiKey(_) => Self::Noted("`ApiKey` is not simulated: the log has no keys"),
            PlainFilter::FallbackHeaders(_) | PlainFilter::RemoveJsonAttributes(_) => Self::LeftOut,
            PlainFilter::SecureHeaders(_) | PlainFilter::SetStatus(_) => Self::LeftOut,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_parts_are_named() {
        let tollgate = LogFacts::of(&Map::default(), true);
        let combined = LogFacts::of(&Map::default(), false);
        let mapped = LogFacts::of(&Map::parse("time=t,path=p,header.x-key=k").unwrap(), true);
        let lacks = |facts: &LogFacts, resolver: &str| {
            facts.lacks(&KeyResolver::parse(resolver).unwrap()).map(|parts| parts.to_string())
        };
        for resolver in ["ip", "query:q", "path", "method", "route", "header:user-agent"] {
            assert_eq!((lacks(&tollgate, resolver), lacks(&combined, resolver)), (None, None), "{resolver}");
        }
        assert_eq!(lacks(&tollgate, "header:x-key").as_deref(), Some("header:x-key"));
        assert_eq!((lacks(&tollgate, "host"), lacks(&combined, "host").as_deref()), (None, Some("host")));
        assert_eq!((lacks(&mapped, "header:X-Key"), lacks(&mapped, "ip").as_deref()), (None, Some("ip")));
        let predicate = |facts: &LogFacts, text: &str| {
            let yaml = format!("routes: [{{id: a, uri: 'echo:', predicates: [{text}]}}]\n");
            let config = tollgate_config::parse("t.yaml", &yaml, &|_| None).unwrap().config;
            facts.lacks_for_predicate(&config.routes[0].predicates[0])
        };
        assert!(!predicate(&tollgate, "Path=/a") && !predicate(&tollgate, "Host=a") && predicate(&combined, "Host=a"));
        assert!(predicate(&tollgate, "'Header=X-Key, .*'") && !predicate(&mapped, "'Header=X-Key, .*'"));
        assert!(predicate(&mapped, "Method=POST") && predicate(&mapped, "not: Method=GET"));
        assert!(!predicate(&tollgate, "Method=POST") && !predicate(&combined, "Method=POST"));
        assert!(predicate(&tollgate, "'Weight=g, 1'") && predicate(&tollgate, "any: ['Cookie=a, b', Path=/]"));
        // Names in arguments are no predicates, and each predicate in another one counts.
        assert!(
            !predicate(&tollgate, "any: [Path=/Versions, Path=/Header]") && !predicate(&tollgate, "not: Path=/Before")
        );
        assert!(
            predicate(&tollgate, "not: {name: CloudFoundryRouteService}")
                && predicate(&tollgate, "any: [Path=/, not: 'After=2030-01-01T00:00:00Z']")
        );
    }

    #[test]
    fn hints_name_the_items_of_a_map() {
        for (lacking, hint) in [
            ("ip", " (--map client=FIELD)"),
            ("ip,header:X-Key", " (--map client=FIELD,header.x-key=FIELD)"),
            ("method,host,cookie:c", " (--map method=FIELD,host=FIELD,header.Cookie=FIELD)"),
            ("principal", ""),
        ] {
            let parts = lacking.split(',').map(|part| KeyResolver::parse(part).unwrap());
            let resolver = KeyResolver::composite(parts.collect());
            let sources = resolver.parts().into_iter().map(|(source, _)| source);
            assert_eq!(map_hint(sources), hint);
        }
    }

    #[test]
    fn header_fields_that_nothing_names_are_not_read() {
        let reads = |predicates: &str, args: &str| {
            let yaml = format!(
                "key-resolvers: {{agent: 'header:User-Agent'}}\nroutes: [{{id: a, uri: 'echo:', predicates: [{predicates}], filters: \
                 [{{name: RequestRateLimiter, args: {{replenish-rate: 1, burst-capacity: 1, {args}}}}}]}}]\n"
            );
            let config = tollgate_config::parse("t.yaml", &yaml, &|_| None).unwrap().config;
            [http::header::USER_AGENT, http::header::REFERER].map(|name| may_read_header(&config, &name))
        };
        assert_eq!(reads("Path=/", "key-resolver: ip"), [false, false]);
        assert_eq!(reads("'Header=User-Agent, .*bot.*'", "key-resolver: ip"), [true, false]);
        assert_eq!(reads("Path=/", "key-resolver: '#{@agent}'"), [true, false]);
        assert_eq!(reads("Path=/", "key-resolver: [ip, 'header:Referer']"), [false, true]);
        assert_eq!(reads("Path=/", "key-resolver: ip, cost: 'header:Referer'"), [false, true]);
        assert_eq!(
            reads(
                "Path=/",
                "key-resolver: ip, plan-resolver: 'header:referer', plans: {p: {replenish-rate: 1, burst-capacity: 1}}"
            ),
            [false, true]
        );
    }
}
