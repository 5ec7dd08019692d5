//! Sentences and words, and the comments of small languages.

use super::Passage;

/// Words below which a text is a label rather than a sentence.
const MIN_WORDS: usize = 4;

/// Returns `text` with every span of code in backquotes as one word.
pub(super) fn without_code(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for (index, piece) in text.split('`').enumerate() {
        plain.push_str(if index % 2 == 0 { piece } else { "code" });
    }
    plain
}

/// Returns the sentences of a passage; labels of a few words are left out.
pub(super) fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.char_indices().find(|&(at, c)| {
            ".!?".contains(c) && rest[at + c.len_utf8()..].chars().next().is_none_or(char::is_whitespace)
        });
        let (sentence, after) = rest.split_at(end.map_or(rest.len(), |(at, c)| at + c.len_utf8()));
        rest = after;
        Some(sentence)
    })
    .filter(|sentence| words(sentence) >= MIN_WORDS)
}

/// Returns the number of words: runs of non-blank characters that hold a letter.
pub(super) fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).count()
}

/// Returns the comments behind `#` of a YAML, TOML or shell file. Comments on consecutive lines are one passage.
pub(super) fn hash_comments(text: &str) -> Vec<Passage> {
    line_comments(text, |line| {
        let at = line.match_indices('#').map(|(at, _)| at).find(|&at| at == 0 || line[..at].ends_with(' '))?;
        Some(line[at..].trim_start_matches(['#', '!']))
    })
}

/// Returns the comments of a transcript of a terminal: lines that begin with `#`.
pub(super) fn transcript(text: &str) -> Vec<Passage> {
    line_comments(text, |line| line.strip_prefix('#'))
}

/// Returns the parts of an identifier: `no_body` and `NoBody` have two, `nobodyWaits` has two.
pub(super) fn parts_of_name(name: &str) -> impl Iterator<Item = &str> {
    name.split('_').flat_map(|part| {
        let starts = part.char_indices().filter(|(at, c)| *at > 0 && c.is_uppercase()).map(|(at, _)| at);
        let ends: Vec<usize> = starts.chain([part.len()]).collect();
        let mut start = 0;
        ends.into_iter().map(move |end| &part[std::mem::replace(&mut start, end)..end])
    })
}

/// Returns the comments of a Lua file, those in `--[[ ]]` included.
pub(super) fn lua(text: &str) -> Vec<Passage> {
    let mut is_block = false;
    line_comments(text, move |line| {
        if is_block {
            is_block = !line.contains("]]");
            return Some(line.trim_end_matches(']').trim_end_matches('-'));
        }
        let (_, comment) = line.split_once("--")?;
        is_block = comment.starts_with("[[") && !comment.contains("]]");
        Some(comment.trim_start_matches(['[', '-']))
    })
}

fn line_comments<'t>(text: &'t str, mut comment: impl FnMut(&'t str) -> Option<&'t str>) -> Vec<Passage> {
    let mut passages = Passages::default();
    for (line, text) in (1..).zip(text.lines()) {
        match comment(text) {
            Some(comment) if !comment.trim().is_empty() => {
                if begins_entry(comment.trim_start()) {
                    passages.end();
                }
                passages.add(line, comment.trim());
            }
            _ => passages.end(),
        }
    }
    passages.finish()
}

/// Returns true for the first line of an entry in a list: an argument of a script, an expected message.
fn begins_entry(comment: &str) -> bool {
    ["KEYS[", "ARGV[", "Returns", "Expiry", "Errors", "expect:", "redis-server"]
        .iter()
        .any(|start| comment.starts_with(start))
}

/// Joins lines that belong together.
#[derive(Default)]
pub(super) struct Passages {
    done: Vec<Passage>,
    current: Option<Passage>,
}

impl Passages {
    /// Appends a line of text to the current passage.
    pub(super) fn add(&mut self, line: usize, text: &str) {
        match &mut self.current {
            Some(passage) => {
                passage.text.push(' ');
                passage.text.push_str(text);
            }
            None => self.current = Some(Passage { line, text: text.to_owned(), opens_doc: false }),
        }
    }

    /// Ends the current passage.
    pub(super) fn end(&mut self) {
        self.done.extend(self.current.take());
    }

    /// Adds a passage of its own.
    pub(super) fn push(&mut self, line: usize, text: &str) {
        self.end();
        self.add(line, text);
        self.end();
    }

    /// Marks the current passage as the beginning of a doc comment.
    pub(super) fn mark_doc(&mut self) {
        if let Some(passage) = &mut self.current {
            passage.opens_doc = true;
        }
    }

    pub(super) fn finish(mut self) -> Vec<Passage> {
        self.end();
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_at_punctuation_before_a_blank() {
        let text = "A value of 0.5 is taken. Does a question end here? It does! Label.";
        assert_eq!(sentences(text).count(), 2);
    }

    #[test]
    fn comments_on_consecutive_lines_are_one_passage() {
        let passages = hash_comments("# one\n# two\nkey: 'a#b' # three\n\n#four\n");
        let texts: Vec<_> = passages.iter().map(|passage| (passage.line, passage.text.as_str())).collect();
        assert_eq!(texts, [(1, "one two three"), (5, "four")]);
    }

    #[test]
    fn blocks_of_lua_are_read() {
        let passages = lua("--[[\nA script.\n]]\nlocal a = 1 -- a count\n");
        assert_eq!(passages.last().map(|passage| passage.text.as_str()), Some("a count"));
        assert_eq!(passages[0].text, "A script.");
    }
}
