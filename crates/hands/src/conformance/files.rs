//! What a hand shows, and what it leaves for people.

use std::{io, sync::Arc};

use futures::stream;
use outlast_protocol::id::IncarnationId;
use tokio::io::AsyncReadExt as _;
use tokio_util::io::StreamReader;

use super::{Deed, Fixture, deed, in_time, look, refused};
use crate::{
    Hand, Keep, Recipe,
    files::{Published, Reader, Upload, escaped},
};

/// Where uploads stand inside.
const UPLOADS: &str = "/mnt/session/uploads";

/// Where outputs stand inside.
const OUTPUTS: &str = "/mnt/session/outputs";

/// Paths that are allowed, however strange, in their order.
const STRANGE: [&str; 7] = [
    "  two words ",
    "-rf",
    "a%2Fb?c#d&e=f+g",
    "deep/er/and/deeper",
    "line\nbreak",
    "quote'\"`$(x)\\",
    "\u{e4}\u{1f980}",
];

/// Names of outputs that are no text, or not such a one as can be shown.
const BYTES: [&[u8]; 5] = [
    b"\xff\xfe",
    b"caf\xe9 \xc3.txt",
    b"tab\tand\x1b[31mmore\x7f",
    b"%FF",
    &[0xfd; 255],
];

/// What is no path below a folder.
const BAD: [&str; 9] = [
    "", "/a", "../a", "a/../b", "a//b", "a/", ".", "a/./b", "a\0b",
];

/// Runs every check, each with a new fixture.
pub(super) async fn run<F, Fut>(factory: &F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = Fixture>,
{
    if !factory().await.provisioner.abilities().files {
        return nothing_is_pretended(&factory().await).await;
    }
    files_come_before_and_while_a_hand_lives(&factory().await).await;
    a_file_of_any_name_and_content_is_shown(&factory().await).await;
    a_file_is_replaced_whole_or_not_at_all(&factory().await).await;
    what_leads_out_is_refused(&factory().await).await;
    what_is_shown_is_not_written_inside(&factory().await).await;
    a_successor_shows_what_its_predecessor_did(&factory().await).await;
    outputs_are_listed_and_read(&factory().await).await;
    an_output_of_any_name_is_listed_as_text(&factory().await).await;
    every_name_of_an_output_is_listed(&factory().await).await;
    an_output_that_changed_has_another_version(&factory().await).await;
    outputs_outlive_the_hand(&factory().await).await;
}

/// A driver without files says so, whatever is asked.
async fn nothing_is_pretended(fixture: &Fixture) {
    let node = &fixture.provisioner;
    let hand = fixture.hand().await.incarnation();
    let kinds = [
        place(fixture, hand, "a", b"a").await.err(),
        node.unplace(hand, "a").await.err(),
        node.uploads(hand).await.err(),
        node.outputs(hand).await.err(),
        node.output(hand, "a").await.err(),
    ];
    for error in kinds {
        let kind = error.map(|error| error.kind());
        assert_eq!(kind, Some(io::ErrorKind::Unsupported));
    }
}

fn upload(path: &str, bytes: &[u8]) -> Upload {
    Upload {
        path: path.to_owned(),
        // The same id is the same bytes.
        id: format!("file_{}", blake3::hash(bytes).to_hex()),
        bytes: bytes.len() as u64,
    }
}

fn reader(bytes: &[u8]) -> Reader {
    Box::pin(io::Cursor::new(bytes.to_vec()))
}

async fn place(fixture: &Fixture, hand: IncarnationId, path: &str, bytes: &[u8]) -> io::Result<()> {
    let new = upload(path, bytes);
    in_time(fixture.provisioner.place(hand, &new, reader(bytes))).await
}

/// Looks at a file that is shown: everybody may read it.
async fn shown(fixture: &Fixture, hand: &Arc<dyn Hand>, path: &str) -> String {
    look(fixture, hand, &format!("{UPLOADS}/{path}")).await
}

/// A file can be placed before there is a hand, and while it lives, and goes again.
async fn files_come_before_and_while_a_hand_lives(fixture: &Fixture) {
    let (node, recipe) = (&fixture.provisioner, fixture.recipe());
    let one = recipe.incarnation;
    let placed = async |path: &str, bytes: &[u8]| {
        place(fixture, one, path, bytes)
            .await
            .expect("it is placed");
    };
    assert_eq!(node.uploads(one).await.expect("a list"), []);
    placed("data/early", b"early").await;
    assert!(
        node.list().await.contains(&one),
        "what has left something is listed"
    );
    let hand = node.provision(&recipe).await.expect("a hand is made");
    let early = shown(fixture, &hand, "data/early").await;
    assert_eq!(early, Deed::file(0o444, b"early"));
    placed("data/late", b"late").await;
    let late = shown(fixture, &hand, "data/late").await;
    assert_eq!(late, Deed::file(0o444, b"late"));
    let listed = node.uploads(one).await.expect("a list");
    let wanted = [("data/early", &b"early"[..]), ("data/late", b"late")];
    assert_eq!(listed, wanted.map(|(path, bytes)| upload(path, bytes)));
    for path in ["data/early", "data/early", "never/was", "data/late/x"] {
        node.unplace(one, path).await.expect("it is gone");
    }
    assert_eq!(shown(fixture, &hand, "data/early").await, "absent");
    let left = node.uploads(one).await.expect("a list");
    assert_eq!(left, [upload("data/late", b"late")]);
    node.reap(one, Keep::Nothing).await.expect("it is reaped");
    assert_eq!(node.uploads(one).await.expect("a list"), []);
    assert!(node.list().await.is_empty());
}

/// Names and bytes arrive as they were.
async fn a_file_of_any_name_and_content_is_shown(fixture: &Fixture) {
    let hand = fixture.hand().await;
    let one = hand.incarnation();
    let binary: Vec<u8> = (0..=u8::MAX).cycle().take(3 << 20).collect();
    let contents: [&[u8]; 7] = [b"", b"\0", &binary, b"\xff\xfe", b"x\n", b"\r\n\r\n", b"--"];
    let files = || STRANGE.into_iter().zip(contents);
    for (path, bytes) in files() {
        place(fixture, one, path, bytes)
            .await
            .expect("it is placed");
    }
    for (path, bytes) in files() {
        let found = shown(fixture, &hand, path).await;
        assert_eq!(found, Deed::file(0o444, bytes), "{path:?}");
    }
    let listed = fixture.provisioner.uploads(one).await.expect("a list");
    let wanted: Vec<_> = files().map(|(path, bytes)| upload(path, bytes)).collect();
    assert_eq!(listed, wanted);
}

/// Something that does not come as announced changes nothing.
async fn a_file_is_replaced_whole_or_not_at_all(fixture: &Fixture) {
    let (node, hand) = (&fixture.provisioner, fixture.hand().await);
    let one = hand.incarnation();
    for bytes in [&b"first"[..], b"second, and longer", b""] {
        place(fixture, one, "dir/a", bytes)
            .await
            .expect("it is placed");
        let found = shown(fixture, &hand, "dir/a").await;
        assert_eq!(found, Deed::file(0o444, bytes));
    }
    for announced in [2, 4] {
        let wrong = Upload {
            bytes: announced,
            ..upload("dir/a", b"abc")
        };
        let refused = node.place(one, &wrong, reader(b"abc")).await;
        let kind = refused.map_err(|error| error.kind());
        assert_eq!(kind, Err(io::ErrorKind::InvalidData));
    }
    let chunks = [Ok(&b"half"[..]), Err(io::Error::other("it broke off"))];
    let broken = Box::pin(StreamReader::new(stream::iter(chunks)));
    let half = upload("dir/a", b"half of it");
    in_time(node.place(one, &half, broken))
        .await
        .expect_err("it broke off");
    // A file is no folder, and a folder no file.
    for path in ["dir", "dir/a/b"] {
        let refused = place(fixture, one, path, b"x").await;
        refused.expect_err("something is in the way");
    }
    assert_eq!(shown(fixture, &hand, "dir/a").await, Deed::file(0o444, b""));
    let listed = node.uploads(one).await.expect("a list");
    assert_eq!(listed, [upload("dir/a", b"")]);
}

/// No path leads anywhere else.
async fn what_leads_out_is_refused(fixture: &Fixture) {
    let (node, hand) = (&fixture.provisioner, fixture.hand().await);
    let one = hand.incarnation();
    for path in BAD {
        let refused = [
            place(fixture, one, path, b"x").await.err(),
            node.unplace(one, path).await.err(),
            node.output(one, path).await.err(),
        ];
        for error in refused {
            let kind = error.map(|error| error.kind());
            assert_eq!(kind, Some(io::ErrorKind::InvalidInput), "{path:?}");
        }
    }
    assert_eq!(node.uploads(one).await.expect("a list"), []);
}

/// Whoever is inside reads, and does nothing else.
async fn what_is_shown_is_not_written_inside(fixture: &Fixture) {
    let hand = fixture.hand().await;
    let placed = place(fixture, hand.incarnation(), "d/a", b"a").await;
    placed.expect("it is placed");
    let write = |path: &str| Deed::Write {
        path: format!("{UPLOADS}/{path}"),
        bytes: b"other".to_vec(),
        mode: 0o644,
    };
    let path = format!("{UPLOADS}/d/a");
    let link = Deed::Link {
        path: format!("{UPLOADS}/link"),
        target: "/etc".to_owned(),
    };
    for tried in [
        write("d/a"),
        write("new"),
        write("d/new"),
        link,
        Deed::Twin {
            path: format!("{OUTPUTS}/a"),
            of: path.clone(),
        },
        Deed::Remove { path },
    ] {
        refused(fixture, &hand, &tried).await;
    }
    assert_eq!(outputs(fixture, hand.incarnation()).await, []);
    assert_eq!(shown(fixture, &hand, "d/a").await, Deed::file(0o444, b"a"));
    assert_eq!(shown(fixture, &hand, "link").await, "absent");
}

/// Files pass on with the layer.
async fn a_successor_shows_what_its_predecessor_did(fixture: &Fixture) {
    let (node, hand) = (&fixture.provisioner, fixture.hand().await);
    let first = hand.incarnation();
    place(fixture, first, "d/a", b"a")
        .await
        .expect("it is placed");
    let next = Recipe {
        predecessor: Some(first),
        ..fixture.recipe()
    };
    let hand = node.provision(&next).await.expect("a successor is made");
    assert_eq!(shown(fixture, &hand, "d/a").await, Deed::file(0o444, b"a"));
    let listed = node.uploads(next.incarnation).await.expect("a list");
    assert_eq!(listed, [upload("d/a", b"a")]);
    assert_eq!(node.uploads(first).await.expect("a list"), []);
}

/// Writes an output.
async fn publish(fixture: &Fixture, hand: &Arc<dyn Hand>, path: &str, bytes: &[u8]) {
    let write = Deed::Write {
        path: format!("{OUTPUTS}/{path}"),
        bytes: bytes.to_vec(),
        mode: 0o600,
    };
    deed(fixture, hand, &write).await;
}

async fn outputs(fixture: &Fixture, hand: IncarnationId) -> Vec<Published> {
    let listed = in_time(fixture.provisioner.outputs(hand)).await;
    listed.expect("a list")
}

async fn output(fixture: &Fixture, hand: IncarnationId, path: &str) -> Vec<u8> {
    let opened = in_time(fixture.provisioner.output(hand, path)).await;
    let mut bytes = Vec::new();
    let read = opened.expect("it is there").read_to_end(&mut bytes).await;
    read.expect("it can be read");
    bytes
}

/// Regular files alone.
async fn outputs_are_listed_and_read(fixture: &Fixture) {
    let (node, hand) = (&fixture.provisioner, fixture.hand().await);
    let one = hand.incarnation();
    assert_eq!(outputs(fixture, one).await, []);
    for path in STRANGE {
        publish(fixture, &hand, path, path.as_bytes()).await;
    }
    publish(fixture, &hand, "empty", b"").await;
    let lines = Deed::Lines {
        path: format!("{OUTPUTS}/large"),
        count: 300_000,
    };
    deed(fixture, &hand, &lines).await;
    let secret = Deed::Write {
        path: "/workspace/secret".to_owned(),
        bytes: b"s".to_vec(),
        mode: 0o644,
    };
    deed(fixture, &hand, &secret).await;
    for (name, target) in [("link", "../../../workspace/secret"), ("dir", "/workspace")] {
        let (path, target) = (format!("{OUTPUTS}/{name}"), target.to_owned());
        deed(fixture, &hand, &Deed::Link { path, target }).await;
    }
    let mut wanted = STRANGE
        .map(|path| (escaped(path.as_bytes()), path.as_bytes().to_vec()))
        .to_vec();
    wanted.push(("empty".to_owned(), Vec::new()));
    wanted.push(("large".to_owned(), Deed::lines(300_000)));
    are_published(fixture, one, wanted).await;
    for path in ["link", "dir/secret", "deep", "none", "empty/x", "%65mpty"] {
        let kind = node.output(one, path).await.err().map(|error| error.kind());
        assert_eq!(kind, Some(io::ErrorKind::NotFound), "{path}");
    }
}

/// These files are there, of these bytes, and no others.
async fn are_published(fixture: &Fixture, hand: IncarnationId, mut wanted: Vec<(String, Vec<u8>)>) {
    wanted.sort();
    let listed = outputs(fixture, hand).await;
    let found = listed
        .iter()
        .map(|output| (output.path.as_str(), output.bytes));
    let sizes = wanted
        .iter()
        .map(|(path, bytes)| (path.as_str(), bytes.len() as u64));
    assert_eq!(found.collect::<Vec<_>>(), sizes.collect::<Vec<_>>());
    for (path, bytes) in wanted {
        assert!(output(fixture, hand, &path).await == bytes, "{path:?}");
    }
}

/// What is no text inside has a path that is, of its own.
async fn an_output_of_any_name_is_listed_as_text(fixture: &Fixture) {
    let hand = fixture.hand().await;
    let mut wanted = Vec::new();
    for name in BYTES {
        publish(fixture, &hand, "d/new", name).await;
        let path = format!("{OUTPUTS}/d/new");
        let name = name.to_owned();
        let text = format!("d/{}", escaped(&name));
        wanted.push((text, name.clone()));
        deed(fixture, &hand, &Deed::Rename { path, name }).await;
    }
    are_published(fixture, hand.incarnation(), wanted).await;
}

/// A file is an output under each name that it has there.
async fn every_name_of_an_output_is_listed(fixture: &Fixture) {
    let hand = fixture.hand().await;
    publish(fixture, &hand, "a", b"one").await;
    let elsewhere = "/workspace/elsewhere".to_owned();
    let write = Deed::Write {
        path: elsewhere.clone(),
        bytes: b"two".to_vec(),
        mode: 0o644,
    };
    deed(fixture, &hand, &write).await;
    for (name, of) in [("b", format!("{OUTPUTS}/a")), ("c", elsewhere)] {
        let path = format!("{OUTPUTS}/{name}");
        deed(fixture, &hand, &Deed::Twin { path, of }).await;
    }
    let wanted = [("a", "one"), ("b", "one"), ("c", "two")];
    let wanted = wanted.map(|(name, bytes)| (name.to_owned(), bytes.as_bytes().to_vec()));
    are_published(fixture, hand.incarnation(), wanted.into()).await;
}

/// A version is the same as long as the file is, and never again.
async fn an_output_that_changed_has_another_version(fixture: &Fixture) {
    let hand = fixture.hand().await;
    let one = hand.incarnation();
    publish(fixture, &hand, "a", b"one").await;
    publish(fixture, &hand, "b", b"one").await;
    let first = outputs(fixture, one).await;
    assert_eq!(outputs(fixture, one).await, first);
    // Of the same size.
    publish(fixture, &hand, "a", b"two").await;
    let second = outputs(fixture, one).await;
    assert_ne!(first.first(), second.first(), "a change was missed");
    assert_eq!(first.get(1), second.get(1), "nobody changed it");
    assert_eq!(output(fixture, one, "a").await, b"two");
    let path = format!("{OUTPUTS}/a");
    deed(fixture, &hand, &Deed::Remove { path }).await;
    let left = outputs(fixture, one).await;
    assert!(left.iter().eq(first.iter().skip(1)), "{left:?}");
    publish(fixture, &hand, "a", b"two").await;
    let third = outputs(fixture, one).await;
    assert_ne!(second.first(), third.first(), "it is another file");
}

/// What a hand left can be read until it is reaped for good.
async fn outputs_outlive_the_hand(fixture: &Fixture) {
    let (node, hand) = (&fixture.provisioner, fixture.hand().await);
    let one = hand.incarnation();
    publish(fixture, &hand, "d/a", b"kept").await;
    let living = outputs(fixture, one).await;
    node.reap(one, Keep::Layer).await.expect("it is reaped");
    assert_eq!(outputs(fixture, one).await, living);
    assert_eq!(output(fixture, one, "d/a").await, b"kept");
    node.reap(one, Keep::Nothing).await.expect("it is reaped");
    let unknown = fixture.recipe().incarnation;
    for gone in [one, unknown] {
        let kinds = [
            node.outputs(gone).await.err(),
            node.output(gone, "d/a").await.err(),
        ];
        for error in kinds {
            let kind = error.map(|error| error.kind());
            assert_eq!(kind, Some(io::ErrorKind::NotFound));
        }
    }
}
