//! Java's regular expressions on the `regex` crate.
//!
//! The pattern is read by Java's rules and written anew: `\d`, `\w` and `\s` are ASCII in Java, `.`
//! stops at five line ends, `(?i)` folds ASCII letters only, `\Q..\E` quotes. What the crate cannot
//! do (look-around, back-references, possessive quantifiers) is refused by name: its matching time
//! is linear, and that is worth more in a stream than these.

use regex::Regex;

/// Characters Java's `.` does not match.
const LINE_ENDS: &str = r"\n\r\u{85}\u{2028}\u{2029}";

/// A compiled Java pattern.
#[derive(Clone, Debug)]
pub(crate) struct JavaRegex {
    regex: Regex,
    /// The pattern has a `$` or `\Z`, which in Java also matches before a line end that ends the text.
    soft_end: bool,
}

impl JavaRegex {
    /// Compiles `pattern`; the error names what is wrong or not supported.
    pub(crate) fn compile(pattern: &str) -> Result<JavaRegex, String> {
        let mut translator = Translator::new(pattern);
        translator.translate()?;
        let regex = Regex::new(&translator.out).map_err(|e| {
            let text = e.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_string();
            format!("The regular expression '{pattern}' is not usable: {reason}.")
        })?;
        Ok(JavaRegex { regex, soft_end: translator.soft_end })
    }

    /// The text to search: without its last line end if `$` may match before it and the pattern
    /// matches only then.
    fn subject<'t>(&self, text: &'t str) -> &'t str {
        if !self.soft_end || self.regex.is_match(text) {
            return text;
        }
        let shorter = text.strip_suffix("\r\n");
        shorter.or_else(|| text.strip_suffix(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'])).unwrap_or(text)
    }

    /// `Matcher.find`.
    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(self.subject(text))
    }

    /// `Matcher.matches`: the whole text.
    pub(crate) fn group_count(&self) -> usize {
        self.regex.captures_len() - 1
    }

    /// Place of the first match.
    pub(crate) fn find<'t>(&self, text: &'t str) -> Option<regex::Match<'t>> {
        self.regex.find(self.subject(text))
    }

    /// Places of all matches.
    pub(crate) fn find_iter<'t>(&'t self, text: &'t str) -> impl Iterator<Item = regex::Match<'t>> {
        JavaMatches { regex: &self.regex, text: self.subject(text), at: 0 }
    }

    /// Group `group` of the first match; `None` without a match, `Some(None)` if the group took no part.
    pub(crate) fn group<'t>(&self, text: &'t str, group: usize) -> Option<Option<&'t str>> {
        if group == 0 {
            return self.find(text).map(|m| Some(m.as_str()));
        }
        self.regex.captures(self.subject(text)).map(|c| c.get(group).map(|m| m.as_str()))
    }

    /// Group `group` of every match.
    pub(crate) fn groups<'t>(&self, text: &'t str, group: usize, mut each: impl FnMut(Option<&'t str>)) {
        let text = self.subject(text);
        let mut at = 0;
        while let Some(captures) = self.regex.captures_at(text, at) {
            let Some(whole) = captures.get(0) else { return };
            each(captures.get(group).map(|m| m.as_str()));
            match next_start(text, whole.start(), whole.end()) {
                Some(next) => at = next,
                None => return,
            }
        }
    }
}

/// Matches as `Matcher.find` steps through them: an empty match may follow right after a match.
struct JavaMatches<'t> {
    regex: &'t Regex,
    text: &'t str,
    at: usize,
}

impl<'t> Iterator for JavaMatches<'t> {
    type Item = regex::Match<'t>;

    fn next(&mut self) -> Option<regex::Match<'t>> {
        if self.at > self.text.len() {
            return None;
        }
        let found = self.regex.find_at(self.text, self.at)?;
        self.at = next_start(self.text, found.start(), found.end()).unwrap_or(usize::MAX);
        Some(found)
    }
}

/// Where the search goes on after a match.
fn next_start(text: &str, start: usize, end: usize) -> Option<usize> {
    if end > start {
        return Some(end);
    }
    text[end..].chars().next().map(|c| end + c.len_utf8())
}

/// Flags that `(?...)` switches.
#[derive(Clone, Copy, Default)]
struct Flags {
    ignore_case: bool,
    unicode_case: bool,
    dot_all: bool,
    multi_line: bool,
    comments: bool,
}

struct Translator<'a> {
    pattern: &'a str,
    chars: Vec<char>,
    at: usize,
    out: String,
    flags: Flags,
    /// Flags to restore when a group closes.
    groups: Vec<Flags>,
    soft_end: bool,
}

impl<'a> Translator<'a> {
    fn new(pattern: &'a str) -> Self {
        Translator {
            pattern,
            chars: pattern.chars().collect(),
            at: 0,
            out: String::with_capacity(pattern.len() + 16),
            flags: Flags::default(),
            groups: Vec::new(),
            soft_end: false,
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn unsupported<T>(&self, what: &str) -> Result<T, String> {
        Err(format!("The regular expression '{}' uses {what}, which is not supported.", self.pattern))
    }

    fn invalid<T>(&self, why: &str) -> Result<T, String> {
        Err(format!("The regular expression '{}' is not usable: {why} near index {}.", self.pattern, self.at))
    }

    fn translate(&mut self) -> Result<(), String> {
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '\\' => self.escape()?,
                '[' => {
                    let class = self.class()?;
                    self.out.push_str(&class);
                }
                '(' => self.open_group()?,
                ')' => {
                    self.flags = self.groups.pop().unwrap_or_default();
                    self.out.push(')');
                }
                '.' if self.flags.dot_all => self.out.push_str("(?s:.)"),
                '.' => self.out.push_str(&format!("[^{LINE_ENDS}]")),
                '^' if self.flags.multi_line => self.out.push_str("(?mR:^)"),
                '^' => self.out.push_str(r"\A"),
                '$' if self.flags.multi_line => self.out.push_str("(?mR:$)"),
                '$' => self.end_of_text(),
                '*' | '+' | '?' => self.quantifier(c)?,
                '{' => self.counted()?,
                '|' => self.out.push('|'),
                '#' if self.flags.comments => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                c if self.flags.comments && c.is_ascii_whitespace() => {}
                c => self.literal(c),
            }
        }
        Ok(())
    }

    fn end_of_text(&mut self) {
        self.soft_end = true;
        self.out.push_str(r"\z");
    }

    fn quantifier(&mut self, c: char) -> Result<(), String> {
        self.out.push(c);
        self.after_quantifier()
    }

    fn after_quantifier(&mut self) -> Result<(), String> {
        match self.peek(0) {
            Some('?') => {
                self.at += 1;
                self.out.push('?');
                Ok(())
            }
            Some('+') => self.unsupported("a possessive quantifier (such as '*+')"),
            _ => Ok(()),
        }
    }

    fn counted(&mut self) -> Result<(), String> {
        let end = self.chars[self.at..].iter().position(|c| *c == '}');
        let body: String = match end {
            Some(end) => self.chars[self.at..self.at + end].iter().collect(),
            None => return self.invalid("Illegal repetition"),
        };
        let (min, max) = body.split_once(',').unwrap_or((&body, ""));
        let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
        if min.is_empty() || !digits(min) || !digits(max) {
            return self.invalid("Illegal repetition");
        }
        self.at += body.chars().count() + 1;
        self.out.push_str(&format!("{{{body}}}"));
        self.after_quantifier()
    }

    fn open_group(&mut self) -> Result<(), String> {
        if self.peek(0) != Some('?') {
            self.groups.push(self.flags);
            self.out.push('(');
            return Ok(());
        }
        match (self.peek(1), self.peek(2)) {
            (Some('='), _) => self.unsupported("look-ahead '(?='"),
            (Some('!'), _) => self.unsupported("look-ahead '(?!'"),
            (Some('<'), Some('=')) => self.unsupported("look-behind '(?<='"),
            (Some('<'), Some('!')) => self.unsupported("look-behind '(?<!'"),
            (Some('>'), _) => self.unsupported("an atomic group '(?>'"),
            (Some('<'), _) => {
                self.groups.push(self.flags);
                self.at += 2;
                self.out.push_str("(?<");
                while let Some(c) = self.peek(0) {
                    self.at += 1;
                    self.out.push(c);
                    if c == '>' {
                        return Ok(());
                    }
                }
                self.invalid("Unclosed group name")
            }
            _ => self.flag_group(),
        }
    }

    /// `(?:`, `(?i)`, `(?i-s:`.
    fn flag_group(&mut self) -> Result<(), String> {
        let before = self.flags;
        self.at += 1;
        let mut on = true;
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '-' => on = false,
                'i' => self.flags.ignore_case = on,
                'u' | 'U' => self.flags.unicode_case = on,
                's' => self.flags.dot_all = on,
                'm' => self.flags.multi_line = on,
                'x' => self.flags.comments = on,
                'd' => return self.unsupported("the flag '(?d)'"),
                ':' => {
                    self.groups.push(before);
                    self.out.push_str("(?:");
                    return Ok(());
                }
                ')' => return Ok(()),
                _ => return self.invalid("Unknown inline modifier"),
            }
        }
        self.invalid("Unclosed group")
    }

    fn literal(&mut self, c: char) {
        if !self.flags.ignore_case || !c.is_alphabetic() {
            return self.out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
        }
        if self.flags.unicode_case {
            self.out.push_str(&format!("(?i:{c})"));
        } else if c.is_ascii() {
            self.out.push_str(&format!("[{}{}]", c.to_ascii_lowercase(), c.to_ascii_uppercase()));
        } else {
            self.out.push(c);
        }
    }

    /// An escape outside a class; `at` is after the backslash.
    fn escape(&mut self) -> Result<(), String> {
        let Some(c) = self.peek(0) else {
            return self.invalid("Unexpected internal error");
        };
        match c {
            'Q' => {
                self.at += 1;
                while let Some(c) = self.peek(0) {
                    if c == '\\' && self.peek(1) == Some('E') {
                        self.at += 2;
                        break;
                    }
                    self.at += 1;
                    self.literal(c);
                }
            }
            '1'..='9' => return self.unsupported(&format!("the back-reference '\\{c}'")),
            'k' => return self.unsupported("a back-reference '\\k'"),
            'G' => return self.unsupported("'\\G'"),
            'X' => return self.unsupported("'\\X'"),
            'b' if self.peek(1) == Some('{') => return self.unsupported("'\\b{g}'"),
            'b' | 'B' | 'A' | 'z' => {
                self.at += 1;
                self.out.push('\\');
                self.out.push(c);
            }
            'Z' => {
                self.at += 1;
                self.end_of_text();
            }
            'R' => {
                self.at += 1;
                self.out.push_str(r"(?:\r\n|[\n\x0B\f\r\u{85}\u{2028}\u{2029}])");
            }
            _ => match self.class_escape()? {
                Escaped::Set(set) => self.out.push_str(&format!("[{set}]")),
                Escaped::Char(c) => self.literal(c),
            },
        }
        Ok(())
    }

    /// A class `[...]`; `at` is after the bracket. The result has its brackets.
    fn class(&mut self) -> Result<String, String> {
        let mut out = String::from("[");
        if self.peek(0) == Some('^') {
            self.at += 1;
            out.push('^');
        }
        let mut first = true;
        loop {
            let Some(c) = self.peek(0) else {
                return self.invalid("Unclosed character class");
            };
            self.at += 1;
            match c {
                ']' if !first => {
                    out.push(']');
                    return Ok(out);
                }
                '[' => out.push_str(&self.class()?),
                '&' if self.peek(0) == Some('&') => {
                    self.at += 1;
                    out.push_str("&&");
                }
                c if self.flags.comments && c.is_ascii_whitespace() => {}
                c => self.class_item(c, &mut out)?,
            }
            first = false;
        }
    }

    /// A character, range or set inside a class, begun by `c`.
    fn class_item(&mut self, c: char, out: &mut String) -> Result<(), String> {
        let low = match self.class_char(c)? {
            Escaped::Set(set) => {
                out.push_str(&format!("[{set}]"));
                return Ok(());
            }
            Escaped::Char(c) => c,
        };
        let range = self.peek(0) == Some('-') && !matches!(self.peek(1), None | Some(']' | '['));
        if !range {
            self.push_range(low, low, out);
            return Ok(());
        }
        self.at += 1;
        let next = self.peek(0).unwrap_or('-');
        self.at += 1;
        match self.class_char(next)? {
            Escaped::Char(high) if high >= low => self.push_range(low, high, out),
            Escaped::Char(_) | Escaped::Set(_) => return self.invalid("Illegal character range"),
        }
        Ok(())
    }

    fn class_char(&mut self, c: char) -> Result<Escaped, String> {
        if c == '\\' { self.class_escape() } else { Ok(Escaped::Char(c)) }
    }

    /// Adds a range to a class; with `(?i)` also its ASCII letters in the other case.
    fn push_range(&self, low: char, high: char, out: &mut String) {
        let mut add = |low: char, high: char| {
            out.push_str(&format!(r"\u{{{:X}}}", low as u32));
            if high > low {
                out.push_str(&format!(r"-\u{{{:X}}}", high as u32));
            }
        };
        add(low, high);
        if !self.flags.ignore_case {
            return;
        }
        for (from, to, other) in [('a', 'z', 'A'), ('A', 'Z', 'a')] {
            let (start, end) = (low.max(from), high.min(to));
            if start <= end {
                let shift = |c: char| ((c as u8 - from as u8) + other as u8) as char;
                add(shift(start), shift(end));
            }
        }
    }

    /// An escape that stands for a character or a set; `at` is after the backslash.
    fn class_escape(&mut self) -> Result<Escaped, String> {
        let Some(c) = self.peek(0) else {
            return self.invalid("Unexpected end of the pattern");
        };
        self.at += 1;
        let set = |text: &str| Ok(Escaped::Set(text.to_string()));
        match c {
            'd' => set("0-9"),
            'D' => set("^0-9"),
            'w' => set("a-zA-Z0-9_"),
            'W' => set("^a-zA-Z0-9_"),
            's' => set(r" \t\n\x0B\f\r"),
            'S' => set(r"^ \t\n\x0B\f\r"),
            'h' => set(r" \t\u{A0}\u{1680}\u{180e}\u{2000}-\u{200a}\u{202f}\u{205f}\u{3000}"),
            'H' => set(r"^ \t\u{A0}\u{1680}\u{180e}\u{2000}-\u{200a}\u{202f}\u{205f}\u{3000}"),
            'v' => set(r"\n\x0B\f\r\u{85}\u{2028}\u{2029}"),
            'V' => set(r"^\n\x0B\f\r\u{85}\u{2028}\u{2029}"),
            'p' | 'P' => self.property(c == 'P'),
            't' => Ok(Escaped::Char('\t')),
            'n' => Ok(Escaped::Char('\n')),
            'r' => Ok(Escaped::Char('\r')),
            'f' => Ok(Escaped::Char('\u{c}')),
            'a' => Ok(Escaped::Char('\u{7}')),
            'e' => Ok(Escaped::Char('\u{1b}')),
            'x' if self.peek(0) == Some('{') => self.code_point_in_braces(),
            'x' => self.code_point(2, 16),
            'u' => self.code_point(4, 16),
            '0' => {
                let octal = self.chars[self.at..].iter().take(3).take_while(|c| ('0'..='7').contains(*c)).count();
                self.code_point(octal.max(1), 8)
            }
            c if c.is_ascii_alphabetic() => self.unsupported(&format!("the escape '\\{c}'")),
            c => Ok(Escaped::Char(c)),
        }
    }

    fn code_point(&mut self, len: usize, radix: u32) -> Result<Escaped, String> {
        let digits: String = self.chars[self.at..].iter().take(len).collect();
        self.at += len;
        let value = u32::from_str_radix(&digits, radix).ok().filter(|_| digits.len() == len);
        match value.and_then(char::from_u32) {
            Some(c) => Ok(Escaped::Char(c)),
            None => self.invalid("Illegal escape sequence"),
        }
    }

    fn code_point_in_braces(&mut self) -> Result<Escaped, String> {
        self.at += 1;
        let len = self.chars[self.at..].iter().position(|c| *c == '}').unwrap_or(0);
        let point = self.code_point(len.max(1), 16);
        self.at += 1;
        point
    }

    /// `\p{..}`: Java's POSIX names are ASCII.
    fn property(&mut self, negated: bool) -> Result<Escaped, String> {
        let name: String = if self.peek(0) == Some('{') {
            let end = self.chars[self.at..].iter().position(|c| *c == '}').unwrap_or(0);
            let name = self.chars[self.at + 1..self.at + end.max(1)].iter().collect();
            self.at += end + 1;
            name
        } else {
            let name = self.peek(0).map(String::from).unwrap_or_default();
            self.at += 1;
            name
        };
        let caret = if negated { "^" } else { "" };
        let posix = match name.as_str() {
            "Lower" => "a-z",
            "Upper" => "A-Z",
            "ASCII" => r"\x00-\x7F",
            "Alpha" => "a-zA-Z",
            "Digit" => "0-9",
            "Alnum" => "a-zA-Z0-9",
            "Punct" => r"!-/:-@\[-`{-~",
            "Graph" => "!-~",
            "Print" => " -~",
            "Blank" => r" \t",
            "Cntrl" => r"\x00-\x1F\x7F",
            "XDigit" => "0-9a-fA-F",
            "Space" => r" \t\n\x0B\f\r",
            _ => "",
        };
        if !posix.is_empty() {
            return Ok(Escaped::Set(format!("{caret}{posix}")));
        }
        if name.starts_with("In") || name.starts_with("java") || name.contains('=') {
            return self.unsupported(&format!("the property '\\p{{{name}}}'"));
        }
        let plain = name.strip_prefix("Is").unwrap_or(&name);
        Ok(Escaped::Set(format!(r"{caret}\p{{{plain}}}")))
    }
}

/// What an escape stands for; a set is the inside of a class.
enum Escaped {
    Char(char),
    Set(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_classes_are_ascii_and_dots_stop_at_line_ends() {
        for (pattern, text, expected) in [
            (r"\w", "é", false),
            (r"^\d+$", "12", true),
            (r"\d", "١", false),
            ("(?i)B", "abc", true),
            ("(?i)é", "É", false),
            ("(?iu)é", "É", true),
            ("(?i)[a-c]x", "BX", true),
            ("a.b", "a\nb", false),
            ("(?s)a.b", "a\nb", true),
            ("^a.b$", "a😀b", true),
            ("b$", "ab\n", true),
            (r"b\z", "ab\n", false),
            (r"\Qa.b\E", "a.b", true),
            (r"\Qa.b\E", "axb", false),
            (r"[a-z\-]+", "--", true),
            (r"[^\s,]", " ,", false),
            (r"\p{Upper}", "É", false),
            (r"\p{Lu}", "É", true),
            (r"[a-z&&[^b]]", "b", false),
            (r"\u0041", "A", true),
            ("x{2,3}", "xx", true),
            ("[]a]", "]", true),
        ] {
            let regex = JavaRegex::compile(pattern).expect(pattern);
            assert_eq!(regex.is_match(text), expected, "{pattern} on {text:?}");
        }
    }

    #[test]
    fn what_cannot_be_done_is_named() {
        for (pattern, name) in [
            ("a(?=b)", "look-ahead"),
            ("(?<!a)b", "look-behind"),
            (r"(a)\1", "back-reference"),
            ("a*+", "possessive"),
            ("(?>a)", "atomic"),
            (r"\p{InGreek}", "InGreek"),
            ("a{,2}", "repetition"),
            ("(", "unclosed group"),
        ] {
            let error = JavaRegex::compile(pattern).expect_err(pattern);
            assert!(error.contains(name), "{pattern}: {error}");
        }
    }

    #[test]
    fn empty_matches_step_as_in_java() {
        let count = |pattern, text| JavaRegex::compile(pattern).expect(pattern).find_iter(text).count();
        assert_eq!(count("a*", "aaa"), 2);
        assert_eq!(count("", "abab"), 5);
    }
}
