use std::fs;

use secrecy::ExposeSecret as _;
use toml::Value;

use super::*;

fn load_with<const N: usize>(
    file: Option<&str>,
    variables: [(&str, &str); N],
) -> Result<Loaded, Error> {
    let dir = tempfile::tempdir().unwrap();
    if let Some(text) = file {
        fs::write(dir.path().join("outlast.toml"), text).unwrap();
    }
    let flags = Flags {
        data_dir: Some(dir.path().to_owned()),
        ..Flags::default()
    };
    load(&flags, &Environment::from(variables))
}

/// Every key with its sections, and its value.
fn leaves(section: &str, table: &toml::Table) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (key, value) in table {
        let key = match section {
            "" => key.clone(),
            section => format!("{section}.{key}"),
        };
        match value.as_table() {
            Some(inner) => found.extend(leaves(&key, inner)),
            None => found.push((key, value.clone())),
        }
    }
    found
}

#[test]
fn the_described_defaults_are_those_of_the_code() {
    let described: toml::Table = toml::from_str(DEFAULTS).unwrap();
    let real: toml::Table = toml::from_str(&print(&Config::default()).unwrap()).unwrap();
    assert_eq!(described, real);
}

#[test]
fn keys_without_a_default_are_described_too() {
    let mut config = Config::default();
    config.server.data_dir = Some("/d".into());
    config.server.api_key = Some("k".into());
    config.upstream.api_key = Some("k".into());
    config.upstream.base_url = Some("u".into());
    config.models.file = Some("f".into());
    config.egress.package_registries = Some(Vec::new());
    config.egress.authorities = Some("/f".into());
    let folder = || Some("/m".into());
    let packages = &mut config.hands.packages;
    (packages.apt, packages.cargo) = (folder(), folder());
    (packages.gem, packages.go) = (folder(), folder());
    (packages.npm, packages.pip) = (folder(), folder());
    let whole: toml::Table = toml::from_str(&print(&config).unwrap()).unwrap();
    let (described, mut section) = (DEFAULTS.lines(), String::new());
    let mut keys = Vec::new();
    for line in described {
        let line = line.trim_start_matches("# ");
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|line| line.strip_suffix(']'))
        {
            section = name.to_owned();
        } else if let Some((key, _)) = line.split_once(" = ") {
            keys.push(format!("{section}.{key}"));
        }
    }
    for (key, _) in leaves("", &whole) {
        assert!(keys.contains(&key), "`{key}` is not described");
    }
}

#[test]
fn every_key_can_be_set_by_a_variable() {
    let described: toml::Table = toml::from_str(DEFAULTS).unwrap();
    for (key, value) in leaves("", &described) {
        let name = format!("OUTLAST__{}", key.to_uppercase().replace('.', "__"));
        let text = match &value {
            Value::String(text) => text.clone(),
            Value::Array(_) if key == "server.roles" => "egress, api, brain, hand".to_owned(),
            Value::Array(_) if key == "hands.require" => "cgroups, disk".to_owned(),
            Value::Array(_) => "a, b".to_owned(),
            Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => value.to_string(),
            Value::Datetime(_) | Value::Table(_) => panic!("{key} is {value}"),
        };
        let loaded = load_with(None, [(name.as_str(), text.as_str())]);
        assert!(loaded.is_ok(), "{name}={text}: {loaded:?}");
    }
    let mirror = load_with(None, [("OUTLAST__HANDS__PACKAGES__PIP", "/m")]).unwrap();
    assert_eq!(mirror.config.hands.packages.pip, Some("/m".into()));
}

#[test]
fn later_layers_win() {
    let file = "[server]\nlisten = '127.0.0.1:1'\napi_key = 'of-the-file-0123456789'\n\
                [kernel]\nbrains = 2\nattempts = 3\n";
    let variables = [
        ("OUTLAST_API_KEY", "of-the-alias-0123456789"),
        ("OUTLAST__SERVER__LISTEN", "127.0.0.1:3"),
        ("OUTLAST__KERNEL__BRAINS", "7"),
        ("OUTLAST__UPSTREAM__BETAS", "a, b"),
    ];
    let loaded = load_with(Some(file), variables).unwrap();
    assert_eq!(loaded.config.server.listen.port(), 3);
    let key = loaded.config.server.api_key.unwrap();
    assert_eq!(key.expose_secret(), "of-the-alias-0123456789");
    assert_eq!(
        (loaded.config.kernel.brains, loaded.config.kernel.attempts),
        (7, 3)
    );
    assert_eq!(loaded.config.kernel.rounds, Kernel::default().rounds);
    assert_eq!(loaded.config.upstream.betas, ["a", "b"]);
    assert!(loaded.file.unwrap().ends_with("outlast.toml"));
    let listen = Some("127.0.0.1:4".parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let data_dir = Some(dir.path().to_owned());
    let flags = Flags {
        listen,
        data_dir,
        ..Flags::default()
    };
    let loaded = load(&flags, &Environment::from(variables)).unwrap();
    assert_eq!(loaded.config.server.listen.port(), 4);
}

#[test]
fn the_file_is_the_first_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let named = dir.path().join("named.toml");
    fs::write(&named, "[kernel]\nbrains = 1\n").unwrap();
    fs::write(dir.path().join("outlast.toml"), "[kernel]\nbrains = 2\n").unwrap();
    let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let (data, config) = (text(dir.path()), text(&named));
    let by_variable = [
        ("OUTLAST_DATA_DIR", data.as_str()),
        ("OUTLAST_CONFIG", config.as_str()),
    ];
    let loaded = load(&Flags::default(), &Environment::from(by_variable)).unwrap();
    assert_eq!(
        (loaded.config.kernel.brains, loaded.data_dir.as_path()),
        (1, dir.path())
    );
    let loaded = load(&Flags::default(), &Environment::from([by_variable[0]])).unwrap();
    assert_eq!(loaded.config.kernel.brains, 2);
    let flags = Flags {
        config: Some(dir.path().join("none.toml")),
        ..Flags::default()
    };
    let error = load(&flags, &Environment::from(by_variable)).unwrap_err();
    assert!(matches!(&error, Error::Unreadable { path, .. } if path.ends_with("none.toml")));
}

#[test]
fn unknown_keys_are_refused_by_name_and_place() {
    let file = "[server]\nlisten = '127.0.0.1:1'\nlisen = 'x'\n[kernal]\nbrains = 2\n";
    let variables = [
        ("OUTLAST__HANDS__PIDZ", "1"),
        ("OUTLAST__HANDS__PACKAGES__BREW", "/m"),
        ("OUTLAST__NOPE", "1"),
    ];
    let error = load_with(Some(file), variables).unwrap_err().to_string();
    for part in [
        "`server.lisen` in `/",
        "outlast.toml`",
        "`kernal` in `/",
        "`hands.pidz` in OUTLAST__HANDS__PIDZ",
        "`hands.packages.brew` in OUTLAST__HANDS__PACKAGES__BREW",
        "`nope` in OUTLAST__NOPE",
    ] {
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
}

#[test]
fn odd_variables_are_refused_too() {
    for name in [
        "OUTLAST__",
        "OUTLAST____X",
        "OUTLAST__A__",
        "OUTLAST__A[",
        "OUTLAST__SERVER",
    ] {
        let error = load_with(None, [(name, "1")]).unwrap_err();
        assert!(
            matches!(error, Error::Unknown(_) | Error::Value(_)),
            "{name}: {error}"
        );
    }
}

#[test]
fn values_of_the_wrong_type_name_key_and_place() {
    let error = load_with(Some("[kernel]\nbrains = 'many'\n"), [])
        .unwrap_err()
        .to_string();
    assert!(error.contains("kernel.brains"), "{error}");
    let error = load_with(None, [("OUTLAST__HANDS__PIDS", "few")])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("hands.pids") && error.contains("OUTLAST__HANDS__PIDS"),
        "{error}"
    );
    for (file, key, wrong, allowed) in [
        ("[log]\nformat = 'xml'\n", "log.format", "`xml`", "`json`"),
        (
            "[upstream]\nauth = 'none'\n",
            "upstream.auth",
            "`none`",
            "`x-api-key`",
        ),
        (
            "[hands]\nrequire = ['disk', 'cgroupz']\n",
            "hands.require",
            "`cgroupz`",
            "`own_ids`",
        ),
    ] {
        let error = load_with(Some(file), []).unwrap_err().to_string();
        for part in [key, wrong, allowed] {
            assert!(error.contains(part), "{part} is not in {error}");
        }
    }
    let error = load_with(Some("[server]\nlisten = 'here'\n"), [])
        .unwrap_err()
        .to_string();
    assert!(error.contains("listen"), "{error}");
}

#[test]
fn impossible_values_name_key_and_bounds() {
    for (file, part) in [
        (
            "[kernel]\nbrains = 0\n",
            "`kernel.brains`: must lie between 1",
        ),
        ("[hands]\ncpus = -1.0\n", "`hands.cpus`"),
        ("[hands]\ncpus = nan\n", "`hands.cpus`"),
        (
            "[retries]\nfirst_seconds = 1e300\n",
            "`retries.first_seconds`",
        ),
        ("[log]\nlevel = 'a=b=c'\n", "`log.level`"),
        ("[upstream]\nbase_url = 'ftp://h'\n", "base URL"),
        ("[run]\nmodel = ''\n", "`run.model`"),
        (
            "[hands.packages]\npip = 'm'\n",
            "`hands.packages.pip`: must be an absolute path",
        ),
        (
            "[hands.packages]\ninstall_seconds = 0\n",
            "`hands.packages.install_seconds`",
        ),
    ] {
        let error = load_with(Some(file), []).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn no_secret_is_shown() {
    let canary = "sk-canary-0123456789";
    let database = format!("postgres://outlast:{canary}@127.0.0.1/outlast?sslmode=disable");
    let variables = [
        ("OUTLAST_API_KEY", canary),
        ("OUTLAST_UPSTREAM_API_KEY", canary),
        ("OUTLAST_DATABASE_URL", &database),
    ];
    let environment = Environment::from(variables);
    let loaded = load_with(None, variables).unwrap();
    let printed = print(&loaded.config).unwrap();
    assert!(!format!("{loaded:?} {environment:?} {printed}").contains(canary));
    assert_eq!(printed.matches("[redacted]").count(), 3);
    // Neither by a URL that cannot be.
    for wrong in ["?sslmode=never", "?sslcert=/a", "?no_such_key=1"] {
        let url = format!("postgres://outlast:{canary}@127.0.0.1/outlast{wrong}");
        let error = load_with(None, [("OUTLAST_DATABASE_URL", url.as_str())]).unwrap_err();
        assert!(error.to_string().contains("`database.url`"), "{error}");
        assert!(!error.to_string().contains(canary), "{error}");
    }
    // Neither by a mistake in the very line.
    let broken = format!("[server]\napi_key = \"{canary}\n");
    let error = load_with(Some(&broken), []).unwrap_err();
    assert!(matches!(error, Error::Syntax { line: 2, .. }), "{error}");
    assert!(!error.to_string().contains(canary), "{error}");
}

#[test]
fn keys_that_look_like_numbers_stay_as_they_are() {
    let loaded = load_with(None, [("OUTLAST_API_KEY", "0000000000000123")]).unwrap();
    assert_eq!(
        loaded.config.server.api_key.unwrap().expose_secret(),
        "0000000000000123"
    );
    let loaded = load_with(None, [("OUTLAST_UPSTREAM_API_KEY", "1e5")]).unwrap();
    assert_eq!(
        loaded.config.upstream.api_key.unwrap().expose_secret(),
        "1e5"
    );
}

#[test]
fn other_tools_variables_only_fill_in_for_nothing() {
    let theirs = [
        ("ANTHROPIC_API_KEY", "theirs"),
        ("ANTHROPIC_BASE_URL", "http://theirs"),
    ];
    let upstream = load_with(None, theirs).unwrap().config.upstream;
    assert_eq!(upstream.api_key.unwrap().expose_secret(), "theirs");
    assert_eq!(upstream.base_url.as_deref(), Some("http://theirs"));
    let variables = upstream.fallback.unwrap().variables;
    assert_eq!(variables, ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"]);
    // Their key never goes to our address.
    let ours = [
        theirs[0],
        theirs[1],
        ("OUTLAST_UPSTREAM_BASE_URL", "http://ours"),
    ];
    let upstream = load_with(None, ours).unwrap().config.upstream;
    assert!(upstream.api_key.is_none() && upstream.fallback.is_none());
    assert_eq!(upstream.base_url.as_deref(), Some("http://ours"));
    let ours = [theirs[0], theirs[1], ("OUTLAST_UPSTREAM_API_KEY", "ours")];
    let upstream = load_with(None, ours).unwrap().config.upstream;
    assert_eq!(
        upstream.options().unwrap().base_url,
        "https://api.anthropic.com"
    );
    let token = load_with(None, [("ANTHROPIC_AUTH_TOKEN", "t")])
        .unwrap()
        .config
        .upstream;
    assert_eq!(token.auth, Auth::Bearer);
    assert!(
        load_with(None, [])
            .unwrap()
            .config
            .upstream
            .options()
            .is_none()
    );
}

#[test]
fn typing_mistakes_in_single_names_are_found() {
    let environment = Environment::from([
        ("OUTLAST_UPSTREAM_KEY", "x"),
        ("OUTLAST_API_KEY", "x"),
        ("OUTLAST_URL", "x"),
        ("OUTLAST__SERVER__LISTEN", "x"),
        ("PATH", "x"),
    ]);
    assert_eq!(environment.strangers(), ["OUTLAST_UPSTREAM_KEY"]);
}

#[test]
fn the_page_shows_the_defaults() {
    let page = include_str!("../../../../docs/configuration.md");
    let (words, shown) = page.split_once("<!-- defaults -->\n").unwrap();
    // To renew it: put outlast.default.toml between the fences.
    assert_eq!(shown, format!("\n```toml\n{DEFAULTS}```\n"));
    for (name, key) in environment::ALIASES {
        assert!(words.contains(&format!("| `{name}` | `{key}` |")), "{name}");
    }
}
