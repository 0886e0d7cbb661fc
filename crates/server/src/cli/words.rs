//! Text of others on a terminal: made harmless, and made to fit.

/// Makes text harmless for a terminal: control and direction signs become visible or go.
///
/// Agents and tools write what they like; none of it may move a cursor, set a title or hide text.
pub(crate) fn clean(text: &str) -> String {
    text.chars().filter_map(harmless).collect()
}

fn harmless(sign: char) -> Option<char> {
    match sign {
        '\n' | '\t' => Some(sign),
        '\r' => None,
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(sign)),
        '\u{7f}'..='\u{9f}' => Some('\u{fffd}'),
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => None,
        sign => Some(sign),
    }
}

/// Brings text onto one line of at most `most` characters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let cleaned = clean(text);
    let mut line = String::new();
    let mut count = 0;
    for word in cleaned.split_whitespace() {
        if count > 0 {
            line.push(' ');
            count += 1;
        }
        for sign in word.chars() {
            if count >= most {
                line.truncate(line.trim_end().len());
                line.push('…');
                return line;
            }
            line.push(sign);
            count += 1;
        }
    }
    line
}

/// Returns the first lines of a text, each behind `margin`, and says how many were left out.
pub(crate) fn head(text: &str, most: usize, margin: &str) -> String {
    let cleaned = clean(text);
    let lines: Vec<_> = cleaned.trim_end().lines().collect();
    // One line more costs no more than the words that it was left out.
    let shown = if lines.len() <= most + 1 {
        lines.len()
    } else {
        most
    };
    let cut = |line: &str| line.chars().take(LONGEST).collect::<String>();
    let mut out: Vec<_> = lines
        .iter()
        .take(shown)
        .map(|line| format!("{margin}{}", cut(line)))
        .collect();
    if shown < lines.len() {
        out.push(format!("{margin}… {} more lines", lines.len() - shown));
    }
    out.join("\n")
}

/// The longest line that is shown whole, in characters.
const LONGEST: usize = 500;

/// Writes a duration as people say it.
pub(crate) fn seconds(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    let minutes = (seconds / 60.0).floor();
    if minutes < 60.0 {
        return format!("{minutes} min {:.0} s", seconds - minutes * 60.0);
    }
    let hours = (minutes / 60.0).floor();
    if hours < 48.0 {
        return format!("{hours} h {} min", minutes - hours * 60.0);
    }
    format!("{} d", (hours / 24.0).floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_the_cursor() {
        let evil = "a\u{1b}]0;title\u{7}b\u{9b}2Jc\r\u{8}d\u{202e}e\n\tf";
        assert_eq!(clean(evil), "a␛]0;title␇b\u{fffd}2Jc␈de\n\tf");
    }

    #[test]
    fn lines_are_joined_and_cut() {
        assert_eq!(one_line("  a\n b\t c ", 10), "a b c");
        assert_eq!(one_line("abcdef", 3), "abc…");
        assert_eq!(one_line("abc def", 4), "abc…");
        assert_eq!(one_line("äöü", 3), "äöü");
        assert_eq!(one_line("", 3), "");
    }

    #[test]
    fn long_texts_show_their_head() {
        assert_eq!(head("a\nb\n", 5, "| "), "| a\n| b");
        assert_eq!(head("1\n2\n3\n4", 2, ""), "1\n2\n… 2 more lines");
        assert_eq!(head("1\n2\n3", 2, ""), "1\n2\n3");
        assert_eq!(head("", 2, ""), "");
    }

    #[test]
    fn durations_read_well() {
        for (value, words) in [
            (0.04, "0.0 s"),
            (59.0, "59.0 s"),
            (61.0, "1 min 1 s"),
            (3_660.0, "1 h 1 min"),
            (200_000.0, "2 d"),
        ] {
            assert_eq!(seconds(value), words);
        }
    }
}
