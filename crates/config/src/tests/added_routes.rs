//! Routes of several files.

use crate::Target;
use crate::tests::files::Folder;

const TWO: &str = "[{id: a, uri: 'http://a', predicates: [Path=/a]}, {id: b, uri: 'http://b', predicates: [Path=/b]}]";

fn ids(folder: &Folder, files: &[&str]) -> String {
    let routes = folder.load(files, None).unwrap_or_else(|error| panic!("{error}")).config.routes;
    let host = |target: &Target| match target {
        Target::Http { host, .. } => host.clone(),
        other => panic!("{other:?}"),
    };
    routes.iter().map(|route| format!("{}>{} ", route.id, host(&route.uri))).collect()
}

#[test]
fn a_list_of_routes_that_replaces_another_is_reported() {
    let one = "{id: c, uri: 'http://c', predicates: [Path=/c]}";
    let spring = format!("spring.cloud.gateway.routes: {TWO}\n");
    for (base, over, key) in [
        (spring.clone(), format!("spring.cloud.gateway.routes: [{one}]\n"), "spring.cloud.gateway.routes"),
        (spring.clone(), format!("spring.cloud.gateway.routes[2]: {one}\n"), "spring.cloud.gateway.routes"),
        (format!("routes: {TWO}\n"), format!("routes: [{one}]\n"), "routes"),
        (format!("tollgate.routes: {TWO}\n"), format!("tollgate: {{routes: [{one}]}}\n"), "tollgate.routes"),
    ] {
        let folder = Folder::of(&[("a.yml", &base), ("b.yml", &over)]);
        let notes = folder.notes(&["a.yml", "b.yml"]);
        let expected = format!("b.yml:1:1: warning: `{key}` here replaces the list at a.yml:1:1");
        let expected =
            expected.replace("b.yml:1:1", if over.starts_with("tollgate:") { "b.yml:1:12" } else { "b.yml:1:1" });
        assert!(notes.contains(&expected), "{notes}");
        assert!(notes.contains("`tollgate: {routes: […]}` adds routes"), "{notes}");
    }
    let folder = Folder::of(&[("a.yml", &spring), ("a-prod.yml", &format!("spring.cloud.gateway.routes: [{one}]\n"))]);
    let loaded = folder.load(&["a.yml"], Some("prod")).unwrap();
    assert!(
        loaded.notes.to_string().contains("note: `spring.cloud.gateway.routes` here replaces the list"),
        "{}",
        loaded.notes
    );
    let none = Folder::of(&[("a.yml", &spring), ("b.yml", "spring.cloud.gateway.routes: []\nserver.port: 1\n")]);
    assert!(
        none.load(&["a.yml", "b.yml"], None)
            .unwrap()
            .notes
            .to_string()
            .contains("note: `spring.cloud.gateway.routes` here replaces")
    );
}

#[test]
fn routes_below_tollgate_without_a_value_add_none_and_remove_none() {
    for own in ["tollgate: {routes: }\n", "tollgate:\n  routes:\n", "tollgate.routes: ~\n", "tollgate: {routes: []}\n"]
    {
        let folder = Folder::of(&[("a.yml", &format!("spring.cloud.gateway.routes: {TWO}\n")), ("b.yml", own)]);
        assert_eq!(ids(&folder, &["a.yml", "b.yml"]), "a>a b>b ", "{own}");
    }
}

#[test]
fn routes_below_tollgate_are_added_to_those_of_the_file_or_replace_them_by_id() {
    let own = "tollgate: {routes: [{id: b, uri: 'http://x', predicates: [Path=/b]}, {id: c, uri: 'http://c', predicates: [Path=/c]}]}\n";
    for root in ["spring.cloud.gateway.routes", "spring.cloud.gateway.server.webflux.routes", "routes"] {
        let folder = Folder::of(&[("a.yml", &format!("{root}: {TWO}\n")), ("b.yml", own)]);
        let expected = "a>a b>x c>c ";
        assert_eq!(ids(&folder, &["a.yml", "b.yml"]), expected, "{root}");
        assert_eq!(ids(&folder, &["b.yml", "a.yml"]), expected, "{root}");
        assert!(!folder.notes(&["a.yml", "b.yml"]).contains("replaces the list"));
        folder.write("a.yml", &format!("{root}: {TWO}\n{own}"));
        assert_eq!(ids(&folder, &["a.yml"]), expected, "{root}");
    }
}
