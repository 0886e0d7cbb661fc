//! Variables that no credential can have: its placeholder would not be there, or break every program.

/// What sandboxes set for all that runs in them; theirs counts.
const SET: &str = "\
    _ ALL_PROXY all_proxy AWS_CA_BUNDLE BUNDLE_SSL_CA_CERT CARGO_HTTP_CAINFO \
    CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE CURL_CA_BUNDLE DENO_CERT GIT_SSL_CAINFO \
    GRPC_DEFAULT_SSL_ROOTS_FILE_PATH HEX_CACERTS_PATH HOME HTTPS_PROXY https_proxy HTTP_PROXY http_proxy \
    LANG LOGNAME NIX_SSL_CERT_FILE NODE_EXTRA_CA_CERTS NODE_PATH NODE_USE_ENV_PROXY NO_PROXY no_proxy \
    npm_config_cafile OLDPWD PATH PIP_CERT PWD REQUESTS_CA_BUNDLE SHELL SHLVL SSL_CERT_FILE TERM USER";

/// What the shell makes anew for itself; a value that it is given is lost.
const SHELL: &str = "\
    BASH BASHPID DIRSTACK EPOCHREALTIME EPOCHSECONDS EUID FUNCNAME GROUPS HISTCMD HOSTNAME HOSTTYPE LINENO \
    MACHTYPE OPTARG OPTERR OPTIND OSTYPE PIPESTATUS PPID RANDOM REPLY SECONDS SRANDOM UID";

/// What loaders, shells and interpreters read before they do anything else.
const STARTS: &str = "\
    BASHOPTS CDPATH EDITOR ENV GCONV_PATH GIT_ASKPASS GIT_DIR GIT_EDITOR GIT_EXEC_PATH GIT_EXTERNAL_DIFF \
    GIT_INDEX_FILE GIT_PAGER GIT_PROXY_COMMAND GIT_SSH GIT_SSH_COMMAND GIT_TEMPLATE_DIR GIT_WORK_TREE \
    GLIBC_TUNABLES IFS JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS LC_ALL LOCPATH NODE_OPTIONS OPENSSL_CONF PAGER \
    PERL5LIB PERL5OPT POSIXLY_CORRECT PROMPT_COMMAND PS4 PYTHONHOME PYTHONINSPECT PYTHONPATH PYTHONSTARTUP \
    PYTHONWARNINGS RUBYLIB RUBYOPT SHELLOPTS SSL_CERT_DIR TMPDIR VISUAL _JAVA_OPTIONS";

/// How all names of a kind begin: of the dynamic loaders, of bash, and of git's settings.
const BEGIN: [&str; 6] = [
    "LD_",
    "DYLD_",
    "BASH_",
    "GIT_CONFIG",
    "GIT_SSL_",
    "GIT_TRACE",
];

/// Says why no credential can have a name, if so.
pub(super) fn why(name: &str) -> Option<&'static str> {
    let is_of = |names: &str| names.split_ascii_whitespace().any(|one| one == name);
    if is_of(SET) || is_of(SHELL) {
        return Some(
            "sandboxes and shells set it themselves, so that the credential would have no effect",
        );
    }
    if is_of(STARTS) || BEGIN.iter().any(|begin| name.starts_with(begin)) {
        return Some("it changes how programs start, and they would find a placeholder in it");
    }
    None
}
