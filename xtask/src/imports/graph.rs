//! The graph of imports between files, with its cycles of files and of sibling folders.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit as _;

use super::modules::{Module, ModulePath, Modules};
use super::references::References;

/// Imports between files, with their places.
pub(super) struct Graph<'m> {
    /// Importing module, imported module, and the place of the first import.
    imports: BTreeMap<(&'m ModulePath, &'m ModulePath), String>,
    files: BTreeMap<&'m ModulePath, &'m str>,
}

/// Sibling folders that depend on each other.
pub(super) struct FolderCycle {
    pub(super) folders: Vec<String>,
    /// The imports between them.
    pub(super) imports: Vec<String>,
}

impl<'m> Graph<'m> {
    pub(super) fn new(modules: &'m Modules) -> Self {
        let files = modules.iter().map(|(path, module)| (path, module.file.as_str())).collect();
        let mut graph = Self { imports: BTreeMap::new(), files };
        for (path, module) in modules.iter() {
            graph.add(modules, path, module);
        }
        graph
    }

    fn add(&mut self, modules: &'m Modules, from: &'m ModulePath, module: &'m Module) {
        let mut references = References::default();
        module.items.iter().for_each(|item| references.visit_item(item));
        for reference in references.found {
            let Some(absolute) = modules.absolute(from, &reference.path) else { continue };
            let Some(to) = modules.definer(&absolute) else { continue };
            let is_facade = reference.is_re_export && to.starts_with(from);
            if to != from && !is_facade {
                self.imports
                    .entry((from, to))
                    .or_insert_with(|| format!("{}:{}: imports {}", module.file, reference.line, absolute.join("::")));
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.imports.len()
    }

    /// Cycles of two or more files, by file name.
    pub(super) fn cycles(&self) -> Vec<Vec<&'m str>> {
        let edges = self.imports.keys().map(|(from, to)| (self.files[from], self.files[to])).collect();
        components(&edges)
    }

    /// Returns the imports between the files of `cycle`.
    pub(super) fn within(&self, cycle: &[&str]) -> Vec<String> {
        let is_inside = |path: &ModulePath| cycle.contains(&self.files[path]);
        let inside = self.imports.iter().filter(|((from, to), _)| is_inside(from) && is_inside(to));
        inside.map(|(_, place)| place.clone()).collect()
    }

    /// Imports from one top-level folder to another: the two names and the place.
    pub(super) fn between_top_folders(&self) -> impl Iterator<Item = (&'m String, &'m String, &str)> {
        self.imports.iter().filter_map(|((from, to), place)| {
            let (from, to) = (from.first()?, to.first()?);
            (from != to).then_some((from, to, place.as_str()))
        })
    }

    /// Cycles between sibling folders, at every depth.
    pub(super) fn folder_cycles(&self) -> Vec<FolderCycle> {
        let mut siblings: BTreeMap<&[String], BTreeSet<(&String, &String)>> = BTreeMap::new();
        for (from, to) in self.imports.keys() {
            let shared = from.iter().zip(to.iter()).take_while(|(from, to)| from == to).count();
            let (Some(from_name), Some(to_name)) = (from.get(shared), to.get(shared)) else { continue };
            if self.is_folder(&from[..=shared]) && self.is_folder(&to[..=shared]) {
                siblings.entry(&from[..shared]).or_default().insert((from_name, to_name));
            }
        }
        siblings.iter().flat_map(|(parent, edges)| self.cycles_below(parent, edges)).collect()
    }

    fn cycles_below(&self, parent: &[String], edges: &BTreeSet<(&String, &String)>) -> Vec<FolderCycle> {
        let names = edges.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect();
        let member = |path: &ModulePath, cycle: &[&str]| {
            path.starts_with(parent) && path.get(parent.len()).is_some_and(|name| cycle.contains(&name.as_str()))
        };
        let folder_cycle = |cycle: Vec<&str>| FolderCycle {
            imports: self
                .imports
                .iter()
                .filter(|((from, to), _)| {
                    member(from, &cycle) && member(to, &cycle) && from[parent.len()] != to[parent.len()]
                })
                .map(|(_, place)| place.clone())
                .collect(),
            folders: cycle.iter().map(|name| [parent, &[(*name).to_owned()]].concat().join("/")).collect(),
        };
        components(&names).into_iter().map(folder_cycle).collect()
    }

    /// Returns true for a module that has children.
    fn is_folder(&self, path: &[String]) -> bool {
        self.files.keys().any(|module| module.len() > path.len() && module.starts_with(path))
    }
}

/// Returns the strongly connected components of two or more nodes: sets in which each node reaches each other.
fn components<'n>(edges: &BTreeSet<(&'n str, &'n str)>) -> Vec<Vec<&'n str>> {
    let nodes: BTreeSet<&str> = edges.iter().flat_map(|(from, to)| [*from, *to]).collect();
    let reached: BTreeMap<&str, BTreeSet<&str>> = nodes.iter().map(|node| (*node, reachable(node, edges))).collect();
    let mut found: Vec<Vec<&str>> = Vec::new();
    for node in nodes {
        if found.iter().any(|cycle| cycle.contains(&node)) {
            continue;
        }
        let cycle: Vec<&str> =
            reached[node].iter().copied().filter(|other| *other == node || reached[other].contains(node)).collect();
        if cycle.len() > 1 {
            found.push(cycle);
        }
    }
    found
}

fn reachable<'n>(node: &str, edges: &BTreeSet<(&'n str, &'n str)>) -> BTreeSet<&'n str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![node];
    while let Some(node) = open.pop() {
        for (_, to) in edges.iter().filter(|(from, _)| *from == node) {
            if reached.insert(*to) {
                open.push(to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_found_and_chains_are_not() {
        let edges = BTreeSet::from([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e")]);
        assert_eq!(components(&edges), [["a", "b", "c"]]);
    }
}
