//! Edits of the target, and edits that need both a request and its response.

use std::sync::{Arc, Mutex};

use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tollgate_filters::context::{RequestContext, TargetUri};
use tollgate_filters::edit::{Edit, EditError, EditLayer, LocationSettings};
use tower::{Layer, ServiceExt};

use crate::support::{Body, reason, request_with, upstream, values};

/// Returns the target URI that the upstream receives.
async fn target(edit: Edit, request: Request<()>) -> Option<String> {
    let seen = Arc::new(Mutex::new(None));
    let inner = upstream(&Arc::default(), {
        let seen = Arc::clone(&seen);
        move |request: &Request<()>| {
            *seen.lock().unwrap() = request.extensions().get::<TargetUri>().cloned();
            Response::<Body>::default()
        }
    });
    let response = EditLayer::new([edit]).layer(inner).oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let target = seen.lock().unwrap().take();
    target.map(|TargetUri(uri)| uri.to_string())
}

#[tokio::test]
async fn a_header_or_a_template_sets_the_whole_target() {
    let header = |value: &str| {
        let request = Request::builder().uri("/own?path").header("x-to", value).header("x-to", "http://second/");
        request.body(()).unwrap()
    };
    let from_header = Edit::request_header_to_request_uri("X-To").unwrap();
    for (value, expected) in [
        ("http://a:81/b?c=d", Some("http://a:81/b?c=d")),
        ("https://a", Some("https://a/")),
        ("/b", None),
        ("file:///etc/passwd", None),
        ("", None),
    ] {
        assert_eq!(target(from_header.clone(), header(value)).await.as_deref(), expected, "{value}");
    }
    assert_eq!(target(from_header, Request::new(())).await, None);
    for (template, expected) in [
        ("http://a/{id}?x", Some("http://a/b%2Fc?x")),
        ("http://a/b", Some("http://a/b")),
        ("http://{id}/b", None),
        ("http://a/{missing}", None),
        ("a/b", None),
    ] {
        let edit = Edit::set_request_uri(template).unwrap();
        assert_eq!(target(edit, request_with("/own", &[("id", "b%2Fc")])).await.as_deref(), expected, "{template}");
    }
}

#[tokio::test]
async fn a_host_is_sent_upstream_unless_a_variable_makes_it_invalid() {
    let edit = Edit::set_request_host_header("{id}.example:81").unwrap();
    assert!(edit.preserves_host() && !edit.touches_host());
    for (id, expected) in [
        ("a", 200),
        ("a%2Fb", 400),
        ("a%20", 400),
        ("b@a", 400),
        ("a,b", 400),
        ("a%2Cb", 400),
        ("[a]", 400),
        ("%2561", 400),
    ] {
        let inner = upstream(&Arc::default(), move |request: &Request<()>| {
            assert_eq!(request.headers()["host"], format!("{id}.example:81"));
            assert!(request.extensions().get::<RequestContext>().unwrap().preserve_host);
            Response::<Body>::default()
        });
        let request = request_with("/", &[("id", id)]);
        let response = EditLayer::new([edit.clone()]).layer(inner).oneshot(request).await.unwrap();
        assert_eq!(response.status(), expected, "{id}");
    }
}

#[tokio::test]
async fn no_edit_makes_an_invalid_host_of_client_text() {
    for edit in [
        Edit::set_request_host_header("{id}.example"),
        Edit::set_request_header("Host", "{id}.example"),
        Edit::add_request_header("host", "{id}.example"),
        Edit::add_request_headers_if_not_present([("Host", "{id}.example")]),
        Edit::map_request_header("X-Host", "Host"),
    ] {
        let edit = edit.unwrap();
        for (id, expected) in [("a", 200), ("a%2Cb", 400), ("a,b", 400)] {
            let inner = upstream(&Arc::default(), |request: &Request<()>| {
                assert_eq!(request.headers()["host"], "a.example");
                Response::<Body>::default()
            });
            let mut request = request_with("/", &[("id", id)]);
            let mapped = format!("{}.example", id.replace("%2C", ","));
            request.headers_mut().insert("x-host", mapped.parse().unwrap());
            let response = EditLayer::new([edit.clone()]).layer(inner).oneshot(request).await.unwrap();
            assert_eq!(response.status(), expected, "{edit:?} {id}");
        }
    }
    for host in ["a,b.example", "a%2Cb", "a:08", ""] {
        assert_eq!(Edit::set_request_host_header(host).unwrap_err(), EditError::Host(host.to_owned()));
    }
}

#[tokio::test]
async fn a_location_is_rewritten_by_the_request_at_the_filters_position() {
    let location = Edit::rewrite_location_response_header(&LocationSettings::default()).unwrap();
    let set_path = Edit::set_path("/v1/x").unwrap();
    let set_host = Edit::set_request_host_header("other").unwrap();
    for (edits, expected) in [
        ([location.clone(), set_path.clone(), set_host.clone()], "http://own/b"),
        ([set_path, set_host, location], "http://other/v2/b"),
    ] {
        let inner = upstream(&Arc::default(), |_: &Request<()>| {
            Response::builder().header("location", "http://backend/v2/b").body(Full::default()).unwrap()
        });
        let request = Request::builder().uri("/a").header("host", "own").body(()).unwrap();
        let response = EditLayer::new(edits).layer(inner).oneshot(request).await.unwrap();
        assert_eq!(values(&response, "location"), [expected]);
    }
}

/// Backtracks exponentially on a text of many `a`.
const SLOW: &str = r"(?:(a+)\1?)+b";

#[tokio::test]
async fn a_request_or_header_that_takes_too_long_to_match_is_not_forwarded() {
    let many = "a".repeat(100);
    let edits = [Edit::rewrite_path(SLOW, "/x").unwrap()];
    let inner = upstream(&Arc::default(), |_: &Request<()>| panic!("the upstream was called"));
    let request = Request::builder().uri(format!("/{many}")).body(()).unwrap();
    let response = EditLayer::new(edits).layer(inner).oneshot(request).await.unwrap();
    assert_eq!((response.status(), reason(&response)), (StatusCode::INTERNAL_SERVER_ERROR, Some("regexp-too-slow")));
    let edits = [Edit::rewrite_response_header("X-Secret", SLOW, "hidden").unwrap()];
    let inner = upstream(&Arc::default(), move |_: &Request<()>| {
        Response::builder().header("x-secret", &many).header("x-secret", "aab").body(Full::default()).unwrap()
    });
    let response = EditLayer::new(edits).layer(inner).oneshot(Request::new(())).await.unwrap();
    assert_eq!(values(&response, "x-secret"), ["hidden"]);
}
