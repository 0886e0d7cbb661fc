//! The principal that runs of an agent carry: stored and shown, not acted on.

use serde::{Deserialize, Serialize};

use crate::read::At;
use crate::words::words;
use crate::{Problem, limits};

/// Who runs of an agent act as.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ExecutionIdentity {
    /// The server itself.
    #[default]
    ServiceAccount,
    /// A role of AWS.
    AwsRole {
        /// Its name.
        role_arn: String,
    },
}

words! {
    /// The kinds.
    enum Kind {
        ServiceAccount = "service_account",
        AwsRole = "aws_role",
    }
}

impl ExecutionIdentity {
    pub(super) fn parse(at: &At<'_>) -> Result<Self, Problem> {
        let mut object = at.object()?;
        let identity = match object.field("type").required()?.word(Kind::TABLE)? {
            Kind::ServiceAccount => Self::ServiceAccount,
            Kind::AwsRole => Self::AwsRole {
                role_arn: object
                    .field("role_arn")
                    .required()?
                    .text(1..=limits::ROLE_ARN)?
                    .to_owned(),
            },
        };
        object.finish()?;
        Ok(identity)
    }
}
