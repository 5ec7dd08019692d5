//! The modules of a crate: their files, what they define, and what they re-export.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::{Attribute, Item, Meta, UseTree, Visibility};

/// A module's path below the crate's root, such as `["store", "redis"]`.
pub(super) type ModulePath = Vec<String>;

/// One module with a file of its own.
pub(super) struct Module {
    /// Its file, relative to the crate's sources.
    pub(super) file: String,
    /// Its syntax tree.
    pub(super) items: Vec<Item>,
    /// The names that it defines.
    defines: BTreeSet<String>,
    /// Names that it re-exports, with the path that they come from.
    re_exports: BTreeMap<String, Vec<String>>,
    /// Paths that it re-exports everything of.
    globs: Vec<Vec<String>>,
}

/// All modules of a crate that are not for tests.
pub(super) struct Modules(BTreeMap<ModulePath, Module>);

impl Modules {
    /// Reads the crate that has its `lib.rs` in `sources`.
    ///
    /// # Errors
    /// For a file that is missing or no Rust.
    pub(super) fn read(sources: &Path) -> Result<Self, String> {
        let mut modules = Self(BTreeMap::new());
        modules.add(sources, &sources.join("lib.rs"), sources, Vec::new())?;
        Ok(modules)
    }

    /// Adds the module in `file`, whose children lie in `folder`.
    fn add(&mut self, sources: &Path, file: &Path, folder: &Path, path: ModulePath) -> Result<(), String> {
        let text =
            std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}\n", file.display()))?;
        let tree = syn::parse_file(&text).map_err(|error| format!("{}: {error}\n", file.display()))?;
        for item in &tree.items {
            let Item::Mod(child) = item else { continue };
            if child.content.is_some() || is_for_tests(&child.attrs) {
                continue;
            }
            let name = child.ident.to_string();
            let (file, below) = locate(folder, &name)?;
            let path = path.iter().cloned().chain([name]).collect();
            self.add(sources, &file, &below, path)?;
        }
        let file = file.strip_prefix(sources).unwrap_or(file).display().to_string();
        self.0.insert(path, Module::new(file, tree.items));
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ModulePath, &Module)> {
        self.0.iter()
    }

    pub(super) fn contains(&self, path: &[String]) -> bool {
        self.0.contains_key(path)
    }

    /// Returns the module that defines what the absolute `path` names, found through re-exports.
    pub(super) fn definer(&self, path: &[String]) -> Option<&ModulePath> {
        self.follow(path, 0)
    }

    fn follow(&self, path: &[String], depth: usize) -> Option<&ModulePath> {
        // More re-exports behind each other than any crate has: a cycle.
        if depth > 16 {
            return None;
        }
        let length = (0..=path.len()).rev().find(|&length| self.0.contains_key(&path[..length]))?;
        let (at, module) = self.0.get_key_value(&path[..length])?;
        let Some(name) = path.get(length).filter(|name| !module.defines.contains(*name)) else { return Some(at) };
        if let Some(target) = module.re_exports.get(name) {
            let absolute = self.absolute(at, target)?;
            return self.follow(&absolute, depth + 1);
        }
        module
            .globs
            .iter()
            .find_map(|glob| {
                let absolute: Vec<String> = self.absolute(at, glob)?.into_iter().chain([name.clone()]).collect();
                let found = self.follow(&absolute, depth + 1)?;
                self.0[found].defines.contains(name).then_some(found)
            })
            .or(Some(at))
    }

    /// Returns `path` as it stands in the module `at`, from the crate's root on; `None` for another crate's.
    pub(super) fn absolute(&self, at: &[String], path: &[String]) -> Option<Vec<String>> {
        let mut base = at.to_vec();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                base.clear();
                rest = &path[1..];
            }
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|segment| segment == "super") {
                    base.pop()?;
                    rest = &rest[1..];
                }
            }
            first => {
                base.push(first.to_owned());
                if !self.contains(&base) {
                    return None;
                }
                base.pop();
            }
        }
        base.extend(rest.iter().filter(|segment| *segment != "self").cloned());
        Some(base)
    }
}

impl Module {
    fn new(file: String, items: Vec<Item>) -> Self {
        let mut module =
            Self { file, items: Vec::new(), defines: BTreeSet::new(), re_exports: BTreeMap::new(), globs: Vec::new() };
        for item in &items {
            match item {
                Item::Use(item) if !matches!(item.vis, Visibility::Inherited) => {
                    module.re_export(&item.tree, Vec::new())
                }
                _ => module.defines.extend(name_of(item)),
            }
        }
        module.items = items;
        module
    }

    fn re_export(&mut self, tree: &UseTree, mut path: Vec<String>) {
        match tree {
            UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                self.re_export(&tree.tree, path);
            }
            UseTree::Name(tree) => {
                path.push(tree.ident.to_string());
                self.re_exports.insert(tree.ident.to_string(), path);
            }
            UseTree::Rename(tree) => {
                path.push(tree.ident.to_string());
                self.re_exports.insert(tree.rename.to_string(), path);
            }
            UseTree::Glob(_) => self.globs.push(path),
            UseTree::Group(tree) => tree.items.iter().for_each(|tree| self.re_export(tree, path.clone())),
        }
    }
}

fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Mod(item) => &item.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Returns true for `#[cfg(test)]`.
pub(super) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}

/// Returns the file of the module `name` in `folder`, and the folder of its children.
fn locate(folder: &Path, name: &str) -> Result<(PathBuf, PathBuf), String> {
    let below = folder.join(name);
    let files = [folder.join(format!("{name}.rs")), below.join("mod.rs")];
    let file = files.into_iter().find(|file| file.is_file());
    file.map(|file| (file, below)).ok_or_else(|| format!("{}: no file of the module `{name}`\n", folder.display()))
}
