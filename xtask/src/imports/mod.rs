//! Imports between files and folders.
//!
//! - Between the top-level folders of a crate in [`WITH_ARROWS`], only the imports in the code block `arrows` of
//!   ARCHITECTURE.md are allowed.
//! - No two folders of a crate depend on each other.
//! - At most [`MAX_CYCLE`] files import each other in a cycle.
//!
//! An import is a `use`, or a path in code whose first part is `crate`, `self`, `super` or a child of the module. It counts as one
//! of the file that defines the item, even through a re-export. Tests do not count, and neither
//! do re-exports of a module's own children.

mod arrows;
mod graph;
mod modules;
mod references;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use self::graph::Graph;
use self::modules::Modules;

/// Crates whose arrows ARCHITECTURE.md lists.
const WITH_ARROWS: [&str; 2] = ["src", "crates/proxy/src"];

/// Files that may import each other in a cycle.
const MAX_CYCLE: usize = 4;

/// Checks every crate of the workspace that ships.
///
/// # Errors
/// The report, if an arrow is not allowed or a cycle is too large.
pub(crate) fn check(root: &Path) -> Result<String, String> {
    let mut crates: Vec<PathBuf> = vec![root.join("src"), root.join("filters/src")];
    let libraries =
        std::fs::read_dir(root.join("crates")).map_err(|error| format!("cannot read crates/: {error}\n"))?;
    crates.extend(libraries.flatten().map(|entry| entry.path().join("src")).filter(|path| path.is_dir()));
    crates.sort();

    let (mut report, mut violations) = (String::new(), 0);
    for sources in crates {
        let modules = Modules::read(&sources)?;
        let graph = Graph::new(&modules);
        let name = sources.strip_prefix(root).unwrap_or(&sources).display().to_string();
        let largest = graph.cycles().iter().map(Vec::len).max().unwrap_or(1);
        let _ = writeln!(report, "{name}: {} files, {} imports, largest cycle {largest}", modules.len(), graph.len());
        for found in violations_of(&graph, root, &name)? {
            violations += 1;
            let _ = writeln!(report, "{found}");
        }
    }
    let _ = writeln!(report, "imports: {violations} violations");
    if violations == 0 { Ok(report) } else { Err(report) }
}

fn violations_of(graph: &Graph<'_>, root: &Path, name: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for cycle in graph.cycles().into_iter().filter(|cycle| cycle.len() > MAX_CYCLE) {
        found.push(format!("{name}: a cycle of {} files: {}", cycle.len(), cycle.join(", ")));
        found.extend(graph.within(&cycle).into_iter().map(|import| format!("    {import}")));
    }
    for cycle in graph.folder_cycles() {
        found.push(format!("{name}: folders that depend on each other: {}", cycle.folders.join(", ")));
        found.extend(cycle.imports.into_iter().map(|import| format!("    {import}")));
    }
    if WITH_ARROWS.contains(&name) {
        let architecture = std::fs::read_to_string(root.join("ARCHITECTURE.md"))
            .map_err(|error| format!("cannot read ARCHITECTURE.md: {error}\n"))?;
        found.extend(arrows::violations(&architecture, graph)?);
    }
    Ok(found)
}
