//! `read`, `write`, `edit`, `glob`, `grep`, section by section of the reference.

use outlast_protocol::content::{Block, Source};
use serde_json::{Value, json};

use crate::support::{Node, call, failed, fine, sh};

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_written_read_and_edited() {
    let node = Node::new().await;
    let hand = node.hand().await;
    let write = |path: &str, content: &str| json!({"file_path": path, "content": content});
    let path = "src/deep/a.txt";
    let result = call(&hand, "write", write(path, "one\ntwo\nthree\nü\n")).await;
    assert_eq!(fine(&result), "wrote 17 bytes to src/deep/a.txt");
    assert_eq!(
        sh(&hand, "stat -c '%U %a' src/deep/a.txt").await,
        "agent 644"
    );
    let read = |path: &str| json!({"file_path": path});
    assert_eq!(
        fine(&call(&hand, "read", read(path)).await),
        "one\ntwo\nthree\nü\n"
    );
    assert_eq!(
        fine(&call(&hand, "read", read("/workspace/src/deep/a.txt")).await).len(),
        17
    );

    let range = |first: i64, last: i64| json!({"file_path": path, "view_range": [first, last]});
    assert_eq!(fine(&call(&hand, "read", range(2, 3)).await), "two\nthree");
    assert_eq!(fine(&call(&hand, "read", range(3, -1)).await), "three\nü\n");
    assert_eq!(fine(&call(&hand, "read", range(4, 99)).await), "ü\n");
    assert_eq!(
        fine(&call(&hand, "read", range(50, 60)).await),
        "(no output)"
    );
    assert!(failed(&call(&hand, "read", range(3, 2)).await).contains("ends before it begins"));

    let edit = |old: &str, new: &str, all: bool| json!({"file_path": path, "old_string": old, "new_string": new, "replace_all": all});
    assert_eq!(
        fine(&call(&hand, "edit", edit("two", "2", false)).await),
        "edited src/deep/a.txt (1 replacement(s))"
    );
    let twice = failed(&call(&hand, "edit", edit("e", "E", false)).await);
    assert!(
        twice.starts_with("edit: old_string appears 3 times in src/deep/a.txt"),
        "{twice}"
    );
    assert_eq!(
        fine(&call(&hand, "edit", edit("e", "E", true)).await),
        "edited src/deep/a.txt (3 replacement(s))"
    );
    assert_eq!(
        failed(&call(&hand, "edit", edit("zzz", "", false)).await),
        "edit: old_string not found in src/deep/a.txt"
    );
    assert_eq!(
        fine(&call(&hand, "read", read(path)).await),
        "onE\n2\nthrEE\nü\n"
    );
    let result = call(&hand, "write", write(path, "")).await;
    assert_eq!(fine(&result), "wrote 0 bytes to src/deep/a.txt");
    assert_eq!(fine(&call(&hand, "read", read(path)).await), "(no output)");
}

/// A good input of a tool for a file.
fn of(tool: &str, path: &str) -> Value {
    match tool {
        "write" => json!({"file_path": path, "content": "c"}),
        "edit" => json!({"file_path": path, "old_string": "a", "new_string": "b"}),
        _ => json!({"file_path": path}),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_the_usual_words_and_the_path_as_given() {
    let node = Node::new().await;
    let hand = node.hand().await;
    sh(
        &hand,
        "mkdir d; echo x > f; mkfifo p; ln -s loop2 loop1; ln -s loop1 loop2; \
         echo s > secret; chmod 0 secret; printf '\\377\\376' > bin; \
         head -c 300000 /dev/zero | tr '\\0' x > large",
    )
    .await;
    for (tool, path, words) in [
        ("read", "none", "read: none: no such file or directory"),
        ("read", "d", "read: d: is a directory"),
        ("read", "f/x", "read: f/x: not a directory"),
        ("read", "p", "read: p: not a regular file"),
        (
            "read",
            "loop1",
            "read: loop1: too many levels of symbolic links",
        ),
        ("read", "secret", "read: secret: permission denied"),
        ("write", "secret", "write: secret: permission denied"),
        ("write", "d", "write: d: is a directory"),
        ("write", "p", "write: p: not a regular file"),
        ("write", "f/x", "write: f/x: not a directory"),
        ("edit", "none", "edit: none: no such file or directory"),
    ] {
        assert_eq!(failed(&call(&hand, tool, of(tool, path)).await), words);
    }
    for tool in ["read", "edit"] {
        let refused = failed(&call(&hand, tool, of(tool, "bin")).await);
        assert!(refused.contains("bin: not valid UTF-8 text"), "{refused}");
    }
    let large = failed(&call(&hand, "read", of("read", "large")).await);
    assert!(
        large.contains("300000 bytes, exceeds 262144-byte limit"),
        "{large}"
    );
    assert!(large.contains("view_range"), "{large}");
    let large = failed(&call(&hand, "edit", of("edit", "large")).await);
    assert!(large.contains("exceeds 262144-byte limit"), "{large}");
    for (tool, input, words) in [
        ("read", json!({}), "read: file_path is required"),
        (
            "read",
            json!({"file_path": 1}),
            "read: file_path must be a string, not a number",
        ),
        (
            "read",
            json!({"file_path": ""}),
            "read: file_path must not be empty",
        ),
        (
            "write",
            json!({"file_path": "x"}),
            "write: content is required",
        ),
        (
            "edit",
            json!({"file_path": "x", "old_string": "a"}),
            "edit: new_string is required",
        ),
        ("glob", json!({"path": "x"}), "glob: pattern is required"),
        (
            "grep",
            json!([]),
            "grep: input must be an object, not an array",
        ),
    ] {
        assert_eq!(failed(&call(&hand, tool, input).await), words);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_large_file_is_read_and_too_large_a_part_is_not() {
    let node = Node::new().await;
    let hand = node.hand().await;
    sh(
        &hand,
        "seq 1 2000000 > large; head -c 50000000 /dev/zero | tr '\\0' x >> large",
    )
    .await;
    let read = |first: i64, last: i64| json!({"file_path": "large", "view_range": [first, last]});
    let lines = fine(&call(&hand, "read", read(1_999_998, 1_999_999)).await);
    assert_eq!(lines, "1999998\n1999999");
    let words = failed(&call(&hand, "read", read(1, 0)).await);
    assert!(words.contains("exceed 262144-byte limit"), "{words}");
    let words = failed(&call(&hand, "read", read(2_000_001, 2_000_001)).await);
    assert!(words.contains("exceed 262144-byte limit"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_and_documents_come_as_blocks() {
    let node = Node::new().await;
    let hand = node.hand().await;
    sh(
        &hand,
        "echo iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB | base64 -d > a.PNG; printf '%%PDF-1.7' > b.pdf; \
         ln -s a.PNG alias; \
         head -c 4000000 /dev/zero > big.gif; head -c 21000000 /dev/zero > big.pdf",
    )
    .await;
    let read = |path: &str| json!({"file_path": path});
    let base64 = |media_type: &str, data: &str| Source::Base64 {
        media_type: media_type.to_owned(),
        data: data.to_owned(),
    };
    for path in ["a.PNG", "alias"] {
        let result = call(&hand, "read", read(path)).await;
        assert_eq!(
            result.content,
            [Block::Image {
                source: base64("image/png", "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB")
            }]
        );
    }
    let source = base64("application/pdf", "JVBERi0xLjc=");
    let document = Block::Document {
        source,
        title: None,
        context: None,
    };
    assert_eq!(call(&hand, "read", read("b.pdf")).await.content, [document]);
    assert!(failed(&call(&hand, "read", read("big.gif")).await).contains("exceeds 3932160-byte"));
    assert!(failed(&call(&hand, "read", read("big.pdf")).await).contains("exceeds 20971520-byte"));
    let ranged = json!({"file_path": "a.PNG", "view_range": [1, 2]});
    assert!(failed(&call(&hand, "read", ranged).await).contains("view_range is not supported"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_or_document_is_what_its_name_says() {
    let node = Node::new().await;
    let hand = node.hand().await;
    sh(
        &hand,
        "for kind in png jpg jpeg gif webp pdf; do : > empty.$kind; echo words > text.$kind; done; \
         echo iVBORw0KGgoAAAANSUhEUgAAIygAACMo | base64 -d > huge.png; cp huge.png other.jpg",
    )
    .await;
    let read = async |path: &str| {
        let result = call(&hand, "read", json!({"file_path": path})).await;
        failed(&result)
    };
    for (kind, name, allowed) in [
        (
            "png",
            "PNG image",
            "an image must be JPEG, PNG, GIF or WebP",
        ),
        ("jpg", "JPEG image", "an image must be"),
        ("jpeg", "JPEG image", "an image must be"),
        ("gif", "GIF image", "an image must be"),
        ("webp", "WebP image", "an image must be"),
        (
            "pdf",
            "PDF document",
            "a PDF document must begin with `%PDF-`",
        ),
    ] {
        let said = read(&format!("empty.{kind}")).await;
        let expected = format!("read: empty.{kind} is empty; {allowed}");
        assert!(said.starts_with(&expected), "{said}");
        let said = read(&format!("text.{kind}")).await;
        let expected = format!("read: text.{kind} is no {name}; {allowed}");
        assert!(said.starts_with(&expected), "{said}");
    }
    let said = read("huge.png").await;
    assert!(
        said.contains("huge.png has 9000 by 9000 pixels; "),
        "{said}"
    );
    assert!(said.contains("of 1 to 8000 pixels on each side"), "{said}");
    let said = read("other.jpg").await;
    assert!(said.contains("is no JPEG image, but a PNG image"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_followed_and_nothing_leads_out() {
    let node = Node::new().await;
    let hand = node.hand().await;
    sh(
        &hand,
        "ln -s /etc/passwd out; ln -s / root; ln -s real inner; echo in > real; mkdir -p a/b; \
         ln -s ../../real a/b/up; ln -s /tmp/new dangling; ln -s /etc/new bad; echo t > /tmp/t; \
         ln -s /proc/self/root/etc/passwd magic",
    )
    .await;
    for path in [
        "/etc/passwd",
        "../etc/passwd",
        "out",
        "root/etc/passwd",
        "a/../../etc/passwd",
        "/proc/1/environ",
        "/proc/self/environ",
        "magic",
        "/dev/zero",
        "/workspace/../etc/shadow",
    ] {
        let words = failed(&call(&hand, "read", json!({"file_path": path})).await);
        assert!(
            words.contains("is outside the session's working directory"),
            "{path}: {words}"
        );
    }
    for path in ["bad", "/etc/x", "/x", "root/x", "/usr/x"] {
        let input = json!({"file_path": path, "content": "x"});
        let words = failed(&call(&hand, "write", input).await);
        assert!(
            words.contains("is outside the session's working directory"),
            "{path}: {words}"
        );
    }
    let words = failed(
        &call(
            &hand,
            "write",
            json!({"file_path": "/mnt/session/x", "content": ""}),
        )
        .await,
    );
    assert_eq!(
        words,
        "write: /mnt/session/x is inside read-only folder /mnt/session"
    );
    for path in ["inner", "a/b/up", "a/../real", "./real"] {
        assert_eq!(
            fine(&call(&hand, "read", json!({"file_path": path})).await),
            "in\n",
            "{path}"
        );
    }
    assert_eq!(
        fine(&call(&hand, "read", json!({"file_path": "/tmp/t"})).await),
        "t\n"
    );
    fine(
        &call(
            &hand,
            "write",
            json!({"file_path": "dangling", "content": "d"}),
        )
        .await,
    );
    let outputs = json!({"file_path": "/mnt/session/outputs/r.txt", "content": "o"});
    fine(&call(&hand, "write", outputs).await);
    assert_eq!(
        sh(&hand, "cat /tmp/new /mnt/session/outputs/r.txt").await,
        "do"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn glob_lists_newest_first_and_stays_below() {
    let node = Node::new().await;
    let hand = node.hand().await;
    sh(
        &hand,
        "mkdir -p a/b .h; touch -d '2020-01-01' a/old.rs; touch -d '2021-01-01' a/b/new.rs; \
         touch -d '2019-01-01' top.rs .h/x.rs a/x.txt",
    )
    .await;
    let glob = |pattern: &str| json!({"pattern": pattern});
    let found = fine(&call(&hand, "glob", glob("a/**/*.rs")).await);
    assert_eq!(found, "/workspace/a/b/new.rs\n/workspace/a/old.rs");
    assert_eq!(
        fine(&call(&hand, "glob", glob("*.rs")).await),
        "/workspace/top.rs"
    );
    let found = fine(&call(&hand, "glob", glob("**/*.{rs,txt}")).await);
    assert_eq!(found.lines().count(), 5, "{found}");
    let found = call(&hand, "glob", json!({"pattern": "*.rs", "path": "a"})).await;
    assert_eq!(fine(&found), "/workspace/a/old.rs");
    assert_eq!(
        fine(&call(&hand, "glob", glob("*.zig")).await),
        "no matches"
    );
    assert!(failed(&call(&hand, "glob", glob("/etc/*")).await).contains("absolute pattern"));
    assert!(failed(&call(&hand, "glob", glob("../*")).await).contains("'..' is not permitted"));
    assert!(failed(&call(&hand, "glob", glob("[")).await).starts_with("glob: pattern: "));
    let outside = call(&hand, "glob", json!({"pattern": "*", "path": "/etc"})).await;
    assert!(failed(&outside).contains("is outside"));
    let missing = call(&hand, "glob", json!({"pattern": "*", "path": "none"})).await;
    assert_eq!(failed(&missing), "glob: none: no such file or directory");
    sh(&hand, "mkdir many; cd many; seq 1 300 | xargs touch").await;
    let found = fine(&call(&hand, "glob", glob("many/*")).await);
    assert_eq!(found.lines().count(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn grep_lists_lines_and_leaves_out_what_it_should() {
    let node = Node::new().await;
    let hand = node.hand().await;
    sh(
        &hand,
        "mkdir -p src .git node_modules/x; printf 'one\\ntwo needle\\r\\n' > src/a.txt; \
         echo needle > .git/b; echo needle > node_modules/x/c; printf 'needle\\0' > bin; \
         ln -s src/a.txt link; ln -s /etc etc; \
         (head -c 3000 /dev/zero | tr '\\0' y; echo needle; echo needle short) > long; \
         echo needle > .hidden; mkfifo pipe",
    )
    .await;
    let grep = |pattern: &str| json!({"pattern": pattern});
    assert_eq!(
        fine(&call(&hand, "grep", grep("need(le)")).await),
        "/workspace/.hidden:1:needle\n/workspace/long:2:needle short\n\
         /workspace/src/a.txt:2:two needle"
    );
    let one = call(&hand, "grep", json!({"pattern": "^o", "path": "src/a.txt"})).await;
    assert_eq!(fine(&one), "/workspace/src/a.txt:1:one");
    assert_eq!(fine(&call(&hand, "grep", grep("zzz")).await), "no matches");
    assert!(failed(&call(&hand, "grep", grep("(")).await).starts_with("grep: invalid regex: "));
    sh(&hand, "seq 1 100000 | sed 's/^/match /' > many").await;
    let found = fine(&call(&hand, "grep", json!({"pattern": "match", "path": "many"})).await);
    assert!(found.len() < 102_500, "{}", found.len());
    // More characters than a model is shown at once: a preview, and the rest in a file.
    let found = call(&hand, "grep", json!({"pattern": "match", "path": "many"})).await;
    let found = fine(&found);
    assert!(found.contains("characters left out; all of this is in /mnt/session/tool-output/"));
    assert!(
        found.ends_with("[output truncated at 102400 bytes]"),
        "{found}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_result_goes_to_a_file_that_can_be_read() {
    let node = Node::new().await;
    let hand = node.hand().await;
    sh(&hand, "head -c 200000 /dev/zero | tr '\\0' x > large").await;
    let shown = fine(&call(&hand, "read", json!({"file_path": "large"})).await);
    assert!(shown.len() < 9000, "{}", shown.len());
    let path = shown
        .split_whitespace()
        .find(|word| word.starts_with("/mnt/session/tool-output/"));
    let path = path.unwrap().trim_end_matches(']');
    assert_eq!(sh(&hand, &format!("wc -c < {path}")).await, "200000");
    assert_eq!(
        sh(&hand, &format!("cmp {path} large && echo same")).await,
        "same"
    );
}
