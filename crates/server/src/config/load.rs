//! Brings the layers together: defaults, one file, the environment, flags.

use std::{
    fmt, fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use config::{ConfigBuilder, FileFormat, builder::DefaultState};

use super::{Auth, Config, Environment, Fallback, Impossible, Server, environment::ALIASES};

/// Name of the file in a directory.
const FILE: &str = "outlast.toml";

/// The last directory that is looked into.
const SYSTEM: &str = "/etc/outlast";

/// What was said on the command line.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// `--listen`.
    pub listen: Option<SocketAddr>,
    /// `--roles`.
    pub roles: Option<Vec<String>>,
}

/// A configuration and where it came from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    /// Where everything is kept.
    pub data_dir: PathBuf,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that was named, or that exists, cannot be read.
    #[error("the configuration `{}` cannot be read: {error}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file is no TOML. The line itself is not shown: it may hold a secret.
    #[error("{}:{line}: {reason}", path.display())]
    Syntax {
        /// Which.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// Keys that do not exist.
    #[error("unknown configuration: {}", Listed(.0))]
    Unknown(Vec<Stranger>),
    /// A value of the wrong type.
    #[error("{0}")]
    Value(String),
    /// A value that cannot be.
    #[error(transparent)]
    Impossible(#[from] Impossible),
}

/// A key that does not exist.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stranger {
    /// The key, with its section.
    pub key: String,
    /// The variable or file that has it.
    pub origin: String,
}

struct Listed<'a>(&'a [Stranger]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, stranger) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}`{}` in {}", stranger.key, stranger.origin)?;
        }
        Ok(())
    }
}

/// Reads the configuration.
///
/// The file is the first there is of: the one named by flag or `OUTLAST_CONFIG`, `outlast.toml` in
/// the data directory, `/etc/outlast/outlast.toml`. `ANTHROPIC_*` variables fill in for an
/// upstream only if nothing at all is said of one, so that a key never goes to an address that it
/// was not meant for.
///
/// # Errors
///
/// If a file cannot be read, a key does not exist, or a value cannot be.
pub fn load(flags: &Flags, environment: &Environment) -> Result<Loaded, Error> {
    let file = find(flags, environment)?;
    let mut layers = config::Config::builder();
    if let Some(path) = &file {
        layers = layers.add_source(config::File::from_str(&read(path)?, FileFormat::Toml));
    }
    layers = variables(layers, environment)?;
    let layered = layers.build().map_err(value)?;
    let mut unknown = Vec::new();
    let read = serde_ignored::deserialize(layered, |path| unknown.push(path.to_string()));
    let mut config: Config = read.map_err(value)?;
    if !unknown.is_empty() {
        return Err(Error::Unknown(strangers(
            unknown,
            environment,
            file.as_deref(),
        )));
    }
    if let Some(listen) = flags.listen {
        config.server.listen = listen;
    }
    if let Some(roles) = &flags.roles {
        config.server.roles.clone_from(roles);
    }
    if let Some(dir) = &flags.data_dir {
        config.server.data_dir = Some(dir.clone());
    }
    fall_back(&mut config, environment);
    config.check()?;
    let data_dir = config.server.data_dir(environment)?;
    Ok(Loaded {
        config,
        file,
        data_dir,
    })
}

/// Finds the one file that counts.
fn find(flags: &Flags, environment: &Environment) -> Result<Option<PathBuf>, Error> {
    let named = flags
        .config
        .clone()
        .or_else(|| environment.get("OUTLAST_CONFIG").map(Into::into));
    if named.is_some() {
        return Ok(named);
    }
    let set = |name| environment.get(name).map(PathBuf::from);
    let said = flags.data_dir.clone();
    let said = said
        .or_else(|| set("OUTLAST__SERVER__DATA_DIR"))
        .or_else(|| set("OUTLAST_DATA_DIR"));
    let server = Server {
        data_dir: said,
        ..Server::default()
    };
    // Without a home there is no data directory to look into; a file may still say where it is.
    let dirs = server
        .data_dir(environment)
        .ok()
        .into_iter()
        .chain([PathBuf::from(SYSTEM)]);
    for path in dirs.map(|dir| dir.join(FILE)) {
        match fs::exists(&path) {
            Ok(true) => return Ok(Some(path)),
            Ok(false) => {}
            // A folder of somebody else, as `/etc/outlast` may be, is no folder of ours.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(Error::Unreadable { path, error }),
        }
    }
    Ok(None)
}

/// Reads a file and checks that it is TOML.
fn read(path: &Path) -> Result<String, Error> {
    let unreadable = |error| Error::Unreadable {
        path: path.to_owned(),
        error,
    };
    let text = fs::read_to_string(path).map_err(unreadable)?;
    match toml::from_str::<toml::Table>(&text) {
        Ok(_) => Ok(text),
        Err(error) => {
            let start = error.span().map_or(0, |span| span.start);
            let before = text.bytes().take(start);
            let line = before.filter(|byte| *byte == b'\n').count() + 1;
            let reason = error.message().to_owned();
            Err(Error::Syntax {
                path: path.to_owned(),
                line,
                reason,
            })
        }
    }
}

/// Lays the environment over what there is: first the aliases, then the layered form.
fn variables(
    mut layers: ConfigBuilder<DefaultState>,
    environment: &Environment,
) -> Result<ConfigBuilder<DefaultState>, Error> {
    for (name, key) in ALIASES {
        if let Some(text) = environment.get(name) {
            layers = layers
                .set_override(key, said(name, key, text))
                .map_err(value)?;
        }
    }
    for (name, key, text) in environment.layered() {
        let unknown = || Stranger {
            key: key.clone(),
            origin: name.to_owned(),
        };
        layers = layers
            .set_override(&key, said(name, &key, text))
            .map_err(|_| Error::Unknown(vec![unknown()]))?;
    }
    Ok(layers)
}

/// Makes a value that remembers its variable; lists are parted by commas.
fn said(name: &str, key: &str, text: &str) -> config::Value {
    let origin = name.to_owned();
    if matches!(
        key,
        "server.roles"
            | "upstream.betas"
            | "hands.require"
            | "egress.open"
            | "egress.package_registries"
    ) {
        let parts = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        return config::Value::new(Some(&origin), parts.map(str::to_owned).collect::<Vec<_>>());
    }
    config::Value::new(Some(&origin), text)
}

fn value(error: config::ConfigError) -> Error {
    Error::Value(error.to_string())
}

/// Says of each unknown key where it was found.
fn strangers(
    unknown: Vec<String>,
    environment: &Environment,
    file: Option<&Path>,
) -> Vec<Stranger> {
    let origin = |key: &str| {
        let variable = environment.layered().find(|(_, found, _)| found == key);
        match (variable, file) {
            (Some((name, ..)), _) => name.to_owned(),
            (None, Some(file)) => format!("`{}`", file.display()),
            (None, None) => "the environment".to_owned(),
        }
    };
    unknown
        .into_iter()
        .map(|key| Stranger {
            origin: origin(&key),
            key,
        })
        .collect()
}

/// Takes an upstream from the variables of other tools if nothing at all is said of one.
fn fall_back(config: &mut Config, environment: &Environment) {
    let upstream = &mut config.upstream;
    if upstream.api_key.is_some() || upstream.base_url.is_some() {
        return;
    }
    let mut variables = Vec::new();
    let keys = [
        ("ANTHROPIC_API_KEY", Auth::XApiKey),
        ("ANTHROPIC_AUTH_TOKEN", Auth::Bearer),
    ];
    let key = keys
        .into_iter()
        .find_map(|(name, auth)| Some((name, auth, environment.get(name)?)));
    if let Some((name, auth, key)) = key {
        upstream.api_key = Some(key.into());
        upstream.auth = auth;
        variables.push(name);
    }
    if let Some(url) = environment.get("ANTHROPIC_BASE_URL") {
        upstream.base_url = Some(url.to_owned());
        variables.push("ANTHROPIC_BASE_URL");
    }
    upstream.fallback = (!variables.is_empty()).then_some(Fallback { variables });
}
