//! Query strings, read parameter by parameter so that each refusal names its parameter.
//!
//! Arrays may be written with or without brackets (`types[]=a&types[]=b`, `types=a&types=b`);
//! brackets may be percent-encoded. `beta` is ignored. Everything that no one asked for is
//! refused by [`Query::finish`].

use crate::read::{excerpt, or};
use crate::words::words;
use crate::{Micros, Problem, limits};

/// The parameters of one request.
#[derive(Clone, Debug)]
pub struct Query {
    pairs: Vec<(String, String)>,
    known: Vec<String>,
}

words! {
    /// Which way a list runs.
    pub enum Order {
        /// Oldest first.
        Asc = "asc",
        /// Newest first.
        Desc = "desc",
    }
}

/// A span of time, open where a bound is missing.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TimeRange {
    /// After this.
    pub gt: Option<Micros>,
    /// At or after this.
    pub gte: Option<Micros>,
    /// Before this.
    pub lt: Option<Micros>,
    /// At or before this.
    pub lte: Option<Micros>,
}

impl TimeRange {
    /// Tells whether a moment lies in it.
    pub fn contains(&self, at: Micros) -> bool {
        self.gt.is_none_or(|bound| at > bound)
            && self.gte.is_none_or(|bound| at >= bound)
            && self.lt.is_none_or(|bound| at < bound)
            && self.lte.is_none_or(|bound| at <= bound)
    }
}

impl Query {
    /// Splits and decodes a query string, without its `?`.
    pub fn parse(raw: &str) -> Result<Self, Problem> {
        let pairs: Vec<(String, String)> = form_urlencoded::parse(raw.as_bytes())
            .into_owned()
            .filter(|(name, _)| !name.is_empty())
            .collect();
        match pairs
            .iter()
            .find(|(name, value)| format!("{name}{value}").contains('\0'))
        {
            Some((name, _)) => Err(Problem::invalid(format!(
                "{}: must not contain the character U+0000",
                excerpt(name)
            ))),
            None => Ok(Self {
                pairs,
                known: vec!["beta".to_owned()],
            }),
        }
    }

    /// Takes a parameter that may be there once.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        self.known.push(name.to_owned());
        let mut values = self
            .pairs
            .iter()
            .filter(|(other, _)| other == name)
            .map(|(_, value)| value);
        match (values.next(), values.next()) {
            (first, None) => Ok(first.cloned()),
            (_, Some(_)) => Err(refuse(name, "must be given at most once")),
        }
    }

    /// Takes an array of at most `max` values, with or without brackets.
    pub fn list(&mut self, name: &str, max: usize) -> Result<Vec<String>, Problem> {
        let bracketed = format!("{name}[]");
        let values: Vec<String> = self
            .pairs
            .iter()
            .filter(|(other, _)| other == name || *other == bracketed)
            .map(|(_, value)| value.clone())
            .collect();
        self.known.extend([bracketed, name.to_owned()]);
        if values.len() > max {
            return Err(refuse(
                name,
                format_args!("must have at most {max} values, not {}", values.len()),
            ));
        }
        Ok(values)
    }

    /// Takes an array of words.
    pub fn words<T: Copy>(
        &mut self,
        name: &str,
        max: usize,
        table: &[(&str, T)],
    ) -> Result<Vec<T>, Problem> {
        let values = self.list(name, max)?;
        values
            .iter()
            .map(|value| word(name, value, table))
            .collect()
    }

    /// Takes one word.
    pub fn word<T: Copy>(&mut self, name: &str, table: &[(&str, T)]) -> Result<Option<T>, Problem> {
        let value = self.text(name)?;
        value.map(|value| word(name, &value, table)).transpose()
    }

    /// Takes `true` or `false`; absent is `false`.
    pub fn flag(&mut self, name: &str) -> Result<bool, Problem> {
        let flag = self.word(name, &[("true", true), ("false", false)])?;
        Ok(flag.unwrap_or(false))
    }

    /// Takes a whole number within bounds.
    pub fn int(&mut self, name: &str, min: u32, max: u32) -> Result<Option<u32>, Problem> {
        let Some(value) = self.text(name)? else {
            return Ok(None);
        };
        // Rust reads a leading plus sign, the wire has none.
        let number = value.parse().ok().filter(|_| !value.starts_with('+'));
        match number {
            Some(number) if (min..=max).contains(&number) => Ok(Some(number)),
            Some(_) | None => Err(refuse(
                name,
                format_args!(
                    "must be an integer from {min} to {max}, not `{}`",
                    excerpt(&value)
                ),
            )),
        }
    }

    /// Takes `limit`.
    pub fn limit(&mut self, default: u32, max: u32) -> Result<u32, Problem> {
        Ok(self.int("limit", 1, max)?.unwrap_or(default))
    }

    /// Takes `page`, the text of a cursor; [`crate::page::decode`] reads it.
    pub fn page(&mut self) -> Result<Option<String>, Problem> {
        let page = self.text("page")?;
        match page {
            Some(page) if page.len() > limits::CURSOR => Err(refuse(
                "page",
                format_args!("must have at most {} characters", limits::CURSOR),
            )),
            Some(_) | None => Ok(page),
        }
    }

    /// Takes `order`.
    pub fn order(&mut self, default: Order) -> Result<Order, Problem> {
        let order = self.word("order", Order::TABLE)?;
        Ok(order.unwrap_or(default))
    }

    /// Takes a moment.
    pub fn time(&mut self, name: &str) -> Result<Option<Micros>, Problem> {
        let Some(value) = self.text(name)? else {
            return Ok(None);
        };
        // A plus sign that was not encoded arrives as a space.
        let moment = Micros::parse(&value.replace(' ', "+"));
        moment.map(Some).ok_or_else(|| {
            refuse(
                name,
                format_args!(
                    "must be an RFC 3339 time such as `2026-01-31T12:00:00Z`, not `{}`",
                    excerpt(&value)
                ),
            )
        })
    }

    /// Takes `name[gt]`, `name[gte]`, `name[lt]` and `name[lte]`.
    pub fn range(&mut self, name: &str) -> Result<TimeRange, Problem> {
        Ok(TimeRange {
            gt: self.time(&format!("{name}[gt]"))?,
            gte: self.time(&format!("{name}[gte]"))?,
            lt: self.time(&format!("{name}[lt]"))?,
            lte: self.time(&format!("{name}[lte]"))?,
        })
    }

    /// Refuses parameters that were never taken, by name.
    pub fn finish(self) -> Result<(), Problem> {
        let unknown = self
            .pairs
            .iter()
            .find(|(name, _)| !self.known.contains(name));
        let Some((name, _)) = unknown else {
            return Ok(());
        };
        let known = self.known.iter().map(String::as_str);
        let known = or(known.filter(|name| *name != "beta" && !name.ends_with("[]")));
        let allowed = match known.as_str() {
            "none" => "this endpoint takes none".to_owned(),
            known => format!("allowed: {known}"),
        };
        Err(refuse(
            &excerpt(name),
            format_args!("unknown query parameter; {allowed}"),
        ))
    }
}

fn refuse(name: &str, what: impl std::fmt::Display) -> Problem {
    Problem::invalid(format!("{name}: {what}"))
}

fn word<T: Copy>(name: &str, value: &str, table: &[(&str, T)]) -> Result<T, Problem> {
    table
        .iter()
        .find_map(|(word, meaning)| (*word == value).then_some(*meaning))
        .ok_or_else(|| {
            let allowed = or(table.iter().map(|(word, _)| *word));
            refuse(
                name,
                format_args!("must be {allowed}, not `{}`", excerpt(value)),
            )
        })
}

#[cfg(test)]
mod tests;
