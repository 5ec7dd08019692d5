//! `X-Forwarded-*` and `Forwarded` under Spring's settings, and the trust in them.

use crate::support::client::Connection;
use crate::support::gateway::Gateway;

/// Fields from the proxy in front, in each case.
const CAME: &[(&str, &str)] = &[
    ("Host", "shop.example:8080"),
    ("X-Forwarded-For", "192.0.2.7, 127.0.0.9"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Prefix", "/edge"),
    ("Forwarded", "for=192.0.2.7;proto=https, for=127.0.0.9"),
];

const KEEP: &str = "server: {address: 127.0.0.1, workers: 1, path: {encoded-slash: keep, backslash: keep}}";

const ROUTES: &str = "routes:\n- {id: strip, uri: 'echo:', predicates: [Path=/api/**], filters: [StripPrefix=1]}\n- {id: rewrite, uri: 'echo:', predicates: [Path=/v1/**], filters: ['RewritePath=/v1/old/(.*), /$1']}\n- {id: evil, uri: 'echo:', predicates: ['Path=/{a}/x'], filters: [StripPrefix=1]}\n- {id: near, uri: 'echo:', predicates: [Path=/who, 'RemoteAddr=192.0.2.0/24']}\n- {id: rest, uri: 'echo:', predicates: [Path=/**]}\n";

/// Returns a field as the upstream receives it; empty if absent.
fn forwarded_field(client: &mut Connection, path: &str, field: &str) -> String {
    let answer = client.request("GET", path, CAME, b"").json();
    answer["headers"][field].as_str().unwrap_or_default().to_owned()
}

#[test]
fn each_forwarding_setting_changes_the_headers_to_upstreams() {
    let for_all = "192.0.2.7, 127.0.0.9,127.0.0.1";
    let cases: &[(&str, &str, &str, &str)] = &[
        ("", "/x", "x-forwarded-for", for_all),
        ("", "/x", "x-forwarded-proto", "https,http"),
        ("", "/x", "x-forwarded-host", "shop.example:8080"),
        ("", "/x", "x-forwarded-port", "8080"),
        ("", "/x", "x-forwarded-prefix", "/edge"),
        ("", "/api/x", "x-forwarded-prefix", "/edge,/api"),
        ("", "/api/a%20b/", "x-forwarded-prefix", "/edge,/api"),
        ("", "/v1/old/x", "x-forwarded-prefix", "/edge,/v1/old"),
        // Two slashes would begin a link to another host.
        (KEEP, "/%2Fevil.example/x", "x-forwarded-prefix", "/edge,/%2Fevil.example"),
        (KEEP, "/%5Cevil.example/x", "x-forwarded-prefix", "/edge,/%5Cevil.example"),
        (KEEP, "//api//x", "x-forwarded-prefix", "/edge,/api"),
        ("x-forwarded: {prefix-append: false}", "/api/x", "x-forwarded-prefix", "/api"),
        ("x-forwarded: {prefix-enabled: false}", "/api/x", "x-forwarded-prefix", "/edge"),
        ("x-forwarded: {for-append: false}", "/x", "x-forwarded-for", "127.0.0.1"),
        ("x-forwarded: {for-enabled: false}", "/x", "x-forwarded-for", "192.0.2.7, 127.0.0.9"),
        ("x-forwarded: {trusted-only: true}", "/x", "x-forwarded-for", "127.0.0.9,127.0.0.1"),
        ("x-forwarded: {enabled: false}", "/x", "x-forwarded-proto", "https"),
        ("x-forwarded: {enabled: false}", "/x", "x-forwarded-host", ""),
        ("x-forwarded: {proto-append: false, host-enabled: false}", "/x", "x-forwarded-proto", "http"),
        ("forwarded: {enabled: false}", "/x", "forwarded", "for=192.0.2.7;proto=https, for=127.0.0.9"),
        ("trusted-proxies: []", "/x", "x-forwarded-for", ""),
        ("trusted-proxies: []", "/api/x", "x-forwarded-prefix", ""),
        ("httpserver.customizer-enabled: true", "/who", "x-forwarded-for", for_all),
    ];
    let mut gateway = Gateway::start(&format!("trusted-proxies: ['127.0.0.0/8']\n{ROUTES}"));
    let mut running = "";
    for (setting, path, field, expected) in cases {
        if *setting != running {
            let trusted = if setting.starts_with("trusted") { "" } else { "trusted-proxies: ['127.0.0.0/8']\n" };
            gateway = Gateway::start(&format!("{trusted}{setting}\n{ROUTES}"));
            running = setting;
        }
        assert_eq!(forwarded_field(&mut gateway.connect(), path, field), *expected, "{setting:?} {path} {field}");
    }
}

#[test]
fn forwarded_has_the_gateways_address_and_keeps_trusted_elements() {
    let spring = format!(
        "server: {{address: 127.0.0.1, workers: 1}}\nspring.cloud.gateway:\n  trusted-proxies: '127\\.0\\.0\\.\\d+'\n  forwarded.by.enabled: true\n  httpserver.customizer-enabled: true\n  {}",
        ROUTES.replace('\n', "\n  ")
    );
    let gateway = Gateway::start(&spring);
    let mut client = gateway.connect();
    let port = client.stream().local_addr().unwrap().port();
    let forwarded = forwarded_field(&mut client, "/x", "forwarded");
    let own = format!("proto=http;host=\"shop.example:8080\";for=\"127.0.0.1:{port}\";by=\"{}\"", gateway.address);
    assert_eq!(forwarded, format!("for=127.0.0.9,{own}"));
    assert_eq!(forwarded_field(&mut client, "/x", "x-forwarded-for"), "127.0.0.9,127.0.0.1");
    let matched = |who: &[(&str, &str)]| {
        let mut client = gateway.connect();
        client.request("GET", "/who", who, b"");
        gateway.metric("spring_cloud_gateway_requests_seconds_count", &["routeId=\"near\""])
    };
    crate::support::eventually("a believed address is matched", || matched(CAME) >= 1.0);
}

#[test]
fn a_forwarded_prefix_of_a_spring_file_begins_with_one_slash() {
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, path: {{backslash: keep}}}}\nspring.cloud.gateway:\n  trusted-proxies: '127\\.0\\.0\\.1'\n  {}",
        ROUTES.replace('\n', "\n  ")
    ));
    for (path, prefix) in [
        ("/%2Fevil.example/x", "/edge,/%2Fevil.example"),
        ("/%2fevil.example/x", "/edge,/%2Fevil.example"),
        ("/%5Cevil.example/x", "/edge,/%5Cevil.example"),
        ("//api//x", "/edge,/api"),
    ] {
        assert_eq!(forwarded_field(&mut gateway.connect(), path, "x-forwarded-prefix"), prefix, "{path}");
    }
}

#[test]
fn predicates_and_filters_read_no_forwarded_field_of_a_peer_that_is_not_trusted() {
    let routes = "routes:\n\
        - {id: by-address, uri: 'no://op', predicates: [Path=/address, 'XForwardedRemoteAddr=10.0.0.0/8'], filters: [SetStatus=202]}\n\
        - {id: not-by-address, uri: 'no://op', predicates: [Path=/elsewhere, {not: 'XForwardedRemoteAddr=127.0.0.0/8'}], filters: [SetStatus=202]}\n\
        - {id: by-client, uri: 'no://op', predicates: [Path=/client, 'RemoteAddr=10.0.0.0/8'], filters: [SetStatus=202]}\n\
        - {id: by-field, uri: 'no://op', predicates: [Path=/field, {any: ['Header=X-Forwarded-Proto', 'Header=Forwarded', 'Header=X-Forwarded-Host, .*']}], filters: [SetStatus=202]}\n\
        - {id: by-key, uri: 'no://op', predicates: [Path=/key], filters: [{name: RequestRateLimiter, args: {replenish-rate: 1, key-resolver: 'header:X-Forwarded-For'}}, SetStatus=202]}\n\
        - {id: rest, uri: 'no://op', predicates: [Path=/**], filters: [SetStatus=203]}\n";
    let strategy = "server: {address: 127.0.0.1, workers: 1, forward-headers-strategy: native}\n";
    let spring = |trusted: &str| {
        let plain = routes.replace("{not: 'XForwardedRemoteAddr=127.0.0.0/8'}", "'XForwardedRemoteAddr=10.0.0.0/8'");
        let plain = plain.replace(
            "{any: ['Header=X-Forwarded-Proto', 'Header=Forwarded', 'Header=X-Forwarded-Host, .*']}",
            "'Header=Forwarded'",
        );
        format!("{strategy}spring.cloud.gateway:\n  {trusted}\n  {}", plain.replace('\n', "\n  "))
    };
    let fields = [
        ("x-forwarded-for", "10.0.0.1"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "a"),
        ("forwarded", "for=10.0.0.1"),
    ];
    let statuses = |yaml: &str| {
        let gateway = Gateway::start(yaml);
        ["/address", "/elsewhere", "/client", "/field", "/key"]
            .map(|path| gateway.connect().request("GET", path, &fields, b"").status)
    };
    let [unread, read] = [[203, 203, 203, 203, 403], [202; 5]];
    assert_eq!(statuses(&format!("{strategy}trusted-proxies: ['192.0.2.1']\n{routes}")), unread);
    assert_eq!(statuses(routes), unread);
    assert_eq!(statuses(&spring("trusted-proxies: '192[.]0[.]2[.]1'")), unread);
    assert_eq!(statuses(&spring("x-forwarded: {enabled: true}")), unread);
    assert_eq!(statuses(&format!("{strategy}trusted-proxies: ['127.0.0.1']\n{routes}")), read);
    assert_eq!(statuses(&spring("trusted-proxies: '127.0.0.1'")), read);
}
