//! Bodies that differ from an example in one place.

use serde_json::{Map, Value, json};

use super::{Document, schema};

/// A name that nothing has.
pub(crate) const NOBODY: &str = "zz";

/// A place in an example, with the schema that it fits.
pub(crate) struct Place<'a> {
    /// As a JSON pointer.
    pub(crate) pointer: String,
    pub(crate) schema: &'a Value,
    pub(crate) value: &'a Value,
    /// The words that may stand there.
    pub(crate) own: Vec<&'a str>,
    /// Those, and the words that may stand there in other forms of what is around it.
    pub(crate) words: Vec<&'a str>,
}

/// Finds every place of an example.
pub(crate) fn places<'a>(
    document: &'a Document,
    schema: &'a Value,
    value: &'a Value,
) -> Vec<Place<'a>> {
    let mut found = Vec::new();
    let mut walk = Walk {
        document,
        found: &mut found,
    };
    walk.enter(schema, value, String::new(), Vec::new());
    found
}

struct Walk<'a, 'f> {
    document: &'a Document,
    found: &'f mut Vec<Place<'a>>,
}

impl<'a> Walk<'a, '_> {
    fn enter(&mut self, schema: &'a Value, value: &'a Value, pointer: String, words: Vec<&'a str>) {
        let all = self.branches(schema);
        let mut fitting = all.iter();
        let fits = |branch: &&&'a Value| schema::misfit(self.document, branch, value).is_none();
        let schema = fitting
            .find(fits)
            .unwrap_or_else(|| panic!("{pointer}: {value} fits nothing"));
        match value {
            Value::Object(map) => {
                for (name, inner) in map {
                    let words = self.words(&all, name);
                    let property = &schema["properties"][name];
                    let more = &schema["additionalProperties"];
                    let inside = if property.is_null() { more } else { property };
                    if inside.is_object() {
                        self.enter(inside, inner, format!("{pointer}/{name}"), words);
                    }
                }
            }
            Value::Array(list) => {
                for (n, inner) in list.iter().enumerate() {
                    if schema["items"].is_object() {
                        self.enter(
                            &schema["items"],
                            inner,
                            format!("{pointer}/{n}"),
                            Vec::new(),
                        );
                    }
                }
            }
            _ => {}
        }
        let own: Vec<_> = all.iter().flat_map(|branch| choices(branch)).collect();
        let words = words.into_iter().chain(own.iter().copied()).collect();
        self.found.push(Place {
            pointer,
            schema,
            value,
            own,
            words,
        });
    }

    /// Returns the forms that a value may have, one below the other.
    fn branches(&self, schema: &'a Value) -> Vec<&'a Value> {
        let schema = self.document.resolve(schema);
        match schema["oneOf"].as_array() {
            Some(all) => all.iter().flat_map(|one| self.branches(one)).collect(),
            None => vec![schema],
        }
    }

    /// Returns the words that a field may have in any of the forms.
    fn words(&self, forms: &[&'a Value], name: &str) -> Vec<&'a str> {
        let fields = forms.iter().map(|form| &form["properties"][name]);
        let fields = fields.filter(|field| !field.is_null());
        let fields = fields.flat_map(|field| self.branches(field));
        fields.flat_map(choices).collect()
    }
}

/// Returns the words that a schema names.
fn choices(schema: &Value) -> impl Iterator<Item = &str> {
    let all = schema["enum"].as_array().into_iter().flatten();
    all.chain(schema.get("const")).filter_map(Value::as_str)
}

/// Puts another value in a place.
pub(crate) fn with(body: &Value, pointer: &str, value: Value) -> Value {
    let mut body = body.clone();
    *body.pointer_mut(pointer).unwrap() = value;
    body
}

/// Returns bodies that differ in this place.
pub(crate) fn variants(body: &Value, place: &Place<'_>) -> Vec<Value> {
    let mut values = vec![
        Value::Null,
        json!(true),
        json!(-1),
        json!(7),
        json!(7.5),
        json!(""),
        json!(NOBODY),
        json!([]),
        json!([7]),
        json!({}),
    ];
    values.extend(at_bounds(place));
    if let Value::Object(map) = place.value {
        values.extend(map.keys().map(|name| {
            let mut less = map.clone();
            less.shift_remove(name);
            Value::Object(less)
        }));
    }
    let bodies = values
        .into_iter()
        .map(|value| with(body, &place.pointer, value));
    bodies.collect()
}

/// Returns values at the bounds of a place, and beyond them.
fn at_bounds(place: &Place<'_>) -> Vec<Value> {
    let bound = |name: &str| usize::try_from(place.schema[name].as_u64()?).ok();
    let mut values = Vec::new();
    if let Some(most) = bound("maxLength").filter(|_| place.value.is_string()) {
        values.extend([most, most + 1].map(|size| json!("x".repeat(size))));
    }
    for (name, beyond) in [("minimum", -1), ("maximum", 1)] {
        let bound = place.schema[name].as_i64();
        let beyond = bound.and_then(|bound| bound.checked_add(beyond));
        values.extend(bound.into_iter().chain(beyond).map(Value::from));
    }
    if let (Some(most), Some(list)) = (bound("maxItems"), place.value.as_array())
        && let Some(first) = list.first()
    {
        values.extend([most, most + 1].map(|size| vec![first.clone(); size].into()));
    }
    if let (Some(most), true) = (bound("maxProperties"), place.value.is_object()) {
        let pairs = |count: usize| (0..count).map(|n| (n.to_string(), json!("v")));
        let objects = [most, most + 1].map(|count| Value::Object(Map::from_iter(pairs(count))));
        values.extend(objects);
    }
    if let Some(longest) = place.schema["propertyNames"]["maxLength"].as_u64() {
        let name = |size: u64| "k".repeat(usize::try_from(size).unwrap());
        values.extend([
            json!({ name(longest): "v" }),
            json!({ name(longest + 1): "v" }),
        ]);
    }
    values
}
