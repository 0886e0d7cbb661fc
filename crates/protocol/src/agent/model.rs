//! The model of an agent: what a client may ask for, and what it comes to.

use serde::{Deserialize, Serialize};

use crate::facts::{ModelFacts, Models};
use crate::read::{At, excerpt, or};
use crate::words::words;
use crate::{Problem, limits};

/// A model with every setting resolved.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Model {
    /// The model's id.
    pub id: String,
    /// How hard it works.
    pub effort: Effort,
    /// The region its requests are pinned to; absent where they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inference_geo: Option<Geo>,
    /// How fast it runs.
    pub speed: Speed,
}

words! {
    /// How hard a model works on each request.
    #[serde(tag = "type")]
    pub enum Effort {
        /// Least.
        Low = "low",
        /// Some.
        Medium = "medium",
        /// Much.
        High = "high",
        /// More.
        Xhigh = "xhigh",
        /// All.
        Max = "max",
    }
}

impl Effort {
    /// Reads a bare word or `{"type": word}`.
    fn parse(at: &At<'_>) -> Result<Self, Problem> {
        if !at.raw().is_object() {
            return at.word(Self::TABLE);
        }
        let mut object = at.object()?;
        let effort = object.field("type").required()?.word(Self::TABLE)?;
        object.finish()?;
        Ok(effort)
    }
}

words! {
    /// Where a model's requests run.
    pub enum Geo {
        /// The United States.
        Us = "us",
        /// Anywhere.
        Global = "global",
    }
}

words! {
    /// How fast a model runs.
    #[derive(Default)]
    pub enum Speed {
        /// As usual.
        #[default]
        Standard = "standard",
        /// Faster output at a higher price.
        Fast = "fast",
    }
}

/// A model as a client asks for it, in either form.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ModelRequest {
    path: String,
    id: String,
    effort: Option<Effort>,
    inference_geo: Option<Geo>,
    speed: Speed,
}

impl ModelRequest {
    /// Reads a model id or an object.
    pub fn parse(at: &At<'_>) -> Result<Self, Problem> {
        let mut request = Self {
            path: at.path().to_owned(),
            id: String::new(),
            effort: None,
            inference_geo: None,
            speed: Speed::Standard,
        };
        if at.raw().is_string() {
            request.id = id(at)?;
            return Ok(request);
        }
        if !at.raw().is_object() {
            return Err(at.refuse("must be a model id or an object with an `id`"));
        }
        let mut object = at.object()?;
        request.id = id(&object.field("id").required()?)?;
        request.effort = object.field("effort").read(Effort::parse)?;
        let geo = object.field("inference_geo");
        request.inference_geo = geo.read(|at| at.word(Geo::TABLE))?;
        let speed = object.field("speed").read(|at| at.word(Speed::TABLE))?;
        request.speed = speed.unwrap_or_default();
        object.finish()?;
        Ok(request)
    }

    /// Resolves the model of a new agent: an effort that was left out is the model's own.
    pub fn resolve(&self, models: &dyn Models) -> Result<Model, Problem> {
        let facts = self.check(models)?;
        Ok(self.with_effort(self.effort.unwrap_or(facts.default_effort)))
    }

    /// Resolves the model of an update: the same id keeps the stored effort if none is sent.
    pub fn resolve_over(&self, stored: &Model, models: &dyn Models) -> Result<Model, Problem> {
        if self.effort.is_none() && self.id == stored.id {
            self.check(models)?;
            return Ok(self.with_effort(stored.effort));
        }
        self.resolve(models)
    }

    /// Resolves the override of a session: an effort is checked, but the model's own applies.
    pub fn resolve_override(&self, models: &dyn Models) -> Result<Model, Problem> {
        let facts = self.check(models)?;
        Ok(self.with_effort(facts.default_effort))
    }

    fn with_effort(&self, effort: Effort) -> Model {
        Model {
            id: self.id.clone(),
            effort,
            inference_geo: self.inference_geo,
            speed: self.speed,
        }
    }

    /// Checks the settings against what the model can do.
    fn check(&self, models: &dyn Models) -> Result<ModelFacts, Problem> {
        let shown = excerpt(&self.id);
        let refuse = |field: &str, what: String| {
            Err(Problem::invalid(format!("{}{field}: {what}", self.path)))
        };
        let Some(facts) = models.facts(&self.id) else {
            return refuse("", format!("no configured model backend takes `{shown}`"));
        };
        if let Some(effort) = self.effort
            // The default passes always: a client may send back what it read.
            && effort != facts.default_effort
            && !facts.efforts.contains(&effort)
        {
            let mut allowed = facts.efforts.clone();
            if allowed.is_empty() {
                allowed.push(facts.default_effort);
            }
            let allowed = or(allowed.iter().map(|effort| effort.as_str()));
            return refuse(".effort", format!("must be {allowed} for `{shown}`"));
        }
        if self.inference_geo.is_some() && !facts.supports_inference_geo {
            return refuse(
                ".inference_geo",
                format!("`{shown}` cannot be pinned to a region; leave it out"),
            );
        }
        if self.speed == Speed::Fast && !facts.supports_speed {
            return refuse(
                ".speed",
                format!("`{shown}` has no fast mode; must be `standard`"),
            );
        }
        Ok(facts)
    }
}

fn id(at: &At<'_>) -> Result<String, Problem> {
    at.string(1..=limits::MODEL_ID)
}
