//! staunch-bench
