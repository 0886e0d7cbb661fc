//! Sessions and threads as clients see them.

use std::time::Duration;

use outlast_protocol::{
    Micros,
    session::{self, CacheCreation, Money, ServerToolUse, SessionStats, ThreadStats},
};

use crate::{
    State, Thread, Usage,
    body::{Config, Mounted, Repository},
};

/// Returns the session as the API shows it; `None` before its first record.
pub fn session(state: &State, now: Micros, hour_price: u64) -> Option<session::Session> {
    let config = state.config.as_deref()?;
    let resources = resources(config);
    let Config {
        agent,
        environment_id,
        title,
        metadata,
        vault_ids,
        resources: _,
        repositories: _,
    } = config.clone();
    Some(session::Session {
        id: state.id,
        agent,
        archived_at: state.archived_at,
        budget: None,
        created_at: state.created_at,
        deployment_id: None,
        environment_id,
        metadata,
        outcome_evaluations: Vec::new(),
        resources,
        stats: stats(state, now),
        status: state.shown(),
        title,
        updated_at: state.at,
        usage: session_usage(state, now, hour_price),
        vault_ids,
    })
}

/// Returns what a session has beside its agent: repositories, then files in the order they came.
pub fn resources(config: &Config) -> Vec<session::Resource> {
    let repositories = config.repositories.iter().map(repository);
    let files = config.resources.iter().map(resource);
    repositories.chain(files).collect()
}

/// Returns a repository as the API shows it.
fn repository(known: &Repository) -> session::Resource {
    session::Resource::Repository(session::RepositoryResource {
        kind: session::RepositoryKind::GithubRepository,
        id: known.id,
        checkout: known.checkout.clone(),
        created_at: known.at,
        mount_path: known.path.as_str().to_owned(),
        updated_at: known.updated.unwrap_or(known.at),
        url: known.url.as_str().to_owned(),
    })
}

/// Returns a mounted file as the API shows it.
pub fn resource(mounted: &Mounted) -> session::Resource {
    session::Resource::File(session::FileResource {
        kind: session::FileKind::File,
        id: mounted.id,
        created_at: mounted.at,
        file_id: mounted.file,
        mount_path: mounted.path.absolute(),
        updated_at: mounted.at,
    })
}

/// Returns a thread as the API shows it.
pub fn thread(state: &State, number: u32, now: Micros) -> Option<session::Thread> {
    let thread = state.thread(number)?;
    Some(session::Thread {
        id: thread.id,
        agent: state.config.as_ref()?.agent.thread_agent(),
        archived_at: state.archived_at,
        created_at: state.created_at,
        parent_thread_id: None,
        session_id: state.id,
        stats: thread_stats(state, thread, now),
        status: if number == 0 {
            state.shown()
        } else {
            thread.status
        },
        updated_at: state.at,
        usage: thread_usage(thread, now),
        workflow_run_id: None,
    })
}

/// Returns what the session used; running time costs `hour_price` nano-dollars an hour.
pub fn session_usage(state: &State, now: Micros, hour_price: u64) -> session::Usage {
    let active = state.active.until(now);
    let hours = u128::from(hour_price) * active.as_micros() / 3_600_000_000;
    let time = u64::try_from(hours).unwrap_or(u64::MAX);
    usage(&state.usage, active, state.usage.cost.saturating_add(time))
}

fn thread_usage(thread: &Thread, now: Micros) -> Option<session::Usage> {
    let rested = thread.active.total > 0 || thread.active.since.is_none();
    let used = thread.active.first.is_some() && rested;
    used.then(|| usage(&thread.usage, thread.active.until(now), thread.usage.cost))
}

fn usage(sum: &Usage, active: Duration, cost: u64) -> session::Usage {
    let tokens = &sum.tokens;
    session::Usage {
        input_tokens: tokens.input,
        output_tokens: tokens.output,
        cache_read_input_tokens: tokens.cache_read,
        cache_creation: CacheCreation {
            ephemeral_5m_input_tokens: tokens.cache_5m,
            ephemeral_1h_input_tokens: tokens.cache_1h,
        },
        server_tool_use: ServerToolUse {
            web_search_requests: tokens.searches,
            web_fetch_requests: 0,
        },
        active_seconds: active.as_secs_f64(),
        list_cost: (!sum.unpriced).then(|| Money::from_nano_dollars(cost)),
    }
}

fn stats(state: &State, now: Micros) -> SessionStats {
    let end = state.terminated_at.unwrap_or(now);
    SessionStats {
        active_seconds: state.active.until(now).as_secs_f64(),
        duration_seconds: end.since(state.created_at).as_secs_f64(),
    }
}

fn thread_stats(state: &State, thread: &Thread, now: Micros) -> Option<ThreadStats> {
    let end = state.terminated_at.unwrap_or(now);
    let first = thread.active.first?;
    Some(ThreadStats {
        active_seconds: thread.active.until(now).as_secs_f64(),
        duration_seconds: end.since(state.created_at).as_secs_f64(),
        startup_seconds: first.since(state.created_at).as_secs_f64(),
    })
}
