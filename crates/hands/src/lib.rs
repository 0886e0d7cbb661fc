//! hands
