//! Files that would take hours: each has a bound, and an error that names it.

use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, Mode, mkfifoat};

use crate::LoadError;
use crate::tests::files::Folder;
use crate::tests::*;

const ROUTES: &str = "spring.cloud.gateway.routes: ['a=http://a,Path=/**']\n";

fn errors(name: &str, text: &str) -> String {
    let env = |name: &str| (name == "BIG").then(|| "x".repeat(1 << 20));
    parse(name, text, &env).map_or_else(|report| report.render(false), |loaded| panic!("{}", loaded.notes))
}

#[test]
fn placeholders_that_multiply_are_one_error() {
    let properties = |sign: &str| {
        let step = |at: usize| format!("a{at}{sign}{}\n", format!("${{a{}}}", at - 1).repeat(10));
        format!("a0{sign}x\n{}", (1..=12).map(step).collect::<String>())
    };
    let route = |uri: &str| format!("[{{id: a, uri: '{uri}', predicates: [Path=/**]}}]\n");
    for uri in ["http://${a12}", "http://${NONE}${a12}", "http://${NONE:${a12}}", "http://${BIG}${a11}", "@a12@"] {
        let in_properties = format!("{}spring.cloud.gateway.routes[0].uri={uri}\n", properties("="));
        for (name, text) in [
            ("application.yml", format!("{}spring.cloud.gateway.routes: {}", properties(": "), route(uri))),
            ("application.properties", in_properties),
            ("a.yaml", format!("{}routes: {}", properties(": "), route(&uri.replace("@a12@", "${a12}")))),
        ] {
            let errors = errors(name, &text);
            let count = errors.matches("the placeholders have more than 16 MiB of values in all").count();
            assert_eq!(count, 1, "{name} {uri}: {errors}");
        }
    }
}

#[test]
fn maps_and_lists_nested_without_end_are_an_error() {
    for section in ["routes", "metadata", "redis", "spring.cloud.gateway.routes", "x"] {
        for (open, close) in [("{a: ", "}"), ("[", "]"), ("{a: [", "]}"), ("{", ""), ("[{a: ", "")] {
            let text = format!("{section}: {}1{}\n", open.repeat(20_000), close.repeat(20_000));
            let errors = errors("application.yml", &text);
            assert!(errors.contains("recursion limit exceeded"), "{section} {open}: {errors}");
        }
    }
}

#[test]
fn links_in_a_tree_of_files_are_an_error() {
    let folder = Folder::of(&[
        ("application.yml", &format!("{ROUTES}spring.config.import: 'configtree:tree/'\n")),
        ("tree/server.max-headers", "70"),
    ]);
    for link in ["a", "b", "c", "d"] {
        symlink(folder.path("tree"), folder.path(&format!("tree/{link}"))).unwrap();
    }
    let error = folder.load(&["application.yml"], None).unwrap_err();
    assert!(
        error.contains("`configtree:tree/` is not read: tree: more than 16,384 entries below the folder"),
        "{error}"
    );
}

#[test]
fn files_have_a_bound_of_number_and_size() {
    let imports = |locations: &[String]| format!("{ROUTES}spring.config.import: [{}]\n", locations.join(", "));
    let folder = Folder::of(&[]);
    let load = |text: &str| {
        folder.write("application.yml", text);
        folder.load(&["application.yml"], None).map_or_else(|error| error, |loaded| loaded.notes.to_string())
    };
    let text = load(&imports(&["file:/dev/zero".to_owned()]));
    assert!(
        text.contains("`file:/dev/zero` is not read: /dev/zero: the files of a configuration have at most 16 MiB"),
        "{text}"
    );
    for at in 0..1_000 {
        folder.write(&format!("{at}.yml"), &format!("spring.config.import: {}.yml\n", at + 1));
    }
    let text = load(&imports(&["0.yml".to_owned()]));
    assert!(text.contains("`63.yml` is not read: 63.yml: more than 64 files import each other in a row"), "{text}");
    let many: Vec<String> = (0..5_000).map(|at| format!("'optional:none{at}.yml'")).collect();
    let text = load(&imports(&many));
    assert!(text.contains("a configuration has at most 4,096 imports"), "{text}");
    folder.write("application.yml", &format!("{ROUTES}spring.config.import: 'configtree:tree/'\n"));
    for at in 0..17 {
        folder.write(&format!("tree/{at}"), &"x".repeat(1 << 20));
    }
    let error = folder.load(&["application.yml"], None).unwrap_err();
    assert!(error.contains("tree: the files of a configuration have at most 16 MiB"), "{error}");
}

#[test]
fn pipes_devices_and_folders_in_the_place_of_files_are_errors_with_a_remedy() {
    let folder = Folder::of(&[("tree/server.max-headers", "70")]);
    mkfifoat(CWD, folder.path("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
    let _listener = UnixListener::bind(folder.path("socket")).unwrap();
    let import = |location: &str| {
        folder.write("application.yml", &format!("{ROUTES}spring.config.import: '{location}'\n"));
        folder.load(&["application.yml"], None).map_or_else(|error| error, |loaded| loaded.notes.to_string())
    };
    // The wait for a pipe ends the reading: no file can have thousands of them.
    let late = "cannot read pipe: it is an empty pipe to which no process writes\n  help: start the process";
    for location in ["pipe", "optional:file:./pipe", "pipe[.yml]", "pipe,optional:pipe"] {
        let text = import(location);
        assert!(text.contains(late), "{location}: {text}");
    }
    for (location, reason, remedy) in [
        ("socket", "`socket` is not read: socket: it is a socket, not a file", "name a file, or a pipe"),
        ("configtree:pipe", "pipe: `configtree:` reads a folder with a file for each property", "name a folder"),
        ("configtree:socket", "socket: `configtree:` reads a folder", "name a folder"),
        ("configtree:application.yml", "application.yml: `configtree:` reads a folder", "name a folder"),
        ("configtree:/dev/zero", "/dev/zero: `configtree:` reads a folder", "name a folder"),
    ] {
        let text = import(location);
        assert!(text.contains(reason) && text.contains(&format!("  help: {remedy}")), "{location}: {text}");
    }
    // As in Spring, only regular files of a tree are properties.
    mkfifoat(CWD, folder.path("tree/server.port"), Mode::RUSR | Mode::WUSR).unwrap();
    symlink("/dev/zero", folder.path("tree/server.address")).unwrap();
    folder.write("application.yml", &format!("{ROUTES}spring.config.import: 'configtree:tree/'\n"));
    let Loaded { config, notes } = folder.load(&["application.yml"], None).unwrap();
    assert_eq!(config.server.max_headers.get(), 70);
    let notes = notes.to_string();
    assert!(notes.contains("warning: `configtree:tree/` gives no value of pipes, sockets and devices"), "{notes}");
    assert!(notes.contains("/tree/server.address, ") && notes.contains("/tree/server.port\n"), "{notes}");
    for (name, reason, remedy) in [
        ("pipe", "cannot read pipe: it is an empty pipe", "start the process"),
        ("socket", "cannot read socket: it is a socket", "name a file"),
        ("tree", "cannot read tree: Is a directory without a file", "name a file, or a folder"),
    ] {
        let text = folder.load(&[name], None).unwrap_err();
        assert!(text.contains(reason) && text.contains(&format!("  help: {remedy}")), "{name}: {text}");
    }
}

#[test]
fn a_file_that_may_not_be_read_has_a_remedy() {
    let error = LoadError::Unreadable { path: "a.yaml".into(), source: ErrorKind::PermissionDenied.into() };
    let text = error.render(false);
    assert!(text.contains("cannot read a.yaml: permission denied\n  help: the user that runs this command"), "{text}");
}

#[test]
fn documents_of_one_file_are_read_in_linear_time() {
    let folder =
        Folder::of(&[("application.yml", &format!("{ROUTES}{}", "---\nserver: {port: 8080}\n".repeat(10_000)))]);
    assert_eq!(folder.load(&["application.yml"], None).unwrap().config.routes.len(), 1);
}

#[test]
fn the_files_of_a_configuration_have_a_bound_of_values_together() {
    let list = |count: usize| format!("x-list: [{}]\n", vec!["a"; count].join(","));
    let folder = Folder::of(&[("a.yaml", &list(130_000)), ("b.yaml", &list(130_000)), ("c.yaml", &list(250_001))]);
    let error = folder.load(&["a.yaml", "b.yaml"], None).unwrap_err();
    assert!(error.contains("cannot read b.yaml: the files of a configuration have at most 250,000 values"), "{error}");
    let error = folder.load(&["c.yaml"], None).unwrap_err();
    assert!(error.contains("error: not valid YAML: more than 250,000 nodes"), "{error}");
}

#[test]
fn mistakes_without_end_are_counted() {
    let routes = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]\n";
    let keys: String = (0..10_200).map(|at| format!("unknown{at}: 1\n")).collect();
    let report = parse("a.yaml", &format!("{routes}{keys}"), &|_| None).unwrap_err();
    assert_eq!((report.list().len(), report.has_errors()), (10_000, true));
    let shown = report.render(false);
    assert_eq!(shown.matches(": error: unknown key").count(), 100);
    assert!(
        shown.ends_with("\nand 10100 more: 10100 errors; `tollgate check --max-problems 0` shows more\n"),
        "{shown}"
    );
    let shown = report.render_at_most(usize::MAX, false);
    assert_eq!(shown.matches(": error: unknown key").count(), 10_000);
    assert!(shown.ends_with("\nand 200 more: 200 errors\n"), "{}", &shown[shown.len() - 200..]);
    // Warnings without end hide no error.
    let keys = format!("server:\n{}", keys.replace("unknown", "  unknown"));
    let report = parse("application.yml", &format!("{ROUTES}{keys}  port: x\n"), &|_| None).unwrap_err();
    assert!(report.render(false).contains(": error: "), "{report}");
}

#[test]
fn a_mistake_behind_ten_thousand_accepted_ones_is_an_error() {
    let routes = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]\n";
    let accepted = |at| format!("# accepted: unknown key `unknown{at}`\nunknown{at}: 1\n");
    let keys: String = (0..10_000).map(accepted).collect();
    assert!(parse("a.yaml", &format!("{routes}{keys}"), &|_| None).is_ok());
    assert!(parse("a.yaml", &format!("{routes}{keys}other: 1\n"), &|_| None).is_err());
}
