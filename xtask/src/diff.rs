//! Where two texts differ, in as few lines as a reader needs.

use std::fmt::Write as _;

/// Lines shown of each side at most.
const MOST: usize = 12;

/// The lines between the common beginning and the common end: `-` as it stands, `+` as it should.
#[must_use]
pub fn diff(stands: &str, should: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (stands.lines().collect(), should.lines().collect());
    let same = |(a, b): &(&&str, &&str)| a == b;
    let head = old.iter().zip(&new).take_while(same).count();
    let (old, new) = (old.get(head..).unwrap_or_default(), new.get(head..).unwrap_or_default());
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
    let mut out = format!("  @@ line {} @@\n", head + 1);
    side(&mut out, '-', old.get(..old.len() - tail).unwrap_or_default());
    side(&mut out, '+', new.get(..new.len() - tail).unwrap_or_default());
    out
}

fn side(out: &mut String, sign: char, lines: &[&str]) {
    // Writing to a String cannot fail.
    for line in lines.iter().take(MOST) {
        let _ = writeln!(out, "  {sign} {line}");
    }
    if lines.len() > MOST {
        let _ = writeln!(out, "  {sign} … and {} more", lines.len() - MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::diff;

    #[test]
    fn only_what_differs_is_shown() {
        assert_eq!(diff("a\nb\nc\n", "a\nB\nB2\nc\n"), "  @@ line 2 @@\n  - b\n  + B\n  + B2\n");
        assert_eq!(diff("", "a\n"), "  @@ line 1 @@\n  + a\n");
        assert_eq!(diff("a\na\n", "a\n"), "  @@ line 2 @@\n  - a\n");
    }

    #[test]
    fn a_long_difference_is_cut() {
        let long: String = (0..100).map(|at| format!("{at}\n")).collect();
        assert!(diff(&long, "").ends_with("  - … and 88 more\n"));
    }
}
