//! Composition of one script for several rules from the scripts for one rule.
//!
//! The decision of each rule is a block that encloses the blocks of the rules behind it. So the innermost line knows all
//! decisions. On the way out each rule commits if all rules allow; its variables are in scope again there. A rule that
//! denies may write too: it takes nothing then. The script reads the time once and does not validate arguments, since
//! this crate writes them.
//!
//! Redis' cost is in commands, not in arithmetic. So all rules that count the same key id under the same limiter share one
//! string, which is read and written once. Its format is
//! `<us since 1970 until which any state matters>|<rule>=<state>|<rule>@<us>=<state>`. Rules in the string that the call
//! does not name (of another plan, or of an earlier configuration) stay until the time behind `@`, then they are dropped.
//!
//! Observed rules stand behind the enforced ones. They commit only if all enforced rules allow, and take their cost under
//! all of them or none, as a second call would. They do not change the decision of the enforced rules.
//!
//! A batch is many equal requests at one moment. Their total cost is taken if it fits. Otherwise as many requests pass as
//! fit, in their order, as they would have one after the other. The batch's arguments are the number of requests and how
//! many of those already wait; spare requests beyond them pass only if all do.
//!
//! A return of leased requests has two arguments: the time at which it is due, and the time at which Redis granted the
//! lease. It returns nothing if it is late, since the bucket may have been full and emptied meanwhile, and nothing if an
//! operator has changed one of the keys since the grant (`lua/revoke.lua`). Behind the keys of the rules are those of the
//! revocations.

mod packs;

use std::fmt::Write as _;

use self::packs::{Pack, packs, read_pack, write_pack};
use crate::rule::Algorithm;

/// One rule within a script for several.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ListedRule {
    pub(crate) algorithm: Algorithm,
    /// Name of its state in a shared string; `None`: it has keys of its own.
    pub(crate) packed_as: Option<Box<str>>,
    /// Index of its first key among all keys.
    pub(crate) key: usize,
    /// Index of its first argument among all arguments.
    pub(crate) arg: usize,
    /// Number of its arguments; optional ones that it omits must not read the next rule's.
    pub(crate) args: usize,
    /// True if the rule denies nothing. Rules of a batch are never observed.
    pub(crate) observed: bool,
}

/// Operation of a script for several rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListMode {
    /// Takes the cost of one request if all rules allow.
    Take,
    /// Reports the decision without taking anything.
    Look,
    /// Takes the cost of many equal requests, or of as many as all rules allow.
    Batch,
    /// Returns leased requests.
    Return,
}

/// Read and write of a packable script, verbatim.
const READ: &str = "call('GET', KEYS[1])";
const WRITE: &str = "call('SET', KEYS[1], text, 'PX', format('%d', ttl))";

/// Declaration in scripts that compute the amount before the request otherwise than as `left + cost`.
const UNTAKEN: &str = "local untaken";

/// Sections of an algorithm's script, separated by its marker lines.
struct Sections {
    parse: &'static str,
    time: &'static str,
    decide: &'static str,
    commit: &'static str,
    reply: &'static str,
}

/// A script in the making.
struct Composer<'r> {
    rules: &'r [ListedRule],
    packs: Vec<Pack>,
    batch: bool,
    script: String,
}

/// Returns the script for one rule: that of `lua/`, but for its reply, which is one string.
pub(super) fn single(algorithm: Algorithm) -> String {
    let text = algorithm.spec().script;
    let code = text.split_once("--]]\n").map_or(text, |(_, code)| code);
    let (before, _) = code.split_once("-- [reply]\n").unwrap_or((code, ""));
    format!("{before}-- [reply]\nreturn {}\n", joined(5, Sections::of(algorithm).reply))
}

/// Returns the script that runs `mode` under `rules`.
pub(super) fn compose(rules: &[ListedRule], mode: ListMode) -> String {
    let mut composer =
        Composer { rules, packs: packs(rules), batch: mode == ListMode::Batch, script: String::with_capacity(8_192) };
    composer.open(mode);
    (0..rules.len()).for_each(|at| composer.decide(at));
    if composer.batch {
        composer.script += "again = not all and batch > 1\n";
    }
    (0..rules.len()).rev().for_each(|at| composer.commit(at));
    composer.close();
    composer.script
}

impl Sections {
    fn of(algorithm: Algorithm) -> Self {
        let text = algorithm.spec().script;
        let code = text.split_once("--]]\n").map_or(text, |(_, code)| code);
        let (parse, rest) = code.split_once("-- [validate]\n").unwrap_or((code, ""));
        let (_, rest) = rest.split_once("-- [time]\n").unwrap_or_default();
        let (time, rest) = rest.split_once("-- [/time]\n").unwrap_or_default();
        let (decide, rest) = rest.split_once("-- [commit]\n").unwrap_or_default();
        let (commit, reply) = rest.split_once("-- [reply]\n").unwrap_or_default();
        let reply = reply.trim().trim_start_matches("return {").trim_end_matches('}');
        Self { parse, time, decide, commit, reply }
    }
}

impl Composer<'_> {
    /// Writes the declarations, the time and the reads of packs.
    fn open(&mut self, mode: ListMode) {
        let takes = mode != ListMode::Look;
        self.script += &format!(
            "local byte, find, format, sub, call = string.byte, string.find, string.format, string.sub, redis.call\n\
             local MILLION, LONGEST, MOST = 1000000, 315360000000000, 9007199254740991\n\
             local all, out = {takes}, {{}}\n",
        );
        if self.rules.iter().any(|rule| rule.observed) {
            self.script += "local observed = true\n";
        }
        if self.batch {
            self.script += "local batch, waiting, fits, again = tonumber(ARGV[1]), tonumber(ARGV[2]), 0, false\n";
        }
        if let Some(first) = self.rules.first() {
            self.script += &first.relocate(Sections::of(first.algorithm).time);
        }
        if mode == ListMode::Return {
            void_late_return(&mut self.script, self.rules);
        }
        for pack in &self.packs {
            read_pack(&mut self.script, pack, self.rules);
        }
        if self.batch {
            self.script += "repeat\nall, fits = true, batch\n";
        }
    }

    /// Opens the block of the rule at `at` and writes its decision.
    fn decide(&mut self, at: usize) {
        let rule = &self.rules[at];
        let sections = Sections::of(rule.algorithm);
        self.script += "do\n";
        // Lua allows 200 local variables at a time: shared declarations stand at the beginning once.
        let kept_lines =
            sections.parse.lines().filter(|line| !line.ends_with("redis.call") && !line.contains("9007199254740991"));
        self.script += &rule.relocate(&kept_lines.collect::<Vec<_>>().join("\n"));
        self.script += if self.batch { "\nlocal each = cost\ncost = each * batch\n" } else { "\n" };
        let read = if rule.packed_as.is_some() { format!("was{at}") } else { READ.to_owned() };
        self.script += &rule.relocate(&sections.decide.replace(READ, &read));
        let verdict = if rule.observed { "observed" } else { "all" };
        let _ = writeln!(self.script, "{verdict} = {verdict} and allowed == 1");
        if self.batch {
            self.script += "if allowed ~= 1 and left < each * fits then fits = (left - left % each) / each end\n";
        }
    }

    /// Writes the commit and the reply of the rule at `at` and closes its block.
    fn commit(&mut self, at: usize) {
        let rule = &self.rules[at];
        let sections = Sections::of(rule.algorithm);
        let commit = rule.relocate(&match rule.packed_as {
            Some(_) => sections.commit.replace(
                WRITE,
                &format!("is{at}, till{key} = text, math.max(till{key}, now + ttl * 1000)", key = rule.key),
            ),
            None => sections.commit.to_owned(),
        });
        let untaken = if sections.decide.contains(UNTAKEN) { "untaken" } else { "left + cost" };
        let (condition, end) = if self.batch { ("if not again then\n", "end\n") } else { ("", "") };
        let (commits, otherwise) = match rule.observed {
            true => ("all and (observed or allowed ~= 1)", "elseif allowed == 1 then"),
            false => ("all or allowed ~= 1", "else"),
        };
        let _ = write!(self.script, "{condition}if {commits} then\n{commit}{otherwise}\nleft = {untaken}\nend\n");
        let replies: Vec<String> = (5 * at + 1..=5 * at + 5).map(|n| format!("out[{n}]")).collect();
        let _ = write!(self.script, "{} = {}\n{end}end\n", replies.join(", "), sections.reply);
    }

    /// Writes the retry of a batch, the writes of packs and the reply.
    fn close(&mut self) {
        let mut numbers = 5 * self.rules.len();
        if self.batch {
            let _ = write!(
                self.script,
                "if again then\n  batch = fits > waiting and waiting or fits\n  if batch < 1 then batch = 1 end\nend\n\
                 until not again\nout[{}] = all and batch or 0\n",
                numbers + 1
            );
            numbers += 1;
        }
        for pack in &self.packs {
            write_pack(&mut self.script, pack, self.rules);
        }
        let _ = writeln!(self.script, "return {}", joined(numbers, "unpack(out)"));
    }
}

impl ListedRule {
    /// Rewrites `code` to use the rule's keys and arguments among all.
    fn relocate(&self, code: &str) -> String {
        let mut out = String::with_capacity(code.len());
        let mut rest = code;
        while let Some(at) = rest.find("KEYS[").into_iter().chain(rest.find("ARGV[")).min() {
            let (name, index) = rest[at..].split_at(5);
            let (digits, after) = index.split_once(']').unwrap_or((index, ""));
            let number = digits.parse::<usize>().unwrap_or_default();
            out += &rest[..at];
            let _ = match name {
                "KEYS[" => write!(out, "KEYS[{}]", number + self.key),
                _ if number > self.args => write!(out, "nil"),
                _ => write!(out, "ARGV[{}]", number + self.arg),
            };
            rest = after;
        }
        out + rest
    }
}

/// Returns Lua code that joins `count` integers, the values of `list`, to one string. The driver parses a string in a fifth of
/// the time of five integers.
fn joined(count: usize, list: &str) -> String {
    format!("string.format('{}', {list})", vec!["%d"; count].join(" "))
}

/// Writes the end of a return that is late or revoked.
fn void_late_return(script: &mut String, rules: &[ListedRule]) {
    let keys_of = |rule: &ListedRule| if rule.packed_as.is_some() { 1 } else { rule.algorithm.spec().key_words.len() };
    let first = rules.iter().map(|rule| rule.key + keys_of(rule)).max().unwrap_or_default();
    // The user of a gateway with token buckets only may lack the permission for GET.
    let reads_alone = rules.iter().any(|rule| rule.algorithm.spec().script.contains(READ));
    let read = if reads_alone { "call('GET', KEYS[n])" } else { "call('MGET', KEYS[n])[1]" };
    let _ = write!(
        script,
        "if now > tonumber(ARGV[1]) then return '' end\nfor n = {}, #KEYS do\n\
         \x20 if (tonumber({read}) or 0) >= tonumber(ARGV[2]) then return '' end\nend\n",
        first + 1,
    );
}

#[cfg(test)]
mod tests;
