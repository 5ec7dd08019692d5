//! The tables in the documents are complete and contain nothing else.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{file, root, tollgate};
use crate::support::gateway::Gateway;
use crate::support::redis::Redis;

const ADMIN: &str = "docs/reference/admin-api.md";
const CLI: &str = "docs/reference/cli.md";

/// Returns the rows of the first table under `header`, cell by cell.
fn table(text: &str, header: &str) -> Vec<Vec<String>> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with(header));
    assert!(lines.next().is_some(), "no table with the header {header}");
    lines
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

/// Returns the texts in backquotes of a cell.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn first_column(text: &str, header: &str) -> BTreeSet<String> {
    table(text, header).iter().flat_map(|row| quoted(&row[0])).collect()
}

/// Returns the names that `tollgate check` lists as known after `marker`.
fn known(yaml: &str, marker: &str) -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ask.yaml"), yaml).unwrap();
    let (_, _, err) = tollgate(&["check", "--offline", "ask.yaml"], folder.path());
    let list = err.lines().find_map(|line| Some(line.split_once(marker)?.1)).unwrap_or_else(|| panic!("{err}"));
    list.split(", ").map(str::to_owned).collect()
}

#[test]
fn the_tables_of_predicates_filters_and_arguments_are_complete() {
    let route = |rest: &str| format!("routes: [{{id: a, uri: 'http://a', {rest}}}]\n");
    let predicates = known(&route("predicates: ['Xyzzyxyzzy=1']"), "; predicates: ");
    assert_eq!(first_column(&file("docs/reference/predicates.md"), "| Predicate |"), predicates);
    let filters: BTreeSet<String> = tollgate_config::filters().map(|entry| entry.name.to_owned()).collect();
    assert_eq!(first_column(&file("docs/reference/filters/README.md"), "| Filter |"), filters);
    for (filter, valid) in
        [("RequestRateLimiter", "replenish-rate: 1, "), ("RequestCounter", ""), ("ConcurrencyLimiter", "")]
    {
        let unknown = format!("predicates: [Path=/a], filters: [{{name: {filter}, args: {{{valid}xyzzyxyzzy: 1}}}}]");
        let page = file(&format!("docs/reference/filters/{filter}.md"));
        // A map is one argument of the filter, and a row for each of its keys.
        let documented: BTreeSet<_> =
            first_column(&page, "| Argument |").iter().map(|name| name.split('.').next().unwrap().to_owned()).collect();
        assert_eq!(documented, known(&route(&unknown), "help: known here: "), "{filter}");
    }
}

#[test]
#[cfg(feature = "jwt")]
fn every_documented_key_resolver_can_be_used() {
    for resolver in first_column(&file("docs/reference/key-resolvers.md"), "| Resolver |") {
        let folder = tempfile::tempdir().unwrap();
        let text = resolver.trim_matches('"').replace("NAME", "X").replace("CLAIM", "sub").replace("variable", "id");
        let yaml = format!(
            "jwt: {{jwks: 'https://id/keys', audience: a}}\napi-keys: {{file: keys.yaml}}\nkey-resolvers: {{name: ip}}\nroutes: [{{id: a, uri: 'http://a', predicates: ['Path=/{{id}}'], filters: \
             [{{name: RequestRateLimiter, args: {{replenish-rate: 1, key-resolver: '{text}'}}}}]}}]\n"
        );
        std::fs::write(folder.path().join("ask.yaml"), &yaml).unwrap();
        std::fs::write(folder.path().join("keys.yaml"), "[]").unwrap();
        let (code, _, err) = tollgate(&["check", "--offline", "ask.yaml"], folder.path());
        assert_eq!(code, 0, "{yaml}{err}");
        assert_eq!(err.contains("no filter authenticates"), text == "principal", "{err}");
    }
}

#[test]
fn the_table_of_metrics_is_complete() {
    let redis = Redis::start();
    let gateway = Gateway::start_with(&file("config/redis.yaml"), &[("REDIS_URL", &redis.url())]);
    crate::support::eventually("the worker knows of Redis", || {
        gateway.admin("/metrics").text().contains("tollgate_redis_connections")
    });
    // Metrics of the access log, of caches, certificates, traces, registries and several endpoints exist only if those do.
    let certificates = tollgate_test_support::Certificates::new();
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.yaml");
    std::fs::write(&keys, "[]").unwrap();
    let logging = Gateway::start(&format!(
        "api-keys: {{file: '{}'}}\naccess-log: {{output: stdout}}\nmanagement: {{otlp: {{tracing: {{endpoint: 'http://127.0.0.1:1/'}}}}}}\nupstreams: {{a: {{endpoints: ['http://127.0.0.1:1'], health: {{path: /}}}}}}\n\
         server: {{address: 127.0.0.1, workers: 1, ssl: {{certificate: {}, certificate-private-key: {}}}}}\n\
         routes: [{{id: a, uri: 'lb://a', predicates: [Path=/a], filters: [LocalResponseCache=1m]}}]",
        keys.display(),
        certificates.server().display(),
        certificates.server_key().display(),
    ));
    let consul = tollgate_test_support::registry::ConsulServer::start();
    let registered = Gateway::start(&format!(
        "consul: {{host: 127.0.0.1, port: {}}}\nroutes: [{{id: a, uri: 'lb://a', predicates: [Path=/a]}}]",
        consul.address.port()
    ));
    let mut served = BTreeSet::new();
    for page in [&gateway, &logging, &registered].map(|gateway| gateway.admin("/metrics").text()) {
        for line in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            served.insert(line.split_once(' ').unwrap().0.to_owned());
        }
    }
    assert_eq!(first_column(&file("docs/reference/metrics.md"), "| Metric |"), served);
}

#[test]
fn every_documented_admin_path_answers() {
    let gateway = Gateway::start(
        "routes: [{id: ID, uri: 'echo:', predicates: [Path=/**]}, {id: ROUTE, uri: 'echo:', predicates: [Path=/x], \
         filters: [{name: RequestRateLimiter, args: {replenish-rate: 1, burst-capacity: 9, key-resolver: ip}}]}]",
    );
    crate::support::eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    let paths = first_column(&file(ADMIN), "| Path | Shows |");
    assert!(paths.len() >= 9, "{paths:?}");
    for path in &paths {
        // The stream of events has no end: its head suffices.
        let path = path.replace("FILE", "app.js");
        let method = if path == "/api/events" { "HEAD" } else { "GET" };
        assert_eq!(gateway.connect_admin().request(method, &path, &[], b"").status, 200, "{path}");
    }
    let changes = first_column(&file(ADMIN), "| Change | Does |");
    for endpoint in gateway.admin("/none").json()["endpoints"].as_array().unwrap() {
        let (method, path) = endpoint.as_str().unwrap().split_once(' ').unwrap();
        // Variables are written in capitals: `{route}` is `ROUTE`.
        let variables = path.split(['{', '}']).enumerate();
        let path: String =
            variables.map(|(at, part)| if at % 2 == 1 { part.to_uppercase() } else { part.to_owned() }).collect();
        let is_documented =
            if method == "GET" { paths.contains(&path) } else { changes.contains(&format!("{method} {path}")) };
        assert!(is_documented, "{method} {path} is not in {ADMIN}");
    }
}

#[test]
fn every_documented_command_exists_and_every_command_is_documented() {
    let (_, help, _) = tollgate(&["--help"], root());
    for row in table(&file(CLI), "| Command | Does |") {
        let command = quoted(&row[0])[0].clone();
        let name = command.split(' ').nth(1).unwrap().trim_matches('[');
        assert!(help.contains(name), "{name} is not in\n{help}");
    }
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let page = file(CLI);
    for name in
        commands.filter_map(|line| line.split_whitespace().next()).filter(|name| !["serve", "help"].contains(name))
    {
        assert!(page.contains(&format!("| `tollgate {name}")), "{name} is not in {CLI}");
    }
}

#[test]
fn every_link_in_the_documents_resolves() {
    let documents = documents();
    assert!(documents.len() > 30, "{documents:?}");
    for document in documents {
        let text = std::fs::read_to_string(&document).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://")) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { document.clone() } else { document.parent().unwrap().join(path) };
            assert!(target.exists(), "{}: {link}", document.display());
            let found = heading.is_empty() || headings(&target).any(|known| known == heading);
            assert!(found, "{}: {link}", document.display());
        }
    }
}

#[test]
fn every_path_that_the_documents_name_exists() {
    let folders: Vec<PathBuf> = std::fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let is_of_repository = |path: &str| {
        let first = path.split_once('/').map(|(first, _)| root().join(first));
        first.is_some_and(|first| first.is_dir() && folders.contains(&first) && !first.ends_with("target"))
    };
    let mut named = 0;
    for document in documents() {
        let text = std::fs::read_to_string(&document).unwrap();
        // Every second part is a block of code.
        for line in text.split("```").step_by(2).flat_map(str::lines) {
            let paths = quoted(line).into_iter().filter(|path| !path.contains(' ') && is_of_repository(path));
            for path in paths {
                let exists = root().join(&path).exists() || document.parent().unwrap().join(&path).exists();
                assert!(exists, "{}: {path}", document.display());
                named += 1;
            }
        }
    }
    assert!(named > 100, "{named}");
}

/// Every Markdown file of the repository.
fn documents() -> Vec<PathBuf> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
            let path = entry.path();
            let is_ours = !["target", ".git"].iter().any(|other| entry.file_name() == *other);
            if is_ours && path.is_dir() && !path.is_symlink() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    collect(root(), &mut found);
    found
}

#[test]
fn every_picture_of_a_limiter_has_alternative_text() {
    let pages: String = limiter_pages().iter().map(|page| std::fs::read_to_string(page).unwrap()).collect();
    for entry in std::fs::read_dir(root().join("docs/limiters")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".svg") {
            let shown = pages.lines().find(|line| line.contains(&format!("]({name})"))).unwrap_or_default();
            assert!(shown.starts_with("![") && !shown.starts_with("![]"), "{name}");
        }
    }
}

fn limiter_pages() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join("docs/limiters")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// Returns the anchors that GitHub generates for the headings of a document.
fn headings(document: &Path) -> impl Iterator<Item = String> {
    let text = std::fs::read_to_string(document).unwrap();
    let lines: Vec<String> = text.lines().filter(|line| line.starts_with('#')).map(str::to_lowercase).collect();
    lines.into_iter().map(|line| {
        let name = line.trim_start_matches('#').trim().to_owned();
        name.chars()
            .filter(|c| c.is_alphanumeric() || "-_ ".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    })
}
