//! Every bound of the wire, with the section of the API reference it comes from.
//!
//! "Ours" marks a bound that the public API does not state; it keeps one request from costing
//! without limit, and is far above what a client needs.

/// Bytes of a request body (section 2.12).
pub const BODY_BYTES: usize = 32 * 1024 * 1024;

/// Characters of an agent's name (section 4.1).
pub const AGENT_NAME: usize = 256;
/// Characters of an agent's description (section 4.1).
pub const AGENT_DESCRIPTION: usize = 2_048;
/// Characters of a system prompt (section 4.1).
pub const SYSTEM: usize = 100_000;
/// Entries of an agent's `tools` array (section 26).
///
/// The other bound there, 256 tools over all toolsets, cannot be passed without MCP toolsets:
/// 128 entries come to at most 135 tools.
pub const TOOLS: usize = 128;
/// Characters of a model id (ours; the longest known has 30).
pub const MODEL_ID: usize = 256;
/// Characters of an AWS role name in `execution_identity` (section 4.1).
pub const ROLE_ARN: usize = 2_048;

/// Characters of a custom tool's name (section 14.8).
pub const TOOL_NAME: usize = 128;
/// Characters of a property name in a custom tool's schema (section 14.8).
pub const PROPERTY_NAME: usize = 64;
/// Entries of a web tool's domain list (section 14.6).
pub const DOMAINS: usize = 64;
/// Characters of one domain (section 14.6).
pub const DOMAIN: usize = 255;
/// Tool references in one `url_sources` list (section 14.6).
pub const URL_SOURCE_TOOLS: usize = 128;
/// Characters of a place name in `user_location` (ours; that of the Messages API).
pub const LOCATION: usize = 255;

/// Pairs of metadata (section 2.9).
pub const METADATA_PAIRS: usize = 16;
/// Characters of a metadata key (section 2.9).
pub const METADATA_KEY: usize = 64;
/// Characters of a metadata value (section 2.9).
pub const METADATA_VALUE: usize = 512;

/// Characters of an environment's name (ours; that of an agent).
pub const ENVIRONMENT_NAME: usize = 256;
/// Characters of an environment's description (ours; that of an agent).
pub const ENVIRONMENT_DESCRIPTION: usize = 2_048;
/// Entries of `allowed_hosts` (ours: the list is checked on every connection).
pub const ALLOWED_HOSTS: usize = 500;
/// Packages of one manager (ours: all of them are arguments of one command).
pub const PACKAGES: usize = 200;
/// Characters of one package with its version (ours; npm's longest name has 214).
pub const PACKAGE: usize = 256;
/// Characters of a host name (RFC 1035).
pub const HOST: usize = 253;

/// Characters of what people call a vault or a credential (sections 15.1 and 15.2).
pub const DISPLAY_NAME: usize = 255;
/// Active credentials of one vault (section 15.2).
pub const CREDENTIALS: usize = 20;
/// Vaults that a session names (section 7.1).
pub const VAULT_IDS: usize = 50;
/// Entries of a credential's `allowed_hosts` (section 15.2).
pub const CREDENTIAL_HOSTS: usize = 16;
/// Characters of one secret (ours: a private key of 16,384 bits has 13,000, as a header most servers
/// take less).
pub const SECRET: usize = 32_768;
/// Characters of the variable that stands for a secret (ours; that of a vault's name).
pub const SECRET_NAME: usize = 255;
/// Characters of the address of an MCP server or token endpoint (section 4.4).
pub const SERVER_URL: usize = 2_048;
/// Characters of an OAuth client id (ours; that of an address, which some ids are).
pub const CLIENT_ID: usize = 2_048;
/// Characters of an OAuth scope (ours).
pub const SCOPE: usize = 4_096;

/// Characters of a session's title (ours).
pub const TITLE: usize = 1_024;
/// Events at a session's creation (section 7.1).
pub const INITIAL_EVENTS: usize = 50;

/// Events of one send (ours: all of them are one append).
pub const EVENTS: usize = 1_000;
/// Content blocks of one event (section 9.3 for `system.message`; ours for the others).
pub const BLOCKS: usize = 1_000;
/// Characters of a document's title (that of the Messages API).
pub const DOCUMENT_TITLE: usize = 500;
/// Characters of an address in a content block (ours).
pub const URL: usize = 8_192;
/// Characters of a tool result kept inline (section 14.5).
pub const TOOL_OUTPUT: usize = 100_000;

/// Seconds of a session's deadline (ours): at most a year.
pub const DEADLINE: std::ops::RangeInclusive<i64> = 1..=31_536_000;

/// Events that one request redacts (ours: all of them are one record).
pub const REDACTED: usize = 100;
/// Characters of the reason for a redaction (ours).
pub const BECAUSE: usize = 1_000;

/// Characters of an API key's name (ours; that of an agent).
pub const KEY_NAME: usize = 256;
/// Seconds until an API key expires (ours): at most ten years.
pub const KEY_EXPIRY: std::ops::RangeInclusive<i64> = 1..=315_360_000;

/// Seconds until a file expires, at least and at most (section 18).
pub const FILE_EXPIRY: std::ops::RangeInclusive<i64> = 3_600..=7_776_000;
/// Characters of a file's name (ours; that of file systems).
pub const FILE_NAME: usize = 255;
/// Characters of a MIME type (RFC 6838).
pub const MIME_TYPE: usize = 255;
/// Bytes of `expires_in_seconds` and other parts of an upload that are no file (ours).
pub const FORM_FIELD: usize = 1_024;
/// Different values of `ids[]` of a list of files (section 2.8).
pub const FILE_IDS: usize = 100;
/// Values of `ids[]` before those that occur twice are dropped (ours).
pub const FILE_IDS_SENT: usize = 1_000;
/// Files mounted in a session (section 26).
pub const RESOURCES: usize = 500;
/// Bytes of a mount path (ours: file systems take 4,096 with the folders above).
pub const MOUNT_PATH: usize = 1_024;
/// Git repositories of a session (ours).
pub const REPOSITORIES: usize = 64;
/// Characters of the address of a git repository (as of an MCP server's, section 26).
pub const REPOSITORY_URL: usize = 2_048;
/// Characters of the name of a branch (what a file system takes for one file of refs).
pub const BRANCH: usize = 244;
/// Characters of a token that opens a repository (ours).
pub const TOKEN: usize = 8_192;
/// File-sourced documents of one request (section 26).
pub const FILE_DOCUMENTS: usize = 100;
/// Bytes of an image that a message names as a file: 5 MiB as base64 (section 14.4).
pub const IMAGE_FILE: u64 = outlast_media::IMAGE_BYTES;
/// Bytes of a document that a message names as a file (section 14.4).
pub const DOCUMENT_FILE: u64 = outlast_media::DOCUMENT_BYTES;

/// Default page of agents and agent versions (section 2.8).
pub const PAGE: u32 = 20;
/// Largest page of agents, versions and environments (section 2.8).
pub const PAGE_MAX: u32 = 100;
/// Default and largest page of events, threads and session resources; largest of sessions and files
/// (section 2.8).
pub const EVENT_PAGE_MAX: u32 = 1_000;
/// Values of `event_deltas[]` (section 10.2).
pub const EVENT_DELTAS: usize = 100;
/// Characters of a page cursor (ours; real ones have about 200).
pub const CURSOR: usize = 2_048;
