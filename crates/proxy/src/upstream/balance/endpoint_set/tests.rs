#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use crate::upstream::balance::endpoint_set::*;
use tollgate_config::{EndpointAddress, Or, Scheme};

fn listed(name: &str, weight: u32, priority: u16) -> ListedEndpoint {
    let address = EndpointAddress { scheme: Scheme::Http, host: name.to_owned(), port: 80, name: name.to_owned() };
    ListedEndpoint { address, weight, priority }
}

fn endpoint_set(names: &[&str]) -> EndpointSet {
    let mut endpoint_set = EndpointSet::default();
    let list: Vec<_> = names.iter().map(|name| listed(name, 1, 0)).collect();
    endpoint_set.replace(&list, Instant::now());
    endpoint_set
}

fn endpoint(endpoint_set: &EndpointSet, name: &str) -> Arc<Endpoint> {
    Arc::clone(endpoint_set.endpoints().find(|endpoint| endpoint.address().host == name).unwrap())
}

fn settings(max_percent: u8) -> Ejection {
    Ejection { max_time: Or::new(Duration::from_secs(100)), max_percent: Or::new(max_percent), ..Ejection::default() }
}

/// Formats a snapshot as `a b | c / d`: healthy endpoints by tier, and ejected ones behind the slash.
fn shown(endpoint_set: &EndpointSet) -> String {
    let tiers = |tiers: &[Vec<WeightedEndpoint>]| {
        let names = |tier: &Vec<WeightedEndpoint>| {
            tier.iter().map(|weighted| weighted.endpoint.address().host.as_str()).collect::<Vec<_>>().join(" ")
        };
        tiers.iter().map(names).collect::<Vec<_>>().join(" | ")
    };
    let Snapshot { healthy, ejected } = endpoint_set.snapshot(Instant::now());
    format!("{} / {}", tiers(&healthy), tiers(&ejected)).trim().to_owned()
}

#[test]
fn endpoints_are_grouped_by_priority_and_weight_zero_is_left_out() {
    let mut endpoint_set = EndpointSet::default();
    let list = [listed("far", 1, 7), listed("near", 1, 0), listed("drained", 0, 0), listed("also", 2, 0)];
    let (differs, changes) = endpoint_set.replace(&list, Instant::now());
    assert!(differs && changes.len() == 4);
    assert_eq!(shown(&endpoint_set), "near also | far /");
    let near = endpoint(&endpoint_set, "near");
    endpoint_set.set_health(&near, Health::Unhealthy, Instant::now());
    endpoint_set.set_health(&endpoint(&endpoint_set, "also"), Health::Unhealthy, Instant::now());
    assert_eq!(shown(&endpoint_set), "far /", "the next tier is used");
}

#[test]
fn a_remaining_endpoint_keeps_its_state_and_a_returning_one_starts_without() {
    let mut endpoint_set = endpoint_set(&["a", "b", "c"]);
    let (a, b) = (endpoint(&endpoint_set, "a"), endpoint(&endpoint_set, "b"));
    a.request_started();
    endpoint_set.set_health(&a, Health::Unhealthy, Instant::now());
    endpoint_set.eject(&b, &settings(50), Instant::now());
    assert_eq!(shown(&endpoint_set), "c / b");
    assert!(
        !endpoint_set.replace(&[listed("a", 1, 0), listed("b", 1, 0), listed("c", 1, 0)], Instant::now()).0,
        "the same list"
    );
    assert!(endpoint_set.replace(&[listed("b", 3, 0), listed("a", 1, 0), listed("d", 1, 0)], Instant::now()).0);
    assert_eq!(shown(&endpoint_set), "d / b");
    assert!(Arc::ptr_eq(&endpoint(&endpoint_set, "a"), &a) && a.in_flight() == 1);
    endpoint_set.replace(&[listed("d", 1, 0)], Instant::now());
    let (_, changes) = endpoint_set.replace(&[listed("d", 1, 0), listed("a", 1, 0)], Instant::now());
    assert!(matches!(changes.as_slice(), [(again, EndpointChange::Added)] if !Arc::ptr_eq(again, &a)));
    assert_eq!(shown(&endpoint_set), "d a /");
}

#[test]
fn ejections_get_longer_and_shorter_again_with_good_service() {
    let mut endpoint_set = endpoint_set(&["a", "b"]);
    let a = endpoint(&endpoint_set, "a");
    let start = Instant::now();
    let at = |secs: u64| start + Duration::from_secs(secs);
    let ejected = |secs| Some(EndpointChange::Ejected(Duration::from_secs(secs)));
    assert_eq!(endpoint_set.eject(&a, &settings(50), at(0)), ejected(30));
    assert_eq!(endpoint_set.eject(&a, &settings(50), at(1)), None, "already ejected");
    assert_eq!(endpoint_set.next_end(), Some(at(30)));
    assert!(endpoint_set.end_ejections(at(29)).is_empty());
    assert_eq!(endpoint_set.end_ejections(at(30)).len(), 1);
    assert_eq!(shown(&endpoint_set), "a b /");
    assert_eq!(a.count_failure(), 5, "recovering: the next failure is the fifth");
    assert_eq!(endpoint_set.eject(&a, &settings(50), at(31)), ejected(60), "the second ejection");
    endpoint_set.end_ejections(at(91));
    assert_eq!(endpoint_set.eject(&a, &settings(50), at(92)), ejected(90));
    endpoint_set.end_ejections(at(182));
    assert_eq!(endpoint_set.eject(&a, &settings(50), at(183)), ejected(100), "never longer than max-time");
    endpoint_set.end_ejections(at(283));
    assert_eq!(
        endpoint_set.eject(&a, &settings(50), at(283 + 95)),
        ejected(60),
        "each base time without ejection shortens the next"
    );
    endpoint_set.end_ejections(at(500));
    assert_eq!(endpoint_set.eject(&a, &settings(50), at(5000)), ejected(30), "history forgotten");
}

#[test]
fn failed_checks_exclude_an_endpoint_and_ejections_only_deprioritize_it() {
    let mut endpoint_set = endpoint_set(&["a", "b"]);
    let (a, b) = (endpoint(&endpoint_set, "a"), endpoint(&endpoint_set, "b"));
    endpoint_set.set_health(&b, Health::Unhealthy, Instant::now());
    endpoint_set.eject(&a, &settings(100), Instant::now());
    assert_eq!(shown(&endpoint_set), "/ a", "used if no healthy one is left");
    assert_eq!(endpoint_set.set_health(&a, Health::Unhealthy, Instant::now()), Some(EndpointChange::Unhealthy));
    assert!(endpoint_set.snapshot(Instant::now()).is_empty(), "unhealthy endpoints get no request");
    assert_eq!(endpoint_set.set_health(&a, Health::Healthy, Instant::now()), Some(EndpointChange::Healthy));
    assert_eq!(shown(&endpoint_set), "/ a", "a passed check does not end an ejection");
    endpoint_set.clear_ejections(Instant::now());
    assert_eq!(shown(&endpoint_set), "a /");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ejections_never_exceed_the_allowed_share(
        count in 1_usize..20,
        max_percent in 0_u8..=100,
        events in proptest::collection::vec((0_usize..20, 0_u64..60), 0..60),
    ) {
        let names: Vec<String> = (0..count).map(|n| format!("e{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut endpoint_set = endpoint_set(&names);
        let mut now = Instant::now();
        for (which, secs) in events {
            now += Duration::from_secs(secs);
            endpoint_set.end_ejections(now);
            let endpoint = endpoint(&endpoint_set, names[which % count]);
            endpoint_set.eject(&endpoint, &settings(max_percent), now);
            let states: Vec<EndpointState> = endpoint_set.states().map(|(_, state)| state).collect();
            let ejected = states.iter().filter(|state| **state == EndpointState::Ejected).count();
            prop_assert!(ejected * 100 <= count * usize::from(max_percent));
            let snapshot = endpoint_set.snapshot(Instant::now());
            let of = |tiers: &[Vec<WeightedEndpoint>]| tiers.iter().map(Vec::len).sum::<usize>();
            prop_assert_eq!((of(&snapshot.healthy), of(&snapshot.ejected)), (count - ejected, ejected));
        }
    }
}

#[test]
fn a_drained_endpoint_is_not_selected_until_the_drain_ends() {
    let mut endpoint_set = endpoint_set(&["a", "b", "c"]);
    let now = Instant::now();
    let minute = Duration::from_secs(60);
    let drain = |set: &mut EndpointSet, name: &str, time| {
        set.drain(&format!("http://{name}:80"), time, false, now).map(|endpoint| endpoint.address().host.clone())
    };
    assert_eq!(drain(&mut endpoint_set, "a", minute), Ok("a".into()));
    assert_eq!(shown(&endpoint_set), "b c /");
    assert_eq!(drain(&mut endpoint_set, "x", minute), Err(DrainError::Unknown));
    let (b, c) = (endpoint(&endpoint_set, "b"), endpoint(&endpoint_set, "c"));
    endpoint_set.eject(&b, &settings(50), now);
    assert_eq!(drain(&mut endpoint_set, "c", minute), Ok("c".into()), "an ejected endpoint gets requests if need be");
    assert_eq!(shown(&endpoint_set), "/ b");
    assert_eq!(drain(&mut endpoint_set, "b", minute), Err(DrainError::Last));
    assert_eq!(drain(&mut endpoint_set, "a", 2 * minute), Ok("a".into()), "longer");
    assert_eq!(endpoint_set.next_end(), Some(now + Duration::from_secs(30)));
    endpoint_set.replace(&[listed("c", 2, 0), listed("a", 1, 0), listed("b", 1, 0)], Instant::now());
    assert_eq!(shown(&endpoint_set), "/ b", "a new list keeps drains");
    let ended = endpoint_set.end_drains(now + minute);
    assert!(matches!(ended.as_slice(), [(ended, EndpointChange::DrainEnded)] if Arc::ptr_eq(ended, &c)));
    assert_eq!(shown(&endpoint_set), "c / b");
    assert!(matches!(endpoint_set.end_drain("http://a:80"), Ok(Some(_))));
    assert!(matches!(endpoint_set.end_drain("http://a:80"), Ok(None)));
    assert_eq!(shown(&endpoint_set), "c a / b");
    let all = ["a", "b", "c"].map(|name| endpoint_set.drain(&format!("http://{name}:80"), minute, true, now).is_ok());
    assert_eq!((all, shown(&endpoint_set)), ([true; 3], "/".to_owned()));
}
