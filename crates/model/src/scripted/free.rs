//! What the model does where no script tells it.

use serde_json::json;

use super::scene::Scene;
use super::script::{CallSpec, Step};

/// The most characters of a tool's output that are repeated.
const REPEATED: usize = 4_000;

/// The most characters of the user's text that are repeated.
const QUOTED: usize = 200;

/// What a first message without a script makes it run.
const LOOK_AROUND: &str = "uname -a; pwd; ls -la";

const WHO: &str = "I am Outlast's scripted model: no intelligence, only scripts. I answer when no \
    model is configured, or when the model id `scripted` is chosen.";

const HOW: &str = "To use a real model, set OUTLAST_UPSTREAM_API_KEY (and OUTLAST_UPSTREAM_BASE_URL \
    for an upstream of your own) where the server runs, and name a model, for example \
    `outlast run --model MODEL \"task\"`. To have me run a command, send `run: COMMAND`. The script \
    language is in docs/scripted-model.md.";

/// Returns what follows when a script is over and nobody has said anything new.
pub(super) fn over() -> Step {
    Step::say("The script is over.")
}

/// Returns the next step for a text without a script.
pub(super) fn step(scene: &Scene<'_>, answered: usize, is_first: bool) -> Step {
    let has_bash = scene.request.tools.iter().any(|name| name == "bash");
    let command = scene.user.trim().strip_prefix("run:").map(str::trim);
    match (command, answered) {
        (Some(""), _) => Step::say("There is no command after `run:`."),
        (Some(_), 0) if !has_bash => {
            Step::say("I cannot run that: this session offers no tool called `bash`.")
        }
        (Some(command), 0) => call("I run it.", command),
        (Some(_), _) => Step::say(format!("It printed:\n\n{}", output(scene))),
        (None, 0) if is_first && has_bash => {
            let text = format!("{WHO} So that you see a whole session, I look around once.");
            call(&text, LOOK_AROUND)
        }
        (None, 0) => Step::say(format!("{WHO} You wrote: \"{}\"\n\n{HOW}", quote(scene))),
        (None, _) => Step::say(format!(
            "This is where the command ran:\n\n{}\n\nYou wrote: \"{}\"\n\n{HOW}",
            output(scene),
            quote(scene)
        )),
    }
}

fn call(text: &str, command: &str) -> Step {
    let mut step = Step::say(text);
    let input = serde_json::value::to_raw_value(&json!({ "command": command })).ok();
    step.calls.push(CallSpec {
        name: "bash".to_owned(),
        input,
        ..CallSpec::default()
    });
    step
}

fn output(scene: &Scene<'_>) -> String {
    let results = scene.results.join("\n");
    if results.trim().is_empty() {
        "(nothing)".to_owned()
    } else {
        cut(&results, REPEATED)
    }
}

fn quote(scene: &Scene<'_>) -> String {
    cut(scene.user.trim(), QUOTED)
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
