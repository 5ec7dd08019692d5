//! Keys of functions, and addresses of clients.

use std::net::SocketAddr;

use axum::extract::ConnectInfo;
use http::Request;
use tollgate_filters::context::RequestContext;
use tollgate_filters::key_resolver::KeyResolver;

use crate::support::{from_ip, resolve};

#[test]
fn addresses_come_from_the_context_or_from_the_connection_that_axum_names() {
    let resolver = KeyResolver::client_ip();
    let mut request = Request::new(());
    request.extensions_mut().insert(ConnectInfo::<SocketAddr>("192.0.2.7:4711".parse().unwrap()));
    assert_eq!(resolve(&resolver, &request).as_deref(), Some("192.0.2.7"));
    let client_ip = Some("192.0.2.8".parse().unwrap());
    request.extensions_mut().insert(RequestContext { client_ip, ..RequestContext::default() });
    assert_eq!(resolve(&resolver, &request).as_deref(), Some("192.0.2.8"), "trusted proxies are behind the context");
}

#[test]
fn behind_trusted_proxies_the_address_is_the_rightmost_that_is_not_theirs() {
    let resolver = KeyResolver::client_ip_behind(["10.0.0.0/8".parse().unwrap()]);
    let id = |peer: &str, forwarded: &str| {
        let mut request = from_ip(peer);
        request.headers_mut().insert("x-forwarded-for", forwarded.parse().unwrap());
        resolve(&resolver, &request).unwrap()
    };
    assert_eq!(id("10.0.0.1", "6.6.6.6, 192.0.2.7, 10.0.0.2"), "192.0.2.7");
    assert_eq!(id("10.0.0.1", "junk"), "10.0.0.1");
    assert_eq!(id("192.0.2.9", "192.0.2.7"), "192.0.2.9", "not a proxy");
    assert_eq!(resolve(&resolver, &Request::new(())), None);
}

#[test]
fn repeated_fields_are_ambiguous_in_functions_as_in_header() {
    let by_name = KeyResolver::parse("header:x-user").unwrap();
    let by_function = KeyResolver::from_fn(|head| head.headers.get("x-user"));
    let whichever = KeyResolver::from_fn(|head| head.headers.get("x-user").or(Some("none".into())));
    for (users, id, is_ambiguous) in [
        (&[][..], None, false),
        (&["ada"], Some("ada"), false),
        (&["ada", "ada"], Some("ada"), false),
        (&["ada", "eve"], None, true),
    ] {
        let request = users.iter().fold(Request::builder(), |request, user| request.header("x-user", *user));
        let request = request.body(()).unwrap();
        for resolver in [&by_name, &by_function] {
            assert_eq!(resolve(resolver, &request).as_deref(), id, "{users:?}");
            assert_eq!(resolver.is_ambiguous(&request), is_ambiguous, "{users:?}");
        }
        assert_eq!(whichever.is_ambiguous(&request), is_ambiguous);
        assert_eq!(resolve(&whichever, &request).is_none(), is_ambiguous);
    }
    let any = KeyResolver::from_fn(|head| head.headers.as_map().get("x-user").map(|first| first.as_bytes().into()));
    let request = Request::builder().header("x-user", "ada").header("x-user", "eve").body(()).unwrap();
    assert_eq!(resolve(&any, &request).as_deref(), Some("ada"));
}

#[test]
fn all_spellings_of_one_credential_are_one_key_in_functions_as_in_header() {
    let by_name = KeyResolver::parse("header:Authorization").unwrap();
    let by_function = KeyResolver::from_fn(|head| head.headers.get("Authorization"));
    let by_constant = KeyResolver::from_fn(|head| head.headers.get(http::header::AUTHORIZATION));
    for resolver in [by_name, by_function, by_constant] {
        for spelling in ["Bearer aB", "bearer aB", "BEARER \t aB"] {
            let request = Request::builder().header("authorization", spelling).body(()).unwrap();
            assert_eq!(resolve(&resolver, &request).as_deref(), Some("Bearer aB"), "{spelling:?}, {resolver:?}");
        }
    }
    let other = KeyResolver::from_fn(|head| head.headers.get("x-user"));
    let request = Request::builder().header("x-user", "ada  b").body(()).unwrap();
    assert_eq!(resolve(&other, &request).as_deref(), Some("ada  b"));
}
