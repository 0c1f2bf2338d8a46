//! An error with its place: the line of the statement and a caret under the words that are wrong.

use tidegate_api::{Error, ErrorKind};

use crate::tableau::{display_width, visible};

/// A place in a text: a line and the columns of it that are wrong, all from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    line: usize,
    column: usize,
    /// The last column; the same if only the start is known.
    last: usize,
}

/// What the client says of an error, with Flink's first line. `text` is what was typed.
pub fn error_text(error: &Error, text: &str) -> String {
    let mut error = error.clone();
    // The session says which statement failed if nothing better is known; whoever typed it sees that.
    error.context.retain(|place| !place.starts_with("Statement at line "));
    let mut said = format!("[ERROR] Could not execute SQL statement. Reason:\n{error}");
    // A place in a message of a job is one in its data.
    let is_statements = matches!(error.kind, ErrorKind::Invalid | ErrorKind::Unsupported);
    if let Some(place) = place(&error.message).filter(|_| is_statements)
        && let Some(marked) = marked(place, text)
    {
        said += &format!("\n\n{marked}");
    }
    said
}

/// The first `line L, column C` of a message, and the end that `to line L, column C` gives it.
fn place(message: &str) -> Option<Place> {
    let (line, column, rest) = pair(message)?;
    let last = match rest.strip_prefix(" to ").and_then(pair) {
        Some((to, last, _)) if to == line && last >= column => last,
        // What goes on in another line is marked by its first column.
        _ => column,
    };
    Some(Place { line, column, last })
}

/// The next `line L, column C` and what follows it.
fn pair(text: &str) -> Option<(usize, usize, &str)> {
    for (at, found) in text.match_indices("line ") {
        let Some((line, rest)) = number(&text[at + found.len()..]) else { continue };
        let Some((column, rest)) = rest.strip_prefix(", column ").and_then(number) else { continue };
        return Some((line, column, rest));
    }
    None
}

fn number(text: &str) -> Option<(usize, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// The line of the text with carets below it.
fn marked(place: Place, text: &str) -> Option<String> {
    let line = text.lines().nth(place.line.checked_sub(1)?)?;
    let count = line.chars().count();
    // The end of a text is where its last character is, or after it.
    let first = place.column.checked_sub(1)?.min(count);
    // Of a mistake whose end is not known the whole word is meant.
    let word = line.chars().skip(first).take_while(|c| c.is_alphanumeric() || *c == '_').count();
    let last = if place.last > place.column { place.last } else { first + word };
    let last = last.clamp(first + 1, count.max(first + 1));
    let part =
        |from: usize, to: usize| visible(&line.chars().skip(from).take(to - from).collect::<String>()).into_owned();
    let number = place.line.to_string();
    let blank = " ".repeat(display_width(&part(0, first)));
    let carets = "^".repeat(display_width(&part(first, last)).max(1));
    let margin = " ".repeat(number.len());
    Some(format!("  {number} | {}\n  {margin} | {blank}{carets}", visible(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(message: &str, text: &str) -> String {
        let whole = error_text(&Error::invalid(message).context("Statement at line 1, column 1"), text);
        whole.strip_prefix("[ERROR] Could not execute SQL statement. Reason:\n").expect("Flink's head").to_owned()
    }

    #[test]
    fn the_words_are_marked() {
        let message = "SQL validation failed. From line 2, column 8 to line 2, column 11: Column 'nope' not found";
        let wanted = format!("{message}\n\n  2 |  SELECT nope FROM t;\n    |        ^^^^");
        assert_eq!(said(message, "-- x\n SELECT nope FROM t;"), wanted);
    }

    #[test]
    fn wide_characters_and_tabs_do_not_move_the_caret() {
        let message = "Encountered \"x\" at line 1, column 6.";
        assert!(said(message, "'한국' x").ends_with("| '한국' x\n    |        ^"), "{}", said(message, "'한국' x"));
        assert!(said("at line 1, column 2.", "\tx").ends_with("| \\tx\n    |   ^"));
    }

    #[test]
    fn a_place_that_is_not_in_the_text_is_only_said() {
        assert_eq!(said("at line 7, column 1.", "SELECT"), "at line 7, column 1.");
        let job = Error::job("file x.csv, line 1, column 2: no number");
        assert!(error_text(&job, "SELECT").ends_with("no number"));
        assert_eq!(said("file x.json, line 2: bad", "SELECT"), "file x.json, line 2: bad");
        assert!(said("at line 1, column 99.", "SELECT").ends_with("| SELECT\n    |       ^"));
        assert!(
            said("From line 1, column 2 to line 3, column 1: x", "( SELECT\n\n1").ends_with("| ( SELECT\n    |  ^")
        );
        assert!(said("Encountered \"TABELS\" at line 1, column 6.", "SHOW TABELS;").ends_with("|      ^^^^^^"));
    }
}
