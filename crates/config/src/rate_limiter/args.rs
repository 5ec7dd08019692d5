//! A limiter's arguments by name: flat as they come (`limits[0].key-resolver`), read section by section.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_limiter::rule::MOST;

use crate::de::arg::Arg;
use crate::de::canonical;
use crate::de::units::parse_time;
use crate::diagnostics::{Diagnostics, suggest};
use crate::yaml::Span;

/// The arguments of one map: of the filter, of a rule in a list, of a plan.
#[derive(Clone, Debug, Default)]
pub(super) struct Section<'w> {
    entries: Vec<Entry<'w>>,
    /// Names with nothing behind them.
    empty: Vec<Entry<'w>>,
    /// Where it stands.
    pub(super) span: Option<Span>,
}

/// One argument, seen from its section: `name`, `name[index]`, or `name.rest`.
#[derive(Clone, Debug)]
pub(super) struct Entry<'w> {
    /// As its author wrote it.
    pub(super) name: String,
    index: Option<usize>,
    rest: String,
    pub(super) arg: &'w Arg,
}

impl<'w> Entry<'w> {
    /// The argument that the path `path` leads to.
    pub(super) fn new(path: &str, arg: &'w Arg) -> Self {
        let end = path.find(['.', '[']).unwrap_or(path.len());
        let (name, rest) = path.split_at(end);
        let indexed = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (index, rest) = match indexed.and_then(|(index, rest)| Some((index.parse().ok()?, rest))) {
            Some((index, rest)) => (Some(index), rest),
            None => (None, rest),
        };
        Self { name: name.to_owned(), index, rest: rest.trim_start_matches('.').to_owned(), arg }
    }

    fn is(&self, name: &str) -> bool {
        canonical(&self.name) == canonical(name)
    }

    fn is_scalar(&self) -> bool {
        self.index.is_none() && self.rest.is_empty()
    }
}

impl<'w> Section<'w> {
    pub(super) fn push(&mut self, entry: Entry<'w>) {
        self.span.get_or_insert(entry.arg.span);
        self.entries.push(entry);
    }

    /// Adds a name with nothing behind it, which counts as absent.
    pub(super) fn push_empty(&mut self, entry: Entry<'w>) {
        self.empty.push(entry);
    }

    /// What stands under `name` if that is nothing: no value, an empty list or an empty map.
    pub(super) fn nothing(&self, name: &str) -> Option<&'w Arg> {
        self.empty.iter().find(|entry| entry.is(name) && entry.rest.is_empty()).map(|entry| entry.arg)
    }

    /// Where it stands; `or` if it is empty.
    pub(super) fn at(&self, or: Span) -> Span {
        self.span.unwrap_or(or)
    }

    pub(super) fn entries(&self) -> &[Entry<'w>] {
        &self.entries
    }

    /// Whether anything is said under `name`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.first(name).is_some() || self.empty.iter().any(|entry| entry.is(name) && !entry.is_scalar())
    }

    /// The first thing said under `name`, whatever its shape.
    pub(super) fn first(&self, name: &str) -> Option<&'w Arg> {
        self.entries.iter().find(|entry| entry.is(name)).map(|entry| entry.arg)
    }

    /// The one value of `name`.
    pub(super) fn get(&self, name: &str, diagnostics: &mut Diagnostics) -> Option<&'w Arg> {
        let found = self.entries.iter().find(|entry| entry.is(name))?;
        if !found.is_scalar() {
            let what = if found.index.is_some() { "a list" } else { "a map" };
            diagnostics.error(found.arg.span, format!("`{name}` must be one value, found {what}"));
            return None;
        }
        Some(found.arg)
    }

    /// The value or the values of `name`.
    pub(super) fn texts(&self, name: &str) -> Vec<&'w Arg> {
        self.entries.iter().filter(|entry| entry.is(name) && entry.rest.is_empty()).map(|entry| entry.arg).collect()
    }

    /// The maps in the list `name`, in their order.
    pub(super) fn items(&self, name: &str, diagnostics: &mut Diagnostics) -> Vec<Section<'w>> {
        let mut items: BTreeMap<usize, Section<'w>> = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| entry.is(name)) {
            match entry.index {
                Some(index) if !entry.rest.is_empty() => {
                    items.entry(index).or_default().push(Entry::new(&entry.rest, entry.arg));
                }
                _ => diagnostics
                    .error(entry.arg.span, format!("`{name}` must be a list of maps"))
                    .help(format!("{name}: [{{name: second, replenish-rate: 10, burst-capacity: 20}}]")),
            }
        }
        for entry in self.empty.iter().filter(|entry| entry.is(name)) {
            if let Some(index) = entry.index {
                let item = items.entry(index).or_default();
                if entry.rest.is_empty() {
                    item.span = Some(entry.arg.span);
                } else {
                    item.push_empty(Entry::new(&entry.rest, entry.arg));
                }
            }
        }
        items.into_values().collect()
    }

    /// The map `name`.
    pub(super) fn map(&self, name: &str) -> Section<'w> {
        let mut map = Section::default();
        for entry in self.entries.iter().filter(|entry| entry.is(name) && !entry.rest.is_empty()) {
            map.push(Entry::new(&entry.rest, entry.arg));
        }
        for entry in self.empty.iter().filter(|entry| entry.is(name) && !entry.rest.is_empty()) {
            map.push_empty(Entry::new(&entry.rest, entry.arg));
        }
        map
    }

    /// The entries of the map `name` whose values are texts; keys may hold anything.
    pub(super) fn table(&self, name: &str) -> Vec<(&str, &'w Arg)> {
        let entries = self.entries.iter().filter(|entry| entry.is(name) && !entry.rest.is_empty());
        entries.map(|entry| (entry.rest.as_str(), entry.arg)).collect()
    }

    /// The keys of the section, each once, in their order.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for entry in self.entries.iter().chain(&self.empty) {
            if !names.contains(&entry.name.as_str()) {
                names.push(&entry.name);
            }
        }
        names
    }

    /// Complains about names that are not `known`, and about values that are given twice.
    pub(super) fn check_names(&self, of: &str, known: &[&str], diagnostics: &mut Diagnostics) {
        for (at, entry) in self.entries.iter().chain(&self.empty).enumerate() {
            if !known.iter().any(|name| entry.is(name)) {
                let of = if of.is_empty() { "`RequestRateLimiter`".to_owned() } else { format!("{of} of a limiter") };
                diagnostics
                    .mistake(entry.arg.span.key(), format!("{of} has no argument `{}`", entry.name))
                    .help(suggest(&entry.name, known));
            } else if entry.is_scalar() && self.entries.iter().take(at).any(|above| above.is(&entry.name)) {
                diagnostics.error(entry.arg.span.key(), format!("`{}` is given twice", entry.name));
            }
        }
    }

    /// A whole number.
    pub(super) fn number(&self, name: &str, diagnostics: &mut Diagnostics) -> Result<Option<u64>, ()> {
        let Some(arg) = self.get(name, diagnostics) else { return if self.has(name) { Err(()) } else { Ok(None) } };
        arg.value.trim().parse().ok().filter(|number| *number <= MOST).map(Some).ok_or_else(|| {
            let fraction = arg.value.contains('.');
            let found = diagnostics
                .error(arg.span, format!("`{name}` must be a whole number up to {MOST}, found `{}`", arg.value));
            if fraction && canonical(name).ends_with("rate") {
                found.help("for less than one a second give it a longer `period`: rate 1, period 1m is one a minute");
            }
        })
    }

    /// A time above zero.
    pub(super) fn time(&self, name: &str, diagnostics: &mut Diagnostics) -> Result<Option<Duration>, ()> {
        let Some(arg) = self.get(name, diagnostics) else { return if self.has(name) { Err(()) } else { Ok(None) } };
        let time = parse_time(&arg.value);
        let message = match time {
            Ok(time) if !time.is_zero() => {
                is_bare(name, arg, time, diagnostics);
                return Ok(Some(time));
            }
            Ok(_) => format!("`{name}` must be longer than 0"),
            Err(message) => format!("`{name}`: {message}"),
        };
        diagnostics.error(arg.span, message);
        Err(())
    }

    /// One of the words, by its place among them.
    pub(super) fn word(&self, name: &str, words: &[&str], diagnostics: &mut Diagnostics) -> Result<Option<usize>, ()> {
        let Some(arg) = self.get(name, diagnostics) else { return if self.has(name) { Err(()) } else { Ok(None) } };
        let wanted = canonical(arg.value.trim());
        words.iter().position(|word| canonical(word) == wanted).map(Some).ok_or_else(|| {
            let (last, before) = words.split_last().unwrap_or((&"", &[]));
            let words = if before.is_empty() { (*last).to_owned() } else { format!("{} or {last}", before.join(", ")) };
            diagnostics.error(arg.span, format!("expected {words}, found `{}`", arg.value));
        })
    }
}

/// Warns of `window: 60`, which is 60 milliseconds.
fn is_bare(name: &str, arg: &Arg, time: Duration, diagnostics: &mut Diagnostics) {
    let number = arg.value.trim();
    let is_length = ["window", "period", "replenish-period"].contains(&name);
    if is_length && time < Duration::from_secs(1) && number.parse::<u64>().is_ok() {
        diagnostics
            .warn(arg.span, format!("`{name}: {number}` is {number} ms: a bare number is milliseconds"))
            .help(format!("write `{number}s`, or `{number}ms` if that is meant"));
    }
}
