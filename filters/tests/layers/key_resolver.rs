//! Key resolvers.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ConnectInfo;
use http::{Method, Request};
use proptest::prelude::*;
use tollgate_filters::context::RequestContext;
#[cfg(not(feature = "jwt"))]
use tollgate_filters::key_resolver::KeyResolverError;
use tollgate_filters::key_resolver::{KeyBuf, KeyResolver};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Rule, TokenBucket};
use tollgate_limiter::store::memory::MemoryStore;
use tollgate_limiter::store::{Check, Decision, Store};

use crate::support::{from_ip, resolve};

fn key(text: &str, request: &Request<()>) -> Option<String> {
    resolve(&KeyResolver::parse(text).unwrap(), request)
}

#[test]
fn addresses_resolve_to_their_networks() {
    for (ip, id) in [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("::1", "::/64"),
    ] {
        assert_eq!(key("ip", &from_ip(ip)).as_deref(), Some(id), "{ip}");
    }
}

#[test]
fn a_hundred_thousand_addresses_of_one_network_share_one_bucket() {
    let store = MemoryStore::new(NonZeroUsize::MIN.saturating_add(999));
    let rule = Rule::Gcra(TokenBucket::new(1, Duration::from_secs(86_400), 5).unwrap());
    let admitted = (0..100_000u128).map(|host| {
        // Spread over the whole network by an odd multiplier.
        let bits = 0x2001_0db8_0001_0002 << 64 | host.wrapping_mul(0x9E37_79B9_7F4A_7C15) & u128::from(u64::MAX);
        let id = key("ip", &from_ip(&std::net::Ipv6Addr::from_bits(bits).to_string())).unwrap();
        let check = Check { key: BucketKey { scope: "r", id: id.as_bytes() }, rule: &rule, cost: 1 };
        let Decision::Ready(verdict) = store.decide(&[check], &[]) else { panic!("memory decides immediately") };
        u32::from(verdict.is_allowed())
    });
    assert_eq!((admitted.sum::<u32>(), store.len()), (5, 1));
}

#[test]
fn prefix_lengths_apply_to_composites_too() {
    let resolver = KeyResolver::client_ip().with_ip_prefixes(24, 48);
    assert_eq!(resolve(&resolver, &from_ip("192.0.2.7")).as_deref(), Some("192.0.2.0/24"));
    assert_eq!(resolve(&resolver, &from_ip("2001:db8:1:2::1")).as_deref(), Some("2001:db8:1::/48"));
    let whole = KeyResolver::composite(vec![KeyResolver::client_ip()]).with_ip_prefixes(255, 128);
    assert_eq!(resolve(&whole, &from_ip("2001:db8::1")).as_deref(), Some("2001:db8::1"));
    assert_eq!(resolve(&whole, &from_ip("192.0.2.7")).as_deref(), Some("192.0.2.7"));
    let none = KeyResolver::client_ip().with_ip_prefixes(0, 0);
    assert_eq!(resolve(&none, &from_ip("192.0.2.7")).as_deref(), Some("0.0.0.0/0"));
    assert_eq!(resolve(&none, &from_ip("2001:db8::1")).as_deref(), Some("::/0"));
}

#[test]
fn parts_of_the_head_are_read_by_name() {
    let request = Request::builder()
        .method(Method::PUT)
        .uri("/a%20b/c?x=1&us%65r=ada%20l+x&user=ada+l%20x&two=1&two=2&empty=&flag")
        .header("Host", "Shop.Example.:8443")
        .header("X-Api-Key", "k1")
        .header("X-Api-Key", "k1")
        .header("X-Two", "1")
        .header("X-Two", "2")
        .header("Cookie", "a=1; session=s%201")
        .header("Cookie", "quoted=\"q\";empty=")
        .body(())
        .unwrap();
    for (resolver, id) in [
        ("header:x-api-key", Some("k1")),
        ("header:X-Other", None),
        ("header:X-Two", None),
        ("query:two", None),
        ("query:user", Some("ada l x")),
        ("query:x", Some("1")),
        ("query:empty", None),
        ("query:flag", None),
        ("query:other", None),
        ("cookie:session", Some("s%201")),
        ("cookie:quoted", Some("q")),
        ("cookie:empty", None),
        ("cookie:sess", None),
        ("path", Some("/a%20b/c")),
        ("host", Some("shop.example")),
        ("method", Some("PUT")),
        ("ip", None),
        ("route", None),
        ("principal", None),
        ("path:{id}", None),
    ] {
        assert_eq!(key(resolver, &request).as_deref(), id, "{resolver}");
    }
}

#[test]
fn spellings_of_one_path_share_a_key() {
    for (path, id) in [
        ("/login", "/login"),
        ("/login;x", "/login"),
        ("/login;x=1;y", "/login"),
        ("/login;", "/login"),
        ("/l%6fgin", "/login"),
        ("/a;v=1/b;w/", "/a/b"),
        ("/login/", "/login"),
        ("/", "/"),
        ("/a%7Cb%5e[x]", "/a|b^[x]"),
        ("/a%21%3a", "/a!:"),
        ("/a%2Fb%20%3Bc%25;d", "/a%2Fb%20%3Bc%25"),
        ("/a%", "/a%"),
        ("/a%zz;", "/a%zz"),
    ] {
        let request = Request::builder().uri(path).body(()).unwrap();
        assert_eq!(key("path", &request).as_deref(), Some(id), "{path}");
    }
}

#[test]
fn the_targets_authority_names_the_host_before_the_header() {
    let request = Request::builder().uri("http://u:p@[2001:DB8::1]:80/").header("host", "other").body(()).unwrap();
    assert_eq!(key("host", &request).as_deref(), Some("[2001:db8::1]"));
    let request = Request::builder().uri("/").header("host", "[::1]").body(()).unwrap();
    assert_eq!(key("host", &request).as_deref(), Some("[::1]"));
}

#[test]
fn route_principal_and_variables_come_from_the_context() {
    let mut request = Request::new(());
    request.extensions_mut().insert(RequestContext {
        route_id: Some(Arc::from("orders")),
        principal: Some(Arc::from("ada")),
        variables: vec![(Arc::from("id"), "first".into()), (Arc::from("id"), "4%32+".into())],
        ..RequestContext::default()
    });
    assert_eq!(key("route", &request).as_deref(), Some("orders"));
    assert_eq!(key("principal", &request).as_deref(), Some("ada"));
    assert_eq!(key("path:{id}", &request).as_deref(), Some("42+"));
    assert_eq!(KeyResolver::default(), KeyResolver::principal());
}

#[test]
fn errors_of_bad_texts_name_the_problem() {
    for (text, error) in [
        ("ipp", "unknown key resolver `ipp`"),
        ("", "unknown key resolver ``"),
        ("ip:x", "unknown key resolver `ip:x`"),
        ("header", "needs a name after the colon"),
        ("cookie:", "needs a name after the colon"),
        ("header:a b", "does not name a valid header"),
        ("path:id", "needs a variable in braces"),
        ("path:{}", "needs a variable in braces"),
        ("jwt:", "needs a name after the colon"),
    ] {
        let message = KeyResolver::parse(text).unwrap_err().to_string();
        assert!(message.contains(error), "{text}: {message}");
    }
    #[cfg(not(feature = "jwt"))]
    assert_eq!(KeyResolver::parse("jwt:sub"), Err(KeyResolverError::NeedsJwt("jwt:sub".into())));
}

#[test]
fn a_composite_without_one_part_has_no_key() {
    let parts = vec![KeyResolver::parse("header:a").unwrap(), KeyResolver::parse("header:b").unwrap()];
    let both = KeyResolver::composite(parts);
    let request = Request::builder().header("a", "x").body(()).unwrap();
    assert_eq!(resolve(&both, &request), None);
    let request = Request::builder().header("a", "x").header("b", "yz").body(()).unwrap();
    assert_eq!(resolve(&both, &request).as_deref(), Some("1:x2:yz"));
    assert_eq!(resolve(&KeyResolver::composite(vec![]), &request), None);
}

#[test]
fn a_function_resolves_keys_from_the_head_and_its_extensions() {
    let resolver = KeyResolver::from_fn(|head| {
        let tenant = head.extensions.get::<&str>()?;
        Some(format!("{} {tenant}", head.method).into())
    });
    let mut request = Request::builder().method(Method::PUT).body(()).unwrap();
    assert_eq!(resolve(&resolver, &request), None);
    request.extensions_mut().insert("t1");
    assert_eq!(resolve(&resolver, &request).as_deref(), Some("PUT t1"));
    assert_eq!(resolve(&KeyResolver::from_fn(|_| Some("".into())), &request), None, "an empty key is missing");
    assert!(resolver.needs_context(), "a function may read the context");
    assert_eq!(resolver, resolver.clone());
    assert_ne!(resolver, KeyResolver::from_fn(|_| Some("".into())));
}

#[test]
fn addresses_come_from_any_extension() {
    #[derive(Clone)]
    struct ConnectInfo(std::net::SocketAddr);
    let resolver = KeyResolver::ip_from(|info: &ConnectInfo| info.0.ip());
    let mut request = Request::new(());
    assert_eq!(resolve(&resolver, &request), None);
    request.extensions_mut().insert(ConnectInfo("[2001:db8::1]:4711".parse().unwrap()));
    assert_eq!(resolve(&resolver, &request).as_deref(), Some("2001:db8::/64"));
    assert_eq!(resolve(&resolver.with_ip_prefixes(32, 32), &request).as_deref(), Some("2001:db8::/32"));
}

#[test]
fn requests_without_a_key_share_one_that_no_other_request_has() {
    let shared = KeyResolver::parse("header:x-user").unwrap().or_shared();
    assert_eq!(resolve(&shared, &Request::new(())).as_deref(), Some(""));
    for (user, id) in [("ada", "ada"), ("", "")] {
        let request = Request::builder().header("x-user", user).body(()).unwrap();
        assert_eq!(resolve(&shared, &request).as_deref(), Some(id));
    }
    let request = Request::builder().header("x-user", "ada").header("x-user", "eve").body(()).unwrap();
    assert_eq!(resolve(&shared, &request), None, "an upstream may read either value");
    assert!(shared.is_ambiguous(&request) && !shared.identifies(&request, false));
    let variable = KeyResolver::parse("path:{id}").unwrap().or_shared();
    assert!(variable.needs_context() && variable.needs_variables());
    assert_eq!(variable.variables(), ["id"]);
}

#[test]
fn preflights_without_a_key_are_counted_by_address() {
    let by_user = KeyResolver::parse("header:x-user").unwrap().or_preflight();
    let preflight = |ip: Option<&str>, users: &[&str]| {
        let mut request = ip.map_or_else(|| Request::new(()), from_ip);
        *request.method_mut() = Method::OPTIONS;
        request.headers_mut().insert("origin", "https://a.example".parse().unwrap());
        request.headers_mut().insert("access-control-request-method", "POST".parse().unwrap());
        for user in users {
            request.headers_mut().append("x-user", user.parse().unwrap());
        }
        request
    };
    assert_eq!(resolve(&by_user, &preflight(Some("192.0.2.7"), &[])).as_deref(), Some(" preflight 192.0.2.7"));
    assert_eq!(resolve(&by_user, &preflight(Some("2001:db8::1"), &[])).as_deref(), Some(" preflight 2001:db8::/64"));
    assert_eq!(resolve(&by_user, &preflight(Some("192.0.2.7"), &["ada"])).as_deref(), Some("ada"));
    assert_eq!(resolve(&by_user, &preflight(Some("192.0.2.7"), &["ada", "eve"])), None);
    assert_eq!(resolve(&by_user, &preflight(None, &[])), None, "without an address");
    let mut of_axum = preflight(None, &[]);
    of_axum.extensions_mut().insert(ConnectInfo(SocketAddr::from(([192, 0, 2, 7], 1))));
    assert_eq!(resolve(&by_user, &of_axum).as_deref(), Some(" preflight 192.0.2.7"));
    for missing in ["origin", "access-control-request-method"] {
        let mut request = preflight(Some("192.0.2.7"), &[]);
        request.headers_mut().remove(missing);
        assert_eq!(resolve(&by_user, &request), None, "without {missing}");
    }
    let mut get = preflight(Some("192.0.2.7"), &[]);
    *get.method_mut() = Method::GET;
    assert_eq!(resolve(&by_user, &get), None);
    assert_eq!(by_user.to_string(), "header:x-user");
    let by_address = KeyResolver::client_ip();
    assert_eq!(by_address.clone().or_preflight(), by_address, "every request has an address");
}

proptest! {
    #[test]
    fn composites_are_injective(a in "[ -~]{1,60}", b in "[ -~]{1,60}", c in "[ -~]{1,60}", d in "[ -~]{1,60}") {
        let both = KeyResolver::composite(vec![
            KeyResolver::parse("header:one").unwrap(),
            KeyResolver::parse("header:two").unwrap(),
        ]);
        let id = |one: &str, two: &str| {
            resolve(&both, &Request::builder().header("one", one).header("two", two).body(()).unwrap())
        };
        prop_assert_eq!(id(&a, &b) == id(&c, &d), (&a, &b) == (&c, &d));
        // The most similar list: the same text, split at another position.
        let (moved, rest) = b.split_at(1);
        if !rest.is_empty() {
            prop_assert_ne!(id(&a, &b), id(&format!("{a}{moved}"), rest));
        }
    }

    #[test]
    fn no_request_resolves_to_an_empty_key(query in "[!-~&&[^#]]{0,80}", cookie in "[ -~]{0,80}", host in "[ -~]{0,40}") {
        let Ok(request) = Request::builder().uri(format!("/p?{query}")).header("cookie", cookie).header("host", host).body(()) else {
            return Ok(());
        };
        for text in ["query:a", "cookie:a", "host", "path", "method"] {
            let mut buf = KeyBuf::new();
            let resolver = KeyResolver::parse(text).unwrap();
            prop_assert_ne!(resolver.resolve(&request, &mut buf), Some(&b""[..]));
        }
    }
}
