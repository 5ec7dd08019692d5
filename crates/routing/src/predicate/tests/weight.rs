use proptest::prelude::*;

use super::{Predicate, Request};
use crate::RouteTable;

/// The routes that requests with these random numbers take, by place.
fn taken(routes: Vec<Vec<Predicate>>, chances: impl Iterator<Item = u64>) -> Vec<Option<usize>> {
    let table = RouteTable::new(routes.into_iter().map(|predicates| (predicates, ())).collect());
    chances.map(|chance| table.find(&Request { chance, ..Request::get() }.view()).map(|found| found.index)).collect()
}

fn weights(weights: &[(&str, u32)]) -> Vec<Vec<Predicate>> {
    weights.iter().map(|(group, weight)| vec![Predicate::weight(group, *weight)]).collect()
}

#[test]
fn routes_are_drawn_as_often_as_their_weights_say() {
    let drawn = taken(weights(&[("g", 8), ("g", 0), ("g", 2)]), 0..100_000);
    let share = |route| drawn.iter().filter(|taken| **taken == Some(route)).count();
    // Five standard deviations of a binomial are 633.
    assert!(share(0).abs_diff(80_000) < 633, "{}", share(0));
    assert_eq!((share(0) + share(2), share(1)), (100_000, 0));
}

#[test]
fn a_request_draws_the_same_route_however_often_it_asks() {
    let again = |chance: u64| taken(weights(&[("g", 1), ("g", 1)]), std::iter::repeat_n(chance, 3));
    for chance in 0..50 {
        assert!(again(chance).windows(2).all(|pair| pair[0] == pair[1]));
    }
}

#[test]
fn groups_draw_independently() {
    let both = |first, second| vec![Predicate::weight("a", first), Predicate::weight("b", second)];
    let routes = vec![both(1, 1), vec![Predicate::weight("a", 1)], vec![Predicate::weight("b", 1)]];
    let drawn = taken(routes, 0..40_000);
    let share = |route| drawn.iter().filter(|taken| **taken == route).count();
    // Both for the first, `a` alone for the second, `b` alone for the third: half of a half each.
    for (route, expected) in [(Some(0), 10_000), (Some(1), 20_000), (Some(2), 10_000)] {
        assert!(share(route).abs_diff(expected) < 500, "{route:?}: {}", share(route));
    }
}

#[test]
fn nothing_is_drawn_in_a_group_of_zeros_and_a_lone_route_always_is() {
    assert_eq!(taken(weights(&[("g", 0), ("g", 0)]), 0..3), [None; 3]);
    assert_eq!(taken(weights(&[("g", 1)]), 0..3), [Some(0); 3]);
    assert!(Predicate::weight("g", 1).matches(&Request::get().view()), "in no table");
}

#[test]
fn the_draw_comes_before_the_other_predicates() {
    let mut routes = weights(&[("g", 1), ("g", 1)]);
    routes[0].insert(0, Predicate::path(&["/other".to_owned()], false).unwrap());
    let drawn = taken(routes, 0..1_000);
    assert!(drawn.contains(&None) && drawn.contains(&Some(1)) && !drawn.contains(&Some(0)));
}

#[test]
fn the_last_weight_of_a_route_in_a_group_counts() {
    let twice = vec![Predicate::weight("g", 1), Predicate::weight("g", 3)];
    let drawn = taken(vec![twice, vec![Predicate::weight("g", 1)]], 0..40_000);
    let first = drawn.iter().filter(|taken| **taken == Some(0)).count();
    assert!(first.abs_diff(30_000) < 450, "{first}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn exactly_one_route_of_a_group_is_drawn(
        list in prop::collection::vec((0_usize..3, prop_oneof![0_u32..4, any::<u32>()]), 1..12),
        chance in any::<u64>(),
    ) {
        let names = ["a", "b", "c"];
        let named: Vec<_> = list.iter().map(|(group, weight)| (names[*group], *weight)).collect();
        let table = RouteTable::new(weights(&named).into_iter().map(|predicates| (predicates, ())).collect());
        let request = Request { chance, ..Request::get() };
        for name in names {
            let of_group = table.iter().zip(&named).filter(|(_, (group, _))| *group == name);
            let drawn: Vec<u32> = of_group
                .filter(|((predicates, ()), _)| predicates[0].matches(&request.view()))
                .map(|(_, (_, weight))| *weight)
                .collect();
            let total: u64 = named.iter().filter(|(group, _)| *group == name).map(|(_, weight)| u64::from(*weight)).sum();
            prop_assert_eq!(drawn.len(), usize::from(total > 0));
            prop_assert!(drawn.iter().all(|weight| *weight > 0));
        }
    }
}
