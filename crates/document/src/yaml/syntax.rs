//! Syntax errors: messages and usual causes.

use std::borrow::Cow;

use granit_parser::ErrorKind;

/// Description of a syntax error: the message, and the usual cause.
pub(super) struct Described {
    pub(super) message: Cow<'static, str>,
    pub(super) help: Option<&'static str>,
    /// True if the list or map around the error is of interest.
    pub(super) is_about_collection: bool,
}

impl Described {
    fn message(message: impl Into<Cow<'static, str>>) -> Self {
        Self { message: message.into(), help: None, is_about_collection: false }
    }
}

/// Returns the description of an error.
pub(super) fn describe(kind: &ErrorKind) -> Described {
    use ErrorKind as Kind;
    let in_brackets = "close the `[`, and within it quote what holds `{`, `[` or `,`: `[\"Path=/{id}\"]`";
    let in_braces = "close the `{`, and within it quote what holds `: `, `{`, `[` or `,`: `{title: \"a: b\"}`";
    let unclosed = "a `[` or `{` is never closed, or a value is missing";
    let (message, help, is_about_collection) = match kind {
        Kind::ExpectedFlowSequenceSeparator | Kind::InvalidColonPlacement => {
            ("did not find expected ',' or ']'", in_brackets, true)
        }
        Kind::BlockEntryInFlowCollection => (
            "a `- ` within brackets",
            "close the `[` or `{` before it; an item within brackets has no `-`: `[Path=/a, Method=GET]`",
            false,
        ),
        Kind::ExpectedFlowMappingSeparator => ("did not find expected ',' or '}'", in_braces, true),
        Kind::MismatchedFlowCollectionEnd { open, .. } => {
            let help = if *open == '[' { in_brackets } else { in_braces };
            return Described { help: Some(help), ..Described::message(kind.to_string()) };
        }
        Kind::UnclosedFlowCollection { open: '[' } => ("did not find expected ',' or ']'", unclosed, false),
        Kind::UnclosedFlowCollection { .. } => ("did not find expected ',' or '}'", unclosed, false),
        Kind::ExpectedNodeContent | Kind::UnexpectedEofBlockMapping => {
            ("did not find expected node content", unclosed, false)
        }
        Kind::MappingValueNotAllowed => (
            "mapping values are not allowed in this context",
            "quote a value that holds `: ` or ends with `:`, mend the indentation, or give the line above a space behind its \
             colon: `name: value`",
            false,
        ),
        Kind::SimpleKeyExpected | Kind::InvalidSimpleKey => (
            "could not find expected ':'",
            "a key is `name: value`, with a space after the colon; an item of a list is `- value`, with a space after the dash; a \
             text of several lines is quoted",
            false,
        ),
        Kind::UnexpectedCharacter { character } if character.is_control() => {
            return Described::message("control characters are not allowed");
        }
        Kind::UnexpectedCharacter { .. }
        | Kind::TabNotAllowed
        | Kind::TabInBlockIndentation
        | Kind::TabInIndentation => (
            "found character that cannot start any token",
            "indent with spaces, not tabs; quote a value that begins with `@`, `%` or `` ` ``",
            false,
        ),
        Kind::TabInPlainScalar | Kind::TabAtBlockScalarStart => {
            ("found a tab before the text of a line", "indent with spaces, not tabs", false)
        }
        Kind::ExpectedBlockSequenceEntry => (
            "did not find expected '-' indicator",
            "what belongs to a list item is indented further than its `-`",
            true,
        ),
        Kind::ExpectedBlockMappingKey
        | Kind::MisplacedFlowCollectionEnd
        | Kind::InvalidTrailingSingleQuotedScalar
        | Kind::InvalidTrailingDoubleQuotedScalar => {
            ("did not find expected key", "keys of one map stand below each other, in the same column", true)
        }
        Kind::UnclosedQuotedScalar => (
            "a quote is never closed",
            "the text in quotes begins here: end it with the same quote; within `'…'`, a quote is written twice",
            false,
        ),
        Kind::BlockSequenceEntryNotAllowed => (
            "block sequence entries are not allowed in this context",
            "the first item of a list stands on a line of its own, below the key: `- Path=/**`",
            false,
        ),
        Kind::UnknownQuotedScalarEscape => (
            "while parsing a quoted scalar, found unknown escape character",
            "within `\"…\"`, a backslash is written twice; within `'…'`, once",
            false,
        ),
        Kind::ExpectedDocumentStart => (
            "did not find expected <document start>",
            "keys of one map stand below each other: this line, or the first one, is indented too little or too far",
            false,
        ),
        Kind::UnknownAnchor => (
            "unknown anchor",
            "`*name` repeats the value that `&name` marks further up in the same document; quote a text that begins with `*`",
            false,
        ),
        other => return Described::message(other.to_string()),
    };
    Described { message: message.into(), help: Some(help), is_about_collection }
}
