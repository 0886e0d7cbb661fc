//! Settings of the web tools: validated and stored; nothing here runs them yet.

use serde::{Deserialize, Serialize};

use super::{
    domain::{self, Paths},
    policy::Builtin,
    url_sources::UrlSources,
};
use crate::read::{At, Object};
use crate::{Problem, limits};

/// What only the web tools have; all absent for the others.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct WebSettings {
    /// The only domains to fetch from or to show hits of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_domains: Option<Vec<String>>,
    /// Domains never to fetch from or to show hits of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked_domains: Option<Vec<String>>,
    /// Of `web_fetch`: most tokens of text per call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_content_tokens: Option<i64>,
    /// Of `web_fetch`, where it is null if unset: which sources give addresses to fetch.
    #[serde(
        deserialize_with = "crate::read::there",
        skip_serializing_if = "Option::is_none"
    )]
    pub url_sources: Option<Option<UrlSources>>,
    /// Of `web_search`: where the user is, roughly.
    #[serde(skip_serializing_if = "Option::is_none")]
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

impl WebSettings {
    pub(super) fn parse(tool: Builtin, object: &mut Object<'_>) -> Result<Self, Problem> {
        let mut settings = Self::default();
        if !tool.is_web() {
            return Ok(settings);
        }
        let is_fetch = tool == Builtin::WebFetch;
        let paths = if is_fetch {
            Paths::Refused
        } else {
            Paths::Allowed
        };
        (settings.allowed_domains, settings.blocked_domains) = domains(object, paths)?;
        if is_fetch {
            let tokens = object.field("max_content_tokens");
            settings.max_content_tokens = tokens.read(|at| at.int(1..=i64::MAX))?;
            settings.url_sources = Some(object.field("url_sources").read(UrlSources::parse)?);
        } else {
            settings.user_location = object.field("user_location").read(UserLocation::parse)?;
        }
        Ok(settings)
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
            city: object.field("city").read(place)?,
            region: object.field("region").read(place)?,
            country: object.field("country").read(country)?,
            timezone: object.field("timezone").read(timezone)?,
        };
        object.finish()?;
        Ok(location)
    }
}

fn place(at: &At<'_>) -> Result<String, Problem> {
    at.string(1..=limits::LOCATION)
}

fn country(at: &At<'_>) -> Result<String, Problem> {
    let text = at.any_text()?;
    if text.len() == 2 && COUNTRIES.split_ascii_whitespace().any(|code| code == text) {
        return Ok(text.to_owned());
    }
    Err(at.refuse("must be a country as two capital letters (ISO 3166-1 alpha-2)"))
}

fn timezone(at: &At<'_>) -> Result<String, Problem> {
    let text = at.text(1..=limits::LOCATION)?;
    if is_timezone(text) {
        return Ok(text.to_owned());
    }
    Err(at.refuse("must be an IANA time zone such as `America/Los_Angeles`"))
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
