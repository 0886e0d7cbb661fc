//! The bytes of images and documents that stand in a block.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use outlast_media::{Format, Unfit};

use super::Source;

/// Checks that a model takes what stands in a source, as far as its type is known.
pub(super) fn check(source: &Source) -> Result<(), Unfit> {
    match source {
        Source::Base64 { media_type, data } => {
            let format = Format::of_type(media_type);
            format.map_or(Ok(()), |format| {
                outlast_media::check(format, &begin(format, data))
            })
        }
        Source::Text { .. } | Source::Url { .. } | Source::File { .. } => Ok(()),
    }
}

/// Decodes as much as tells, so that a long document needs no second copy.
fn begin(format: Format, data: &str) -> Vec<u8> {
    let telling = usize::try_from(format.telling().div_ceil(3)).unwrap_or(usize::MAX);
    let begin = data.get(..telling.saturating_mul(4)).unwrap_or(data);
    STANDARD.decode(begin).unwrap_or_default()
}
