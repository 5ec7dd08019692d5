//! `lua/request_counter.lua` alone.

use std::collections::BTreeMap;
use std::process::Command;

use redis::{Connection, RedisResult};

use crate::support::RedisServer;

const TEXT: &str = include_str!("../../lua/request_counter.lua");
const HASH: &str = "request_counter.{r.a}.2026-11-21";
const MARKER: &str = "request_counter.{r.a}.2026-11-21.gw";

fn eval(redis: &mut Connection, args: &[&str]) -> RedisResult<i64> {
    redis::cmd("EVAL").arg(TEXT).arg(2).arg(HASH).arg(MARKER).arg(args).query(redis)
}

fn counts(redis: &mut Connection) -> BTreeMap<String, i64> {
    redis::cmd("HGETALL").arg(HASH).query(redis).unwrap()
}

fn ttl(redis: &mut Connection, key: &str) -> i64 {
    redis::cmd("TTL").arg(key).query(redis).unwrap()
}

fn run(redis: &mut Connection, command: &[&str]) {
    redis::cmd(command[0]).arg(&command[1..]).exec(redis).unwrap();
}

#[test]
fn each_batch_is_added_once() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    assert_eq!(eval(redis, &["1", "60", "30", "GET.requests", "2", "GET.bytes_out", "512"]).unwrap(), 1);
    assert_eq!(eval(redis, &["1", "60", "30", "GET.requests", "2", "GET.bytes_out", "512"]).unwrap(), 0);
    assert_eq!(eval(redis, &["9007199254740990", "60", "30", "GET.requests", "3"]).unwrap(), 1);
    assert_eq!(eval(redis, &["9007199254740989", "60", "30", "GET.requests", "100"]).unwrap(), 0, "a late copy");
    assert_eq!(eval(redis, &["9007199254740991", "60", "30", "GET.requests", "1"]).unwrap(), 1);
    assert_eq!(counts(redis), [("GET.bytes_out".into(), 512), ("GET.requests".into(), 6)].into());
}

#[test]
fn the_expiry_is_set_once_and_restored_if_missing() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    eval(redis, &["1", "3600", "30", "requests", "1"]).unwrap();
    assert!((3_000..=3_600).contains(&ttl(redis, HASH)) && (1..=30).contains(&ttl(redis, MARKER)));
    eval(redis, &["2", "999999", "3600", "requests", "1"]).unwrap();
    assert!(ttl(redis, HASH) <= 3_600, "the expiry is not extended");
    assert!(ttl(redis, MARKER) > 3_000, "each batch extends the expiry of its number");
    run(redis, &["PERSIST", HASH]);
    assert_eq!(ttl(redis, HASH), -1);
    eval(redis, &["3", "3600", "30", "requests", "1"]).unwrap();
    assert!((3_000..=3_600).contains(&ttl(redis, HASH)), "repaired");
}

#[test]
fn invalid_arguments_fail_without_a_write() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let bad: [&[&str]; 19] = [
        &["0", "60", "60", "f", "1"],
        &["1.5", "60", "60", "f", "1"],
        &["x", "60", "60", "f", "1"],
        &["nan", "60", "60", "f", "1"],
        &["9007199254740993", "60", "60", "f", "1"],
        &["1", "0", "60", "f", "1"],
        &["1", "-1", "60", "f", "1"],
        &["1", "inf", "60", "f", "1"],
        &["1", "60", "", "f", "1"],
        &["1", "60", "0.5", "f", "1"],
        &["1", "60", "60", "", "1"],
        &["1", "60", "60", "f", "-1"],
        &["1", "60", "60", "f", "1.5"],
        &["1", "60", "60", "f", ""],
        &["1", "60", "60", "f", "1", "g", "0x10"],
        &["1", "60", "60", "f", "1000000000000000000"],
        &["1", "60", "60", "f"],
        &["1", "60", "60"],
        &[],
    ];
    for args in bad {
        let error = eval(redis, args).unwrap_err().to_string();
        assert!(error.contains("must be"), "{args:?}: {error}");
    }
    let too_few: RedisResult<i64> =
        redis::cmd("EVAL").arg(TEXT).arg(1).arg("k").arg(&["1", "60", "60", "f", "1"]).query(redis);
    assert!(too_few.unwrap_err().to_string().contains("expected 2 keys"));
    assert_eq!(redis::cmd("DBSIZE").query::<u64>(redis).unwrap(), 0);
}

#[test]
fn keys_of_another_type_are_left_unchanged() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let add = ["1", "60", "60", "f", "5", "g", "5"];
    for stored in [&["HSET", HASH, "g", "soup"][..], &["HSET", HASH, "g", "9223372036854775807"], &["SET", HASH, "x"]] {
        run(redis, &["FLUSHALL"]);
        run(redis, stored);
        let before: Vec<u8> = redis::cmd("DUMP").arg(HASH).query(redis).unwrap();
        assert_eq!(eval(redis, &add).unwrap(), -1, "{stored:?}");
        assert_eq!(redis::cmd("DUMP").arg(HASH).query::<Vec<u8>>(redis).unwrap(), before, "not even `f`");
        assert_eq!(redis::cmd("DBSIZE").query::<u64>(redis).unwrap(), 1);
    }
    run(redis, &["FLUSHALL"]);
    run(redis, &["LPUSH", MARKER, "x"]);
    assert_eq!(eval(redis, &add).unwrap(), -1);
    assert_eq!(counts(redis), BTreeMap::new());
}

#[test]
fn numbers_beyond_doubles_are_added_exactly() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    for (batch, sum) in [("1", 999_999_999_999_999_999_i64), ("2", 1_999_999_999_999_999_998)] {
        assert_eq!(eval(redis, &[batch, "60", "60", "f", "999999999999999999"]).unwrap(), 1);
        assert_eq!(counts(redis)["f"], sum);
    }
}

#[test]
fn the_command_in_the_header_runs() {
    let server = RedisServer::start();
    let line = TEXT.lines().find(|line| line.starts_with("redis-cli --eval")).unwrap();
    let line = line.replacen("redis-cli", &format!("redis-cli -p {}", server.port), 1);
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let shell = || Command::new("sh").arg("-c").arg(&line).current_dir(root).output().unwrap();
    assert_eq!(String::from_utf8(shell().stdout).unwrap().trim(), "1");
    assert_eq!(String::from_utf8(shell().stdout).unwrap().trim(), "0", "added before");
}
