//! The tutorial's configurations and transcripts.

use super::limiters::is_like;
use super::replay::shell;
use super::{blocks, file};
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

/// The configuration and the transcript of a part of the tutorial.
struct Part {
    yaml: String,
    /// Commands with the lines that they print.
    steps: Vec<(String, Vec<String>)>,
}

impl Part {
    fn read(name: &str) -> Self {
        let (page, marker) = (file("docs/tutorial.md"), format!("<!-- tutorial: {name} -->"));
        let of = |language: &str| -> String {
            let found = blocks(&page, language).into_iter().filter(|(above, _)| *above == marker);
            found.map(|(_, block)| block).collect()
        };
        let console = of("console");
        let steps = console.split("$ ").skip(1).map(|step| {
            let mut lines = step.lines().map(str::to_owned);
            (lines.next().unwrap(), lines.collect())
        });
        Self { yaml: of("yaml"), steps: steps.collect() }
    }

    /// Runs the commands against gateways that listen on other ports than those `shown`.
    fn replay(&self, gateways: &[(&str, &Gateway)]) {
        assert!(!self.steps.is_empty());
        for (command, expected) in &self.steps {
            let mut here = command.clone();
            for (shown, gateway) in gateways {
                here = here.replace(shown, &gateway.address.port().to_string());
            }
            let mut printed = shell(&here.replace("localhost", "127.0.0.1")).0;
            for (shown, gateway) in gateways {
                let port = gateway.address.port().to_string();
                printed.iter_mut().for_each(|line| *line = line.replace(&port, shown));
            }
            let is_same = printed.len() == expected.len()
                && expected.iter().zip(&printed).all(|(expected, printed)| is_like(expected, printed));
            assert!(is_same, "{command}\n{printed:#?}\ninstead of\n{expected:#?}");
        }
    }
}

#[test]
fn the_first_limit_and_the_limit_by_key_answer_as_shown() {
    for name in ["first", "keys"] {
        let part = Part::read(name);
        let gateway = Gateway::start(&part.yaml);
        part.replay(&[("8080", &gateway)]);
    }
}

#[test]
fn two_gateways_share_one_limit_as_shown() {
    let (redis, part) = (Redis::start(), Part::read("redis"));
    // A busy machine may be slow to answer; the transcript does not show that.
    let yaml = part.yaml.replace("\"redis://127.0.0.1:6379\"", &format!("\"{}\", timeout: 20s", redis.url()));
    let gateways = [Gateway::start(&yaml), Gateway::start(&yaml)];
    for gateway in &gateways {
        crate::support::eventually("Redis is connected", || gateway.metric("tollgate_redis_connections", &[]) > 0.0);
    }
    part.replay(&[("8081", &gateways[0]), ("8082", &gateways[1])]);
}
