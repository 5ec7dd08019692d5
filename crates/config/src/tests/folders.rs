//! A folder whose files are parts of one configuration, such as `conf.d`.

use crate::tests::files::Folder;

fn route(id: &str) -> String {
    format!("routes:\n- {{id: {id}, uri: 'echo:', predicates: [Path=/{id}]}}\n")
}

fn ids(folder: &Folder, paths: &[&str], profiles: Option<&str>) -> Vec<String> {
    let loaded = folder.load(paths, profiles).unwrap_or_else(|error| panic!("{error}"));
    loaded.config.routes.iter().map(|route| route.id.to_string()).collect()
}

#[test]
fn the_files_of_a_folder_are_joined_in_the_order_of_their_names() {
    let folder = Folder::of(&[
        ("conf.d/20-b.yml", &route("b")),
        ("conf.d/10-a.yaml", &format!("server: {{max-headers: 70}}\n{}", route("a"))),
        ("conf.d/30-c.yaml", "server: {max-headers: 70, max-body-size: 5MB}\nupstreams: {}\n"),
        ("conf.d/40-empty.yaml", "routes:\nserver:\n"),
        ("conf.d/.hidden.yaml", &route("hidden")),
        ("conf.d/..data/x.yaml", &route("data")),
        ("conf.d/backup.yaml~", &route("backup")),
        ("conf.d/notes.txt", "notes"),
        ("conf.d/folder.yaml/x.yaml", &route("below")),
    ]);
    assert_eq!(ids(&folder, &["conf.d"], None), ["a", "b"]);
    let config = folder.load(&["conf.d"], None).unwrap().config;
    assert_eq!((config.server.max_headers.get(), config.server.max_body_size.is_some()), (70, true));
}

#[test]
fn a_key_with_two_values_is_an_error_with_both_places() {
    let folder = Folder::of(&[
        ("conf.d/a.yaml", &format!("server: {{max-headers: 70}}\ntrusted-proxies: [10.0.0.0/8]\n{}", route("a"))),
        ("conf.d/b.yaml", &format!("server:\n  maxHeaders: 80\ntrusted-proxies: [10.0.0.0/8]\n{}", route("a"))),
        ("conf.d/c.yaml", "trusted-proxies: [192.168.0.0/16]\n"),
    ]);
    let error = folder.load(&["conf.d"], None).unwrap_err();
    for text in [
        "conf.d/b.yaml:2:3: error: `server.max-headers` has another value here than at conf.d/a.yaml:1:",
        "conf.d/c.yaml:1:1: error: `trusted-proxies` has another value here than at conf.d/a.yaml:2:1",
        "set the key in one of them",
    ] {
        assert!(error.contains(text), "{text}: {error}");
    }
    folder.write("conf.d/b.yaml", &route("a"));
    folder.write("conf.d/c.yaml", "{}");
    let error = folder.load(&["conf.d"], None).unwrap_err();
    assert!(
        error.contains("conf.d/b.yaml:2:") && error.contains("duplicate route id `a` at conf.d/a.yaml:4:"),
        "{error}"
    );
}

#[test]
fn anchors_of_one_name_in_two_parts_are_no_conflict() {
    let part = |id: &str, rate: u8| {
        let limit = format!("{{key-resolver: ip, replenish-rate: {rate}, burst-capacity: 9}}");
        let filters = "filters: [{name: RequestRateLimiter, args: *a}]";
        format!("x-a: &a {limit}\nroutes:\n- {{id: {id}, uri: 'echo:', predicates: [Path=/{id}], {filters}}}\n")
    };
    let folder = Folder::of(&[("conf.d/a.yaml", &part("a", 1)), ("conf.d/b.yaml", &part("b", 2))]);
    assert_eq!(ids(&folder, &["conf.d"], None), ["a", "b"]);
}

#[test]
fn a_part_in_spring_s_form_beside_others_in_our_own_is_an_error() {
    let spring = "spring: {cloud: {gateway: {routes: [{id: s, uri: 'http://h:1', predicates: [Path=/s]}]}}}\n";
    let folder =
        Folder::of(&[("conf.d/a.yaml", &route("a")), ("conf.d/b.yaml", spring), ("conf.d/c.yaml", &route("c"))]);
    let error = folder.load(&["conf.d"], None).unwrap_err();
    for file in ["a", "c"] {
        let text = format!("conf.d/{file}.yaml:1:1: error: `routes` is of Tollgate's own form");
        assert!(error.contains(&text), "{error}");
    }
    assert!(error.contains("it begins at conf.d/b.yaml:1:1"), "{error}");
}

#[test]
fn documents_for_profiles_and_later_paths_win_over_the_parts() {
    let folder = Folder::of(&[
        (
            "conf.d/a.yaml",
            &format!("{}---\nspring.config.activate.on-profile: prod\nserver: {{max-headers: 90}}\n", route("a")),
        ),
        ("conf.d/b.yaml", "server: {max-headers: 70}\nspring.config.import: 'optional:none.yml'\n"),
        ("conf.d/c.yaml", "spring.config.import: '../imported.yaml'\n"),
        ("imported.yaml", "server: {max-headers: 75}\n"),
        ("over.d/x.yaml", "server: {max-headers: 80}\n"),
    ]);
    let headers = |paths: &[&str], profiles| folder.load(paths, profiles).unwrap().config.server.max_headers.get();
    assert_eq!(headers(&["conf.d"], None), 75);
    assert_eq!(headers(&["conf.d", "over.d"], None), 80);
    assert_eq!(ids(&folder, &["conf.d", "over.d"], None), ["a"]);
    folder.write("imported.yaml", "{}");
    assert_eq!((headers(&["conf.d"], None), headers(&["conf.d"], Some("prod"))), (70, 90));
}

#[test]
fn parts_have_springs_form_too_and_an_application_file_leaves_the_others_out() {
    let spring = |id: &str| format!("spring.cloud.gateway.routes: ['{id}=http://a,Path=/{id}']\n");
    let folder = Folder::of(&[("conf.d/a.yml", &spring("a")), ("conf.d/b.yml", &spring("b"))]);
    assert_eq!(ids(&folder, &["conf.d"], None), ["a", "b"]);
    folder.write("conf.d/application.yml", &spring("application"));
    assert_eq!(ids(&folder, &["conf.d"], None), ["application"]);
}

#[test]
fn documents_that_are_no_maps_are_errors_in_every_file() {
    let folder = Folder::of(&[
        ("conf.d/10.yml", &route("a")),
        ("over.yaml", "server: {max-headers: 80}\n"),
        ("main.yaml", &format!("spring.config.import: imported.yaml\n{}", route("m"))),
        ("imported.yaml", "{}"),
        ("empty.yaml", "# nothing\n---\n"),
    ]);
    let refused = |file: &str, text: &str, paths: &[&str], profiles, place: &str| {
        folder.write(file, text);
        let error = folder.load(paths, profiles).map(|loaded| loaded.config.routes.len()).unwrap_err();
        assert!(error.contains(&format!("{place}: error: expected a map of sections, found")), "{text}: {error}");
    };
    for text in ["- a\n", "hello\n", "routes\n", "'x'\n"] {
        refused("conf.d/20.yml", text, &["conf.d"], None, "conf.d/20.yml:1:1");
        refused("over.yaml", text, &["main.yaml", "over.yaml"], None, "over.yaml:1:1");
        refused("imported.yaml", text, &["main.yaml"], None, "imported.yaml:1:1");
    }
    folder.write("imported.yaml", "{}");
    refused("main-prod.yaml", "- a\n", &["main.yaml"], Some("prod"), "main-prod.yaml:1:1");
    let later = format!("{}---\n---\n- x\n", route("b"));
    refused("conf.d/20.yml", &later, &["conf.d"], None, "conf.d/20.yml:5:1");
    folder.write("conf.d/20.yml", &format!("{}---\n# none\n", route("b")));
    assert_eq!(ids(&folder, &["conf.d", "empty.yaml"], None), ["a", "b"]);
}
