//! Ages and addresses of kept connections, and uploads that outlive their responses.

#![allow(clippy::unwrap_used)]
use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local, yield_now};
use tokio::time::Instant;

use super::*;
use crate::http::body::Body;
use crate::upstream::body::response_body;
use crate::upstream::exchange::exchange;
use crate::upstream::origin::Origin;
use crate::upstream::pick::{HeldConnection, Pick};
use crate::upstream::pool::name_lookup::tests::NAMES;
use crate::upstream::pools::Pools;
use tollgate_config::{Http2, Scheme};

/// Runs `test` with the pool of a server that accepts connections at a name.
fn with_pool<F: Future<Output = ()>>(http2: Http2, test: impl FnOnce(Rc<Pool>) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let serving = async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let accept = async {
            let mut open = Vec::new();
            loop {
                open.push(listener.accept().await.unwrap());
            }
        };
        let origin = Origin::new(Scheme::Http, "localhost", port, &Arc::default(), http2);
        tokio::select! {
            () = test(Pool::new(origin, Rc::default())) => {}
            () = accept => {}
        }
    };
    LocalSet::new().block_on(&runtime, serving);
}

async fn connect(pool: &Rc<Pool>) -> Box<Connection> {
    pool.connect(Duration::from_secs(5), false).await.unwrap()
}

/// Lets the name have another address, as after a failover.
fn move_name(pool: &Pool) {
    pool.names.learn("localhost", pool.origin().port, &["192.0.2.1:1".parse().unwrap()]);
}

#[test]
fn connections_to_an_address_that_left_the_name_take_no_further_request() {
    with_pool(Http2::Off, |pool| async move {
        let (idle, busy) = (connect(&pool).await, connect(&pool).await);
        pool.release(idle, None);
        pool.tick(1000);
        assert!(pool.has_connections(), "the address is one of the name");
        move_name(&pool);
        pool.tick(1000);
        assert!(!pool.has_connections(), "an idle connection");
        pool.release(busy, None);
        assert!(!pool.has_connections(), "one in use at that time");
    });
    with_pool(Http2::PriorKnowledge, |pool| async move {
        let mut stream = connect(&pool).await;
        pool.tick(1000);
        assert!(pool.take_idle(false).is_some());
        move_name(&pool);
        pool.tick(1000);
        assert!(pool.take_idle(false).is_none(), "HTTP/2");
        assert!(stream.is_usable(), "open streams go on");
    });
}

#[test]
fn a_name_is_looked_up_again_while_connections_to_it_are_in_use() {
    with_pool(Http2::Off, |pool| async move {
        let connection = connect(&pool).await;
        move_name(&pool);
        // The lookup finds the addresses of `localhost`, so that the connection stays.
        for _ in 0..5 {
            assert!(pool.names.has_left(connection.peer.as_ref().unwrap()));
            pool.tick(5);
        }
        while pool.names.has_left(connection.peer.as_ref().unwrap()) {
            yield_now().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(connection);
        (0..20).for_each(|_| pool.tick(5));
        assert_eq!(Rc::strong_count(&pool.names), 1, "no lookup runs without connections");
    });
}

/// Signals of the request for `/slow`.
#[derive(Default)]
struct Slow {
    arrived: Notify,
    finish: Notify,
}

/// Accepts connections, over HTTP/2 if `is_http2`, and responds with `name`; to `/slow` once it may finish.
async fn serve(listener: TcpListener, is_http2: bool, name: &'static str, slow: Rc<Slow>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let slow = Rc::clone(&slow);
        spawn_local(async move {
            if is_http2 {
                serve_http2(stream, name, slow).await;
            } else {
                let _ = serve_http1(stream, name, slow).await;
            }
        });
    }
}

async fn serve_http1(mut stream: TcpStream, name: &str, slow: Rc<Slow>) -> io::Result<()> {
    let mut head = Vec::new();
    loop {
        head.push(stream.read_u8().await?);
        if head.ends_with(b"\r\n\r\n") {
            wait(head.windows(6).any(|part| part == b"/slow "), &slow).await;
            stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{name}").as_bytes()).await?;
            head.clear();
        }
    }
}

async fn serve_http2(stream: TcpStream, name: &'static str, slow: Rc<Slow>) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let slow = Rc::clone(&slow);
        spawn_local(async move {
            wait(request.uri().path() == "/slow", &slow).await;
            let mut body = respond.send_response(Response::new(()), false).unwrap();
            body.send_data(Bytes::from_static(name.as_bytes()), true).unwrap();
        });
    }
}

async fn wait(is_slow: bool, slow: &Slow) {
    if is_slow {
        slow.arrived.notify_one();
        slow.finish.notified().await;
    }
}

/// Sends a request as the gateway does: over a kept connection, or over a new one. Returns the name of the server.
async fn get(pool: Rc<Pool>, path: &str) -> String {
    let kept = pool.take_idle(false);
    let mut connection = match kept {
        Some(connection) => connection,
        None => connect(&pool).await,
    };
    let request = Request::get(format!("http://orders.test{path}")).body(Body::default()).unwrap();
    let response = exchange(&mut connection, request, None, Instant::now(), None, None).await.unwrap();
    let held = HeldConnection { pick: Pick { pool, attempt: None }, connection };
    let body = response_body(response.into_body(), held, None, None).unwrap();
    String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[test]
fn steady_traffic_follows_a_name_to_its_new_address() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let follow = |http2: Http2| async move {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let one = listener.local_addr().unwrap();
        let two = SocketAddr::from(([127, 0, 0, 2], one.port()));
        let (slow, is_http2) = (Rc::new(Slow::default()), http2 != Http2::Off);
        spawn_local(serve(listener, is_http2, "one", Rc::clone(&slow)));
        spawn_local(serve(TcpListener::bind(two).await.unwrap(), is_http2, "two", Rc::clone(&slow)));
        let name_is = |resolved| NAMES.with_borrow_mut(|names| names.insert("orders.test".to_owned(), resolved));
        name_is(Ok(vec![one]));
        let pools = Pools::new(None);
        let pool = pools.get(Origin::new(Scheme::Http, "orders.test", one.port(), &Arc::default(), http2));
        let get = |path| get(Rc::clone(&pool), path);
        let in_flight = spawn_local(get("/slow"));
        slow.arrived.notified().await;
        // A second of steady traffic, in which a lookup completes.
        let second = async || {
            pools.tick();
            for _ in 0..20 {
                yield_now().await;
            }
            get("/").await
        };
        for _ in 0..7 {
            assert_eq!(second().await, "one");
        }
        name_is(Err(io::ErrorKind::NotFound));
        for _ in 0..7 {
            assert_eq!(second().await, "one", "a failed lookup changes nothing");
        }
        name_is(Ok(vec![two]));
        let mut seconds = 1;
        while second().await == "one" {
            seconds += 1;
            assert!(seconds <= 6, "the old address is still used after {seconds} s");
        }
        for _ in 0..7 {
            assert_eq!(second().await, "two");
        }
        slow.finish.notify_one();
        assert_eq!(in_flight.await.unwrap(), "one", "a request in flight ends where it began");
        assert_eq!(get("/").await, "two", "its connection takes no further request");
    };
    LocalSet::new().block_on(&runtime, async {
        follow(Http2::Off).await;
        follow(Http2::PriorKnowledge).await;
    });
}
