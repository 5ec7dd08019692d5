//! Level of the gateway's own log: changed by a reload and by the admin API.

use crate::support::gateway::Gateway;

const ROUTES: &str =
    "routes: [{id: a, uri: 'echo:', predicates: [Path=/**], filters: [RequestHeaderToRequestUri=X-Target]}]";
/// Event of level debug.
const DEBUG: &str = "new target is not an absolute http or https URI";

fn level(gateway: &Gateway) -> String {
    gateway.admin("/api/log").json()["level"].as_str().unwrap().to_owned()
}

/// Causes an event of level debug.
fn cause(gateway: &Gateway) {
    assert_eq!(gateway.connect().request("GET", "/x", &[("X-Target", "nonsense")], b"").status, 200);
}

#[test]
fn a_reload_applies_the_level_of_the_file() {
    let gateway = Gateway::start(ROUTES);
    assert_eq!(level(&gateway), "info");
    cause(&gateway);
    assert!(!gateway.log().contains(DEBUG), "{}", gateway.log());
    gateway.reload(&format!("log: {{level: debug}}\n{ROUTES}"));
    assert_eq!(level(&gateway), "debug");
    cause(&gateway);
    gateway.logged(DEBUG);
    assert!(!gateway.log().contains("after a restart"), "{}", gateway.log());
}

#[test]
fn the_admin_api_changes_the_level_until_the_next_reload() {
    let gateway = Gateway::start(ROUTES);
    let set = |body: &[u8]| gateway.connect_admin().request("PUT", "/api/log", &[], body);
    let changed = set(b"{\"level\": \"debug\"}");
    assert_eq!((changed.status, &changed.json()["level"]), (200, &"debug".into()));
    gateway.logged("log level set to debug");
    cause(&gateway);
    gateway.logged(DEBUG);
    assert_eq!(set(b"{\"level\": \"error\"}").status, 200);
    assert_eq!(level(&gateway), "error");
    gateway.reload(ROUTES);
    assert_eq!(level(&gateway), "info");
    for wrong in [&b"{\"level\": \"loud\"}"[..], b"{}", b"debug", b"{\"level\": \"info\", \"for\": \"1m\"}"] {
        let refused = set(wrong);
        assert!(refused.status == 400 && refused.text().contains("\\\"trace\\\""), "{}", refused.text());
    }
}
