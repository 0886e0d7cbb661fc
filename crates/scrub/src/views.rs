//! The same bytes as whoever decodes them reads them.

mod escapes;
mod lines;

use super::Found;

/// Bytes as they are read by whoever decodes them.
///
/// Where they came from is only worked out once something was found in them: it takes longer.
pub(super) struct View {
    bytes: Vec<u8>,
    /// How they were decoded.
    step: Step,
    /// How that was decoded before.
    before: Option<Step>,
}

#[derive(Clone, Copy)]
enum Step {
    Percent,
    Json,
    /// The first line began so many digits before.
    Lines(usize),
}

/// Takes what was decoded.
trait Sink {
    /// Bytes that stand for themselves, from a place on.
    fn run(&mut self, bytes: &[u8], at: usize);

    /// Bytes that something else at a place stands for.
    fn instead(&mut self, bytes: &[u8], at: usize);
}

/// The bytes.
impl Sink for Vec<u8> {
    fn run(&mut self, bytes: &[u8], _at: usize) {
        self.extend_from_slice(bytes);
    }

    fn instead(&mut self, bytes: &[u8], _at: usize) {
        self.extend(bytes);
    }
}

/// Where each byte came from.
struct Starts(Vec<usize>);

impl Sink for Starts {
    fn run(&mut self, bytes: &[u8], at: usize) {
        self.0.extend(at..at + bytes.len());
    }

    fn instead(&mut self, bytes: &[u8], at: usize) {
        self.0.extend(bytes.iter().map(|_| at));
    }
}

/// Returns the most bytes that one occurrence of a secret of that length can be long in the original.
pub(super) fn reach(longest: usize) -> usize {
    // Hex is two for one, in lines with an end that may be escaped itself.
    let lines = longest * 2 + (longest * 2 / lines::SHORTEST + 1) * 2 * escapes::WIDEST;
    lines.max(longest * escapes::WIDEST) + 1
}

/// How many bytes before those that are looked at tell how a line began.
pub(super) const BEFORE: usize = lines::SHORTEST * escapes::WIDEST;

/// Returns the views that can show what the bytes themselves do not; `earlier` is what came before them.
pub(super) fn of(bytes: &[u8], earlier: &[u8]) -> Vec<View> {
    let lines = |earlier: &[u8]| Step::Lines(lines::run_before(earlier));
    let mut views: Vec<View> = View::new(bytes, lines(earlier), None).into_iter().collect();
    for step in [Step::Percent, Step::Json] {
        if let Some(view) = View::new(bytes, step, None) {
            let decoded = View::new(earlier, step, None);
            let earlier = decoded.as_ref().map_or(earlier, View::bytes);
            views.extend(View::new(&view.bytes, lines(earlier), Some(step)));
            views.push(view);
        }
    }
    views
}

/// Moves an end back to where it parts no escape.
pub(super) fn unparted(bytes: &[u8], end: usize) -> usize {
    let end = escapes::unparted(bytes, end, b'%', escapes::percent);
    let end = escapes::unparted(bytes, end, b'\\', escapes::json);
    // Two backslashes are one, so of a row of them the first and the second are not parted.
    let before = bytes.get(..end).unwrap_or_default();
    let row = before.iter().rev().take_while(|byte| **byte == b'\\');
    end - row.count() % 2
}

impl View {
    /// Decodes; `None` if nothing is encoded so.
    fn new(bytes: &[u8], step: Step, before: Option<Step>) -> Option<Self> {
        // Nothing is longer decoded; room that is not used costs nothing.
        let mut view = Vec::with_capacity(bytes.len() + 1);
        let any = step.read(bytes, &mut view);
        any.then_some(Self {
            bytes: view,
            step,
            before,
        })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns what was found in it as what stands in the original.
    pub(super) fn origins(&self, original: &[u8], found: Vec<Found>) -> Vec<Found> {
        if found.is_empty() {
            return found;
        }
        let (own, below) = self.starts(original);
        let start = |index: usize| own.get(index).copied().unwrap_or_default();
        // What was skipped behind a byte of a line, such as the end of that line, stays.
        let end = |index: usize| match self.step {
            Step::Lines(_) => start(index.saturating_sub(1)) + 1,
            Step::Percent | Step::Json => start(index),
        };
        let origin = |at: usize| match &below {
            Some(below) => below.get(at).copied().unwrap_or_default(),
            None => at,
        };
        let origins = |(range, secret): Found| {
            let (start, end) = (start(range.start), end(range.end));
            (origin(start)..origin(end), secret)
        };
        found.into_iter().map(origins).collect()
    }

    /// Returns where each byte begins in what it was decoded from, and one more at the end; and the same of
    /// that, if it was decoded itself.
    fn starts(&self, original: &[u8]) -> (Vec<usize>, Option<Vec<usize>>) {
        let Some(before) = self.before else {
            return (self.step.starts(original), None);
        };
        let mut middle = Vec::new();
        before.read(original, &mut middle);
        (self.step.starts(&middle), Some(before.starts(original)))
    }
}

impl Step {
    /// Decodes; tells whether anything is encoded so.
    fn read(self, bytes: &[u8], sink: &mut impl Sink) -> bool {
        match self {
            Self::Percent => escapes::read(bytes, b'%', escapes::percent, sink),
            Self::Json => escapes::read(bytes, b'\\', escapes::json, sink),
            Self::Lines(before) => lines::read(bytes, before, sink),
        }
    }

    fn starts(self, bytes: &[u8]) -> Vec<usize> {
        let mut starts = Starts(Vec::new());
        self.read(bytes, &mut starts);
        starts.0.push(bytes.len());
        starts.0
    }
}
