//! Java's regular expressions (`java.util.regex.Pattern`), as Spring configurations write them.
//!
//! An expression is put into the dialect of Rust's engines, and what would silently mean something else there keeps
//! Java's meaning: `\d`, `\w` and `\s` are ASCII, `\<` is a `<`, `[\w-.]` holds a hyphen, `[[:x:]]` no class of POSIX'.
//! What neither engine can do is refused by name.
//!
//! Two engines, chosen by the expression. The linear one takes time in proportion to the text whatever the expression,
//! so that no request can stall a worker. Look-around, back-references and possessive quantifiers need one that
//! backtracks: it gives up after [`MAX_BACKTRACKS`] steps with [`TooSlow`], where Java would go on for as long as it
//! takes.
//!
//! Known differences: `.` excludes `\n` alone, `$` and `\Z` match at the very end only, `(?i)` folds letters beyond
//! ASCII where the text is Unicode, and what repeats what may be empty (`(a*|b)+`) may take or hold another part:
//! [`JavaRegex::repeats_nothing`].

mod class;
mod empty;
mod escape;
mod replace;
mod translate;

use std::fmt;

use regex::bytes::{CaptureLocations, Regex, RegexBuilder};
use thiserror::Error;

pub use self::replace::{Replacement, ReplacementError};
use self::translate::{Target, translate};

/// The most bytes that one compiled expression may take: thousands of routes must fit into memory.
const MAX_COMPILED_BYTES: usize = 1 << 20;

/// Steps back after which a search with the backtracking engine ends with [`TooSlow`]: about a millisecond.
pub const MAX_BACKTRACKS: usize = 10_000;

/// What the texts are that an expression is matched with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// Bytes, each a character (ISO 8859-1), as in raw paths and field values.
    Bytes,
    /// UTF-8.
    Unicode,
}

/// A Java expression, compiled.
#[derive(Clone)]
pub struct JavaRegex {
    engine: Engine,
    /// The names of the groups, from group 0 on.
    names: Box<[Option<Box<str>>]>,
}

#[derive(Clone)]
enum Engine {
    Linear(Regex),
    Backtracking(Box<fancy_regex::Regex>),
}

/// An expression that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegexError {
    /// `\G`, `\X`, `\R`, `(?U)` and the like.
    #[error("`{0}` is not supported: rewrite the expression without it")]
    Unsupported(String),
    /// What Java refuses as well.
    #[error("{0}")]
    Invalid(String),
    /// Compiled, the expression would take more than 1 MiB.
    #[error("the expression is too large once compiled: make its repetitions shorter")]
    TooLarge,
    /// What the engine says, in one line.
    #[error("{0}")]
    Syntax(String),
}

/// A search took more than [`MAX_BACKTRACKS`] steps back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the expression took more than {MAX_BACKTRACKS} steps back")]
pub struct TooSlow;

/// Searches a text again and again, and holds what the groups of the last match were.
pub struct Matcher<'r> {
    regex: &'r JavaRegex,
    groups: Groups,
}

enum Groups {
    /// Nobody asks for them, which makes a search faster.
    Unwanted,
    Linear(CaptureLocations),
    Backtracking(Vec<Option<(usize, usize)>>),
}

// === impl JavaRegex ===

impl JavaRegex {
    /// Compiles `expression` so that it is found anywhere in a text, as Java's `Matcher.find`.
    ///
    /// # Errors
    /// What Java refuses, and what neither engine can do.
    pub fn new(expression: &str, charset: Charset) -> Result<Self, RegexError> {
        Self::compile(expression, charset, |pattern| pattern.to_owned())
    }

    /// Compiles `expression` so that only a text that matches as a whole does, as Java's `Matcher.matches`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn full_match(expression: &str, charset: Charset) -> Result<Self, RegexError> {
        // Alone first: `a)(b` is an error that the anchoring group would hide.
        Self::new(expression, charset)?;
        Self::compile(expression, charset, |pattern| format!("^(?:{pattern})$"))
    }

    /// Compiles what `around` makes of the translated `expression`: an expression in Rust's dialect.
    fn compile(expression: &str, charset: Charset, around: impl Fn(&str) -> String) -> Result<Self, RegexError> {
        let linear = translate(expression, Target { charset, backtracks: false })?;
        if !linear.needs_backtracking {
            return Self::linear(&around(&linear.pattern), linear.groups, charset);
        }
        let translated = translate(expression, Target { charset, backtracks: true })?;
        Self::backtracking(around(&translated.pattern), translated.groups, charset)
    }

    fn linear(pattern: &str, groups: usize, charset: Charset) -> Result<Self, RegexError> {
        let mut builder = RegexBuilder::new(pattern);
        builder.unicode(charset == Charset::Unicode);
        builder.size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES);
        let regex = builder.build().map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => RegexError::TooLarge,
            other => RegexError::Syntax(last_line(&other.to_string())),
        })?;
        let names = names(regex.capture_names(), groups);
        Ok(Self { engine: Engine::Linear(regex), names })
    }

    fn backtracking(pattern: String, groups: usize, charset: Charset) -> Result<Self, RegexError> {
        let mode = match charset {
            Charset::Bytes => fancy_regex::BytesMode::Ascii,
            Charset::Unicode => fancy_regex::BytesMode::UnicodeBytes,
        };
        let mut options = fancy_regex::RegexOptionsBuilder::new();
        options.bytes_mode(mode).backtrack_limit(MAX_BACKTRACKS).max_prog_size(MAX_COMPILED_BYTES / 64);
        options.delegate_size_limit(MAX_COMPILED_BYTES).delegate_dfa_size_limit(MAX_COMPILED_BYTES);
        let regex = options.build(pattern).map_err(|error| RegexError::Syntax(last_line(&error.to_string())))?;
        let names = names(regex.capture_names(), groups);
        Ok(Self { engine: Engine::Backtracking(Box::new(regex)), names })
    }

    /// Whether it is found in `text`.
    ///
    /// # Errors
    /// Where that takes too long to say; never for an expression that is matched in linear time.
    pub fn is_match(&self, text: impl AsRef<[u8]>) -> Result<bool, TooSlow> {
        match &self.engine {
            Engine::Linear(regex) => Ok(regex.is_match(text.as_ref())),
            Engine::Backtracking(regex) => regex.is_match(text.as_ref()).map_err(|_| TooSlow),
        }
    }

    /// What searches texts for it.
    #[must_use]
    pub fn matcher(&self) -> Matcher<'_> {
        let groups = match &self.engine {
            Engine::Linear(regex) => Groups::Linear(regex.capture_locations()),
            Engine::Backtracking(_) => Groups::Backtracking(Vec::new()),
        };
        Matcher { regex: self, groups }
    }

    /// What searches texts for it and knows of no groups, which is faster.
    #[must_use]
    pub fn finder(&self) -> Matcher<'_> {
        Matcher { regex: self, groups: Groups::Unwanted }
    }

    /// How many groups there are, group 0 included, which is the whole match.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.names.len()
    }

    /// The number of the group `name`.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|group| group.as_deref() == Some(name))
    }

    /// Whether it repeats what may be empty and holds a group or a choice, such as `(a*)+` or `(?:a*|b)*`. Java ends such
    /// a repetition at the first empty round, which its groups then hold; the engines leave that round out. Not told of
    /// expressions that backtrack.
    #[must_use]
    pub fn repeats_nothing(&self) -> bool {
        match &self.engine {
            Engine::Linear(regex) => empty::repeats_nothing(regex.as_str()),
            Engine::Backtracking(_) => false,
        }
    }

    /// Whether a search may take too long, and so be given up.
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

/// The names of group 0 and of `groups` more: the engines forget those that nothing can match, as in `(a){0}`.
fn names<'r>(known: impl Iterator<Item = Option<&'r str>>, groups: usize) -> Box<[Option<Box<str>>]> {
    known.map(|name| name.map(Box::from)).chain(std::iter::repeat(None)).take(groups + 1).collect()
}

/// An expression that matches `text` and nothing else.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_ascii() && !char.is_ascii_alphanumeric() {
            out.push('\\');
        }
        out.push(char);
    }
    out
}

/// An engine's message ends in a line that says what is wrong; those before it draw where.
fn last_line(message: &str) -> String {
    let line = message.lines().next_back().unwrap_or(message).trim();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

// === impl Matcher ===

impl Matcher<'_> {
    /// Finds the first match in `text` that begins at `from` or behind: where it begins and ends.
    ///
    /// # Errors
    /// Where that takes too long.
    pub fn find_at(&mut self, text: &[u8], from: usize) -> Result<Option<(usize, usize)>, TooSlow> {
        match (&self.regex.engine, &mut self.groups) {
            (Engine::Linear(regex), Groups::Unwanted) => {
                Ok(regex.find_at(text, from).map(|found| (found.start(), found.end())))
            }
            (Engine::Backtracking(regex), Groups::Unwanted) => {
                let found = regex.find_from_pos(text, from).map_err(|_| TooSlow)?;
                Ok(found.map(|found| (found.start(), found.end())))
            }
            (Engine::Linear(regex), Groups::Linear(locations)) => {
                Ok(regex.captures_read_at(locations, text, from).map(|found| (found.start(), found.end())))
            }
            (Engine::Backtracking(regex), Groups::Backtracking(slots)) => {
                slots.clear();
                let Some(found) = regex.captures_from_pos(text, from).map_err(|_| TooSlow)? else { return Ok(None) };
                slots.extend(found.iter().map(|group| group.map(|group| (group.start(), group.end()))));
                Ok(slots.first().copied().flatten())
            }
            _ => Ok(None), // made by one and the same regex
        }
    }

    /// Where the group numbered `group` was in the last match; `None` where it took no part.
    #[must_use]
    pub fn group(&self, group: usize) -> Option<(usize, usize)> {
        match &self.groups {
            Groups::Unwanted => None,
            Groups::Linear(locations) => locations.get(group),
            Groups::Backtracking(slots) => slots.get(group).copied().flatten(),
        }
    }
}

impl fmt::Debug for Matcher<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Matcher").field(self.regex).finish()
    }
}

#[cfg(test)]
mod tests;
