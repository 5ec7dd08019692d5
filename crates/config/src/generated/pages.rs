//! The pages below `docs/reference/` with generated parts.
//!
//! A part stands between `<!-- generated: KIND ARGUMENT… -->` and `<!-- /generated -->`:
//!
//! | Part | Content |
//! |---|---|
//! | `keys PREFIX…` | the table of all keys that begin with one of the prefixes |
//! | `predicates` | the table of predicates |
//! | `filters` | the list of filters with links to their pages |
//! | `filter NAME` | purpose and arguments of one filter |
//!
//! A filter without a page gets one with an example, to be completed by hand.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::filters::filters;
use crate::generated::keys::keys;
use crate::generated::markdown::{self, KeyRow};
use crate::generated::{file, is_current, is_regenerating, root, spring};

const BEGIN: &str = "<!-- generated: ";

/// Returns the pages below `docs/reference/`, by path from the repository's root.
fn pages() -> Vec<String> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { collect(&path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    collect(&root().join("docs/reference"), &mut found);
    let mut pages: Vec<_> =
        found.iter().map(|path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned()).collect();
    pages.sort();
    pages
}

/// Returns the arguments of every generated part of a page.
fn parts(text: &str) -> Vec<&str> {
    text.split(BEGIN).skip(1).map(|rest| rest.split_once(" -->").unwrap().0).collect()
}

/// Returns the prefixes of a part `keys PREFIX…`.
fn prefixes(part: &str) -> impl Iterator<Item = &str> {
    part.strip_prefix("keys ").into_iter().flat_map(|prefixes| prefixes.split(' '))
}

/// Returns the longest of `prefixes` that `path` begins with.
fn longest<'p>(path: &str, prefixes: impl IntoIterator<Item = &'p str>) -> Option<&'p str> {
    prefixes.into_iter().filter(|prefix| path.starts_with(prefix)).max_by_key(|prefix| prefix.len())
}

/// Returns the content of `part`. Each key goes to the page with its longest prefix.
fn render_part(part: &str, rows: &[KeyRow], all: &[String], tables: &[(&str, String)]) -> String {
    if let Some((_, table)) = tables.iter().find(|(name, _)| *name == part) {
        return table.clone();
    }
    let (kind, argument) = part.split_once(' ').unwrap_or((part, ""));
    match kind {
        "keys" => {
            let is_here = |row: &&KeyRow| {
                let best = longest(&row.path, all.iter().map(String::as_str));
                best.is_some_and(|best| prefixes(part).any(|prefix| prefix == best))
            };
            markdown::key_table(rows.iter().filter(is_here))
        }
        "predicates" => markdown::predicates(),
        "filters" => markdown::filter_list(),
        "filter" => markdown::filter_page(argument, spring::has_filter(argument)),
        _ => panic!("no part is called `{part}`"),
    }
}

/// Returns the prefixes of all pages.
fn all_prefixes() -> Vec<String> {
    let texts: Vec<String> = pages().iter().map(|page| file(page)).collect();
    texts.iter().flat_map(|text| parts(text)).flat_map(prefixes).map(str::to_owned).collect()
}

#[test]
fn the_reference_is_current() {
    let (rows, all, tables) = (markdown::key_rows(&keys()), all_prefixes(), spring::tables());
    for page in pages() {
        let text = file(&page);
        let mut current = text.clone();
        for part in parts(&text) {
            current = super::part(&current, part, &render_part(part, &rows, &all, &tables));
        }
        is_current(&page, &current);
    }
}

#[test]
fn every_key_is_on_exactly_one_page() {
    let all = all_prefixes();
    let mut seen = BTreeSet::new();
    for prefix in &all {
        assert!(seen.insert(prefix), "two pages have `{prefix}`");
    }
    for row in markdown::key_rows(&keys()) {
        assert!(longest(&row.path, all.iter().map(String::as_str)).is_some(), "no page has `{}`", row.path);
    }
}

#[test]
fn every_filter_has_a_page() {
    for entry in filters() {
        let path = format!("docs/reference/filters/{}.md", entry.name);
        if is_regenerating() && !root().join(&path).exists() {
            let new = markdown::new_filter_page(entry, spring::has_filter(entry.name));
            std::fs::write(root().join(&path), new).unwrap();
        }
        let page = file(&path);
        assert!(page.starts_with(&format!("# {}\n", entry.name)), "{}", entry.name);
        assert!(page.contains("```yaml\n"), "{}: no example", entry.name);
        assert!(page.contains(&format!("{BEGIN}filter {} -->\n", entry.name)), "{}", entry.name);
    }
}
