//! The dashboard and the admin API behind a reverse proxy: another gateway.

use crate::support::gateway::Gateway;

const ROUTES: &str = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]";
const OUTER: [(&str, &str); 2] = [("Host", "ops.example.org"), ("Origin", "https://ops.example.org")];

/// Starts a proxy that serves the admin port of `gateway` below `/inner/tollgate`.
fn proxy(gateway: &Gateway, filters: &str) -> Gateway {
    let admin = gateway.admin;
    Gateway::start(&format!(
        "routes: [{{id: ops, uri: 'http://{admin}', predicates: [Path=/inner/tollgate/**], filters: [{filters}]}}]"
    ))
}

/// Returns what `file` loads, relative to its own place.
fn loaded(text: &str) -> Vec<&str> {
    let after = |marker: &'static str| text.split(marker).skip(1).filter_map(|rest| rest.split('"').next());
    after("src=\"").chain(after("href=\"")).filter(|path| !path.starts_with('#')).collect()
}

#[test]
fn the_dashboard_works_below_a_prefix_of_paths() {
    let gateway = Gateway::start(ROUTES);
    let proxy = proxy(&gateway, "StripPrefix=2");
    let page = proxy.get("/inner/tollgate/");
    assert_eq!(page.status, 200);
    let text = page.text();
    let files = loaded(&text);
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        assert!(!file.starts_with('/'), "{file}");
        assert_eq!(proxy.get(&format!("/inner/tollgate/{file}")).status, 200, "{file}");
    }
    let script = proxy.get("/inner/tollgate/dashboard/api.js").text();
    assert!(script.contains("fetch(`.${path}`"), "calls are relative to the page");
}

#[test]
fn changes_come_from_pages_of_the_outer_origin_only_if_it_is_named() {
    let reload = |gateway: &Gateway, fields: &[(&str, &str)]| {
        // With and without the host of the client.
        ["StripPrefix=2, PreserveHostHeader", "StripPrefix=2"].map(|filters| {
            let proxy = proxy(gateway, filters);
            proxy.connect().request("POST", "/inner/tollgate/api/reload", fields, b"").status
        })
    };
    let gateway = Gateway::start(ROUTES);
    assert_eq!(reload(&gateway, &OUTER), [403, 403]);
    gateway.reload(&format!("management.server.origin: https://ops.example.org\n{ROUTES}"));
    assert_eq!(reload(&gateway, &OUTER), [200, 200]);
    for origin in ["https://evil.example", "http://ops.example.org", "null"] {
        assert_eq!(reload(&gateway, &[OUTER[0], ("Origin", origin)]), [403, 403], "{origin}");
    }
    let evil = [("Host", "evil.example"), ("Origin", "https://evil.example")];
    assert_eq!(reload(&gateway, &evil), [403, 403], "a name that a page points at this host");
}
