//! A diagnosis for a person at 3 a.m.: the verdict first, then what it stands on.

use std::time::Duration;

use outlast_protocol::{
    Micros,
    deadlines::{Deadline, NextDeadline},
    diagnosis::{
        CallDiagnosis, CallStands, HandDiagnosis, MissingFile, Part, ServerDiagnosis,
        SessionDiagnosis, ThreadDiagnosis, Trouble, Unfinished,
    },
};

use crate::cli::{table::table, words::seconds};

/// How long ago a disk may have been full that still wants an operator.
const RECENT: Duration = Duration::from_secs(600);

/// Writes what is known of a session.
pub(super) fn session(found: &SessionDiagnosis) -> String {
    let mut lines = vec![
        format!("session   {} {}", found.session_id, found.status.as_str()),
        format!("verdict   {}", found.verdict),
        format!(
            "log       {} records, the last one {} ago",
            found.tail,
            ago(found.at, found.last_record_at)
        ),
    ];
    for thread in &found.threads {
        lines.push(self::thread(found.at, thread));
        lines.extend(thread.calls.iter().map(call));
    }
    lines.extend(found.next_deadline.map(|next| deadline(found.at, next)));
    if let Some(hand) = &found.hand {
        lines.push(self::hand(found.at, hand));
        let missing = |file: &MissingFile| format!("missing   {}: {}", file.file_id, file.kind);
        lines.extend(hand.missing_files.iter().map(missing));
    }
    lines.extend(found.troubles.iter().map(|one| trouble(found.at, one)));
    if found.troubles.is_empty() {
        lines.push("troubles  none on record".to_owned());
    }
    lines.join("\n") + "\n"
}

fn thread(now: Micros, thread: &ThreadDiagnosis) -> String {
    let since = thread
        .since
        .map(|at| format!(" for {}", ago(now, at)))
        .unwrap_or_default();
    format!(
        "thread    {} {}, waits for {}{since}; epoch {}, attempts {}, retries {}, queued {}",
        thread.thread_id,
        thread.status.as_str(),
        thread.waits_for.word(),
        thread.epoch,
        thread.attempts,
        thread.retries,
        thread.queued + thread.interrupts,
    )
}

fn deadline(now: Micros, next: NextDeadline) -> String {
    let words = match next.deadline {
        Deadline::Total => "the session is terminated",
        Deadline::Answer => "the calls that wait for an answer are denied",
        Deadline::Idle => "the session is archived",
    };
    let word = next.deadline.word();
    format!("deadline  {word}: {words} in {}", ago(next.at, now))
}

fn call(call: &CallDiagnosis) -> String {
    let stands = match call.stands {
        CallStands::Asked => "asks a client".to_owned(),
        CallStands::Allowed => "may run, was not handed over".to_owned(),
        CallStands::Intended { hand } => format!("was handed to {hand}, no answer yet"),
        CallStands::Settled { outcome } => format!("is over: {}", word(&outcome)),
    };
    format!("call      {} {stands}", call.event_id)
}

fn hand(now: Micros, hand: &HandDiagnosis) -> String {
    let life = match (hand.lost, hand.begun) {
        (true, _) => "lost",
        (false, true) => "begun",
        (false, false) => "wanted, not begun",
    };
    let checkpoint = match hand.checkpoint_at {
        Some(at) => format!("checkpoint {} old", ago(now, at)),
        None => "no checkpoint".to_owned(),
    };
    let unreadable = hand.unreadable_at;
    let unreadable = unreadable.map(|at| format!(", one of {} ago cannot be read", ago(now, at)));
    let unreadable = unreadable.unwrap_or_default();
    format!(
        "hand      {} {life}, {checkpoint}{unreadable}",
        hand.incarnation
    )
}

fn trouble(now: Micros, trouble: &Trouble) -> String {
    let part = match trouble.part {
        Part::Log => "log",
        Part::Brain => "brain",
        Part::Model => "model",
        Part::Hand => "hand",
        Part::Mcp => "mcp",
        Part::Client => "client",
    };
    let record = trouble
        .position
        .map(|position| format!(", record {position}"))
        .unwrap_or_default();
    format!(
        "trouble   {part}: {} {} ago{record}",
        trouble.kind,
        ago(now, trouble.at)
    )
}

fn store(found: &ServerDiagnosis) -> String {
    let Some(at) = found.store_failed_at else {
        return "no failure since the process began".to_owned();
    };
    let (mut kind, mut still) = (String::new(), String::new());
    if let Some(failure) = &found.store_failure {
        kind = format!(", {}", failure.kind);
        if let Some(since) = failure.since {
            still = format!("; nothing could be written for {}", ago(found.at, since));
        }
        // Small writes may still find room where others do not.
        let recent = found.at.since(failure.at) < RECENT;
        if failure.is_full() && (failure.since.is_some() || recent) {
            still.push_str("; make room on the disk of the data directory, or of the database");
        }
    }
    format!("failed {} ago{kind}{still}", ago(found.at, at))
}

/// Writes what is known of a server.
pub(super) fn server(found: &ServerDiagnosis) -> String {
    let store = store(found);
    let silent = found.silent.iter();
    let silent: String = silent
        .map(|silent| {
            let lasts = ago(found.at, silent.since);
            format!(", but {} has not answered for {lasts}", silent.who)
        })
        .collect();
    let waiting: Vec<_> = found
        .waiting
        .iter()
        .map(|(word, count)| format!("{count} for {word}"))
        .collect();
    let mut text = format!(
        "server    outlast {}, process {}\nbrains    {} of {} at work\nlog       {store}\n\
         hands     {} live{silent}\nthreads   {}\n",
        found.version,
        found.process_id,
        found.busy,
        found.brains,
        found.hands,
        if waiting.is_empty() {
            "all at rest".to_owned()
        } else {
            format!("unfinished, waiting: {}", waiting.join(", "))
        },
    );
    if let Some(why) = &found.vault {
        text.push_str(&format!("vault     no secret can be used: {why}\n"));
    }
    if !found.sessions.is_empty() {
        let rows: Vec<_> = found
            .sessions
            .iter()
            .map(|one| row(found.at, one))
            .collect();
        text.push('\n');
        let head = ["SESSION", "STATUS", "WAITS FOR", "QUIET FOR", "STUCK"];
        text.push_str(&table(&head, &rows));
    }
    text
}

fn row(now: Micros, one: &Unfinished) -> Vec<String> {
    vec![
        one.session_id.to_string(),
        one.status.as_str().to_owned(),
        one.waits_for.word().to_owned(),
        ago(now, one.last_record_at),
        if one.stuck { "STUCK" } else { "" }.to_owned(),
    ]
}

fn ago(now: Micros, at: Micros) -> String {
    seconds(now.since(at).as_secs_f64())
}

fn word(outcome: &outlast_protocol::Outcome) -> String {
    format!("{outcome:?}").to_lowercase()
}
