//! The terminal: results on standard output, everything else on standard error.

use std::{
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

use super::{
    failure::{Exit, Failure},
    words::clean,
};
use crate::telemetry;

/// How often the sign of life moves.
const TICK: Duration = Duration::from_millis(120);

/// What a piece of text is, so that colours are chosen in one place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Tone {
    /// As the rest.
    Plain,
    /// Beside the point.
    Dim,
    /// What is being done.
    Action,
    /// What went wrong.
    Wrong,
}

/// Where a command writes.
#[derive(Debug)]
pub(crate) struct Console {
    colours: bool,
    shows_life: bool,
    asks: bool,
    /// Whether standard output stands in the middle of a line.
    midline: bool,
    life: Option<(String, ProgressBar)>,
}

impl Console {
    pub(crate) fn of_process() -> Self {
        let terminal = io::stderr().is_terminal();
        let asks = terminal && io::stdin().is_terminal();
        let colours = terminal && telemetry::colours();
        Self {
            colours,
            shows_life: terminal,
            asks,
            midline: false,
            life: None,
        }
    }

    /// Tells whether there is a person to ask.
    pub(crate) fn asks(&self) -> bool {
        self.asks
    }

    /// Writes to standard output as it is.
    pub(crate) fn write(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.quiet();
        self.midline = !text.ends_with('\n');
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Writes a line to standard output.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        self.write(&format!("{text}\n"))
    }

    /// Ends the line that standard output stands in.
    pub(crate) fn end_line(&mut self) -> io::Result<()> {
        if self.midline {
            self.write("\n")
        } else {
            Ok(())
        }
    }

    /// Writes a line for people to standard error; what others made is cleaned before.
    pub(crate) fn note(&mut self, tone: Tone, text: &str) -> io::Result<()> {
        self.end_line()?;
        self.quiet();
        let text = self.paint(tone, &clean(text));
        writeln!(io::stderr().lock(), "{text}")
    }

    /// Asks for a yes, unless it was given beforehand; `what` is what would be done.
    pub(super) fn confirm(&mut self, yes: bool, what: &str, question: &str) -> Result<(), Failure> {
        if yes {
            return Ok(());
        }
        if !self.asks() {
            let words = format!("{what}, and there is nobody to ask");
            return Err(Failure::say(Exit::Usage, words).hint("say --yes"));
        }
        self.ask(&format!("{question} [y/N]"))?;
        let mut line = String::new();
        io::stdin().read_line(&mut line)?;
        if matches!(line.trim().to_lowercase().as_str(), "y" | "yes") {
            return Ok(());
        }
        Err(Failure::say(Exit::Failed, "nothing was done"))
    }

    /// Puts a question to the terminal, without ending the line.
    pub(crate) fn ask(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        self.quiet();
        let text = self.paint(Tone::Action, &clean(text));
        let mut err = io::stderr().lock();
        write!(err, "{text} ")?;
        err.flush()
    }

    /// Shows that something is waited for, where a line is free.
    pub(crate) fn wait(&mut self, what: &str) {
        if !self.shows_life || self.midline {
            return;
        }
        if self.life.as_ref().is_some_and(|(shown, _)| shown == what) {
            return;
        }
        self.quiet();
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style.tick_chars("|/-\\ "));
        }
        bar.set_message(clean(what));
        bar.enable_steady_tick(TICK);
        self.life = Some((what.to_owned(), bar));
    }

    /// Takes the sign of life away.
    pub(crate) fn quiet(&mut self) {
        if let Some((_, bar)) = self.life.take() {
            bar.finish_and_clear();
        }
    }

    /// Says why a command came to nothing, and returns what the process returns.
    pub(crate) fn report(&mut self, failure: &Failure) -> ExitCode {
        if failure.is_broken_pipe() {
            return Exit::Done.into();
        }
        // If standard error is gone too there is nobody left to tell.
        drop(self.note(Tone::Wrong, &format!("error: {}", failure.words())));
        if let Some(hint) = &failure.hint {
            drop(self.note(Tone::Plain, &format!("hint: {hint}")));
        }
        failure.exit.into()
    }

    fn paint(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Dim => "2",
            Tone::Action => "36",
            Tone::Wrong => "31",
        };
        if self.colours {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.quiet();
    }
}
