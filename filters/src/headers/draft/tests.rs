#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;
use tollgate_limiter::rule::{Align, FixedWindow, TokenBucket};

fn bucket(rate: u64, period_ms: u64, burst: u64) -> Rule {
    Rule::TokenBucket(TokenBucket::new(rate, Duration::from_millis(period_ms), burst).unwrap())
}

fn verdict(outcome: Outcome, remaining: u64, reset_after: Duration) -> RuleVerdict {
    RuleVerdict { outcome, remaining, reset_after, delay: Duration::ZERO, counted_at_us: 0 }
}

fn both(name: &str, rule: &Rule, verdict: RuleVerdict) -> (String, String) {
    let policy = Policy::new(name, rule);
    let text = |value: Option<HeaderValue>| value.unwrap().to_str().unwrap().to_owned();
    (text(policy_field([&policy].into_iter())), text(limit_field([(&policy, verdict)].into_iter())))
}

#[test]
fn fields_of_each_shape() {
    let left = |remaining, millis| verdict(Outcome::Allowed, remaining, Duration::from_millis(millis));
    let denied = |remaining, millis| {
        let outcome = Outcome::Denied { retry_after: Duration::from_millis(millis) };
        verdict(outcome, remaining, Duration::from_secs(60))
    };
    let window = |secs| Rule::FixedWindow(FixedWindow::new(100, Duration::from_secs(secs), Align::First).unwrap());
    for (rule, verdict, policy, limit) in [
        (bucket(10, 1_000, 100), left(37, 6_300), r#""api";q=100;w=10"#, r#""api";r=37;t=4"#),
        (bucket(10, 1_000, 100), left(0, 9_950), r#""api";q=100;w=10"#, r#""api";r=0;t=1"#),
        (bucket(1, 60_000, 5), left(0, 250_000), r#""api";q=5;w=300"#, r#""api";r=0;t=10"#),
        (bucket(1, 60_000, 5), denied(0, 9_001), r#""api";q=5;w=300"#, r#""api";r=0;t=10"#),
        (bucket(1, 60_000, 5), denied(2, 9_001), r#""api";q=5;w=300"#, r#""api";r=2;t=120"#),
        (bucket(1, 1_000, 0), denied(0, 1), r#""api";q=0"#, r#""api";r=0;t=1"#),
        (window(60), left(7, 12_001), r#""api";q=100;w=60"#, r#""api";r=7;t=13"#),
        (window(60), left(100, 0), r#""api";q=100;w=60"#, r#""api";r=100;t=60"#),
        (window(60), left(93, 1_000), r#""api";q=100;w=60"#, r#""api";r=93;t=56"#),
        (window(60), left(0, 1_000), r#""api";q=100;w=60"#, r#""api";r=0;t=1"#),
    ] {
        assert_eq!(both("api", &rule, verdict), (policy.to_owned(), limit.to_owned()));
    }
}

/// String with its parameters.
type Item = (String, Vec<(String, i64)>);

/// Parses a list of strings with integer parameters, exactly by the algorithms of RFC 9651 §4.2.
fn parse(text: &str) -> Option<Vec<Item>> {
    let (mut rest, mut items) = (text, Vec::new());
    loop {
        let mut name = String::new();
        let mut chars = rest.strip_prefix('"')?.char_indices();
        rest = loop {
            match chars.next()? {
                (_, '\\') => name.push(chars.next().map(|(_, c)| c).filter(|c| ['"', '\\'].contains(c))?),
                (at, '"') => break &rest[at + 2..],
                (_, c @ ' '..='~') => name.push(c),
                _ => return None,
            }
        };
        let mut parameters = Vec::new();
        while let Some(parameter) = rest.strip_prefix(';') {
            let (key, value) = parameter.trim_start_matches(' ').split_once('=')?;
            if key.is_empty() || !key.bytes().all(|b| b.is_ascii_lowercase()) {
                return None;
            }
            let digits = value.len() - value.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            if !(1..=15).contains(&digits) {
                return None;
            }
            parameters.push((key.to_owned(), value[..digits].parse().ok()?));
            rest = &value[digits..];
        }
        items.push((name, parameters));
        if rest.is_empty() {
            return Some(items);
        }
        rest = rest.strip_prefix(',')?.trim_start_matches([' ', '\t']);
    }
}

#[test]
fn the_parser_is_strict() {
    for bad in ["", "api;q=1", r#""a;q=1"#, r#""a";q"#, r#""a";q=1,"#, r#""a";Q=1"#, r#""a";q=1234567890123456"#] {
        assert_eq!(parse(bad), None, "{bad}");
    }
    assert_eq!(parse(r#""a\"b";q=1"#), Some(vec![("a\"b".to_owned(), vec![("q".to_owned(), 1)])]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_fields_parse_and_promise_no_more_than_the_rate(
        names in prop::collection::vec("[ -~]{1,20}", 1..6), rate in 1_u64..1_000_000, period in 1_u64..100_000_000,
        burst in 0_u64..1 << 40, left in 0_u64..1 << 40, wait in 0_u64..1 << 50, denied: bool
    ) {
        let left = left.min(burst);
        let Ok(rule) = TokenBucket::new(rate, Duration::from_millis(period), burst) else { return Ok(()) };
        let rule = Rule::TokenBucket(rule);
        let retry_after = Duration::from_micros(wait);
        let outcome = if denied { Outcome::Denied { retry_after } } else { Outcome::Allowed };
        let policies: Vec<Policy> = names.iter().map(|name| Policy::new(name, &rule)).collect();
        let policy = policy_field(policies.iter()).unwrap();
        let limit = limit_field(policies.iter().map(|p| (p, verdict(outcome, left, retry_after)))).unwrap();
        for (field, keys) in [(policy, ["q", "w"]), (limit, ["r", "t"])] {
            let items = parse(field.to_str().unwrap());
            let items = items.ok_or_else(|| TestCaseError::fail(format!("{field:?}")))?;
            prop_assert_eq!(items.iter().map(|(name, _)| name).collect::<Vec<_>>(), names.iter().collect::<Vec<_>>());
            for (_, parameters) in items {
                prop_assert!(parameters.iter().zip(keys).all(|((key, _), wanted)| key == wanted));
                if let [(_, r), (_, t)] = parameters[..] && keys == ["r", "t"] && r > 0 {
                    // r / t <= rate / period
                    prop_assert!(r as u128 * u128::from(period) <= t as u128 * u128::from(rate) * 1000);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// At any time of a window, its end included, a client that follows `r` and `t` stays within limit and window.
    #[test]
    fn windows_near_their_end_promise_no_more_than_limit_and_window(
        limit in 1_u64..1 << 40, left in 0_u64..1 << 40, secs in 1_u64..100_000_000, reset_us in 0_u64..1 << 46
    ) {
        let (left, window) = (left.min(limit), Duration::from_secs(secs));
        let reset_after = Duration::from_micros(reset_us).min(window);
        let rule = Rule::FixedWindow(FixedWindow::new(limit, window, Align::First).unwrap());
        let (_, field) = both("p", &rule, verdict(Outcome::Allowed, left, reset_after));
        let items = parse(&field).ok_or_else(|| TestCaseError::fail(field.clone()))?;
        let of = |wanted: &str| items[0].1.iter().find(|(key, _)| key == wanted).map_or(0, |(_, value)| *value as u128);
        prop_assert!(of("r") * u128::from(secs) <= of("t") * u128::from(limit), "{field}");
        prop_assert!(of("t") <= u128::from(secs) && of("t") >= reset_after.as_secs().into(), "{field}");
    }
}

#[test]
fn calendar_windows_have_their_usual_length() {
    use tollgate_limiter::rule::{Calendar, CalendarUnit, FixedWindow};
    for (unit, secs) in [(CalendarUnit::Hour, 3_600), (CalendarUnit::Day, 86_400), (CalendarUnit::Week, 604_800)] {
        let rule = Rule::FixedWindow(FixedWindow::on_calendar(5, Calendar::new(unit, "Asia/Tokyo").unwrap()).unwrap());
        let field = policy_field(std::iter::once(&Policy::new("p", &rule))).unwrap();
        assert_eq!(field, format!(r#""p";q=5;w={secs}"#).as_str());
    }
}
