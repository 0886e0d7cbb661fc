//! `bash`, section by section of the reference.

use outlast_protocol::Outcome;
use serde_json::json;

use crate::support::{Node, bash, call, failed, fine, sh, text};

#[tokio::test(flavor = "multi_thread")]
async fn state_persists_between_calls() {
    let node = Node::new().await;
    println!("{}", node.driver.verdict());
    let hand = node.hand().await;
    assert_eq!(sh(&hand, "pwd").await, "/workspace");
    sh(
        &hand,
        "cd /tmp; x='a b'; f() { echo \"f $1\"; }; export Y=1",
    )
    .await;
    assert_eq!(
        sh(&hand, "pwd; echo \"$x\"; f z; env | grep ^Y=").await,
        "/tmp\na b\nf z\nY=1"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_merged_input_empty_and_nothing_has_a_word() {
    let node = Node::new().await;
    let hand = node.hand().await;
    assert_eq!(
        sh(&hand, "echo out; echo err >&2; echo out2").await,
        "out\nerr\nout2"
    );
    assert_eq!(sh(&hand, "cat; read x; echo \"<$x>\"").await, "<>");
    assert_eq!(sh(&hand, "true").await, "(no output)");
    for nothing in ["", " \n\t"] {
        assert_eq!(
            failed(&bash(&hand, nothing).await),
            "bash: command must not be empty"
        );
    }
    assert_eq!(
        sh(&hand, r"printf '\033[31mred\033[0m\tx\n'").await,
        "red\tx"
    );
    assert_eq!(
        sh(&hand, "echo \"it's\" 'a \"quote\"' $((1+1))").await,
        "it's a \"quote\" 2"
    );
    assert_eq!(sh(&hand, "cat <<'X'\none\n  two\nX").await, "one\n  two");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_an_error_with_its_output() {
    let node = Node::new().await;
    let hand = node.hand().await;
    let result = bash(&hand, "echo before; exit_with() { return 3; }; exit_with").await;
    assert_eq!(failed(&result), "before\n[exit status 3]");
    assert_eq!(result.outcome, Outcome::Done);
    let result = bash(&hand, "if then").await;
    assert!(failed(&result).contains("syntax error"), "{result:?}");
    assert_eq!(sh(&hand, "echo still here").await, "still here");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_needs_a_restart() {
    let node = Node::new().await;
    let hand = node.hand().await;
    sh(&hand, "x=1").await;
    let result = call(
        &hand,
        "bash",
        json!({"command": "echo begun; sleep 100", "timeout_ms": 200}),
    )
    .await;
    assert_eq!(result.outcome, Outcome::Limit);
    let words = failed(&result);
    assert!(
        words.starts_with("begun\n") && words.contains("timed out after 200 ms"),
        "{words}"
    );
    let words = failed(&bash(&hand, "echo hi").await);
    assert!(words.contains("restart required"), "{words}");
    assert_eq!(
        fine(&call(&hand, "bash", json!({"restart": true})).await),
        "bash session restarted"
    );
    assert_eq!(sh(&hand, "echo \"<$x>\"; pwd").await, "<>\n/workspace");
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_command_nor_restart_asks_for_a_command() {
    let node = Node::new().await;
    let hand = node.hand().await;
    let result = call(&hand, "bash", json!({})).await;
    assert_eq!(failed(&result), "bash: command is required");
    let result = call(&hand, "bash", json!({"command": 3})).await;
    assert_eq!(
        failed(&result),
        "bash: command must be a string, not a number"
    );
    let result = call(&hand, "nonsense", json!({})).await;
    assert!(
        text(&result).contains("unknown tool `nonsense`"),
        "{result:?}"
    );
}
