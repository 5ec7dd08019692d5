//! Behaviour of the test topologies.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::process::Command;
use std::time::Instant;

use tollgate_test_support::{Certificates, Cluster, Passwords, RedisServer, Sentinels, eventually};

/// Returns the error code of a command.
fn error(node: &RedisServer, command: &[&str]) -> String {
    node.query::<redis::Value>(command).unwrap_err().code().unwrap_or_default().to_owned()
}

#[test]
fn a_cluster_replaces_an_unresponsive_primary() {
    let start = Instant::now();
    let cluster = Cluster::start();
    println!("six nodes after {:?}", start.elapsed());
    let key = cluster.key_on(1, "k");
    let (slot, replica) = (cluster.slot(&key), cluster.replica_of(1));
    cluster.nodes[1].freeze();
    println!("replaced after {:?}", cluster.wait_serving(replica));
    assert_eq!(cluster.primary_of(slot), replica);
    cluster.nodes[1].thaw();
    println!("complete again after {:?}", cluster.wait_complete());
    assert_eq!(cluster.replica_of(replica), 1);
    cluster.failover(1);
    assert_eq!(cluster.primary_of(slot), 1);
}

#[test]
fn a_slot_migration_can_be_paused() {
    let cluster = Cluster::primaries();
    let slot = cluster.slot("{a}1");
    let from = cluster.primary_of(slot);
    let to = (from + 1) % 3;
    let (old, new) = (&cluster.nodes[from], &cluster.nodes[to]);
    old.query::<()>(&["MSET", "{a}1", "1", "{a}2", "2"]).unwrap();
    assert_eq!(error(new, &["GET", "{a}1"]), "MOVED");
    let moving = cluster.begin_move(slot, to);
    moving.move_key("{a}1");
    assert_eq!(moving.keys_left(), ["{a}2"]);
    assert_eq!(error(old, &["GET", "{a}1"]), "ASK");
    assert_eq!(error(old, &["MGET", "{a}1", "{a}2"]), "TRYAGAIN");
    assert_eq!(old.query::<String>(&["GET", "{a}2"]).unwrap(), "2");
    moving.move_keys();
    moving.finish();
    assert_eq!(error(old, &["GET", "{a}1"]), "MOVED");
    assert_eq!(new.query::<Vec<String>>(&["MGET", "{a}1", "{a}2"]).unwrap(), ["1", "2"]);
    cluster.move_slot(slot, from);
    assert_eq!(old.query::<String>(&["GET", "{a}1"]).unwrap(), "1");
}

#[test]
fn sentinels_replace_a_killed_primary() {
    let start = Instant::now();
    let mut group = Sentinels::start_with(Passwords { data: Some("d"), sentinels: Some("s") }, &[]);
    println!("three servers and three sentinels after {:?}", start.elapsed());
    assert_eq!(group.named_primary(), Some(0));
    let second = group.failover();
    println!("a failover as ordered after {:?}", start.elapsed());
    group.data[second].kill();
    let (third, took) = group.other_primary(second);
    println!("replaced after {took:?}");
    assert_ne!(third, second);
    group.data[second].launch();
    eventually("the old primary follows", || group.data[second].info("role") == "slave");
    group.kill_sentinels();
    assert_eq!(group.named_primary(), None);
}

#[test]
fn tls_presents_and_requires_certificates() {
    let certificates = Certificates::new();
    let stranger = Certificates::new();
    let server = RedisServer::start_tls(&certificates, true, &[]);
    let port = server.tls_url().rsplit(':').next().unwrap().to_owned();
    let ping = |ca: &Certificates, client: Option<&Certificates>| {
        let mut cli = Command::new("redis-cli");
        cli.args(["-p", &port, "--tls", "--cacert"]).arg(ca.ca());
        if let Some(client) = client {
            cli.arg("--cert").arg(client.client()).arg("--key").arg(client.client_key());
        }
        cli.arg("PING").output().unwrap().stdout == b"PONG\n"
    };
    assert!(ping(&certificates, Some(&certificates)));
    assert!(!ping(&certificates, None) && !ping(&certificates, Some(&stranger)));
    assert!(!ping(&stranger, Some(&certificates)));
}

#[test]
fn a_server_keeps_its_port_and_persistent_data_and_listens_on_a_socket() {
    let mut server = RedisServer::start_with(&["--user", "u", "on", ">p", "~a*", "+get"]);
    server.query::<()>(&["SET", "a", "1"]).unwrap();
    let socket = server.socket();
    let cli = |more: &[&str]| {
        let output = Command::new("redis-cli").arg("-s").arg(&socket).args(more).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    };
    let user = ["--user", "u", "--pass", "p", "--no-auth-warning"];
    assert_eq!(cli(&[&user[..], &["GET", "a"]].concat()), "1");
    assert!(cli(&[&user[..], &["GET", "b"]].concat()).starts_with("NOPERM"));
    let port = server.port;
    server.restart_with_data();
    assert_eq!((server.port, server.cli(&["GET", "a"])), (port, "1".into()));
    server.restart();
    assert_eq!(server.cli(&["DBSIZE"]), "0");
    assert_eq!(server.info("role"), "master");
}

#[test]
fn replies_are_printed_as_redis_cli_prints_them() {
    let server = RedisServer::start();
    server.query::<()>(&["SET", "text", "two\nlines"]).unwrap();
    server.query::<()>(&["RPUSH", "list", "a", "b"]).unwrap();
    for command in [
        &["GET", "text"][..],
        &["GET", "absent"],
        &["EXISTS", "text"],
        &["LRANGE", "list", "0", "-1"],
        &["LRANGE", "absent", "0", "-1"],
        &["CONFIG", "RESETSTAT"],
    ] {
        // An option starts the program.
        let printed = server.cli(&[&["-n", "0"], command].concat());
        assert_eq!(server.cli(command), printed, "{command:?}");
        assert_eq!(server.cli(&[&["--raw"], command].concat()), printed, "{command:?}");
    }
}
