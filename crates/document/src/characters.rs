//! Characters that a terminal does not show as they are.

/// Returns true for control characters, line separators, marks of text direction, which reorder what a terminal shows, and
/// characters that it does not show: two texts that differ would look the same.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || !c.is_ascii() && (matches!(c, '\u{2028}'..='\u{202e}' | '\u{fff9}'..='\u{fffb}') || is_invisible(c))
}

/// Returns true for a character of Unicode's `Default_Ignorable_Code_Point`.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// Returns `text` with unsafe characters escaped as in Rust, except line breaks and tabs.
pub(crate) fn escaped(text: String) -> String {
    let is_escaped = |c: char| is_unsafe(c) && !matches!(c, '\n' | '\t');
    if !text.contains(is_escaped) {
        return text;
    }
    text.chars().fold(String::with_capacity(text.len() + 8), |mut escaped, c| {
        if is_escaped(c) {
            escaped.extend(c.escape_default())
        } else {
            escaped.push(c)
        }
        escaped
    })
}
