//! The files of `tests/corpus/`, migrated.

use std::path::{Path, PathBuf};

use http::Request;

use tollgate::explain::model::Explanation;
use tollgate::explain::{DryRunRequest, explain};
use tollgate_config::{
    CommandLine, Config, Loaded, SecretValues, Services, Severity, load, load_with_services, migrate_files, parse,
};

/// A case: its files, its services, and the requests of its transcript.
struct Case {
    files: Vec<PathBuf>,
    services: Services,
    requests: Vec<String>,
    runs: bool,
    _overlay: tempfile::TempDir,
}

fn read(folder: &Path) -> Case {
    let transcript = std::fs::read_to_string(folder.join("transcript")).unwrap();
    let value = |key: &str| transcript.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    let mut files: Vec<PathBuf> = value("files: ").split_whitespace().map(|name| folder.join(name)).collect();
    if files.is_empty() {
        let usual = ["application.yml", "application.properties"].map(|name| folder.join(name));
        files.extend(usual.into_iter().filter(|path| path.is_file()));
    }
    let temporary = tempfile::tempdir().unwrap();
    let proposed: String =
        transcript.lines().filter_map(|line| line.strip_prefix("  | ")).map(|line| format!("{line}\n")).collect();
    if !proposed.is_empty() {
        let overlay = temporary.path().join("overlay.yaml");
        let head = "# Save this as overlay.yaml, correct the values, and use it:\n#   tollgate check application.yml --config overlay.yaml\n";
        std::fs::write(&overlay, format!("{head}{proposed}")).unwrap();
        files.push(overlay);
    }
    if !value("env: ").is_empty() {
        // Stands for the variable that names the registry.
        let registry = temporary.path().join("registry.yaml");
        std::fs::write(&registry, "eureka.client.service-url.defaultZone: http://localhost:8761/eureka/\n").unwrap();
        files.push(registry);
    }
    let services = value("registry: ").split_whitespace().skip(1);
    Case {
        files,
        services: services.map(|name| (name.split('@').next().unwrap().to_owned(), Vec::new())).collect(),
        requests: transcript.lines().filter_map(|line| line.strip_prefix("> ")).map(str::to_owned).collect(),
        runs: value("outcome: ").starts_with("runs"),
        _overlay: temporary,
    }
}

/// Returns the configuration with the routes of its services.
fn with_services(loaded: Loaded, services: &Services) -> Config {
    match &loaded.config.locator {
        Some(locator) => load_with_services(locator, services, &CommandLine::default()).unwrap().config,
        None => loaded.config,
    }
}

/// Returns what happens to a request, without the spelling of the file.
fn explained(config: &Config, line: &str) -> Explanation {
    let mut parts = line.split(" | ");
    let (method, target) = parts.next().unwrap().split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in parts.map(|field| field.split_once(": ").unwrap()) {
        request = request.header(name, value);
    }
    if !line.contains("| Host: ") {
        request = request.header("host", "localhost");
    }
    let head = request.body(()).unwrap().into_parts().0;
    let dry = DryRunRequest { head, peer: [127, 0, 0, 1].into(), certificate: None, chance: 0 };
    let mut explanation = explain(config, &SecretValues::default(), dry).unwrap();
    for passed in &mut explanation.passed_over {
        passed.predicate.clear();
        // The time goes on.
        if passed.seen.starts_with("the time is ") {
            passed.seen.clear();
        }
    }
    if let Some(route) = &mut explanation.route {
        route.uri.clear();
        route.predicates.clear();
        for trace in &mut route.filters {
            trace.filter.clear();
            trace.arguments.clear();
        }
    }
    explanation
}

/// Returns everything that `config` says, without the text and the spelling of its files, and without random values.
fn meaning(config: &Config, yaml: &str) -> String {
    let mut config = config.clone();
    config.locator = None;
    if yaml.contains("${random.") {
        config.registrations.clear();
    }
    for route in &mut config.routes {
        route.definition = tollgate_config::Definition::default();
    }
    format!("{config:#?}")
}

/// Returns the lines in which two texts differ.
fn similar(before: &str, after: &str) -> String {
    let has = |text: &str, line: &str| text.lines().any(|other| other == line);
    let gone = before.lines().filter(|line| !has(after, line)).map(|line| format!("- {}\n", line.trim()));
    let new = after.lines().filter(|line| !has(before, line)).map(|line| format!("+ {}\n", line.trim()));
    gone.chain(new).collect()
}

#[test]
fn every_file_that_runs_is_migrated_without_a_warning_and_keeps_its_meaning() {
    let root: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "corpus"].iter().collect();
    let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let (mut migrated, mut compared, mut failed) = (0, 0, String::new());
    for folder in folders {
        let case = read(&folder);
        if !case.runs {
            continue;
        }
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let old = load(&case.files, &CommandLine::default())
            .unwrap_or_else(|error| panic!("{name}: {}", error.render(false)));
        let yaml = migrate_files(&case.files, &CommandLine::default(), "").unwrap().yaml;
        migrated += 1;
        let proposals =
            ["Save this as", "tollgate check application.yml", "# or `dns", "an example;", "check what the bean reads"];
        for text in proposals.iter().chain(&[
            "name: Hystrix",
            "- Hystrix=",
            "discovery: {}",
            "instance: {}",
            "loadbalancer: {}",
        ]) {
            assert!(!yaml.contains(text), "{name}: `{text}` in\n{yaml}");
        }
        if case.files.len() > 1 {
            let is_placed =
                |line: &str| line.contains(".yml:") || line.contains(".yaml:") || line.contains(".properties:");
            let mut diagnostics = yaml.lines().filter(|line| line.starts_with("# - "));
            assert!(diagnostics.all(is_placed), "{name}:\n{yaml}");
        }
        let new = match parse("new.yaml", &yaml, &|_| None) {
            Ok(new) if new.notes.list().iter().all(|note| note.severity == Severity::Note) => new,
            Ok(Loaded { notes: problems, .. }) | Err(problems) => {
                failed.push_str(&format!("{name}:\n{problems}\n"));
                continue;
            }
        };
        let is_springs = |line: &str| line.starts_with("spring") || line.starts_with("tollgate");
        assert!(!yaml.lines().any(is_springs), "{yaml}");
        let [old, new] = [old, new].map(|loaded| with_services(loaded, &case.services));
        let [before, after] = [&old, &new].map(|config| meaning(config, &yaml));
        if before != after {
            let differing = similar(&before, &after);
            failed.push_str(&format!("{name}: the configuration changes:\n{differing}\n{yaml}\n"));
        }
        for line in &case.requests {
            let [before, after] = [&old, &new].map(|config| explained(config, line));
            compared += 1;
            if before != after {
                failed.push_str(&format!("{name}: {line}\n{before:#?}\n{after:#?}\n{yaml}\n"));
            }
        }
    }
    assert!(failed.is_empty(), "{failed}");
    assert!(migrated >= 35 && compared >= 80, "{migrated} files, {compared} requests");
}
