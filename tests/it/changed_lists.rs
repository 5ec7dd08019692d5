//! Limiters that get a second rule and lose it again, by reloads and in rolling changes. A rule without a name keeps what was
//! spent, whether it stands alone or in a list. The rates are too low to matter.

use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

/// Rules with the requests that each admits.
const RULES: [(&str, usize); 7] = [
    ("algorithm: token-bucket, replenish-rate: 1, period: 1h, burst-capacity: 20", 20),
    ("algorithm: gcra, replenish-rate: 1, period: 1h, burst-capacity: 20", 20),
    ("algorithm: fixed-window, limit: 20, window: 1h", 20),
    ("algorithm: sliding-window-log, limit: 20, window: 1h", 20),
    ("algorithm: sliding-window-counter, limit: 20, window: 365d", 20),
    ("algorithm: leaky-bucket, rate: 1, period: 1h, max-queue: 0", 1),
    ("algorithm: quota, allowance: 20", 20),
];

/// Ways to write a rule: alone, and in a list of which it is the first rule without a name.
const FORMS: [fn(&str) -> String; 5] = [
    |rule| rule.to_owned(),
    |rule| format!("limits: [{{{rule}}}, {{{DAILY}}}]"),
    |rule| rule.to_owned(),
    |rule| format!("limits: [{{name: daily, {DAILY}}}, {{{rule}}}]"),
    |rule| format!("plan-resolver: path, default-plan: gold, plans: {{gold: {{limits: [{{{rule}}}, {{{DAILY}}}]}}}}"),
];

const DAILY: &str = "algorithm: fixed-window, limit: 1000, window: 1d";

/// A route with a limiter.
struct Limited {
    id: String,
    /// Arguments beside the rule.
    arguments: String,
    rule: &'static str,
    limit: usize,
}

/// Returns a route for each rule, store and kind of scope.
fn routes() -> Vec<Limited> {
    let stores = ["store: memory", "store: redis", "bucket: BUCKET", "atomicity: lock"];
    let of_store = |(at, store): (usize, &'static str)| {
        let is_possible = move |rule: &str| store != "atomicity: lock" || rule.contains("window: ");
        RULES.iter().enumerate().filter(move |(_, (rule, _))| is_possible(rule)).map(move |(number, (rule, limit))| {
            let id = format!("r{at}-{number}");
            Limited { arguments: store.replace("BUCKET", &format!("b{number}")), id, rule, limit: *limit }
        })
    };
    stores.into_iter().enumerate().flat_map(of_store).collect()
}

/// Returns a configuration with `form` for each of `routes`. Each route has a second limiter with its rule.
fn yaml(redis: &Redis, routes: &[Limited], form: fn(&str) -> String) -> String {
    let mut yaml = format!("redis: {{url: '{}', timeout: 5s}}\nroutes:\n", redis.url());
    for Limited { id, arguments, rule, .. } in routes {
        let limiter = |key: &str, more: &str| {
            let rule = form(rule);
            format!(
                "{{name: RequestRateLimiter, args: {{key-resolver: 'header:{key}', deny-empty-key: false, headers: draft, \
                 {more}, {rule}}}}}"
            )
        };
        let second = if arguments.starts_with("bucket") { "store: redis" } else { arguments };
        yaml += &format!(
            "  - {{id: {id}, uri: 'echo:', predicates: [Path=/{id}], filters: [{}, {}]}}\n",
            limiter("x-key", arguments),
            limiter("x-second", second)
        );
    }
    yaml
}

/// Sends `count` requests with a key in `header`, the key of one limiter. Returns the number admitted.
fn admitted(client: &mut Connection, id: &str, header: &str, count: usize) -> usize {
    (0..count)
        .filter(|_| match client.request("GET", &format!("/{id}"), &[(header, "me")], b"").status {
            200 => true,
            429 => false,
            other => panic!("{other}"),
        })
        .count()
}

const HEADERS: [&str; 2] = ["x-key", "x-second"];

#[test]
fn a_rule_without_a_name_keeps_what_was_spent_when_others_come_and_go() {
    let (redis, routes) = (Redis::start(), routes());
    let gateway = Gateway::start(&yaml(&redis, &routes, FORMS[0]));
    let mut client = gateway.connect();
    let policy = |client: &mut Connection| {
        let answer = client.request("GET", "/r0-2", &[("x-key", "probe")], b"");
        answer.header("ratelimit-policy").unwrap().to_owned()
    };
    for Limited { id, limit, rule, .. } in &routes {
        for header in HEADERS {
            assert_eq!(admitted(&mut client, id, header, limit + 2), *limit, "{id} {header}: {rule}");
        }
    }
    for form in FORMS.into_iter().chain(FORMS).skip(1) {
        let before = policy(&mut client);
        gateway.reload(&yaml(&redis, &routes, form));
        eventually("the worker has the new rules", || policy(&mut client) != before);
        for Limited { id, rule, .. } in &routes {
            for header in HEADERS {
                assert_eq!(admitted(&mut client, id, header, 2), 0, "{id} {header}: {}", form(rule));
            }
        }
    }
}

#[test]
fn gateways_with_and_without_a_second_rule_admit_the_limit_together() {
    let (redis, mut routes) = (Redis::start(), routes());
    routes.retain(|route| route.arguments != "store: memory");
    let gateways = [FORMS[0], FORMS[1], FORMS[3], FORMS[4]].map(|form| Gateway::start(&yaml(&redis, &routes, form)));
    let mut clients = gateways.each_ref().map(Gateway::connect);
    for Limited { id, limit, rule, .. } in &routes {
        for header in HEADERS {
            assert_eq!(by_turns(&mut clients, id, header, limit + 3), *limit, "{id} {header}: {rule}");
        }
    }
}

#[test]
fn an_operators_reset_of_the_rule_in_a_list_is_one_of_the_rule_alone() {
    let (redis, mut routes) = (Redis::start(), routes());
    routes.retain(|route| route.arguments == "store: redis");
    let gateways = [FORMS[0], FORMS[1]].map(|form| Gateway::start(&yaml(&redis, &routes, form)));
    let mut clients = gateways.each_ref().map(Gateway::connect);
    for Limited { id, limit, rule, .. } in &routes {
        assert_eq!(by_turns(&mut clients, id, "x-key", limit + 1), *limit, "{rule}");
        let target = format!("/api/limits/{id}/me?rule={id}");
        let reset = gateways[1].connect_admin().request("DELETE", &target, &[], b"");
        assert_eq!((reset.status, &reset.json()["limits"][0]["rule"]), (200, &"rule1".into()), "{}", reset.text());
        eventually("the rule alone is reset", || admitted(&mut clients[0], id, "x-key", 1) == 1);
        assert_eq!(by_turns(&mut clients, id, "x-key", limit + 1), limit - 1, "{rule}");
    }
}

/// Sends `count` requests over each of `clients` by turns. Returns the number admitted.
fn by_turns(clients: &mut [Connection], id: &str, header: &str, count: usize) -> usize {
    (0..count).map(|_| clients.iter_mut().map(|client| admitted(client, id, header, 1)).sum::<usize>()).sum()
}
