//! What one package may look like, by manager.
//!
//! Strict, because it ends among the arguments of a program: an item begins with a letter or a
//! digit (npm's scopes with `@`), holds no space, and is no path, address or file for its manager.

use super::Manager;

/// Says what is allowed.
pub(super) fn words(manager: Manager) -> &'static str {
    match manager {
        Manager::Apt => {
            "must be a Debian package such as `jq`, `jq=1.6-2.1` or `libc6:amd64`; \
             paths and releases are not allowed"
        }
        Manager::Cargo => {
            "must be a crate such as `ripgrep` or `ripgrep@14.1.0`; paths and addresses are not \
             allowed"
        }
        Manager::Gem => {
            "must be a gem such as `rake`, `rake:13.0.6` or `rake:~>13.0`; files and addresses are \
             not allowed"
        }
        Manager::Go => {
            "must be a package with its host such as `example.com/cmd/tool` or \
             `example.com/cmd/tool@v1.2.3`; paths and addresses are not allowed"
        }
        Manager::Npm => {
            "must be a package such as `left-pad`, `left-pad@1.3.0` or `@scope/name@^2`; files, \
             folders, aliases and addresses are not allowed"
        }
        Manager::Pip => {
            "must be a package such as `numpy`, `numpy==1.2`, `numpy>=1.2,<2` or \
             `uvicorn[standard]`; files, addresses, options and markers are not allowed"
        }
    }
}

/// Returns the name without its version, as its manager compares names; `None` if the text is no
/// package.
pub(super) fn name(manager: Manager, text: &str) -> Option<String> {
    match manager {
        Manager::Apt => apt(text).map(str::to_owned),
        Manager::Cargo => cargo(text).map(|name| name.to_ascii_lowercase().replace('-', "_")),
        Manager::Gem => gem(text).map(str::to_owned),
        Manager::Go => go(text).map(str::to_owned),
        Manager::Npm => npm(text).map(str::to_owned),
        Manager::Pip => pip(text).map(|name| name.to_ascii_lowercase().replace(['_', '.'], "-")),
    }
}

/// Tells whether a text begins with a letter or digit and goes on with these or some signs.
fn is_word(text: &str, signs: &str) -> bool {
    let alike = |sign: char| sign.is_ascii_alphanumeric() || signs.contains(sign);
    text.starts_with(|sign: char| sign.is_ascii_alphanumeric()) && text.chars().all(alike)
}

/// Parts a text at the first sign; what follows it is a version if the check says so.
fn parted(text: &str, sign: char, version: impl Fn(&str) -> bool) -> Option<&str> {
    match text.split_once(sign) {
        None => Some(text),
        Some((name, rest)) => version(rest).then_some(name),
    }
}

/// Takes the operators of a comparison away.
fn compared<'t>(text: &'t str, operators: &[&str]) -> &'t str {
    // Longer ones first.
    let found = operators.iter().find_map(|sign| text.strip_prefix(sign));
    found.unwrap_or(text)
}

fn apt(text: &str) -> Option<&str> {
    let name = parted(text, '=', |version| is_word(version, ".+~:-"))?;
    let name = parted(name, ':', |arch| is_word(arch, "-"))?;
    let small = !name.contains(|sign: char| sign.is_ascii_uppercase());
    // A hyphen at the end would remove the package.
    let whole = name.len() > 1 && !name.ends_with('-');
    (small && whole && is_word(name, "+.-")).then_some(name)
}

fn cargo(text: &str) -> Option<&str> {
    let name = parted(text, '@', |version| is_word(version, ".+-"))?;
    (name.starts_with(|sign: char| sign.is_ascii_alphabetic()) && is_word(name, "_-"))
        .then_some(name)
}

fn gem(text: &str) -> Option<&str> {
    let operators = ["~>", ">=", "<=", "!=", "=", ">", "<"];
    let version = |text: &str| {
        let version = compared(text, &operators);
        version.starts_with(|sign: char| sign.is_ascii_digit()) && is_word(version, ".-")
    };
    let name = parted(text, ':', version)?;
    let is_file = name.ends_with(".gem");
    (!is_file && is_word(name, "._-")).then_some(name)
}

fn go(text: &str) -> Option<&str> {
    let name = parted(text, '@', |version| is_word(version, ".+-"))?;
    let mut parts = name.split('/');
    let host = parts.next().unwrap_or_default();
    let has_host = host.contains('.') && is_word(host, ".-") && !host.ends_with('.');
    let mut more = 0;
    let good = parts.all(|part| {
        more += 1;
        is_word(part, "._~-") && !part.ends_with('.')
    });
    (has_host && good && more > 0).then_some(name)
}

fn npm(text: &str) -> Option<&str> {
    let (scope, rest) = match text.strip_prefix('@') {
        None => (None, text),
        Some(scoped) => {
            let (scope, rest) = scoped.split_once('/')?;
            (Some(scope), rest)
        }
    };
    let operators = [">=", "<=", "^", "~", "=", ">", "<"];
    let version = |text: &str| text == "*" || is_word(compared(text, &operators), ".+-");
    let name = parted(rest, '@', version)?;
    let good = |part: &str| is_word(part, "._~-");
    // What ends so is a file to npm, whatever stands before it.
    let is_file = [".tgz", ".tar", ".tar.gz"]
        .iter()
        .any(|end| text.to_ascii_lowercase().ends_with(end));
    let whole = text.len() - (rest.len() - name.len());
    (!is_file && good(name) && scope.is_none_or(good))
        .then(|| text.get(..whole))
        .flatten()
}

fn pip(text: &str) -> Option<&str> {
    let end = text.find(['[', '=', '<', '>', '!', '~']);
    let (name, rest) = text.split_at_checked(end.unwrap_or(text.len()))?;
    let is_file = [".whl", ".zip", ".gz", ".tgz", ".tar", ".bz2", ".xz"]
        .iter()
        .any(|end| name.to_ascii_lowercase().ends_with(end));
    let named = is_word(name, "._-") && name.ends_with(|sign: char| sign.is_ascii_alphanumeric());
    let rest = match rest.strip_prefix('[') {
        None => rest,
        Some(extras) => {
            let (extras, rest) = extras.split_once(']')?;
            if !extras.split(',').all(|extra| is_word(extra, "._-")) {
                return None;
            }
            rest
        }
    };
    let operators = ["===", "==", "~=", "!=", ">=", "<=", ">", "<"];
    let compares = |clause: &str| {
        let version = compared(clause, &operators);
        version.len() < clause.len() && is_word(version, ".+!*-")
    };
    let versioned = rest.is_empty() || rest.split(',').all(compares);
    (!is_file && named && versioned).then_some(name)
}
