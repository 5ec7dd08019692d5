//! Quotas with different periods on one key.

use tollgate_limiter::rule::{Calendar, CalendarUnit, Quota, Rule};

use crate::changes::{START, Stores};
use crate::support::RedisServer;

const HOUR: u64 = 3_600_000_000;
const DAY: u64 = 24 * HOUR;

fn quota(allowance: u64, unit: CalendarUnit) -> Quota {
    Quota::resetting(allowance, Calendar::new(unit, "Europe/Berlin").unwrap()).unwrap()
}

/// Returns a morning at the begin of a month.
fn first_of_a_month() -> u64 {
    quota(1, CalendarUnit::Month).periods_around(START).unwrap()[2] + 8 * HOUR
}

/// A client that changes its plan, or the gateways of a rolling change: rules of both periods in turns.
#[tokio::test]
async fn a_shorter_period_of_a_quota_ends_no_longer_one() {
    let server = RedisServer::start();
    let client = server.connected_client().await;
    let (by_day, by_month) = (quota(10, CalendarUnit::Day), quota(100, CalendarUnit::Month));
    let (by_day, by_month) = (Rule::Quota(by_day), Rule::Quota(by_month));
    for scope in ["quota-plans", "list#quota-plans"] {
        let stores = Stores::new(&client, scope);
        let (mut of_days, mut of_month) = (0, 0);
        for day in 0..20 {
            stores.clock.set(first_of_a_month() + day * DAY);
            of_days += stores.burst(&by_day, 12).await;
            of_month += stores.burst(&by_month, 30).await;
        }
        assert_eq!((of_days, of_month), (20 * 10, 100 - 3 * 10), "{scope}: the month counts the tokens of its days");
    }
}
