//! What a model is shown of a result, whatever its hand said.

use outlast_protocol::{CallResult, content::Block};

/// Puts words in the place of images and documents that no model takes.
///
/// One of them in a conversation has every later request refused, and a hand may be of another
/// version than this, or of another make.
pub(crate) fn fit(mut result: CallResult) -> CallResult {
    for block in &mut result.content {
        if let Err(unfit) = block.check() {
            *block = Block::text(format!("[a file was left out here: it {unfit}]"));
            result.is_error = true;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use outlast_protocol::content::Source;

    use super::*;

    fn image(data: &str) -> Block {
        let (media_type, data) = ("image/gif".to_owned(), data.to_owned());
        Block::Image {
            source: Source::Base64 { media_type, data },
        }
    }

    #[test]
    fn what_no_model_takes_becomes_words() {
        let good = image("R0lGODlhAQABAAAAAA==");
        let fine = CallResult {
            content: vec![good.clone()],
            ..CallResult::text("")
        };
        assert_eq!(fit(fine.clone()), fine);
        for (data, why) in [
            ("", "is empty"),
            ("aGk=", "is no GIF image"),
            ("?", "is empty"),
        ] {
            let mixed = CallResult {
                content: vec![good.clone(), image(data), Block::text("a")],
                ..CallResult::text("")
            };
            let fitted = fit(mixed);
            assert!(fitted.is_error);
            let [first, Block::Text { text }, last] = fitted.content.as_slice() else {
                panic!("{fitted:?}");
            };
            assert_eq!((first, last), (&good, &Block::text("a")));
            assert!(text.contains(&format!("it {why};")), "{text}");
        }
    }
}
