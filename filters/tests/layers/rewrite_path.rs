//! `RewritePath` compared with the documentation of `java.lang.String.replaceAll`.

use std::sync::{Arc, Mutex};

use http::{Request, Response};
use proptest::prelude::*;
use tollgate_filters::edit::{Edit, EditLayer};
use tower::{Layer, ServiceExt};

use crate::support::{Body, upstream};

async fn rewritten(edit: Edit, uri: &str) -> String {
    let seen = Arc::new(Mutex::new(String::new()));
    let inner = upstream(&Arc::default(), {
        let seen = Arc::clone(&seen);
        move |request: &Request<()>| {
            *seen.lock().unwrap() = request.uri().to_string();
            Response::<Body>::default()
        }
    });
    let request = Request::builder().uri(uri).body(()).unwrap();
    EditLayer::new([edit]).layer(inner).oneshot(request).await.unwrap();
    seen.lock().unwrap().clone()
}

#[tokio::test]
async fn an_edit_that_makes_a_dot_segment_is_refused() {
    for (replacement, uri) in [
        ("/${r}", "/x../admin"),
        ("/a/${r}", "/x.."),
        ("/${r}", "/x./a"),
        ("/${r}", "/x..;v=1/admin"),
        ("/%2E${r}", "/x./admin"),
    ] {
        let inner = upstream(&Arc::default(), |_: &Request<()>| panic!("the upstream saw {uri}"));
        let edit = Edit::rewrite_path("/x(?<r>.*)", replacement).unwrap();
        let request = Request::builder().uri(uri).body(()).unwrap();
        let response = EditLayer::new([edit]).layer(inner).oneshot(request).await.unwrap();
        assert_eq!(response.status(), 400, "{replacement} of {uri}");
    }
    // The raw path is matched, so a digit may be part of an escape.
    let broken = Edit::rewrite_path("\\d+", "n").unwrap();
    assert_eq!(rewritten(broken, "/a%D9%A1").await, "", "refused");
    let edit = Edit::rewrite_path("/x(?<r>.*)", "/${r}").unwrap();
    assert_eq!(rewritten(edit, "/x.well-known/...").await, "/.well-known/...");
}

#[tokio::test]
async fn paths_are_rewritten_as_java_does() {
    for (regexp, replacement, uri, expected) in [
        // The example of Spring's documentation, with its `$\`.
        ("/red/?(?<segment>.*)", r"/$\{segment}", "/red/blue", "/blue"),
        ("/red/?(?<segment>.*)", "/${segment}", "/red", "/"),
        ("/foo/(?<id>\\d+)/(.*)", "/$2/$1", "/foo/7/x/y?q=1", "/x/y/7?q=1"),
        // Not anchored, all occurrences.
        ("a", "b", "/a/ca/a", "/b/cb/b"),
        ("^/a", "/b", "/a/a", "/b/a"),
        ("/+", "/", "//a///b", "/a/b"),
        // Without a match, the URI is unchanged.
        ("/nothing", "/x", "/a//b?c#", "/a//b?c"),
        // An empty match after another match counts.
        (".*", "/x", "/foo", "/x/x"),
        ("a*", "-", "/baaac", "/-/-b--c-"),
        ("$", "/end", "/a", "/a/end"),
        // The query is not matched, and stays.
        ("q", "z", "/q?q=q", "/z?q=q"),
        // Parameters of the replacement precede the request's.
        ("/(\\w+)/v(\\d+)/x", "/x?lang=$1&v=$2", "/de/v2/x", "/x?lang=de&v=2"),
        ("/(\\w+)/x", "/x?lang=$1", "/de/x?q=1", "/x?lang=de&q=1"),
        ("/(\\w+)/x", "/x?lang=$1&", "/de/x?q=1", "/x?lang=de&q=1"),
        ("/a", "/x?", "/a?q=1", "/x?q=1"),
        // Group numbers take as many digits as there are groups.
        ("/(a)(b)", "/$2$11", "/ab", "/ba1"),
        ("/(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)", "/$10$1", "/abcdefghij", "/ja"),
        ("/a", "$0$0", "/a", "/a/a"),
        // Groups that did not match are empty.
        ("/(a)?b", "/[$1]", "/b", "/%5B%5D"),
        // Backslashes escape.
        ("/a", r"/\$1\\", "/a", "/$1%5C"),
        ("/a", "/b c", "/a", "/b%20c"),
        // Classes are ASCII by default, and the raw path is matched.
        ("(?i)/API/", "/v1/", "/api/x", "/v1/x"),
        ("%20", "_", "/a%20b", "/a_b"),
        ("\\d+", "n", "/a12%DB%AF", "/an%DB%AF"),
        // Look-around, back-references and possessive quantifiers.
        ("/(?!v1/)(.*)", "/v1/$1", "/a", "/v1/a"),
        ("^/(?!v1/)", "/v1/", "/v1/a", "/v1/a"),
        ("(?<=/)a(?=/|$)", "b", "/a/ca/a", "/b/ca/b"),
        (r"/(\w+)/\1", "/$1", "/a/a/b", "/a/b"),
        ("/[^/]++/", "/x/", "/abc/d", "/x/d"),
        // A leading slash is added.
        ("/api/(.*)", "$1", "/api/x", "/x"),
    ] {
        let edit = Edit::rewrite_path(regexp, replacement).unwrap();
        assert_eq!(rewritten(edit, uri).await, expected, "{regexp} -> {replacement} on {uri}");
    }
}

#[test]
fn invalid_expressions_and_replacements_are_rejected() {
    for (regexp, replacement, part) in [
        (r"/a\G", "/x", r"`\G` is not supported"),
        ("/a(", "/x", "unclosed group"),
        ("/(a)", "/$2", "no group 2"),
        ("/(a)", "/${name}", "no group `name`"),
        ("/(?<name>a)", "/${name", "is not closed: add `}`"),
        ("/(?<name>a)", "/${", "is not closed: add `}`"),
        ("/a", "/$", "must be followed by a group"),
        ("/a", "/$x", "must be followed by a group"),
        ("/a", "/\\", "nothing follows"),
        ("/a", "/b#c", "contains `#`"),
    ] {
        match Edit::rewrite_path(regexp, replacement) {
            Ok(edit) => panic!("{regexp} -> {replacement} was accepted: {edit:?}"),
            Err(error) => assert!(error.to_string().contains(part), "{error}"),
        }
    }
}

proptest! {
    #[test]
    fn replacing_a_literal_equals_str_replace(path in "/[a-c/]{0,20}", from in "[a-c]{1,2}", to in "[a-c/]{0,3}") {
        let edit = Edit::rewrite_path(&from, &to).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let uri = runtime.block_on(rewritten(edit, &path));
        prop_assert_eq!(uri, path.replace(&from, &to));
    }

    #[test]
    fn any_rewrite_gives_a_path_without_dot_segments_or_is_refused(path in "/[!-~&&[^?#]]{0,20}", regexp in "[a.*()/%|]{0,6}", replacement in "\\PC{0,6}") {
        let (Ok(edit), true) = (Edit::rewrite_path(&regexp, &replacement), path.parse::<http::Uri>().is_ok()) else {
            return Ok(());
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let uri = runtime.block_on(rewritten(edit, &path));
        if uri.is_empty() || uri == path {
            return Ok(()); // refused, or without a match
        }
        prop_assert!(uri.starts_with('/'), "{}", uri);
        prop_assert!(uri.split('/').all(|segment| segment != "." && segment != ".."), "{}", uri);
    }
}
