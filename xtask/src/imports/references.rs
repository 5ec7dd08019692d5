//! The paths that a module names.

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{ItemMod, ItemUse, Path, UseTree, Visibility};

use super::modules::is_for_tests;

/// A path as it is written, from the file's module on.
#[derive(Debug, PartialEq)]
pub(super) struct Reference {
    /// Its segments, `crate`, `self` and `super` included.
    pub(super) path: Vec<String>,
    /// True if the module re-exports it.
    pub(super) is_re_export: bool,
    /// 1-based line.
    pub(super) line: usize,
}

/// Collects references of the shipped part of a file.
#[derive(Default)]
pub(super) struct References {
    pub(super) found: Vec<Reference>,
    /// Inline modules around the current item.
    depth: usize,
}

impl References {
    fn add(&mut self, mut path: Vec<String>, is_re_export: bool, line: usize) {
        // `super` of an inline module is the file itself.
        for _ in 0..self.depth {
            match path.first().map(String::as_str) {
                Some("super") => drop(path.remove(0)),
                Some("crate") => {}
                _ => return,
            }
        }
        if self.depth > 0 && path.first().is_some_and(|first| first != "crate" && first != "super") {
            path.insert(0, "self".to_owned());
        }
        self.found.push(Reference { path, is_re_export, line });
    }

    fn flatten(&mut self, tree: &UseTree, mut path: Vec<String>, is_re_export: bool) {
        let line = tree.span().start().line;
        match tree {
            UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                self.flatten(&tree.tree, path, is_re_export);
            }
            UseTree::Name(tree) => {
                path.push(tree.ident.to_string());
                self.add(path, is_re_export, line);
            }
            UseTree::Rename(tree) => {
                path.push(tree.ident.to_string());
                self.add(path, is_re_export, line);
            }
            UseTree::Glob(_) => self.add(path, is_re_export, line),
            UseTree::Group(tree) => tree.items.iter().for_each(|tree| self.flatten(tree, path.clone(), is_re_export)),
        }
    }
}

impl<'ast> Visit<'ast> for References {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if item.content.is_some() && !is_for_tests(&item.attrs) {
            self.depth += 1;
            visit::visit_item_mod(self, item);
            self.depth -= 1;
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_for_tests(&item.attrs) {
            self.flatten(&item.tree, Vec::new(), !matches!(item.vis, Visibility::Inherited));
        }
    }

    /// A visibility such as `pub(in crate::admin)` imports nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast Path) {
        if path.segments.len() > 1 {
            let segments = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.add(segments, false, path.span().start().line);
        }
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_code_are_references_and_visibilities_are_not() {
        let text = "use self::a::B; pub(in crate::c) fn f() { d::e(); crate::g::h() } #[cfg(test)] mod tests { use crate::i; }";
        let mut references = References::default();
        references.visit_file(&syn::parse_file(text).unwrap_or_else(|error| panic!("{error}")));
        let found: Vec<String> = references.found.iter().map(|reference| reference.path.join("::")).collect();
        assert_eq!(found, ["self::a::B", "d::e", "crate::g::h"]);
    }
}
