#![allow(clippy::unwrap_used)]

use http::StatusCode;
use proptest::prelude::*;

use crate::upstream::balance::endpoint_set::*;
use tollgate_config::{EndpointAddress, Scheme};

fn listed(name: &str, weight: u32, priority: u16) -> ListedEndpoint {
    let address = EndpointAddress { scheme: Scheme::Http, host: name.to_owned(), port: 80, name: name.to_owned() };
    ListedEndpoint { address, weight, priority }
}

fn roster(names: &[&str]) -> EndpointSet {
    let mut roster = EndpointSet::default();
    let list: Vec<_> = names.iter().map(|name| listed(name, 1, 0)).collect();
    roster.list(&list);
    roster
}

fn endpoint(roster: &EndpointSet, name: &str) -> Arc<Endpoint> {
    Arc::clone(roster.endpoints().find(|endpoint| endpoint.address().host == name).unwrap())
}

fn settings(max_percent: u8) -> Ejection {
    Ejection {
        consecutive_failures: 5.try_into().unwrap(),
        base_time: Duration::from_secs(30),
        max_time: Duration::from_secs(100),
        max_percent,
        statuses: vec![StatusCode::BAD_GATEWAY],
    }
}

/// `a b | c`: those that live by rank, and behind a slash those that are ejected.
fn shown(roster: &EndpointSet) -> String {
    let ranks = |ranks: &[Vec<Member>]| {
        let names = |rank: &Vec<Member>| {
            rank.iter().map(|member| member.endpoint.address().host.as_str()).collect::<Vec<_>>().join(" ")
        };
        ranks.iter().map(names).collect::<Vec<_>>().join(" | ")
    };
    let Snapshot { healthy, ejected } = roster.snapshot();
    format!("{} / {}", ranks(&healthy), ranks(&ejected)).trim().to_owned()
}

#[test]
fn endpoints_are_ranked_by_priority_and_those_without_weight_are_left_out() {
    let mut roster = EndpointSet::default();
    let list = [listed("far", 1, 7), listed("near", 1, 0), listed("drained", 0, 0), listed("also", 2, 0)];
    let (differs, changes) = roster.list(&list);
    assert!(differs && changes.len() == 4);
    assert_eq!(shown(&roster), "near also | far /");
    let near = endpoint(&roster, "near");
    roster.set_health(&near, Health::Unhealthy);
    roster.set_health(&endpoint(&roster, "also"), Health::Unhealthy);
    assert_eq!(shown(&roster), "far /", "later ranks stand in");
}

#[test]
fn who_stays_keeps_health_and_ejection_and_whoever_comes_back_begins_anew() {
    let mut roster = roster(&["a", "b", "c"]);
    let (a, b) = (endpoint(&roster, "a"), endpoint(&roster, "b"));
    a.begin();
    roster.set_health(&a, Health::Unhealthy);
    roster.eject(&b, &settings(50), Instant::now());
    assert_eq!(shown(&roster), "c / b");
    assert!(!roster.list(&[listed("a", 1, 0), listed("b", 1, 0), listed("c", 1, 0)]).0, "the same list");
    assert!(roster.list(&[listed("b", 3, 0), listed("a", 1, 0), listed("d", 1, 0)]).0);
    assert_eq!(shown(&roster), "d / b");
    assert!(Arc::ptr_eq(&endpoint(&roster, "a"), &a) && a.in_flight() == 1);
    roster.list(&[listed("d", 1, 0)]);
    let (_, changes) = roster.list(&[listed("d", 1, 0), listed("a", 1, 0)]);
    assert!(matches!(changes.as_slice(), [(again, Change::Added)] if !Arc::ptr_eq(again, &a)));
    assert_eq!(shown(&roster), "d a /");
}

#[test]
fn ejections_grow_and_shrink_again_with_good_service() {
    let mut roster = roster(&["a", "b"]);
    let a = endpoint(&roster, "a");
    let start = Instant::now();
    let at = |secs: u64| start + Duration::from_secs(secs);
    let ejected = |secs| Some(Change::Ejected(Duration::from_secs(secs)));
    assert_eq!(roster.eject(&a, &settings(50), at(0)), ejected(30));
    assert_eq!(roster.eject(&a, &settings(50), at(1)), None, "it is already");
    assert_eq!(roster.next_return(), Some(at(30)));
    assert!(roster.end_ejections(at(29)).is_empty());
    assert_eq!(roster.end_ejections(at(30)).len(), 1);
    assert_eq!(shown(&roster), "a b /");
    assert_eq!(a.fail(), 5, "on probation: the next failure is the fifth");
    assert_eq!(roster.eject(&a, &settings(50), at(31)), ejected(60), "the second in a row");
    roster.end_ejections(at(91));
    assert_eq!(roster.eject(&a, &settings(50), at(92)), ejected(90));
    roster.end_ejections(at(182));
    assert_eq!(roster.eject(&a, &settings(50), at(183)), ejected(100), "never longer than max-time");
    roster.end_ejections(at(283));
    assert_eq!(roster.eject(&a, &settings(50), at(283 + 95)), ejected(60), "three base times well served are forgiven");
    roster.end_ejections(at(500));
    assert_eq!(roster.eject(&a, &settings(50), at(5000)), ejected(30), "all of it");
}

#[test]
fn a_failed_check_is_knowledge_and_an_ejection_a_guess() {
    let mut roster = roster(&["a", "b"]);
    let (a, b) = (endpoint(&roster, "a"), endpoint(&roster, "b"));
    roster.set_health(&b, Health::Unhealthy);
    roster.eject(&a, &settings(100), Instant::now());
    assert_eq!(shown(&roster), "/ a", "the last resort");
    assert_eq!(roster.set_health(&a, Health::Unhealthy), Some(Change::Unhealthy));
    assert!(roster.snapshot().is_empty(), "nobody is asked who is known to be down");
    assert_eq!(roster.set_health(&a, Health::Healthy), Some(Change::Healthy));
    assert_eq!(shown(&roster), "/ a", "a passed check does not end an ejection");
    roster.clear_ejections(Instant::now());
    assert_eq!(shown(&roster), "a /");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_more_are_ejected_than_allowed(
        count in 1_usize..20,
        max_percent in 0_u8..=100,
        events in proptest::collection::vec((0_usize..20, 0_u64..60), 0..60),
    ) {
        let names: Vec<String> = (0..count).map(|n| format!("e{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut roster = roster(&names);
        let mut now = Instant::now();
        for (which, secs) in events {
            now += Duration::from_secs(secs);
            roster.end_ejections(now);
            let endpoint = endpoint(&roster, names[which % count]);
            roster.eject(&endpoint, &settings(max_percent), now);
            let states: Vec<EndpointState> = roster.states().map(|(_, state)| state).collect();
            let ejected = states.iter().filter(|state| **state == EndpointState::Ejected).count();
            prop_assert!(ejected * 100 <= count * usize::from(max_percent));
            let snapshot = roster.snapshot();
            let of = |ranks: &[Vec<Member>]| ranks.iter().map(Vec::len).sum::<usize>();
            prop_assert_eq!((of(&snapshot.healthy), of(&snapshot.ejected)), (count - ejected, ejected));
        }
    }
}
