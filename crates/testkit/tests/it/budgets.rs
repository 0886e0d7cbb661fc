//! What may not be paid for is not asked.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use axum::body::Body;
use outlast_egress::{Budget, Front, Payer};
use outlast_kernel::Identity;
use outlast_model::Facts;
use outlast_protocol::{ErrorCode, Problem, key::Scope};
use outlast_session::Kind;
use serde_json::json;
use tower::ServiceExt as _;

use crate::lives::World;

/// Pays for so many requests, and notes who asked.
#[derive(Debug, Default)]
struct Purse {
    left: AtomicU64,
    asked: Mutex<Vec<(Payer, String)>>,
}

#[async_trait]
impl Budget for Purse {
    async fn admit(&self, payer: Payer, model: &str) -> Result<(), Problem> {
        self.asked.lock().unwrap().push((payer, model.to_owned()));
        let pay = |left: u64| left.checked_sub(1);
        let paid = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, pay);
        paid.map(|_| ())
            .map_err(|_| Problem::new(ErrorCode::RateLimited, "the purse is empty"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_cannot_be_paid_for_ends_in_that_word() {
    let purse = Arc::new(Purse::default());
    let mut world = World::new(1).await;
    world.budget = purse.clone();
    let life = world.start(None).await;
    let session = world.session(&life).await;
    let text = json!({"script": [{"text": "Paid."}]}).to_string();
    let message = json!([{"type": "user.message", "content": [{"type": "text", "text": text}]}]);
    life.send(session, &message).await;
    assert!(life.rests(session).await);
    let log = world.log(session).await;
    assert!(!log.iter().any(|record| record.kind == Kind::RequestStart));
    let errors: Vec<&str> = log
        .iter()
        .filter(|record| record.kind == Kind::SessionError)
        .map(|record| record.body.text())
        .collect();
    let [error] = errors[..] else {
        panic!("{errors:?}");
    };
    assert!(
        error.contains("billing_error") && error.contains("the purse is empty"),
        "{error}"
    );
    assert_eq!(world.model.seen().0, 0, "nothing left");
    let asker = match purse.asked.lock().unwrap()[..] {
        [(Payer::Brain(asker), ref model)] if model == "scripted" => asker,
        ref other => panic!("{other:?}"),
    };
    assert_eq!((asker.session, asker.thread), (session, 0));

    purse.left.store(1, Ordering::SeqCst);
    life.send(session, &message).await;
    assert!(life.rests(session).await);
    let log = world.log(session).await;
    let starts = log
        .iter()
        .filter(|record| record.kind == Kind::RequestStart);
    assert_eq!((starts.count(), world.model.seen().0), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_cannot_pay_is_told() {
    let purse = Arc::new(Purse::default());
    let world = World::new(1).await;
    let life = world.start(None).await;
    let facts = Arc::new(Facts::load(None).unwrap());
    let front = Front::new(life.kernel.clone(), facts, None).under(purse.clone());
    let identity = Identity {
        key: life.key,
        scope: Scope::ReadWrite,
    };
    let body = json!({
        "model": "scripted", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}],
    });
    let ask = async || {
        let mut request = http::Request::post("/v1/messages")
            .body(Body::from(body.to_string()))
            .unwrap();
        request.extensions_mut().insert(identity);
        front.clients().oneshot(request).await.unwrap()
    };
    let refused = ask().await;
    assert_eq!(refused.status(), 429);
    let problem = refused.extensions().get::<Problem>().unwrap();
    assert_eq!(problem.message, "the purse is empty");
    purse.left.store(1, Ordering::SeqCst);
    assert_eq!(ask().await.status(), 200);
    let asked = purse.asked.lock().unwrap().clone();
    let expected = (Payer::Key(life.key), "scripted".to_owned());
    assert_eq!(asked, [expected.clone(), expected]);
}
