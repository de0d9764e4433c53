//! Whose code is running: for the report when it panics. Costs nothing while nothing panics.

use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static PANICKED: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// The name of an operator, for its panics.
#[derive(Clone, Debug)]
pub struct Named(Arc<str>);

impl Named {
    /// Names an operator.
    #[must_use]
    pub fn new(name: &str) -> Named {
        Named(name.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Runs user code; when it panics the operator's name is remembered for [`running_operator`].
    #[inline]
    pub fn run<R>(&self, code: impl FnOnce() -> R) -> R {
        let guard = Unwinding(&self.0);
        let result = code();
        std::mem::forget(guard);
        result
    }
}

struct Unwinding<'a>(&'a Arc<str>);

impl Drop for Unwinding<'_> {
    #[cold]
    fn drop(&mut self) {
        PANICKED.with(|panicked| {
            panicked.borrow_mut().get_or_insert_with(|| Arc::clone(self.0));
        });
    }
}

/// The innermost operator whose code panicked last on this thread; asking clears it.
#[must_use]
pub fn running_operator() -> Option<Arc<str>> {
    PANICKED.with(|p| p.borrow_mut().take())
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn the_innermost_operator_is_named_after_a_panic_only() {
        let (outer, inner) = (Named::new("outer"), Named::new("inner"));
        assert_eq!(outer.run(|| inner.run(|| 7)), 7);
        assert_eq!(running_operator(), None);
        let caught = catch_unwind(AssertUnwindSafe(|| outer.run(|| inner.run(|| std::panic::resume_unwind(Box::new("x"))))));
        assert!(caught.is_err());
        assert_eq!(running_operator().as_deref(), Some("inner"));
        assert_eq!(running_operator(), None);
    }
}
