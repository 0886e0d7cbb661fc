//! What two logs of one scene must have in common.
//!
//! A process that dies leaves marks, and these alone may differ:
//!
//! * ids and times; they are told by the order in which they first appear, and not at all. So are the
//!   ids of tools that the model used, which follow from all that it was told, and the positions that
//!   a record names.
//! * **Recovery records**, which may be there in any number: `x.claimed` and `x.released` (another
//!   brain took over), the three records of a model request that was made again
//!   (`span.model_request_start`, `x.request_ended`, `span.model_request_end`), `x.hand_wanted`,
//!   `x.hand_lost` and `x.intended` (another hand took a call over), `x.cloned` (another brain or hand
//!   tried a repository), `x.resource_updated` (a client sent a token again), `x.noted` (a harness that
//!   is not ours notes again what it has forgotten).
//! * **What follows the clock**: `x.checkpointed`, `session.usage` with what requests cost, and
//!   `x.arrived.agent.tool_result`, since a result that is early in one run is in its turn in another;
//!   the order in which calls that run side by side are settled.
//! * How a call ended that its hand or an interrupt took away: the words say what was seen of it.
//! * That a call ran in a new sandbox, where the one before ended between two calls.

use std::collections::BTreeMap;

use outlast_session::{Kind, Record};
use regex::Regex;

/// Records of which a death may leave more, or fewer.
const RECOVERY: [Kind; 14] = [
    Kind::Claimed,
    Kind::Released,
    Kind::RequestStart,
    Kind::RequestEnded,
    Kind::RequestEnd,
    Kind::HandWanted,
    Kind::HandLost,
    Kind::Intended,
    Kind::Cloned,
    Kind::ResourceUpdated,
    Kind::Noted,
    Kind::Checkpointed,
    Kind::SessionUsage,
    Kind::ArrivedToolResult,
];

/// A log without what a death may change: what clients saw in order, and the rest of each kind.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Told {
    pub(crate) public: Vec<String>,
    pub(crate) private: BTreeMap<String, Vec<String>>,
}

impl Told {
    /// Panics with the first line that differs of each part that does.
    pub(crate) fn assert_same(&self, other: &Self) {
        let mut kinds: Vec<_> = self.private.keys().chain(other.private.keys()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let of = |told: &Self, kind| told.private.get(kind).cloned().unwrap_or_default();
        let private = kinds.into_iter().map(|kind| {
            let first = first(&of(self, kind), &of(other, kind))?;
            Some(format!("{kind} {first}"))
        });
        let differ = [first(&self.public, &other.public)].into_iter();
        let differ: Vec<_> = differ.chain(private).flatten().collect();
        assert!(differ.is_empty(), "{}", differ.join("\n"));
    }
}

/// Tells of the first line that differs.
fn first(before: &[String], after: &[String]) -> Option<String> {
    let many = before.len().max(after.len());
    let at = (0..many).find(|at| before.get(*at) != after.get(*at))?;
    let line = |lines: &[String]| lines.get(at).map_or("nothing", String::as_str).to_owned();
    let (before, after) = (line(before), line(after));
    Some(format!("line {at}:\n  before: {before}\n  after:  {after}"))
}

/// Returns what is compared of a log.
pub(crate) fn told(log: &[Record]) -> Told {
    let mut masks = Masks::new();
    let (mut public, mut private) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
    for record in log.iter().filter(|record| !RECOVERY.contains(&record.kind)) {
        let text = masks.mask(record.body.text());
        let name = record.event.map(|event| masks.name(&event.to_string()));
        let line = format!("{} {text}", name.unwrap_or_default());
        if record.kind.is_public() {
            public.push(format!("{} {line}", record.kind));
        } else {
            private
                .entry(record.kind.to_string())
                .or_default()
                .push(line);
        }
    }
    if let Some(settled) = private.get_mut(Kind::Settled.text()) {
        settled.sort_unstable();
    }
    Told { public, private }
}

/// Puts names in place of ids, and leaves out times and words that depend on what was seen.
struct Masks {
    id: Regex,
    time: Regex,
    position: Regex,
    lost: Regex,
    stopped: Regex,
    fresh: [Regex; 2],
    names: BTreeMap<String, String>,
}

impl Masks {
    fn new() -> Self {
        let regex = |text: &str| Regex::new(text).unwrap();
        Self {
            id: regex("[a-z]+_01[0-9A-Za-z]{22}|toolu_scripted_[0-9a-f]+_[0-9]+"),
            time: regex(r"\d{4}-\d\d-\d\dT[0-9:.]+Z"),
            position: regex(r#""position":\d+"#),
            lost: regex(r"while this call was running \([^)]*\)"),
            stopped: regex("(the call was stopped|execution was interrupted [^\"]*)"),
            // A block of its own, and what the model said again of it.
            fresh: [
                regex(
                    r#",\{"type":"text","text":"\[This call ran in a new sandbox with [^\]]*\]"\}"#,
                ),
                regex(r"(\\n| )?\[This call ran in a new sandbox with [^\]]*\]"),
            ],
            names: BTreeMap::new(),
        }
    }

    fn name(&mut self, id: &str) -> String {
        let next = self.names.len();
        let name = self.names.entry(id.to_owned());
        name.or_insert_with(|| format!("id-{next}")).clone()
    }

    fn mask(&mut self, text: &str) -> String {
        let text = self.time.replace_all(text, "TIME");
        let text = self.position.replace_all(&text, "\"position\":AT");
        let text = self.lost.replace_all(&text, "while this call was running");
        let text = self.stopped.replace_all(&text, "stopped").into_owned();
        let blank = |text: String, fresh: &Regex| fresh.replace_all(&text, "").into_owned();
        let text = self.fresh.iter().fold(text, blank);
        let ids: Vec<_> = self
            .id
            .find_iter(&text)
            .map(|id| id.as_str().to_owned())
            .collect();
        ids.iter().fold(text, |text, id| {
            let name = self.name(id);
            text.replace(id, &name)
        })
    }
}
