//! The document, and which operation of it a request is.

use std::sync::OnceLock;

use http::Method;
use outlast_api::DOCUMENT;
use serde_json::Value;

use super::schema;
use crate::bench::Reply;

/// The document.
pub(crate) struct Document(Value);

/// One of its operations.
#[derive(Clone, Copy)]
pub(crate) struct Operation<'a> {
    pub(crate) path: &'a str,
    pub(crate) method: &'a str,
    pub(crate) item: &'a Value,
    pub(crate) of: &'a Value,
}

impl Document {
    /// Reads it, once.
    pub(crate) fn get() -> &'static Self {
        static READ: OnceLock<Document> = OnceLock::new();
        READ.get_or_init(|| Self(serde_json::from_str(DOCUMENT).unwrap()))
    }

    /// Returns all of it.
    pub(crate) fn whole(&self) -> &Value {
        &self.0
    }

    /// Returns what a reference leads to; any other value itself.
    pub(crate) fn resolve<'a>(&'a self, mut value: &'a Value) -> &'a Value {
        while let Some(name) = value["$ref"].as_str() {
            let found = self.0.pointer(name.strip_prefix('#').unwrap());
            value = found.unwrap_or_else(|| panic!("{name} leads nowhere"));
        }
        value
    }

    /// Returns every operation.
    pub(crate) fn operations(&self) -> Vec<Operation<'_>> {
        let mut all = Vec::new();
        for (path, item) in self.0["paths"].as_object().unwrap() {
            for (method, of) in item.as_object().unwrap() {
                if method != "parameters" {
                    all.push(Operation {
                        path,
                        method,
                        item,
                        of,
                    });
                }
            }
        }
        all
    }

    /// Returns the operation that a request asks for; words win over parameters.
    pub(crate) fn operation(&self, method: &Method, path: &str) -> Option<Operation<'_>> {
        let fits = |operation: &Operation<'_>| {
            let (asked, told) = (path.split('/'), operation.path.split('/'));
            asked.clone().count() == told.clone().count()
                && asked
                    .zip(told)
                    .all(|(asked, told)| told.starts_with('{') || asked == told)
        };
        let found = self.operations().into_iter().filter(fits);
        let found = found.filter(|one| one.method == method.as_str().to_lowercase());
        found.min_by_key(|one| one.path.matches('{').count())
    }

    /// Says what of an answer the document does not know.
    pub(crate) fn misfit(&self, method: &Method, path: &str, reply: &Reply) -> Option<String> {
        let status = reply.status.as_u16();
        let Some(operation) = self.operation(method, path) else {
            let unknown = method == Method::HEAD || matches!(status, 400..=499 | 503 | 529);
            return (!unknown).then(|| format!("{status}, and no such operation"));
        };
        let answers = &operation.of["responses"];
        let Some(answer) = answers.get(status.to_string()) else {
            return Some(format!("{status} is no answer of it: {}", reply.text));
        };
        let answer = self.resolve(answer);
        let kind = reply.headers["content-type"].to_str().unwrap();
        let Some(content) = answer["content"].get(kind) else {
            let any = answer["content"].get("*/*").is_some();
            return (!any).then(|| format!("{status}: {kind} is no type of it"));
        };
        let value = serde_json::from_str(&reply.text).unwrap();
        let misfit = schema::misfit(self, &content["schema"], &value);
        misfit.map(|words| format!("{status}: {words}: {}", reply.text))
    }
}

impl Document {
    /// Says what of a body that is posted the document does not know.
    pub(crate) fn misfit_of_body(&self, path: &str, body: &Value) -> Option<String> {
        let path = path.split('?').next().unwrap();
        let operation = self.operation(&Method::POST, path).unwrap();
        let (schema, _) = operation.body().unwrap();
        schema::misfit(self, schema, body)
    }
}

impl<'a> Operation<'a> {
    /// Returns the schema and the examples of its body, if it takes JSON.
    pub(crate) fn body(&self) -> Option<(&'a Value, Vec<(&'a str, &'a Value)>)> {
        let content = self.of["requestBody"]["content"].get("application/json")?;
        let examples = content["examples"].as_object().into_iter().flatten();
        let examples = examples.map(|(name, example)| (name.as_str(), &example["value"]));
        Some((&content["schema"], examples.collect()))
    }

    /// Returns what it takes beside its body.
    pub(crate) fn parameters(&self, document: &'a Document) -> Vec<&'a Value> {
        let all = [&self.item["parameters"], &self.of["parameters"]];
        let all = all.into_iter().filter_map(Value::as_array).flatten();
        all.map(|one| document.resolve(one)).collect()
    }
}
