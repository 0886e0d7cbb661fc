//! Which parts of a server run in a process.

use nix::unistd::User;
use outlast_egress::apart::Peer;

use super::{Config, Impossible};

/// The parts, in the order in which they are named.
pub(super) const PARTS: [&str; 4] = ["api", "brain", "hand", "egress"];

/// The key, for what is said of it.
const KEY: &str = "server.roles";

/// Which parts of a server run in a process: the ways to part them that there are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Roles {
    /// All in one.
    All,
    /// All but the egress, which is in a process of another user.
    BesideEgress(Peer),
    /// The egress alone, for a server of another user.
    Egress(Peer),
}

impl Config {
    /// Returns which parts this process has.
    ///
    /// # Errors
    ///
    /// If they cannot be parted so, or if a setting belongs to the other process.
    pub fn roles(&self) -> Result<Roles, Impossible> {
        let named = self.server.roles.iter().map(|role| role.trim());
        let named: Vec<&str> = named.collect();
        if let Some(unknown) = named.iter().find(|role| !PARTS.contains(role)) {
            let words = format!("`{unknown}` is no role; there are {}", PARTS.join(", "));
            return Err(Impossible::new(KEY, words));
        }
        let has = |part: &str| named.contains(&part);
        match PARTS.map(has) {
            [true, true, true, true] => Ok(Roles::All),
            [true, true, true, false] => self.beside(),
            [false, false, false, true] => self.egress_alone(),
            _ => {
                let words = format!(
                    "`{}` cannot be parted from the rest: what is built is all in one process \
                     (`api,brain,hand,egress`), and the egress in one of its own (`api,brain,hand` and \
                     `egress`), on the same machine",
                    named.join(",")
                );
                Err(Impossible::new(KEY, words))
            }
        }
    }

    fn beside(&self) -> Result<Roles, Impossible> {
        let fallback = self.upstream.fallback.as_ref();
        let variables = fallback.map(|fallback| fallback.variables.join(" and "));
        let elsewhere = |key, is_set: bool, words: &str| match is_set {
            true => Err(Impossible::new(key, words)),
            false => Ok(()),
        };
        let key = match &variables {
            Some(variables) => format!(
                "is the egress process's, and this one has {variables} in its environment: unset it here"
            ),
            None => "is the egress process's: set it there, and not here".to_owned(),
        };
        let vault = &self.vault;
        let master = vault.master_key.is_some()
            || vault.master_key_file.is_some()
            || vault.master_key_command.is_some();
        let there = "is the egress process's: set it there, and not here";
        elsewhere("upstream.api_key", self.upstream.api_key.is_some(), &key)?;
        elsewhere("upstream.base_url", self.upstream.base_url.is_some(), &key)?;
        elsewhere("vault", master, there)?;
        let most =
            "is the egress process's but for `socket` and `peer`: set the rest there, and not here";
        elsewhere("egress", !self.egress.is_bare(), most)?;
        Ok(Roles::BesideEgress(self.peer()?))
    }

    fn egress_alone(&self) -> Result<Roles, Impossible> {
        let blobs = &self.blobs;
        let has_blobs = blobs.url.is_some() || blobs.secret_access_key.is_some();
        for (key, is_set, words) in [
            (
                "database.url",
                self.database.url.is_some(),
                "has no database",
            ),
            ("blobs", has_blobs, "has no blobs"),
            (
                "server.api_key",
                self.server.api_key.is_some(),
                "has no clients",
            ),
        ] {
            if is_set {
                let words = format!("is the server's: the egress process {words}");
                return Err(Impossible::new(key, words));
            }
        }
        Ok(Roles::Egress(self.peer()?))
    }

    fn peer(&self) -> Result<Peer, Impossible> {
        let socket = self.egress.socket.clone().ok_or_else(|| {
            let words = "must name the socket where the server and its egress process meet, the same for \
                         both, such as /run/outlast-egress/egress.sock";
            Impossible::new("egress.socket", words)
        })?;
        if !socket.is_absolute() || socket.as_os_str().len() > LONGEST {
            let words = format!("must be an absolute path of at most {LONGEST} bytes");
            return Err(Impossible::new("egress.socket", words));
        }
        let name = self.egress.peer.as_deref().ok_or_else(|| {
            let words = "must name the user of the process at the other end, by name or number";
            Impossible::new("egress.peer", words)
        })?;
        let user = user(name)?;
        Ok(Peer { socket, user })
    }
}

/// The longest path of a socket, with that of the second one beside it.
const LONGEST: usize = 99;

/// Finds a user by name or number.
fn user(name: &str) -> Result<u32, Impossible> {
    let wrong = |words: String| Impossible::new("egress.peer", words);
    match name.parse() {
        Ok(u32::MAX) => return Err(wrong(format!("{name} is no user"))),
        Ok(number) => return Ok(number),
        Err(_) => {}
    }
    match User::from_name(name) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err(wrong(format!("there is no user `{name}` on this machine"))),
        Err(error) => Err(wrong(format!("user `{name}` cannot be looked up: {error}"))),
    }
}

impl Roles {
    /// Refuses to start what would not be parted: two processes of one user can read each other.
    ///
    /// # Errors
    ///
    /// If the other process is to run as the user of this one, or there is none and a socket is set.
    pub fn look(&self, config: &Config) -> Result<(), Impossible> {
        let peer = match self {
            Self::BesideEgress(peer) | Self::Egress(peer) => peer,
            Self::All if config.egress.socket.is_some() => {
                let words = "is for an egress in a process of its own: set `server.roles` too";
                return Err(Impossible::new("egress.socket", words));
            }
            Self::All => return Ok(()),
        };
        let own = rustix::process::geteuid().as_raw();
        if peer.user == own {
            let words = format!(
                "is user {own}, and so is this process: processes of one user can read each other's \
                 memory; give the egress a user of its own"
            );
            return Err(Impossible::new("egress.peer", words));
        }
        if own == 0 || peer.user == 0 {
            tracing::warn!(
                "one of the server and its egress process runs as root, which can read the other's \
                 memory: run both as users of their own"
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(roles: &[&str], parted: bool) -> Config {
        let mut config = Config::default();
        config.server.roles = roles.iter().map(|role| (*role).to_owned()).collect();
        if parted {
            config.egress.socket = Some("/run/e/e.sock".into());
            config.egress.peer = Some("12345".to_owned());
        }
        config
    }

    fn told(config: &Config) -> String {
        config.roles().unwrap_err().to_string()
    }

    #[test]
    fn what_is_built_is_taken_and_all_else_is_refused_by_name() {
        let peer = Peer {
            socket: "/run/e/e.sock".into(),
            user: 12345,
        };
        assert_eq!(Config::default().roles(), Ok(Roles::All));
        let beside = config(&["hand", " api", "brain "], true);
        assert_eq!(beside.roles(), Ok(Roles::BesideEgress(peer.clone())));
        assert_eq!(config(&["egress"], true).roles(), Ok(Roles::Egress(peer)));
        for roles in [&["api"][..], &["api", "egress"], &["hand", "egress"], &[]] {
            let words = told(&config(roles, true));
            assert!(words.contains("what is built is"), "{words}");
        }
        let words = told(&config(&["api", "brains"], true));
        assert_eq!(
            words,
            "`server.roles`: `brains` is no role; there are api, brain, hand, egress"
        );
    }

    #[test]
    fn a_process_has_only_its_own_settings() {
        let beside = || config(&["api", "brain", "hand"], true);
        let mut keyed = beside();
        keyed.upstream.api_key = Some("sk-1".into());
        assert!(told(&keyed).starts_with("`upstream.api_key`: is the egress process's"));
        let mut master = beside();
        master.vault.master_key_file = Some("/k".into());
        assert!(told(&master).starts_with("`vault`: is the egress process's"));
        let mut open = beside();
        open.egress.open = vec!["10.0.0.0/8".to_owned()];
        assert!(told(&open).starts_with("`egress`: is the egress process's but for"));
        let mut stored = config(&["egress"], true);
        stored.database.url = Some("postgres://h/d".into());
        assert!(told(&stored).contains("has no database"));
        let mut open = config(&["egress"], true);
        open.server.api_key = Some("a-key-of-clients".into());
        assert!(told(&open).starts_with("`server.api_key`: is the server's"));
        assert!(told(&config(&["egress"], false)).starts_with("`egress.socket`: must name"));
        let all = config(&PARTS, true);
        let error = all.roles().unwrap().look(&all).unwrap_err().to_string();
        assert!(
            error.starts_with("`egress.socket`: is for an egress"),
            "{error}"
        );
        let mut nobody = beside();
        nobody.egress.peer = Some("no-such-user-here".to_owned());
        assert!(told(&nobody).contains("there is no user"));
        nobody.egress.peer = Some(u32::MAX.to_string());
        assert!(told(&nobody).contains("is no user"));
    }

    #[test]
    fn two_processes_of_one_user_are_not_parted() {
        let mut same = config(&["egress"], true);
        same.egress.peer = Some(rustix::process::geteuid().as_raw().to_string());
        let error = same.roles().unwrap().look(&same).unwrap_err();
        assert!(error.to_string().contains("can read each other's memory"));
        same.egress.peer = Some("54321".to_owned());
        assert_eq!(same.roles().unwrap().look(&same), Ok(()));
    }
}
