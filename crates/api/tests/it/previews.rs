//! previews
