//! Routes that get no request, because a route before them matches all of theirs.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::index::{Index, MAX_COVERING, PathPrefix, path_prefixes, required_keys};
use crate::path::PathPattern;
use crate::predicate::{Combination, Predicate};

/// Returns for each of `routes` the first route before it that certainly matches each of its requests, or leaves it
/// undecided; `None` without one. A route is compared with at most 1,000 routes before it, so that the time grows
/// linearly even if the index does not distinguish them, as those that differ in a regular expression only.
///
/// See [`Predicate::all_imply`].
#[must_use]
pub fn covering_routes(routes: &[&[Predicate]]) -> Vec<Option<usize>> {
    Coverage::new(routes).find_all().0
}

/// The predicates of routes, and an index of the routes that can cover others.
struct Coverage<'r> {
    routes: &'r [&'r [Predicate]],
    /// Texts of each route's predicates that only equal ones imply.
    exact: Vec<Vec<String>>,
    index: Index,
}

// === impl Coverage ===

impl<'r> Coverage<'r> {
    fn new(routes: &'r [&'r [Predicate]]) -> Self {
        let exact: Vec<Vec<String>> = routes.iter().map(|predicates| all_texts(predicates)).collect();
        let mut uses: HashMap<&str, usize> = HashMap::new();
        for text in exact.iter().flatten() {
            *uses.entry(text).or_default() += 1;
        }
        // Each route that predicates cover has at least one of these texts. Rare ones exclude the most routes.
        let rarity = |texts: &[String]| Reverse(texts.iter().filter_map(|text| uses.get(&**text)).sum::<usize>());
        let text = |predicate: &Predicate| predicate.exact_text().map(|text| vec![text]);
        let keys =
            routes.iter().map(|predicates| (path_prefixes(predicates), required_keys(predicates, &text, &rarity)));
        let index = Index::of_keys(keys);
        Self { routes, exact, index }
    }

    /// Returns the covering route of each route, and the number of pairs that were compared.
    fn find_all(&self) -> (Vec<Option<usize>>, usize) {
        let mut compared = 0;
        let covering = self.routes.iter().zip(&self.exact).enumerate().map(|(position, (later, texts))| {
            let patterns = later.iter().flat_map(Predicate::nested_path_patterns);
            let paths: Vec<PathPrefix<'_>> = patterns.map(|pattern| PathPattern::prefix(pattern).collect()).collect();
            let earlier = self.index.covering(&paths, texts).take_while(|earlier| *earlier < position);
            let mut earlier = earlier.take(MAX_COVERING).inspect(|_| compared += 1);
            earlier
                .find(|earlier| self.routes.get(*earlier).is_some_and(|earlier| Predicate::all_imply(later, earlier)))
        });
        let covering = covering.collect();
        (covering, compared)
    }
}

/// Returns the texts of all `predicates` that only equal ones imply, nested ones included.
fn all_texts(predicates: &[Predicate]) -> Vec<String> {
    let of_one = |predicate: &Predicate| match predicate.combination() {
        Some(Combination::Any(members) | Combination::All(members)) => all_texts(members),
        None => predicate.exact_text().into_iter().collect(),
    };
    let mut texts: Vec<String> = predicates.iter().flat_map(of_one).collect();
    texts.sort_unstable();
    texts.dedup();
    texts
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;
    use crate::HostPort;
    use crate::error::PredicateError;

    fn path(pattern: &str) -> Predicate {
        Predicate::path(&[pattern.to_owned()], false).unwrap()
    }

    fn host(pattern: &str) -> Predicate {
        Predicate::host(&[pattern.to_owned()], HostPort::Optional).unwrap()
    }

    fn compared(routes: &[Vec<Predicate>]) -> (Vec<Option<usize>>, usize) {
        let routes: Vec<&[Predicate]> = routes.iter().map(Vec::as_slice).collect();
        Coverage::new(&routes).find_all()
    }

    type Shape = fn(usize) -> Result<Vec<Predicate>, PredicateError>;

    /// Issue 26, F: 5,000 routes took 8 s.
    #[test]
    fn the_number_of_comparisons_grows_with_the_number_of_routes() {
        let shapes: [(&str, Shape); 5] = [
            ("path and method", |at| Ok(vec![path(&format!("/s{at}/**")), Predicate::method(&["GET".to_owned()])?])),
            ("host", |at| Ok(vec![path("/**"), host(&format!("t{at}.example.org"))])),
            ("one of several paths", |at| {
                Ok(vec![Predicate::any(vec![path(&format!("/a{at}/**")), path(&format!("/b{at}"))])])
            }),
            ("negated path", |at| Ok(vec![path("/a/**"), Predicate::negated(path(&format!("/a/{at}")))])),
            ("covered by the first one", |at| Ok(vec![path(&format!("/{{x}}/s{at}"))])),
        ];
        for (name, shape) in shapes {
            let count = |routes: usize| {
                let mut all: Vec<Vec<Predicate>> = (0..routes).map(|at| shape(at).unwrap()).collect();
                if name.starts_with("covered") {
                    all.insert(0, vec![path("/**")]);
                }
                let (covering, compared) = compared(&all);
                let expected = if name.starts_with("covered") { routes } else { 0 };
                assert_eq!(covering.iter().flatten().count(), expected, "{name}");
                compared
            };
            let (usual, tenfold) = (count(100), count(1_000));
            assert!(usual <= 100 && tenfold <= 1_000, "{name}: {usual}, {tenfold}");
        }
    }

    #[test]
    fn a_route_is_compared_with_a_bounded_number_of_others() {
        let regex = |at: usize| vec![path(&format!("/{{x:a{at}}}"))];
        let routes: Vec<Vec<Predicate>> = (0..MAX_COVERING + 100).map(regex).collect();
        let (_, compared) = compared(&routes);
        assert!(compared <= routes.len() * MAX_COVERING, "{compared}");
    }

    fn predicate() -> impl Strategy<Value = Predicate> {
        let paths = vec!["/**", "/a", "/a/**", "/a/{x}", "/a/b", "/{x}/b", "/a/*/b/**", "/{y:c.}/b", "/b/*"];
        let paths = prop::collection::vec(prop::sample::select(paths), 1..3).prop_map(|patterns| {
            let patterns: Vec<String> = patterns.into_iter().map(str::to_owned).collect();
            Predicate::path(&patterns, false).unwrap()
        });
        let hosts = prop::sample::select(vec!["x.org", "**.org", "*.x.org"]).prop_map(host);
        let methods = prop::sample::select(vec!["GET", "PUT"])
            .prop_map(|method| Predicate::method(&[method.to_owned()]).unwrap());
        let one = prop_oneof![4 => paths, 2 => hosts, 1 => methods];
        one.prop_recursive(2, 6, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..3).prop_map(Predicate::any),
                prop::collection::vec(inner.clone(), 1..3).prop_map(Predicate::all),
                inner.prop_map(Predicate::negated),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

        #[test]
        fn the_index_finds_the_same_covering_route_as_a_scan(
            routes in prop::collection::vec(prop::collection::vec(predicate(), 0..3), 0..12),
        ) {
            let scan = routes.iter().enumerate().map(|(at, later)| {
                routes[..at].iter().position(|earlier| Predicate::all_imply(later, earlier))
            });
            prop_assert_eq!(compared(&routes).0, scan.collect::<Vec<_>>());
        }
    }
}
