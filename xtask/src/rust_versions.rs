//! Minimum Rust versions of the libraries, compared with those that their dependencies state.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// A Rust version: major, minor and patch.
type Version = Vec<u64>;

/// Packages by their ids.
type Packages<'m> = BTreeMap<&'m str, &'m Value>;

/// Checks that each library that can be published requires at least the Rust version of every dependency, with all features. Rust
/// features in the code are checked by clippy (`incompatible_msrv`) against the stated version.
pub(crate) fn check(root: &Path) -> Result<String, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--format-version", "1", "--locked", "--all-features"]).current_dir(root);
    let output = cargo.output().map_err(|error| format!("cargo: {error}\n"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata: {error}\n{}", String::from_utf8_lossy(&output.stderr)))?;
    let packages: Packages<'_> = entries(&metadata["packages"]).filter_map(|it| Some((text(&it["id"])?, it))).collect();
    let nodes = entries(&metadata["resolve"]["nodes"]).filter_map(|it| Some((text(&it["id"])?, it))).collect();
    let (mut report, mut violations) = (String::new(), String::new());
    for library in entries(&metadata["workspace_members"]).filter_map(text).filter_map(|id| packages.get(id)) {
        // `publish = false` is an empty list of registries.
        if library["publish"].is_array() {
            continue;
        }
        let name = text(&library["name"]).unwrap_or_default();
        let declared = version(library);
        let newest = dependencies(library, &nodes).into_iter().filter_map(|id| packages.get(id)).copied();
        let newest = newest.max_by_key(|package| version(package)).unwrap_or(library);
        let line =
            format!("{name}: Rust {declared:?}, newest of a dependency {:?} ({})\n", version(newest), newest["name"]);
        if declared < version(newest) { &mut violations } else { &mut report }.push_str(&line);
    }
    match violations.is_empty() {
        true if report.is_empty() => Err("rust-versions: no library can be published\n".into()),
        true => Ok(report),
        false => Err(format!("{violations}rust-versions: raise `rust-version` of these libraries\n")),
    }
}

/// Returns the ids of the packages from a registry that `library` is built with.
fn dependencies<'m>(library: &'m Value, nodes: &Packages<'m>) -> BTreeSet<&'m str> {
    let mut seen = BTreeSet::new();
    let mut next = vec![text(&library["id"]).unwrap_or_default()];
    while let Some(id) = next.pop() {
        let is_built = |dependency: &&Value| entries(&dependency["dep_kinds"]).any(|kind| kind["kind"] != "dev");
        let of_node = nodes.get(id).into_iter().flat_map(|node| entries(&node["deps"]));
        let found = of_node.filter(is_built).filter_map(|dependency| text(&dependency["pkg"]));
        next.extend(found.filter(|id| seen.insert(*id)));
    }
    seen
}

fn version(package: &Value) -> Version {
    let numbers =
        text(&package["rust_version"]).unwrap_or_default().split('.').filter_map(|number| number.parse().ok());
    numbers.chain(std::iter::repeat(0)).take(3).collect()
}

fn entries(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> Option<&str> {
    value.as_str()
}
