//! Lines of code that ship: lines that are neither blank nor a comment, without items under `#[cfg(test)]`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

/// Name of the row that counts all crates.
const ALL: &str = "all";
/// Lines that the crates may have. A change that removes code lowers the rows of its crates.
const LIMITS: [(&str, usize); 9] = [
    (ALL, 92_860),
    ("config", 17_315),
    ("spring", 5_355),
    ("document", 3_555),
    ("proxy", 16_220),
    ("limiter", 13_245),
    ("filters", 12_580),
    ("simulate", 3_565),
    ("src", 10_460),
];
/// Files that may ship.
const MAX_FILES: usize = 872;
/// Folders whose programs do not ship.
const NOT_SHIPPED: [&str; 2] = ["tools/", "xtask/"];
/// Name of the mode that only the reader of Spring's files may know, and the files outside of it that still do.
const MODE: &str = "is_spring";
const MAX_MODE_FILES: usize = 0;

/// Figures of the code that ships.
#[derive(Default)]
pub(super) struct Lines {
    by_crate: BTreeMap<String, usize>,
    files: usize,
    mode_files: usize,
}

impl Lines {
    /// Counts a file that ships, `name` from the repository's root.
    ///
    /// # Errors
    /// The file cannot be parsed.
    pub(super) fn add(&mut self, name: &str, text: &str) -> Result<(), String> {
        if NOT_SHIPPED.iter().any(|folder| name.starts_with(folder)) {
            return Ok(());
        }
        let lines = count(text).map_err(|error| format!("cannot parse {name}: {error}\n"))?;
        for crate_name in [ALL, crate_of(name)] {
            *self.by_crate.entry(crate_name.to_owned()).or_default() += lines;
        }
        self.files += 1;
        self.mode_files += usize::from(crate_of(name) != "spring" && text.contains(MODE));
        Ok(())
    }

    /// Writes the figures, and returns the figures that are above their limits.
    pub(super) fn summarize(&self, report: &mut String) -> Vec<String> {
        let _ = writeln!(report, "lines of code that ship, by crate: {:?}", self.by_crate);
        let of = |crate_name| self.by_crate.get(crate_name).copied().unwrap_or_default();
        let lines = LIMITS.map(|(crate_name, limit)| (format!("lines of {crate_name}"), of(crate_name), limit));
        let files = [
            ("files that ship".to_owned(), self.files, MAX_FILES),
            (format!("files with `{MODE}`"), self.mode_files, MAX_MODE_FILES),
        ];
        lines
            .into_iter()
            .chain(files)
            .filter(|(_, count, limit)| count > limit)
            .map(|(what, count, limit)| format!("{what}: {count} (limit {limit}): remove a decision, not line breaks"))
            .collect()
    }
}

fn crate_of(name: &str) -> &str {
    let mut parts = name.split('/');
    match (parts.next(), parts.next()) {
        (Some("crates"), Some(crate_name)) => crate_name,
        (Some(folder), Some(_)) => folder,
        _ => "build",
    }
}

/// Counts the lines of a file that are code.
fn count(text: &str) -> Result<usize, syn::Error> {
    let mut tests = TestLines(Vec::new());
    tests.visit_file(&syn::parse_file(text)?);
    let is_test = |line: usize| tests.0.iter().any(|lines| lines.contains(&line));
    let is_code = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    Ok(text.lines().zip(1..).filter(|(line, number)| is_code(line) && !is_test(*number)).count())
}

/// Ranges of lines of the items under `#[cfg(test)]`.
struct TestLines(Vec<std::ops::RangeInclusive<usize>>);

impl<'ast> Visit<'ast> for TestLines {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if attributes(item).iter().any(is_test) {
            self.0.push(item.span().start().line..=item.span().end().line);
        } else {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if function.attrs.iter().any(is_test) {
            self.0.push(function.span().start().line..=function.span().end().line);
        }
    }
}

pub(super) fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns true for `#[test]`, `#[cfg(test)]` and conditions that name `test`.
pub(super) fn is_test(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("test")
        || attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| {
                list.tokens.to_string().split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "test")
            })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_comments_and_tests_do_not_count() {
        let text = "//! A module.\n\nuse a::b;\n/// A doc.\nfn a() {\n    // why\n    b();\n}\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\n\
                    impl A {\n    #[cfg(test)]\n    fn d() {\n    }\n}\n";
        assert_eq!(count(text).unwrap_or_default(), 6);
        assert!(count("fn {").is_err());
    }

    #[test]
    fn a_figure_above_its_limit_is_a_violation() {
        let mut lines = Lines::default();
        let text = format!("fn a() {{ {MODE}() }}\n");
        for name in ["crates/config/src/a.rs", "crates/spring/src/a.rs", "tools/src/a.rs"] {
            assert_eq!(lines.add(name, &text), Ok(()));
        }
        assert_eq!((lines.files, lines.mode_files), (2, 1));
        assert_eq!(lines.by_crate.get("config"), Some(&1));
        lines.files = MAX_FILES + 1;
        let violations = lines.summarize(&mut String::new());
        assert!(violations.iter().any(|violation| violation.starts_with("files that ship")), "{violations:?}");
    }
}
