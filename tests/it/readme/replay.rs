//! The README's transcripts, replayed by running their commands.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{blocks, file};
use crate::support::PATIENCE;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

/// Returns the transcript marked `name`: its commands, each with its output.
fn transcript(name: &str) -> Vec<(String, Vec<String>)> {
    let marker = format!("<!-- replayed: {name} -->");
    let found = blocks(&file("README.md"), "console").into_iter().find(|(above, _)| *above == marker);
    let (_, body) = found.unwrap_or_else(|| panic!("README.md has no transcript below {marker}"));
    let mut steps: Vec<(String, Vec<String>)> = Vec::new();
    for line in body.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => steps.push((command.to_owned(), Vec::new())),
            None => steps.last_mut().unwrap().1.push(line.to_owned()),
        }
    }
    steps
}

/// Runs a command line; returns the printed lines and the duration.
pub(super) fn shell(command: &str) -> (Vec<String>, Duration) {
    let start = Instant::now();
    let output = Command::new("bash").args(["-c", command]).stdin(Stdio::null()).output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    (lines.lines().map(|line| line.trim_end().to_owned()).collect(), start.elapsed())
}

/// Returns true if `shown` equals `printed`, apart from lines left out as `…`: its lines occur in this order.
fn is_shortened(shown: &[String], printed: &[String]) -> bool {
    let mut printed = printed.iter();
    shown.iter().filter(|line| *line != "…").all(|line| printed.any(|other| other == line))
}

#[test]
fn the_demo_responds_as_in_the_readme() {
    let gateway = Gateway::start(&file("config/tollgate.yaml"));
    let steps = transcript("demo");
    let [(many, shown), (after_the_wait, then)] = steps.as_slice() else { panic!("two commands: {steps:?}") };
    assert!(many.contains("localhost:8080/demo/hello") && after_the_wait.contains("localhost:8080/demo/hello"));
    let here = |command: &str| command.replace("localhost:8080", &gateway.address.to_string());

    // On a busy machine tokens are refilled as fast as curl starts: repeated until a request is denied.
    let (begun, mut allowed, mut first) = (Instant::now(), 0, true);
    loop {
        let (printed, _) = shell(&here(many));
        let statuses: Vec<&String> = printed.iter().filter(|line| line.starts_with("HTTP")).collect();
        assert_eq!(statuses.len(), 15, "{printed:#?}");
        if first {
            assert!(statuses[..10].iter().all(|line| *line == "HTTP/1.1 200 OK"), "{printed:#?}");
            assert_eq!(printed[..5], shown[..5]);
        }
        allowed += statuses.iter().filter(|line| **line == "HTTP/1.1 200 OK").count();
        let most = 10.0 + 5.0 * begun.elapsed().as_secs_f64();
        assert!(allowed as f64 <= most, "{allowed} allowed, at most {most}");
        if statuses.iter().any(|line| *line == "HTTP/1.1 429 Too Many Requests") {
            // Everything except the remaining tokens, which depend on the moment.
            let denial = shown.iter().position(|line| line.contains("429")).unwrap();
            assert!(is_shortened(&shown[denial..], &printed), "{printed:#?}");
            assert!(!first || is_shortened(shown, &printed), "{printed:#?}");
            break;
        }
        first = false;
        assert!(begun.elapsed() < PATIENCE, "nothing was denied");
    }
    assert!(shown.iter().any(|line| line == "retry-after: 1") && after_the_wait.starts_with("sleep 1;"));
    assert_eq!(shell(&here(after_the_wait)).0, *then);
    assert!(gateway.metric("tollgate_limiter_decisions_total", &["verdict=\"denied\"", "source=\"memory\""]) >= 1.0);
}

#[test]
fn the_readme_names_every_tool_that_the_test_command_installs() {
    let readme = file("README.md");
    let commands: Vec<String> = blocks(&readme, "sh").into_iter().map(|(_, command)| command).collect();
    assert_eq!(commands, ["cargo run --release\n", "tests/run\n"]);
    let (_, below) = readme.split_once("```sh\ntests/run\n```\n").unwrap();
    let paragraph = below.trim_start().split("\n\n").next().unwrap().to_lowercase();
    let script = file("tests/run");
    let code = script.lines().filter(|line| !line.contains(['#', '\'']) && !line.starts_with("need()"));
    let calls = code.flat_map(|line| line.split("need ").skip(1));
    // COMMAND, then its package.
    let tools: Vec<&str> = calls.filter_map(|call| call.split_whitespace().nth(1)).collect();
    assert!(tools.len() >= 6, "{tools:?}");
    for tool in tools {
        assert!(
            paragraph.contains(&tool.replace("nodejs", "node").replace("python3", "python")),
            "{tool}: {paragraph}"
        );
    }
}

#[test]
fn the_request_counter_page_shows_real_redis_content() {
    let redis = Redis::start();
    let page = file("docs/limiters/request-counter.md");
    let (_, yaml) = blocks(&page, "yaml").remove(0);
    let (_, console) = blocks(&page, "console").remove(0);
    let commands: Vec<&str> = console.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    let [request, look] = commands[..] else { panic!("two commands: {commands:?}") };
    let shown: Vec<&str> = console.lines().filter(|line| !line.starts_with('$')).collect();
    let gateway = Gateway::start(&yaml.replace("redis://127.0.0.1:6379", &redis.url()));
    shell(&request.replace("localhost:8080", &gateway.address.to_string()));
    let port = format!("redis-cli --no-raw -p {}", redis.address.port());
    let look = look.replace("sleep 1; ", "").replace("redis-cli", &port);
    crate::support::eventually("it is flushed", || shell(&look).0 != ["(empty array)"]);
    let printed = shell(&look).0;
    // The size of the echo depends on the version of curl.
    assert_eq!(printed.len(), shown.len(), "{printed:#?}");
    assert_eq!(printed[..3], shown[..3]);
    println!("{printed:#?}");
}

#[test]
fn two_gateways_share_one_limit_in_redis_as_in_the_readme() {
    let redis = Redis::start();
    let steps = transcript("redis");
    let (starts, loops): (Vec<_>, Vec<_>) = steps.iter().partition(|(command, _)| command.ends_with('&'));
    assert!(starts[0].0.starts_with("redis-server --port 6379"));
    for (started, port) in starts[1..].iter().zip(["8081", "8082"]) {
        let expected = format!("SERVER_PORT={port} MANAGEMENT_SERVER_PORT=90{}", &port[2..].replace('8', "9"));
        assert!(started.0.starts_with(&expected) && started.0.contains("--config config/redis.yaml"), "{}", started.0);
    }
    // A busy machine may respond slowly; latency is not tested here.
    let yaml = file("config/redis.yaml").replace("timeout: 100ms", "timeout: 20s");
    let gateways: Vec<Gateway> = (0..2).map(|_| Gateway::start_with(&yaml, &[("REDIS_URL", &redis.url())])).collect();
    for gateway in &gateways {
        crate::support::eventually("Redis is connected", || gateway.metric("tollgate_redis_connections", &[]) > 0.0);
    }
    let [(many, shown)] = loops.as_slice() else { panic!("one loop: {loops:?}") };
    let ports: Vec<String> = gateways.iter().map(|gateway| gateway.address.port().to_string()).collect();
    let here = many.replace("8081", &ports[0]).replace("8082", &ports[1]).replace("localhost", "127.0.0.1");

    // One more request passes each second: on a busy machine a denial takes more than six requests.
    let (begun, mut allowed) = (Instant::now(), 0);
    for first in std::iter::once(true).chain(std::iter::repeat(false)) {
        let (printed, took) = shell(&here);
        let lines: Vec<String> =
            printed.iter().map(|line| line.replace(&ports[0], "8081").replace(&ports[1], "8082")).collect();
        if first {
            assert_eq!(lines[..4], shown[..4], "four pass, through either gateway");
            assert!(took > Duration::from_secs(1) || lines == *shown, "{lines:#?}");
        }
        allowed += lines.iter().filter(|line| line.ends_with(" 200")).count();
        let most = 4.0 + begun.elapsed().as_secs_f64();
        assert!(allowed as f64 <= most, "{allowed} allowed, at most {most}");
        if lines.iter().any(|line| line.ends_with(" 429")) {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing was denied");
    }
    for gateway in &gateways {
        assert!(gateway.metric("tollgate_limiter_decisions_total", &["source=\"redis\""]) >= 3.0);
        assert_eq!(gateway.metric("tollgate_limiter_decisions_total", &["source=\"fallback\""]), 0.0);
    }
}
