//! What Tab offers: a pure function of the text before the cursor and of what the session knows.
//!
//! Where the cursor is decides: in a string of `SET` it is a setting, in `WITH (...)` an option or its value, after
//! `FROM` a table, after `t.` a column of `t`, at the start of a statement its first word; else columns of the tables
//! that the statement names, functions, keywords and tables.

use tidegate_sql::lexer::keywords;
use tidegate_sql::lexer::pieces::{Piece, PieceKind, pieces};
use tidegate_sql::session::{NamedObject, callable_names};

use super::words::{COMMON_OPTIONS, CONNECTORS, FORMATS, SETTINGS, option_values};

/// First words of statements.
const STARTS: [&str; 19] = [
    "ALTER", "BEGIN", "CLEAR", "CREATE", "DESCRIBE", "DROP", "END", "EXECUTE", "EXIT", "EXPLAIN", "HELP", "INSERT",
    "QUIT", "RESET", "SELECT", "SET", "SHOW", "STOP", "USE",
];

/// What the session knows by name.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    /// Tables and views.
    pub objects: Vec<NamedObject>,
    /// Settings that have been set, besides those that [`SETTINGS`] lists.
    pub settings: Vec<String>,
}

/// Something that may stand at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What replaces the text from the start that [`candidates`] gives.
    pub text: String,
    /// What it is, in a word or a type.
    pub about: String,
}

impl Candidate {
    fn new(text: impl Into<String>, about: impl Into<String>) -> Candidate {
        Candidate { text: text.into(), about: about.into() }
    }
}

/// What may stand at byte `at` of the text, and where what it replaces starts.
pub fn candidates(vocabulary: &Vocabulary, text: &str, at: usize) -> (usize, Vec<Candidate>) {
    let all = pieces(text);
    // The statement that the cursor is in.
    let ends = |piece: &Piece<'_>| piece.is_punct(";");
    let first = all.iter().rposition(|piece| ends(piece) && piece.end() <= at).map_or(0, |i| i + 1);
    let last = all.iter().position(|piece| ends(piece) && piece.start >= at).unwrap_or(all.len());
    let statement: Vec<Piece<'_>> = all[first..last].iter().filter(|p| p.kind != PieceKind::Blank).copied().collect();
    let before: Vec<Piece<'_>> = statement.iter().filter(|p| p.start < at).copied().collect();
    match before.split_last() {
        // In a comment there is nothing to complete.
        Some((last, _))
            if last.kind == PieceKind::Comment
                && (last.end() > at || !last.text.ends_with('/'))
                && touches(last, at) =>
        {
            (at, Vec::new())
        }
        Some((last, rest)) if last.kind == PieceKind::String && (last.end() > at || !last.finished) => {
            in_string(vocabulary, &statement, &words(rest), last, &text[last.start..at])
        }
        Some((last, rest)) if is_name(last) && last.end() >= at => {
            let typed = &text[last.start..at];
            (last.start, matching(in_statement(vocabulary, &statement, &words(rest), typed), typed))
        }
        _ => (at, in_statement(vocabulary, &statement, &words(&before), "")),
    }
}

fn words<'t>(pieces: &[Piece<'t>]) -> Vec<Piece<'t>> {
    pieces.iter().filter(|p| p.kind != PieceKind::Comment).copied().collect()
}

fn touches(piece: &Piece<'_>, at: usize) -> bool {
    piece.end() >= at
}

fn is_name(piece: &Piece<'_>) -> bool {
    matches!(piece.kind, PieceKind::Keyword | PieceKind::Name | PieceKind::Quoted)
}

/// Those that start as what was typed, in any case; keywords and functions in the case that was typed.
fn matching(candidates: Vec<Candidate>, typed: &str) -> Vec<Candidate> {
    let lower = typed.chars().any(char::is_lowercase) && !typed.chars().any(char::is_uppercase);
    let bare = |text: &str| text.trim_start_matches('`').to_lowercase();
    let start = bare(typed);
    let mut kept: Vec<Candidate> = candidates.into_iter().filter(|c| bare(&c.text).starts_with(&start)).collect();
    for candidate in &mut kept {
        if lower && matches!(candidate.about.as_str(), "keyword" | "function") {
            candidate.text = candidate.text.to_lowercase();
        }
    }
    kept
}

fn in_statement(vocabulary: &Vocabulary, statement: &[Piece<'_>], before: &[Piece<'_>], typed: &str) -> Vec<Candidate> {
    let keyword = |word: &&str| Candidate::new(*word, "keyword");
    let Some(last) = before.last() else { return STARTS.iter().map(keyword).collect() };
    if last.is_punct(".") {
        return after_dot(vocabulary, statement, before);
    }
    let tables =
        || vocabulary.objects.iter().map(|o| Candidate::new(&o.name, if o.is_view { "view" } else { "table" }));
    let wants_table =
        ["FROM", "JOIN", "INTO", "DESCRIBE", "DESC", "TABLE", "VIEW"].iter().any(|word| last.is_word(word));
    if wants_table && !before[0].is_word("CREATE") {
        return tables().collect();
    }
    if before[0].is_word("SHOW") && before.len() == 1 {
        let kinds = [
            "TABLES",
            "VIEWS",
            "CATALOGS",
            "DATABASES",
            "COLUMNS FROM",
            "FUNCTIONS",
            "JOBS",
            "CREATE TABLE",
            "CREATE VIEW",
        ];
        return kinds.iter().map(keyword).collect();
    }
    let mut out: Vec<Candidate> = Vec::new();
    for (object, _) in named_in(vocabulary, statement) {
        out.extend(object.columns.iter().map(|(name, ty)| Candidate::new(name, ty)));
    }
    out.dedup();
    if typed.is_empty() && !out.is_empty() {
        return out;
    }
    out.extend(
        named_in(vocabulary, statement).into_iter().filter_map(|(_, alias)| Some(Candidate::new(alias?, "alias"))),
    );
    out.extend(tables());
    // Before anything is typed there are too many functions and keywords to be of use.
    if !typed.is_empty() {
        let call = |name: &&str| if keywords::is_niladic(name) { (*name).to_owned() } else { format!("{name}(") };
        out.extend(callable_names().iter().map(|name| Candidate::new(call(name), "function")));
        out.extend(keywords::suggested().iter().map(keyword));
    }
    out
}

/// Columns after `table.` or `alias.`; tables after `database.`.
fn after_dot(vocabulary: &Vocabulary, statement: &[Piece<'_>], before: &[Piece<'_>]) -> Vec<Candidate> {
    let mut path: Vec<&str> = Vec::new();
    let mut rest = before;
    while let [head @ .., name, dot] = rest
        && dot.is_punct(".")
        && is_name(name)
    {
        path.insert(0, name.text);
        rest = head;
    }
    let path = path.join(".");
    let mut out: Vec<Candidate> = Vec::new();
    for (object, alias) in named_in(vocabulary, statement) {
        let last = object.name.rsplit('.').next().unwrap_or_default();
        if alias.as_deref().unwrap_or(last) == path || object.name == path {
            out.extend(object.columns.iter().map(|(name, ty)| Candidate::new(name, ty)));
        }
    }
    let below = vocabulary.objects.iter().filter_map(|o| o.name.strip_prefix(&path)?.strip_prefix('.'));
    out.extend(below.map(|name| Candidate::new(name, "table")));
    out
}

/// The tables and views that the statement names, with the aliases it gives them.
fn named_in<'v>(vocabulary: &'v Vocabulary, statement: &[Piece<'_>]) -> Vec<(&'v NamedObject, Option<String>)> {
    let words: Vec<&Piece<'_>> = statement.iter().filter(|p| p.kind != PieceKind::Comment).collect();
    let mut out = Vec::new();
    let mut i = 0;
    while i < words.len() {
        let opens = ["FROM", "JOIN", "INTO", "TABLE"].iter().any(|word| words[i].is_word(word));
        i += 1;
        while opens && i < words.len() && is_name(words[i]) {
            let mut name = words[i].text.to_owned();
            i += 1;
            while i + 1 < words.len() && words[i].is_punct(".") && is_name(words[i + 1]) {
                name += &format!(".{}", words[i + 1].text);
                i += 2;
            }
            i += usize::from(words.get(i).is_some_and(|w| w.is_word("AS")));
            let alias = words
                .get(i)
                .filter(|w| matches!(w.kind, PieceKind::Name | PieceKind::Quoted))
                .map(|w| w.text.to_owned());
            i += usize::from(alias.is_some());
            out.extend(vocabulary.objects.iter().find(|o| o.name == name).map(|object| (object, alias)));
            // FROM a, b
            match words.get(i).is_some_and(|w| w.is_punct(",")) {
                true => i += 1,
                false => break,
            }
        }
    }
    out
}

/// In a string: a setting, an option, or a value of one.
fn in_string(
    vocabulary: &Vocabulary,
    statement: &[Piece<'_>],
    before: &[Piece<'_>],
    string: &Piece<'_>,
    opened: &str,
) -> (usize, Vec<Candidate>) {
    let typed = opened.strip_prefix('\'').unwrap_or(opened);
    let start = string.start + opened.len() - typed.len();
    let mut found = string_words(vocabulary, statement, before);
    found.retain(|c| c.text.starts_with(typed));
    if !string.finished {
        // A prefix such as `fields.` goes on.
        found.iter_mut().filter(|c| !c.text.ends_with('.')).for_each(|c| c.text.push('\''));
    }
    (start, found)
}

fn string_words(vocabulary: &Vocabulary, statement: &[Piece<'_>], before: &[Piece<'_>]) -> Vec<Candidate> {
    let Some(first) = before.first() else { return Vec::new() };
    let key = match before {
        [.., key, equals] if equals.is_punct("=") && key.kind == PieceKind::String => Some(key.text.trim_matches('\'')),
        _ => None,
    };
    if first.is_word("SET") || first.is_word("RESET") {
        if let Some(key) = key {
            let values = SETTINGS.iter().find(|(name, _)| *name == key).map_or(&[][..], |(_, values)| values);
            return values.iter().map(|value| Candidate::new(*value, "value")).collect();
        }
        let mut keys: Vec<&str> = SETTINGS.iter().map(|(name, _)| *name).collect();
        keys.extend(vocabulary.settings.iter().map(String::as_str));
        keys.sort_unstable();
        keys.dedup();
        return keys.into_iter().map(|key| Candidate::new(key, "setting")).collect();
    }
    if !before.iter().any(|piece| piece.is_word("WITH") || piece.is_word("SET") || piece.is_word("OPTIONS")) {
        return Vec::new();
    }
    match (key, before.last()) {
        (Some(key), _) => option_values(key).into_iter().map(|value| Candidate::new(value, "value")).collect(),
        (None, Some(last)) if last.is_punct("(") || last.is_punct(",") => options(statement),
        _ => Vec::new(),
    }
}

/// The options that fit the connector and format that the statement names; those it has already are left out.
fn options(statement: &[Piece<'_>]) -> Vec<Candidate> {
    let text = |piece: &Piece<'_>| piece.text.trim_matches('\'').to_owned();
    let given: Vec<(String, String)> = statement
        .windows(3)
        .filter(|w| w[0].kind == PieceKind::String && w[1].is_punct("=") && w[2].kind == PieceKind::String)
        .map(|w| (text(&w[0]), text(&w[2])))
        .collect();
    let value = |key: &str| given.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
    let mut out: Vec<String> = COMMON_OPTIONS.iter().map(|o| (*o).to_owned()).collect();
    let connector = CONNECTORS.iter().find(|(name, _)| Some(*name) == value("connector"));
    out.extend(connector.into_iter().flat_map(|(_, options)| options.iter().map(|o| (*o).to_owned())));
    for (format, keys) in FORMATS {
        for prefix in ["", "key.", "value."] {
            if value(&format!("{prefix}format")) == Some(format) {
                out.extend(keys.iter().map(|key| format!("{prefix}{format}.{key}")));
            }
        }
    }
    out.retain(|option| value(option).is_none());
    out.into_iter().map(|option| Candidate::new(option, "option")).collect()
}

#[cfg(test)]
mod tests;
