//! Variables that no credential can have: its placeholder would not be there, or break every program.

/// What sandboxes set for all that runs in them; theirs counts.
const SET: &str = "\
    _ ALL_PROXY all_proxy AWS_CA_BUNDLE BUNDLE_SSL_CA_CERT CARGO_HTTP_CAINFO \
    CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE CURL_CA_BUNDLE DENO_CERT GIT_SSL_CAINFO \
    GRPC_DEFAULT_SSL_ROOTS_FILE_PATH HEX_CACERTS_PATH HOME HTTPS_PROXY https_proxy HTTP_PROXY http_proxy \
    LANG LOGNAME NIX_SSL_CERT_FILE NODE_EXTRA_CA_CERTS NODE_PATH NODE_USE_ENV_PROXY NO_PROXY no_proxy \
    npm_config_cafile OLDPWD PATH PIP_CERT PWD REQUESTS_CA_BUNDLE SHELL SHLVL SSL_CERT_FILE TERM USER";

/// What loaders, shells and interpreters read before they do anything else.
const STARTS: &str = "\
    BASHOPTS BASH_ENV CDPATH ENV GCONV_PATH GLIBC_TUNABLES IFS JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS LOCPATH \
    NODE_OPTIONS PERL5LIB PERL5OPT POSIXLY_CORRECT PROMPT_COMMAND PS4 PYTHONHOME PYTHONPATH PYTHONSTARTUP \
    RUBYLIB RUBYOPT SHELLOPTS TMPDIR _JAVA_OPTIONS";

/// Says why no credential can have a name, if so.
pub(super) fn why(name: &str) -> Option<&'static str> {
    let is_of = |names: &str| names.split_ascii_whitespace().any(|one| one == name);
    if is_of(SET) {
        return Some("sandboxes set it themselves, so that the credential would have no effect");
    }
    // Each of the dynamic loader's own begins so.
    if is_of(STARTS) || name.starts_with("LD_") {
        return Some("it changes how programs start, and they would find a placeholder in it");
    }
    None
}
