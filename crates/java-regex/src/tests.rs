#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;

fn full(expression: &str) -> JavaRegex {
    JavaRegex::full_match(expression, Charset::Unicode).unwrap_or_else(|error| panic!("{expression}: {error}"))
}

#[test]
fn expressions_match_as_in_java() {
    for (expression, yes, no) in [
        (r"\d+", "12", "1a"),
        (r"\d", "1", "\u{661}"),
        (r"\w+", "a_1", "\u{e9}"),
        (r"[\w.-]+", "a.b-c", "a b"),
        (r"[\w-.]+", "a-b.", "a/b"),
        (r"\S*", "ab", "a b"),
        (r"(?x) a \s b", "a b", "ab"),
        ("a|b", "b", "ab"),
        ("(?i)gzip", "GZip", "zip"),
        (r"\Qa.b\E+", "a.bb", "axb"),
        (r"[\Q]-\E]+", "]-", "a"),
        ("[]a]+", "]a", "b"),
        ("[^]a]", "b", "]"),
        ("ch.p", "chip", "chips"),
        ("[a-z&&[^b]]", "a", "b"),
        ("[a-c[x-z]]", "y", "d"),
        ("[+--]", ",", "/"),
        ("[--0]", ".", "1"),
        ("[a-]+", "a-", "b"),
        ("[ -~]+", "a b!", "\u{e9}"),
        ("[#-&]+", "$%", "-"),
        (r"[ \w]+", "a b", "a-b"),
        ("(?x)[a -c]+", "ac", "d"),
        ("[~~]+", "~", "a"),
        ("[[:lower:]]+", "lower:", "b"),
        (r"\bx\b", "x", "y"),
        ("a{2,3}?", "aa", "a"),
        (r"\{a\}+", "{a}}", "{a"),
        (r"\<a\>", "<a>", "a"),
        (r"\v", "\r", "v"),
        (r"\h+", " \t\u{a0}", "h"),
        (r"\x41\u0042\0103\cD\e", "ABC\x04\x1b", "AB"),
        (r"\00012\0477\07", "\x012'7\x07", "\x0a"),
        (r"\uD83D\uDE00", "\u{1F600}", "\u{1F601}"),
        (r"\p{Alpha}\P{Digit}[\p{Punct}]", "aa]", "a1]"),
        (r"\p{L}+", "a\u{e9}\u{436}", "1"),
        (r"\p{Lu}\p{Ll}*\P{L}", "\u{416}\u{436}1", "\u{436}\u{436}1"),
        (r"\pL\PL", "a1", "1a"),
        (r"[\p{Nd}\p{Sc}]+", "1\u{20ac}", "a"),
        (r"\p{IsAlphabetic}\p{IsDigit}\p{IsWhite_Space}", "\u{436}\u{661}\u{a0}", "a1b"),
        (r"\p{IsLatin}\p{IsCyrillic}[^\p{script=Han}]", "a\u{436}b", "a\u{436}\u{4e00}"),
        (r"\p{javaLowerCase}\p{javaUpperCase}\p{javaLetter}\p{javaDigit}", "aBc1", "ABc1"),
        (r"\p{Lower}\p{Upper}\p{Alnum}\p{Punct}\p{XDigit}", "aB1$f", "\u{e9}B1$f"),
        (r"(?d)a(?u:b)(?-d)c", "abc", "ab"),
        (r"\/a\-\_", "/a-_", "a"),
    ] {
        assert!(!full(expression).backtracks(), "{expression}");
        assert!(full(expression).is_match(yes).unwrap(), "{expression} {yes}");
        assert!(!full(expression).is_match(no).unwrap(), "{expression} {no}");
    }
}

#[test]
fn expressions_beyond_the_linear_engine_backtrack() {
    for (expression, yes, no) in [
        ("(?!admin).*", "user", "admin/x"),
        ("(?=.*b)a.*", "aab", "aaa"),
        ("a(?<=a)b", "ab", "b"),
        ("a(?<!b|cc)b", "ab", "bb"),
        (r"(a|b)\1", "bb", "ab"),
        (r"(a)\10", "aa0", "aa"),
        (r"(?<n>a|b)\k<n>", "bb", "ab"),
        (".*+", "ab", "a\nb"),
        ("a*+b", "aab", "aac"),
        ("a{2}+b", "aab", "ab"),
        ("(?i)(?:a|b){1,2}+c", "abc", "c"),
        ("x(a|b){1,2}+b?", "xaab", "xaaa"),
        ("a{1,2}+a?b", "aaab", "aaaab"),
        ("a{1,2}+[ab]", "aab", "aa"),
        ("(?>a|ab)c", "ac", "abc"),
        (r"(?!x)\bé[\w-.]\d", "é-1", "x-1"),
        ("(?i)(?!x)A", "a", "x"),
    ] {
        assert!(full(expression).backtracks(), "{expression}");
        assert!(full(expression).is_match(yes).unwrap(), "{expression} {yes}");
        assert!(!full(expression).is_match(no).unwrap(), "{expression} {no}");
    }
}

#[test]
fn a_search_past_the_backtracking_limit_is_too_slow() {
    let slow = full(r"(?:(a+)\1?)+b");
    assert_eq!(slow.is_match("a".repeat(200)), Err(TooSlow));
    assert_eq!(slow.is_match("aab"), Ok(true));
}

#[test]
fn invalid_and_unsupported_expressions_have_one_line_errors() {
    for (expression, part) in [
        ("(", "unclosed group"),
        ("a)(b", "unopened group"),
        ("[a", "`[` is not closed"),
        ("*", "repetition operator"),
        ("a**", "follows a quantifier"),
        ("a+{2}", "follows a quantifier"),
        ("a{,2}", "followed by a number"),
        ("a{2", "add `}`"),
        (r"(?:[a-z]{100}){1000}", "too large"),
        (r"\Gx", r"`\G` is not supported"),
        (r"\X", r"`\X` is not supported"),
        ("(?U)a", "`(?U)` is not supported"),
        ("(?P<n>a)", "is not a valid group"),
        (r"\1(a)", "not defined before it"),
        (r"\p{javaMirrored}", r"`\p{javaMirrored}` is not supported"),
        (r"\P{InGreek}", r"`\P{InGreek}` is not supported"),
        (r"\p{Letters}", r"`\p{Letters}` is no property of characters: write `\p{L}`"),
        (r"[a-\d]", "must end in a character"),
        ("[z-a]", "is empty"),
        ("a\\", "nothing follows"),
        ("(?!a", "without closing parenthesis"),
        (r"\0", "one to three octal digits"),
        (r"\08", "one to three octal digits"),
        (r"\x4", "is not a hexadecimal code point"),
        (r"\x+4", "is not a hexadecimal code point"),
        (r"\u041", "is not a hexadecimal code point"),
        (r"\uD83Da", "is not a hexadecimal code point"),
    ] {
        let error = JavaRegex::full_match(expression, Charset::Unicode).expect_err(expression).to_string();
        assert!(error.contains(part), "{expression}: {error}");
        assert!(!error.contains('\n') && error.len() < 120, "{expression}: {error}");
    }
    for depth in [40, 100_000] {
        let nested = "[".repeat(depth) + "a" + &"]".repeat(depth);
        assert_eq!(JavaRegex::new(&nested, Charset::Bytes).is_ok(), depth == 40);
    }
}

#[test]
fn expressions_that_are_compiled_together_have_a_bound() {
    for (expression, size) in
        [("a", 1), ("[a-cx]{1,50}", 6 * 50), ("[a-cж]", 2 * 3), ("(a{1,9}b){20}", 12 * 20), ("(?!b)a", 6)]
    {
        let fits = |steps: usize| {
            together(|| {
                crate::budget::take(5_000_000 - 100 - steps).unwrap();
                [(); 2].map(|()| JavaRegex::full_match(expression, Charset::Unicode).err())
            })
        };
        let [first, second] = fits(size + 100);
        assert_eq!((first, second), (None, Some(RegexError::TooLargeTogether)), "{expression}");
        assert_eq!(fits(size + 99)[0], Some(RegexError::TooLargeTogether), "{expression}");
    }
    assert!(JavaRegex::full_match("a", Charset::Unicode).is_ok(), "outside, there is no bound");
}

#[test]
fn groups_that_cannot_match_are_counted() {
    let regex = JavaRegex::new("(a){0}(b)", Charset::Bytes).unwrap();
    assert_eq!(regex.group_count(), 3);
    let mut out = Vec::new();
    assert_eq!(Replacement::parse("<$1$2>", &regex).unwrap().replace_all(&regex, b"ab", &mut out), Ok(true));
    assert_eq!(out, b"a<b>");
}

#[test]
fn each_byte_is_a_character_in_byte_texts() {
    let regex = JavaRegex::full_match(r"a.b\W(?!x).", Charset::Bytes).unwrap();
    assert!(regex.is_match(b"a\xE9b\xE9\xFF").unwrap());
    assert!(!regex.is_match("aébé.").unwrap());
}

#[test]
fn properties_of_unicode_in_byte_texts_are_those_of_latin_1() {
    for name in
        ["L", "Lu", "Ll", "Lo", "N", "Nd", "P", "S", "Zs", "C", "Cc", "IsAlphabetic", "IsLowercase", "IsUppercase"]
            .iter()
            .chain(&["IsLatin", "IsWhite_Space", "IsHex_Digit", "gc=Lu", "javaLetter"])
    {
        for negated in ["p", "P"] {
            let expression = format!(r"\{negated}{{{name}}}");
            let bytes = JavaRegex::full_match(&expression, Charset::Bytes).unwrap();
            let unicode = full(&expression);
            for byte in 0..=255_u8 {
                let char = char::from(byte).to_string();
                assert_eq!(bytes.is_match([byte]), unicode.is_match(char), "{expression} {byte:x}");
            }
        }
    }
    let error = JavaRegex::new(r"\P{IsHan}", Charset::Bytes).unwrap_err().to_string();
    assert!(error.contains(r"`\P{IsHan}` is not supported"), "{error}");
}

#[test]
fn repetitions_of_empty_matches_are_detected() {
    for (expression, expected) in [
        ("(a*)+", true),
        ("(?:x(?<n>a?)|y?)*", true),
        ("/a(/?.*)*", true),
        ("(a|){2}", true),
        ("(?:a|b*|c)*", true),
        ("(?:a*?)*", true),
        ("(?:a*b?)*", false),
        ("(a+)*", false),
        ("(a*)?", false),
        ("(a*)(?:b*)*", false),
        ("/a(/.*)*", false),
        (r"\d+[\w-.]*", false),
        (r"(\p{L}*)+", true),
        (r"(\p{L})+", false),
    ] {
        assert_eq!(JavaRegex::new(expression, Charset::Bytes).unwrap().repeats_empty_match(), expected, "{expression}");
    }
}

proptest::proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_expression_compiles_or_is_an_error(expression in r"(\\[dQEpkxucb<1G0]|[ab\[\](){}*+?|^$.&~:<>=!,1 -]){0,12}", text in "[ab1.-]{0,6}") {
        for charset in [Charset::Bytes, Charset::Unicode] {
            if let Ok(regex) = JavaRegex::full_match(&expression, charset) {
                let _ = regex.is_match(&text);
                let _ = regex.repeats_empty_match();
            }
            prop_assert!(JavaRegex::full_match(&quote(&text), charset).is_ok_and(|regex| regex.is_match(&text) == Ok(true)));
        }
    }
}
