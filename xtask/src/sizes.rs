//! Sizes of Rust files and functions.
//!
//! - A file has at most [`MAX_LINES`] lines, except the tables in [`TABLES`].
//! - Of the functions that ship, 90 % have at most [`MAX_P90`] lines, and fewer than [`MAX_LONG`] % have more than
//!   [`LONG`]. Tests, examples and benchmarks do not count.
//! - The crates have at most the lines of code in [`lines`]. Modules under `#[cfg(test)]` do not count.
//! - Types of results say what they mean ([`unclear`]).

mod lines;
mod unclear;

use std::fmt::Write as _;
use std::path::Path;

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};

use crate::files::below;
use crate::sizes::lines::Lines;
use crate::sizes::unclear::Unclear;

/// Lines that a file may have.
const MAX_LINES: usize = 300;
/// Files of table rows only, which may be longer.
const TABLES: [&str; 1] = ["crates/config/src/generated/spring/tables.rs"];
/// 90th percentile of the lines of a function.
const MAX_P90: usize = 25;
/// Lines above which a function is long.
const LONG: usize = 50;
/// Share of functions that may be long, in percent.
const MAX_LONG: f64 = 1.0;
/// Parts of a path that mark code that does not ship.
const NOT_SHIPPED: [&str; 4] = ["tests", "examples", "benches", "fuzz"];

/// A function with its place and length.
struct Function {
    place: String,
    name: String,
    lines: usize,
}

/// Checks all Rust files of the repository.
///
/// # Errors
/// The report, if a file or a figure is above its limit.
pub(crate) fn check(root: &Path) -> Result<String, String> {
    let (mut functions, mut violations, mut tables) = (Vec::new(), Vec::new(), Vec::new());
    let (mut lines, mut unclear, mut report) = (Lines::default(), Unclear::default(), String::new());
    let mut files = Vec::new();
    for file in below(root, &["rs"]).iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
        let name = file.strip_prefix(root).unwrap_or(file).display().to_string();
        let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {name}: {error}\n"))?;
        files.push((name, text));
    }
    let mut of_tests = Vec::new();
    for (name, text) in &files {
        of_tests.extend(modules_of_tests(name, text)?);
    }
    for (name, text) in files {
        if TABLES.contains(&&*name) {
            tables.push(name.clone());
        }
        violations.extend(too_long(&name, &text));
        if ships(&name) && !of_tests.iter().any(|module| is_within(&name, module)) {
            functions.extend(functions_of(&name, &text)?);
            lines.add(&name, &text)?;
            unclear.add(&name, &text)?;
        }
    }
    let lost = TABLES.iter().filter(|table| !tables.iter().any(|found| found == *table));
    violations.extend(lost.map(|table| format!("{table}: a table that does not exist; remove it from the list")));
    violations.extend(lines.summarize(&mut report));
    violations.extend(unclear.violation());
    summarize(functions, &violations, report)
}

/// Returns the violation of a file that has too many lines, or that no longer needs its exception.
fn too_long(name: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    match (lines > MAX_LINES, TABLES.contains(&name)) {
        (true, false) => Some(format!("{name}: {lines} lines (limit {MAX_LINES}): split it by meaning")),
        (false, true) => Some(format!("{name}: {lines} lines; remove it from the list of long tables")),
        _ => None,
    }
}

fn ships(name: &str) -> bool {
    let stem = name.trim_end_matches(".rs");
    !stem.split('/').any(|part| NOT_SHIPPED.contains(&part))
}

/// Returns the modules under `#[cfg(test)]` that have files of their own, without an extension: `crates/config/src/generated`.
fn modules_of_tests(name: &str, text: &str) -> Result<Vec<String>, String> {
    let file = syn::parse_file(text).map_err(|error| format!("cannot parse {name}: {error}\n"))?;
    let path = Path::new(name);
    let is_root = ["mod.rs", "lib.rs", "main.rs"].iter().any(|root| path.ends_with(root));
    let folder = if is_root { path.parent().unwrap_or(path).to_owned() } else { path.with_extension("") };
    let of_tests = |item: &syn::Item| match item {
        syn::Item::Mod(module) if module.content.is_none() && module.attrs.iter().any(lines::is_test) => {
            Some(folder.join(module.ident.to_string()).display().to_string())
        }
        _ => None,
    };
    Ok(file.items.iter().filter_map(of_tests).collect())
}

/// Returns true if the file `name` is that of `module`, or one below it.
fn is_within(name: &str, module: &str) -> bool {
    name.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

fn functions_of(name: &str, text: &str) -> Result<Vec<Function>, String> {
    let file = syn::parse_file(text).map_err(|error| format!("cannot parse {name}: {error}\n"))?;
    let mut reader = Reader { file: name, found: Vec::new() };
    reader.visit_file(&file);
    Ok(reader.found)
}

/// Collects the functions of a file.
struct Reader<'f> {
    file: &'f str,
    found: Vec<Function>,
}

impl Reader<'_> {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (start, end) = (signature.span().start().line, block.span().end().line);
        self.found.push(Function {
            place: format!("{}:{start}", self.file),
            name: signature.ident.to_string(),
            lines: end - start + 1,
        });
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.ident != "tests" {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !function.attrs.iter().any(|attribute| attribute.path().is_ident("test")) {
            self.add(&function.sig, &function.block);
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[allow(clippy::cast_precision_loss)] // counts of a repository
fn summarize(mut functions: Vec<Function>, violations: &[String], mut report: String) -> Result<String, String> {
    functions.sort_by_key(|function| std::cmp::Reverse(function.lines));
    let count = functions.len();
    let p90 = functions.get(count / 10).map_or(0, |function| function.lines);
    let long = functions.iter().take_while(|function| function.lines > LONG).count();
    let share = 100.0 * long as f64 / count.max(1) as f64;
    for violation in violations {
        let _ = writeln!(report, "{violation}");
    }
    for Function { place, name, lines } in functions.iter().take(long) {
        let _ = writeln!(report, "{place}: `{name}` has {lines} lines");
    }
    let _ = writeln!(
        report,
        "sizes: {} violations (limit 0); 90 % of {count} functions have at most {p90} lines (limit \
         {MAX_P90}); {share:.2} % have more than {LONG} (limit {MAX_LONG} %)",
        violations.len(),
    );
    let passes = violations.is_empty() && p90 <= MAX_P90 && share < MAX_LONG;
    if passes { Ok(report) } else { Err(report) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(lines: usize) -> Function {
        Function { place: "a.rs:1".to_owned(), name: "a".to_owned(), lines }
    }

    #[test]
    fn a_file_of_301_lines_fails_and_a_listed_table_passes() {
        let long = "//\n".repeat(MAX_LINES + 1);
        assert!(too_long("src/a.rs", &long).is_some_and(|violation| violation.starts_with("src/a.rs: 301 lines")));
        assert_eq!(too_long("src/a.rs", &"//\n".repeat(MAX_LINES)), None);
        assert_eq!(too_long(TABLES[0], &long), None);
        assert!(too_long(TABLES[0], "").is_some(), "an exception that is no longer needed");
        assert!(summarize(vec![function(1)], &["src/a.rs: 301 lines".to_owned()], String::new()).is_err());
    }

    #[test]
    fn modules_of_tests_in_files_of_their_own_do_not_ship() {
        let text = "mod a;\n#[cfg(test)]\nmod b;\n#[cfg(test)]\nmod c { mod d; }\n";
        assert_eq!(modules_of_tests("crates/x/src/lib.rs", text).unwrap(), ["crates/x/src/b"]);
        assert_eq!(modules_of_tests("src/y.rs", text).unwrap(), ["src/y/b"]);
        assert!(is_within("src/y/b.rs", "src/y/b") && is_within("src/y/b/z.rs", "src/y/b"));
        assert!(!is_within("src/y/bc.rs", "src/y/b") && !is_within("src/y/a.rs", "src/y/b"));
    }

    #[test]
    fn functions_are_measured_from_signature_to_brace_without_tests() {
        let text = "/// A comment.\nfn a() {\n    b();\n}\nimpl A {\n    fn b(&self) -> u8 { 1 }\n}\n\
                    #[test]\nfn c() {\n}\nmod tests {\n    fn d() {}\n}\n";
        let found: Vec<_> =
            functions_of("a.rs", text).unwrap_or_default().into_iter().map(|f| (f.name, f.place, f.lines)).collect();
        let expected = [("a", "a.rs:2", 3), ("b", "a.rs:6", 1)];
        assert_eq!(found, expected.map(|(name, place, lines)| (name.to_owned(), place.to_owned(), lines)));
        assert!(functions_of("a.rs", "fn {").is_err());
    }

    #[test]
    fn long_functions_fail_above_their_share() {
        let of = |lines: &[usize]| summarize(lines.iter().copied().map(function).collect(), &[], String::new());
        assert!(of(&[[MAX_P90; 8].as_slice(), &[LONG; 2]].concat()).is_err(), "a fifth is above the limit");
        assert!(of(&[[MAX_P90; 9].as_slice(), &[LONG]].concat()).is_ok());
        let one_in_a_hundred = [[1; 99].as_slice(), &[LONG + 1]].concat();
        assert!(of(&one_in_a_hundred).is_err_and(|report| report.contains("a.rs:1: `a` has 51 lines")));
    }

    #[test]
    fn tests_and_examples_do_not_ship() {
        assert!(ships("crates/proxy/src/server/mod.rs") && ships("crates/limiter/src/lib.rs"));
        for name in ["tests/it/main.rs", "filters/examples/axum.rs", "crates/document/src/yaml/tests/spans.rs"] {
            assert!(!ships(name), "{name}");
        }
    }
}
