//! Which hosts a hand may name.

use outlast_protocol::environment::Networking;
use outlast_reach::{Host, Pattern};

use super::{answer::Answer, managers::Managers};

/// What a hand may name, as its environment says.
#[derive(Clone, Debug)]
pub(crate) enum Policy {
    /// Every host.
    Unrestricted,
    /// What some list names.
    Limited(Box<Limited>),
}

#[derive(Clone, Debug)]
pub(crate) struct Limited {
    hosts: Vec<Pattern>,
    managers: Managers,
    /// Whether those count.
    may_manage: bool,
    mcp: Vec<Pattern>,
    /// Whether those count.
    may_mcp: bool,
}

/// What allowed a host.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Rule {
    /// Nothing is refused by name.
    Unrestricted,
    /// `allowed_hosts`.
    AllowedHosts,
    /// `allow_package_managers`.
    PackageManagers,
    /// `allow_mcp_servers`.
    McpServers,
}

impl Rule {
    /// Returns what logs and figures call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unrestricted => "unrestricted",
            Self::AllowedHosts => "allowed_hosts",
            Self::PackageManagers => "allow_package_managers",
            Self::McpServers => "allow_mcp_servers",
        }
    }
}

impl Policy {
    pub(crate) fn new(networking: &Networking, mcp_hosts: &[String], managers: &Managers) -> Self {
        match networking {
            Networking::Unrestricted => Self::Unrestricted,
            Networking::Limited {
                allowed_hosts,
                allow_mcp_servers,
                allow_package_managers,
            } => Self::Limited(Box::new(Limited {
                hosts: patterns(allowed_hosts),
                managers: managers.clone(),
                may_manage: *allow_package_managers,
                mcp: patterns(mcp_hosts),
                may_mcp: *allow_mcp_servers,
            })),
        }
    }

    /// Tells whether names are limited.
    pub(crate) fn is_limited(&self) -> bool {
        matches!(self, Self::Limited(_))
    }

    /// Tells whether some host of a pattern is allowed.
    pub(crate) fn meets(&self, pattern: &Pattern) -> bool {
        match self {
            Self::Unrestricted => true,
            Self::Limited(limited) => limited.meets(pattern),
        }
    }

    /// Says what allows a host.
    ///
    /// # Errors
    ///
    /// The answer for whoever named it: what to change so that it is allowed.
    pub(crate) fn decide(&self, host: &Host) -> Result<Rule, Answer> {
        match self {
            Self::Unrestricted => Ok(Rule::Unrestricted),
            Self::Limited(limited) => limited.decide(host),
        }
    }
}

impl Limited {
    fn meets(&self, pattern: &Pattern) -> bool {
        let meet = |patterns: &[Pattern]| patterns.iter().any(|own| own.meets(pattern));
        meet(&self.hosts)
            || self.may_manage && self.managers.meet(pattern)
            || self.may_mcp && meet(&self.mcp)
    }

    fn decide(&self, host: &Host) -> Result<Rule, Answer> {
        let named = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(host));
        let (manager, mcp) = (self.managers.has(host), named(&self.mcp));
        if named(&self.hosts) {
            Ok(Rule::AllowedHosts)
        } else if manager && self.may_manage {
            Ok(Rule::PackageManagers)
        } else if mcp && self.may_mcp {
            Ok(Rule::McpServers)
        } else {
            Err(refusal(host, manager, mcp))
        }
    }
}

/// Says what would have to be changed.
fn refusal(host: &Host, manager: bool, mcp: bool) -> Answer {
    let or = match (manager, mcp) {
        (true, _) => ", or set `allow_package_managers`: it is a package registry's",
        (false, true) => ", or set `allow_mcp_servers`: it is an MCP server's of the agent",
        (false, false) => "",
    };
    Answer::forbidden(
        "allowed_hosts",
        format!(
            "host `{host}` is refused: the environment's networking is `limited` and does not allow \
             it; add `{host}` to its `allowed_hosts`{or}"
        ),
    )
}

/// Reads patterns; one that was stored and cannot be read allows nothing.
fn patterns(texts: &[String]) -> Vec<Pattern> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(hosts: &[&str], managers: bool, mcp: bool) -> Policy {
        let networking = Networking::Limited {
            allowed_hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            allow_mcp_servers: mcp,
            allow_package_managers: managers,
        };
        let mcp_hosts = ["mcp.example".to_owned()];
        Policy::new(&networking, &mcp_hosts, &Managers::default())
    }

    fn decide(policy: &Policy, host: &str) -> Result<Rule, String> {
        let decided = policy.decide(&host.parse().unwrap());
        decided.map_err(|answer| answer.words().to_owned())
    }

    #[test]
    fn each_list_allows_what_it_names_if_it_counts() {
        let all = limited(&["a.example", "*.b.example"], true, true);
        for (host, rule) in [
            ("A.example.", Rule::AllowedHosts),
            ("x.b.example", Rule::AllowedHosts),
            ("pypi.org", Rule::PackageManagers),
            ("files.pythonhosted.org", Rule::PackageManagers),
            ("mcp.example", Rule::McpServers),
        ] {
            assert_eq!(decide(&all, host), Ok(rule), "{host}");
        }
        for host in [
            "b.example",
            "a.example.evil.example",
            "evilpypi.org",
            "8.8.8.8",
        ] {
            assert!(decide(&all, host).is_err(), "{host}");
        }
        assert_eq!(
            decide(&Policy::Unrestricted, "evil.example"),
            Ok(Rule::Unrestricted)
        );
    }

    #[test]
    fn a_pattern_is_of_use_where_one_of_its_hosts_is_allowed() {
        let meets = |policy: &Policy, pattern: &str| policy.meets(&pattern.parse().unwrap());
        let all = limited(&["a.example", "*.b.example"], true, true);
        for pattern in [
            "a.example",
            "*.example",
            "x.b.example",
            "pypi.org",
            "mcp.example",
        ] {
            assert!(meets(&all, pattern), "{pattern}");
            assert!(meets(&Policy::Unrestricted, pattern), "{pattern}");
        }
        for pattern in ["b.example", "*.a.example", "8.8.8.8"] {
            assert!(!meets(&all, pattern), "{pattern}");
        }
        let none = limited(&["a.example"], false, false);
        assert!(!meets(&none, "pypi.org") && !meets(&none, "mcp.example"));
    }

    #[test]
    fn limited_with_nothing_set_reaches_nothing_and_says_what_to_change() {
        let none = limited(&[], false, false);
        let words = |host| decide(&none, host).unwrap_err();
        assert_eq!(
            words("evil.example"),
            "host `evil.example` is refused: the environment's networking is `limited` and does not \
             allow it; add `evil.example` to its `allowed_hosts`"
        );
        assert!(words("pypi.org").ends_with(
            "`allowed_hosts`, or set `allow_package_managers`: it is a package registry's"
        ));
        assert!(words("mcp.example").ends_with(
            "`allowed_hosts`, or set `allow_mcp_servers`: it is an MCP server's of the agent"
        ));
    }
}
