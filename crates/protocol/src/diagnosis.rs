//! What a session waits for and what went wrong last: the nouns of `/outlast/v1/.../diagnosis`.
//!
//! Made for operators who may not see user data: ids, counts, times and kinds of errors, never a
//! word of a prompt, an input, an output, a file, a title or a name that a user gave. The types
//! have no field that could carry one; whatever is text here is written by the server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    Micros, Outcome,
    deadlines::NextDeadline,
    id::{EventId, FileId, IncarnationId, ProcessId, SessionId, ThreadId},
    session::Status,
};

/// A session from an operator's view.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename = "session_diagnosis")]
pub struct SessionDiagnosis {
    /// The session.
    pub session_id: SessionId,
    /// When this was found.
    pub at: Micros,
    /// What it does, as the session itself shows it.
    pub status: Status,
    /// Position of its last record.
    pub tail: u64,
    /// Time of its last record.
    pub last_record_at: Micros,
    /// In one sentence: who has to do what next.
    pub verdict: String,
    /// Whether nobody will, so that an operator has to.
    pub stuck: bool,
    /// Its threads, the primary first.
    pub threads: Vec<ThreadDiagnosis>,
    /// Its hand, once one was wanted.
    pub hand: Option<HandDiagnosis>,
    /// What has the hands and does not answer, if so.
    #[serde(default)]
    pub silent: Option<Silent>,
    /// What runs out next, if the session has a deadline that can.
    #[serde(default)]
    pub next_deadline: Option<NextDeadline>,
    /// The newest trouble of each part that had any, the newest first.
    pub troubles: Vec<Trouble>,
}

/// A thread from an operator's view.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ThreadDiagnosis {
    /// The thread.
    pub thread_id: ThreadId,
    /// What it does.
    pub status: Status,
    /// What it waits for.
    pub waits_for: WaitsFor,
    /// Since when, as far as the log says.
    pub since: Option<Micros>,
    /// The fence: raised by every claim.
    pub epoch: u64,
    /// Claims since the last progress.
    pub attempts: u32,
    /// Failures of the model since its last response.
    pub retries: u32,
    /// Inputs that wait.
    pub queued: usize,
    /// Interrupts that wait.
    pub interrupts: usize,
    /// The model request that is open.
    pub open_request: Option<EventId>,
    /// The calls of the last response.
    pub calls: Vec<CallDiagnosis>,
}

/// What a thread waits for.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WaitsFor {
    /// Nothing: it is over.
    Nothing,
    /// A client's next input; nothing is unfinished.
    Input,
    /// A client's answers to these calls.
    Answers {
        /// The calls' events.
        event_ids: Vec<EventId>,
    },
    /// The brain that works on it.
    Brain {
        /// The process that it runs in.
        process_id: ProcessId,
        /// What is known of that process.
        holder: Holder,
    },
    /// Any brain, as soon as one is free.
    AnyBrain,
    /// Any brain, from this moment on.
    Timer {
        /// The moment.
        at: Micros,
    },
    /// An operator, or a client's next input: no brain got on with it, and its turn was given up.
    Operator {
        /// Brains that came to nothing in a row.
        attempts: u32,
        /// When it was given up.
        parked_at: Micros,
    },
}

impl WaitsFor {
    /// Returns the word that metrics and tables use.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Input => "input",
            Self::Answers { .. } => "answers",
            Self::Brain { .. } => "brain",
            Self::AnyBrain => "any_brain",
            Self::Timer { .. } => "timer",
            Self::Operator { .. } => "operator",
        }
    }
}

/// Who holds a lease.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// A brain of the process that answers.
    Here,
    /// The process that answers, but no brain of it knows: taken up again within seconds.
    Forgotten,
    /// A process that lives, as far as the store knows.
    Elsewhere,
    /// A process that is dead: the thread is free.
    Dead,
}

/// A tool call from an operator's view.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CallDiagnosis {
    /// The event of the call.
    pub event_id: EventId,
    /// Where it stands.
    #[serde(flatten)]
    pub stands: CallStands,
    /// Who answers it: `hand` or `client`.
    pub route: String,
}

/// Where a call stands.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CallStands {
    /// A client is asked.
    Asked,
    /// It may run and was not handed over.
    Allowed,
    /// It was handed to this hand, which has not answered.
    Intended {
        /// The hand.
        hand: IncarnationId,
    },
    /// It is over.
    Settled {
        /// How it ended.
        outcome: Outcome,
    },
}

/// A hand from an operator's view.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct HandDiagnosis {
    /// Its newest life.
    pub incarnation: IncarnationId,
    /// Whether that life is over.
    pub lost: bool,
    /// Whether a call was handed to it.
    pub begun: bool,
    /// When the newest checkpoint of its workspace was taken that is not known to be unreadable.
    pub checkpoint_at: Option<Micros>,
    /// When the newest one was taken that was found to be unreadable, until there is another.
    pub unreadable_at: Option<Micros>,
    /// Files that are mounted and that the process which answers could not bring to it.
    #[serde(default)]
    pub missing_files: Vec<MissingFile>,
}

/// A mounted file that a hand lacks.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct MissingFile {
    /// The session's file.
    pub file_id: FileId,
    /// Why: `gone`, `unreachable`, `spoilt`, `disk_full`, `unsupported` or `refused`.
    pub kind: String,
}

/// A process that has hands and does not answer: calls wait for it, for a while.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Silent {
    /// Which, in words.
    pub who: String,
    /// Since when.
    pub since: Micros,
}

/// A store, or a place for files, that took nothing.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct StoreFailure {
    /// `disk_full` or `unavailable`.
    pub kind: String,
    /// When that was last so.
    pub at: Micros,
    /// Since when nothing could be written, if nothing was since then.
    pub since: Option<Micros>,
}

impl StoreFailure {
    /// The kind of a disk without room.
    pub const FULL: &str = "disk_full";

    /// Tells whether room is what is missing.
    pub fn is_full(&self) -> bool {
        self.kind == Self::FULL
    }
}

/// Something that went wrong.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Trouble {
    /// Where.
    pub part: Part,
    /// The kind: an error type of the API, an outcome of a call, or a word of the server.
    pub kind: String,
    /// When.
    pub at: Micros,
    /// The record that says so; absent for what stands in no log.
    pub position: Option<u64>,
}

/// A part that can fail by itself.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The store of the log.
    Log,
    /// The harness, and the process that it runs in.
    Brain,
    /// The model and the way to it.
    Model,
    /// The sandbox.
    Hand,
    /// An MCP server.
    Mcp,
    /// Whoever has to answer a call.
    Client,
}

/// A server from an operator's view.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename = "server_diagnosis")]
pub struct ServerDiagnosis {
    /// The version of the program.
    pub version: String,
    /// The process that answers.
    pub process_id: ProcessId,
    /// When this was found.
    pub at: Micros,
    /// Turns that may run at once.
    pub brains: usize,
    /// Turns that run.
    pub busy: usize,
    /// When the store failed last since the process began.
    pub store_failed_at: Option<Micros>,
    /// How it failed then, and whether it still does.
    #[serde(default)]
    pub store_failure: Option<StoreFailure>,
    /// Why no secret can be used, and what to do, if so.
    #[serde(default)]
    pub vault: Option<String>,
    /// Hands that this process knows to live.
    pub hands: usize,
    /// What has them and does not answer, if so.
    #[serde(default)]
    pub silent: Option<Silent>,
    /// Threads that are unfinished, by what they wait for.
    pub waiting: BTreeMap<String, usize>,
    /// The unfinished sessions that have waited longest, the stuck ones first; at most 100.
    pub sessions: Vec<Unfinished>,
}

/// An unfinished thread in the list of a server.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Unfinished {
    /// The session.
    pub session_id: SessionId,
    /// The thread.
    pub thread_id: ThreadId,
    /// What it does.
    pub status: Status,
    /// What it waits for.
    pub waits_for: WaitsFor,
    /// Time of the session's last record.
    pub last_record_at: Micros,
    /// Whether nobody will wake it.
    pub stuck: bool,
}

/// The newest records of a session, without their bodies.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename = "session_outline")]
pub struct SessionOutline {
    /// The session.
    pub session_id: SessionId,
    /// The records, the newest first.
    pub records: Vec<RecordOutline>,
}

/// A record without its body.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct RecordOutline {
    /// Its place.
    pub position: u64,
    /// When it was appended.
    pub at: Micros,
    /// The number of its thread.
    pub thread: u32,
    /// Its kind: the type of an event, or a private one.
    pub kind: String,
    /// The event that it is of.
    pub event_id: Option<EventId>,
    /// Bytes of its body.
    pub bytes: usize,
}

/// What came of a wish to wake a session.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "type", rename = "session_wake")]
pub struct SessionWake {
    /// The session.
    pub session_id: SessionId,
    /// Its threads, the primary first.
    pub threads: Vec<ThreadWake>,
}

/// What came of it for one thread.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ThreadWake {
    /// The thread.
    pub thread_id: ThreadId,
    /// Whether a brain was started by this request.
    pub woken: bool,
    /// What it waits for now.
    pub waits_for: WaitsFor,
}
