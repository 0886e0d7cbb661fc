//! Tests of content blocks: what passes comes back as it was, what does not names its field.

use serde_json::{Value, json};

use super::*;

/// A picture of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNg\
     AAAAAgABSK+kcQAAAABJRU5ErkJggg==";

/// Nests blocks as the only field of an event.
fn at(value: &Value) -> At<'_> {
    let mut object = At::root(value).object().unwrap();
    object.field("content").required().unwrap()
}

#[track_caller]
fn refused(
    check: impl Fn(&At<'_>) -> Result<Vec<Block>, Problem>,
    block: Value,
    code: ErrorCode,
    message: &str,
) {
    let value = json!({"content": [block]});
    assert_eq!(check(&at(&value)), Err(Problem::new(code, message)));
}

#[test]
fn good_blocks_round_trip() {
    let messages = json!({"content": [
        {"type": "text", "text": "hi"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"},
         "title": "t", "context": "c"},
    ]});
    let blocks = message(&at(&messages)).unwrap();
    assert_eq!(serde_json::to_value(blocks).unwrap(), messages["content"]);

    let results = json!({"content": [
        {"type": "text", "text": "\n"},
        {"type": "search_result", "source": "https://e.com", "title": "t",
         "content": [{"type": "text", "text": "x"}], "citations": {"enabled": true}},
    ]});
    let blocks = result(&at(&results)).unwrap();
    assert_eq!(serde_json::to_value(blocks).unwrap(), results["content"]);
}

#[test]
fn null_title_and_context_are_left_out() {
    let value = json!({"content": [{
        "type": "document", "title": null, "context": null,
        "source": {"type": "url", "url": "https://example.com/a.pdf"},
    }]});
    let blocks = message(&at(&value)).unwrap();
    assert!(matches!(
        &blocks[0],
        Block::Document {
            title: None,
            context: None,
            ..
        }
    ));
}

#[test]
fn bad_blocks_of_messages_are_refused() {
    let code = ErrorCode::InvalidRequest;
    let text = |text: &str| json!({"type": "text", "text": text});
    let image = |source: Value| json!({"type": "image", "source": source});
    for (block, message_text) in [
        (
            text(""),
            "content.0.text: text content blocks must be non-empty",
        ),
        (
            text(" \n"),
            "content.0.text: text content blocks must contain non-whitespace text",
        ),
        (json!({"type": "text"}), "content.0.text: is required"),
        (
            json!({"type": "text", "text": 1}),
            "content.0.text: must be a string, not a number",
        ),
        (json!("hi"), "content.0: must be an object, not a string"),
        (
            json!({"type": "redacted"}),
            "content.0.type: must be `text`, `image` or `document`, not `redacted`",
        ),
        (
            json!({"type": "search_result"}),
            "content.0.type: must be `text`, `image` or `document`, not `search_result`",
        ),
        (
            json!({"type": "text", "text": "a", "cache_control": {}}),
            "content.0.cache_control: unknown field; allowed: `type` or `text`",
        ),
        (
            image(json!({"type": "text", "media_type": "text/plain", "data": "x"})),
            "content.0.source.type: must be `base64`, `url` or `file`, not `text`",
        ),
        (
            image(json!({"type": "base64", "media_type": "image/bmp", "data": "AAEC"})),
            "content.0.source.media_type: must be `image/jpeg`, `image/png`, `image/gif` or `image/webp`, not `image/bmp`",
        ),
        (
            image(json!({"type": "base64", "media_type": "image/png", "data": "A"})),
            "content.0.source.data: must be standard base64 with padding, and not empty",
        ),
        (
            image(json!({"type": "base64", "media_type": "image/png", "data": ""})),
            "content.0.source.data: must be standard base64 with padding, and not empty",
        ),
        (
            image(json!({"type": "url", "url": "ftp://x"})),
            "content.0.source.url: must be an address that begins with `https://`",
        ),
        (
            image(json!({"type": "url", "url": "https://"})),
            "content.0.source.url: must be an address that begins with `https://`",
        ),
        (
            json!({"type": "document", "title": "x".repeat(501), "source": {"type": "url", "url": "https://e.com"}}),
            "content.0.title: must have 1 to 500 characters, not 501",
        ),
        (
            json!({"type": "document", "context": "", "source": {"type": "url", "url": "https://e.com"}}),
            "content.0.context: must not be empty",
        ),
        (
            json!({"type": "document", "source": {"type": "text", "media_type": "text/html", "data": "x"}}),
            "content.0.source.media_type: must be `text/plain`, not `text/html`",
        ),
    ] {
        refused(message, block, code, message_text);
    }
}

#[test]
fn a_file_is_named_by_an_id_of_its_form() {
    let id = "file_010000000000000000000001";
    for kind in ["image", "document"] {
        let named = json!([{"type": kind, "source": {"type": "file", "file_id": id}}]);
        let blocks = message(&At::root(&named)).unwrap();
        assert_eq!(serde_json::to_value(&blocks).unwrap(), named);
        refused(
            message,
            json!({"type": kind, "source": {"type": "file", "file_id": "file_1"}}),
            ErrorCode::NotFound,
            "content.0.source.file_id: file `file_1` not found",
        );
    }
}

#[test]
fn bad_blocks_of_results_are_refused() {
    let code = ErrorCode::InvalidRequest;
    let hit = |citations: Value, content: Value| {
        json!({"type": "search_result", "source": "s", "title": "t",
               "content": content, "citations": citations})
    };
    let text = json!([{"type": "text", "text": "x"}]);
    refused(
        result,
        json!({"type": "text", "text": ""}),
        code,
        "content.0.text: text content blocks must be non-empty",
    );
    refused(
        result,
        hit(json!({}), text),
        code,
        "content.0.citations.enabled: is required",
    );
    refused(
        result,
        hit(json!({"enabled": true}), json!([])),
        code,
        "content.0.content: must have 1 to 1000 entries, not 0",
    );
    refused(
        result,
        hit(json!({"enabled": true}), json!([{"type": "image"}])),
        code,
        "content.0.content.0.type: must be `text`, not `image`",
    );
}

#[test]
fn inline_bytes_are_what_their_type_says() {
    let long = "A".repeat(6_000_000);
    let gif = format!("R0lGODlhAQABAAAAAAAA{}", "AAAA".repeat(1_400_000));
    for (kind, media_type, data, words) in [
        (
            "image",
            "image/png",
            "aGkK",
            "is no PNG image; an image must be JPEG",
        ),
        ("image", "image/png", &long, "is no PNG image; "),
        (
            "image",
            "image/gif",
            PIXEL,
            "is no GIF image, but a PNG image; ",
        ),
        ("image", "image/gif", &gif, "has more than 3932160 bytes; "),
        (
            "image",
            "image/png",
            "iVBORw0KGgoAAAANSUhEUgAAIygAACMo",
            "has 9000 by 9000 pixels; ",
        ),
        (
            "document",
            "application/pdf",
            PIXEL,
            "is no PDF document, but a PNG image; ",
        ),
        (
            "document",
            "application/pdf",
            "JVBERg==",
            "is no PDF document; ",
        ),
    ] {
        let source = json!({"type": "base64", "media_type": media_type, "data": data});
        let content = json!({"content": [{"type": kind, "source": source}]});
        for read in [message, result] {
            let told = read(&at(&content)).unwrap_err().message;
            let expected = format!("content.0.source.data: {words}");
            assert!(told.starts_with(&expected), "{told}");
        }
    }
    let pdf = format!("JVBERi0x{}", "AAAA".repeat(9_000));
    let content = json!({"content": [{"type": "document", "source":
        {"type": "base64", "media_type": "application/pdf", "data": pdf}}]});
    assert!(message(&at(&content)).is_ok());
}

#[test]
fn the_number_of_blocks_is_bounded() {
    let blocks =
        |count: usize| json!({"content": vec![json!({"type": "text", "text": "a"}); count]});
    let refusal = |value: &Value| message(&at(value)).unwrap_err().message;
    assert_eq!(
        refusal(&blocks(0)),
        "content: must have 1 to 1000 entries, not 0"
    );
    assert_eq!(
        refusal(&blocks(1_001)),
        "content: must have 1 to 1000 entries, not 1001"
    );
    assert_eq!(message(&at(&blocks(1_000))).unwrap().len(), 1_000);
    assert_eq!(result(&at(&blocks(0))).unwrap(), []);
    assert!(system(&at(&blocks(0))).is_err());
    assert_eq!(system(&at(&blocks(1))).unwrap(), [TextBlock::new("a")]);
}

#[test]
fn base64_is_checked_across_pieces() {
    let long = "AAAA".repeat(3_000);
    assert!(is_base64(long.as_bytes()));
    assert!(is_base64(format!("{long}AA==").as_bytes()));
    for bad in [
        format!("{}AA=={long}", "AAAA".repeat(1_023)),
        format!("{long}AA="),
        format!("{long}A==="),
        format!("{long}\n"),
        "AA=A".to_owned(),
        "AB-_".to_owned(),
        "=".to_owned(),
    ] {
        assert!(
            !is_base64(bad.as_bytes()),
            "{}",
            &bad[bad.len().saturating_sub(5)..]
        );
    }
}
