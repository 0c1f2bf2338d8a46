use super::*;

fn toks(text: &str) -> Vec<Tok> {
    let mut out: Vec<Tok> = tokenize(text, 1, 1).into_iter().map(|t| t.tok).collect();
    assert!(matches!(out.last(), Some(Tok::Eof | Tok::Invalid(_))));
    if out.last() == Some(&Tok::Eof) {
        out.pop();
    }
    out
}

#[test]
fn literals_and_names_are_unescaped() {
    let s = |t: &str| Tok::String(t.into());
    for (text, want) in [
        ("'it''s'", s("it's")),
        ("''", s("")),
        ("E'a\\nb\\x41\\u00e9\\101'", s("a\nbA\u{e9}A")),
        ("n'x'", s("x")),
        ("_utf8'x'", s("x")),
        ("x'CAfe'", Tok::Binary(vec![0xca, 0xfe])),
        ("U&'\\00e9'", Tok::UnicodeString("\\00e9".into())),
        ("`a``b c`", Tok::Quoted("a`b c".into())),
        ("naïve$1", Tok::Word("naïve$1".into())),
        ("12", Tok::Integer("12".into())),
        ("1.", Tok::Decimal("1.".into())),
        (".5", Tok::Decimal(".5".into())),
        ("1e5", Tok::Double("1e5".into())),
        ("1.5E-3", Tok::Double("1.5E-3".into())),
    ] {
        assert_eq!(toks(text), vec![want], "{text}");
    }
    assert_eq!(unescape_unicode("\\00e9\\\\!", '\\').unwrap(), "\u{e9}\\!");
    assert_eq!(unescape_unicode("\\d83d\\de00", '\\').unwrap(), "\u{1F600}");
    assert!(unescape_unicode("\\00", '\\').is_err());
}

#[test]
fn comments_and_hints() {
    let text = "a -- b\n // c\n /* d ; ' */ /*+ h(1) */ /* ** */";
    let want = [
        Tok::Word("a".into()),
        Tok::HintStart,
        Tok::Word("h".into()),
        Tok::Punct("("),
        Tok::Integer("1".into()),
        Tok::Punct(")"),
        Tok::HintEnd,
    ];
    assert_eq!(toks(text), want);
    assert_eq!(toks("a*/b").len(), 4);
}

#[test]
fn what_flink_refuses_is_refused_with_its_place() {
    for (text, want) in [
        ("a != b", "From line 1, column 3 to line 1, column 4: Bang equal '!=' is not allowed"),
        ("\"a\"", "Lexical error at line 1, column 1.  Encountered: \"\\\"\" (34)"),
        ("\n  'abc", "The string that starts at line 2, column 3 does not end."),
        ("/* abc", "The comment that starts at line 1, column 1 does not end."),
        ("a == b", "Encountered \"=\" at line 1, column 4."),
        ("a::INT", "Encountered \":\" at line 1, column 3."),
        ("x'ABC'", "even number of hexits"),
    ] {
        match toks(text).last() {
            Some(Tok::Invalid(message)) => assert!(message.contains(want), "{text}: {message}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn places_are_absolute_and_inclusive() {
    let tokens = tokenize("SELECT\n\tab, 'x'", 10, 5);
    let at = |i: usize| tokens[i].span;
    assert_eq!(at(0), Span { line: 10, column: 5, end_line: 10, end_column: 10 });
    assert_eq!(at(1), Span { line: 11, column: 2, end_line: 11, end_column: 3 });
    assert_eq!(at(3), Span { line: 11, column: 6, end_line: 11, end_column: 8 });
}
