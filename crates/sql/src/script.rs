//! Splits a script into statements.
//!
//! Statements end at `;`, but not inside strings, quoted names, comments and hints, nor inside
//! `STATEMENT SET BEGIN ... END`, which is one statement although its inserts end in `;` too. A
//! statement is not parsed here: it sees the session that those before it have made.

use tidegate_api::{Error, Result};

use crate::lexer::cursor::Cursor;

/// A statement's text and where it starts in the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptStatement {
    /// From its first word to before its `;`.
    pub text: String,
    /// Line of its first word, from 1.
    pub line: u32,
    /// Column of its first word, from 1.
    pub column: u32,
}

/// The statements of a script. Fails on a string, quoted name or comment without end.
pub fn split_script(script: &str) -> Result<Vec<ScriptStatement>> {
    let mut splitter =
        Splitter { cursor: Cursor::new(script, 1, 1), out: Vec::new(), open: None, words: Words::default() };
    splitter.run()?;
    Ok(splitter.out)
}

/// Whether a text ends where a statement ends: after its `;`, which stands in no string, quoted name, comment
/// or statement set. Blank lines and comments may follow. A text without any statement has nothing left to
/// finish either.
pub fn is_finished(text: &str) -> bool {
    let mut splitter =
        Splitter { cursor: Cursor::new(text, 1, 1), out: Vec::new(), open: None, words: Words::default() };
    splitter.read().is_ok() && splitter.open.is_none()
}

/// The statement being read: its byte offset and place.
#[derive(Clone, Copy)]
struct Open {
    start: usize,
    end: usize,
    line: u32,
    column: u32,
}

struct Splitter<'a> {
    cursor: Cursor<'a>,
    out: Vec<ScriptStatement>,
    open: Option<Open>,
    words: Words,
}

impl Splitter<'_> {
    fn run(&mut self) -> Result<()> {
        self.read()?;
        self.close();
        Ok(())
    }

    /// Reads to the end; a statement without `;` stays open.
    fn read(&mut self) -> Result<()> {
        loop {
            self.cursor
                .skip_blank(false)
                .map_err(|(message, _)| Error::invalid(format!("SQL parse failed. {message}")))?;
            let Some(c) = self.cursor.peek() else { break };
            if c == ';' && !self.words.inside_set {
                self.cursor.bump();
                self.close();
                continue;
            }
            let start = self.cursor.offset();
            let (line, column) = self.cursor.position();
            self.step(c, line, column)?;
            let end = self.cursor.offset();
            match &mut self.open {
                Some(open) => open.end = end,
                None => self.open = Some(Open { start, end, line, column }),
            }
        }
        Ok(())
    }

    /// Reads one token, coarsely.
    fn step(&mut self, c: char, line: u32, column: u32) -> Result<()> {
        match c {
            '\'' => self.quoted('\'', "string", line, column),
            '`' => self.quoted('`', "quoted name", line, column),
            _ if c == '_' || c.is_alphanumeric() => {
                let word = self.cursor.take_while(|c| c == '_' || c == '$' || c.is_alphanumeric());
                if matches!(word, "e" | "E") && self.cursor.peek() == Some('\'') {
                    return self.c_string(line, column);
                }
                self.words.word(word);
                Ok(())
            }
            _ if self.cursor.starts_with("/*+") => {
                self.cursor.advance(3);
                Ok(())
            }
            _ => {
                self.cursor.bump();
                self.words.other(c);
                Ok(())
            }
        }
    }

    fn quoted(&mut self, quote: char, what: &str, line: u32, column: u32) -> Result<()> {
        self.cursor.bump();
        self.words.other(quote);
        // A doubled quote reads as two adjacent ones, which ends at the same place.
        while let Some(c) = self.cursor.bump() {
            if c == quote {
                return Ok(());
            }
        }
        Err(unterminated(what, line, column))
    }

    fn c_string(&mut self, line: u32, column: u32) -> Result<()> {
        self.cursor.bump();
        self.words.other('\'');
        while let Some(c) = self.cursor.bump() {
            match c {
                '\\' => drop(self.cursor.bump()),
                '\'' => return Ok(()),
                _ => {}
            }
        }
        Err(unterminated("string", line, column))
    }

    fn close(&mut self) {
        self.words = Words::default();
        if let Some(open) = self.open.take() {
            let text = self.cursor.slice(open.start, open.end).to_string();
            self.out.push(ScriptStatement { text, line: open.line, column: open.column });
        }
    }
}

fn unterminated(what: &str, line: u32, column: u32) -> Error {
    Error::invalid(format!("SQL parse failed. The {what} that starts at line {line}, column {column} does not end."))
}

/// Watches for `STATEMENT SET BEGIN ... END`.
#[derive(Default)]
struct Words {
    /// How many of the words `STATEMENT SET BEGIN` were just seen.
    seen: usize,
    inside_set: bool,
    /// The next word starts a statement of the set.
    at_start: bool,
}

impl Words {
    fn word(&mut self, word: &str) {
        if self.inside_set {
            if self.at_start && word.eq_ignore_ascii_case("END") {
                self.inside_set = false;
            }
            self.at_start = false;
            return;
        }
        const OPENING: [&str; 3] = ["STATEMENT", "SET", "BEGIN"];
        if word.eq_ignore_ascii_case(OPENING[self.seen]) {
            self.seen += 1;
        } else {
            self.seen = usize::from(word.eq_ignore_ascii_case(OPENING[0]));
        }
        if self.seen == OPENING.len() {
            *self = Words { seen: 0, inside_set: true, at_start: true };
        }
    }

    fn other(&mut self, c: char) {
        self.seen = 0;
        self.at_start = c == ';';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<String> {
        split_script(script).unwrap().into_iter().map(|s| s.text).collect()
    }

    #[test]
    fn semicolons_split_only_between_statements() {
        let script =
            "-- head;\nSET 'a;' = 'b'';'; /* ; */ SELECT `x;``` /*+ h(';') */ -- tail;\n;;\n SELECT E'\\';' // z;";
        assert_eq!(texts(script), ["SET 'a;' = 'b'';'", "SELECT `x;``` /*+ h(';') */", "SELECT E'\\';'"]);
        assert_eq!(texts("  -- nothing\n;"), Vec::<String>::new());
    }

    #[test]
    fn a_statement_set_is_one_statement() {
        let set = "EXECUTE STATEMENT SET\nBEGIN\nINSERT INTO a SELECT CASE WHEN x THEN 1 END FROM t;\nINSERT INTO b SELECT 1;\nEND";
        assert_eq!(texts(&format!("{set};\nSELECT 1;")), [set, "SELECT 1"]);
        assert_eq!(
            texts("BEGIN STATEMENT SET; INSERT INTO a SELECT 1; END;"),
            ["BEGIN STATEMENT SET", "INSERT INTO a SELECT 1", "END"]
        );
    }

    #[test]
    fn a_text_is_finished_after_the_semicolon_of_its_last_statement() {
        for text in ["", " \n", "-- only a comment", "SELECT 1;", "SELECT 1; -- done", "SELECT ';'; /* ; */\n"] {
            assert!(is_finished(text), "{text}");
        }
        let set = "EXECUTE STATEMENT SET BEGIN\nINSERT INTO a SELECT 1;";
        for text in ["SELECT 1", "SELECT 1; SELECT", "SELECT ';", "SELECT `;", "SELECT 1 /* ;", "SELECT 1 -- ;", set] {
            assert!(!is_finished(text), "{text}");
        }
        assert!(is_finished(&format!("{set}\nEND;")));
    }

    #[test]
    fn statements_know_their_place() {
        let all = split_script("SET 'a' = 'b';\n\n  -- c\n  SELECT 1").unwrap();
        assert_eq!((all[1].line, all[1].column), (4, 3));
    }

    #[test]
    fn open_strings_and_comments_are_errors_with_a_place() {
        for (script, want) in [
            ("SELECT 1;\nSELECT 'abc;", "string that starts at line 2, column 8"),
            ("SELECT `abc;", "quoted name that starts at line 1, column 8"),
            ("SELECT 1 /* abc;", "comment that starts at line 1, column 10"),
        ] {
            let message = split_script(script).unwrap_err().to_string();
            assert!(message.contains(want), "{message}");
        }
    }
}
