//! Rule, plan and period of an override that the call leaves out, from its key; and the commands.

use serde_json::{Value, json};

use super::{call, limit, remove, set, settings};
use crate::support::eventually;
use crate::support::gateway::{Gateway, run};

/// `bob` has the plan `gold`. The bucket `#partners` has two rules.
const ROUTES: &str = "
routes:
  - id: orders
    uri: 'echo:'
    predicates: [Path=/orders]
    filters:
      - name: RequestRateLimiter
        args:
          key-resolver: 'header:x-key'
          replenish-rate: 1
          period: 1h
          burst-capacity: 2
          plan-resolver: {table: {bob: gold}}
          plans:
            gold: {replenish-rate: 1, period: 1h, burst-capacity: 4}
            silver: {replenish-rate: 1, period: 1h, burst-capacity: 3}
  - id: listed
    uri: 'echo:'
    predicates: [Path=/listed]
    filters:
      - name: RequestRateLimiter
        args:
          key-resolver: 'header:x-key'
          limits:
            - {name: burst, replenish-rate: 1, period: 1h, burst-capacity: 3, bucket: partners}
            - {name: hourly, algorithm: fixed-window, limit: 4, window: 1h}
";

fn start() -> Gateway {
    let gateway = Gateway::start(&format!("{}{ROUTES}", settings("")));
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    gateway
}

/// Returns the numbers of the only override.
fn only(gateway: &Gateway) -> (Value, Value, Value) {
    let list = gateway.admin("/api/overrides").json();
    assert_eq!(list.as_array().map(Vec::len), Some(1), "{list}");
    (list[0]["rule"].clone(), list[0]["plan"].clone(), list[0]["override"].clone())
}

#[test]
fn the_key_tells_its_plan_and_the_rule_its_period() {
    let gateway = &start();
    set(gateway, "orders/bob", &json!({"replenish-rate": 50, "expires-in": "1h"}));
    assert_eq!(only(gateway), (json!("orders"), json!("gold"), json!({"replenish-rate": 50, "period": "1h"})));
    assert_eq!(remove(gateway, "orders/bob"), 200);
    assert_eq!(remove(gateway, "orders/bob"), 404, "there was none");
    set(gateway, "orders/alice", &json!({"block": true, "expires-in": "1h"}));
    assert_eq!(only(gateway).1, Value::Null, "no plan");
    assert_eq!(remove(gateway, "orders/alice"), 200);
    set(gateway, "orders/bob", &json!({"factor": 10, "expires-in": "1h"}));
    let ten = json!({"replenish-rate": 10, "period": "1h", "burst-capacity": 40});
    assert_eq!(only(gateway).2, ten);
    // The budget of a key is changed under the rule of its plan, too.
    let (status, changed) = call(gateway, "PUT", "/api/limits/orders/bob", "{\"remaining\": 7}");
    assert_eq!(
        (status, &changed["limits"][0]["plan"], &changed["limits"][0]["remaining"]),
        (200, &json!("gold"), &json!(7))
    );
    assert_eq!(changed["limits"].as_array().map(Vec::len), Some(1), "{changed}");
    // Of another plan: found by its names when the table has changed.
    gateway.reload(&format!("{}{}", settings(""), ROUTES.replace("bob: gold", "bob: silver")));
    assert_eq!((remove(gateway, "orders/bob"), remove(gateway, "orders/bob")), (200, 404));
}

#[test]
fn the_numbers_tell_the_rule_of_a_list() {
    let gateway = &start();
    set(gateway, "listed/bob", &json!({"limit": 9, "expires-in": "1h"}));
    assert_eq!(only(gateway), (json!("hourly"), Value::Null, json!({"limit": 9})));
    set(gateway, "listed/bob", &json!({"rule": "partners", "unlimited": true, "expires-in": "1h"}));
    let (status, problem) = call(gateway, "DELETE", "/api/overrides/listed/bob", "");
    let detail = problem["detail"].as_str().unwrap();
    assert!(status == 400 && detail.contains("several overrides") && detail.contains("`burst`, `hourly`"), "{detail}");
    assert_eq!(remove(gateway, "listed/bob?rule=%23partners"), 200);
    assert_eq!(remove(gateway, "listed/bob"), 200, "only one is left");
    assert_eq!(remove(gateway, "listed/bob"), 404);
    let (status, problem) =
        call(gateway, "PUT", "/api/overrides/listed/bob", "{\"block\": true, \"expires-in\": \"1h\"}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        status == 400 && detail.contains("`partners`, `listed#hourly`") && !detail.contains("own bucket"),
        "{detail}"
    );
    assert_eq!(limit(gateway, "listed/bob?rule=partners")["rule"], "burst");
}

#[test]
fn the_commands_speak_in_options() {
    let gateway = &start();
    let address = gateway.admin.to_string();
    let limits = |arguments: &[&str]| run(&[&["limits"], arguments, &[address.as_str()]].concat());
    let (code, out, err) = limits(&["override", "orders", "bob", "--set", "x10", "--for", "10m"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("gold") && out.contains("replenish-rate=10 period=1h burst-capacity=40"), "{out}");
    assert_eq!(limits(&["override", "orders", "bob", "--remove"]).0, Some(0));
    let (code, _, err) = limits(&["override", "orders", "bob", "--remove"]);
    assert_eq!((code, err.as_str()), (Some(1), "tollgate: there is no such override (status 404)\n"));
    for (arguments, said) in [
        (
            &["orders", "bob", "--for", "10m"][..],
            "each with --set NAME=VALUE, or use --set xN, --unlimited or --block; nothing was changed",
        ),
        (&["orders", "bob", "--block", "--for", "1y"], "--for: "),
        (
            &["listed", "bob", "--block", "--for", "10m"],
            "name one with --rule (and --plan): `partners`, `listed#hourly`",
        ),
        (
            &["orders", "bob", "--set", "colour=1", "--for", "10m"],
            "`colour` is not a number of `token-bucket` that can be overridden; those are `replenish-rate`, `period`, `burst-capacity`",
        ),
    ] {
        let (code, _, err) = limits(&[&["override"], arguments].concat());
        assert!(code == Some(1) && err.contains(said), "{arguments:?}: {err}");
        assert!(!err.contains('{') && !err.contains("\": "), "no JSON: {err}");
    }
    let (code, _, err) = run(&["limits", "override", "orders", "bob", "x10", "--for", "10m"]);
    let said = "tollgate: `x10` is no address of an admin port; a new limit is written `--set x10`\n";
    assert_eq!((code, err.as_str()), (Some(1), said));
    let (_, out, _) = limits(&["reset", "listed", "bob"]);
    assert!(out.starts_with("RULE ") && out.ends_with("\nreset under burst, hourly\n"), "{out}");
    let (_, out, _) = limits(&["reset", "orders", "bob"]);
    assert!(out.ends_with("\nreset under orders, orders of plan gold, orders of plan silver\n"), "{out}");
    let (_, out, _) = limits(&["reset", "orders", "bob", "--plan", "gold"]);
    assert!(out.ends_with("\nreset under orders of plan gold\n"), "{out}");
}
