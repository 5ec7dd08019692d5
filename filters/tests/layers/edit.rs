//! Header and path edits, alone and in sequence.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use tollgate_filters::context::{LocalReply, RequestContext};
use tollgate_filters::edit::{Edit, EditError, EditLayer};
use tower::{Layer, ServiceExt};

use crate::support::{Body, reason, request_with, text, upstream, values};

/// Request as the upstream received it, and the response.
struct Passed {
    uri: Uri,
    headers: HeaderMap,
    context: Option<RequestContext>,
    response: Response<Body>,
}

async fn pass(edits: impl IntoIterator<Item = Edit>, request: Request<()>, response: Response<()>) -> Passed {
    let seen = Arc::new(Mutex::new(None));
    let (parts, ()) = response.into_parts();
    let inner = upstream(&Arc::default(), {
        let seen = Arc::clone(&seen);
        move |request: &Request<()>| {
            *seen.lock().unwrap() =
                Some((request.uri().clone(), request.headers().clone(), request.extensions().get().cloned()));
            Response::from_parts(parts.clone(), Full::default())
        }
    });
    let response = EditLayer::new(edits).layer(inner).oneshot(request).await.unwrap();
    let (uri, headers, context) = seen.lock().unwrap().take().expect("the upstream was not called");
    Passed { uri, headers, context, response }
}

async fn path_after(edit: Edit, uri: &str, variables: &[(&str, &str)]) -> String {
    pass([edit], request_with(uri, variables), Response::new(())).await.uri.to_string()
}

#[tokio::test]
async fn strip_prefix_removes_segments_as_spring_does() {
    for (parts, uri, expected) in [
        (1, "/name/blue/red", "/blue/red"),
        (2, "/name/blue/red", "/red"),
        (2, "/name/blue/red/", "/red/"),
        (1, "/name", "/"),
        (1, "/name/", "/"),
        (9, "/name/blue", "/"),
        (1, "//name//blue///red//?a=//b", "/blue/red/?a=//b"),
        (0, "/a//b", "/a/b"),
        (1, "/", "/"),
        (1, "/a/%2F/b?x=1", "/%2F/b?x=1"),
        (u32::MAX, "/a/b", "/"),
    ] {
        assert_eq!(path_after(Edit::strip_prefix(parts).unwrap(), uri, &[]).await, expected, "{parts} of {uri}");
    }
}

#[tokio::test]
async fn prefix_path_is_inserted_with_its_variables() {
    for (prefix, uri, expected) in [
        ("/mypath", "/hello?q=1", "/mypath/hello?q=1"),
        ("/{id}/x", "/hello", "/a%20b/x/hello"),
        ("/sp ace", "/", "/sp%20ace/"),
        ("{id}", "/hello", "/a%20b/hello"),
    ] {
        assert_eq!(path_after(Edit::prefix_path(prefix).unwrap(), uri, &[("id", "a%20b")]).await, expected);
    }
}

#[tokio::test]
async fn prefix_path_applies_once_per_request() {
    let edits = [Edit::prefix_path("/one").unwrap(), Edit::prefix_path("/two").unwrap()];
    let passed = pass(edits, Request::new(()), Response::new(())).await;
    assert_eq!(passed.uri, "/one/");
    assert!(passed.context.unwrap().path_prefixed);
    let mut request = Request::new(());
    request.extensions_mut().insert(RequestContext { path_prefixed: true, ..RequestContext::default() });
    assert_eq!(pass([Edit::prefix_path("/two").unwrap()], request, Response::new(())).await.uri, "/");
}

#[tokio::test]
async fn set_path_replaces_the_path_and_keeps_the_query() {
    for (template, expected) in [
        ("/new", "/new?q=%7B"),
        ("/{segment}", "/bl%2Fue?q=%7B"),
        ("/x/{segment:.*}/y", "/x/bl%2Fue/y?q=%7B"),
        ("{rest}", "/a/b?q=%7B"),
        ("{segment}", "/bl%2Fue?q=%7B"),
    ] {
        let variables = [("segment", "bl%2Fue"), ("rest", "/a/b")];
        assert_eq!(path_after(Edit::set_path(template).unwrap(), "/old/x?q=%7B", &variables).await, expected);
    }
}

#[tokio::test]
async fn path_edits_leave_targets_without_a_path_alone() {
    for uri in ["*", "example.org:443"] {
        let edits = [Edit::strip_prefix(1).unwrap(), Edit::set_path("/new").unwrap(), Edit::prefix_path("/p").unwrap()];
        let request = Request::builder().uri(uri).body(()).unwrap();
        assert_eq!(pass(edits, request, Response::new(())).await.uri, uri);
    }
}

#[tokio::test]
async fn an_absolute_target_keeps_its_authority() {
    let edit = Edit::strip_prefix(1).unwrap();
    assert_eq!(path_after(edit, "http://example.org:81/a/b?c", &[]).await, "http://example.org:81/b?c");
}

#[tokio::test]
async fn request_headers_are_added_set_and_removed() {
    let edits = [
        Edit::add_request_header("X-Add", "two").unwrap(),
        Edit::set_request_header("X-Set", "new, value").unwrap(),
        Edit::remove_request_header("X-Remove").unwrap(),
    ];
    let mut request = Request::new(());
    for (name, value) in [("x-add", "one"), ("x-set", "a"), ("x-set", "b"), ("x-remove", "a"), ("x-remove", "b")] {
        request.headers_mut().append(name, value.parse().unwrap());
    }
    let headers = pass(edits, request, Response::new(())).await.headers;
    assert_eq!(headers.get_all("x-add").iter().collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(headers.get_all("x-set").iter().collect::<Vec<_>>(), ["new, value"]);
    assert!(!headers.contains_key("x-remove"));
}

#[tokio::test]
async fn response_headers_are_added_set_and_removed() {
    let edits = [
        Edit::add_response_header("X-Add", "ours", true).unwrap(),
        Edit::add_response_header("X-Present", "ours", false).unwrap(),
        Edit::add_response_header("X-Absent", "ours", false).unwrap(),
        Edit::add_response_header("X-Blank", "ours", false).unwrap(),
        Edit::set_response_header("X-Set", "ours").unwrap(),
        Edit::remove_response_header("X-Remove").unwrap(),
    ];
    let mut response = Response::new(());
    for (name, value) in [
        ("x-add", "theirs"),
        ("x-present", "theirs"),
        ("x-blank", " "),
        ("x-set", "a"),
        ("x-set", "b"),
        ("x-remove", "a"),
    ] {
        response.headers_mut().append(name, value.parse().unwrap());
    }
    let response = pass(edits, Request::new(()), response).await.response;
    assert_eq!(values(&response, "x-add"), ["theirs", "ours"]);
    assert_eq!(values(&response, "x-present"), ["theirs"]);
    assert_eq!(values(&response, "x-absent"), ["ours"]);
    assert_eq!(values(&response, "x-blank"), [" ", "ours"]);
    assert_eq!(values(&response, "x-set"), ["ours"]);
    assert!(!response.headers().contains_key("x-remove"));
}

#[tokio::test]
async fn requests_are_edited_in_order_and_responses_in_reverse() {
    let edits = [
        Edit::set_request_header("X-In", "first").unwrap(),
        Edit::set_response_header("X-Out", "first").unwrap(),
        Edit::set_request_header("X-In", "last").unwrap(),
        Edit::set_response_header("X-Out", "last").unwrap(),
        Edit::prefix_path("/api").unwrap(),
        Edit::strip_prefix(1).unwrap(),
    ];
    let passed = pass(edits, request_with("/orders", &[]), Response::new(())).await;
    assert_eq!(passed.headers["x-in"], "last");
    assert_eq!(values(&passed.response, "x-out"), ["first"]);
    assert_eq!(passed.uri, "/orders");
}

#[tokio::test]
async fn variables_are_decoded_in_headers_of_requests_and_responses() {
    let edits = [
        Edit::add_request_header("X-Id", "id={id}, {id:[0-9]{2}}").unwrap(),
        Edit::set_response_header("X-Plain", "{\"json\":1}").unwrap(),
        Edit::set_response_header("X-Id", "https://example.org//{id}").unwrap(),
        Edit::remove_response_header("X-None").unwrap(),
    ];
    let passed = pass(edits, request_with("/", &[("id", "a%20b")]), Response::new(())).await;
    assert_eq!(passed.headers["x-id"], "id=a b, a b");
    assert_eq!(values(&passed.response, "x-id"), ["https://example.org//a b"]);
    assert_eq!(values(&passed.response, "x-plain"), ["{\"json\":1}"]);
}

#[tokio::test]
async fn an_unknown_variable_gives_500_and_a_line_break_in_one_400() {
    let edits = [
        Edit::add_request_header("X-Id", "{id}").unwrap(),
        Edit::set_response_header("X-Id", "{id}").unwrap(),
        Edit::set_path("/{id}").unwrap(),
        Edit::prefix_path("/{id}").unwrap(),
    ];
    for (at, edit) in edits.into_iter().enumerate() {
        let calls: Arc<AtomicUsize> = Arc::default();
        let service = EditLayer::new([edit]).layer(upstream(&calls, |_: &Request<()>| Response::default()));
        let response = service.clone().oneshot(request_with("/", &[("other", "x")])).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(reason(&response), Some("unknown-variable"));
        assert_eq!(text(response).await, "Internal Server Error\n");
        if at < 2 {
            let response = service.oneshot(request_with("/", &[("id", "a%0d%0aX-Evil:%201")])).await.unwrap();
            assert_eq!(response.status(), StatusCode::BAD_REQUEST);
            assert_eq!(reason(&response), Some("bad-value"));
        }
        assert_eq!(calls.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn local_replies_are_not_edited() {
    let mut response = Response::new(());
    response.extensions_mut().insert(LocalReply { reason: "rate-limited" });
    let passed = pass([Edit::set_response_header("X-Out", "ours").unwrap()], Request::new(()), response).await;
    assert!(passed.response.headers().is_empty());
}

#[tokio::test]
async fn preserve_host_header_sets_the_context() {
    let passed = pass([Edit::preserve_host_header()], Request::new(()), Response::new(())).await;
    assert!(passed.context.unwrap().preserve_host);
    let passed = pass([Edit::preserve_host_header()], request_with("/", &[("id", "1")]), Response::new(())).await;
    let context = passed.context.unwrap();
    assert!(context.preserve_host && context.variable("id") == Some("1"));
}

#[test]
fn edits_know_their_side_and_whether_they_need_variables() {
    for (edit, request_side, variables) in [
        (Edit::strip_prefix(1), true, false),
        (Edit::prefix_path("/{a}"), true, true),
        (Edit::set_path("/a"), true, false),
        (Edit::rewrite_path("a{2}", "b"), true, false),
        (Edit::add_request_header("x", "{a}"), true, true),
        (Edit::remove_request_header("x"), true, false),
        (Edit::set_response_header("x", "{a}"), false, true),
        (Edit::add_response_header("x", "{", true), false, false),
        (Ok(Edit::preserve_host_header()), true, false),
    ] {
        let edit = edit.unwrap();
        assert_eq!((edit.is_request_side(), edit.needs_variables()), (request_side, variables), "{edit:?}");
    }
}

#[test]
fn invalid_edits_are_rejected_at_construction() {
    let name = |n: &str| EditError::HeaderName(n.into());
    for (edit, error) in [
        (Edit::add_request_header("a b", "c"), name("a b")),
        (Edit::remove_response_header(""), name("")),
        (Edit::set_request_header("x", "a\r\nb: c"), EditError::HeaderValue("x".into())),
        (Edit::set_request_header("Content-Length", "5"), EditError::Framing("Content-Length".into())),
        (
            Edit::add_response_header("transfer-encoding", "chunked", true),
            EditError::Framing("transfer-encoding".into()),
        ),
        (Edit::set_path("x"), EditError::RelativePath("x".into())),
        (Edit::prefix_path(""), EditError::RelativePath("".into())),
        (Edit::prefix_path("/a?b"), EditError::PathWithQuery { path: "/a?b".into(), delimiter: '?' }),
        (Edit::set_path("/{a}#b"), EditError::PathWithQuery { path: "/{a}#b".into(), delimiter: '#' }),
    ] {
        assert_eq!(edit.unwrap_err(), error);
    }
}
