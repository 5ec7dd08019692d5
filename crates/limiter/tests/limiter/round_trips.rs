//! Commands sent to Redis: one script call for each decision, for any number of rules.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{LeakyBucket, Rule};
use tollgate_limiter::store::{Check, MAX_CHECKS, OnStoreFailure, Store};
use tollgate_limiter::verdict::Source;

use crate::model::{KINDS, Rng, answer};
use crate::support::{RedisServer, store};

/// Commands that the server receives from now on.
pub(crate) struct Monitor(BufReader<TcpStream>);

impl Monitor {
    pub(crate) fn start(server: &RedisServer) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut monitor = Self(BufReader::new(stream));
        assert_eq!(monitor.line(), "+OK");
        monitor
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "the server is running");
        line.trim_end().to_owned()
    }

    /// Returns the names of the commands that clients sent until now, without those of scripts.
    pub(crate) fn sent(&mut self, redis: &mut redis::Connection) -> Vec<String> {
        redis::cmd("ECHO").arg("that is all").exec(redis).unwrap();
        let lines = std::iter::from_fn(|| Some(self.line()).filter(|line| !line.contains("\"that is all\"")));
        let lines: Vec<String> = lines.filter(|line| !line.contains(" lua] ")).collect();
        lines.iter().map(|line| line.split('"').nth(1).unwrap().to_ascii_lowercase()).collect()
    }
}

/// Returns the number of calls of a command by clients and scripts, as the server counts them.
fn calls(redis: &mut redis::Connection, command: &str) -> u64 {
    let info: String = redis::cmd("INFO").arg("commandstats").query(redis).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

/// Returns rules of `count` algorithms, from the one at `first` on. A turn of a leaky bucket that a slow reply missed would
/// be a second call, so turns are an hour apart: the tolerance grows with them.
pub(crate) fn rules_without_missed_turns(rng: &mut Rng, first: usize, count: usize) -> Vec<Rule> {
    let hour = Duration::from_secs(3_600);
    let rule = |at: usize| match (KINDS[at % KINDS.len()].rule)(rng) {
        Rule::LeakyBucket(_) => Rule::LeakyBucket(
            LeakyBucket::new(1, hour).unwrap().with_max_wait(hour * 3).unwrap().with_max_queue(9).unwrap(),
        ),
        rule => rule,
    };
    (first..first + count).map(rule).collect()
}

#[tokio::test]
async fn a_decision_is_one_call_for_any_number_of_rules_of_any_algorithm() {
    let server = RedisServer::start();
    let store = store(&server.connected_client().await, OnStoreFailure::Deny).denial_cache(false);
    let redis = &mut server.connection();
    let mut rng = Rng::new(7);
    for (count, first) in (1..=MAX_CHECKS).flat_map(|count| (0..KINDS.len()).map(move |first| (count, first))) {
        let rules = rules_without_missed_turns(&mut rng, first, count);
        // In every other list, the first rule counts as a rule without a list does.
        let name = |at: usize| if at + first % 2 == 0 { String::new() } else { format!("#rule{at}") };
        let scopes: Vec<String> = (0..count).map(|at| format!("r{count}{first}{}", name(at))).collect();
        let decide = async |id: &[u8], cost| {
            let check = |at: usize| Check { key: BucketKey { scope: &scopes[at], id }, rule: &rules[at], cost };
            let verdict = answer(store.decide(&(0..count).map(check).collect::<Vec<_>>(), &[])).await;
            assert_eq!(verdict.source, Source::Redis, "{rules:?}");
        };
        // The first call loads the script.
        decide(b"warm", 0).await;
        redis::cmd("CONFIG").arg("RESETSTAT").exec(redis).unwrap();
        let mut monitor = Monitor::start(&server);
        for (id, cost) in [(b"a", 1), (b"a", 1), (b"b", u64::MAX), (b"b", 0)] {
            decide(id, cost).await;
        }
        assert_eq!(monitor.sent(redis), ["evalsha"; 4], "{rules:?}");
        assert_eq!(calls(redis, "evalsha"), 4);
        assert_eq!(calls(redis, "time"), 4, "each reads the time once");
        for command in ["eval", "script|load", "ping", "hello", "multi", "client|setinfo"] {
            assert_eq!(calls(redis, command), 0, "{command}");
        }
        let check = Check { key: BucketKey { scope: &scopes[0], id: b"a" }, rule: &rules[0], cost: 1 };
        // The script for a single rule, if the list was longer.
        assert!(store.settle_confirmed(check, -1, 0).await.is_ok());
        monitor.sent(redis);
        assert!(store.settle_confirmed(check, -1, 0).await.is_ok());
        assert_eq!(monitor.sent(redis), ["evalsha", "publish"], "a correction of {:?}, and its notice", rules[0]);
    }
}
