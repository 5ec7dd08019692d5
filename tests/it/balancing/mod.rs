//! `lb://`: choice of an endpoint, and failing endpoints.

mod checks;
mod discovery;
mod failures;
mod slow_start;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::channel;

use crate::support::client::Connection;
use crate::support::gateway::Gateway;
use crate::support::load::{Load, statuses};
use crate::support::upstream::{Upstream, read_request, response};
use crate::support::{PATIENCE, eventually};

/// Starts a server at `listener` that answers with its name, and with the status in the request's `x-status`.
fn named_at(listener: TcpListener, name: &'static str) -> Upstream {
    Upstream::scripted_at(listener, move |stream, seen| {
        while let Some(request) = read_request(stream) {
            let status = request.header("x-status").map_or(200, |status| status.parse().unwrap());
            let host = request.header("host").unwrap_or_default().to_owned();
            seen(request);
            if stream.write_all(&response(status, &[("x-host", &host)], name.as_bytes())).is_err() {
                return;
            }
        }
    })
}

/// Starts a server that answers with its name.
fn named(name: &'static str) -> Upstream {
    named_at(TcpListener::bind("127.0.0.1:0").unwrap(), name)
}

/// One route for each of `upstreams`: its name, which is also its path, and its settings.
fn yaml(upstreams: &[(&str, String)], more: &str) -> String {
    let mut text = format!("{more}\nupstreams:\n");
    for (name, settings) in upstreams {
        text.push_str(&format!("  {name}: {{{settings}}}\n"));
    }
    text.push_str("routes:\n");
    for (name, _) in upstreams {
        text.push_str(&format!("  - {{id: {name}, uri: 'lb://{name}', predicates: [Path=/{name}/**]}}\n"));
    }
    text
}

fn endpoints(servers: &[&Upstream]) -> String {
    let uris: Vec<String> = servers.iter().map(|server| format!("'{}'", server.uri())).collect();
    format!("endpoints: [{}]", uris.join(", "))
}

/// Sends `count` requests for `path`; returns the number of responses by endpoint.
fn shares(gateway: &Gateway, path: &str, count: usize, headers: &[(&str, &str)]) -> BTreeMap<String, usize> {
    let mut client = gateway.connect();
    let mut shares = BTreeMap::new();
    for _ in 0..count {
        let answer = client.request("GET", path, headers, b"");
        assert_eq!(answer.status, 200, "{path}");
        *shares.entry(answer.text()).or_default() += 1;
    }
    shares
}

fn share(name: &str, count: usize) -> (String, usize) {
    (name.to_owned(), count)
}

#[test]
fn each_policy_balances_as_documented() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let all = endpoints(&[&a, &b, &c]);
    let weighted =
        format!("endpoints: [{{uri: '{}', weight: 3}}, '{}', {{uri: '{}', weight: 0}}]", a.uri(), b.uri(), c.uri());
    let ranked = format!("endpoints: [{{uri: '{}', priority: 1}}, '{}']", a.uri(), b.uri());
    let gateway = Gateway::start(
        &yaml(
            &[
                ("turns", format!("{all}, balance: round-robin")),
                ("weighted", format!("{weighted}, balance: weighted")),
                ("default", all.clone()),
                ("lots", format!("{weighted}, balance: random")),
                ("sticky", format!("{all}, balance: consistent-hash, hash-by: 'header:x-user'")),
                ("clients", format!("{all}, balance: consistent-hash, hash-by: [ip, 'path:{{id}}']")),
                ("ranked", ranked),
            ],
            "",
        )
        .replace("Path=/clients/**", "'Path=/clients/{id}'"),
    );
    assert_eq!(shares(&gateway, "/turns/x", 30, &[]), [share("a", 10), share("b", 10), share("c", 10)].into());
    assert_eq!(shares(&gateway, "/weighted/x", 40, &[]), [share("a", 30), share("b", 10)].into());
    assert_eq!(shares(&gateway, "/ranked/x", 10, &[]), [share("b", 10)].into(), "the other is a spare");
    // Random choice: for 300 requests at 1 to 1 and 3 to 1, the bounds are ten standard deviations.
    let default = shares(&gateway, "/default/x", 300, &[]);
    assert!(default.len() == 3 && default.values().all(|share| (20..180).contains(share)), "{default:?}");
    let lots = shares(&gateway, "/lots/x", 200, &[]);
    assert!(lots.len() == 2 && (90..=199).contains(&lots["a"]), "{lots:?}");
    let mut reached = BTreeMap::new();
    for user in ["ada", "bob", "cy", "dee", "eve", "fay", "gil", "hal"] {
        let of_user = shares(&gateway, "/sticky/x", 5, &[("x-user", user)]);
        assert_eq!(of_user.len(), 1, "{user} stays: {of_user:?}");
        reached.extend(of_user);
    }
    assert!(reached.len() > 1, "not all with the same: {reached:?}");
    assert!(shares(&gateway, "/sticky/x", 60, &[]).len() > 1, "without a key as good anywhere");
    let of_path = |id: usize| shares(&gateway, &format!("/clients/{id}"), 3, &[]);
    let reached: BTreeMap<String, usize> = (0..12).flat_map(of_path).collect();
    assert!(reached.len() > 1 && (0..12).all(|id| of_path(id).len() == 1));
    let answer = gateway.get("/ranked/x");
    assert_eq!(answer.header("x-host"), Some(b.address.to_string().as_str()), "each by its own name");
    let up = |upstream: &str| gateway.metric("tollgate_upstream_endpoints{", &[upstream, "state=\"up\""]);
    assert_eq!((up("\"turns\""), up("\"ranked\"")), (3.0, 2.0));
}

#[test]
fn least_request_avoids_a_busy_endpoint_until_its_response_ends() {
    let (go, gone) = channel::<()>();
    let gone = std::sync::Mutex::new(gone);
    let slow = Upstream::scripted(move |stream, seen| {
        while let Some(request) = read_request(stream) {
            let holds = request.target().ends_with("hold");
            seen(request);
            let answer = response(200, &[], b"slow");
            let (head, body) = answer.split_at(answer.len() - 4);
            let _ = stream.write_all(head);
            if holds {
                let _ = gone.lock().unwrap().recv_timeout(PATIENCE);
            }
            let _ = stream.write_all(body);
        }
    });
    let quick = named("quick");
    let both = endpoints(&[&slow, &quick]);
    let gateway =
        Gateway::start(&yaml(&[("least", both.clone()), ("turns", format!("{both}, balance: round-robin"))], ""));
    let in_flight = |upstream: &str| gateway.metric("tollgate_upstream_in_flight{", &[upstream]);
    let mut holding: Vec<Connection> = Vec::new();
    while slow.requests().is_empty() {
        let mut client = gateway.connect();
        client.send("GET /least/hold HTTP/1.1\r\nHost: a\r\n\r\n");
        client.until(b"\r\n\r\n");
        holding.push(client);
    }
    // Only the responses of the fast endpoint have ended.
    eventually("one is under way", || in_flight("\"least\"") == 1.0);
    assert_eq!(shares(&gateway, "/least/x", 20, &[]), [share("quick", 20)].into());
    assert_eq!(shares(&gateway, "/turns/x", 20, &[]).len(), 2, "turns are taken blindly");
    go.send(()).unwrap();
    eventually("its response has ended", || in_flight("\"least\"") == 0.0);
    assert_eq!(shares(&gateway, "/least/x", 40, &[]).len(), 2);
}

#[test]
fn websockets_and_spring_services_reach_their_endpoints() {
    let shouting = Upstream::scripted(|stream, seen| {
        let Some(request) = read_request(stream) else { return };
        seen(request);
        let _ =
            stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        let mut piece = [0; 100];
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            let _ = stream.write_all(&piece[..read].to_ascii_uppercase());
        }
    });
    let (a, b) = (named("a"), named("b"));
    let gateway = Gateway::start(&format!(
        "spring.cloud:\n  discovery.client.simple.instances:\n    chat: [{{uri: '{}'}}]\n    orders[0].uri: {}\n    \
         orders[1].uri: {}\n  gateway.routes:\n    - chat=lb:ws://chat,Path=/chat\n    - orders=lb://ORDERS,Path=/orders\n",
        shouting.uri(),
        a.uri(),
        b.uri()
    ));
    assert_eq!(shares(&gateway, "/orders", 10, &[]), [share("a", 5), share("b", 5)].into(), "in turn, as Spring's");
    let mut client = gateway.connect();
    client.send("GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.response().unwrap().status, 101);
    client.send("hello");
    assert_eq!(client.take(5), b"HELLO");
    let in_flight = || gateway.metric("tollgate_upstream_in_flight{", &["\"chat\""]);
    assert_eq!(in_flight(), 1.0, "a tunnel is a request under way");
    drop(client);
    eventually("the tunnel has closed", || in_flight() == 0.0);
}

#[test]
fn a_reload_changes_endpoints_without_losing_requests_or_health() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let of = |servers: &[&Upstream], balance: &str| {
        yaml(&[("orders", format!("{}, balance: {balance}, ejection: {{base-time: 1h}}", endpoints(servers)))], "")
    };
    let gateway = Gateway::start(&of(&[&a, &b], "round-robin"));
    let mut client = gateway.connect();
    while gateway.metric("tollgate_upstream_ejections_total", &[]) == 0.0 {
        for _ in 0..5 {
            // Only one endpoint may be ejected: the first with five failures in a row.
            assert_eq!(client.request("GET", "/orders/x", &[("x-status", "503")], b"").status, 503);
        }
    }
    let ejected = || gateway.metric("tollgate_upstream_endpoints{", &["state=\"ejected\""]);
    assert_eq!(ejected(), 1.0);
    let load = Load::start(&[gateway.address], 4, &["/orders/x"]);
    for round in 0..6 {
        load.more(30);
        gateway.reload(&of(&[&a, &b, &c][..2 + round % 2], if round % 3 == 0 { "random" } else { "least-request" }));
        assert_eq!(ejected(), 1.0, "of an endpoint that stays all is known");
    }
    gateway.reload(&of(&[&c], "round-robin"));
    load.more(30);
    let exchanges = load.stop();
    assert_eq!(statuses(&exchanges), [(200, exchanges.len())]);
    assert_eq!(shares(&gateway, "/orders/x", 10, &[]), [share("c", 10)].into());
    assert_eq!(ejected(), 0.0, "it is gone");
}
