//! Listing sessions: every filter, pages in both directions.

use std::{sync::Arc, time::Duration};

use outlast_protocol::{Micros, id::AgentId};
use outlast_session::{Proposal, State, Status, body::Config};

use super::fixture::World;
use crate::{Order, ResourceKind, SessionQuery};

pub(super) async fn run(world: &impl AsyncFn() -> World) {
    let world = world().await;
    let other = AgentId::mint(world.clock.now(), &*world.entropy);
    let kept = populate(&world, other).await;
    every_filter_and_page(&world, &kept, other).await;
    states_are_those_at_the_heads(&world).await;
}

fn all() -> SessionQuery {
    SessionQuery {
        agent: None,
        agent_version: None,
        statuses: Vec::new(),
        created_gt: None,
        created_gte: None,
        created_lt: None,
        created_lte: None,
        archived: true,
        order: Order::Forwards,
        after: None,
        limit: 1_000,
    }
}

/// Makes 24 sessions of two agents, some at one moment; some run, are archived or deleted.
async fn populate(world: &World, other: AgentId) -> Vec<Arc<State>> {
    let mut resource = world.resource(ResourceKind::Agent, &other.to_string());
    world.store.insert(resource.clone(), None).await.unwrap();
    resource.revision = 2;
    world.store.replace(resource, None).await.unwrap();
    let mut kept = Vec::new();
    for number in 0_u32..24 {
        if number % 4 == 0 {
            world.pass(Duration::from_secs(1));
        }
        let mut new = world.create();
        if number % 3 == 0 {
            let mut config = Config::clone(&new.config);
            config.agent.id = other;
            config.agent.version = 1 + number % 2;
            new.config = Arc::new(config);
        }
        let id = new.id;
        world
            .propose(id, Proposal::Create(Box::new(new)))
            .await
            .unwrap();
        match number % 5 {
            0 => drop(
                world
                    .propose(id, Proposal::Archive(world.key))
                    .await
                    .unwrap(),
            ),
            1 => drop(world.send(id, "run").await),
            2 => {
                world
                    .propose(id, Proposal::Delete(world.key))
                    .await
                    .unwrap();
                continue;
            }
            _ => {}
        }
        kept.push(world.state(id).await);
    }
    kept
}

fn fits(state: &State, query: &SessionQuery) -> bool {
    let agent = &state.config.as_ref().unwrap().agent;
    let at = state.created_at;
    query.agent.is_none_or(|id| id == agent.id)
        && query
            .agent_version
            .is_none_or(|version| version == u64::from(agent.version))
        && (query.statuses.is_empty() || query.statuses.contains(&state.shown()))
        && query.created_gt.is_none_or(|bound| at > bound)
        && query.created_gte.is_none_or(|bound| at >= bound)
        && query.created_lt.is_none_or(|bound| at < bound)
        && query.created_lte.is_none_or(|bound| at <= bound)
        && (query.archived || state.archived_at.is_none())
}

async fn every_filter_and_page(world: &World, kept: &[Arc<State>], other: AgentId) {
    let moment = kept[8].created_at;
    let queries = [
        all(),
        SessionQuery {
            archived: false,
            ..all()
        },
        SessionQuery {
            agent: Some(other),
            ..all()
        },
        SessionQuery {
            agent: Some(other),
            agent_version: Some(2),
            archived: false,
            ..all()
        },
        SessionQuery {
            statuses: vec![Status::Running],
            ..all()
        },
        SessionQuery {
            statuses: vec![Status::Idle, Status::Terminated],
            ..all()
        },
        SessionQuery {
            created_gt: Some(moment),
            ..all()
        },
        SessionQuery {
            created_gte: Some(moment),
            created_lt: Some(after(moment)),
            ..all()
        },
        SessionQuery {
            created_lt: Some(moment),
            ..all()
        },
        SessionQuery {
            created_lte: Some(moment),
            statuses: vec![Status::Idle],
            ..all()
        },
        SessionQuery {
            statuses: vec![Status::Rescheduling],
            ..all()
        },
    ];
    for query in queries {
        for order in [Order::Forwards, Order::Backwards] {
            let mut wanted: Vec<_> = kept.iter().filter(|state| fits(state, &query)).collect();
            wanted.sort_by_key(|state| (state.created_at, state.id));
            if order == Order::Backwards {
                wanted.reverse();
            }
            let wanted: Vec<_> = wanted.iter().map(|state| state.id).collect();
            for limit in [1, 4, 1_000] {
                let query = SessionQuery {
                    order,
                    limit,
                    ..query.clone()
                };
                assert_eq!(pages(world, query.clone()).await, wanted, "{query:?}");
            }
        }
    }
}

fn after(at: Micros) -> Micros {
    at.after(Duration::from_micros(1))
}

/// Reads page by page, checking each page's size and its word on whether more follow.
async fn pages(world: &World, mut query: SessionQuery) -> Vec<outlast_protocol::id::SessionId> {
    let mut found = Vec::new();
    loop {
        let page = world.store.sessions(&query).await.unwrap();
        assert!(page.sessions.len() <= query.limit);
        assert!(!page.more || page.sessions.len() == query.limit);
        found.extend(page.sessions.iter().map(|state| state.id));
        let last = page
            .sessions
            .last()
            .map(|state| (state.created_at, state.id));
        if !page.more {
            return found;
        }
        query.after = last;
    }
}

async fn states_are_those_at_the_heads(world: &World) {
    for state in world.store.sessions(&all()).await.unwrap().sessions {
        assert_eq!(state, world.state(state.id).await);
        assert!(state.config.is_some());
    }
}
