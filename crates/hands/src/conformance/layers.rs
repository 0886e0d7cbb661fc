//! What a workspace is like after its hand, its machine, or both are gone.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use outlast_protocol::{Outcome, id::IncarnationId};
use tokio::io::{AsyncRead, AsyncReadExt as _, ReadBuf};

use super::{Deed, FENCE, Fixture, ask, deed, in_time, look, quick, running};
use crate::{
    CallError, Fence, Hand, Keep, Limits, Promise, ProvisionError, Recalled, Recipe,
    files::{Packed, Sum},
};

/// Runs every check, each with a new fixture.
pub(super) async fn run<F, Fut>(factory: &F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = Fixture>,
{
    if !factory().await.provisioner.abilities().layers {
        return nothing_is_pretended(&factory().await).await;
    }
    a_workspace_comes_back_as_it_was(&factory().await).await;
    a_pack_that_is_not_what_it_should_be_changes_nothing(&factory().await).await;
    a_layer_is_laid_only_before_a_life(&factory().await).await;
    what_a_hand_left_is_packed_until_it_is_reaped(&factory().await).await;
    a_running_call_does_not_mind(&factory().await).await;
    a_successor_takes_the_layer_over(&factory().await).await;
    a_journal_stays_with_its_incarnation(&factory().await).await;
}

/// A driver without layers says so, whatever is asked.
async fn nothing_is_pretended(fixture: &Fixture) {
    let (node, hand) = (&fixture.provisioner, fixture.hand().await.incarnation());
    assert!(!node.holds(hand).await.expect("it says so"));
    let (sum, bytes) = (sum_of(b"x"), b"x");
    let next = fixture.recipe().incarnation;
    let kinds = [
        node.checkpoint(hand).await.err(),
        node.restore(next, &Limits::default(), packed(&sum, bytes))
            .await
            .err(),
    ];
    for error in kinds {
        let kind = error.map(|error| error.kind());
        assert_eq!(kind, Some(io::ErrorKind::Unsupported));
    }
}

fn sum_of(bytes: &[u8]) -> Sum {
    Sum {
        entries: 1,
        bytes: bytes.len() as u64,
        digest: blake3::hash(bytes).to_hex().to_string(),
    }
}

fn packed(sum: &Sum, bytes: &[u8]) -> Packed {
    Packed {
        sum: sum.clone(),
        content: Box::pin(io::Cursor::new(bytes.to_vec())),
    }
}

/// Takes a checkpoint; what is read is what the sum says.
async fn taken(fixture: &Fixture, hand: IncarnationId) -> (Sum, Vec<u8>) {
    let taken = in_time(fixture.provisioner.checkpoint(hand)).await;
    let Packed { sum, mut content } = taken.expect("a checkpoint is taken");
    let mut bytes = Vec::new();
    let read = in_time(content.read_to_end(&mut bytes)).await;
    read.expect("it can be read");
    let Sum {
        bytes: size,
        digest,
        ..
    } = &sum;
    let found = sum_of(&bytes);
    assert_eq!((size, digest), (&found.bytes, &found.digest));
    (sum, bytes)
}

async fn laid(fixture: &Fixture, hand: IncarnationId, sum: &Sum, bytes: &[u8]) -> io::Result<()> {
    in_time(
        fixture
            .provisioner
            .restore(hand, &Limits::default(), packed(sum, bytes)),
    )
    .await
}

/// Writes a small file into the workspace.
async fn write(fixture: &Fixture, hand: &Arc<dyn Hand>, name: &str, bytes: &[u8]) {
    let write = Deed::Write {
        path: format!("/workspace/{name}"),
        bytes: bytes.to_vec(),
        mode: 0o644,
    };
    deed(fixture, hand, &write).await;
}

/// Looks at a file of the workspace.
async fn seen(fixture: &Fixture, hand: &Arc<dyn Hand>, name: &str) -> String {
    look(fixture, hand, &format!("/workspace/{name}")).await
}

/// Fills a workspace; returns what is where.
async fn fill(fixture: &Fixture, hand: &Arc<dyn Hand>) -> Vec<(String, String)> {
    let mut wanted = Vec::new();
    let binary: Vec<u8> = (0..=u8::MAX).collect();
    let files: [(&str, &[u8], u32); 6] = [
        ("a", b"a\n", 0o644),
        ("empty", b"", 0o600),
        ("run", b"#!/bin/sh\n", 0o755),
        ("deep/er/binary", &binary, 0o640),
        ("line\nbreak \u{1f980}", b"strange", 0o444),
        ("%2e'$(x)\\", b"", 0o644),
    ];
    for (name, bytes, mode) in files {
        let path = format!("/workspace/{name}");
        let (bytes, found) = (bytes.to_vec(), Deed::file(mode, bytes));
        wanted.push((path.clone(), found));
        deed(fixture, hand, &Deed::Write { path, bytes, mode }).await;
    }
    let (path, count) = ("/workspace/large".to_owned(), 300_000);
    wanted.push((path.clone(), Deed::file(0o644, &Deed::lines(count))));
    deed(fixture, hand, &Deed::Lines { path, count }).await;
    let (path, bytes) = ("/workspace/hole".to_owned(), 16 << 20);
    let mut content = vec![0; 16 << 20];
    content.extend_from_slice(Deed::END);
    wanted.push((path.clone(), Deed::file(0o644, &content)));
    deed(fixture, hand, &Deed::Hole { path, bytes }).await;
    for (name, target) in [
        ("link", "a"),
        ("deep/dangling", "../none\n"),
        ("out", "/etc"),
    ] {
        let (path, target) = (format!("/workspace/{name}"), target.to_owned());
        wanted.push((path.clone(), format!("link {target}").trim_end().to_owned()));
        deed(fixture, hand, &Deed::Link { path, target }).await;
    }
    wanted.push(("/workspace/deep/er".to_owned(), "folder".to_owned()));
    wanted
}

/// Bytes, permissions, links and holes, as they were at that moment.
async fn a_workspace_comes_back_as_it_was(fixture: &Fixture) {
    let (node, hand) = (&fixture.provisioner, fixture.hand().await);
    let mut wanted = fill(fixture, &hand).await;
    write(fixture, &hand, "removed", b"x").await;
    let path = "/workspace/removed".to_owned();
    deed(fixture, &hand, &Deed::Remove { path: path.clone() }).await;
    wanted.push((path, "absent".to_owned()));
    wanted.push(("/workspace/late".to_owned(), "absent".to_owned()));
    let (sum, bytes) = taken(fixture, hand.incarnation()).await;
    assert!(sum.bytes < 4 << 20, "a hole is no bytes: {sum:?}");
    write(fixture, &hand, "late", b"x").await;
    write(fixture, &hand, "a", b"other").await;
    let next = fixture.recipe();
    let laid = laid(fixture, next.incarnation, &sum, &bytes).await;
    laid.expect("it is laid");
    assert!(node.holds(next.incarnation).await.expect("it says so"));
    let copy = node.provision(&next).await.expect("a hand is made");
    for (path, what) in &wanted {
        assert_eq!(&look(fixture, &copy, path).await, what, "{path:?}");
    }
    // Two workspaces, from now on.
    write(fixture, &copy, "a", b"its own").await;
    let theirs = seen(fixture, &hand, "a").await;
    assert_eq!(theirs, Deed::file(0o644, b"other"));
    // What came back can be packed as well.
    let (again, _) = taken(fixture, next.incarnation).await;
    assert_ne!(again.digest, sum.digest);
}

/// Fails when it is read.
struct Broken;

impl AsyncRead for Broken {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(Err(io::Error::other("it broke off")))
    }
}

/// A reader that fails says nothing of what is stored.
async fn one_that_cannot_be_read_is_not_called_wrong(
    fixture: &Fixture,
    incarnation: IncarnationId,
    sum: &Sum,
    bytes: &[u8],
) {
    let node = &fixture.provisioner;
    for count in [0, bytes.len() / 2, bytes.len()] {
        let first: Vec<u8> = bytes.iter().copied().take(count).collect();
        let (sum, content) = (sum.clone(), Box::pin(io::Cursor::new(first).chain(Broken)));
        let packed = Packed { sum, content };
        let limits = Limits::default();
        let refused = in_time(node.restore(incarnation, &limits, packed)).await;
        let kind = refused.expect_err("it broke off").kind();
        assert_ne!(kind, io::ErrorKind::InvalidData, "after {count} bytes");
        assert!(!node.holds(incarnation).await.expect("it says so"));
    }
}

/// Nothing half done, whatever is wrong with it.
async fn a_pack_that_is_not_what_it_should_be_changes_nothing(fixture: &Fixture) {
    let (node, hand) = (&fixture.provisioner, fixture.hand().await);
    deed(
        fixture,
        &hand,
        &Deed::Lines {
            path: "/workspace/large".to_owned(),
            count: 100_000,
        },
    )
    .await;
    let (sum, bytes) = taken(fixture, hand.incarnation()).await;
    let next = fixture.recipe();
    let flipped = |at: usize| -> Vec<u8> {
        let flip = |(index, byte): (usize, &u8)| if index == at { byte ^ 0x20 } else { *byte };
        bytes.iter().enumerate().map(flip).collect()
    };
    let first = |count: usize| -> Vec<u8> { bytes.iter().copied().take(count).collect() };
    let longer: Vec<u8> = bytes.iter().copied().chain(*b"more").collect();
    let more = Sum {
        entries: sum.entries + 1,
        ..sum.clone()
    };
    let other = Sum {
        digest: sum_of(b"other").digest,
        ..sum.clone()
    };
    let tries = [
        (&sum, first(bytes.len() / 2)),
        (&sum, first(bytes.len() - 1)),
        (&sum, Vec::new()),
        (&sum, longer),
        (&sum, flipped(0)),
        (&sum, flipped(bytes.len() / 2)),
        (&sum, flipped(bytes.len() - 1)),
        (&sum, vec![0; bytes.len()]),
        (&more, bytes.clone()),
        (&other, bytes.clone()),
    ];
    for (number, (sum, wrong)) in tries.iter().enumerate() {
        let refused = laid(fixture, next.incarnation, sum, wrong).await;
        let kind = refused.map_err(|error| error.kind());
        assert_eq!(kind, Err(io::ErrorKind::InvalidData), "try {number}");
        assert!(
            !node.holds(next.incarnation).await.expect("it says so"),
            "try {number} left something"
        );
    }
    one_that_cannot_be_read_is_not_called_wrong(fixture, next.incarnation, &sum, &bytes).await;
    laid(fixture, next.incarnation, &sum, &bytes)
        .await
        .expect("it is laid");
    // One that is whole stays when another is refused, and gives way to one that is not.
    let tail: Vec<u8> = bytes.iter().copied().skip(1).collect();
    let refused = laid(fixture, next.incarnation, &sum, &tail).await;
    refused.expect_err("it is not whole");
    write(fixture, &hand, "newer", b"x").await;
    let (newer, later) = taken(fixture, hand.incarnation()).await;
    for (sum, bytes, what) in [
        (&sum, &bytes, "absent".to_owned()),
        (&newer, &later, Deed::file(0o644, b"x")),
    ] {
        let next = fixture.recipe();
        let first = laid(fixture, next.incarnation, &newer, &later).await;
        first.expect("it is laid");
        laid(fixture, next.incarnation, sum, bytes)
            .await
            .expect("it is laid again");
        let copy = node.provision(&next).await.expect("a hand is made");
        assert_eq!(seen(fixture, &copy, "newer").await, what);
    }
    let copy = node.provision(&next).await.expect("a hand is made");
    let large = seen(fixture, &copy, "large").await;
    assert_eq!(large, Deed::file(0o644, &Deed::lines(100_000)));
}

/// An incarnation that has begun has its own.
async fn a_layer_is_laid_only_before_a_life(fixture: &Fixture) {
    let (node, hand) = (&fixture.provisioner, fixture.hand().await);
    let (sum, bytes) = taken(fixture, hand.incarnation()).await;
    write(fixture, &hand, "a", b"a").await;
    for _ in 0..2 {
        let refused = laid(fixture, hand.incarnation(), &sum, &bytes).await;
        let kind = refused.map_err(|error| error.kind());
        assert_eq!(kind, Err(io::ErrorKind::AlreadyExists));
        assert!(
            node.holds(hand.incarnation()).await.expect("it says so"),
            "its own is kept"
        );
        let reaped = node.reap(hand.incarnation(), Keep::Layer).await;
        reaped.expect("it is reaped");
    }
}

/// A dead hand's layer, and no other's.
async fn what_a_hand_left_is_packed_until_it_is_reaped(fixture: &Fixture) {
    let (node, hand) = (&fixture.provisioner, fixture.hand().await);
    let one = hand.incarnation();
    write(fixture, &hand, "a", b"a").await;
    node.reap(one, Keep::Layer).await.expect("it is reaped");
    assert!(node.holds(one).await.expect("it says so"));
    let (sum, bytes) = taken(fixture, one).await;
    node.reap(one, Keep::Nothing).await.expect("it is reaped");
    let unknown = fixture.recipe().incarnation;
    for gone in [one, unknown] {
        assert!(!node.holds(gone).await.expect("it says so"));
        let kind = node.checkpoint(gone).await.map_err(|error| error.kind());
        assert_eq!(kind.err(), Some(io::ErrorKind::NotFound));
    }
    let next = fixture.recipe();
    laid(fixture, next.incarnation, &sum, &bytes)
        .await
        .expect("it is laid");
    // What was laid and never lived goes as well.
    let listed = node.list().await;
    assert_eq!(listed, [next.incarnation], "what is left is listed");
    let reaped = node.reap(next.incarnation, Keep::Nothing).await;
    reaped.expect("it is reaped");
    assert!(
        !node.holds(next.incarnation).await.expect("it says so") && node.list().await.is_empty()
    );
}

/// Calls that run stand still meanwhile and go on, and several may ask at once.
async fn a_running_call_does_not_mind(fixture: &Fixture) {
    let hand = fixture.hand().await;
    let (one, call) = (hand.incarnation(), fixture.call());
    write(fixture, &hand, "a", b"a").await;
    let endless = ask(&hand, call, fixture.endless);
    let meanwhile = async {
        running(fixture, &hand, call).await;
        let take = || taken(fixture, one);
        let packs = tokio::join!(take(), take());
        let still = fixture.provisioner.recall(one, call).await;
        assert_eq!(still, Recalled::Begun, "it goes on");
        in_time(hand.cancel(call)).await;
        // What comes afterwards runs as ever.
        quick(fixture, &hand, fixture.call()).await;
        [packs.0, packs.1]
    };
    let (stopped, packs) = tokio::join!(endless, meanwhile);
    let stopped = stopped.expect("the hand is there");
    assert_eq!(stopped.outcome, Outcome::Interrupted);
    for (sum, bytes) in packs {
        let next = fixture.recipe();
        laid(fixture, next.incarnation, &sum, &bytes)
            .await
            .expect("it is laid");
        let copy = fixture
            .provisioner
            .provision(&next)
            .await
            .expect("a hand is made");
        assert_eq!(seen(fixture, &copy, "a").await, Deed::file(0o644, b"a"));
    }
}

fn after(fixture: &Fixture, predecessor: IncarnationId) -> Recipe {
    Recipe {
        predecessor: Some(predecessor),
        ..fixture.recipe()
    }
}

/// The predecessor ends with it, whether it lives or not, and whatever ran in it.
async fn a_successor_takes_the_layer_over(fixture: &Fixture) {
    let (node, hand) = (&fixture.provisioner, fixture.hand().await);
    let (first, call) = (hand.incarnation(), fixture.call());
    let wanted = fill(fixture, &hand).await;
    let next = after(fixture, first);
    let made = async {
        running(fixture, &hand, call).await;
        in_time(node.provision(&next))
            .await
            .expect("a successor is made")
    };
    let (lost, second) = tokio::join!(ask(&hand, call, fixture.endless), made);
    assert!(lost.expect_err("it ended with its hand").handed_over);
    for (path, what) in &wanted {
        assert_eq!(&look(fixture, &second, path).await, what, "{path:?}");
    }
    assert!(node.find(first).await.is_none(), "its predecessor lives");
    assert!(
        node.holds(next.incarnation).await.expect("it says so")
            && !node.holds(first).await.expect("it says so")
    );
    in_time(hand.raise(FENCE)).await.expect_err("it is gone");
    let again = node.provision(&fixture.recipe_of(first)).await;
    assert!(
        matches!(again, Err(ProvisionError::Ended { .. })),
        "{again:?}"
    );
    // Asked again, it is the same hand with the same files.
    write(fixture, &second, "more", b"x").await;
    let same = node.provision(&next).await.expect("it is there");
    assert_eq!(seen(fixture, &same, "more").await, Deed::file(0o644, b"x"));
    // From one that is dead, and through one whose own predecessor is gone for good.
    let reaped = node.reap(next.incarnation, Keep::Layer).await;
    reaped.expect("it is reaped");
    let third = node.provision(&after(fixture, next.incarnation)).await;
    let third = third.expect("a successor is made");
    assert_eq!(seen(fixture, &third, "more").await, Deed::file(0o644, b"x"));
    let unknown = fixture.recipe().incarnation;
    let empty = node.provision(&after(fixture, unknown)).await;
    let empty = empty.expect("nothing to take over");
    assert_eq!(seen(fixture, &empty, "more").await, "absent");
}

/// Calls and fences are of one life: neither a successor nor a copy knows them, and the journal of
/// the dead one answers on.
async fn a_journal_stays_with_its_incarnation(fixture: &Fixture) {
    let (node, hand) = (&fixture.provisioner, fixture.hand().await);
    let first = hand.incarnation();
    let (done, open, never) = (fixture.call(), fixture.call(), fixture.call());
    let result = quick(fixture, &hand, done).await;
    let high = Fence { epoch: 9, ..FENCE };
    in_time(hand.raise(high)).await.expect("it lives");
    let asked = fixture.input(fixture.quick.1);
    let stale = hand.execute(FENCE, fixture.call(), fixture.quick.0, &asked);
    let stale = in_time(stale).await;
    assert!(
        matches!(stale, Err(CallError::Stale { newest: 9, .. })),
        "{stale:?}"
    );
    let input = fixture.input(fixture.endless.1);
    let endless = hand.execute(high, open, fixture.endless.0, &input);
    let taken = async {
        running(fixture, &hand, open).await;
        let (sum, bytes) = taken(fixture, first).await;
        let copy = fixture.recipe();
        laid(fixture, copy.incarnation, &sum, &bytes)
            .await
            .expect("it is laid");
        let copy = node.provision(&copy).await.expect("a hand is made");
        let next = node.provision(&after(fixture, first)).await;
        [copy, next.expect("a successor is made")]
    };
    let (lost, others) = tokio::join!(endless, taken);
    assert!(matches!(lost, Err(CallError::Lost(_))), "{lost:?}");
    for other in &others {
        let known = node.recall(other.incarnation(), done).await;
        assert_eq!(known, Recalled::NotStarted, "it never had it");
        let own = quick(fixture, other, done).await;
        assert_ne!(own, result, "it runs there as any other call");
    }
    if hand.promise() == Promise::Journalled {
        let wanted = [
            (done, Recalled::Settled(result.clone())),
            (open, Recalled::Begun),
            (never, Recalled::NotStarted),
        ];
        for (call, known) in wanted {
            assert_eq!(node.recall(first, call).await, known);
        }
        // The handle of the dead one answers as its journal does.
        let again = in_time(hand.execute(high, done, fixture.quick.0, &asked));
        assert_eq!(again.await.ok(), Some(result));
    }
    node.reap(first, Keep::Nothing).await.expect("it is reaped");
    assert_eq!(node.recall(first, done).await, Recalled::Unknown);
    let [_, next] = &others;
    quick(fixture, next, fixture.call()).await;
}
