//! `slow-start`: the share of an endpoint that joins others grows.

use super::*;

#[test]
fn an_endpoint_that_joins_others_starts_with_a_tenth_of_its_share() {
    let (a, b) = (named("a"), named("b"));
    let settings = |servers: &[&Upstream], slow_start: &str| {
        let text = format!("{}, balance: round-robin, slow-start: {slow_start}", endpoints(servers));
        yaml(&[("orders", text)], "")
    };
    let gateway = Gateway::start(&settings(&[&a], "1h"));
    assert_eq!(shares(&gateway, "/orders/x", 10, &[]), [share("a", 10)].into());
    gateway.reload(&settings(&[&a, &b], "1h"));
    let slow = shares(&gateway, "/orders/x", 110, &[]);
    // Each second the turns begin anew, with any endpoint.
    assert!((5..=25).contains(&slow["b"]), "{slow:?}");
    gateway.reload(&settings(&[&a, &b], "10ms"));
    eventually("the start is over", || {
        shares(&gateway, "/orders/x", 20, &[]) == [share("a", 10), share("b", 10)].into()
    });
}
