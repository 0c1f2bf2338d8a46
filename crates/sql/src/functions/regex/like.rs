//! `LIKE` and `SIMILAR TO`.

use super::java::JavaRegex;

/// A compiled `LIKE` pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Like {
    /// No wildcard.
    Equals(String),
    /// `abc%`.
    Prefix(String),
    /// `%abc`.
    Suffix(String),
    /// `%abc%`.
    Contains(String),
    /// Anything else.
    Tokens(Vec<Token>),
}

/// A part of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Char(char),
    /// `_`
    One,
    /// `%`
    Any,
}

impl Like {
    /// Compiles `pattern`. There is no escape character unless one is given; after it must come a
    /// wildcard or itself.
    pub(super) fn compile(pattern: &str, escape: Option<&str>) -> Result<Like, String> {
        let escape = escape.map(escape_char).transpose()?;
        let mut tokens = Vec::new();
        let mut chars = pattern.chars().enumerate();
        while let Some((at, c)) = chars.next() {
            if Some(c) == escape {
                match chars.next() {
                    Some((_, next)) if matches!(next, '_' | '%') || Some(next) == escape => {
                        tokens.push(Token::Char(next));
                    }
                    _ => return Err(format!("Invalid escape sequence '{pattern}', {at}")),
                }
                continue;
            }
            tokens.push(match c {
                '_' => Token::One,
                '%' => Token::Any,
                c => Token::Char(c),
            });
        }
        tokens.dedup_by(|a, b| *a == Token::Any && *b == Token::Any);
        Ok(Like::simplest(tokens))
    }

    fn simplest(tokens: Vec<Token>) -> Like {
        let open_start = tokens.first() == Some(&Token::Any);
        let open_end = tokens.len() > 1 && tokens.last() == Some(&Token::Any);
        let inner = &tokens[usize::from(open_start)..tokens.len() - usize::from(open_end)];
        let text: Option<String> = inner
            .iter()
            .map(|token| match token {
                Token::Char(c) => Some(*c),
                _ => None,
            })
            .collect();
        match (text, open_start, open_end) {
            (Some(text), false, false) => Like::Equals(text),
            (Some(text), false, true) => Like::Prefix(text),
            (Some(text), true, false) => Like::Suffix(text),
            (Some(text), true, true) => Like::Contains(text),
            (None, ..) => Like::Tokens(tokens),
        }
    }

    /// Whether all of `text` matches.
    pub(super) fn matches(&self, text: &str) -> bool {
        match self {
            Like::Equals(t) => text == t,
            Like::Prefix(t) => text.starts_with(t.as_str()),
            Like::Suffix(t) => text.ends_with(t.as_str()),
            Like::Contains(t) => text.contains(t.as_str()),
            Like::Tokens(tokens) => matches_tokens(tokens, text),
        }
    }
}

fn escape_char(escape: &str) -> Result<char, String> {
    let mut chars = escape.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) => Ok(c),
        _ => Err(format!("Invalid escape character '{escape}'")),
    }
}

/// Greedy matching that goes back to the last `%` only, which is enough.
fn matches_tokens(tokens: &[Token], text: &str) -> bool {
    let (mut t, mut rest) = (0, text);
    let mut retry: Option<(usize, &str)> = None;
    loop {
        let mut chars = rest.chars();
        let next = chars.next();
        match (tokens.get(t), next) {
            (Some(Token::Any), _) => {
                retry = Some((t, rest));
                t += 1;
                continue;
            }
            (Some(Token::One), Some(_)) => {
                (t, rest) = (t + 1, chars.as_str());
                continue;
            }
            (Some(Token::Char(c)), Some(n)) if *c == n => {
                (t, rest) = (t + 1, chars.as_str());
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        let Some((any, from)) = retry else { return false };
        let mut chars = from.chars();
        if chars.next().is_none() {
            return false;
        }
        retry = Some((any, chars.as_str()));
        (t, rest) = (any + 1, chars.as_str());
    }
}

const SIMILAR_SPECIALS: &str = "[]()|^-+*_%?{}";
const JAVA_SPECIALS: &str = "[]()|^-+*?{}$\\.";
const CHARACTER_SETS: [(&str, &str); 12] = [
    ("[:ALPHA:]", "\\p{Alpha}"),
    ("[:alpha:]", "\\p{Alpha}"),
    ("[:UPPER:]", "\\p{Upper}"),
    ("[:upper:]", "\\p{Upper}"),
    ("[:LOWER:]", "\\p{Lower}"),
    ("[:lower:]", "\\p{Lower}"),
    ("[:DIGIT:]", "\\d"),
    ("[:digit:]", "\\d"),
    ("[:SPACE:]", " "),
    ("[:space:]", " "),
    ("[:ALNUM:]", "\\p{Alnum}"),
    ("[:alnum:]", "\\p{Alnum}"),
];

/// Compiles a `SIMILAR TO` pattern, which must match all of a text.
pub(super) fn similar(pattern: &str, escape: Option<&str>) -> Result<JavaRegex, String> {
    let escape = escape.map(escape_char).transpose()?;
    JavaRegex::compile(&format!(r"^(?:{})\z", similar_to_java(pattern, escape)?))
}

fn similar_to_java(pattern: &str, escape: Option<char>) -> Result<String, String> {
    let invalid = |at: usize| format!("Invalid regular expression '{pattern}', index {at}");
    let chars: Vec<char> = pattern.chars().collect();
    let (mut out, mut at, mut in_set) = (String::new(), 0, false);
    while let Some(c) = chars.get(at) {
        if Some(*c) == escape {
            let next = chars.get(at + 1).ok_or(format!("Invalid escape sequence '{pattern}', {at}"))?;
            push_escaped(*next, escape, &mut out).map_err(|()| format!("Invalid escape sequence '{pattern}', {at}"))?;
            at += 2;
            continue;
        }
        match c {
            '_' => out.push('.'),
            '%' => out.push_str("(?s:.*)"),
            '[' => {
                out.push('[');
                in_set = true;
                at = character_set(&chars, at + 1, escape, &mut out).map_err(invalid)?;
                continue;
            }
            ']' if !in_set => return Err(invalid(at)),
            ']' => {
                in_set = false;
                out.push(']');
            }
            '\\' => out.push_str("\\\\"),
            '$' => out.push_str("\\$"),
            c => out.push(*c),
        }
        at += 1;
    }
    if in_set { Err(invalid(chars.len())) } else { Ok(out) }
}

fn push_escaped(c: char, escape: Option<char>, out: &mut String) -> Result<(), ()> {
    if SIMILAR_SPECIALS.contains(c) {
        if JAVA_SPECIALS.contains(c) {
            out.push('\\');
        }
        out.push(c);
        return Ok(());
    }
    if Some(c) == escape {
        out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
        return Ok(());
    }
    Err(())
}

/// The inside of `[...]`; gives the index of its closing bracket, or where it is wrong.
fn character_set(chars: &[char], start: usize, escape: Option<char>, out: &mut String) -> Result<usize, usize> {
    let mut at = start;
    while let Some(c) = chars.get(at) {
        if *c == ']' {
            return Ok(at);
        }
        if Some(*c) == escape {
            let next = chars.get(at + 1).ok_or(at)?;
            push_escaped(*next, escape, out).map_err(|()| at)?;
            at += 2;
            continue;
        }
        let rest: String = chars[at..].iter().take(9).collect();
        if rest.starts_with("[:") {
            let (name, java) = CHARACTER_SETS.iter().find(|(name, _)| rest.starts_with(name)).ok_or(at)?;
            out.push_str(java);
            at += name.len();
            continue;
        }
        match c {
            '-' | '^' => out.push(*c),
            c if SIMILAR_SPECIALS.contains(*c) => return Err(at),
            c => out.push(*c),
        }
        at += 1;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_takes_its_fast_paths() {
        let compile = |p| Like::compile(p, None).expect(p);
        assert_eq!(compile("abc"), Like::Equals("abc".into()));
        assert_eq!(compile("abc%"), Like::Prefix("abc".into()));
        assert_eq!(compile("%abc"), Like::Suffix("abc".into()));
        assert_eq!(compile("%abc%%"), Like::Contains("abc".into()));
        assert_eq!(compile("%"), Like::Suffix(String::new()));
        assert!(matches!(compile("a_c"), Like::Tokens(_)));
    }

    #[test]
    fn like_matches_whole_text() {
        for (text, pattern, escape, expected) in [
            ("Hollow Reed", "H____w%", None, true),
            ("100% sure_thing", "100!%%", Some("!"), true),
            ("Hollow", "100!%%", Some("!"), false),
            ("100% sure_thing", "%\\_%", Some("\\"), true),
            ("100% sure_thing", "%sure\\_%", None, false),
            ("", "", None, true),
            ("x", "", None, false),
            ("a🙂c", "a_c", None, true),
            ("abcabd", "%ab_d", None, false),
            ("abcabd", "a%b_", None, true),
            ("aXbXc", "%X%X_", None, true),
            ("a\nb", "a_b", None, true),
        ] {
            assert_eq!(Like::compile(pattern, escape).map(|l| l.matches(text)), Ok(expected), "{text} {pattern}");
        }
        assert_eq!(Like::compile("a!bc", Some("!")), Err("Invalid escape sequence 'a!bc', 1".into()));
        assert_eq!(Like::compile("a!", Some("!")), Err("Invalid escape sequence 'a!', 1".into()));
        assert_eq!(Like::compile("a!!", Some("!!")), Err("Invalid escape character '!!'".into()));
    }

    #[test]
    fn similar_to() {
        for (text, pattern, escape, expected) in [
            ("plain", "(plain|a)%", None, true),
            ("a-b--c", "(plain|a)%", None, true),
            ("a-b--c", r"[a-z\-]+", None, true),
            ("--", r"[a-z\-]+", None, true),
            ("x,y;z", r"[a-z\-]+", None, false),
            ("--", "-*", None, true),
            ("--", "_{2}", None, true),
            ("🙂🙃x", "_{2}", None, false),
            ("a1", "a[[:DIGIT:]]", None, true),
            ("a%", "a!%", Some("!"), true),
            ("abc", "a.c", None, true),
            ("xplainx", "plain", None, false),
        ] {
            assert_eq!(similar(pattern, escape).map(|r| r.is_match(text)), Ok(expected), "{text} {pattern}");
        }
        assert!(similar("a[b", None).is_err());
        assert!(similar("a]b", None).is_err());
    }
}
