//! Lines in JSON. [`fields`](super::fields) documents them.

use std::time::Duration;

use http::{HeaderValue, Version};
use tollgate_filters::request_rate_limiter::VerdictKind;

use super::text::{FormattedTime, address, digits, milliseconds, number, quoted};
use crate::http::facts::LimiterFacts;
use crate::instrumentation::access_log::{Completion, Details, LogLine};
use tollgate_telemetry::key_display;

const DAY_SECONDS: u64 = 86_400;

/// Start of a field: a comma, its name and a colon.
macro_rules! label {
    ($name:literal) => {
        concat!(",\"", $name, "\":")
    };
}

/// Writes `time` since the Unix epoch as RFC 3339 with microseconds.
fn write_time(out: &mut Vec<u8>, date: &mut FormattedTime, time: Duration) {
    let second = time.as_secs() % DAY_SECONDS;
    put(out, date.of(time.as_secs() - second, "%Y-%m-%dT"));
    let parts = [second / 3600, second / 60 % 60, second % 60];
    for (part, end) in parts.into_iter().zip([b':', b':', b'.']) {
        let [tens, ones] = digits(part);
        out.extend_from_slice(&[tens, ones, end]);
    }
    out.extend_from_slice(&digits::<6>(time.subsec_micros().into()));
    out.push(b'Z');
}

/// Writes the line of a request that ended at `ended` since the Unix epoch.
pub(super) fn write(
    out: &mut Vec<u8>,
    date: &mut FormattedTime,
    ended: Duration,
    line: &LogLine,
    completion: &Completion<'_>,
) {
    let none = Details::default();
    let details = line.details.as_ref().unwrap_or(&none);
    put(out, "{\"time\":\"");
    write_time(out, date, ended.saturating_sub(completion.duration));
    put(out, "\",\"client\":\"");
    address(out, line.client);
    out.push(b'"');
    field(out, label!("host"), details.host.as_ref());
    text(out, label!("method"), completion.method.as_str());
    text(out, label!("target"), line.target.as_str());
    put(out, protocol(line.version));
    optional(out, label!("tls"), details.tls);
    optional(out, label!("client_subject"), details.client_subject.as_deref());
    if let Some(header) = &details.proxy_header {
        bytes(out, label!("unique_id"), header.unique_id.as_deref());
        bytes(out, label!("vpc_endpoint_id"), header.vpc_endpoint_id.as_deref());
    }
    integer(out, label!("status"), completion.status);
    optional(out, label!("reason"), completion.reason);
    optional(out, label!("detail"), details.detail.as_deref());
    integer(out, label!("bytes"), completion.sent_bytes);
    integer(out, label!("received_bytes"), details.upload.as_ref().map_or(0, |upload| upload.bytes()));
    time(out, label!("duration_ms"), Some(completion.duration));
    field(out, label!("request_id"), details.request_id.as_ref());
    if let Some(traceparent) = &details.traceparent {
        optional(out, label!("trace_id"), traceparent.to_str().ok().and_then(|value| value.get(3..35)));
    }
    optional(out, label!("route"), line.route.as_deref());
    if line.is_degraded {
        put(out, ",\"degraded\":true");
    }
    if let Some(facts) = &details.facts {
        limiter(out, &facts.limiter);
        let upstream = &facts.upstream;
        field(out, label!("endpoint"), upstream.endpoint.as_ref());
        time(out, label!("connect_ms"), upstream.connect);
        time(out, label!("response_ms"), upstream.response);
        if let retries @ 1.. = upstream.attempts.saturating_sub(1) {
            integer(out, label!("retries"), retries);
        }
    }
    field(out, label!("referer"), line.referer.as_ref());
    field(out, label!("user_agent"), line.user_agent.as_ref());
    put(out, "}\n");
}

/// Writes the verdict on the request and the decisions behind it.
fn limiter(out: &mut Vec<u8>, facts: &LimiterFacts) {
    optional(out, label!("verdict"), facts.verdict().map(VerdictKind::as_str));
    if let Some(decision) = facts.deciding() {
        if let Some(check) = decision.checks.get(decision.strictest) {
            text(out, label!("rule"), &check.rule);
            optional(out, label!("plan"), facts.plan());
            put(out, label!("key"));
            quoted(out, &key_display::shown_bytes(&check.key));
        }
        if let Some(remaining) = decision.remaining {
            integer(out, label!("remaining"), remaining);
        }
    }
    let checks = || facts.decisions.iter().flat_map(|decision| &decision.checks);
    if checks().nth(1).is_some() {
        list(out, label!("keys"), [b'{', b'}'], checks(), |out, check| {
            quoted(out, check.rule.as_bytes());
            out.push(b':');
            quoted(out, &key_display::shown_bytes(&check.key));
        });
    }
    if facts.observed().next().is_some() {
        list(out, label!("observed"), [b'[', b']'], facts.observed(), |out, rule| quoted(out, rule.as_bytes()));
    }
    let decided = || facts.decisions.iter().filter(|decision| decision.decided_us > 0);
    if decided().next().is_some() {
        list(out, label!("decided_us"), [b'[', b']'], decided(), |out, decision| number(out, decision.decided_us));
    }
    if decided().any(|decision| decision.order > 0) {
        list(out, label!("decided_order"), [b'[', b']'], decided(), |out, decision| number(out, decision.order));
    }
}

fn list<T>(
    out: &mut Vec<u8>,
    label: &str,
    [open, close]: [u8; 2],
    items: impl Iterator<Item = T>,
    write: impl Fn(&mut Vec<u8>, T),
) {
    put(out, label);
    for (index, item) in items.enumerate() {
        out.push(if index == 0 { open } else { b',' });
        write(out, item);
    }
    out.push(close);
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => r#","protocol":"HTTP/1.0""#,
        Version::HTTP_2 => r#","protocol":"HTTP/2.0""#,
        _ => r#","protocol":"HTTP/1.1""#,
    }
}

#[inline]
fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

fn integer(out: &mut Vec<u8>, label: &str, value: impl itoa::Integer) {
    put(out, label);
    number(out, value);
}

fn text(out: &mut Vec<u8>, label: &str, value: &str) {
    put(out, label);
    quoted(out, value.as_bytes());
}

fn optional(out: &mut Vec<u8>, label: &str, value: Option<&str>) {
    if let Some(value) = value {
        text(out, label, value);
    }
}

fn field(out: &mut Vec<u8>, label: &str, value: Option<&HeaderValue>) {
    bytes(out, label, value.map(HeaderValue::as_bytes));
}

fn bytes(out: &mut Vec<u8>, label: &str, value: Option<&[u8]>) {
    if let Some(value) = value {
        put(out, label);
        quoted(out, value);
    }
}

fn time(out: &mut Vec<u8>, label: &str, value: Option<Duration>) {
    if let Some(value) = value {
        put(out, label);
        milliseconds(out, value);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::Method;

    use std::rc::Rc;

    use super::*;
    use crate::http::facts::{CheckedRule, LimiterLabels, RuleVerdict, StoreDecision};
    use crate::http::facts::{RequestFacts, UpstreamFacts};
    use crate::http::proxy_header::ProxyHeader;
    use crate::instrumentation::access_log::Target;
    use crate::instrumentation::access_log::fields::FIELDS;

    fn line() -> LogLine {
        let target = Target::Text("/a?b=\"\u{7f}".into());
        let mut line = LogLine::new("192.0.2.1".parse().unwrap(), target, Version::HTTP_11);
        line.user_agent = HeaderValue::from_bytes(b"a\"b\\\xff").ok();
        line
    }

    fn decision(rule: &str, decided_us: u64, order: u32) -> StoreDecision {
        let checks = vec![CheckedRule { rule: rule.into(), key: (*b"k\"\xff").into() }];
        StoreDecision { checks, strictest: 0, remaining: Some(0), decided_us, order }
    }

    fn verdict(kind: VerdictKind) -> RuleVerdict {
        let labels = LimiterLabels { route: "a".into(), rule: "daily".into(), plan: Some("gold".into()) };
        RuleVerdict { labels, kind, decisions: 1 }
    }

    fn parsed(line: &LogLine, ended: Duration) -> serde_json::Map<String, serde_json::Value> {
        let completion = Completion {
            method: &Method::GET,
            status: 429,
            sent_bytes: 0,
            duration: Duration::from_micros(1_500_007),
            reason: Some("rate-limited"),
        };
        let mut out = Vec::new();
        write(&mut out, &mut FormattedTime::default(), ended, line, &completion);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn a_json_line_parses_for_any_client_input() {
        let value = parsed(&line(), Duration::from_micros(1_763_719_201_500_010));
        assert_eq!(value["time"], "2025-11-21T10:00:00.000003Z", "the arrival of the request");
        assert_eq!(value["status"], 429);
        assert_eq!(value["duration_ms"], 1500.007);
        assert_eq!(value["reason"], "rate-limited");
        assert_eq!(value["target"], "/a?b=\"\u{7f}");
        assert_eq!(value["user_agent"], "a\"b\\\u{fffd}");
        assert!(value.get("referer").is_none() && value.get("degraded").is_none());
    }

    #[test]
    fn every_field_of_a_line_is_documented_in_its_order() {
        let field = |text| Some(HeaderValue::from_static(text));
        let mut line = line();
        line.referer = field("http://a/");
        line.route = Some("a".into());
        line.is_degraded = true;
        line.details = Some(Details {
            host: field("a"),
            tls: Some("TLSv1.3"),
            client_subject: Some("CN=orders".into()),
            proxy_header: Some(Rc::new(ProxyHeader {
                names_client: true,
                unique_id: Some((*b"a\"\xff\n").into()),
                vpc_endpoint_id: Some((*b"vpce-1").into()),
            })),
            traceparent: field("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            request_id: field("x"),
            upload: None,
            detail: Some("no Host field".into()),
            facts: Some(Box::new(RequestFacts {
                upstream: UpstreamFacts {
                    endpoint: field("b:80"),
                    connect: Some(Duration::ZERO),
                    response: Some(Duration::ZERO),
                    attempts: 2,
                },
                limiter: LimiterFacts {
                    decisions: [(1, 0), (2, 3)].map(|(time, order)| decision("daily", time, order)).into(),
                    verdicts: [VerdictKind::Observed, VerdictKind::Denied].map(verdict).into(),
                },
            })),
        });
        let value = parsed(&line, Duration::ZERO);
        let documented: Vec<_> = FIELDS.iter().map(|field| field.name).collect();
        assert_eq!(value.keys().collect::<Vec<_>>(), documented);
        assert_eq!((&value["verdict"], &value["key"]), (&"denied".into(), &"k\"\u{fffd}".into()));
        let lists = ["observed", "decided_us", "decided_order"].map(|name| value[name].to_string());
        assert_eq!(lists, [r#"["daily"]"#, "[1,2]", "[0,3]"]);
        assert_eq!((&value["unique_id"], &value["vpc_endpoint_id"]), (&"a\"\u{fffd}\n".into(), &"vpce-1".into()));
        assert_eq!(value["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    }
}
