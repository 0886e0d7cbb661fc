//! The formats that models take beside text.

/// How the bytes of an image or document are to be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// `image/jpeg`.
    Jpeg,
    /// `image/png`.
    Png,
    /// `image/gif`.
    Gif,
    /// `image/webp`.
    Webp,
    /// `application/pdf`.
    Pdf,
}

impl Format {
    /// All there are.
    pub const ALL: [Self; 5] = [Self::Jpeg, Self::Png, Self::Gif, Self::Webp, Self::Pdf];

    /// Returns the format of a MIME type without parameters.
    pub fn of_type(media_type: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|format| format.media_type() == media_type)
    }

    /// Returns the format that the first bytes tell of.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.begins(bytes))
    }

    /// Returns its MIME type.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
            Self::Pdf => "application/pdf",
        }
    }

    /// Tells whether it is one of images.
    pub const fn is_image(self) -> bool {
        !matches!(self, Self::Pdf)
    }

    /// Returns how many bytes from the first on [`check`](crate::check) has to see: what comes
    /// before the size in an image may be of any length.
    pub const fn telling(self) -> u64 {
        match self {
            Self::Pdf => HEAD,
            Self::Jpeg | Self::Png | Self::Gif | Self::Webp => crate::IMAGE_BYTES + 1,
        }
    }

    /// Returns what something of it is called.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Jpeg => "JPEG image",
            Self::Png => "PNG image",
            Self::Gif => "GIF image",
            Self::Webp => "WebP image",
            Self::Pdf => "PDF document",
        }
    }

    /// Tells whether bytes begin as those of this format do.
    fn begins(self, bytes: &[u8]) -> bool {
        match self {
            Self::Jpeg => bytes.starts_with(b"\xff\xd8\xff"),
            Self::Png => bytes.starts_with(b"\x89PNG\r\n\x1a\n"),
            Self::Gif => bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a"),
            Self::Webp => bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP"),
            Self::Pdf => bytes.starts_with(PDF),
        }
    }
}

/// Bytes that tell of every format.
const HEAD: u64 = 12;

/// How a PDF document begins.
const PDF: &[u8] = b"%PDF-";
