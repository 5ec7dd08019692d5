//! `lua/fixed_window.lua` compared with memory, aligned to the clock and to calendars.

use std::time::Duration;

use proptest::prelude::*;
use redis::{Connection, RedisResult};
use tollgate_limiter::key::BucketKey;
use tollgate_limiter::rule::{Align, Calendar, CalendarUnit, FixedWindow, Rule};
use tollgate_limiter::store::{Check, Decision, OnStoreFailure, Store};
use tollgate_limiter::verdict::Source;

use crate::support::{RedisServer, store};
use crate::trace::{self, NoModel, Reply, START_US, Scripted, steps, window_args};

const DAY: u64 = 86_400_000_000;

impl Scripted for FixedWindow {
    const TEXT: &'static str = include_str!("../../lua/fixed_window.lua");

    fn args(&self, now_us: u64, cost: &str, counted_at_us: Option<u64>) -> Vec<String> {
        let mut args = window_args(self.limit(), self.window().as_micros(), now_us, cost);
        match self.windows_around(now_us) {
            Some(starts) => {
                args.push("calendar".to_owned());
                args.extend(starts.map(|start| start.to_string()));
                args.extend(self.calendar().map(|calendar| calendar.id().to_string()));
            }
            None => args.push(if self.align() == Align::First { "first" } else { "clock" }.to_owned()),
        }
        args.extend(counted_at_us.map(|us| us.to_string()));
        args
    }

    fn most(&self) -> u64 {
        self.limit()
    }
}

fn on_calendar(limit: u64, unit: CalendarUnit, zone: &str) -> FixedWindow {
    FixedWindow::on_calendar(limit, Calendar::new(unit, zone).unwrap()).unwrap()
}

fn calendars() -> impl Strategy<Value = FixedWindow> {
    use CalendarUnit::{Day, Hour, Month, Week, Year};
    let zones = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Havana", "Asia/Kathmandu"];
    let units = prop::sample::select(vec![Hour, Day, Week, Month, Year]);
    (0u64..12, units, prop::sample::select(zones.to_vec()))
        .prop_map(|(limit, unit, zone)| on_calendar(limit, unit, zone))
}

#[test]
fn fixed_windows_agree_through_changed_rules_and_clocks_set_back() {
    let plain = (0u64..12, 1u64..3 * DAY, any::<bool>()).prop_map(|(limit, us, first)| {
        let align = if first { Align::First } else { Align::Clock };
        FixedWindow::new(limit, Duration::from_micros(us), align).unwrap()
    });
    let rules = prop::collection::vec(prop_oneof![plain, calendars()], 1..4);
    trace::run(1_000, rules, steps(DAY, 5, true), || None::<NoModel>);
}

fn ask(redis: &mut Connection, rule: &FixedWindow, now_us: u64, starts_of_us: u64) -> RedisResult<Reply> {
    let mut args = rule.args(starts_of_us, "1", None);
    args[2] = crate::support::seconds(now_us);
    redis::cmd("EVAL").arg(FixedWindow::TEXT).arg(1).arg("k").arg(args).query(redis)
}

#[test]
fn the_server_selects_the_window_by_its_own_time() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    let rule = on_calendar(5, CalendarUnit::Day, "UTC");
    // Noon by the gateway's clock.
    let noon = START_US - START_US % DAY + DAY / 2;
    for (now_us, ends_in) in [(noon - DAY, DAY / 2), (noon, DAY / 2), (noon + DAY + DAY / 4, DAY / 4)] {
        redis::cmd("DEL").arg("k").exec(redis).unwrap();
        let reply = ask(redis, &rule, now_us, noon).unwrap();
        assert_eq!((reply.0, reply.1, reply.3), (1, 4, ends_in as i64));
    }
    redis::cmd("DEL").arg("k").exec(redis).unwrap();
    for now_us in [noon - 2 * DAY, noon + 2 * DAY] {
        let error = ask(redis, &rule, now_us, noon).unwrap_err().to_string();
        assert!(error.contains("differ by more than a window"), "{error}");
    }
    assert_eq!(redis::cmd("DBSIZE").query::<u64>(redis).unwrap(), 0);
}

#[test]
fn invalid_windows_are_errors() {
    let server = RedisServer::start();
    let redis = &mut server.connection();
    for starts in ["1 2 3", "1 2 2 4", "1 2 x 4", "4 3 2 1", "1 2 3 9007199254740992", "-1 2 3 4"] {
        let args: Vec<&str> = "5 1 0 1 calendar".split(' ').chain(starts.split(' ')).collect();
        let reply: RedisResult<Reply> =
            redis::cmd("EVAL").arg(FixedWindow::TEXT).arg(1).arg("k").arg(&args).query(redis);
        assert!(reply.unwrap_err().to_string().contains("must be four"), "{starts}");
    }
}

#[tokio::test]
async fn a_calendar_window_is_decided_in_redis_alone_and_in_a_list() {
    let server = RedisServer::start();
    let store = store(&server.connected_client().await, OnStoreFailure::Deny);
    let year = Rule::FixedWindow(on_calendar(9, CalendarUnit::Year, "Europe/Berlin"));
    let check = |scope| Check { key: BucketKey { scope, id: b"k" }, rule: &year, cost: 2 };
    for checks in [&[check("r")][..], &[check("r#a"), check("r#b")], &[check("r#a"), check("r#b")]] {
        let Decision::Pending(verdict) = store.decide(checks, &[]) else { panic!("decided without redis") };
        let verdict = verdict.await;
        assert_eq!((verdict.source, verdict.is_allowed()), (Source::Redis, true));
        assert!(verdict.reset_after <= Duration::from_secs(366 * 86_400));
        store.settle(check("r"), -2, verdict.counted_at_us);
    }
    let look = Check { cost: 0, ..check("r") };
    let left = async || match store.decide(&[look], &[]) {
        Decision::Ready(verdict) => verdict.remaining,
        Decision::Pending(verdict) => verdict.await.remaining,
    };
    crate::support::eventually("the correction arrives", async || left().await == Some(9)).await;
}
