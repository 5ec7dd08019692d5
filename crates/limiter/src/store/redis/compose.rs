//! Scripts for several rules, made of those for one.
//!
//! Each part's decision is a block that encloses those of the parts behind it, so that the innermost line knows all of
//! them, and on the way out each part, its variables in sight again, is committed if all allow. (A part that denies may
//! write too: it takes nothing then.) The time is read once, and arguments are not validated: they are ours.
//!
//! What costs Redis is commands, not arithmetic. So the states of all rules that count the same key id under the same
//! limiter are kept in one string, read and written once, however many they are:
//! `<us since 1970 until which something in it matters>|<rule>=<state>|<rule>=<state>`. A rule that is in there and not
//! asked about (of another plan, of yesterday's file) stays as it is.
//!
//! A batch is many equal requests at one moment: what each takes times their number is taken if it fits, or else as
//! many of them pass as fit, first come, first served, as they would have one after the other. It says in front how
//! many there are, and for how many of them nobody waits yet: those pass only if all do.

use std::fmt::Write as _;

use crate::rule::{Algorithm, MAX_SAFE_INTEGER};

/// One rule within a script for several.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Part {
    pub(super) algorithm: Algorithm,
    /// Under which name its state is kept with those of other rules; `None`: it has keys of its own.
    pub(super) packed_as: Option<Box<str>>,
    /// The position of its first key among all keys, from 0.
    pub(super) key: usize,
    /// The position of its first argument among all arguments, from 0.
    pub(super) arg: usize,
    /// How many are its own: those that it leaves out are not the next rule's.
    pub(super) args: usize,
}

/// What a script for several rules does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Takes what one request costs, if all rules allow.
    Take,
    /// Says what would become of it.
    Look,
    /// Takes what many equal requests cost, or as many of them as all rules allow.
    Batch,
}

/// What a packable script reads and writes, word for word.
const READS: &str = "call('GET', KEYS[1])";
const WRITES: &str = "call('SET', KEYS[1], text, 'PX', format('%d', ttl))";

/// What a script says that knows better than by adding the cost what was left before it was taken.
const UNTAKEN: &str = "local untaken";

/// The sections of an algorithm's script, which its marker lines divide.
struct Sections<'t> {
    parse: &'t str,
    time: &'t str,
    decide: &'t str,
    commit: &'t str,
    reply: &'t str,
}

impl<'t> Sections<'t> {
    fn of(text: &'t str) -> Self {
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

/// Whether an algorithm's script keeps its state in one string.
pub(super) fn is_packable(text: &str) -> bool {
    text.matches("KEYS[").count() == 1 + text.matches(READS).count() + text.matches(WRITES).count()
        && text.contains(READS)
        && text.contains(WRITES)
}

/// The script that does `mode` for `parts`; `text` has an algorithm's own.
pub(super) fn compose(parts: &[Part], mode: Mode, text: impl Fn(Algorithm) -> &'static str) -> String {
    let (takes, batch) = (mode != Mode::Look, mode == Mode::Batch);
    let mut script = format!(
        "local byte, find, format, sub, call = string.byte, string.find, string.format, string.sub, redis.call\n\
         local MILLION, LONGEST, MOST = 1000000, 315360000000000, 9007199254740991\n\
         local all, out = {takes}, {{}}\n",
    );
    if batch {
        script += "local batch, waiting, fits, again = tonumber(ARGV[1]), tonumber(ARGV[2]), 0, false\n";
    }
    if let Some(first) = parts.first() {
        script += &first.in_place(Sections::of(text(first.algorithm)).time);
    }
    let packs = packs(parts);
    for (key, members) in &packs {
        read_pack(&mut script, *key, members, parts);
    }
    if batch {
        script += "repeat\nall, fits = true, batch\n";
    }
    for (at, part) in parts.iter().enumerate() {
        let sections = Sections::of(text(part.algorithm));
        script += "do\n";
        // Lua allows 200 variables at a time: what all scripts call alike stands at the beginning once.
        let own =
            sections.parse.lines().filter(|line| !line.ends_with("redis.call") && !line.contains("9007199254740991"));
        script += &part.in_place(&own.collect::<Vec<_>>().join("\n"));
        script += if batch { "\nlocal each = cost\ncost = each * batch\n" } else { "\n" };
        let decide = match part.packed_as {
            Some(_) => sections.decide.replace(READS, &format!("was{at}")),
            None => sections.decide.to_owned(),
        };
        script += &part.in_place(&decide);
        script += "all = all and allowed == 1\n";
        if batch {
            script += "if allowed ~= 1 and left < each * fits then fits = (left - left % each) / each end\n";
        }
    }
    if batch {
        script += "again = not all and batch > 1\n";
    }
    for (at, part) in parts.iter().enumerate().rev() {
        let sections = Sections::of(text(part.algorithm));
        let commit = match part.packed_as {
            Some(_) => sections.commit.replace(
                WRITES,
                &format!(
                    "is{at}, till{key} = text, math.max(till{key}, ttl and now + ttl * 1000 or {MAX_SAFE_INTEGER})",
                    key = part.key
                ),
            ),
            None => sections.commit.to_owned(),
        };
        let untaken = if sections.decide.contains(UNTAKEN) { "untaken" } else { "left + cost" };
        let commit = part.in_place(&commit);
        let (condition, end) = if batch { ("if not again then\n", "end\n") } else { ("", "") };
        let _ = write!(script, "{condition}if all or allowed ~= 1 then\n{commit}else\nleft = {untaken}\nend\n");
        let slots: Vec<String> = (5 * at + 1..=5 * at + 5).map(|n| format!("out[{n}]")).collect();
        let _ = write!(script, "{} = {}\n{end}end\n", slots.join(", "), sections.reply);
    }
    if batch {
        let n = 5 * parts.len() + 1;
        let _ = write!(
            script,
            "if again then\n  batch = fits > waiting and waiting or fits\n  if batch < 1 then batch = 1 end\nend\n\
             until not again\nout[{n}] = all and batch or 0\n"
        );
    }
    for (key, members) in &packs {
        write_pack(&mut script, *key, members, parts);
    }
    script += "return out\n";
    script
}

impl Part {
    /// `code` with its keys and arguments at their places among all.
    fn in_place(&self, code: &str) -> String {
        let mut out = String::with_capacity(code.len());
        let mut rest = code;
        while let Some(at) = rest.find("KEYS[").into_iter().chain(rest.find("ARGV[")).min() {
            let (name, word) = rest[at..].split_at(5);
            let (digits, after) = word.split_once(']').unwrap_or((word, ""));
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

/// Packed parts by their key, in order.
fn packs(parts: &[Part]) -> Vec<(usize, Vec<usize>)> {
    let mut packs: Vec<(usize, Vec<usize>)> = Vec::new();
    for (at, part) in parts.iter().enumerate().filter(|(_, part)| part.packed_as.is_some()) {
        match packs.iter_mut().find(|(key, _)| *key == part.key) {
            Some((_, members)) => members.push(at),
            None => packs.push((part.key, vec![at])),
        }
    }
    packs
}

fn name(parts: &[Part], at: usize) -> &str {
    parts[at].packed_as.as_deref().unwrap_or_default()
}

/// Reads a pack: at one go if it holds just these rules in this order, otherwise one by one.
fn read_pack(script: &mut String, key: usize, members: &[usize], parts: &[Part]) {
    let states: Vec<String> = members.iter().map(|at| format!("was{at}")).collect();
    let written: Vec<String> = members.iter().map(|at| format!("is{at}")).collect();
    let pattern: Vec<String> =
        members.iter().map(|at| format!("|{}=([^|]*)", name(parts, *at).replace('-', "%-"))).collect();
    let _ = write!(
        script,
        "local {states}\nlocal {written}\nlocal till{key}, others{key} = 0, ''\n\
         do\nlocal pack = call('GET', KEYS[{n}])\n\
         if pack then\n  local _, till\n  _, _, till, {states} = find(pack, '^(%d+){pattern}$')\n\
         \x20 if not till then\n    till = string.match(pack, '^(%d+)|')\n\
         \x20   for rule, state in string.gmatch(pack, '|([%w_-]+)=([^|]*)') do\n      if false then\n",
        states = states.join(", "),
        written = written.join(", "),
        n = key + 1,
        pattern = pattern.concat(),
    );
    for at in members {
        let _ = writeln!(script, "      elseif rule == '{}' then was{at} = state", name(parts, *at));
    }
    let _ = write!(
        script,
        "      else others{key} = others{key} .. '|' .. rule .. '=' .. state end\n    end\n  end\n  till{key} = tonumber(till) or 0\n"
    );
    for at in members {
        let _ = writeln!(script, "  if was{at} == '' then was{at} = nil end");
    }
    *script += "end\nend\n";
}

/// Writes a pack if any of its rules was.
fn write_pack(script: &mut String, key: usize, members: &[usize], parts: &[Part]) {
    let any: Vec<String> = members.iter().map(|at| format!("is{at}")).collect();
    let format: Vec<String> = members.iter().map(|at| format!("|{}=%s", name(parts, *at))).collect();
    let values: Vec<String> = members.iter().map(|at| format!("is{at} or was{at} or ''")).collect();
    let _ = write!(
        script,
        "if {any} then\n  local text = format('%d{format}%s', till{key}, {values}, others{key})\n\
         \x20 if till{key} >= {MAX_SAFE_INTEGER} then\n    call('SET', KEYS[{n}], text)\n\
         \x20 else\n    call('SET', KEYS[{n}], text, 'PX', format('%d', (till{key} - now) / 1000 + 1))\n  end\nend\n",
        any = any.join(" or "),
        format = format.concat(),
        values = values.join(", "),
        n = key + 1,
    );
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::super::script::text;
    use super::*;

    #[test]
    fn every_script_has_its_sections_in_order() {
        for algorithm in Algorithm::ALL {
            let sections = Sections::of(text(algorithm));
            assert!(sections.parse.contains("cost = tonumber") || sections.parse.contains("cost"), "{algorithm:?}");
            assert!(sections.time.contains("call('TIME')"), "{algorithm:?}");
            assert!(sections.decide.contains("allowed"), "{algorithm:?}");
            assert!(sections.commit.trim_end().ends_with("end"), "{algorithm:?}");
            assert_eq!(sections.reply.split(',').count(), 5, "{algorithm:?}");
        }
    }

    #[test]
    fn keys_and_arguments_move_together() {
        let part = Part { algorithm: Algorithm::Gcra, packed_as: None, key: 3, arg: 10, args: 4 };
        assert_eq!(part.in_place("a(KEYS[1], ARGV[4]) KEYS[2]"), "a(KEYS[4], ARGV[14]) KEYS[5]");
        assert_eq!(part.in_place("tonumber(ARGV[5] or 1)"), "tonumber(nil or 1)", "the next rule's");
        assert_eq!(part.in_place("nothing"), "nothing");
    }

    #[test]
    fn a_state_in_one_string_can_be_packed() {
        assert!(is_packable(text(Algorithm::Gcra)));
        assert!(is_packable(text(Algorithm::FixedWindow)));
        assert!(!is_packable(text(Algorithm::TokenBucket)));
    }
}
