//! Help texts for syntax errors.

/// Returns the usual cause of a syntax error, by the message of libyaml that the parser repeats.
pub(super) fn advice(message: &str) -> Option<String> {
    let usual = [
        ("did not find expected ',' or ']'", "within `[…]` quote what holds `{`, `[` or `,`: `[\"Path=/{id}\"]`"),
        ("did not find expected ',' or '}'", "within `{…}` quote what holds `{`, `[` or `,`"),
        (
            "mapping values are not allowed",
            "quote a value that holds `: ` or ends with `:`, mend the indentation, or give the line above a space behind its \
             colon: `name: value`",
        ),
        (
            "could not find expected ':'",
            "a key is `name: value`, with a space after the colon; a text of several lines is quoted",
        ),
        ("cannot start any token", "indent with spaces, not tabs; quote a value that begins with `@`, `%` or `` ` ``"),
        ("did not find expected '-' indicator", "what belongs to a list item is indented further than its `-`"),
        ("did not find expected key", "keys of one map stand below each other, in the same column"),
        ("did not find expected node content", "a `[` or `{` is never closed, or a value is missing"),
        ("unexpected end of stream", "a quote, `[` or `{` is never closed"),
    ];
    let (_, help) = usual.iter().find(|(sign, _)| message.contains(sign))?;
    let begun = message.split_once(" at line ").and_then(|(_, rest)| rest.rsplit_once(" at line "));
    Some(match begun.and_then(|(_, place)| place.split_once(" column ")) {
        Some((line, column)) => format!("{help}; the list, map or text in question begins at {line}:{column}"),
        None => (*help).to_owned(),
    })
}
