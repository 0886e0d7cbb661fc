//! Whether a value fits a schema, for those words of JSON Schema that the document uses.

use outlast_protocol::Micros;
use regex::Regex;
use serde_json::{Map, Value};

use super::Document;

/// What a schema may say; another word would be passed over without a word.
const KNOWN: [&str; 22] = [
    "$ref",
    "additionalProperties",
    "const",
    "contentMediaType",
    "default",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "oneOf",
    "pattern",
    "properties",
    "propertyNames",
    "required",
    "type",
];

/// Says where a value does not fit, and why.
pub(crate) fn misfit(document: &Document, schema: &Value, value: &Value) -> Option<String> {
    let checker = Checker { document };
    checker.check(schema, value, "").err()
}

struct Checker<'a> {
    document: &'a Document,
}

impl Checker<'_> {
    fn check(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let schema = self.document.resolve(schema);
        let rules = schema.as_object().unwrap();
        if let Some(word) = rules.keys().find(|word| !KNOWN.contains(&word.as_str())) {
            panic!("`{word}` is no word of a schema that is known here");
        }
        if let Some(branches) = schema["oneOf"].as_array() {
            self.one(branches, value, at)?;
        }
        kind(schema, value).map_err(|what| format!("{at}: {what}"))?;
        let bounded = match value {
            Value::String(text) => string(schema, text),
            Value::Number(number) => bounds(schema, number.as_f64(), "minimum", "maximum"),
            Value::Array(list) => bounds(schema, Some(list.len() as f64), "minItems", "maxItems"),
            Value::Object(map) => bounds(schema, Some(map.len() as f64), "", "maxProperties"),
            Value::Null | Value::Bool(_) => Ok(()),
        };
        bounded.map_err(|what| format!("{at}: {what}"))?;
        match value {
            Value::Array(list) if schema.get("items").is_some() => {
                let mut items = list.iter().enumerate();
                items.try_for_each(|(n, item)| {
                    self.check(&schema["items"], item, &format!("{at}.{n}"))
                })
            }
            Value::Object(map) => self.object(schema, map, at),
            _ => Ok(()),
        }
    }

    fn one(&self, branches: &[Value], value: &Value, at: &str) -> Result<(), String> {
        let tried = branches.iter().map(|branch| self.check(branch, value, at));
        let tried: Vec<_> = tried.collect();
        match tried.iter().filter(|one| one.is_ok()).count() {
            1 => Ok(()),
            0 => {
                // The one that got furthest says most.
                let words = tried.into_iter().filter_map(Result::err);
                Err(words
                    .max_by_key(|words| words.matches('.').count())
                    .unwrap())
            }
            many => Err(format!("{at}: fits {many} of the schemas, not one")),
        }
    }

    fn object(&self, schema: &Value, map: &Map<String, Value>, at: &str) -> Result<(), String> {
        for name in schema["required"].as_array().into_iter().flatten() {
            if !map.contains_key(name.as_str().unwrap()) {
                return Err(format!("{at}.{name}: is missing"));
            }
        }
        for (name, value) in map {
            let at = format!("{at}.{name}");
            if let Some(names) = schema.get("propertyNames") {
                string(names, name).map_err(|what| format!("{at}: {what}"))?;
            }
            match schema["properties"].get(name) {
                Some(property) => self.check(property, value, &at)?,
                None => match &schema["additionalProperties"] {
                    Value::Bool(false) => return Err(format!("{at}: is not known")),
                    Value::Object(_) => self.check(&schema["additionalProperties"], value, &at)?,
                    _ => {}
                },
            }
        }
        Ok(())
    }
}

/// Checks type and set of values.
fn kind(schema: &Value, value: &Value) -> Result<(), String> {
    if schema.get("const").is_some_and(|only| only != value) {
        return Err(format!("is {value}, not {}", schema["const"]));
    }
    if schema["enum"]
        .as_array()
        .is_some_and(|all| !all.contains(value))
    {
        return Err(format!("is {value}, none of {}", schema["enum"]));
    }
    let fits = |kind: &str| match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("`{other}` is no type"),
    };
    let good = match &schema["type"] {
        Value::Null => true,
        Value::String(kind) => fits(kind),
        kinds => kinds
            .as_array()
            .unwrap()
            .iter()
            .any(|kind| fits(kind.as_str().unwrap())),
    };
    if good {
        return Ok(());
    }
    Err(format!("{value} is no {}", schema["type"]))
}

fn string(schema: &Value, text: &str) -> Result<(), String> {
    bounds(
        schema,
        Some(text.chars().count() as f64),
        "minLength",
        "maxLength",
    )?;
    if let Some(pattern) = schema["pattern"].as_str()
        && !Regex::new(pattern).unwrap().is_match(text)
    {
        return Err(format!("`{text}` is no {pattern}"));
    }
    match schema["format"].as_str() {
        Some("date-time") if Micros::parse(text).is_none() => Err(format!("`{text}` is no time")),
        Some("date-time") | None => Ok(()),
        Some(other) => panic!("`{other}` is no format that is known here"),
    }
}

fn bounds(schema: &Value, size: Option<f64>, least: &str, most: &str) -> Result<(), String> {
    let size = size.unwrap();
    let (least, most) = (schema[least].as_f64(), schema[most].as_f64());
    if least.is_some_and(|least| size < least) || most.is_some_and(|most| size > most) {
        return Err(format!("{size} is out of bounds: {least:?} to {most:?}"));
    }
    Ok(())
}

#[test]
fn a_checker_that_lets_everything_pass_would_be_found_out() {
    let document = Document::get();
    let fits = |schema: &str, value: Value| {
        let schema = &document.whole()["components"]["schemas"][schema];
        misfit(document, schema, &value).is_none()
    };
    let vault = serde_json::json!({ "display_name": "v", "metadata": { "k": "v" } });
    assert!(fits("CreateVault", vault.clone()));
    for (pointer, wrong) in [
        ("/display_name", Value::Null),
        ("/display_name", "".into()),
        ("/display_name", "x".repeat(256).into()),
        ("/metadata", 7.into()),
        ("/metadata/k", 7.into()),
    ] {
        let mut body = vault.clone();
        *body.pointer_mut(pointer).unwrap() = wrong;
        assert!(!fits("CreateVault", body.clone()), "{body}");
    }
    assert!(!fits("CreateVault", serde_json::json!({})));
    assert!(!fits(
        "CreateVault",
        serde_json::json!({ "display_name": "v", "more": 1 })
    ));
}
