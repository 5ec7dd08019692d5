//! The pages of docs/limiters/: their configurations and transcripts.

use std::process::Command;

use super::replay::shell;
use super::{blocks, file};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

#[test]
fn the_concurrency_limiter_page_shows_real_output() {
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
    // Repeated: on a busy machine the lease may have started after the sleep.
    let (command, shown) = commands.next().unwrap();
    let at_once = command.strip_prefix("sleep 5; ").unwrap();
    eventually("the lease ends", || run(at_once) == shown);
}

/// Pages of limiters that show responses of their example, and the content of Redis.
const PAGES: [&str; 7] =
    ["token-bucket", "gcra", "fixed-window", "sliding-window-log", "sliding-window-counter", "leaky-bucket", "quota"];

#[test]
fn the_limiter_pages_show_real_output() {
    for page in PAGES {
        let (text, redis) = (file(&format!("docs/limiters/{page}.md")), Redis::start());
        let (_, yaml) = blocks(&text, "yaml").remove(0);
        // A busy machine may respond slowly; latency is not tested here.
        let yaml = yaml.replace("\"redis://127.0.0.1:6379\"", &format!("\"{}\", timeout: 20s", redis.url()));
        let gateway = Gateway::start(&yaml);
        let console: String = blocks(&text, "console").into_iter().map(|(_, block)| block).collect();
        let mut shown = console.lines().peekable();
        while let Some(command) = shown.next().and_then(|line| line.strip_prefix("$ ")) {
            let here = command.replace("localhost:8080", &gateway.address.to_string());
            let here = here.replace("redis-cli", &format!("redis-cli --no-raw -p {}", redis.address.port()));
            let printed = shell(&here).0;
            let mut printed_lines = printed.iter();
            while let Some(line) = shown.next_if(|line| !line.starts_with("$ ")) {
                let same = printed_lines.next().is_some_and(|printed| is_like(line, printed));
                assert!(same, "{page}: {command}: {line}\n{printed:#?}");
            }
            assert_eq!(printed_lines.next(), None, "{page}: {command}");
        }
    }
}

/// Returns true if a line equals the one shown, apart from times: numbers of up to four digits, such as
/// waits, may be slightly off; longer ones may have any value.
pub(super) fn is_like(shown: &str, printed: &str) -> bool {
    let text = |line: &str| line.split(|c: char| c.is_ascii_digit()).collect::<String>();
    let numbers = |line: &str| -> Vec<String> {
        line.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let is_near = |(shown, printed): (String, String)| match (shown.len(), shown.parse::<i64>(), printed.parse::<i64>())
    {
        (..=4, Ok(shown), Ok(printed)) => (shown - printed).abs() <= 10,
        (length, ..) => length > 4,
    };
    if shown.starts_with("HTTP") {
        return shown == printed;
    }
    text(shown) == text(printed) && numbers(shown).into_iter().zip(numbers(printed)).all(is_near)
}
