//! Overrides that are refused, and the command.

use std::process::Command;

use serde_json::json;

use super::{admitted, call, set, start};
use crate::support::gateway::TOLLGATE;

#[test]
fn a_wrong_override_is_a_problem_and_changes_nothing() {
    let gateway = start("");
    let put = |path: &str, body: &str| call(&gateway, "PUT", path, body);
    let long = format!("{{\"limit\": 1, \"expires-in\": \"1m\", \"rule\": \"{}\"}}", "x".repeat(5000));
    for (body, reason) in [
        ("", "EOF"),
        ("[]", "expected a map"),
        ("{}", "`expires-in` is missing"),
        ("{\"burst-capacity\": 9}", "`expires-in` is missing"),
        ("{\"burst-capacity\": 9, \"expires-in\": \"60\"}", "a time of 1s to 30d"),
        ("{\"burst-capacity\": 9, \"expires-in\": 60}", "`expires-in`"),
        ("{\"expires-in\": \"1m\"}", "give the numbers of `token-bucket` that change"),
        ("{\"burst-capacity\": -1, \"expires-in\": \"1m\"}", "expected a whole number, got -1"),
        ("{\"burst-capacity\": 0.5, \"expires-in\": \"1m\"}", "expected a whole number, got 0.5"),
        (
            "{\"burst-capacity\": 0, \"expires-in\": \"1m\"}",
            "`burst-capacity: 0` denies every request; to deny every request",
        ),
        ("{\"replenish-rate\": 0.5, \"expires-in\": \"1m\"}", "a rate of 0.5 is 1 with twice the `period`"),
        ("{\"period\": \"1M\", \"expires-in\": \"1m\"}", "`1M` may be minutes, as in Spring, or months"),
        ("{\"period\": \"60\", \"expires-in\": \"1m\"}", "`60` has no unit: write `60s` or `60ms`"),
        ("{\"period\": 60, \"expires-in\": \"1m\"}", "expected a time with a unit such as `10s`, got 60"),
        ("{\"period\": \"0s\", \"expires-in\": \"1m\"}", "must be longer than 0"),
        ("{\"burst-capacity\": 9, \"expires-in\": \"1M\"}", "`1M` may be minutes"),
        ("{\"burst-capacity\": 18446744073709551615, \"expires-in\": \"1m\"}", "`burst-capacity` must be at most"),
        ("{\"replenish-rate\": 0, \"period\": \"1s\", \"expires-in\": \"1m\"}", "`replenish-rate` must be at least 1"),
        (
            "{\"burst-capacity\": \"ten\", \"expires-in\": \"1m\"}",
            "`burst-capacity`: expected a whole number, got \"ten\"",
        ),
        ("{\"factor\": 0, \"expires-in\": \"1m\"}", "`replenish-rate` must be at least 1"),
        ("{\"factor\": 2, \"limit\": 1, \"expires-in\": \"1m\"}", "exclude each other"),
        ("{\"factor\": \"x2\", \"expires-in\": \"1m\"}", "`factor`"),
        ("{\"limit\": 9, \"expires-in\": \"1m\"}", "`limit` is not a number of `token-bucket`"),
        ("{\"colour\": 9, \"expires-in\": \"1m\"}", "`colour` is not a number of `token-bucket`"),
        ("{\"unlimited\": true, \"block\": true, \"expires-in\": \"1m\"}", "exclude each other"),
        ("{\"unlimited\": true, \"burst-capacity\": 1, \"expires-in\": \"1m\"}", "exclude each other"),
        ("{\"unlimited\": 1, \"expires-in\": \"1m\"}", "`unlimited`"),
        (&long, "length limit exceeded"),
    ] {
        let (status, problem) = put("/api/overrides/orders/alice", body);
        let detail = problem["detail"].as_str().unwrap();
        assert!(status == 400 && detail.contains(reason), "{body}: {detail}");
    }
    let block = "{\"block\": true, \"expires-in\": \"1m\"}";
    for (path, status) in [
        ("/api/overrides/none/alice", 404),
        ("/api/overrides/orders/alice?rule=none", 404),
        ("/api/overrides/orders/alice?plan=none", 404),
        ("/api/overrides/orders/alice?x=1", 400),
        ("/api/overrides/listed/alice", 400),
        ("/api/overrides/planned/alice", 400),
        ("/api/overrides/planned?plan=gold", 409),
        ("/api/overrides", 405),
        ("/api/overrides/orders/", 400),
        ("/api/overrides/local/bob", 400),
        ("/api/overrides/local/10.0.0.1:80", 400),
    ] {
        let (got, problem) = put(path, block);
        assert_eq!(got, status, "{path}: {problem}");
    }
    let (_, problem) = put("/api/overrides/local/bob", block);
    assert_eq!(problem["detail"], "no request has the key `bob` of `ip`; nothing was changed");
    assert_eq!(call(&gateway, "DELETE", "/api/overrides/orders/alice", "").0, 404);
    assert_eq!(gateway.admin("/api/overrides").json(), json!([]));
    assert_eq!(admitted(&gateway, "/orders", "alice", 9), 5);

    // One plan of several, by its name.
    set(&gateway, "planned/alice", &json!({"plan": "gold", "burst-capacity": 1, "expires-in": "1h"}));
    let plan = |name: &str| {
        let ask = || gateway.connect().request("GET", "/planned", &[("x-key", "alice"), ("x-plan", name)], b"").status;
        (0..6).filter(|_| ask() == 200).count()
    };
    assert_eq!((plan("gold"), plan("none")), (1, 1), "the plans share a bucket of this key");
}

#[test]
fn the_override_command_sets_lists_and_removes() {
    let gateway = start("");
    let address = gateway.admin.to_string();
    let run = |arguments: &[&str]| {
        let output = Command::new(TOLLGATE).arg("limits").args(arguments).arg(&address).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, out, err) =
        run(&["override", "orders", "al ice", "--set", "burst-capacity=9", "--set", "period=30m", "--for", "1h"]);
    assert_eq!(code, Some(0), "{err}");
    let line = out.lines().nth(1).unwrap();
    assert!(
        line.contains("al ice") && line.contains("period=30m burst-capacity=9") && line.contains("60 min"),
        "{out}"
    );
    assert_eq!(admitted(&gateway, "/orders", "al ice", 20), 9);
    assert_eq!(run(&["override", "orders", "bob", "--block", "--for", "1h"]).0, Some(0));
    assert_eq!(run(&["overrides"]).1.lines().count(), 3);
    let (_, out, _) = run(&["get", "orders", "al ice"]);
    assert!(
        out.contains("OVERRIDE") && out.contains("replenish-rate=1 period=30m burst-capacity=9, ends in "),
        "{out}"
    );
    assert!(run(&["get", "orders", "bob"]).1.contains("block, ends in "));
    assert_eq!(run(&["override", "orders", "bob", "--remove"]).0, Some(0));
    let (code, _, err) = run(&["override", "orders", "bob", "--remove"]);
    assert!(code == Some(1) && err == "tollgate: there is no such override (status 404)\n", "{err}");
    assert_eq!(run(&["override", "orders", "bob", "--block"]).0, Some(2), "a time is needed");
    assert_eq!(admitted(&gateway, "/orders", "bob", 9), 5);
}
