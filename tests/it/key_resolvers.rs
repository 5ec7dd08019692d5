//! Keys that requests are counted under.

use crate::support::client::Connection;
use crate::support::gateway::Gateway;

/// A request: method, target, header fields.
type Asked<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

/// Starts a gateway that admits one request per hour (nearly) for each key of `resolver`, at `/a/{user}` and `/b`.
fn once_per(resolver: &str, more: &str) -> Gateway {
    let limiter = format!(
        "{{name: RequestRateLimiter, args: {{replenish-rate: 1, burst-capacity: 3600, requested-tokens: 3600, \
         key-resolver: {resolver}}}}}"
    );
    Gateway::start(&format!(
        "{more}\nroutes: [{{id: a, uri: 'echo:', predicates: ['Path=/a/{{user}},/b'], filters: [{limiter}]}}]"
    ))
}

/// Sends each request on its own connection; returns the ones that were admitted.
fn admitted(gateway: &Gateway, requests: &[Asked]) -> Vec<bool> {
    let ask = |(method, target, headers): &Asked| {
        let answer = Connection::open(gateway.address).request(method, target, headers, b"");
        assert!(matches!(answer.status, 200 | 429), "{method} {target} {headers:?}: {}", answer.status);
        answer.status == 200
    };
    requests.iter().map(ask).collect()
}

#[test]
fn a_header_is_a_key() {
    let gateway = once_per("'header:X-User'", "");
    let ask = |user| ("GET", "/a/x", user);
    let users: [&[(&str, &str)]; 4] =
        [&[("X-User", "ada")], &[("x-user", "ada")], &[("X-User", "Ada")], &[("X-User", "ada"), ("X-User", "ada")]];
    assert_eq!(admitted(&gateway, &users.map(ask)), [true, false, true, false]);
}

#[test]
fn a_query_parameter_is_a_key_after_percent_decoding() {
    let gateway = once_per("'query:user'", "");
    let targets =
        ["/a/x?user=ada", "/a/y?b=1&user=%61da", "/a/x?%75ser=ada", "/a/x?user=eve&us%65r=%65ve", "/b?user=eve"];
    assert_eq!(admitted(&gateway, &targets.map(|target| ("GET", target, &[][..]))), [true, false, false, true, false]);
}

#[test]
fn a_cookie_is_a_key() {
    let gateway = once_per("'cookie:sid'", "");
    let cookies: [&[(&str, &str)]; 4] = [
        &[("Cookie", "a=b; sid=1")],
        &[("Cookie", "sid=\"1\"; a=c")],
        &[("Cookie", "xsid=1; sid=2")],
        &[("Cookie", "a=b"), ("Cookie", "sid=2")],
    ];
    assert_eq!(admitted(&gateway, &cookies.map(|cookie| ("GET", "/b", cookie))), [true, false, true, false]);
}

#[test]
fn a_path_variable_is_a_key_after_percent_decoding() {
    let gateway = once_per("'path:{user}'", "");
    let targets = ["/a/ada", "/a/%61da", "/a/./ada", "/a/eve?x=1", "/a/eve"];
    assert_eq!(admitted(&gateway, &targets.map(|target| ("GET", target, &[][..]))), [true, false, false, true, false]);
    assert_eq!(gateway.get("/b").status, 403, "a path without the variable has no key");
}

#[test]
fn path_host_method_and_route_are_keys() {
    let gateway = once_per("path", "");
    let targets = ["/a/x", "/a/x?q=1", "/a/y", "/b"].map(|target| ("GET", target, &[][..]));
    assert_eq!(admitted(&gateway, &targets), [true, false, true, true]);

    let gateway = once_per("host", "");
    let hosts: [&[(&str, &str)]; 4] =
        [&[("Host", "a.example")], &[("Host", "A.Example:80")], &[("Host", "a.example.")], &[("Host", "b.example")]];
    assert_eq!(admitted(&gateway, &hosts.map(|host| ("GET", "/b", host))), [true, false, false, true]);

    let gateway = once_per("method", "");
    assert_eq!(
        admitted(&gateway, &[("GET", "/b", &[]), ("GET", "/a/x", &[]), ("POST", "/b", &[])]),
        [true, false, true]
    );

    let gateway = once_per("route", "");
    assert_eq!(admitted(&gateway, &[("GET", "/b", &[]), ("POST", "/a/x", &[])]), [true, false]);
}

#[test]
fn parts_of_a_composite_key_are_unambiguous() {
    let gateway = once_per("['header:x-a', 'header:x-b']", "");
    let keys: [&[(&str, &str)]; 4] = [
        &[("x-a", "1"), ("x-b", "23")],
        &[("x-a", "12"), ("x-b", "3")],
        &[("x-b", "23"), ("x-a", "1")],
        &[("x-a", "1"), ("x-b", "2")],
    ];
    assert_eq!(admitted(&gateway, &keys.map(|key| ("GET", "/b", key))), [true, true, false, true]);
    assert_eq!(gateway.connect().request("GET", "/b", &[("x-a", "1")], b"").status, 403, "half a key is none");
}

#[test]
fn a_bean_reference_names_one_of_the_key_resolvers() {
    let gateway = once_per("\"#{@perUser}\"", "key-resolvers: {perUser: 'header:x-user', other: ip}");
    let users: [&[(&str, &str)]; 3] = [&[("x-user", "ada")], &[("x-user", "eve")], &[("x-user", "ada")]];
    assert_eq!(admitted(&gateway, &users.map(|user| ("GET", "/b", user))), [true, true, false]);
}

#[test]
fn the_principal_resolver_yields_no_key_without_authentication() {
    let gateway = once_per("principal", "");
    assert_eq!(gateway.get("/b").status, 403);
}

#[test]
fn the_ip_resolver_ignores_forwarded_fields_of_untrusted_peers() {
    let gateway = once_per("ip", "");
    let claims: [&[(&str, &str)]; 4] = [
        &[],
        &[("X-Forwarded-For", "192.0.2.1")],
        &[("Forwarded", "for=192.0.2.2")],
        &[("X-Real-IP", "192.0.2.3"), ("X-Forwarded-For", "192.0.2.3, 192.0.2.4")],
    ];
    assert_eq!(admitted(&gateway, &claims.map(|claim| ("GET", "/b", claim))), [true, false, false, false]);
}

#[test]
fn behind_trusted_proxies_the_client_is_the_last_untrusted_address() {
    let gateway = once_per("ip", "trusted-proxies: [127.0.0.0/8, 10.0.0.0/8]");
    let claims: [&[(&str, &str)]; 8] = [
        &[("X-Forwarded-For", "192.0.2.1")],
        &[("X-Forwarded-For", "203.0.113.9, 192.0.2.1")],
        &[("X-Forwarded-For", "203.0.113.9"), ("X-Forwarded-For", "192.0.2.1, 10.1.1.1")],
        &[("X-Forwarded-For", "192.0.2.2")],
        &[("X-Forwarded-For", "2001:db8::1")],
        &[("X-Forwarded-For", "2001:db8::ffff:2")],
        &[("X-Forwarded-For", "2001:db8:0:1::1")],
        &[("X-Forwarded-For", "::ffff:192.0.2.2")],
    ];
    assert_eq!(
        admitted(&gateway, &claims.map(|claim| ("GET", "/b", claim))),
        [true, false, false, true, true, false, true, false]
    );
}
