//! `SecureHeaders`, `RequestHeaderSize` and `RemoveJsonAttributesResponseBody`, through one gateway.

use crate::support::client::Response;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, response};

const JSON: &str = r#"{"id": 1, "name": "Ada", "inner": {"id": 2, "list": [{"id": 3, "n": 1.10}]}}"#;

fn upstream() -> Upstream {
    Upstream::start(|request| {
        let json = [("Content-Type", "application/json"), ("ETag", "\"x\"")];
        match request.target().rsplit('/').next().unwrap() {
            "own" => response(200, &[("X-Frame-Options", "SAMEORIGIN"), ("referrer-policy", "")], b"own"),
            "json" => response(200, &json, JSON.as_bytes()),
            "broken" => response(200, &json, b"{\"id\": 1"),
            "gzip" => response(200, &[("Content-Type", "application/json"), ("Content-Encoding", "gzip")], b"{}"),
            "large" => response(200, &json, format!("{{\"id\": \"{}\"}}", "x".repeat(2000)).as_bytes()),
            "text" => response(200, &[("Content-Type", "text/plain")], b"{\"id\": 1"),
            "late" => response(504, &[], b"late"),
            _ => response(200, &[], b"ok"),
        }
    })
}

const DEFAULTS: [(&str, &str); 8] = [
    ("X-Xss-Protection", "1 ; mode=block"),
    ("Strict-Transport-Security", "max-age=631138519"),
    ("X-Frame-Options", "DENY"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    (
        "Content-Security-Policy",
        "default-src 'self' https:; font-src 'self' https: data:; img-src 'self' https: data:; object-src 'none'; \
         script-src https:; style-src 'self' https: 'unsafe-inline'",
    ),
    ("X-Download-Options", "noopen"),
    ("X-Permitted-Cross-Domain-Policies", "none"),
];

#[test]
fn a_table_of_routes() {
    let upstream = upstream();
    let uri = upstream.uri();
    let route = |id: &str, filter: &str| {
        format!("  - {{id: {id}, uri: '{uri}', predicates: [Path=/{id}/**], filters: [{filter}]}}\n")
    };
    let yaml = [
        "filter:\n  secure-headers: {disable: x-frame-options, frame-options: NEVER, download-options: all}\n".to_owned(),
        "  remove-json-attributes-response-body: {max-size: 1000}\n".to_owned(),
        "routes:\n".to_owned(),
        route("secure", "SecureHeaders"),
        route("own", "{name: SecureHeaders, args: {disable: [Referrer-Policy, x-xss-protection], enable: permissions-policy, permissionsPolicy: 'camera=()', contentTypeOptionsHeaderValue: sniff}}"),
        route("denied", "SecureHeaders, 'RedirectTo=302,https://a.example'"),
        route("header", "{name: RequestHeaderSize, args: {maxSize: 46B}}"),
        route("named", "{name: RequestHeaderSize, args: {maxSize: 46B, errorHeaderName: X-Why}}"),
        route("top", "'RemoveJsonAttributesResponseBody=id,unknown'"),
        route("deep", "'RemoveJsonAttributesResponseBody=id,true'"),
        route("long", "{name: RemoveJsonAttributesResponseBody, args: {fieldList: [id, inner], deleteRecursively: false}}"),
    ]
    .concat();
    let gateway = Gateway::start(&yaml);
    let get = |path: &str, headers: &[(&str, &str)]| gateway.connect().request("GET", path, headers, b"");
    let all = |answer: &Response, name: &str| answer.all(name).iter().map(|v| (*v).to_owned()).collect::<Vec<_>>();

    let plain = get("/secure/x", &[]);
    for (name, value) in DEFAULTS {
        let expected = match name {
            "X-Frame-Options" => vec![],
            "X-Download-Options" => vec!["all".to_owned()],
            _ => vec![value.to_owned()],
        };
        assert_eq!(all(&plain, name), expected, "{name}");
    }
    assert_eq!(all(&plain, "permissions-policy"), Vec::<String>::new(), "opt-in");
    let own = get("/secure/own", &[]);
    assert_eq!(
        (all(&own, "x-frame-options"), all(&own, "referrer-policy")),
        (vec!["SAMEORIGIN".into()], vec!["".into()])
    );
    let late = get("/secure/late", &[]);
    assert_eq!((late.status, late.header("x-content-type-options")), (504, Some("nosniff")), "the upstream's own 504");

    let route = get("/own/x", &[]);
    for (name, value) in DEFAULTS {
        let expected = match name {
            "Referrer-Policy" | "X-Xss-Protection" => None,
            // A list of the route replaces the default list; single values stay.
            "X-Frame-Options" => Some("NEVER"),
            "X-Download-Options" => Some("all"),
            "X-Content-Type-Options" => Some("sniff"),
            _ => Some(value),
        };
        assert_eq!(route.header(name), expected, "{name}");
    }
    assert_eq!(route.header("permissions-policy"), Some("camera=()"));
    let redirect = get("/denied/x", &[]);
    assert_eq!((redirect.status, redirect.header("x-frame-options")), (302, None), "made by the gateway");

    let text = "Request Header/s size is larger than permissible limit (46B). Request Header/s size for 'x' is 57B.";
    let value = "v".repeat(56);
    let refused = get("/header/x", &[("X", &value)]);
    assert_eq!((refused.status, refused.header("errorMessage"), refused.text().as_str()), (431, Some(text), ""));
    assert_eq!(get("/header/x", &[("X", &value[..45]), ("Y", &value[..45])]).status, 200, "each alone");
    assert_eq!(get("/header/x", &[("X", &value[..23]), ("X", &value[..23])]).status, 431, "all values of one");
    assert_eq!(get("/named/x", &[("X", &value)]).header("x-why"), Some(text));

    for (path, expected) in [
        ("/top/json", r#"{"name":"Ada","inner":{"id":2,"list":[{"id":3,"n":1.10}]}}"#),
        ("/deep/json", r#"{"name":"Ada","inner":{"list":[{"n":1.10}]}}"#),
        ("/long/json", r#"{"name":"Ada"}"#),
        ("/top/text", "{\"id\": 1"),
    ] {
        let answer = get(path, &[("accept-encoding", "gzip"), ("range", "bytes=5-")]);
        assert_eq!((answer.status, answer.text().as_str()), (200, expected), "{path}");
        assert_eq!(answer.header("content-length"), Some(expected.len().to_string().as_str()), "{path}");
    }
    assert_eq!(get("/top/json", &[]).header("etag"), Some("W/\"x\""));
    let asked = upstream.requests().into_iter().find(|request| request.target() == "/top/json").unwrap();
    assert_eq!((asked.header("accept-encoding"), asked.header("range")), (Some("identity"), None));
    for path in ["/top/broken", "/top/gzip", "/top/large"] {
        let answer = get(path, &[]);
        assert_eq!((answer.status, answer.text().as_str()), (500, "Internal Server Error\n"), "{path}");
    }
}
