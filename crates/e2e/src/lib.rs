//! staunch-e2e
