//! Several instances that start beside one.

use std::net::TcpListener;

use super::{Instances, Starting, asking, beside, fails};
use crate::lifecycle::Held;
use crate::support::client::get;
use crate::support::eventually;
use crate::support::gateway::{Gateway, signal};
use crate::support::load::{Load, statuses};

#[test]
fn of_instances_that_start_together_each_has_its_turn() {
    for count in [2, 3] {
        let (clients, instances) = (8, Instances::new(3_000));
        let mut first = Gateway::start(&instances.yaml);
        let load = Load::start(&[first.address], clients, &["/a"]);
        load.more(500);
        let others: Vec<Gateway> = std::thread::scope(|scope| {
            let start = || beside(&first, &instances.yaml);
            let starting: Vec<_> = (0..count).map(|_| scope.spawn(start)).collect();
            starting.into_iter().map(|other| other.join().unwrap()).collect()
        });
        assert_eq!(first.wait().code(), Some(0));
        let lines = |gateway: &Gateway, text: &str| gateway.log().matches(text).count();
        let ended = || others.iter().filter(|other| lines(other, "all requests finished") == 1).count();
        eventually("all but the last one drain", || ended() == count - 1);
        load.more(6_000);
        let exchanges = load.stop();
        let admitted = exchanges.iter().filter(|exchange| exchange.status() == 200).count();
        println!("{admitted} of 3000 admitted over {count} that start together, in {} requests", exchanges.len());
        assert!(
            statuses(&exchanges).iter().all(|(status, _)| [200, 429].contains(status)),
            "{:?}",
            statuses(&exchanges)
        );
        assert!((3_000..=3_000 + 2 * count * clients).contains(&admitted), "{admitted}");
        for gateway in others.iter().chain([&first]) {
            assert!(!gateway.log().contains("ERROR") && !gateway.log().contains("WARN"), "{}", gateway.log());
            assert!(lines(gateway, "waits for its turn") <= 1, "{}", gateway.log());
        }
        let waited: usize = others.iter().map(|other| lines(other, "waits for its turn")).sum();
        assert_eq!(waited, count - 1, "the others say that they wait");
    }
}

#[test]
fn an_instance_without_a_turn_ends_with_advice() {
    let instances = Instances::new(5);
    let gateway = Gateway::start(&instances.yaml);
    let lock = instances.lock(&gateway);
    let messages = fails(&gateway, &instances.yaml.replace("handover-timeout: 3s", "handover-timeout: 1s"), &[]);
    assert!(
        messages.contains("not taking over: another process") && messages.contains("handover-timeout"),
        "{messages}"
    );
    assert_eq!(messages.matches("waits for its turn").count(), 1, "{messages}");
    assert_eq!(gateway.get("/a").status, 200);
    lock.unlock().unwrap();
    let next = beside(&gateway, &instances.yaml);
    assert_eq!(next.get("/a").status, 200);
}

#[test]
fn an_instance_beside_a_handover_follows_the_new_process() {
    let instances = Instances::new(3);
    let mut gateway = Gateway::start(&instances.yaml);
    assert_eq!([gateway.get("/a").status, gateway.get("/a").status], [200, 200]);
    gateway.signal("USR2");
    gateway.logged("a new process starts");
    let next = beside(&gateway, &instances.yaml);
    assert_eq!(gateway.wait().code(), Some(0));
    eventually("the process in between drains, too", || gateway.log().matches("all requests finished").count() == 2);
    assert_eq!([next.get("/a").status, next.get("/a").status], [200, 429], "spent tokens stay spent");
    assert_eq!(next.admin("/health/ready").status, 200);
}

#[test]
fn an_instance_beside_one_that_drains_takes_its_buckets() {
    let (held, instances) = (Held::start(true), Instances::new(2));
    let yaml = instances.yaml.replace(&instances.upstream.uri(), &held.upstream.uri());
    let mut gateway = Gateway::start(&yaml);
    eventually("others can ask", || instances.socket(&gateway).exists());
    let mut clients = [gateway.connect(), gateway.connect()];
    for client in &mut clients {
        client.send("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
        held.arrived.recv().unwrap();
    }
    gateway.signal("TERM");
    gateway.logged("shutting down");
    // One that fails leaves the buckets to the next one.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    assert!(fails(&gateway, &yaml, &[("MANAGEMENT_SERVER_PORT", &port)]).contains("management.server.port"));
    gateway.logged("buckets not handed over: the other process has ended");
    let mut next = beside(&gateway, &yaml);
    assert_eq!(get(next.address, "/a").status, 429, "spent tokens stay spent");
    for _ in &clients {
        held.release.send(()).unwrap();
    }
    for client in &mut clients {
        assert_eq!(client.response().expect("a response").text(), "the whole answer");
    }
    assert_eq!(gateway.wait().code(), Some(0));
    gateway.logged("the process beside this one has the buckets");
    let file = instances.folder.path().join("buckets");
    assert!(!file.exists(), "it belongs to the new process");
    next.signal("TERM");
    assert_eq!(next.wait().code(), Some(0));
    assert!(file.exists());
}

#[test]
fn an_instance_serves_in_place_of_one_that_is_killed_during_the_handover() {
    let instances = Instances::new(5);
    let mut gateway = Gateway::start(&instances.yaml);
    let mut next = Starting::beside(&gateway, &instances.yaml, &[]);
    eventually("it takes over", || gateway.get("/a").header("connection") == Some("close"));
    gateway.signal("KILL");
    next.says("serving in its place");
    next.says("listening on");
    gateway.wait();
    assert_eq!(gateway.get("/a").status, 200, "the new one serves the address");
}

#[test]
fn a_signal_during_the_handover_ends_the_new_instance_or_the_old_one_and_leaves_the_other() {
    let instances = Instances::new(1_000_000);
    let mut gateway = Gateway::start(&instances.yaml);
    let begins = |gateway: &Gateway| {
        eventually("it takes over", || gateway.get("/a").header("connection") == Some("close"));
    };
    let mut next = Starting::beside(&gateway, &instances.yaml, &[]);
    begins(&gateway);
    signal(next.child.id(), "TERM");
    assert_eq!(next.end().0, Some(0));
    gateway.logged("the other process has ended before it could serve");
    eventually("the old one goes on", || gateway.get("/a").header("connection").is_none());
    let mut next = Starting::beside(&gateway, &instances.yaml, &[]);
    begins(&gateway);
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0));
    next.says("listening on");
    assert_eq!(gateway.get("/a").status, 200, "the new one serves the address");
}

#[test]
fn an_instance_that_waits_for_its_turn_ends_on_a_signal() {
    let instances = Instances::new(5);
    let gateway = Gateway::start(&instances.yaml);
    let _lock = instances.lock(&gateway);
    let patient = instances.yaml.replace("handover-timeout: 3s", "handover-timeout: 100s");
    let mut other = Starting::beside(&gateway, &patient, &[]);
    other.says("waits for its turn");
    signal(other.child.id(), "TERM");
    other.says("shut down before the start was complete");
    assert_eq!(other.end().0, Some(0));
    assert_eq!(gateway.get("/a").status, 200);
}

#[test]
fn a_slow_instance_asks_again_after_the_other_one_has_gone_on() {
    let instances = Instances::new(2);
    let registry = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut gateway = Gateway::start(&instances.yaml);
    let ask = || get(gateway.address, "/a").status;
    assert_eq!([ask(), ask(), ask()], [200, 200, 429]);
    let mut next = Starting::beside(&gateway, &asking(&instances.yaml, &registry), &[]);
    gateway.logged("another process starts beside this one");
    signal(next.child.id(), "STOP");
    gateway.logged("did not serve within 3s");
    signal(next.child.id(), "CONT");
    next.says("listening on");
    let address = gateway.address;
    assert_eq!(gateway.wait().code(), Some(0));
    assert_eq!(get(address, "/a").status, 429, "the buckets were handed over");
}
