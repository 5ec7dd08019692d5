//! Changes of a text that keep it near to a configuration.

use fastrand::Rng;

/// Texts that are invalid almost everywhere.
const NASTY: [&str; 62] = [
    "",
    "~",
    "null",
    "-1",
    "0",
    "1",
    "18446744073709551616",
    "1e309",
    ".inf",
    "0x10",
    "1_000",
    "true",
    "off",
    "-0",
    "${A}",
    "${A:}",
    "${A:${A:${A:}}}",
    "${",
    "${:}",
    "${server.port}",
    "#{@x}",
    "#{",
    "[",
    "]",
    "{",
    "}",
    "{}",
    "[]",
    "*",
    "*a",
    "&a x",
    "!x y",
    "<<",
    "? a",
    ": a",
    "- a",
    "a: b: c",
    "'",
    "\"",
    "\\",
    "\u{0}",
    "\u{7f}",
    "\u{feff}",
    "\u{301}",
    "\u{10ffff}",
    "(?<a>",
    "(a+)+$",
    "(?=a)b",
    "**",
    "{*x}",
    "/{a:[}",
    "/**/{*x}/**",
    "2001:db8::/129",
    "PT99999999999999H",
    "99999999999999999999d",
    "1ns",
    "https://[::1",
    "http://a:0",
    "http://:80",
    "=",
    "a=b=c,,d",
    "header:", // not `path:{`: no resolver
];

/// Returns the text numbered `number` that is made of `seeds`.
pub(super) fn mutated(seeds: &[String], number: u64) -> String {
    let mut rng = Rng::with_seed(number);
    let mut lines: Vec<String> = pick(&mut rng, seeds).lines().map(str::to_owned).collect();
    // Mostly one change: two thirds of what more change is refused at the first of them.
    for _ in 0..*pick(&mut rng, &[1, 1, 1, 2, 3, 8]) {
        change(&mut lines, seeds, &mut rng);
    }
    lines.join("\n") + "\n"
}

fn pick<'l, T>(rng: &mut Rng, list: &'l [T]) -> &'l T {
    &list[rng.usize(..list.len())]
}

fn text<'l>(rng: &mut Rng, list: &[&'l str]) -> &'l str {
    list[rng.usize(..list.len())]
}

fn change(lines: &mut Vec<String>, seeds: &[String], rng: &mut Rng) {
    if lines.is_empty() {
        lines.push(String::new());
    }
    let at = rng.usize(..lines.len());
    match rng.u8(..16) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at].clone()),
        2 => {
            let other = rng.usize(..lines.len());
            lines.swap(at, other);
        }
        3 => lines[at].insert_str(0, text(rng, &[" ", "  ", "    ", "\t", "- "])),
        4 => {
            let indent = lines[at].len() - lines[at].trim_start().len();
            lines[at].replace_range(..indent.min(rng.usize(1..5)), "");
        }
        5..=7 => value(&mut lines[at], text(rng, &NASTY)),
        8 => {
            // The value of another line.
            let others: Vec<&str> = pick(rng, seeds).lines().collect();
            let other = text(rng, &others);
            let other = other.rsplit(": ").next().unwrap_or_default().trim().to_owned();
            value(&mut lines[at], &other);
        }
        9 => {
            let letters: Vec<(usize, char)> = lines[at].char_indices().collect();
            if !letters.is_empty() {
                let (from, letter) = *pick(rng, &letters);
                lines[at]
                    .replace_range(from..from + letter.len_utf8(), text(rng, &["", ":", "\"", "{", ",", "é", "#"]));
            }
        }
        10 => lines.truncate(at),
        11 => {
            let other: Vec<&str> = pick(rng, seeds).lines().collect();
            if !other.is_empty() {
                let from = rng.usize(..other.len());
                lines.truncate(at);
                lines.extend(other[from..].iter().map(|line| (*line).to_owned()));
            }
        }
        12 => {
            // One block, many times.
            let end = (at + rng.usize(1..8)).min(lines.len());
            let block: Vec<String> = lines[at..end].to_vec();
            for _ in 0..rng.usize(1..40) {
                lines.splice(at..at, block.iter().cloned());
            }
        }
        13 => key(&mut lines[at], seeds, rng),
        14 => lines[at] = format!("{}{}", lines[at], "a".repeat(rng.usize(..5000))),
        _ => {
            let depth = rng.usize(1..200);
            value(&mut lines[at], &format!("{}{}", "[".repeat(depth), "]".repeat(depth)));
        }
    }
}

/// Puts `new` where the value of the line stands.
fn value(line: &mut String, new: &str) {
    let start = [": ", "- ", "=", ", "].iter().filter_map(|sign| line.rfind(sign).map(|at| at + sign.len())).max();
    line.replace_range(start.unwrap_or(0).., new);
}

/// Gives the line the key of another one.
fn key(line: &mut String, seeds: &[String], rng: &mut Rng) {
    let all: Vec<&str> = pick(rng, seeds).lines().filter_map(|line| line.split_once(':')).map(|(key, _)| key).collect();
    if let Some(end) = line.find(':').filter(|_| !all.is_empty()) {
        let indent = line.len() - line.trim_start().len();
        if indent < end {
            line.replace_range(indent..end, text(rng, &all).trim());
        }
    }
}
