//! The tables of layers in README.md and lib.rs, compared with the source and the cargo features.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Layers that belong to another layer or to the gateway, or that filters consist of, and have no row of their own.
const HELPER_LAYERS: [&str; 7] = [
    "FallbackHeadersLayer",
    "FilterLayer",
    "PolicyHeadersLayer",
    "ReceivedHeadersLayer",
    "RefusalBodyLayer",
    "RequestFilterLayer",
    "ResponseFilterLayer",
];

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Returns the rows of the table of layers, links removed.
fn rows(text: &str) -> Vec<String> {
    let rows = text.lines().map(|line| line.trim_start_matches("//! ").replace("[`", "`").replace("`]", "`"));
    rows.filter(|row| row.starts_with("| `") && row.contains("Layer` |")).collect()
}

/// Replaces the rows of the table of layers in `text`.
fn with_rows(text: &str, rows: &[String]) -> String {
    let is_row = |line: &&str| self::rows(line).len() == 1;
    let before = text.lines().take_while(|line| !is_row(line));
    let after = text.lines().skip_while(|line| !is_row(line)).skip_while(is_row);
    before.chain(rows.iter().map(String::as_str)).chain(after).map(|line| format!("{line}\n")).collect()
}

#[test]
fn regenerating_replaces_the_rows_of_the_readme_only() {
    let text = "a\n| Layer | x |\n|---|---|\n| `OldLayer` | x |\n\nb\n";
    let rows = ["| `NewLayer` | x |".to_owned(), "| `OtherLayer` | x |".to_owned()];
    assert_eq!(with_rows(text, &rows), "a\n| Layer | x |\n|---|---|\n| `NewLayer` | x |\n| `OtherLayer` | x |\n\nb\n");
    assert_eq!(with_rows(&read("README.md"), &self::rows(&read("src/lib.rs"))), read("README.md"));
}

/// Returns the cells of one column, without backticks.
fn column(rows: &[String], index: usize) -> BTreeSet<String> {
    rows.iter().map(|row| row.split('|').nth(index + 1).unwrap().trim().replace('`', "")).collect()
}

fn source_files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            source_files(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
}

/// Returns the types of `src` that implement `tower::Layer`, by every name.
fn layers_in_source() -> BTreeSet<String> {
    let mut files = Vec::new();
    source_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    let mut layers = BTreeSet::new();
    for file in files {
        for line in fs::read_to_string(file).unwrap().lines() {
            let implemented = line.strip_prefix("impl").and_then(|rest| rest.split_once("Layer<S> for "));
            let name = implemented.map(|(_, name)| name).or(line.strip_prefix("pub type "));
            let name = name.and_then(|name| name.split(['<', ' ', '{']).next()).filter(|name| name.ends_with("Layer"));
            layers.extend(name.map(str::to_owned));
        }
    }
    layers
}

#[test]
fn both_tables_list_every_layer_once() {
    let lib = rows(&read("src/lib.rs"));
    if std::env::var_os("TOLLGATE_REGENERATE").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        let current = read("README.md");
        let updated = with_rows(&current, &lib);
        // The other tests read the file at the same time.
        if updated != current {
            fs::write(path, updated).unwrap();
        }
    }
    let readme = rows(&read("README.md"));
    assert_eq!(readme, lib, "run tests/regenerate");
    let listed = column(&readme, 0);
    assert_eq!(listed.len(), readme.len(), "a layer has two rows");
    let helpers = HELPER_LAYERS.map(str::to_owned).into();
    assert_eq!(layers_in_source(), &listed | &helpers);
}

#[test]
fn every_layer_has_a_feature_and_full_enables_all() {
    let manifest = read("Cargo.toml");
    let full = manifest.split_once("full = [").unwrap().1.split_once(']').unwrap().0;
    let full: BTreeSet<String> = full.split(',').map(|name| name.trim().replace('"', "")).collect();
    let features = column(&rows(&read("README.md")), 1);
    assert_eq!(&full - &BTreeSet::from([String::new()]), features);
    let lib = read("src/lib.rs");
    for feature in features {
        let module = format!("#[cfg(feature = \"{feature}\")]\npub mod {};", feature.replace('-', "_"));
        assert!(lib.contains(&module), "{module}");
    }
}

#[test]
fn no_dependency_is_pinned_so_that_users_may_take_a_newer_one() {
    let workspace = read("../Cargo.toml");
    let of_workspace = workspace.split("[workspace.dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    let published = ["bounded-file", "java-regex", "key-store", "limiter", "routing"];
    let manifests =
        published.map(|name| read(&format!("../crates/{name}/Cargo.toml"))).join("\n") + &read("Cargo.toml");
    for line in of_workspace.lines().chain(manifests.lines()) {
        let version = line.split('"').nth(1).unwrap_or_default();
        assert!(!version.starts_with(['~', '=', '<', '>']), "{line}");
    }
    assert!(of_workspace.contains("\ntokio = \""), "the section was read");
}

/// Returns the targets of the links in `text`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let inline = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let defined = text.lines().filter(|line| line.starts_with('[')).filter_map(|line| Some(line.split_once("]: ")?.1));
    inline.chain(defined)
}

#[test]
fn links_of_the_packages_work_outside_of_the_repository() {
    for (name, folder) in [("tollgate-filters", "."), ("tollgate-limiter", "../crates/limiter")] {
        let manifest = read(&format!("{folder}/Cargo.toml"));
        for file in ["README.md", "CHANGELOG.md"] {
            for link in links(&read(&format!("{folder}/{file}"))) {
                assert!(link.starts_with("https://") || link.starts_with('#'), "{folder}/{file}: {link}");
                let Some(packed) = link.strip_prefix(&format!("https://docs.rs/crate/{name}/latest/source/")) else {
                    continue;
                };
                let root = packed.split('/').next().unwrap();
                assert!(manifest.contains(&format!("\"/{root}\"")), "not packed: {link}");
                assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(packed).exists(), "{link}");
            }
        }
    }
}
