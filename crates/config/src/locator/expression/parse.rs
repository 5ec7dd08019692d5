//! Syntax of expressions.

use tollgate_java_regex::{Charset, JavaRegex};

use crate::locator::expression::{Node, Value, address};

/// Deepest nesting.
const MAX_DEPTH: usize = 32;

/// Signs of two letters come first.
const SIGNS: [&str; 19] =
    ["==", "!=", "&&", "||", "?:", "(", ")", "[", "]", "{", "}", ",", ".", "+", "!", "?", ":", "<", ">"];

/// Methods of texts, lists and maps, and the numbers of their arguments.
const METHODS: [(&str, usize); 13] = [
    ("startsWith", 1),
    ("endsWith", 1),
    ("contains", 1),
    ("containsKey", 1),
    ("equals", 1),
    ("equalsIgnoreCase", 1),
    ("get", 1),
    ("replace", 2),
    ("isEmpty", 0),
    ("toLowerCase", 0),
    ("toString", 0),
    ("toUpperCase", 0),
    ("trim", 0),
];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Sign(&'static str),
    Name(String),
    Text(String),
    Number(i64),
}

/// Reads an expression; `None` if it is not plain.
pub(super) fn parse(text: &str) -> Option<Node> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
    let node = parser.choice()?;
    (parser.at == parser.tokens.len()).then_some(node)
}

fn tokens(mut rest: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else { return Some(tokens) };
        if first == '\'' || first == '"' {
            let (text, after) = quoted(rest, first)?;
            tokens.push(Token::Text(text));
            rest = after;
        } else if first.is_ascii_digit() {
            let (number, after) = split_while(rest, |c| c.is_ascii_digit());
            tokens.push(Token::Number(number.parse().ok()?));
            rest = after;
        } else if first.is_ascii_alphabetic() {
            let (name, after) = split_while(rest, |c| c.is_ascii_alphanumeric() || c == '_');
            tokens.push(Token::Name(name.to_owned()));
            rest = after;
        } else {
            let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign))?;
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        }
    }
}

fn split_while(text: &str, is_part: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !is_part(c)).unwrap_or(text.len()))
}

/// Reads a text in quotes. A quote within it is doubled.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut read = String::new();
    let mut rest = &text[1..];
    loop {
        let (part, after) = rest.split_once(quote)?;
        read.push_str(part);
        if !after.starts_with(quote) {
            return Some((read, after));
        }
        read.push(quote);
        rest = &after[1..];
    }
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Parser {
    /// Takes the sign, or the word for it, if it is next.
    fn takes(&mut self, names: &[&str]) -> bool {
        let is_it = match self.tokens.get(self.at) {
            Some(Token::Sign(sign)) => names.contains(sign),
            // Operators in words have any case.
            Some(Token::Name(name)) => names.iter().any(|word| word.eq_ignore_ascii_case(name)),
            _ => false,
        };
        self.at += usize::from(is_it);
        is_it
    }

    fn choice(&mut self) -> Option<Node> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut node = self.or()?;
        if self.takes(&["?:"]) {
            node = Node::Default(Box::new(node), Box::new(self.choice()?));
        } else if self.takes(&["?"]) {
            let one = self.choice()?;
            if !self.takes(&[":"]) {
                return None;
            }
            node = Node::Choice(Box::new(node), Box::new(one), Box::new(self.choice()?));
        }
        self.depth -= 1;
        Some(node)
    }

    fn or(&mut self) -> Option<Node> {
        let mut node = self.and()?;
        while self.takes(&["or", "||"]) {
            node = Node::Or(Box::new(node), Box::new(self.and()?));
        }
        Some(node)
    }

    fn and(&mut self) -> Option<Node> {
        let mut node = self.comparison()?;
        while self.takes(&["and", "&&"]) {
            node = Node::And(Box::new(node), Box::new(self.comparison()?));
        }
        Some(node)
    }

    fn comparison(&mut self) -> Option<Node> {
        let node = self.sum()?;
        for (names, is_equal) in [(["==", "eq"], true), (["!=", "ne"], false)] {
            if self.takes(&names) {
                return Some(Node::Equal(Box::new(node), Box::new(self.sum()?), is_equal));
            }
        }
        if self.takes(&["matches"]) {
            let Some(Token::Text(regex)) = self.tokens.get(self.at) else { return None };
            let regex = JavaRegex::full_match(regex, Charset::Unicode).ok()?;
            self.at += 1;
            return Some(Node::Matches(Box::new(node), Box::new(regex)));
        }
        Some(node)
    }

    fn sum(&mut self) -> Option<Node> {
        let mut node = self.unary()?;
        while self.takes(&["+"]) {
            node = Node::Join(Box::new(node), Box::new(self.unary()?));
        }
        Some(node)
    }

    fn unary(&mut self) -> Option<Node> {
        if !self.takes(&["!", "not"]) {
            return self.postfix();
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let node = Node::Not(Box::new(self.unary()?));
        self.depth -= 1;
        Some(node)
    }

    fn postfix(&mut self) -> Option<Node> {
        let mut node = self.primary()?;
        loop {
            if self.takes(&["["]) {
                let key = match self.tokens.get(self.at)? {
                    // `metadata[edge]` is the entry `edge` in Spring, too.
                    Token::Name(name) if self.tokens.get(self.at + 1) == Some(&Token::Sign("]")) => {
                        let key = Node::Literal(Value::Text(name.clone()));
                        self.at += 1;
                        key
                    }
                    _ => self.choice()?,
                };
                if !self.takes(&["]"]) {
                    return None;
                }
                node = Node::Entry(Box::new(node), Box::new(key));
            } else if self.takes(&["."]) {
                node = self.method(node)?;
            } else {
                return Some(node);
            }
        }
    }

    /// Reads a method behind its dot.
    fn method(&mut self, on: Node) -> Option<Node> {
        let Some(Token::Name(name)) = self.tokens.get(self.at).cloned() else { return None };
        self.at += 1;
        if name == "matches" && self.takes(&["("]) {
            let Some(Token::Text(regex)) = self.tokens.get(self.at) else { return None };
            let regex = JavaRegex::full_match(regex, Charset::Unicode).ok()?;
            self.at += 1;
            return self.takes(&[")"]).then(|| Node::Matches(Box::new(on), Box::new(regex)));
        }
        let (method, count) = METHODS.into_iter().find(|(method, _)| *method == name)?;
        let arguments = if self.takes(&["("]) { self.items(")")? } else { return None };
        (arguments.len() == count).then(|| Node::Call(Box::new(on), method, arguments))
    }

    /// Reads a list until its end.
    fn items(&mut self, end: &str) -> Option<Vec<Node>> {
        let mut items = Vec::new();
        if self.takes(&[end]) {
            return Some(items);
        }
        loop {
            items.push(self.choice()?);
            if self.takes(&[end]) {
                return Some(items);
            }
            if !self.takes(&[","]) {
                return None;
            }
        }
    }

    fn primary(&mut self) -> Option<Node> {
        let token = self.tokens.get(self.at)?.clone();
        self.at += 1;
        Some(match token {
            Token::Text(text) => Node::Literal(Value::Text(text)),
            Token::Number(number) => Node::Literal(Value::Number(number)),
            Token::Sign("(") => {
                let node = self.choice()?;
                return self.takes(&[")"]).then_some(node);
            }
            Token::Sign("{") => Node::List(self.items("}")?),
            Token::Sign(_) => return None,
            Token::Name(name) => match name.as_str() {
                "serviceId" => Node::Service,
                "metadata" => Node::Metadata,
                "getServiceId" | "getMetadata" => {
                    if !(self.takes(&["("]) && self.takes(&[")"])) {
                        return None;
                    }
                    if name == "getServiceId" { Node::Service } else { Node::Metadata }
                }
                _ if name.eq_ignore_ascii_case("true") => Node::Literal(Value::Flag(true)),
                _ if name.eq_ignore_ascii_case("false") => Node::Literal(Value::Flag(false)),
                _ if name.eq_ignore_ascii_case("null") => Node::Literal(Value::Null),
                _ => {
                    let is_call = name.starts_with("get");
                    if is_call && !(self.takes(&["("]) && self.takes(&[")"])) {
                        return None;
                    }
                    Node::Address(address(&name)?)
                }
            },
        })
    }
}
