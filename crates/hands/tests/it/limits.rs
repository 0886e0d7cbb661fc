//! Bad days inside: too much output, too long, too many, too large, killed.

use std::{sync::Arc, time::Duration};

use outlast_hands::{Hand, Limits};
use outlast_protocol::Outcome;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::{FENCE, Node, bash, call, call_id, failed, fine, raw, sh, text, until};

async fn restart(hand: &Arc<dyn Hand>) {
    fine(&call(hand, "bash", json!({"restart": true})).await);
}

/// The resident memory of a process of the host.
fn resident_kib(pid: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_megabytes_stream_through_a_bounded_buffer() {
    let node = Node::new().await;
    let hand = node.hand().await;
    let before = resident_kib("self");
    let result = bash(
        &hand,
        "head -c 300000000 /dev/zero | tr '\\0' x; echo; echo the end",
    )
    .await;
    let text = fine(&result);
    assert!(
        text.starts_with("[output truncated: the first 299897"),
        "{}",
        &text[..80]
    );
    assert!(
        text.ends_with("xx\nthe end") && text.len() < 9000,
        "{}",
        text.len()
    );
    assert!(resident_kib("self") < before + 50_000, "the server grew");
    let inside = sh(&hand, "cat /proc/1/status | grep VmRSS").await;
    let kib: u64 = inside.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < 8000, "PID 1 grew to {kib} KiB");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_of_the_output_is_kept_as_far_as_the_limit_says() {
    let node = Node::new().await;
    let hand = node
        .limited(Limits {
            output_bytes: 50,
            ..Limits::default()
        })
        .await;
    let text = sh(&hand, "seq 1 1000").await;
    assert!(
        text.starts_with("[output truncated: the first 3843 bytes are left out]\n"),
        "{text}"
    );
    assert!(text.ends_with("\n999\n1000") && text.len() < 110, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_in_the_background_does_not_hold_the_call() {
    let node = Node::new().await;
    let hand = node.hand().await;
    // Each keeps the output open.
    assert_eq!(sh(&hand, "sleep 500 & echo one").await, "one");
    assert_eq!(
        sh(&hand, "(sleep 500; echo late) & disown; echo two").await,
        "two"
    );
    assert_eq!(sh(&hand, "setsid sleep 500 & echo three").await, "three");
    assert_eq!(
        sh(&hand, "nohup yes >/dev/null 2>&1 & echo four").await,
        "four"
    );
    // And one that writes to it for ever.
    let text = sh(&hand, "yes noise & sleep 0.2; echo five").await;
    assert!(text.contains("noise"), "{}", text.len());
    assert!(text.len() < 10_000);
    sh(&hand, "kill %5 2>/dev/null; pkill yes; true").await;
    // A job's late output comes with the next command.
    sh(&hand, "(sleep 0.1; echo late) & true").await;
    assert!(sh(&hand, "sleep 0.5; echo now").await.contains("late\nnow"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_ignores_signals_is_killed_with_all_it_started() {
    let node = Node::new().await;
    let hand = node.hand().await;
    let stubborn = "trap '' TERM INT HUP; (trap '' TERM; sleep 987) & \
                    bash -c 'trap \"\" TERM; set -m; sleep 987 & sleep 987'";
    let result = call(
        &hand,
        "bash",
        json!({"command": stubborn, "timeout_ms": 300}),
    )
    .await;
    assert_eq!(result.outcome, Outcome::Limit);
    restart(&hand).await;
    assert_eq!(sh(&hand, "pgrep -f 'sleep 987' | wc -l").await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_runs_no_longer_than_the_hand_allows() {
    let node = Node::new().await;
    let call_limit = Duration::from_millis(300);
    let hand = node
        .limited(Limits {
            call: call_limit,
            ..Limits::default()
        })
        .await;
    let result = call(
        &hand,
        "bash",
        json!({"command": "sleep 100", "timeout_ms": 90_000}),
    )
    .await;
    assert!(
        failed(&result).contains("timed out after 300 ms"),
        "{result:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_waits_for_processes_and_goes_on_is_told_of_their_limit() {
    let node = Node::new().await;
    let limits = Limits {
        pids: 64,
        ..Limits::default()
    };
    let hand = node.limited(limits).await;
    let waits = "for i in $(seq 100); do sleep 1 & done; wait; echo done";
    let said = fine(&bash(&hand, waits).await);
    assert!(said.contains("done"), "{said}");
    assert!(said.contains("limit of 64 processes was reached"), "{said}");
    let other = "echo 'fork: Resource temporarily unavailable'";
    assert!(!fine(&bash(&hand, other).await).contains("limit of"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_meets_the_limit_and_a_restart_ends_it() {
    let node = Node::new().await;
    let hand = node
        .limited(Limits {
            pids: 64,
            ..Limits::default()
        })
        .await;
    drop(bash(&hand, "f() { f | f & }; f; sleep 1; true").await);
    // File tools still work beside it.
    fine(&call(&hand, "write", json!({"file_path": "x", "content": "y"})).await);
    restart(&hand).await;
    assert_eq!(sh(&hand, "cat x").await, "y");
    // One that leaves the session.
    let detached =
        "for i in $(seq 200); do setsid sleep 600 & done 2>&1; wait -n; sleep 0.1; /bin/true";
    let result = call(
        &hand,
        "bash",
        json!({"command": detached, "timeout_ms": 20_000}),
    )
    .await;
    let words = failed(&result);
    assert!(
        words.contains("limit of 64 processes was reached"),
        "{words}"
    );
    restart(&hand).await;
    assert_eq!(sh(&hand, "pgrep sleep | wc -l").await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_bomb_gives_a_clear_result() {
    let node = Node::new().await;
    let limits = Limits {
        memory_bytes: 96 << 20,
        ..Limits::default()
    };
    let hand = node.limited(limits).await;
    // The whole does not fail, and is told all the same.
    let result = bash(&hand, "head -c 400m /dev/zero | tail; echo status $?").await;
    assert_eq!((result.is_error, result.outcome), (false, Outcome::Done));
    let again = bash(&hand, "x=$(head -c 400m /dev/zero | tr '\\0' x); echo no").await;
    for result in [result, again] {
        let words = text(&result);
        assert!(words.contains("memory limit of "), "{result:?}");
    }
    restart(&hand).await;
    assert_eq!(sh(&hand, "echo alive").await, "alive");
    // A full /tmp is an error of the command, and the sandbox goes on.
    let result = bash(&hand, "head -c 400m /dev/zero > /tmp/full").await;
    assert!(failed(&result).contains("No space left"), "{result:?}");
    assert_eq!(sh(&hand, "rm /tmp/full; echo alive").await, "alive");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shell_that_ends_says_how() {
    let node = Node::new().await;
    let hand = node.hand().await;
    for (command, words) in [
        (
            "echo a; exit 3",
            "a\n[bash: the shell exited with status 3; the session is terminated",
        ),
        (
            "kill -9 $$",
            "[bash: the shell was killed by signal 9; the session is terminated",
        ),
        (
            "exec /bin/true",
            "[bash: the shell exited with status 0; the session is terminated",
        ),
        (
            "set -e; false",
            "[bash: the shell exited with status 1; the session is terminated",
        ),
    ] {
        let text = failed(&bash(&hand, command).await);
        assert!(text.starts_with(words), "{command}: {text}");
        assert!(failed(&bash(&hand, "true").await).contains("restart required"));
        restart(&hand).await;
    }
    // Ended between calls.
    sh(&hand, "(sleep 0.1; kill -9 $$) & true").await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(failed(&bash(&hand, "true").await).contains("killed by signal 9"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_cannot_confuse_the_shell() {
    let node = Node::new().await;
    let hand = node.hand().await;
    sh(
        &hand,
        "exec 3>&1 4>&1; shopt -s extglob; set -u; printf() { echo mine; }; alias ls=false",
    )
    .await;
    assert_eq!(sh(&hand, "printf x").await, "mine");
    assert_eq!(sh(&hand, "ls -d /workspace").await, "/workspace");
    sh(&hand, "exec </dev/zero; break; continue; return 0; true").await;
    assert_eq!(sh(&hand, "echo \"$((1+1))\"; unset -f printf").await, "2");
    let result = bash(&hand, "echo '").await;
    assert!(failed(&result).contains("unexpected EOF"), "{result:?}");
    assert_eq!(
        sh(&hand, "set -x; echo traced; set +x").await,
        "++ echo traced\ntraced\n++ set +x"
    );
    // A forged status does not end somebody else's command.
    assert_eq!(
        sh(
            &hand,
            "for fd in /proc/$$/fd/*; do echo 99:0 > $fd; done 2>/dev/null; echo on"
        )
        .await
        .lines()
        .last(),
        Some("on")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_command_stops_whole_and_the_next_gets_a_new_shell() {
    let node = Node::new().await;
    let hand = node.hand().await;
    sh(&hand, "x=kept").await;
    let stopped = async |command: &str| {
        let (id, input) = (call_id(), raw(&json!({"command": command})));
        let stop = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            hand.cancel(id).await;
        };
        let (result, ()) = tokio::join!(hand.execute(FENCE, id, "bash", &input), stop);
        result.unwrap()
    };
    let result = stopped("echo begun; sleep 1000; echo not; touch not").await;
    assert_eq!(result.outcome, Outcome::Interrupted);
    let words = "begun\n[interrupted; the next call gets a new shell in /workspace]";
    assert_eq!(failed(&result), words);
    assert_eq!(sh(&hand, "ls not 2>/dev/null; echo .$x").await, ".");
    let result = stopped("trap '' INT TERM; while true; do :; done").await;
    assert_eq!(result.outcome, Outcome::Interrupted);
    sh(&hand, "true").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_call_and_a_file_tool_can_be_cancelled() {
    let node = Node::new().await;
    let hand = node.hand().await;
    sh(
        &hand,
        "for i in $(seq 40); do head -c 10m /dev/zero | tr '\\0' a > f$i; done",
    )
    .await;
    let execute = async |id, tool: &str, input: Value| {
        hand.execute(FENCE, id, tool, &raw(&input)).await.unwrap()
    };
    let (running, waiting, grep) = (call_id(), call_id(), call_id());
    let stop = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        hand.cancel(grep).await;
        hand.cancel(waiting).await;
        hand.cancel(running).await;
    };
    let (first, second, third, ()) = tokio::join!(
        execute(running, "bash", json!({"command": "sleep 1000"})),
        execute(waiting, "bash", json!({"command": "touch never"})),
        execute(grep, "grep", json!({"pattern": "(a|aa)*b"})),
        stop
    );
    assert_eq!([first.outcome, second.outcome], [Outcome::Interrupted; 2]);
    assert!(
        matches!(third.outcome, Outcome::Interrupted | Outcome::Done),
        "{third:?}"
    );
    assert!(failed(&bash(&hand, "ls never").await).contains("No such file"));
}

#[tokio::test(flavor = "multi_thread")]
async fn file_tools_run_beside_a_command_and_commands_one_after_another() {
    let node = Node::new().await;
    let hand = node.hand().await;
    let slow = bash(&hand, "echo a > order; sleep 1; echo b >> order; cat order");
    let next = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        bash(&hand, "echo c >> order; cat order").await
    };
    let beside = async {
        let began = Instant::now();
        loop {
            let result = call(&hand, "read", json!({"file_path": "order"})).await;
            if !result.is_error || began.elapsed() > Duration::from_secs(30) {
                return fine(&result);
            }
        }
    };
    let (slow, next, beside) = tokio::join!(slow, next, beside);
    assert_eq!(beside, "a\n", "read while the command was running");
    assert_eq!(
        (fine(&slow), fine(&next)),
        ("a\nb".into(), "a\nb\nc".into())
    );
    let reads = (0..30).map(|_| call(&hand, "read", json!({"file_path": "order"})));
    for result in futures::future::join_all(reads).await {
        assert_eq!(fine(&result), "a\nb\nc\n");
    }
    until("nothing is left of the readers", || true).await;
}
