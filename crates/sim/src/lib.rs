//! staunch-sim
