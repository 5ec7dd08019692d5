//! The proxy injects the configured faults and no others.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use redis::{Connection, RedisResult};
use tollgate_test_support::{Fault, FaultProxy, PATIENCE, RedisServer, eventually};

fn both() -> (RedisServer, FaultProxy) {
    let redis = RedisServer::start();
    let proxy = FaultProxy::start(redis.address);
    (redis, proxy)
}

fn connect(proxy: &FaultProxy) -> Connection {
    redis::Client::open(proxy.url()).unwrap().get_connection().unwrap()
}

/// Script that counts its runs.
fn eval(connection: &mut Connection) -> RedisResult<i64> {
    redis::cmd("EVAL").arg("return redis.call('INCR', KEYS[1])").arg(1).arg("n").query(connection)
}

fn ran(redis: &RedisServer) -> Option<i64> {
    redis.query(&["GET", "n"]).unwrap()
}

#[test]
fn unaffected_commands_pass() {
    let (redis, proxy) = both();
    let mut connection = connect(&proxy);
    assert_eq!(eval(&mut connection).unwrap(), 1);
    proxy.set(Fault::error("BUSY for a test"));
    redis::cmd("SET").arg("a").arg("b\r\n").exec(&mut connection).unwrap();
    assert_eq!(redis.query::<String>(&["GET", "a"]).unwrap(), "b\r\n");
    assert_eq!((proxy.struck(), proxy.calls()), (0, 1));
}

#[test]
fn an_error_replaces_one_reply_of_many() {
    let (redis, proxy) = both();
    let mut raw = TcpStream::connect(proxy.address).unwrap();
    proxy.once(Fault::error("OOM for a test"));
    let incr = "*4\r\n$4\r\nEVAL\r\n$34\r\nreturn redis.call('INCR', KEYS[1])\r\n$1\r\n1\r\n$1\r\nn\r\n";
    raw.write_all(format!("PING\r\n{incr}PING\r\n{incr}").as_bytes()).unwrap();
    let expected = b"+PONG\r\n-OOM for a test\r\n+PONG\r\n:1\r\n";
    let mut answers = vec![0; expected.len()];
    raw.set_read_timeout(Some(PATIENCE)).unwrap();
    raw.read_exact(&mut answers).unwrap();
    assert_eq!(answers.escape_ascii().to_string(), expected.escape_ascii().to_string());
    assert_eq!((ran(&redis), proxy.calls()), (Some(1), 1));
}

#[test]
fn delayed_replies_keep_their_order() {
    let (_redis, proxy) = both();
    let mut connection = connect(&proxy);
    proxy.set(Fault::Delay(Duration::from_millis(50)));
    let start = Instant::now();
    let numbers: Vec<i64> =
        redis::pipe().cmd("INCR").arg("n").cmd("INCR").arg("n").cmd("INCR").arg("n").query(&mut connection).unwrap();
    assert_eq!(numbers, [1, 2, 3]);
    assert!(start.elapsed() >= Duration::from_millis(50));
}

#[test]
fn a_held_reply_belongs_to_a_call_that_ran() {
    let (redis, proxy) = both();
    let mut connection = connect(&proxy);
    proxy.set(Fault::HoldReplies);
    let asking = std::thread::spawn(move || eval(&mut connection));
    eventually("the call ran", || ran(&redis) == Some(1));
    assert!(!asking.is_finished());
    proxy.set(Fault::Pass);
    assert_eq!(asking.join().unwrap().unwrap(), 1);
}

#[test]
fn a_held_call_runs_afterwards() {
    let (redis, proxy) = both();
    let mut connection = connect(&proxy);
    for fault in [Fault::HoldCommands(b"INCR"), Fault::BlackHole] {
        let before = ran(&redis);
        let strikes = fault != Fault::BlackHole;
        proxy.set(fault);
        let asking = std::thread::spawn(move || (eval(&mut connection), connection));
        if strikes {
            eventually("the call is held", || proxy.struck() == 1);
        }
        assert_eq!(ran(&redis), before);
        proxy.set(Fault::Pass);
        let (answer, back) = asking.join().unwrap();
        assert_eq!(answer.unwrap(), before.unwrap_or(0) + 1);
        connection = back;
    }
}

#[test]
fn invalid_replies_are_errors() {
    let (redis, proxy) = both();
    for fault in [Fault::Cut, Fault::garbage(), Fault::wrong_type(), Fault::huge_list()] {
        let mut connection = connect(&proxy);
        connection.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let before = ran(&redis).unwrap_or(0);
        proxy.once(fault.clone());
        assert!(eval(&mut connection).is_err(), "{fault:?}");
        assert_eq!((ran(&redis), proxy.struck()), (Some(before + 1), 1), "{fault:?}");
    }
}

#[test]
fn connections_are_refused_and_reset_and_accepted_again() {
    let (_redis, proxy) = both();
    let mut connection = connect(&proxy);
    proxy.set(Fault::Refuse);
    eventually("the port is closed", || TcpStream::connect(proxy.address).is_err());
    assert!(eval(&mut connection).is_err());
    eventually("no connection is left", || proxy.live() == 0);
    proxy.set(Fault::Pass);
    eventually("the port is open", || TcpStream::connect(proxy.address).is_ok());
    let mut connection = connect(&proxy);
    proxy.reset_connections();
    assert!(eval(&mut connection).is_err());
    assert!(eval(&mut connect(&proxy)).is_ok());
}

#[test]
fn connections_end_with_redis() {
    let (mut redis, proxy) = both();
    let mut connection = connect(&proxy);
    assert!(eval(&mut connection).is_ok());
    redis.kill();
    eventually("no connection is left", || proxy.live() == 0);
}
