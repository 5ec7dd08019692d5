//! Predicates that imply others, each request that one accepts the other accepts too, and predicates that exclude others.

use crate::predicate::path::Path;
use crate::predicate::{Kind, Predicate};

// === impl Predicate ===

impl Predicate {
    /// Returns true if each request that all of `later` accept is certainly accepted, or left open, by all of `earlier`.
    /// A route with the predicates `later` then never gets a request behind a route with `earlier`.
    ///
    /// False means that no such request is excluded: patterns are compared by their segments, and other predicates are
    /// compared as a whole.
    #[must_use]
    pub fn all_imply(later: &[Self], earlier: &[Self]) -> bool {
        earlier.iter().all(|earlier| later.iter().any(|later| later.implies(earlier)))
    }

    pub(super) fn implies(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (_, Kind::All(members)) => members.iter().all(|member| self.implies(member)),
            (Kind::Any(members), _) => members.iter().all(|member| member.implies(other)),
            (_, Kind::Any(members)) if members.iter().any(|member| self.implies(member)) => true,
            (Kind::All(members), _) => members.iter().any(|member| member.implies(other)),
            (Kind::Path(path), Kind::Path(other)) => path_implies(path, other),
            (Kind::Method(method), Kind::Method(other)) => method.methods().iter().all(|m| other.methods().contains(m)),
            _ => self.is_exact() && self == other,
        }
    }

    /// Returns the text of a predicate that only equal ones imply, which have the same text; `None` for any other predicate.
    pub(crate) fn exact_text(&self) -> Option<String> {
        self.is_exact().then(|| self.to_string())
    }

    /// Returns true if only equal predicates imply this one. Decisions by chance imply nothing.
    fn is_exact(&self) -> bool {
        match &self.0 {
            Kind::Host(_) | Kind::Other(_) => true,
            Kind::Not(member) => !member.draws_lots(),
            Kind::Path(_) | Kind::Method(_) | Kind::Weight(_) | Kind::Any(_) | Kind::All(_) => false,
        }
    }

    /// Returns true if the decision depends on chance.
    fn draws_lots(&self) -> bool {
        match &self.0 {
            Kind::Weight(_) => true,
            Kind::Any(members) | Kind::All(members) => members.iter().any(Self::draws_lots),
            Kind::Not(member) => member.draws_lots(),
            Kind::Path(_) | Kind::Host(_) | Kind::Method(_) | Kind::Other(_) => false,
        }
    }
}

fn path_implies(path: &Path, other: &Path) -> bool {
    let slash = other.matches_trailing_slash() || !path.matches_trailing_slash();
    let covered = |pattern: &_| other.patterns().iter().any(|wider| wider.covers(pattern, slash));
    path.patterns().iter().all(covered)
}

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
    use crate::{HostPort, RequestView};

    fn path(patterns: &[&str]) -> Predicate {
        let patterns: Vec<String> = patterns.iter().map(|&text| text.to_owned()).collect();
        Predicate::path(&patterns, false).unwrap()
    }

    fn method(methods: &[&str]) -> Predicate {
        let methods: Vec<String> = methods.iter().map(|&text| text.to_owned()).collect();
        Predicate::method(&methods).unwrap()
    }

    #[test]
    fn a_path_implies_the_patterns_that_cover_it() {
        for (narrow, wide) in [
            ("/a/b", "/**"),
            ("/**", "/**"),
            ("/", "/**"),
            ("/a/**", "/a/**"),
            ("/a", "/a/**"),
            ("/a/b/c?", "/a/**"),
            ("/a/*/c", "/a/*/**"),
            ("/a/b", "/a/{id}"),
            ("/a/{name}", "/a/*"),
            ("/a/{id:[0-9]+}", "/{x}/{y}"),
            ("/a/b*", "/a/b*"),
            ("/a/*", "/a/**"),
            ("/a/{*rest}", "/a/**"),
        ] {
            assert!(path(&[narrow]).implies(&path(&[wide])), "{narrow} {wide}");
        }
        for (narrow, wide) in [
            ("/**", "/a/**"),
            ("/a/**", "/a/*"),
            ("/a/**", "/a/b/**"),
            ("/a", "/b/**"),
            ("/A/b", "/a/**"),
            ("/a/*", "/a/{id}"),
            ("/a/*", "/a/*/**"),
            ("/a/", "/a/{id}"),
            ("/a/b/c", "/a/{id}"),
            ("/a/{id}", "/a/b"),
            ("/a/{id}", "/a/{id:[0-9]+}"),
            ("/a", "/a/{id}/**"),
        ] {
            assert!(!path(&[narrow]).implies(&path(&[wide])), "{narrow} {wide}");
        }
    }

    #[test]
    fn all_patterns_and_all_conditions_must_be_covered() {
        let all = [path(&["/**"])];
        assert!(Predicate::all_imply(&[path(&["/a", "/b"])], &all));
        assert!(Predicate::all_imply(&[path(&["/a"]), method(&["GET"])], &[path(&["/a", "/b"])]));
        assert!(Predicate::all_imply(&[method(&["GET"]), path(&["/a"])], &[path(&["/a"]), method(&["GET", "PUT"])]));
        assert!(!Predicate::all_imply(&[path(&["/a", "/b"])], &[path(&["/a"])]));
        assert!(!Predicate::all_imply(&[path(&["/a"])], &[path(&["/a"]), method(&["GET"])]));
        assert!(!Predicate::all_imply(&[path(&["/a"]), method(&["GET", "PUT"])], &[path(&["/a"]), method(&["GET"])]));
        let slash = Predicate::path(&["/a".to_owned()], true).unwrap();
        assert!(path(&["/a"]).implies(&slash) && !slash.implies(&path(&["/a"])));
    }

    #[test]
    fn other_predicates_imply_equal_ones_of_their_kind_only() {
        let header = |regexp: Option<&str>| Predicate::header("X-Id", regexp).unwrap();
        let cookie = Predicate::cookie("X-Id", "a.*").unwrap();
        assert!(header(Some("a.*")).implies(&header(Some("a.*"))) && header(None).implies(&header(None)));
        assert!(!header(Some("a.*")).implies(&header(Some("b.*"))) && !header(Some("a.*")).implies(&header(None)));
        assert!(!header(Some("a.*")).implies(&cookie) && !cookie.implies(&header(Some("a.*"))));
        let host = |port| Predicate::host(&["**.org".to_owned()], port).unwrap();
        assert!(host(HostPort::Optional).implies(&host(HostPort::Optional)));
        assert!(!host(HostPort::Optional).implies(&host(HostPort::Included)), "their texts are equal");
        let not = |predicate| Predicate::negated(predicate);
        assert!(not(path(&["/a"])).implies(&not(path(&["/a"]))) && !not(path(&["/a"])).implies(&not(path(&["/b"]))));
    }

    #[test]
    fn weighted_routes_cover_none() {
        let weight = || Predicate::weight("g", 5);
        assert!(!Predicate::all_imply(&[path(&["/a"]), weight()], &[path(&["/a"]), weight()]));
        assert!(Predicate::all_imply(&[path(&["/a"]), weight()], &[path(&["/**"])]));
    }

    fn one_path(pattern: &str, slash: bool) -> Predicate {
        Predicate::path(&[pattern.to_owned()], slash).unwrap()
    }

    #[test]
    fn paths_with_other_text_or_another_length_exclude_each_other() {
        for (one, other) in
            [("/a/**", "/b/**"), ("/a/{id}", "/a/{id}/items"), ("/a", "/a/b/**"), ("/{x}/b", "/a/c/**"), ("/", "/a")]
        {
            assert!(one_path(one, false).excludes(&one_path(other, false)), "{one} {other}");
        }
        for (one, other) in [("/a/**", "/{x}/b"), ("/a", "/a/**"), ("/a*", "/ab"), ("/**", "/a"), ("/{x:b}", "/a")] {
            assert!(!one_path(one, false).excludes(&one_path(other, false)), "{one} {other}");
        }
        assert!(!one_path("/a", true).excludes(&one_path("/a/*", false)), "`/a/` matches both");
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
        assert!(Predicate::exclude(&[one_path("/**", false), method(&["GET"])], &[header(), method(&["PUT"])]));
        assert!(!Predicate::exclude(&[one_path("/**", false)], &[]));
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
