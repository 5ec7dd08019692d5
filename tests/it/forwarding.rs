//! Requests as the upstream receives them, and effects of filters on them.

use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, response};

#[test]
fn a_request_is_forwarded_unchanged_except_hop_by_hop_fields() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::to(&upstream.uri());
    let fields = [
        ("User-Agent", "test/1"),
        ("Accept", "a/b;q=0.5, */*"),
        ("X-Twice", "1"),
        ("X-Twice", "2"),
        ("X-Empty", ""),
        ("Authorization", "Bearer t"),
        ("Cookie", "a=1; b=2"),
        ("Content-Type", "text/plain"),
        ("Connection", "X-Hop, x-other"),
        ("X-Hop", "1"),
        ("X-Other", "1"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Connection", "keep-alive"),
        ("Proxy-Authorization", "Basic x"),
        ("TE", "gzip"),
        ("Upgrade", "foo"),
    ];
    assert_eq!(gateway.connect().request("PATCH", "/a?b=c", &fields, b"body").status, 200);
    let request = &upstream.requests()[0];
    assert_eq!(request.line, "PATCH /a?b=c HTTP/1.1");
    assert_eq!(request.body, b"body");
    assert_eq!(request.all("host"), [upstream.address.to_string()], "the target's own name");
    assert_eq!(request.all("x-twice"), ["1", "2"]);
    assert_eq!(request.header("x-empty"), Some(""));
    for (name, value) in &fields[..2] {
        assert_eq!(request.all(name), [*value]);
    }
    for (name, value) in &fields[5..8] {
        assert_eq!(request.all(name), [*value]);
    }
    for gone in ["x-hop", "x-other", "keep-alive", "proxy-connection", "proxy-authorization", "te", "upgrade"] {
        assert_eq!(request.header(gone), None, "{gone}");
    }
    assert_eq!(request.header("via"), Some("1.1 tollgate"));
}

#[test]
fn connection_cannot_remove_essential_fields() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::start(&format!(
        "trusted-proxies: [127.0.0.1]\nroutes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    let named =
        "close, Host, Content-Length, X-Forwarded-For, X-Forwarded-Proto, Forwarded, Authorization, Cookie, Via";
    let fields = [("Connection", named), ("Authorization", "Bearer t"), ("Cookie", "a=1")];
    assert_eq!(gateway.connect().request("POST", "/x", &fields, b"hello").status, 200);
    let request = &upstream.requests()[0];
    assert_eq!((request.all("host").len(), request.body.as_slice()), (1, b"hello".as_slice()));
    assert_eq!(request.header("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(request.header("x-forwarded-proto"), Some("http"));
    assert_eq!((request.header("authorization"), request.header("cookie")), (Some("Bearer t"), Some("a=1")));
    assert_eq!(request.header("via"), Some("1.1 tollgate"));
}

#[test]
fn via_is_appended_and_can_be_renamed_or_disabled() {
    let upstream = Upstream::ok("ok");
    for (setting, expected) in [
        ("", vec!["1.0 before", "1.1 tollgate"]),
        ("via: edge\n", vec!["1.0 before", "1.1 edge"]),
        ("via: false\n", vec!["1.0 before"]),
    ] {
        let gateway =
            Gateway::start(&format!("{setting}routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]", upstream.uri()));
        assert_eq!(gateway.connect().request("GET", "/x", &[("Via", "1.0 before")], b"").status, 200);
        let requests = upstream.requests();
        let joined = requests.last().unwrap().all("via").join(", ");
        assert_eq!(joined, expected.join(", "), "{setting:?}");
    }
}

#[test]
fn forwarding_fields_of_untrusted_peers_are_ignored() {
    let upstream = Upstream::ok("ok");
    let claims = [
        ("X-Forwarded-For", "6.6.6.6"),
        ("X-Forwarded-For", "7.7.7.7"),
        ("X-Forwarded-Host", "evil.example"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Port", "443"),
        ("X-Forwarded-Prefix", "/admin"),
        ("Forwarded", "for=6.6.6.6"),
        ("X_Forwarded_For", "6.6.6.6"),
    ];
    let gateway = Gateway::to(&upstream.uri());
    assert_eq!(gateway.connect().request("GET", "/x", &claims, b"").status, 200);
    let request = &upstream.requests()[0];
    assert!(request.headers.iter().all(|(name, _)| !name.to_lowercase().contains("forwarded")), "{request:?}");
    let trusting = Gateway::start(&format!(
        "trusted-proxies: [127.0.0.0/8]\nroutes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    let fields = [&claims[..], &[("Host", "shop.example:8080")]].concat();
    assert_eq!(trusting.connect().request("GET", "/x", &fields, b"").status, 200);
    let request = &upstream.requests()[1];
    assert_eq!(request.all("x-forwarded-for"), ["6.6.6.6,7.7.7.7,127.0.0.1"]);
    assert_eq!(request.all("x-forwarded-host"), ["evil.example,shop.example:8080"]);
    assert_eq!(request.all("x-forwarded-proto"), ["https,http"]);
    assert_eq!(request.all("x-forwarded-port"), ["443,8080"]);
    assert_eq!(request.header("x_forwarded_for"), None);
    let forwarded = request.header("forwarded").unwrap();
    assert!(forwarded.starts_with("for=6.6.6.6,") && forwarded.contains("127.0.0.1:"), "{forwarded}");
}

#[test]
fn clients_cannot_remove_fields_that_filters_set() {
    let upstream = Upstream::ok("ok");
    let filters = "['SetRequestHeader=X-Auth-User,trusted', 'AddRequestHeader=X-Forwarded-Proto,https', \
                   'AddRequestHeader=X_Under,yes']";
    let gateway = Gateway::filtering(&upstream.uri(), filters);
    let fields = [
        ("Connection", "x-auth-user, x-forwarded-proto, x_under, via"),
        ("X-Auth-User", "root"),
        ("X-Forwarded-Proto", "gopher"),
        ("X_Under", "no"),
    ];
    assert_eq!(gateway.connect().request("GET", "/x", &fields, b"").status, 200);
    let request = &upstream.requests()[0];
    assert_eq!(request.all("x-auth-user"), ["trusted"]);
    assert_eq!(request.all("x-forwarded-proto"), ["https"]);
    assert_eq!(request.all("x_under"), ["yes"]);
    assert_eq!(request.all("via"), ["1.1 tollgate"]);
}

#[test]
fn a_spoofed_address_does_not_escape_its_limit() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::filtering(
        &upstream.uri(),
        "[{name: RequestRateLimiter, args: {replenish-rate: 1, burst-capacity: 60, requested-tokens: 60, \
         key-resolver: ip}}]",
    );
    let statuses: Vec<u16> = (1..=5)
        .map(|n| {
            let spoofed = format!("10.0.0.{n}");
            gateway.connect().request("GET", "/x", &[("X-Forwarded-For", &spoofed)], b"").status
        })
        .collect();
    assert_eq!(statuses, [200, 429, 429, 429, 429]);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn underscores_in_names_are_dropped_allowed_or_refused() {
    let upstream = Upstream::ok("ok");
    for (setting, status, seen) in [("drop", 200, None), ("allow", 200, Some("admin")), ("reject", 400, None)] {
        let before = upstream.requests().len();
        let gateway = Gateway::start(&format!(
            "headers: {{underscores: {setting}}}\nroutes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
            upstream.uri()
        ));
        assert_eq!(gateway.connect().request("GET", "/x", &[("X_User", "admin")], b"").status, status, "{setting}");
        let requests = upstream.requests().split_off(before);
        assert_eq!(requests.len(), usize::from(status == 200));
        assert_eq!(requests.first().and_then(|request| request.header("x_user")), seen, "{setting}");
    }
}

#[test]
fn path_filters_change_the_path_and_keep_the_query() {
    let upstream = Upstream::ok("ok");
    for (predicate, filters, sent, seen) in [
        ("Path=/**", "[StripPrefix=2]", "/a/b/c?d=e", "/c?d=e"),
        ("Path=/**", "[StripPrefix=1]", "/a", "/"),
        ("Path=/**", "[PrefixPath=/v1]", "/a?b", "/v1/a?b"),
        ("Path=/**", "['RewritePath=/red/?(?<segment>.*), /$\\{segment}']", "/red/blue?x=1", "/blue?x=1"),
        ("Path=/red/{segment}", "['SetPath=/{segment}']", "/red/blue?x", "/blue?x"),
        ("Path=/red/{*rest}", "['SetPath=/v2{rest}']", "/red/a/b%20c", "/v2/a/b%20c"),
        ("Path=/red/{segment}", "['SetPath=/{segment}']", "/red/a%3Fadmin=1", "/a%3Fadmin=1"),
        ("Path=/red/{segment}", "['SetPath=/x/{segment}']", "/red/a%2Fadmin", "/x/a%2Fadmin"),
        ("Path=/**", "[StripPrefix=1, PrefixPath=/v1]", "/a/b", "/v1/b"),
    ] {
        let gateway = Gateway::start(&format!(
            "server: {{address: 127.0.0.1, workers: 1, path: {{encoded-slash: keep}}}}\n\
             routes: [{{id: a, uri: '{}', predicates: ['{predicate}'], filters: {filters}}}]",
            upstream.uri()
        ));
        assert_eq!(gateway.get(sent).status, 200, "{filters}");
        assert_eq!(upstream.targets().last().unwrap(), seen, "{filters}");
    }
}

#[test]
fn header_filters_change_what_each_side_sees() {
    let upstream = Upstream::start(|_| response(200, &[("X-Inside", "secret"), ("X-Both", "upstream")], b"ok"));
    let gateway = Gateway::filtering(
        &upstream.uri(),
        "[AddRequestHeader=X-Added, one, SetRequestHeader=X-Set, new, RemoveRequestHeader=X-Removed]"
            .replace("[Add", "['Add")
            .replace(", Set", "', 'Set")
            .replace(", Remove", "', 'Remove")
            .replace(
                "]",
                "', 'AddResponseHeader=X-Both, gateway', 'RemoveResponseHeader=X-Inside', PreserveHostHeader]",
            )
            .as_str(),
    );
    let fields = [("X-Set", "old"), ("X-Removed", "1"), ("X-Added", "zero"), ("Host", "shop.example")];
    let answer = gateway.connect().request("GET", "/x", &fields, b"");
    let request = &upstream.requests()[0];
    assert_eq!(request.all("x-added"), ["zero", "one"]);
    assert_eq!(request.all("x-set"), ["new"]);
    assert_eq!(request.header("x-removed"), None);
    assert_eq!(request.all("host"), ["shop.example"]);
    assert_eq!(answer.all("x-both"), ["upstream", "gateway"]);
    assert_eq!(answer.header("x-inside"), None);
}

#[test]
fn a_path_variable_in_a_header_is_decoded_and_makes_no_new_line() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::start(&format!(
        "routes: [{{id: a, uri: '{}', predicates: ['Path=/users/{{name}}'], \
         filters: ['AddRequestHeader=X-Name, user {{name}}']}}]",
        upstream.uri()
    ));
    assert_eq!(gateway.get("/users/ann%20b").status, 200);
    assert_eq!(upstream.requests()[0].header("x-name"), Some("user ann b"));
    assert_eq!(gateway.get("/users/a%0d%0aX-Admin:1").status, 400);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn redirects_of_filters_are_sent_and_those_of_upstreams_are_not_followed() {
    let upstream = Upstream::start(|_| response(302, &[("Location", "/elsewhere")], b""));
    let gateway = Gateway::start(&format!(
        "routes: [{{id: r, uri: '{0}', predicates: [Path=/old], filters: ['RedirectTo=301, https://new.example/']}}, \
         {{id: a, uri: '{0}', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    let redirected = gateway.connect().request("POST", "/old", &[], b"unread body");
    assert_eq!((redirected.status, redirected.header("location")), (301, Some("https://new.example/")));
    assert_eq!(upstream.requests().len(), 0);
    let answer = gateway.get("/x");
    assert_eq!((answer.status, answer.header("location")), (302, Some("/elsewhere")));
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn set_status_replaces_the_upstreams_status_and_not_a_denial() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::filtering(
        &upstream.uri(),
        "[SetStatus=202, {name: RequestRateLimiter, args: {replenish-rate: 1, burst-capacity: 60, \
         requested-tokens: 60, key-resolver: ip}}]",
    );
    assert_eq!(gateway.get("/x").status, 202);
    assert_eq!(gateway.get("/x").status, 429);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_path_without_a_route_is_404() {
    let upstream = Upstream::ok("ok");
    let gateway = Gateway::start(&format!("routes: [{{id: a, uri: '{}', predicates: [Path=/a]}}]", upstream.uri()));
    let mut client = gateway.connect();
    let answer = client.request("POST", "/b", &[("Accept", "application/json")], b"unread body");
    assert_eq!((answer.status, answer.json()["status"].as_u64()), (404, Some(404)));
    assert_eq!(client.request("GET", "/a", &[], b"").status, 200, "the connection stays open");
    assert_eq!(upstream.requests().len(), 1);
}
