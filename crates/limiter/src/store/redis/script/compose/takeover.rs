//! Takeover of former states: a rule whose state is missing takes that of a rule of its limiter that is gone.
//!
//! A single rule has a key of its own, the rules of a list share a string under their names. So a rule that joins a list,
//! leaves it or is renamed finds no state under its present name. It takes the first former state with its times, or else
//! the first with its algorithm, converted as after any other change of its numbers. Taking moves: the former state is
//! removed when the rule writes. Gateways with the former and the present configuration therefore count in one state,
//! which each takes back from the other.
//!
//! The code runs only while a state is missing; a decision that finds its states reads nothing else. The keys of former
//! states are not among `KEYS`, but have the same hash tag. With such keys among `KEYS`, which hardly ever exist, every call
//! would fail while its slot moves to another node, and for users without a permission for them. Here, an access that is
//! refused counts as a missing state.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use super::packs::Pack;
use super::{ListedRule, READ, READ_TWO, WRITE};
use crate::rule::Algorithm;
use crate::store::redis::limiters::LimiterRules;

/// What a rule needs to take over the state of a former one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Takeover {
    /// Algorithm of the rule in the configuration, by which its state is named outside of lists.
    pub(crate) own: Algorithm,
    /// True if a single rule and a list name the key with one hash tag.
    pub(crate) crosses_keys: bool,
    /// Rules of the limiter: their states are not former ones.
    pub(crate) rules: Arc<LimiterRules>,
}

/// Finds the algorithm's former states in `text`, and matches them with the rules `new`.
const ENTRIES: &str = include_str!("takeover/entries.lua");
const BUCKET_TO_GCRA: &str = include_str!("takeover/bucket_to_gcra.lua");
const GCRA_TO_BUCKET: &str = include_str!("takeover/gcra_to_bucket.lua");

/// End of the commit of the script whose state is in two strings.
const WRITE_TWO: &str = "call('SETEX', KEYS[2], ttl, format('%010d.%06d%s', seconds, micros, tag))";

/// Rule that takes over, with its index.
type Taker<'r> = (usize, &'r ListedRule, &'r Takeover);

/// Returns the name of a rule's state in a string of several rules. Plans may give one name to rules of different
/// algorithms, which must not read each other's state.
pub(crate) fn state_name(listed: Algorithm, name: &str) -> Box<str> {
    format!("{}_{name}", listed.as_str()).into()
}

impl Takeover {
    /// Returns true if a rule of a list may find the state of a single rule.
    pub(crate) fn finds_single(&self) -> bool {
        self.crosses_keys && !self.rules.has_single(self.own)
    }

    /// Returns a table of the names of states that are not former ones.
    fn present(&self) -> String {
        let names: BTreeSet<_> =
            self.rules.named().map(|(name, algorithm)| state_name(algorithm.spec().in_list, name)).collect();
        let entries: Vec<String> = names.iter().map(|name| format!("['{name}'] = true")).collect();
        format!("{{{}}}", entries.join(", "))
    }

    /// Returns a table that describes the rule for the search.
    fn described(&self, rule: &ListedRule) -> String {
        let (own, listed) = (self.own.as_str(), self.own.spec().in_list);
        let times = rule.relocate(listed.spec().times);
        format!("{{own = '{own}', listed = '{}', times = {times}}}", listed.as_str())
    }

    /// Returns the Lua function and the arguments behind the key that replace a string by an empty one.
    fn removal(&self) -> (&'static str, &'static str) {
        // A user may have only the permissions that the algorithm needs. An empty string counts as missing.
        if self.own == Algorithm::TokenBucket { ("'SETEX'", "1, ''") } else { ("'SET'", "'', 'PX', 1") }
    }
}

/// Writes the takeover by rules that share a string: of the states of single rules, and of others in the string.
pub(super) fn for_pack(script: &mut String, (key, members): &Pack, rules: &[ListedRule]) {
    let takers: Vec<Taker<'_>> =
        members.iter().filter_map(|at| Some((*at, &rules[*at], rules[*at].takeover.as_ref()?))).collect();
    let Some((_, _, first)) = takers.first() else { return };
    let states: Vec<String> = takers.iter().map(|(at, ..)| format!("was{at}")).collect();
    let singles: Vec<String> = takers.iter().map(|(at, ..)| format!("single{at}")).collect();
    let _ = write!(
        script,
        "local {singles}\nif not ({states}) then\n\
         local at, old = find(KEYS[{n}], '{{', 1, true), {{}}\n\
         local prefix, tag = sub(KEYS[{n}], 1, at - 7), sub(KEYS[{n}], at)\n",
        singles = singles.join(", "),
        states = states.join(" and "),
        n = key + 1,
    );
    for (n, (_, rule, takeover)) in takers.iter().enumerate().filter(|(_, (.., takeover))| takeover.finds_single()) {
        let has_algorithm = |(.., other): &&Taker<'_>| other.own == takeover.own;
        if !takers[..n].iter().any(|other| has_algorithm(&other)) {
            let missing = takers.iter().filter(has_algorithm).map(|(at, ..)| format!("not was{at}"));
            let _ = writeln!(script, "if {} then", missing.collect::<Vec<_>>().join(" or "));
            read_single(script, rule, takeover.own);
            *script += "end\n";
        }
    }
    let present = first.present();
    let _ = write!(
        script,
        "if others{key} ~= '' or old[1] then\nlocal text, till, present, new = others{key}, '0', {present}, {{}}\n"
    );
    for (at, rule, takeover) in &takers {
        let described = takeover.described(rule);
        let _ = write!(script, "local new{at} = not was{at} and {described}\nnew[#new + 1] = new{at} or nil\n");
    }
    let _ = writeln!(script, "{ENTRIES}others{key} = text");
    for (at, ..) in &takers {
        let _ = write!(
            script,
            "if new{at} and new{at}.old then\n  was{at}, single{at} = new{at}.old.state, new{at}.old.names\n\
             \x20 till{key} = math.max(till{key}, new{at}.old.past or 0)\nend\n"
        );
    }
    *script += "end\nend\n";
}

/// Writes the read of the state that a single rule with the algorithm `own` has.
fn read_single(script: &mut String, rule: &ListedRule, own: Algorithm) {
    if own == Algorithm::TokenBucket {
        let numbers = rule.relocate(
            "local rate, burst, units, tick = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[6] and ARGV[5] or MILLION), tonumber(ARGV[6] or 1)",
        );
        let _ = write!(
            script,
            "local names = {{prefix .. 'request_rate_limiter.' .. tag .. '.tokens', prefix .. 'request_rate_limiter.' .. tag .. '.timestamp'}}\n\
             local two, state = redis.pcall('MGET', names[1], names[2]), nil\n{numbers}\n{BUCKET_TO_GCRA}"
        );
    } else {
        let word = own.spec().key_words.first().copied().unwrap_or_default();
        let _ = write!(
            script,
            "local names = {{prefix .. '{word}.' .. tag}}\nlocal state = redis.pcall('GET', names[1])\n"
        );
    }
    let _ = write!(
        script,
        "if type(state) == 'string' and state ~= '' then\n\
         \x20 old[#old + 1] = {{algorithm = '{}', state = state, names = names}}\nend\n",
        own.as_str()
    );
}

/// Returns the value that a string of several rules has for the rule at `at`. A state from another key is not copied
/// unless the rule itself writes, since its expiry is unknown.
pub(super) fn value(at: usize, rule: &ListedRule) -> String {
    match rule.takeover {
        Some(_) => format!("is{at} or not single{at} and was{at} or ''"),
        None => format!("is{at} or was{at} or ''"),
    }
}

/// Writes the removal of the states that rules of a string took from single rules.
pub(super) fn remove_singles(script: &mut String, members: &[usize], rules: &[ListedRule]) {
    for (at, takeover) in members.iter().filter_map(|at| Some((at, rules[*at].takeover.as_ref()?))) {
        let (command, rest) = takeover.removal();
        let _ = write!(
            script,
            "  if single{at} and is{at} then\n    for _, name in ipairs(single{at}) do redis.pcall({command}, name, {rest}) end\n  end\n"
        );
    }
}

/// Writes the takeover by a rule with a key of its own: of a state in the string of the limiter's former list.
pub(super) fn for_own_key(script: &mut String, at: usize, rule: &ListedRule) {
    let Some(takeover) = rule.takeover.as_ref().filter(|_| rule.packed_as.is_none()) else { return };
    let is_two = takeover.own == Algorithm::TokenBucket;
    let (read, missing, get, word_length) = match is_two {
        true => (READ_TWO, format!("not was{at}[1] or was{at}[1] == ''"), "redis.pcall('MGET', name)[1]", 21),
        false => {
            let word = takeover.own.spec().key_words.first().copied().unwrap_or_default();
            (READ, format!("not was{at} or was{at} == ''"), "redis.pcall('GET', name)", word.len() + 1)
        }
    };
    let taken = match is_two {
        true => format!("local state, two = rule.old.state, nil\n{GCRA_TO_BUCKET}was{at} = two or was{at}\n"),
        false => format!("was{at} = rule.old.state\n"),
    };
    let _ = write!(
        script,
        "local was{at}, former{at} = {read}, nil\nif {missing} then\n\
         local from, to = find(KEYS[{n}], '{{[^}}]*}}')\n\
         local name = sub(KEYS[{n}], 1, from - 1 - {word_length}) .. 'rules.' .. sub(KEYS[{n}], from, to)\n\
         local text = {get}\n\
         if type(text) == 'string' and text ~= '' then\n\
         local till, present, old, rule = string.match(text, '^(%d+)|') or '0', {present}, {{}}, {described}\n\
         local new = {{rule}}\n{ENTRIES}\
         if rule.old then\n{taken}former{at} = {{name, text, till}}\nend\nend\nend\n",
        read = rule.relocate(read),
        n = rule.key + 1,
        present = takeover.present(),
        described = takeover.described(rule),
    );
}

/// Adds the removal of a state that was taken from a former list to the rule's commit.
pub(super) fn with_removal(commit: &str, at: usize, rule: &ListedRule) -> String {
    let Some(takeover) = &rule.takeover else { return commit.to_owned() };
    let (command, rest) = takeover.removal();
    let (write, keep) = match takeover.own {
        Algorithm::TokenBucket => (WRITE_TWO, "format('%d', (TILL - now) / MILLION + 1), all"),
        _ => (WRITE, "all, 'PX', format('%d', (TILL - now) / 1000 + 1)"),
    };
    let keep = keep.replace("TILL", &format!("former{at}[3]"));
    let removal = format!(
        "{write}\n  if former{at} then\n    local all = former{at}[3] .. former{at}[2]\n\
         \x20   if former{at}[2] == '' then redis.pcall({command}, former{at}[1], {rest})\n\
         \x20   else redis.pcall({command}, former{at}[1], {keep}) end\n  end"
    );
    commit.replace(write, &removal)
}
