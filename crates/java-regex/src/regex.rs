//! Compiled expressions and searches.

use std::fmt;

use regex::bytes::{CaptureLocations, Regex, RegexBuilder};
use regex_syntax::hir::{Hir, HirKind};
use regex_syntax::{Parser, ParserBuilder};

use crate::budget;
use crate::charset::Charset;
use crate::error::{MAX_BACKTRACKS, RegexError, TooSlow};
use crate::translate::{Dialect, translate};

/// Maximum size of one compiled expression in bytes: thousands of routes must fit into memory.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// A compiled Java expression.
#[derive(Clone)]
pub struct JavaRegex {
    engine: Engine,
    /// Names of the groups, group 0 included.
    group_names: Box<[Option<Box<str>>]>,
}

#[derive(Clone)]
enum Engine {
    Linear(Regex),
    Backtracking(Box<fancy_regex::Regex>),
}

/// Searches texts repeatedly and keeps the groups of the last match.
#[derive(Debug)]
pub struct Matcher<'r>(Search<'r>);

/// An engine and the groups of its last match. `None` does not record them, which makes a search faster.
#[derive(Debug)]
enum Search<'r> {
    Linear(&'r Regex, Option<CaptureLocations>),
    Backtracking(&'r fancy_regex::Regex, Option<Vec<Option<(usize, usize)>>>),
}

// === impl JavaRegex ===

impl JavaRegex {
    /// Compiles an expression that is found anywhere in a text, as with Java's `Matcher.find`.
    ///
    /// # Errors
    /// Returns an error if Java rejects the expression or if neither engine supports it.
    pub fn new(expression: &str, charset: Charset) -> Result<Self, RegexError> {
        Self::compile(expression, charset, false)
    }

    /// Compiles an expression that must match a whole text, as with Java's `Matcher.matches`.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn full_match(expression: &str, charset: Charset) -> Result<Self, RegexError> {
        Self::compile(expression, charset, true)
    }

    /// Translates `expression`, anchors it if it `is_whole`, and compiles it. An anchoring group would hide the error in `a)(b`, so
    /// the expression is parsed, or compiled, without one first.
    fn compile(expression: &str, charset: Charset, is_whole: bool) -> Result<Self, RegexError> {
        let wrap = |pattern: &str| if is_whole { format!("^(?:{pattern})$") } else { pattern.to_owned() };
        let linear = translate(expression, Dialect { charset, backtracks: false })?;
        if !linear.needs_backtracking {
            let parsed = parser(charset).parse(&linear.pattern);
            let parsed = parsed.map_err(|error| RegexError::Syntax(last_line(&error.to_string())))?;
            budget::take(budget::size(&parsed))?;
            return Self::with_linear_engine(&wrap(&linear.pattern), linear.groups, charset);
        }
        let translated = translate(expression, Dialect { charset, backtracks: true })?;
        budget::take(translated.pattern.len())?;
        let alone = Self::with_backtracking_engine(&translated.pattern, translated.groups, charset)?;
        if !is_whole {
            return Ok(alone);
        }
        Self::with_backtracking_engine(&wrap(&translated.pattern), translated.groups, charset)
    }

    fn with_linear_engine(pattern: &str, groups: usize, charset: Charset) -> Result<Self, RegexError> {
        let mut builder = RegexBuilder::new(pattern);
        builder.unicode(charset == Charset::Unicode);
        builder.size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES);
        let regex = builder.build().map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => RegexError::TooLarge,
            other => RegexError::Syntax(last_line(&other.to_string())),
        })?;
        let group_names = group_names(regex.capture_names(), groups);
        Ok(Self { engine: Engine::Linear(regex), group_names })
    }

    fn with_backtracking_engine(pattern: &str, groups: usize, charset: Charset) -> Result<Self, RegexError> {
        let mode = match charset {
            Charset::Bytes => fancy_regex::BytesMode::Ascii,
            Charset::Unicode => fancy_regex::BytesMode::UnicodeBytes,
        };
        let mut options = fancy_regex::RegexOptionsBuilder::new();
        options.bytes_mode(mode).backtrack_limit(MAX_BACKTRACKS).max_prog_size(MAX_COMPILED_BYTES / 64);
        options.delegate_size_limit(MAX_COMPILED_BYTES).delegate_dfa_size_limit(MAX_COMPILED_BYTES);
        let regex =
            options.build(pattern.to_owned()).map_err(|error| RegexError::Syntax(last_line(&error.to_string())))?;
        let group_names = group_names(regex.capture_names(), groups);
        Ok(Self { engine: Engine::Backtracking(Box::new(regex)), group_names })
    }

    /// Returns true if the expression is found in `text`.
    ///
    /// # Errors
    /// Returns [`TooSlow`] past the backtracking limit. Never fails with the linear engine.
    pub fn is_match(&self, text: impl AsRef<[u8]>) -> Result<bool, TooSlow> {
        match &self.engine {
            Engine::Linear(regex) => Ok(regex.is_match(text.as_ref())),
            Engine::Backtracking(regex) => regex.is_match(text.as_ref()).map_err(|_| TooSlow),
        }
    }

    /// Returns a matcher that records groups.
    #[must_use]
    pub fn matcher(&self) -> Matcher<'_> {
        Matcher(match &self.engine {
            Engine::Linear(regex) => Search::Linear(regex, Some(regex.capture_locations())),
            Engine::Backtracking(regex) => Search::Backtracking(regex, Some(Vec::new())),
        })
    }

    /// Returns a matcher that does not record groups, which is faster.
    #[must_use]
    pub fn matcher_without_groups(&self) -> Matcher<'_> {
        Matcher(match &self.engine {
            Engine::Linear(regex) => Search::Linear(regex, None),
            Engine::Backtracking(regex) => Search::Backtracking(regex, None),
        })
    }

    /// Returns the number of groups. Group 0, the whole match, is included.
    #[must_use]
    pub fn group_count(&self) -> usize {
        self.group_names.len()
    }

    /// Returns the index of the group `name`.
    #[must_use]
    pub fn group_index(&self, name: &str) -> Option<usize> {
        self.group_names.iter().position(|group| group.as_deref() == Some(name))
    }

    /// Returns true if the expression repeats a part that matches the empty text and contains a group or a choice, such
    /// as `(a*)+` or `(?:a*|b)*`.
    ///
    /// Java ends such a repetition after the first empty iteration and keeps the groups of that iteration; the engines
    /// here omit it. Always false for expressions that backtrack.
    #[must_use]
    pub fn repeats_empty_match(&self) -> bool {
        match &self.engine {
            Engine::Linear(regex) => repeats_empty_match(regex.as_str()),
            Engine::Backtracking(_) => false,
        }
    }

    /// Returns true if the expression needs the backtracking engine, so that a search may end with [`TooSlow`].
    #[must_use]
    pub fn backtracks(&self) -> bool {
        matches!(self.engine, Engine::Backtracking(_))
    }
}

impl fmt::Debug for JavaRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.engine {
            Engine::Linear(regex) => f.write_str(regex.as_str()),
            Engine::Backtracking(regex) => f.write_str(regex.as_str()),
        }
    }
}

/// Returns a parser of the linear engine's syntax.
fn parser(charset: Charset) -> Parser {
    ParserBuilder::new().unicode(charset == Charset::Unicode).utf8(false).build()
}

/// Returns the names of group 0 and of `groups` more. The engines drop groups that cannot match, as in `(a){0}`.
fn group_names<'r>(engine_names: impl Iterator<Item = Option<&'r str>>, groups: usize) -> Box<[Option<Box<str>>]> {
    engine_names.map(|name| name.map(Box::from)).chain(std::iter::repeat(None)).take(groups + 1).collect()
}

/// Returns the last line of an engine's message, which has the reason; the lines before it draw the position.
fn last_line(message: &str) -> String {
    let line = message.lines().next_back().unwrap_or(message).trim();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// Returns true if `pattern`, in Rust's syntax, repeats an expression that matches the empty text and contains a group
/// or a choice.
fn repeats_empty_match(pattern: &str) -> bool {
    let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern);
    parsed.is_ok_and(|hir| contains_repeated_empty_match(&hir))
}

fn contains_repeated_empty_match(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            let (repeated, repeats) = (&repetition.sub, repetition.max.is_none_or(|max| max > 1));
            let may_be_empty = repeated.properties().minimum_len() == Some(0);
            let has_group_or_choice = repeated.properties().explicit_captures_len() > 0 || has_choice(repeated);
            (repeats && may_be_empty && has_group_or_choice) || contains_repeated_empty_match(repeated)
        }
        HirKind::Capture(capture) => contains_repeated_empty_match(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(contains_repeated_empty_match),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}

/// Returns true if the longest match is not tried first: there is an alternation or a reluctant repetition.
fn has_choice(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(repetition) => !repetition.greedy || has_choice(&repetition.sub),
        HirKind::Capture(capture) => has_choice(&capture.sub),
        HirKind::Concat(parts) => parts.iter().any(has_choice),
        HirKind::Alternation(_) => true,
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}

// === impl Matcher ===

impl Matcher<'_> {
    /// Finds the first match in `text` that starts at byte `from` or later. Returns its start and end.
    ///
    /// # Errors
    /// Returns [`TooSlow`] past the backtracking limit.
    pub fn find_at(&mut self, text: &[u8], from: usize) -> Result<Option<(usize, usize)>, TooSlow> {
        match &mut self.0 {
            Search::Linear(regex, None) => {
                Ok(regex.find_at(text, from).map(|matched| (matched.start(), matched.end())))
            }
            Search::Linear(regex, Some(locations)) => {
                Ok(regex.captures_read_at(locations, text, from).map(|matched| (matched.start(), matched.end())))
            }
            Search::Backtracking(regex, None) => {
                let matched = regex.find_from_pos(text, from).map_err(|_| TooSlow)?;
                Ok(matched.map(|matched| (matched.start(), matched.end())))
            }
            Search::Backtracking(regex, Some(group_spans)) => {
                group_spans.clear();
                let Some(groups) = regex.captures_from_pos(text, from).map_err(|_| TooSlow)? else { return Ok(None) };
                group_spans.extend(groups.iter().map(|group| group.map(|group| (group.start(), group.end()))));
                Ok(group_spans.first().copied().flatten())
            }
        }
    }

    /// Returns the start and end of a group in the last match; `None` if the group did not participate.
    #[must_use]
    pub fn group(&self, index: usize) -> Option<(usize, usize)> {
        match &self.0 {
            Search::Linear(_, locations) => locations.as_ref()?.get(index),
            Search::Backtracking(_, group_spans) => *group_spans.as_ref()?.get(index)?,
        }
    }
}
