//! Placeholders in scripted texts.

use super::scene::Scene;

/// What a placeholder stands in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    /// Plain text.
    Text,
    /// A string within JSON, so quotes and line ends are escaped.
    Json,
}

/// Replaces every placeholder that is known; what is not stays as it stands.
pub(super) fn fill(template: &str, turn: usize, scene: &Scene<'_>, form: Form) -> String {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        let known = after.split_once("}}").and_then(|(name, tail)| {
            let value = value(name.trim(), turn, scene)?;
            Some((value, tail))
        });
        match known {
            Some((value, tail)) => {
                filled.push_str(&match form {
                    Form::Text => value,
                    Form::Json => escape(&value),
                });
                rest = tail;
            }
            None => {
                filled.push_str("{{");
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled
}

fn value(name: &str, turn: usize, scene: &Scene<'_>) -> Option<String> {
    let results = &scene.results;
    Some(match name {
        "results" => results.join("\n"),
        "user" => scene.user.clone(),
        "system" => scene.request.system.clone(),
        "model" => scene.request.model.clone(),
        "messages" => scene.request.messages.len().to_string(),
        "tools" => scene.request.tools.join(", "),
        "n" => turn.to_string(),
        _ => {
            let index: usize = name.strip_prefix("results.")?.parse().ok()?;
            results.get(index).cloned().unwrap_or_default()
        }
    })
}

fn escape(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let inner = quoted
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    inner.unwrap_or_default().to_owned()
}
