//! Counts violations of the project's rules of plain technical English.
//!
//! Four figures over comments, string literals, documents, and the comments of YAML, Lua and other files:
//!
//! - pronouns for unnamed persons, such as `nobody`: none, identifiers included;
//! - doc comments that open with a question word (`What`, `Whether`, `How` …): less than 1 %;
//! - comments on functions that do not begin with a verb: less than 10 %;
//! - sentences of more than [`MAX_WORDS`] words: less than 2 %.
//!
//! Text in backquotes and fenced code does not count.

mod functions;
mod markdown;
mod rust;
mod text;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use crate::files::below;

/// Words that a sentence may have.
const MAX_WORDS: usize = 35;
/// Share of sentences that may be longer, in percent.
const MAX_LONG: f64 = 2.0;
/// Share of doc comments that may open with a question word, in percent.
const MAX_OPENINGS: f64 = 1.0;

/// Share of comments on functions that need not begin with a verb, in percent.
const MAX_WITHOUT_VERB: f64 = 10.0;

static PERSONS: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)\b((?:no|some|any|every)body|who(?:ever|mever|m))\b"));
static OPENING: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(What|Whatever|Who(?:m|se|ever)?|Whether|Where|How)\b"));

#[allow(clippy::expect_used)] // constants
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

/// A paragraph, a table cell, a comment or a string literal.
#[derive(Debug, PartialEq)]
pub(crate) struct Passage {
    /// 1-based line of its beginning.
    line: usize,
    /// Its text on one line.
    text: String,
    /// True if a doc comment begins with it.
    opens_doc: bool,
}

#[derive(Default)]
struct Counts {
    persons: usize,
    docs: usize,
    openings: usize,
    functions: usize,
    without_verb: usize,
    sentences: usize,
    long: usize,
}

/// Checks the files below `paths`, or the whole repository if there are none.
///
/// # Errors
/// The report, if a figure is above its limit.
pub(crate) fn check(root: &Path, paths: &[String]) -> Result<String, String> {
    let folders =
        if paths.is_empty() { vec![root.to_owned()] } else { paths.iter().map(|path| root.join(path)).collect() };
    let (mut counts, mut report) = (Counts::default(), String::new());
    for file in folders
        .iter()
        .flat_map(|folder| below(folder, &["rs", "md", "lua", "yaml", "yml", "sh", "toml", "py", "transcript"]))
    {
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        for passage in passages(&name, &text) {
            judge(&name, &passage, &mut counts, &mut report);
        }
        if name.ends_with(".rs") {
            judge_names(&name, &text, &mut counts, &mut report);
            judge_functions(&name, &text, &mut counts, &mut report);
        }
    }
    summarize(&counts, report)
}

fn passages(name: &str, text: &str) -> Vec<Passage> {
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "rs" => rust::passages(text),
        "md" => markdown::passages(text),
        "lua" => text::lua(text),
        "transcript" => text::transcript(text),
        _ => text::hash_comments(text),
    }
}

fn judge(name: &str, passage: &Passage, counts: &mut Counts, report: &mut String) {
    let Passage { line, text, opens_doc } = passage;
    let text = text::without_code(text);
    for found in PERSONS.find_iter(&text) {
        counts.persons += 1;
        let _ = writeln!(report, "{name}:{line}: `{}`: name the thing that acts", found.as_str());
    }
    if *opens_doc {
        counts.docs += 1;
        if OPENING.is_match(text.trim_start()) {
            counts.openings += 1;
            let _ = writeln!(report, "{name}:{line}: a doc comment opens with a question word: {}", start(&text));
        }
    }
    for sentence in text::sentences(&text) {
        counts.sentences += 1;
        let words = text::words(sentence);
        if words > MAX_WORDS {
            counts.long += 1;
            let _ = writeln!(report, "{name}:{line}: a sentence of {words} words: {}", start(sentence));
        }
    }
}

/// Judges the identifiers of a Rust file.
fn judge_names(name: &str, text: &str, counts: &mut Counts, report: &mut String) {
    for (line, word) in rust::words(text) {
        if text::parts_of_name(word).any(|part| PERSONS.is_match(part)) {
            counts.persons += 1;
            let _ = writeln!(report, "{name}:{line}: `{word}`: name the thing that acts");
        }
    }
}

/// Judges the comments on the functions of a Rust file.
fn judge_functions(name: &str, text: &str, counts: &mut Counts, report: &mut String) {
    for doc in functions::docs(text) {
        counts.functions += 1;
        if !doc.begins_with_verb() {
            counts.without_verb += 1;
            let _ = writeln!(
                report,
                "{name}:{}: a function's comment begins without a verb: {}",
                doc.line,
                start(doc.text)
            );
        }
    }
}

/// Returns the first characters of a text.
fn start(text: &str) -> String {
    text.trim().chars().take(70).collect()
}

#[allow(clippy::cast_precision_loss)] // counts of a repository
fn summarize(counts: &Counts, mut report: String) -> Result<String, String> {
    let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    let (openings, long) = (percent(counts.openings, counts.docs), percent(counts.long, counts.sentences));
    let without_verb = percent(counts.without_verb, counts.functions);
    let _ = writeln!(
        report,
        "language: {} words for unnamed persons (limit 0); {openings:.2} % of {} doc comments open with a question word \
         (limit {MAX_OPENINGS} %); {without_verb:.2} % of {} comments on functions begin without a verb \
         (limit {MAX_WITHOUT_VERB} %); {long:.2} % of {} sentences have more than {MAX_WORDS} words (limit {MAX_LONG} %)",
        counts.persons, counts.docs, counts.functions, counts.sentences,
    );
    let passes = counts.persons == 0 && openings < MAX_OPENINGS && without_verb < MAX_WITHOUT_VERB && long < MAX_LONG;
    if passes { Ok(report) } else { Err(report) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(name: &str, text: &str) -> (Counts, String) {
        let (mut counts, mut report) = (Counts::default(), String::new());
        for passage in passages(name, text) {
            judge(name, &passage, &mut counts, &mut report);
        }
        (counts, report)
    }

    #[test]
    fn each_kind_of_violation_is_found_with_its_place() {
        let long = "word ".repeat(MAX_WORDS + 1);
        let (counts, report) =
            judged("a.rs", &format!("/// Whether it is on.\nfn a() {{}}\n// No{}. {long}\n", "body"));
        assert_eq!((counts.persons, counts.openings, counts.long), (1, 1, 1));
        for place in ["a.rs:1: a doc comment", "a.rs:3: `No", "a.rs:3: a sentence of 36 words"] {
            assert!(report.contains(place), "no `{place}` in {report}");
        }
        assert!(summarize(&counts, report).is_err());
    }

    #[test]
    fn names_of_unnamed_persons_are_found_in_identifiers() {
        let (mut counts, mut report) = (Counts::default(), String::new());
        let text =
            "fn no{}_waits() { let who{0} = 1; }\nstruct Any{};\nfn has_no_{}(a: No_{}) {}\n".replace("{}", "body");
        judge_names("a.rs", &text.replace("{0}", "m"), &mut counts, &mut report);
        assert_eq!(counts.persons, 3, "{report}");
        assert!(report.contains("a.rs:1: `no") && report.contains("a.rs:2: `Any"), "{report}");
        assert!(summarize(&counts, report).is_err());
    }

    #[test]
    fn comments_of_transcripts_are_read_and_their_output_is_not() {
        let text = format!("# Any{0} may pass.\n$ curl localhost # no{0}\nsome{0}\n", "body");
        let (counts, report) = judged("a.transcript", &text);
        assert_eq!(counts.persons, 1, "{report}");
    }

    #[test]
    fn code_in_backquotes_does_not_count() {
        let (counts, _) = judged("a.md", &format!("The user `no{0}` owns it.\n\n```\nsome{0}\n```\n", "body"));
        assert_eq!(counts.persons, 0);
    }

    #[test]
    fn plain_text_passes() {
        let (counts, report) = judged("a.yaml", "# Address to listen on.\nport: 1 # TCP port\n");
        assert_eq!(counts.sentences, 1);
        assert!(summarize(&counts, report).is_ok());
    }
}
