//! Predicates that imply others: each request that one accepts, the other accepts too.

use super::path::Path;
use super::{Kind, Predicate};

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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::HostPort;

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
}
