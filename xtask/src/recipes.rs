//! Applies the recipes of CONTRIBUTING.md to a copy of the repository, and compiles it.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

/// Sections of CONTRIBUTING.md whose recipes are complete programs.
const SECTIONS: [&str; 3] = ["## Add a filter", "## Add a predicate", "## Add a configuration key"];

/// Copies the files that git does not ignore to `target/recipes`, applies the recipes, and compiles the copy with the artifacts of `target`.
///
/// A warning fails, too: a recipe that forgets a row leaves its check unused.
pub(crate) fn check(root: &Path) -> Result<String, String> {
    let root = root.canonicalize().map_err(|error| format!("{}: {error}\n", root.display()))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let copy = target.join("recipes");
    copy_files(&root, &copy)?;
    let text = read(&root.join("CONTRIBUTING.md"))?;
    let mut applied = 0;
    for section in SECTIONS {
        let diffs = section_of(&text, section)?.split("```diff\n").skip(1).filter_map(|rest| rest.split("```").next());
        for file in diffs.flat_map(|diff| diff.split("--- ").filter(|file| !file.is_empty())) {
            apply(file, &copy).map_err(|error| format!("CONTRIBUTING.md, {section}: {error}\n"))?;
            applied += 1;
        }
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["check", "--quiet", "--locked", "--workspace", "--all-features", "--lib", "--bins"]);
    let output = cargo.current_dir(&copy).env("CARGO_TARGET_DIR", &target).output();
    let output = output.map_err(|error| format!("cargo: {error}\n"))?;
    match output.status.success() && output.stderr.is_empty() {
        true => Ok(format!("recipes: {applied} files changed as CONTRIBUTING.md says, and the copy compiles\n")),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Copies every file that differs, and links. Unchanged files keep their times, so that cargo compiles less.
fn copy_files(root: &Path, copy: &Path) -> Result<(), String> {
    let listed = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output();
    let listed = listed.map_err(|error| format!("git: {error}\n"))?;
    let listed = String::from_utf8_lossy(&listed.stdout);
    let names: HashSet<&str> = listed.split('\0').filter(|name| !name.is_empty() && root.join(name).exists()).collect();
    remove_others(copy, copy, &names);
    for name in names {
        let (source, target) = (root.join(name), copy.join(name));
        if let Ok(link) = std::fs::read_link(&source) {
            // A link to a folder; from an earlier run, it is there.
            let _ = std::fs::create_dir_all(target.parent().unwrap_or(copy));
            let _ = std::os::unix::fs::symlink(link, &target);
            continue;
        }
        let Ok(content) = std::fs::read(&source) else { continue };
        if !std::fs::read(&target).is_ok_and(|present| present == content) {
            write(&target, &content)?;
        }
    }
    Ok(())
}

/// Removes files from an earlier run that the repository no longer has: two files of one module would not compile.
fn remove_others(folder: &Path, copy: &Path, names: &HashSet<&str>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.strip_prefix(copy).unwrap_or(&path).to_string_lossy();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_others(&path, copy, names);
        } else if !names.contains(name.as_ref()) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// Returns the text from the heading `heading` to the next one of its level.
fn section_of<'t>(text: &'t str, heading: &str) -> Result<&'t str, String> {
    let (_, section) = text.split_once(&format!("{heading}\n")).ok_or_else(|| format!("no section `{heading}`\n"))?;
    Ok(section.split("\n## ").next().unwrap_or_default())
}

/// Applies the difference of one file, without its first `--- `.
fn apply(difference: &str, root: &Path) -> Result<(), String> {
    let mut lines = difference.lines();
    let is_new = lines.next() == Some("/dev/null");
    let name = lines.next().and_then(|line| line.strip_prefix("+++ ")).ok_or("a difference has no `+++` line")?;
    let path = root.join(name);
    let text = if is_new { String::new() } else { read(&path)? };
    let changed = merge(&text, lines).map_err(|line| format!("{name} has no line `{line}` here"))?;
    write(&path, changed.as_bytes())
}

/// Returns `text` with the changed lines. Lines without a sign, and removed ones, are searched from the previous one on.
/// Fails with a line that is not found.
fn merge<'d>(text: &str, changes: impl Iterator<Item = &'d str>) -> Result<String, &'d str> {
    let mut rest = text.lines();
    let mut merged: Vec<&str> = Vec::new();
    for change in changes {
        let (sign, line) = change.split_at_checked(1).unwrap_or((" ", ""));
        if sign == "+" {
            merged.push(line);
            continue;
        }
        loop {
            let next = rest.next().ok_or(change)?;
            if next != line {
                merged.push(next);
                continue;
            }
            if sign == " " {
                merged.push(next);
            }
            break;
        }
    }
    merged.extend(rest);
    Ok(merged.join("\n") + "\n")
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}\n", path.display()))
}

fn write(path: &Path, content: &[u8]) -> Result<(), String> {
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    folder.and_then(|()| std::fs::write(path, content)).map_err(|error| format!("{}: {error}\n", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_after_the_line_before_them_and_removed_where_they_stand() {
        let changes = [" b", "+x", "-d", "+y"];
        assert_eq!(merge("a\nb\nc\nd\ne\n", changes.into_iter()), Ok("a\nb\nx\nc\ny\ne\n".to_owned()));
    }

    #[test]
    fn a_recipe_that_names_a_missing_line_fails() {
        assert_eq!(merge("a\nb\n", [" b", " a"].into_iter()), Err(" a"));
    }
}
