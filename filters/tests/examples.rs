//! Every example, with requests that show its job.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use http_body_util::BodyExt;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate_test_support::RedisServer;
use tower::ServiceExt;

/// Includes an example, whose `main` is not called.
macro_rules! example {
    ($name:ident, $path:literal) => {
        #[path = $path]
        #[allow(dead_code)]
        mod $name;
    };
}

example!(concurrency, "../examples/concurrency.rs");
example!(plain_hyper, "../examples/hyper.rs");
example!(json_429, "../examples/json_429.rs");
example!(jwt, "../examples/jwt.rs");
example!(observe, "../examples/observe.rs");
example!(two_processes, "../examples/redis.rs");
example!(shared_bucket, "../examples/shared_bucket.rs");
example!(grpc, "../examples/tonic.rs");
example!(two_rules, "../examples/two_rules.rs");

async fn send(app: &Router, path: &str, (name, value): (&str, &str)) -> Response<Body> {
    let request = Request::get(path).header(name, value).body(Body::empty()).unwrap();
    app.clone().oneshot(request).await.unwrap()
}

async fn status(app: &Router, path: &str, field: (&str, &str)) -> u16 {
    send(app, path, field).await.status().as_u16()
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

const ADA: (&str, &str) = ("x-user", "ada");

#[tokio::test]
async fn the_third_request_of_an_api_key_gets_json() {
    let app = json_429::app().unwrap();
    for expected in [200, 200, 429] {
        assert_eq!(status(&app, "/", ("x-api-key", "k1")).await, expected);
    }
    assert_eq!(status(&app, "/", ("x-api-key", "k2")).await, 200);
    let denied = send(&app, "/", ("x-api-key", "k1")).await;
    assert_eq!(denied.headers()["content-type"], "application/json");
    assert!(denied.headers().contains_key("retry-after"));
    assert_eq!(text(denied).await, r#"{"error":"rate-limited"}"#);
    let missing = send(&app, "/", ADA).await;
    assert_eq!((missing.status().as_u16(), &*text(missing).await), (401, r#"{"error":"empty-key"}"#));
}

#[tokio::test]
async fn both_rules_limit_a_user() {
    let app = two_rules::app().unwrap();
    for expected in [200, 200, 200, 429] {
        assert_eq!(status(&app, "/", ADA).await, expected);
    }
    let request = Request::get("/").header("x-user", "ada").header("accept", "application/problem+json");
    let denied = app.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let problem = text(denied).await;
    assert!(problem.contains(r#""violated-policies":["default#1"]"#), "three a day: {problem}");
}

#[tokio::test]
async fn two_routes_share_a_bucket() {
    let app = shared_bucket::app().unwrap();
    let mut statuses = Vec::new();
    for path in ["/search", "/export", "/search", "/export", "/profile"] {
        statuses.push(status(&app, path, ADA).await);
    }
    assert_eq!(statuses, [200, 200, 200, 429, 200]);
}

#[tokio::test]
async fn a_user_has_two_slots() {
    let app = concurrency::app().unwrap();
    let (first, _second) = (send(&app, "/", ADA).await, send(&app, "/", ADA).await);
    assert_eq!(status(&app, "/", ADA).await, 429);
    assert_eq!(text(first).await, "a long report\n");
    assert_eq!(status(&app, "/", ADA).await, 200, "the first response has been sent");
}

#[tokio::test]
async fn two_processes_share_a_limit_in_redis() {
    let server = RedisServer::start_with(&[]);
    let apps = [two_processes::app(&server.url()).await.unwrap(), two_processes::app(&server.url()).await.unwrap()];
    let mut statuses = Vec::new();
    for at in [0, 1, 0, 1, 0] {
        statuses.push(status(&apps[at], "/", ADA).await);
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
}

#[tokio::test]
async fn users_of_verified_tokens_are_limited() {
    let app = jwt::app().unwrap();
    let expiry = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 600;
    let token = |user: &str, secret: &str| {
        let claims = serde_json::json!({"sub": user, "exp": expiry});
        let key = EncodingKey::from_secret(secret.as_bytes());
        format!("Bearer {}", jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &key).unwrap())
    };
    let secret = "secret-of-thirty-three-bytes-long";
    for (user, secret, expected) in
        [("ada", secret, 200), ("ada", secret, 200), ("ada", secret, 429), ("eve", secret, 200), ("eve", "forged", 403)]
    {
        assert_eq!(status(&app, "/", ("authorization", &token(user, secret))).await, expected, "{user} {secret}");
    }
}

#[tokio::test]
async fn an_observed_limit_denies_nothing_and_counts() {
    let app = observe::app().unwrap();
    for _ in 0..5 {
        assert_eq!(status(&app, "/", ADA).await, 200);
    }
    assert_eq!(text(send(&app, "/metrics", ADA).await).await, "over_limit 3\n");
}

#[tokio::test]
async fn a_client_of_grpc_gets_status_8_with_retry_info() {
    let (listener, address) = listener().await;
    let serving = tokio::task::LocalSet::new();
    serving
        .run_until(async {
            tokio::task::spawn_local(async move { grpc::serve(listener).await.unwrap() });
            let (client, connection) = h2::client::handshake(TcpStream::connect(address).await.unwrap()).await.unwrap();
            tokio::spawn(connection);
            let mut statuses = Vec::new();
            for _ in 0..3 {
                let request = Request::post(format!("http://{address}/hello.Greeter/Hello"));
                let request = request.header("content-type", "application/grpc").body(()).unwrap();
                let (response, _) = client.clone().ready().await.unwrap().send_request(request, true).unwrap();
                let headers = response.await.unwrap().into_parts().0.headers;
                assert_eq!(headers["grpc-status"] == "8", headers.contains_key("grpc-status-details-bin"));
                statuses.push(headers["grpc-status"].to_str().unwrap().to_owned());
            }
            assert_eq!(statuses, ["0", "0", "8"]);
        })
        .await;
}

#[tokio::test]
async fn a_client_of_hyper_has_two_requests() {
    let (listener, address) = listener().await;
    let serving = tokio::task::LocalSet::new();
    serving
        .run_until(async {
            tokio::task::spawn_local(async move { plain_hyper::serve(listener).await.unwrap() });
            for expected in ["HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 429 Too Many Requests\r\n"] {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
                let mut response = String::new();
                stream.read_to_string(&mut response).await.unwrap();
                assert!(response.starts_with(expected), "{response}");
            }
        })
        .await;
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}
