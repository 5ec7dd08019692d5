//! The pages of docs/limiters/: their configurations and transcripts.

use std::process::Command;

use super::{blocks, file};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

#[test]
fn the_page_of_concurrency_limiter_shows_what_happens() {
    let redis = Redis::start();
    let page = file("docs/limiters/concurrency.md");
    let (_, yaml) = blocks(&page, "yaml").remove(0);
    let yaml = yaml.replace("\"redis://127.0.0.1:6379\"", &format!("\"{}\", timeout: 20s", redis.url()));
    let gateway = Gateway::start(&yaml);
    let (_, transcript) = blocks(&page, "console").remove(0);
    let mut commands = transcript.split("$ ").skip(1).filter_map(|step| step.split_once('\n'));
    let here = |command: &str| {
        command
            .replace("127.0.0.1:8080", &gateway.address.to_string())
            .replace("redis-cli", &format!("redis-cli -p {}", redis.address.port()))
    };
    let run = |command: &str| {
        let output =
            Command::new("sh").args(["-c", &here(command)]).current_dir(super::root()).output().unwrap().stdout;
        String::from_utf8(output).unwrap().replace('\r', "")
    };
    assert_eq!(run(commands.next().unwrap().0), "");
    for (command, shown) in commands.by_ref().take(1) {
        assert_eq!(run(command), shown);
    }
    // Asked again and again: on a busy machine the lease may have begun later than the sleep.
    let (command, shown) = commands.next().unwrap();
    let at_once = command.strip_prefix("sleep 5; ").unwrap();
    eventually("the lease ends", || run(at_once) == shown);
}
