//! Colours of a statement while it is typed.

use reedline::{Color, Highlighter, StyledText};
use tidegate_sql::lexer::pieces::{PieceKind, pieces};

/// Colours statements.
pub struct SqlColours;

impl Highlighter for SqlColours {
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        let mut styled = StyledText::new();
        for piece in pieces(line) {
            let style = match piece.kind {
                PieceKind::Keyword => Color::LightBlue.bold(),
                PieceKind::String => Color::Green.normal(),
                PieceKind::Number => Color::Magenta.normal(),
                PieceKind::Quoted => Color::Cyan.normal(),
                PieceKind::Comment => Color::DarkGray.normal(),
                PieceKind::Blank | PieceKind::Name | PieceKind::Punct => Color::Default.normal(),
            };
            styled.push((style, piece.text.to_owned()));
        }
        styled
    }
}

/// Leaves statements as they are.
pub struct NoColours;

impl Highlighter for NoColours {
    fn highlight(&self, line: &str, _cursor: usize) -> StyledText {
        let mut styled = StyledText::new();
        styled.push((Color::Default.normal(), line.to_owned()));
        styled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_leave_the_text_alone() {
        let text = "select 'é' -- c\nfrom `한` where x > 1.5 /* open";
        for styled in [SqlColours.highlight(text, 0), NoColours.highlight(text, 0)] {
            assert_eq!(styled.buffer.iter().map(|(_, part)| part.as_str()).collect::<String>(), text);
        }
    }
}
