//! Settings of the web tools: validated and stored; nothing here runs them yet.

use serde::{Deserialize, Serialize};

use super::{
    domain::{self, Paths},
    policy::Builtin,
    url_sources::UrlSources,
};
use crate::read::{At, Object, Slot};
use crate::{Problem, limits};

/// What only one of the built-in tools has.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Settings {
    /// Of `web_fetch`.
    Fetch(FetchSettings),
    /// Of `web_search`.
    Search(SearchSettings),
    /// The other tools have none.
    None {},
}

/// Settings of `web_fetch`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FetchSettings {
    /// The only domains to fetch from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_domains: Option<Vec<String>>,
    /// Domains never to fetch from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_domains: Option<Vec<String>>,
    /// Most tokens of text per call.
    pub max_content_tokens: Option<i64>,
    /// Which sources give addresses to fetch.
    pub url_sources: Option<UrlSources>,
}

/// Settings of `web_search`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SearchSettings {
    /// The only domains to show hits of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_domains: Option<Vec<String>>,
    /// Domains never to show hits of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_domains: Option<Vec<String>>,
    /// Where the user is, roughly.
    pub user_location: Option<UserLocation>,
}

/// Where a user is, roughly.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "type", rename = "approximate")]
pub struct UserLocation {
    /// The city.
    pub city: Option<String>,
    /// The country, as ISO 3166-1 alpha-2 in capitals.
    pub country: Option<String>,
    /// The region or state.
    pub region: Option<String>,
    /// The time zone, as IANA names it.
    pub timezone: Option<String>,
}

impl Settings {
    pub(super) fn parse(tool: Builtin, object: &mut Object<'_>) -> Result<Self, Problem> {
        match tool {
            Builtin::WebFetch => {
                let (allowed_domains, blocked_domains) = domains(object, Paths::Refused)?;
                let tokens = object.field("max_content_tokens").optional();
                let sources = object.field("url_sources").optional();
                Ok(Self::Fetch(FetchSettings {
                    allowed_domains,
                    blocked_domains,
                    max_content_tokens: tokens.map(|at| at.int(1..=i64::MAX)).transpose()?,
                    url_sources: sources.map(|at| UrlSources::parse(&at)).transpose()?,
                }))
            }
            Builtin::WebSearch => {
                let (allowed_domains, blocked_domains) = domains(object, Paths::Allowed)?;
                let location = object.field("user_location").optional();
                Ok(Self::Search(SearchSettings {
                    allowed_domains,
                    blocked_domains,
                    user_location: location.map(|at| UserLocation::parse(&at)).transpose()?,
                }))
            }
            Builtin::Bash
            | Builtin::Read
            | Builtin::Write
            | Builtin::Edit
            | Builtin::Glob
            | Builtin::Grep => Ok(Self::None {}),
        }
    }
}

type Domains = Option<Vec<String>>;

fn domains(object: &mut Object<'_>, paths: Paths) -> Result<(Domains, Domains), Problem> {
    let allowed = object.field("allowed_domains").optional();
    let blocked = object.field("blocked_domains").optional();
    if let (Some(_), Some(at)) = (&allowed, &blocked) {
        return Err(at.refuse("must not be combined with `allowed_domains`; send one of the two"));
    }
    let list = |at: Option<At<'_>>| at.map(|at| domain::list(&at, paths)).transpose();
    Ok((list(allowed)?, list(blocked)?))
}

impl UserLocation {
    fn parse(at: &At<'_>) -> Result<Self, Problem> {
        let mut object = at.object()?;
        object
            .field("type")
            .required()?
            .word(&[("approximate", ())])?;
        let location = Self {
            city: place(object.field("city"))?,
            region: place(object.field("region"))?,
            country: checked(
                object.field("country"),
                is_country,
                "must be a country as two capital letters (ISO 3166-1 alpha-2)",
            )?,
            timezone: checked(
                object.field("timezone"),
                is_timezone,
                "must be an IANA time zone such as `America/Los_Angeles`",
            )?,
        };
        object.finish()?;
        Ok(location)
    }
}

fn place(slot: Slot<'_>) -> Result<Option<String>, Problem> {
    slot.optional()
        .map(|at| at.text(1..=limits::LOCATION).map(str::to_owned))
        .transpose()
}

fn checked(
    slot: Slot<'_>,
    is_good: fn(&str) -> bool,
    otherwise: &str,
) -> Result<Option<String>, Problem> {
    let Some(at) = slot.optional() else {
        return Ok(None);
    };
    let text = at.text(1..=limits::LOCATION)?;
    if is_good(text) {
        Ok(Some(text.to_owned()))
    } else {
        Err(at.refuse(otherwise))
    }
}

/// The countries and territories of ISO 3166-1, in pairs of letters.
const COUNTRIES: &str = "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ \
    BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE \
    DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR \
    GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP \
    KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT \
    MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW \
    PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG \
    TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW";

fn is_country(text: &str) -> bool {
    text.len() == 2 && COUNTRIES.split_ascii_whitespace().any(|code| code == text)
}

/// Checks the form of a zone's name; whether such a zone exists is for the search backend to say.
fn is_timezone(text: &str) -> bool {
    let parts: Vec<&str> = text.split('/').collect();
    let is_part = |part: &&str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic())
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_+-".contains(&byte))
    };
    let is_short = || matches!(text, "UTC" | "GMT");
    (parts.len() >= 2 || is_short()) && parts.len() <= 3 && parts.iter().all(is_part)
}
