//! Interrupts: the first asks the job to stop with a last checkpoint, the second ends the process at once.

use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use staunch_protocol::Reason;
use staunch_types::{Error, ErrorKind, Result};

use crate::exit::say;
use crate::run::Stopper;

/// Hears signals until it is dropped.
pub(crate) struct Listening(Handle);

/// Begins to hear SIGINT and SIGTERM on behalf of a job.
///
/// # Errors
/// `Invalid` when the system does not let us.
pub(crate) fn listen(stopper: &Stopper) -> Result<Listening> {
    let refused = |error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Invalid, "R101", "the system does not let this process hear signals").cause(error).data("nothing was started")
    };
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|e| refused(&e))?;
    let (handle, stopper) = (signals.handle(), stopper.clone());
    let hear = move || {
        let mut asked = false;
        for signal in signals.forever() {
            if asked {
                say("exits at once; started again, the job goes on from its last checkpoint");
                // Ends the process as the signal would have done unheard, which is what whoever sent it twice expects.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            asked = true;
            say("stopping with a last checkpoint; a second signal exits at once");
            stopper.stop(Reason::Stop);
        }
    };
    thread::Builder::new().name("staunch-signals".into()).spawn(hear).map_err(|e| refused(&e))?;
    Ok(Listening(handle))
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.close();
    }
}
