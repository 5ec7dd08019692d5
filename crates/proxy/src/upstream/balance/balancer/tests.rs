#![allow(clippy::unwrap_used)]

use std::time::Duration;

use http::StatusCode;

use crate::upstream::balance::balancer::*;
use crate::upstream::balance::endpoint::endpoint_origin;
use crate::upstream::balance::endpoint_set::Health;
use crate::upstream::balance::upstream::Upstreams;
use crate::upstream::pool::PoolSettings;
use tollgate_config::{EndpointSource, Http2, ListedEndpoint, Or, Scheme};

const BAD: Outcome = Outcome::Response(StatusCode::BAD_GATEWAY);
const GOOD: Outcome = Outcome::Response(StatusCode::NOT_FOUND);

fn listed(host: &str, priority: u16) -> ListedEndpoint {
    let address = EndpointAddress { scheme: Scheme::Http, host: host.to_owned(), port: 80, name: host.to_owned() };
    ListedEndpoint { address, weight: 1, priority }
}

/// Creates an upstream of `list`, with one possible ejection after two failures, and a balancer over it.
fn balancer(list: &[ListedEndpoint], balance: Balance) -> (Arc<Upstream>, Rc<Balancer>) {
    let settings = tollgate_config::Upstream {
        name: "orders".into(),
        endpoints: EndpointSource::Listed(list.to_vec()),
        balance,
        health: None,
        slow_start: None,
        ejection: Some(Ejection {
            consecutive_failures: Or::new(2.try_into().unwrap()),
            base_time: Or::new(Duration::from_secs(60)),
            max_time: Or::new(Duration::from_secs(60)),
            ..Ejection::default()
        }),
    };
    let upstream = Upstreams::default().get(&settings.name);
    upstream.list(list);
    let pools: Rc<RefCell<PoolSettings>> = Rc::default();
    let pool_of = move |address: &EndpointAddress| {
        Pool::new(endpoint_origin(address, None, &Arc::default(), Http2::Auto), Rc::clone(&pools))
    };
    (Arc::clone(&upstream), Balancer::new(upstream, &settings, false, pool_of))
}

fn host(pick: &Pick) -> String {
    pick.pool.origin().host.clone()
}

fn pick(balancer: &Rc<Balancer>) -> Pick {
    balancer.pick(&Request::new(())).unwrap()
}

#[test]
fn a_second_attempt_goes_to_another_endpoint_while_one_is_healthy() {
    let (upstream, balancer) = balancer(&[listed("a", 0), listed("b", 0), listed("c", 1)], Balance::LeastRequest);
    for _ in 0..20 {
        let attempts = Attempts::default();
        let mut request = Request::new(());
        request.extensions_mut().insert(attempts.clone());
        let been: Vec<String> = (0..4).map(|_| host(&balancer.pick(&request).unwrap())).collect();
        assert_ne!(been[0], been[1]);
        assert_eq!(been[2], "c", "the lower priority before an endpoint that was tried");
        assert_ne!(been[3], "c", "all have been tried: the best tier is used again");
    }
    let first = pick(&balancer);
    let second = first.another().unwrap();
    let third = second.another().unwrap();
    assert!(third.another().is_none());
    let mut been = [host(&first), host(&second), host(&third)];
    assert_eq!(been[2], "c");
    been.sort();
    assert_eq!(been, ["a", "b", "c"]);
    let in_flight = || upstream.states().iter().map(|(endpoint, _)| endpoint.in_flight()).sum::<u32>();
    assert_eq!(in_flight(), 3);
    drop((first, second, third));
    assert_eq!(in_flight(), 0);
}

#[test]
fn only_consecutive_failures_eject() {
    let (upstream, balancer) = balancer(&[listed("a", 0), listed("b", 0)], Balance::RoundRobin);
    let ejections = || upstream.stats().ejections.load(Relaxed);
    let of = |name: &str| {
        let pick = pick(&balancer);
        if host(&pick) == name { pick } else { pick.another().unwrap() }
    };
    for outcomes in [[BAD, GOOD, BAD, GOOD], [BAD, Outcome::ClientFailed, Outcome::ClientFailed, GOOD]] {
        outcomes.into_iter().for_each(|outcome| of("a").report(outcome, None));
    }
    assert_eq!(ejections(), 0);
    of("a").report(Outcome::TimedOut, None);
    of("a").report(Outcome::ConnectFailed, None);
    assert_eq!(ejections(), 1);
    let last = pick(&balancer);
    assert_eq!(host(&last), "b");
    assert_eq!(last.another().map(|pick| host(&pick)).as_deref(), Some("a"), "an ejected endpoint before none");
    for _ in 0..9 {
        of("b").report(Outcome::Disconnected, None);
    }
    assert_eq!(ejections(), 1, "at most half of the endpoints");
    assert_eq!(host(&pick(&balancer)), "b");
    let (b, _) = upstream.states().into_iter().find(|(endpoint, _)| endpoint.address().host == "b").unwrap();
    upstream.set_health(&b, Health::Unhealthy);
    assert_eq!(host(&pick(&balancer)), "a", "an ejected endpoint, if no healthy one is left");
    upstream.list(&[listed("b", 0)]);
    assert!(matches!(balancer.pick(&Request::new(())), Err(ForwardError::NoEndpoint { as_not_found: false })));
    assert_eq!(upstream.stats().unavailable.load(Relaxed), 1);
}
