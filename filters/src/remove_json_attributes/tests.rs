#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use tower::{Layer, ServiceExt, service_fn};

use super::*;
use crate::context::LocalReply;

type TestResponse = Response<Full<Bytes>>;

fn response(headers: &[(&str, &str)], body: &'static str) -> TestResponse {
    let mut builder = Response::builder();
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(Full::from(body)).unwrap()
}

async fn send(response: TestResponse, method: Method) -> (http::response::Parts, String) {
    let upstream = service_fn(move |request: Request<()>| {
        assert_eq!(request.headers()["accept-encoding"], "identity");
        assert!(!request.headers().contains_key("range"));
        let response = response.clone();
        async move { Ok::<_, Infallible>(response) }
    });
    let layer = RemoveJsonAttributesLayer::new(Settings::new(["a"], false, 20));
    let request = Request::builder().method(method).header("range", "bytes=1-").header("accept-encoding", "gzip");
    let response = layer.layer(upstream).oneshot(request.body(()).unwrap()).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head, String::from_utf8(body.to_vec()).unwrap())
}

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn headers_describe_the_new_body() {
    let headers = [
        ("content-type", "Application/JSON ; charset=utf-8"),
        ("content-length", "16"),
        ("etag", "\"x\""),
        ("accept-ranges", "bytes"),
        ("content-digest", "sha-256=:x:"),
        ("x-other", "stays"),
    ];
    let (head, body) = send(response(&headers, r#"{"a": 1, "b": 2}"#), Method::GET).await;
    assert_eq!(body, r#"{"b":2}"#);
    assert_eq!(head.headers["content-length"], "7");
    assert_eq!(head.headers["etag"], "W/\"x\"");
    assert_eq!(head.headers["x-other"], "stays");
    assert!(!head.headers.contains_key("accept-ranges") && !head.headers.contains_key("content-digest"));
}

#[tokio::test]
async fn types_with_the_suffix_json_are_edited() {
    for content_type in ["application/problem+json", "application/hal+JSON; charset=utf-8", "image/x+json"] {
        let (_, body) = send(response(&[("content-type", content_type)], r#"{"a": 1, "b": 2}"#), Method::GET).await;
        assert_eq!(body, r#"{"b":2}"#, "{content_type}");
    }
}

#[tokio::test]
async fn other_content_types_are_unchanged() {
    for content_type in ["text/html", "application/jsonx", "application/x-json", "+json", ""] {
        let (head, body) = send(response(&[("content-type", content_type)], "{\"a\": 1"), Method::GET).await;
        assert_eq!((head.status.as_u16(), body.as_str()), (200, "{\"a\": 1"), "{content_type}");
    }
}

#[tokio::test]
async fn responses_that_cannot_be_edited_are_rejected() {
    let partial = {
        let mut partial = response(&[JSON], "{\"a\":1}");
        *partial.status_mut() = http::StatusCode::PARTIAL_CONTENT;
        partial
    };
    for response in [
        response(&[JSON], "{\"a\":"),
        response(&[JSON, ("content-encoding", "gzip")], "{\"a\":1}"),
        response(&[JSON], "{\"a\":1,\"b\":\"12345678\"}"),
        partial,
    ] {
        let (head, body) = send(response, Method::GET).await;
        assert_eq!((head.status.as_u16(), body.as_str()), (500, "Internal Server Error\n"));
        assert_eq!(head.extensions.get::<LocalReply>().unwrap().reason, "response-body");
    }
}

#[tokio::test]
async fn a_response_to_head_has_no_content_length() {
    let (head, _) = send(response(&[JSON, ("content-length", "16"), ("etag", "W/\"x\"")], ""), Method::HEAD).await;
    assert_eq!(head.status, 200);
    assert!(!head.headers.contains_key("content-length"));
    assert_eq!(head.headers["etag"], "W/\"x\"");
}

#[tokio::test]
async fn local_responses_are_unchanged() {
    let mut local = response(&[JSON], "{\"a\":1}");
    local.extensions_mut().insert(LocalReply { reason: "rate-limited" });
    assert_eq!(send(local, Method::GET).await.1, "{\"a\":1}");
}
