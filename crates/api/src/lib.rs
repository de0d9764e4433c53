//! staunch-api
