//! Predicates that exclude others: no request certainly matches both.

use super::path::Path;
use super::{Kind, Predicate};

// === impl Predicate ===

impl Predicate {
    /// Returns true if no request certainly matches all of `these` and all of `those`.
    ///
    /// False means that no such request was excluded: methods and the plain text and length of paths are compared, and whole
    /// predicates with negated ones.
    #[must_use]
    pub fn exclude(these: &[Self], those: &[Self]) -> bool {
        these.iter().any(|this| those.iter().any(|that| this.excludes(that)))
    }

    fn excludes(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Kind::Any(members), _) => members.iter().all(|member| member.excludes(other)),
            (_, Kind::Any(members)) => members.iter().all(|member| self.excludes(member)),
            (Kind::All(members), _) => members.iter().any(|member| member.excludes(other)),
            (_, Kind::All(members)) => members.iter().any(|member| self.excludes(member)),
            (Kind::Not(member), _) => other.implies(member),
            (_, Kind::Not(member)) => self.implies(member),
            (Kind::Method(method), Kind::Method(other)) => {
                !method.methods().iter().any(|m| other.methods().contains(m))
            }
            (Kind::Path(path), Kind::Path(other)) => path_excludes(path, other),
            _ => false,
        }
    }
}

fn path_excludes(path: &Path, other: &Path) -> bool {
    let slash = path.matches_trailing_slash() || other.matches_trailing_slash();
    path.patterns().iter().all(|pattern| other.patterns().iter().all(|other| pattern.excludes(other, slash)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use http::{HeaderMap, Method, Uri};
    use proptest::prelude::*;

    use super::*;
    use crate::RequestView;

    fn path(pattern: &str, slash: bool) -> Predicate {
        Predicate::path(&[pattern.to_owned()], slash).unwrap()
    }

    fn method(methods: &[&str]) -> Predicate {
        let methods: Vec<String> = methods.iter().map(|&text| text.to_owned()).collect();
        Predicate::method(&methods).unwrap()
    }

    #[test]
    fn paths_with_other_text_or_another_length_exclude_each_other() {
        for (one, other) in
            [("/a/**", "/b/**"), ("/a/{id}", "/a/{id}/items"), ("/a", "/a/b/**"), ("/{x}/b", "/a/c/**"), ("/", "/a")]
        {
            assert!(path(one, false).excludes(&path(other, false)), "{one} {other}");
        }
        for (one, other) in [("/a/**", "/{x}/b"), ("/a", "/a/**"), ("/a*", "/ab"), ("/**", "/a"), ("/{x:b}", "/a")] {
            assert!(!path(one, false).excludes(&path(other, false)), "{one} {other}");
        }
        assert!(!path("/a", true).excludes(&path("/a/*", false)), "`/a/` matches both");
    }

    #[test]
    fn methods_and_negations_exclude_what_they_lack() {
        assert!(method(&["GET", "HEAD"]).excludes(&method(&["POST"])));
        assert!(!method(&["GET", "HEAD"]).excludes(&method(&["HEAD", "POST"])));
        let not_get = Predicate::negated(method(&["GET"]));
        assert!(method(&["GET"]).excludes(&not_get) && not_get.excludes(&method(&["GET"])));
        assert!(!method(&["GET", "POST"]).excludes(&not_get) && !not_get.excludes(&not_get));
        let header = || Predicate::header("X-Id", None).unwrap();
        assert!(header().excludes(&Predicate::negated(header())));
        assert!(Predicate::exclude(&[path("/**", false), method(&["GET"])], &[header(), method(&["PUT"])]));
        assert!(!Predicate::exclude(&[path("/**", false)], &[]));
    }

    fn predicate() -> impl Strategy<Value = Predicate> {
        let patterns = vec!["/**", "/", "/a", "/a/", "/a/*", "/a/**", "/*/b", "/b/{x}", "/{y:a.?}", "/a/**/b", "/a?/b"];
        let paths = (prop::collection::vec(prop::sample::select(patterns), 1..3), any::<bool>()).prop_map(
            |(patterns, slash)| {
                let patterns: Vec<String> = patterns.into_iter().map(str::to_owned).collect();
                Predicate::path(&patterns, slash).unwrap()
            },
        );
        let methods = prop::sample::subsequence(vec!["GET", "PUT", "POST"], 1..3).prop_map(|methods| method(&methods));
        let one = prop_oneof![3 => paths, 1 => methods];
        one.prop_recursive(2, 6, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..3).prop_map(Predicate::any),
                prop::collection::vec(inner.clone(), 1..3).prop_map(Predicate::all),
                inner.prop_map(Predicate::negated),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

        #[test]
        fn no_request_matches_predicates_that_exclude_each_other(one in predicate(), other in predicate()) {
            let (headers, peer) = (HeaderMap::new(), [127, 0, 0, 1].into());
            for path in ["/", "/a", "/a/", "/b", "/b/", "/ab", "/ab/b", "/a/b", "/a/b/", "/b/a", "/a/a/b", "/b/b/b", "/aa/"] {
                for method in [Method::GET, Method::PUT, Method::POST] {
                    let uri = Uri::from_static(path);
                    let view = RequestView::new(&method, &uri, &headers, peer, 0);
                    let both = one.matches(&view) && other.matches(&view);
                    prop_assert!(!(both && one.excludes(&other)), "{method} {path}: {one} {other}");
                }
            }
        }
    }
}
