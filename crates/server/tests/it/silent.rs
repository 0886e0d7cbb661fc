//! A host of sandboxes that is stopped and goes on, as a server and its operator meet it.

use serde_json::json;

use crate::support::{
    Binary, Does as _, Output, bash, host, leftovers, of, outlast, said, script, signal, until,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_was_stopped_for_long_does_not_take_that_for_the_silence_of_its_server() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut command = Binary::command(dir);
    command.env("OUTLAST__HANDS__ORPHAN_SECONDS", "2");
    let server = Binary::start_as(&mut command, dir, None).await;
    let client = &server.client;
    let session = client.session("scripted").await;
    let turn = async |command: &str, count: usize| {
        let steps = json!([bash(command), {"text": "end"}]);
        client.send(&session, &[script(steps)]).await;
        let events = client.idle(&session, count).await;
        let results = of(&events, "agent.tool_result");
        said(results.last().unwrap()).trim().to_owned()
    };
    turn("kept=here", 1).await;
    let host = host::pid(dir).unwrap();
    signal(host, "STOP").await;
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    signal(host, "CONT").await;
    assert_eq!(turn("echo $kept", 2).await, "here");
    assert_eq!(host::pid(dir), Some(host));
    assert!(server.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_host_holds_nobody_up_and_goes_on_with_all_it_had() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let server = Binary::start(dir, None).await;
    let client = &server.client;
    let (one, two) = (
        client.session("scripted").await,
        client.session("scripted").await,
    );
    let host = host::pid(dir).unwrap();
    let steps = json!([bash("echo kept > note; echo x > begun; sleep 600"), {"text": "end"}]);
    client.send(&one, &[script(steps)]).await;
    until("the call to run", async || {
        leftovers::inside(dir, "begun").map(drop)
    })
    .await;
    signal(host, "STOP").await;

    // An interrupt is heard at once, though nobody knows of the silence yet.
    client
        .send(&one, &[json!({"type": "user.interrupt"})])
        .await;
    client.idle(&one, 1).await;
    let doctor = until("the doctor to say so", async || {
        let found = Output::of(outlast(dir).arg("doctor")).await;
        found.out.contains("has not answered for").then_some(found)
    })
    .await;
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(doctor.out.contains(&host.to_string()), "{doctor:?}");
    let found = Output::of(outlast(dir).args(["doctor", &one])).await;
    assert!(found.out.contains("has not answered since"), "{found:?}");
    assert!(found.out.contains("hand: silent"), "{found:?}");

    // A call of a session without a sandbox is an error, and the turn goes on.
    let steps = json!([bash("echo two"), {"text": "end"}]);
    client.send(&two, &[script(steps.clone())]).await;
    let events = client.idle(&two, 1).await;
    let results = of(&events, "agent.tool_result");
    assert_eq!(results[0]["is_error"], true, "{results:?}");
    assert!(
        said(results[0]).contains("has not answered for"),
        "{results:?}"
    );

    signal(host, "CONT").await;
    until("the doctor to find nothing", async || {
        let found = Output::of(outlast(dir).arg("doctor")).await;
        (found.code == Some(0)).then_some(())
    })
    .await;
    let left = "cat /proc/[0-9]*/comm 2>/dev/null | grep -c '^sleep$'";
    let again = format!("cat note; {left} || true");
    let again = json!([bash(&again), {"text": "end"}]);
    client.send(&one, &[script(again)]).await;
    let events = client.idle(&one, 2).await;
    let results = of(&events, "agent.tool_result");
    assert_eq!(results.len(), 2, "{results:?}");
    assert!(said(results[0]).contains("interrupted"), "{results:?}");
    assert_eq!(
        results[1]["content"].as_array().unwrap().len(),
        1,
        "the same sandbox"
    );
    assert!(said(results[1]).starts_with("kept\n0"), "{}", results[1]);
    client.send(&two, &[script(steps)]).await;
    let events = client.idle(&two, 2).await;
    let results = of(&events, "agent.tool_result");
    assert_eq!(said(results[1]).trim(), "two");
    assert_eq!(host::pid(dir), Some(host));
    assert!(server.stop().await.success());
    assert_eq!(leftovers::processes(dir), Vec::<String>::new());
}
