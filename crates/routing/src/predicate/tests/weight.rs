use proptest::prelude::*;

use super::{Predicate, Request};
use crate::RouteTable;

/// Returns the positions of the routes that requests with these random numbers take.
fn selected(routes: Vec<Vec<Predicate>>, randoms: impl Iterator<Item = u64>) -> Vec<Option<usize>> {
    let table = RouteTable::new(routes.into_iter().map(|predicates| (predicates, ())).collect());
    randoms
        .map(|random| table.find(&Request { random, ..Request::get() }.view()).unwrap().map(|found| found.index))
        .collect()
}

fn weights(weights: &[(&str, u32)]) -> Vec<Vec<Predicate>> {
    weights.iter().map(|(group, weight)| vec![Predicate::weight(group, *weight)]).collect()
}

#[test]
fn routes_are_selected_in_proportion_to_their_weights() {
    let drawn = selected(weights(&[("g", 8), ("g", 0), ("g", 2)]), 0..100_000);
    let share = |route| drawn.iter().filter(|selected| **selected == Some(route)).count();
    // Five standard deviations of a binomial are 633.
    assert!(share(0).abs_diff(80_000) < 633, "{}", share(0));
    assert_eq!((share(0) + share(2), share(1)), (100_000, 0));
}

#[test]
fn the_same_random_number_selects_the_same_route() {
    let again = |random: u64| selected(weights(&[("g", 1), ("g", 1)]), std::iter::repeat_n(random, 3));
    for random in 0..50 {
        assert!(again(random).windows(2).all(|pair| pair[0] == pair[1]));
    }
}

#[test]
fn groups_select_independently() {
    let both = |first, second| vec![Predicate::weight("a", first), Predicate::weight("b", second)];
    let routes = vec![both(1, 1), vec![Predicate::weight("a", 1)], vec![Predicate::weight("b", 1)]];
    let drawn = selected(routes, 0..40_000);
    let share = |route| drawn.iter().filter(|selected| **selected == route).count();
    // Both for the first, `a` alone for the second, `b` alone for the third: half of a half each.
    for (route, expected) in [(Some(0), 10_000), (Some(1), 20_000), (Some(2), 10_000)] {
        assert!(share(route).abs_diff(expected) < 500, "{route:?}: {}", share(route));
    }
}

#[test]
fn a_group_of_zeros_selects_no_route_and_a_single_route_is_always_selected() {
    assert_eq!(selected(weights(&[("g", 0), ("g", 0)]), 0..3), [None; 3]);
    assert_eq!(selected(weights(&[("g", 1)]), 0..3), [Some(0); 3]);
    assert!(Predicate::weight("g", 1).matches(&Request::get().view()), "outside of a table");
}

#[test]
fn routes_are_selected_before_other_predicates_are_tested() {
    let mut routes = weights(&[("g", 1), ("g", 1)]);
    routes[0].insert(0, Predicate::path(&["/other".to_owned()], false).unwrap());
    let drawn = selected(routes, 0..1_000);
    assert!(drawn.contains(&None) && drawn.contains(&Some(1)) && !drawn.contains(&Some(0)));
}

#[test]
fn the_last_weight_of_a_route_in_a_group_counts() {
    let twice = vec![Predicate::weight("g", 1), Predicate::weight("g", 3)];
    let drawn = selected(vec![twice, vec![Predicate::weight("g", 1)]], 0..40_000);
    let first = drawn.iter().filter(|selected| **selected == Some(0)).count();
    assert!(first.abs_diff(30_000) < 450, "{first}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn exactly_one_route_of_a_group_is_selected(
        list in prop::collection::vec((0_usize..3, prop_oneof![0_u32..4, any::<u32>()]), 1..12),
        random in any::<u64>(),
    ) {
        let names = ["a", "b", "c"];
        let named: Vec<_> = list.iter().map(|(group, weight)| (names[*group], *weight)).collect();
        let table = RouteTable::new(weights(&named).into_iter().map(|predicates| (predicates, ())).collect());
        let request = Request { random, ..Request::get() };
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
