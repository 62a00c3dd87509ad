//! Tables for people: aligned also where letters are wide, and no wider than the terminal they are shown on.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Columns between two cells.
const GAP: &str = "  ";

/// Where the cells of a column stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Counts.
    Right,
}

/// Rows of cells under a head.
pub struct Table {
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// One without rows. A name that begins with `>` is that of a column of counts.
    pub fn of(head: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut table = Self { sides: Vec::new(), rows: vec![Vec::new()] };
        for name in head {
            let name = name.as_ref();
            let (side, shown) = name.strip_prefix('>').map_or((Side::Left, name), |name| (Side::Right, name));
            table.sides.push(side);
            table.rows.iter_mut().for_each(|row| row.push(shown.to_owned()));
        }
        table
    }

    /// One more row. Cells are cleaned: what others have named shall not move a terminal's cursor.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        self.rows.push(cells.into_iter().map(|cell| clean(cell.as_ref())).collect());
    }

    /// Whether there is nothing under the head.
    pub fn is_empty(&self) -> bool {
        self.rows.len() <= 1
    }

    /// The lines, each cut to that many columns where a number is given.
    pub fn lines(&self, most: Option<usize>) -> String {
        let width = |at: usize| self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.width()).max();
        let widths: Vec<usize> = (0..self.sides.len()).map(|at| width(at).unwrap_or_default()).collect();
        let lines = self.rows.iter().map(|row| {
            let cells = row.iter().zip(&widths).zip(&self.sides);
            let cells = cells.map(|((cell, width), side)| {
                let gap = " ".repeat(width.saturating_sub(cell.width()));
                if *side == Side::Left { format!("{cell}{gap}") } else { format!("{gap}{cell}") }
            });
            let line = cells.collect::<Vec<_>>().join(GAP);
            let line = line.trim_end();
            most.map_or_else(|| line.to_owned(), |most| cut(line, most))
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The lines for standard output: cut where that is a terminal, whole where a program reads them.
    pub fn shown(&self) -> String {
        self.lines(terminal())
    }
}

/// Columns of the terminal that standard output is; nothing where it is none.
pub fn terminal() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
    Some(usize::from(width.0))
}

/// A text that takes at most so many columns.
pub fn cut(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut taken = 1;
    for letter in text.chars() {
        taken += letter.width().unwrap_or_default();
        if taken > most {
            break;
        }
        kept.push(letter);
    }
    format!("{}…", kept.trim_end())
}

/// Without letters that would move the cursor, change colours or turn the direction of writing.
pub fn clean(text: &str) -> String {
    let is_unseen = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|letter| if is_unseen(letter) { '\u{fffd}' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::{Table, clean, cut};

    #[test]
    fn columns_stay_aligned_where_letters_are_wide() {
        let mut table = Table::of(["client", ">requests"]);
        table.row(["问答", "12"]);
        table.row(["batch", "1"]);
        assert_eq!(table.lines(None), "client  requests\n问答          12\nbatch          1");
    }

    #[test]
    fn a_line_is_cut_to_the_terminal() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdef", 5), "abcd…");
        assert_eq!(cut("问答问答", 6), "问答…", "half of a wide letter is none");
        assert_eq!(cut("问答", 0), "…");
    }

    #[test]
    fn what_others_have_named_moves_no_cursor() {
        assert_eq!(clean("a\u{1b}[31mb\nc\u{202e}d"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}d");
    }
}
