#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::num::NonZeroU32;
use std::time::Duration;

use http::{Method, StatusCode};
use tollgate_filters::circuit_breaker::WindowSize;
use tollgate_filters::fault::{Fault, FaultSet};

use crate::{CircuitBreaker, Filter, Report, Severity, parse};

/// Returns the filters of the first route, and the diagnostics.
fn filters(text: &str) -> (Vec<Filter>, Report) {
    let mut loaded = parse("test.yaml", text, &|_| None).unwrap_or_else(|problems| panic!("{problems}"));
    (loaded.config.routes.remove(0).filters, loaded.notes)
}

/// Returns the breaker `name` under `settings`, which are YAML below `resilience4j`.
fn breaker(settings: &str, name: &str) -> CircuitBreaker {
    let text = format!(
        "resilience4j: {settings}\nroutes: [{{id: route, uri: 'http://a', predicates: [Path=/**], filters: [{{name: \
         CircuitBreaker, args: {{{name}}}}}]}}]\n"
    );
    match filters(&text).0.remove(0) {
        Filter::CircuitBreaker(breaker) => *breaker,
        other => panic!("{other:?}"),
    }
}

#[test]
fn settings_of_a_name_come_before_its_base_and_the_default() {
    let settings = "{circuitbreaker: {\
        configs: {default: {sliding-window-size: 1, minimum-number-of-calls: 1}, slow: {sliding-window-size: 2}, \
                  own: {sliding-window-size: 3}, based: {base-config: slow, permittedNumberOfCallsInHalfOpenState: 7}}, \
        instances: {plain: {minimum-number-of-calls: 11}, named: {base-config: slow, minimum-number-of-calls: 12}, \
                    own: {minimum-number-of-calls: 13}, deep: {base-config: based}}, \
        backends: {old: {minimumNumberOfCalls: 14}}}}";
    for (name, size, minimum, trials) in [
        ("name: plain", 1, 11, 10),
        ("name: named", 2, 12, 10),
        ("name: own", 3, 13, 10),
        ("name: deep", 2, 100, 7),
        ("name: old", 1, 14, 10),
        ("name: slow", 2, 100, 10),
        ("name: another", 1, 1, 10),
        ("", 1, 1, 10),
    ] {
        let rules = breaker(settings, name).rules;
        let window = WindowSize::Calls(NonZeroU32::new(size).unwrap());
        assert_eq!((rules.window, rules.minimum_calls, rules.trial_calls), (window, minimum, trials), "{name}");
    }
}

#[test]
fn time_limits_default_to_one_second_and_can_be_disabled() {
    let secs = |secs| Some(Duration::from_secs(secs));
    for (settings, limit) in [
        ("{}", secs(1)),
        ("{timelimiter: {configs: {default: {timeout-duration: 2s}}}}", secs(2)),
        ("{timelimiter: {instances: {route: {timeoutDuration: 3s}}}}", secs(3)),
        ("{timelimiter: {instances: {other: {timeout-duration: 3s}}}}", secs(1)),
        ("{timelimiter: {instances: {route: {base-config: x}}, configs: {x: {timeout-duration: 4s}}}}", secs(4)),
        ("{disable-time-limiter: true}", None),
        ("{disable-time-limiter: true, disable-time-limiter-map: {route: false}}", secs(1)),
        ("{disable-time-limiter-map: {route: true}}", None),
    ] {
        assert_eq!(breaker(settings, "").settings.time_limit, limit, "{settings}");
    }
}

#[test]
fn every_setting_of_a_breaker_is_read() {
    let settings = "{circuitbreaker: {instances: {route: {slidingWindowType: TIME_BASED, slidingWindowSize: 5, \
        failureRateThreshold: 12.5, slowCallRateThreshold: 60, slowCallDurationThreshold: 2s, \
        maxWaitDurationInHalfOpenState: 4s, waitDurationInOpenState: 10s, enableExponentialBackoff: true, \
        exponentialMaxWaitDurationInOpenState: 1m, automaticTransitionFromOpenToHalfOpenEnabled: true, \
        recordExceptions: [java.io.IOException], ignoreExceptions: [java.net.UnknownHostException]}}}}";
    let breaker = breaker(settings, "");
    let rules = breaker.rules;
    assert_eq!(rules.window, WindowSize::Seconds(NonZeroU32::new(5).unwrap()));
    assert_eq!((rules.failure_rate, rules.slow_rate, rules.slow_after.as_secs()), (12.5, 60.0, 2));
    assert_eq!((rules.trial_wait, rules.automatic), (Some(Duration::from_secs(4)), true));
    assert_eq!((rules.wait.first.as_secs(), rules.wait.multiplier, rules.wait.max.unwrap().as_secs()), (10, 1.5, 60));
    assert!(
        breaker.settings.recorded.contains(Fault::ConnectionClosed)
            && !breaker.settings.recorded.contains(Fault::TimeLimit)
    );
    assert_eq!(breaker.settings.ignored, [Fault::NameNotResolved].into_iter().collect());
}

#[test]
fn an_application_yml_has_three_roots_for_resilience4j() {
    let text = "spring.cloud:\n  circuitbreaker.resilience4j: {disableTimeLimiter: true, defaultGroupTag: x}\n  gateway.routes:\n  - id: a\n    uri: http://a\n    predicates: [Path=/**]\n    filters: [CircuitBreaker=b]\nresilience4j:\n  circuitbreaker.instances.b: {registerHealthIndicator: true, slidingWindowSize: 4}\n  circuitbreaker.instances.feign: {slidingWindowSize: 4}\n  retry.instances.x: {maxAttempts: 3}\n";
    let (filters, notes) = filters(text);
    let Filter::CircuitBreaker(breaker) = &filters[0] else { panic!("{filters:?}") };
    assert_eq!((breaker.name.as_deref(), breaker.settings.time_limit), (Some("b"), None));
    assert_eq!(breaker.rules.window, WindowSize::Calls(NonZeroU32::new(4).unwrap()));
    assert!(notes.list().iter().all(|note| note.severity == Severity::Note), "{notes}");
    for part in ["defaultGroupTag` has no", "registerHealthIndicator` has no", "retry` has no", "has the name `feign`"]
    {
        assert!(notes.to_string().contains(part), "no {part} in\n{notes}");
    }
}

#[test]
fn retry_reads_its_shortcut_its_long_form_and_lists_in_every_shape() {
    let retry = |filter: &str| {
        let text = format!("routes: [{{id: a, uri: 'http://a', predicates: [Path=/**], filters: [{filter}]}}]\n");
        match filters(&text).0.remove(0) {
            Filter::Retry(settings) => *settings,
            other => panic!("{other:?}"),
        }
    };
    let default = retry("Retry");
    assert_eq!((default.retries, &default.series[..], &default.methods[..]), (3, &[5][..], &[Method::GET][..]));
    assert!(default.backoff.is_none() && default.timeout.is_none() && default.statuses.is_empty());
    let short = retry("'Retry=2,BAD_GATEWAY,POST,10ms,500ms,3,false,0.25,2s'");
    let backoff = short.backoff.unwrap();
    assert_eq!((short.retries, short.statuses, short.methods), (2, vec![StatusCode::BAD_GATEWAY], vec![Method::POST]));
    assert_eq!((backoff.first.as_millis(), backoff.max.unwrap().as_millis(), backoff.factor), (10, 500, 3));
    assert_eq!((backoff.from_previous, backoff.jitter, short.timeout), (false, 0.25, Some(Duration::from_secs(2))));
    for args in
        ["statuses: [BAD_GATEWAY, 503]", "statuses: 'BAD_GATEWAY, 503'", "'statuses[0]': 502, 'statuses[1]': 503"]
    {
        assert_eq!(
            retry(&format!("{{name: Retry, args: {{{args}}}}}")).statuses,
            [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE]
        );
    }
    let bare = retry(
        "{name: Retry, args: {series: [], methods: [get, put], exceptions: [java.net.ConnectException], maxBodySize: 1KB, budget.percent: 0}}",
    );
    assert_eq!((bare.series.len(), bare.methods, bare.max_body_bytes), (0, vec![Method::GET, Method::PUT], 1024));
    assert_eq!(bare.faults, FaultSet::of_class("ConnectException"));
    assert_eq!(bare.budget, tollgate_filters::retry::Budget::new(0.0, 10));
    assert_eq!(retry("{name: Retry, args: {backoff: {firstBackoff: 7}}}").backoff.unwrap().first.as_millis(), 7);
}
