//! Tables for people.

use unicode_width::UnicodeWidthStr as _;

/// Lays rows out in columns; the last one is as wide as it likes.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.width()).collect();
    for row in rows {
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = (*widest).max(cell.width());
        }
    }
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let mut out = String::new();
    for row in std::iter::once(&head).chain(rows) {
        let last = row.len().saturating_sub(1);
        for (index, (cell, widest)) in row.iter().zip(&widths).enumerate() {
            out.push_str(cell);
            if index < last {
                let gap = widest.saturating_sub(cell.width()) + 2;
                out.extend(std::iter::repeat_n(' ', gap));
            }
        }
        out.push('\n');
    }
    out
}
