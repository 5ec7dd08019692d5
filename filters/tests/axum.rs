//! The axum example, over real sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::Request;
use axum::extract::connect_info::MockConnectInfo;
use axum::response::Response;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tower::ServiceExt;

#[path = "../examples/axum.rs"]
#[allow(dead_code, reason = "`main` is not called")]
mod example;

async fn get(server: SocketAddr) -> String {
    get_from("127.0.0.1", server).await
}

async fn get_from(client: &str, server: SocketAddr) -> String {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(client.parse().unwrap(), 0)).unwrap();
    let mut stream = socket.connect(server).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn the_eleventh_request_of_a_client_gets_429() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    let serving = tokio::task::LocalSet::new();
    serving
        .run_until(async {
            tokio::task::spawn_local(async move { example::serve(listener).await.unwrap() });
            for left in (0..10).rev() {
                let response = get(server).await;
                assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("hello\n"), "{response}");
                assert!(response.contains(&format!("x-ratelimit-remaining: {left}\r\n")), "{response}");
            }
            let denied = get(server).await;
            assert!(denied.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{denied}");
            assert!(denied.contains("retry-after: "), "{denied}");
            let other = get_from("127.0.0.2", server).await;
            assert!(other.contains("x-ratelimit-remaining: 9\r\n"), "another client has its own limit: {other}");
        })
        .await;
}

/// hyper's debug build panics if a body is not as long as `Content-Length` says.
#[tokio::test]
async fn an_outer_layer_may_change_the_body_of_a_refusal() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap();
    let longer =
        async |response: Response| response.map(|_| Body::from("another body, and a longer one than before\n"));
    let app = example::app().unwrap().layer(axum::middleware::map_response(longer));
    let serving = tokio::task::LocalSet::new();
    serving
        .run_until(async {
            let app = app.into_make_service_with_connect_info::<SocketAddr>();
            tokio::task::spawn_local(async move { axum::serve(listener, app).await.unwrap() });
            let mut last = String::new();
            for _ in 0..11 {
                last = get(server).await;
            }
            assert!(last.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{last}");
            assert!(last.contains("content-length: 43\r\n") && last.ends_with("one than before\n"), "{last}");
        })
        .await;
}

#[tokio::test]
async fn the_mock_of_a_test_has_the_address_of_its_client() {
    let app = example::app().unwrap();
    let remaining = async |client: [u8; 4]| {
        let app = app.clone().layer(MockConnectInfo(SocketAddr::from((client, 1))));
        let response = app.oneshot(Request::new(Body::empty())).await.unwrap();
        response.headers()["x-ratelimit-remaining"].to_str().unwrap().to_owned()
    };
    let [ada, bob] = [[192, 0, 2, 1], [192, 0, 2, 2]];
    assert_eq!([remaining(ada).await, remaining(bob).await, remaining(ada).await], ["9", "9", "8"]);
}
