#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::filters::model::Filter;
use crate::parse;
use crate::rate_limiter::{Naming, PlanResolver, RateLimiter, RouteConditions, Rules};
use crate::spec::Audience;
use http::Method;
use tollgate_limiter::algorithm::SettingsForm;
use tollgate_limiter::rule::Algorithm;

fn text(args: &str) -> String {
    format!(
        "routes: [{{id: a, uri: 'echo:', predicates: [Path=/**], filters: [{{name: RequestRateLimiter, args: {args}}}]}}]\n"
    )
}

fn limiter(args: &str) -> RateLimiter {
    let loaded = parse("test.yaml", &text(args), &|_| None).unwrap_or_else(|report| panic!("{report}"));
    let Filter::RequestRateLimiter(limiter) = &loaded.config.routes[0].filters[0] else { panic!("{args}") };
    (**limiter).clone()
}

#[test]
fn dotted_and_nested_names_mean_the_same() {
    for (dotted, nested) in [
        (
            "{key-resolver: ip, 'limits[0].name': a, 'limits[0].replenish-rate': 1, 'limits[0].burst-capacity': 2}",
            "{key-resolver: ip, limits: [{name: a, replenish-rate: 1, burst-capacity: 2}]}",
        ),
        (
            "{key-resolver: ip, redis-rate-limiter.replenishRate: 1, redis-rate-limiter.burstCapacity: 2}",
            "{key-resolver: ip, redis-rate-limiter: {replenish-rate: 1, burst-capacity: 2}}",
        ),
        (
            "{replenish-rate: 1, burst-capacity: 1, 'key-resolver[0]': ip, 'key-resolver[1]': route}",
            "{replenish-rate: 1, burst-capacity: 1, key-resolver: [ip, route]}",
        ),
    ] {
        assert_eq!(format!("{:?}", limiter(dotted)), format!("{:?}", limiter(nested)), "{dotted}");
    }
}

#[test]
fn keys_in_the_table_of_plans_can_contain_dots() {
    let limiter = limiter(
        "{key-resolver: 'header:x-key', default-plan: free, plans: {free: {replenish-rate: 1, burst-capacity: 1}, all: unlimited}, \
         plan-resolver: {table: {10.0.0.1: all, 'a.b[0]': all}}}",
    );
    let plans = limiter.plans.unwrap();
    let PlanResolver::Table(table) = plans.resolver else { panic!("{:?}", plans.resolver) };
    let mut keys: Vec<&str> = table.keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["10.0.0.1", "a.b[0]"]);
}

#[test]
fn a_wrong_value_does_not_hide_the_other_errors() {
    let args = "{replenish-rate: many, status-code: FOO, mode: on, key-resolver: nowhere, lock: {tries: 0}, zork: 1}";
    let report = parse("test.yaml", &text(args), &|_| None).unwrap_err().to_string();
    for part in [
        "found `many`",
        "found `FOO`",
        "found `on`",
        "`nowhere`",
        "must be at least 1, got 0",
        "`RequestRateLimiter` has no argument `zork`",
        "`lock` applies to `atomicity: lock` only",
    ] {
        assert!(report.contains(part), "no {part} in\n{report}");
    }
    assert!(!report.contains("needs `replenish-rate`"), "{report}");
}

#[test]
fn the_map_that_a_rule_shares_has_no_name() {
    let plan = "plan-resolver: path, default-plan: free, plans: {free: {limits: [soon]}}";
    for args in [plan, "replenish-rate: 1, $tollgate::SameMap: {}", "replenish-rate: 1, replenish-rat: 1"] {
        let report =
            parse("test.yaml", &text(&format!("{{key-resolver: ip, {args}}}")), &|_| None).unwrap_err().to_string();
        let message = report.lines().next().unwrap_or_default();
        assert!(message.contains("expected a map with") || message.contains("has no argument"), "{report}");
        assert!(args.contains("SameMap") || !report.contains("SameMap"), "{report}");
    }
}

#[test]
fn a_plan_without_rules_is_an_error() {
    let args = "{key-resolver: ip, plan-resolver: path, default-plan: free, plans: {free: {limits: []}}}";
    let report = parse("test.yaml", &text(args), &|_| None).unwrap_err().to_string();
    assert!(report.contains("error: `limits` is empty"), "{report}");
}

#[test]
fn an_empty_condition_is_one_error_and_no_warning() {
    for when in ["[]", "''", "~", "{}"] {
        let rules = format!("limits: [{{name: a, replenish-rate: 1, when: {when}}}, {{name: b, replenish-rate: 1}}]");
        let report = parse("test.yaml", &text(&format!("{{key-resolver: ip, {rules}}}")), &|_| None).unwrap_err();
        let report = report.list().iter().map(|one| one.message.as_str()).collect::<Vec<_>>();
        assert_eq!(report, ["`when` is empty"], "{when}");
    }
}

#[test]
fn a_fractional_rate_is_exact() {
    for (fraction, whole) in [
        ("replenish-rate: 0.5", "replenish-rate: 1, period: 2s"),
        ("replenish-rate: 2.25, period: 1m", "replenish-rate: 9, period: 4m"),
        ("algorithm: gcra, replenish-rate: 0.0001", "algorithm: gcra, replenish-rate: 1, period: 10000s"),
        ("replenish-rate: '.100'", "replenish-rate: 1, period: 10s"),
        ("replenish-rate: 3.0", "replenish-rate: 3"),
    ] {
        let [fraction, whole] = [fraction, whole].map(|args| {
            limiter(&format!("{{key-resolver: ip, burst-capacity: 7, {args}}}")).limits().next().unwrap().rule.clone()
        });
        assert_eq!(fraction, whole);
    }
    let paced = |args: &str| limiter(&format!("{{key-resolver: ip, algorithm: leaky-bucket, max-wait: 9s, {args}}}"));
    let rule = |args: &str| paced(args).limits().next().unwrap().rule.clone();
    assert_eq!(rule("rate: 0.2"), rule("rate: 1, period: 5s"));
    for wrong in ["-0.5", "0.", ".", "1e3", "0.12345", "0,5", "9007199254740.9921", "1.-5"] {
        let args = format!("{{key-resolver: ip, burst-capacity: 7, replenish-rate: '{wrong}'}}");
        let report = parse("test.yaml", &text(&args), &|_| None).unwrap_err().to_string();
        assert!(report.contains("expected a number up to"), "{wrong}: {report}");
    }
    for zero in ["0", "0.0"] {
        let args = format!("{{key-resolver: ip, burst-capacity: 7, replenish-rate: {zero}}}");
        let report = parse("test.yaml", &text(&args), &|_| None).unwrap_err().to_string();
        assert!(report.contains("`replenish-rate` must be at least 1"), "{report}");
    }
}

#[test]
fn a_rule_is_read_by_the_row_of_its_algorithm() {
    for algorithm in Algorithm::ALL {
        let settings = match algorithm.spec().settings {
            SettingsForm::Bucket(_) => "replenish-rate: 5, burst-capacity: 5",
            SettingsForm::Window(_) | SettingsForm::FixedWindow => "limit: 5, window: 1s",
            SettingsForm::Pace => "rate: 5, max-queue: 4",
            SettingsForm::Quota => "allowance: 5",
        };
        let limiter = limiter(&format!("{{algorithm: {}, {settings}, key-resolver: ip}}", algorithm.as_str()));
        let Rules::One(limit) = &limiter.rules else { panic!("{algorithm:?}") };
        assert_eq!((limit.rule.algorithm(), limit.rule.rate(), limit.rule.capacity()), (algorithm, 5, 5));
    }
}

#[test]
fn a_rule_that_could_stand_alone_counts_under_the_scope_of_its_limiter() {
    const RULE: &str = "replenish-rate: 1, burst-capacity: 1";
    for (limits, expected) in [
        ("RULE", [["a", "a"]].as_slice()),
        ("limits: [{RULE}, {RULE}]", &[["a", "rule1"], ["a#rule2", "rule2"]]),
        ("limits: [{name: x, RULE}, {RULE}, {RULE}]", &[["a#x", "x"], ["a", "rule2"], ["a#rule3", "rule3"]]),
        ("limits: [{name: x, RULE}]", &[["a#x", "x"]]),
        ("limits: [{key-resolver: ip, RULE}, {RULE}]", &[["a#rule1", "rule1"], ["a", "rule2"]]),
        ("limits: [{bucket: b, RULE}, {RULE}]", &[["#b", "#b"], ["a", "rule2"]]),
        (
            "RULE, plan-resolver: path, plans: {p: {RULE}, q: {limits: [{RULE}, {name: x, RULE}]}}",
            &[["a", "a"], ["a", "a"], ["a", "rule1"], ["a#x", "x"]],
        ),
    ] {
        let limiter = limiter(&format!("{{key-resolver: 'header:x-key', {}}}", limits.replace("RULE", RULE)));
        for (number, bucket, scope, label) in
            [(1, None, "a", ""), (2, None, "a#2", "2#"), (1, Some("b0".to_owned()), "#b0", "#b0#")]
        {
            let limiter = RateLimiter { bucket, ..limiter.clone() };
            let route = "a".into();
            let named = Naming { route: &route, number, limiter: &limiter }.all();
            let names: Vec<[String; 2]> = named.iter().map(|n| [n.scope.to_string(), n.label.to_string()]).collect();
            let expected: Vec<[String; 2]> = expected
                .iter()
                .map(|[of, shown]| {
                    let of = of.strip_prefix('a').map_or_else(|| (*of).to_owned(), |rest| format!("{scope}{rest}"));
                    let shown = match *shown {
                        "a" => scope.to_owned(),
                        shared if shared.starts_with('#') => shared.to_owned(),
                        name => format!("{label}{name}"),
                    };
                    [of, shown]
                })
                .collect();
            assert_eq!(names, expected, "{limits} as {scope}");
        }
    }
}

#[test]
fn conditions_are_read_from_any_form_of_a_list() {
    let rule = "replenish-rate: 1, burst-capacity: 1, key-resolver: ip";
    let nested = limiter(&format!("{{{rule}, when: ['Method=GET,POST', {{not: 'Header=X-A, b'}}]}}"));
    let when = nested.limits().next().unwrap().when.clone().unwrap();
    assert_eq!(when.text(Audience::Shell), "Method=GET,POST, not: Header=X-A, b");
    assert_eq!(when.text(Audience::Network), "Method=GET,POST, not: Header=X-A, ****");
    assert_eq!(nested.further_headers().collect::<Vec<_>>(), ["x-a"]);
    for form in [
        "'when[0]': 'Method=GET,POST', 'when[1].not': 'Header=X-A, b'",
        "redis-rate-limiter: {when: ['Method=GET,POST', {not: 'Header=X-A, b'}]}",
    ] {
        assert_eq!(format!("{:?}", limiter(&format!("{{{rule}, {form}}}"))), format!("{nested:?}"), "{form}");
    }
    let text = limiter(&format!("{{{rule}, when: 'Method=GET,POST'}}"));
    assert_eq!(text.limits().next().unwrap().when.as_ref().unwrap().predicates, when.predicates[..1].into());
}

#[test]
fn equal_conditions_of_a_route_share_a_bit_and_their_number_is_bounded() {
    let args = |count: usize| {
        let rule = |at: usize| format!("p{at}: {{replenish-rate: 1, burst-capacity: 1, when: [Path=/p{}]}}", at / 2);
        let plans: Vec<_> = (0..count).map(rule).collect();
        format!("{{key-resolver: ip, plan-resolver: path, default-plan: p0, plans: {{{}}}}}", plans.join(", "))
    };
    let limiter = limiter(&args(128));
    let conditions = RouteConditions::of(std::iter::once(&limiter));
    assert_eq!(conditions.count(), 64);
    let bits: Vec<_> = limiter.limits().map(|limit| conditions.of_rule(limit).unwrap().bit()).collect();
    let expected: Vec<_> = (0..128).map(|at| 1_u64 << (at / 2)).collect();
    assert_eq!(bits, expected);
    let report = parse("test.yaml", &text(&args(129)), &|_| None).unwrap_err().to_string();
    assert!(report.contains("rules of route `a` have 65 different `when`, at most 64 are possible"), "{report}");
}

/// Its predicates are compared with each other, and with those of the route.
#[test]
fn the_length_of_a_condition_is_bounded() {
    let args = |count: usize| {
        let paths: Vec<_> = (0..count).map(|at| format!("'Path=/p{at}'")).collect();
        format!("{{replenish-rate: 1, burst-capacity: 1, key-resolver: ip, when: [{{any: [{}]}}]}}", paths.join(", "))
    };
    assert!(limiter(&args(400)).limits().next().unwrap().when.is_some());
    let report = parse("test.yaml", &text(&args(1_000)), &|_| None).unwrap_err().to_string();
    assert!(report.contains("`when` is too long: at most 1000 values are possible"), "{report}");
}

#[test]
fn a_rule_for_other_methods_refuses_no_preflight() {
    let limiter = limiter("{replenish-rate: 1, burst-capacity: 1, key-resolver: 'header:x-key', when: [Method=POST]}");
    let limit = limiter.limits().next().unwrap();
    let refused = [Method::OPTIONS, Method::POST].map(|method| limiter.needs_key_under(limit, &method));
    assert_eq!(refused, [false, true]);
}
