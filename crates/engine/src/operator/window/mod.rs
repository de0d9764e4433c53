//! Windows: which records belong together by event time, and when their result goes out.
//!
//! Owns: the kinds of windows, incremental aggregates, firing, lateness. Does not own: event times and watermarks, the state's form.
//!
//! Tumbling and hopping windows share one mechanism, panes: time is cut into the longest stretches that every window is made of, a
//! record changes the accumulator of its key in one pane, and a window that fires puts its panes together. Sessions keep a list per key.
//!
//! Invariants:
//! 1. A window fires once when the watermark reaches its last millisecond, and once more for each record that comes after that within the
//!    allowed lateness.
//! 2. A record that no window can take any more is counted and goes to the late output, or is only counted if there is none (E9).
//! 3. A window belongs to the half-open interval `[start, end)`; boundaries are aligned by floor division, so times before 1970 too.

mod assign;
mod aggregate;
mod pane_node;
mod session_node;

pub use aggregate::{Aggregate, Fold, FoldMerge};
pub(crate) use assign::exact;
pub use assign::{Days, Hopping, Panes, Session, Tumbling, Window};
pub use pane_node::{PaneWindow, PaneWindowNode};
pub use session_node::{SessionWindow, SessionWindowNode};

use serde::{Deserialize, Serialize};
use staunch_types::Timestamp;

/// The result of one window of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowResult<K, R> {
    /// The key.
    pub key: K,
    /// First millisecond of the window.
    pub start: Timestamp,
    /// First millisecond after it.
    pub end: Timestamp,
    /// The aggregate's result.
    pub value: R,
}

/// Windows that fire may emit this many results before the task looks at other things again.
const FIRE_RESULTS_MAX: usize = 1024;
