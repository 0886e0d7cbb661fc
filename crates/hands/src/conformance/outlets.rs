//! What is promised of ways out.

use std::{io, net::TcpListener, time::Duration};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use super::{Deed, Fixture, deed, in_time, refused};
use crate::{Keep, Outlet, Recipe};

/// Runs these checks, each with a new fixture; one that fits all where a driver has none of it.
pub(super) async fn run<F, Fut>(factory: &F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = Fixture>,
{
    let fixture = factory().await;
    if !fixture.provisioner.abilities().outlets {
        return nobody_has_a_way_out(&fixture).await;
    }
    what_is_said_inside_is_heard_outside(&fixture).await;
    who_asked_for_none_has_none(&factory().await).await;
    an_end_closes_it(&factory().await).await;
    what_is_given_is_found_inside(&factory().await).await;
}

/// Draws a recipe that asks for a way out.
fn recipe(fixture: &Fixture) -> Recipe {
    Recipe {
        outlet: Some(Outlet::default()),
        ..fixture.recipe()
    }
}

/// A driver without ways out says so.
async fn nobody_has_a_way_out(fixture: &Fixture) {
    let hand = fixture.hand().await;
    let asked = fixture.provisioner.outlet(hand.incarnation()).await;
    let error = asked.expect_err("there is none");
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
}

/// Answers one line with itself and what was put before it.
async fn answer(outlet: TcpListener, before: &str) {
    let outlet = tokio::net::TcpListener::from_std(outlet).expect("it does not block");
    let (mut stream, _) = in_time(outlet.accept()).await.expect("somebody comes");
    let mut line = String::new();
    let heard = BufReader::new(&mut stream).read_line(&mut line).await;
    heard.expect("something is said");
    let answer = format!("{before} {line}");
    let answered = stream.write_all(answer.as_bytes()).await;
    answered.expect("it is heard");
}

async fn outlet(fixture: &Fixture, recipe: &Recipe) -> Option<TcpListener> {
    let asked = fixture.provisioner.outlet(recipe.incarnation);
    in_time(asked).await.expect("it can be asked for")
}

fn say(word: &str) -> Deed {
    let word = word.to_owned();
    Deed::Say { word }
}

/// Whoever holds the listener is reached; one after the other, and who comes meanwhile waits.
async fn what_is_said_inside_is_heard_outside(fixture: &Fixture) {
    let recipe = recipe(fixture);
    let hand = fixture.provisioner.provision(&recipe).await;
    let hand = hand.expect("a hand is made");
    for server in ["first", "second"] {
        let late = async {
            // Nobody serves it when this is said.
            tokio::time::sleep(Duration::from_millis(100)).await;
            let outlet = outlet(fixture, &recipe).await.expect("it has one");
            answer(outlet, server).await;
        };
        let word = say("word");
        let (heard, ()) = tokio::join!(deed(fixture, &hand, &word), late);
        assert_eq!(heard, format!("{server} word"));
    }
}

/// Without one nothing listens inside.
async fn who_asked_for_none_has_none(fixture: &Fixture) {
    let recipe = fixture.recipe();
    let hand = fixture.provisioner.provision(&recipe).await;
    let hand = hand.expect("a hand is made");
    assert!(outlet(fixture, &recipe).await.is_none());
    refused(fixture, &hand, &say("word")).await;
    let unknown = fixture.recipe();
    assert!(outlet(fixture, &unknown).await.is_none());
}

/// The dead have none, and a successor has its own.
async fn an_end_closes_it(fixture: &Fixture) {
    let (first, node) = (recipe(fixture), &fixture.provisioner);
    drop(node.provision(&first).await.expect("a hand is made"));
    let reaped = node.reap(first.incarnation, Keep::Layer).await;
    reaped.expect("it is reaped");
    assert!(outlet(fixture, &first).await.is_none());
    let next = Recipe {
        predecessor: Some(first.incarnation),
        ..recipe(fixture)
    };
    let hand = node.provision(&next).await.expect("a successor is made");
    let own = outlet(fixture, &next).await.expect("it has one");
    let word = say("word");
    let (heard, ()) = tokio::join!(deed(fixture, &hand, &word), answer(own, "next"));
    assert_eq!(heard, "next word");
}

/// Variables are found inside, and what leads programs out.
async fn what_is_given_is_found_inside(fixture: &Fixture) {
    let recipe = Recipe {
        outlet: Some(Outlet {
            variables: vec![("TOKEN".to_owned(), "a placeholder".to_owned())],
            authority: Some("-----BEGIN CERTIFICATE-----\n".to_owned()),
        }),
        ..fixture.recipe()
    };
    let hand = fixture.provisioner.provision(&recipe).await;
    let hand = hand.expect("a hand is made");
    for (name, value) in [
        ("TOKEN", "a placeholder"),
        ("https_proxy", "http://127.0.0.1:3128"),
        ("SSL_CERT_FILE", crate::outlet::BUNDLE),
        ("npm_config_cafile", crate::outlet::BUNDLE),
        ("NOTHING_OF_THE_KIND", "absent"),
    ] {
        let name = name.to_owned();
        assert_eq!(deed(fixture, &hand, &Deed::Variable { name }).await, value);
    }
}
