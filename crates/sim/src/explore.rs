//! The random explorer: one seed, one job, one stretch of faults, one end that must come.
//!
//! Owns: what goes wrong and when, who starts the program again, how a run is judged. Does not own: what must hold step by step (check).
//!
//! Invariants that are looked at here, beyond those of every step:
//! 1. After the faults have ended the job finishes, within [`PATIENCE`].
//! 2. A process ends fenced, or for a reason that the faults explain.
//! 3. A zombie that comes back after the end does no harm, and one more start of the finished job adds nothing and leaves nothing hidden.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use staunch_engine::cluster::Restore;
use staunch_protocol::Reason;
use staunch_types::{Error, ErrorKind, Tick};

use crate::check::Violation;
use crate::job::{JobSpec, Start, name};
use crate::kernel::{BrokerSettings, Kernel, ProcessId, Random, Weather, panic_text};
use crate::world::{PATIENCE, Step, World};

/// Turns after which a run is given up: it should have come to its end long before.
pub const STEPS_MAX: u64 = 3_000_000;
/// Processes alive at once.
const ALIVE_MAX: usize = 3;

/// What came of one seed.
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Turns given.
    pub steps: u64,
    /// Virtual time at the end.
    pub time: Tick,
    /// What was not well, if anything.
    pub violation: Option<Violation>,
    kernel: Arc<Kernel>,
    ledger: String,
}

impl Report {
    /// The whole history.
    #[must_use]
    pub fn history(&self) -> String {
        self.kernel.machine().history.text().to_owned()
    }

    /// For people: what was not well, the last lines of the history, and how to see it again.
    #[must_use]
    pub fn text(&self, lines: usize) -> String {
        let machine = self.kernel.machine();
        let verdict = self.violation.as_ref().map_or_else(|| "all is well".to_owned(), ToString::to_string);
        format!(
            "{}{}\n{}\nseed {}: {verdict}\nsteps {}, history lines {}; see it again: cargo run -p staunch-sim --bin sim -- --seed {} --history\n",
            crate::kernel::LEGEND,
            machine.history.tail(lines),
            self.ledger,
            self.seed,
            self.steps,
            machine.history.lines(),
            self.seed,
        )
    }
}

/// Runs one seed.
#[must_use]
pub fn explore(seed: u64) -> Report {
    let mut random = Random::new(seed ^ 0x005E_ED0F_0075_0FFE);
    let mut job = JobSpec::by_chance(&mut random);
    // Chance of its own, so that jobs with files are as they were.
    let mut at_broker = Random::new(seed ^ 0x00B2_0CE2);
    job.topics_by_chance(&mut at_broker);
    let mut at_database = Random::new(seed ^ 0x0DA7_ABA5_E000);
    if at_database.chance(4_000) {
        job.object_bytes = Some(at_database.between(0, 3_000) as usize);
    }
    let mut world = World::new(seed, job);
    let kernel = Arc::clone(&world.kernel);
    if let Some(topics) = &world.job.topics {
        kernel.note(format_args!("w  topics {topics:?}, journal {}", world.job.journal));
        kernel.machine().broker.settings = BrokerSettings::by_chance(&mut at_broker);
    }
    if let Some(bytes) = world.job.object_bytes {
        kernel.note(format_args!("w  a database under keyed state, {bytes} bytes in memory"));
    }
    kernel.note(format_args!("w  job {:?}, files {}, rows {}", world.job.shape, world.job.input.len(), world.job.rows().count()));
    let mut explorer = Explorer::new(random, world.job.topics.is_some());
    let outcome = catch_unwind(AssertUnwindSafe(|| explorer.run(&mut world)));
    let violation = match outcome {
        Ok(answer) => answer.err(),
        Err(panic) => Some(Violation::new("panic", panic_text(panic.as_ref()))),
    };
    if let Some(violation) = &violation {
        kernel.note(format_args!("w  VIOLATION {violation}"));
    }
    Report { seed, steps: world.steps, time: world.now(), violation, kernel, ledger: world.checks.ledger.text() }
}

/// What can go wrong in this run, in shares of ten thousand steps.
#[derive(Debug)]
struct Climate {
    kill: u32,
    power_loss: u32,
    hang: u32,
    rival: u32,
    stop: u32,
    clock: u32,
    weather: u32,
    faults: bool,
    rescale: bool,
}

struct Explorer {
    random: Random,
    climate: Climate,
    start: Start,
    /// When all faults end.
    calm_at: Tick,
    calm: bool,
    start_at: Option<Tick>,
    finished: bool,
    judged: usize,
    /// Whether there is a broker.
    broker: bool,
}

impl Explorer {
    fn new(mut random: Random, broker: bool) -> Explorer {
        let mut share = |often: u64| if random.chance(4_000) { random.between(1, often) as u32 } else { 0 };
        let climate = Climate {
            kill: share(80),
            power_loss: share(40),
            hang: share(60),
            rival: share(40),
            stop: share(30),
            clock: share(10),
            weather: 30,
            faults: random.chance(6_000),
            rescale: random.chance(5_000),
        };
        let start = Start {
            parallelism: (random.between(1, 4) as u32, random.between(1, 4) as u32),
            interval: random.duration(Duration::from_millis(5), Duration::from_millis(200)),
            timeout: random.duration(Duration::from_millis(200), Duration::from_secs(10)),
            retained: random.between(1, 3) as usize,
            ..Start::default()
        };
        let calm_at = Tick::default() + random.duration(Duration::from_millis(100), Duration::from_secs(20));
        Explorer { random, climate, start, calm_at, calm: false, start_at: Some(Tick::default()), finished: false, judged: 0, broker }
    }

    fn run(&mut self, world: &mut World) -> Result<(), Violation> {
        world.kernel.note(format_args!("w  {:?} {:?} calm at {}", self.climate, self.start, self.calm_at.0 / 1_000));
        world.weather(self.weather());
        while !(self.finished && world.alive().next().is_none()) {
            self.disturb(world)?;
            self.supervise(world);
            if world.step()? == Step::Still {
                self.nobody_runs(world)?;
            }
            self.judge(world)?;
            if self.calm && world.now().since(self.calm_at) > PATIENCE {
                return Err(Violation::new("progress", format!("the faults ended {PATIENCE:?} ago, and the job has not finished")));
            }
            if world.steps > STEPS_MAX {
                return Err(Violation::new("progress", format!("the job has not finished after {STEPS_MAX} steps")));
            }
        }
        world.weather(Weather::fair());
        world.checks.finished(&world.job)?;
        world.once_more(&self.start)
    }

    /// Lets something go wrong, or ends all faults when it is time.
    fn disturb(&mut self, world: &mut World) -> Result<(), Violation> {
        if self.calm {
            return Ok(());
        }
        if world.now() >= self.calm_at || self.finished {
            self.calm = true;
            self.calm_at = world.now();
            world.weather(Weather::fair());
            let all: Vec<ProcessId> = world.alive().collect();
            all.into_iter().for_each(|id| world.machine().wake(id));
            return Ok(());
        }
        let random = &mut self.random;
        if random.chance(self.climate.weather) {
            let weather = self.weather();
            world.weather(weather);
        }
        let random = &mut self.random;
        if random.chance(self.climate.power_loss) {
            world.power_loss();
            return world.look();
        }
        if random.chance(self.climate.clock) {
            let hours = random.below(3) as i64 - 1;
            let mut machine = world.machine();
            machine.note(format_args!("w  clock {hours:+} h"));
            machine.wall_offset_ms += hours * 3_600_000;
        }
        if random.chance(self.climate.rival) && world.alive().count() < ALIVE_MAX {
            self.start(world);
        }
        let all: Vec<ProcessId> = world.alive().collect();
        if all.is_empty() {
            return Ok(());
        }
        let victim = *self.random.pick(&all);
        if self.random.chance(self.climate.kill) {
            world.kill(victim);
        } else if self.random.chance(self.climate.hang) {
            let time = self.random.duration(Duration::from_millis(5), Duration::from_secs(20));
            world.machine().hang(victim, time);
            if all.len() < ALIVE_MAX && self.random.chance(7_000) {
                self.start(world);
            }
        } else if self.random.chance(self.climate.stop) {
            world.stop(victim, Reason::Stop);
        }
        Ok(())
    }

    fn weather(&mut self) -> Weather {
        let mut weather = Weather::fair();
        let random = &mut self.random;
        if random.chance(5_000) {
            weather.slow.1 = random.duration(Duration::from_millis(1), Duration::from_secs(1));
        }
        if random.chance(6_000) {
            weather.deep = random.between(500, 10_000) as u32;
            weather.pause = random.between(200, 5_000) as u32;
        }
        if random.chance(3_000) {
            weather.starve = random.between(1, 100) as u32;
        }
        if self.climate.faults {
            let random = &mut self.random;
            if random.chance(4_000) {
                weather.refused = random.between(1, 300) as u32;
            }
            if random.chance(4_000) {
                weather.answer_lost = random.between(1, 1_000) as u32;
            }
            if random.chance(1_000) {
                weather.closed = Some(*random.pick(&[io::ErrorKind::StorageFull, io::ErrorKind::ReadOnlyFilesystem]));
            }
        }
        if self.broker {
            self.weather_at_broker(&mut weather);
        }
        weather
    }

    fn weather_at_broker(&mut self, weather: &mut Weather) {
        let random = &mut self.random;
        if random.chance(4_000) {
            weather.broker_refused = random.between(1, 1_000) as u32;
        }
        if random.chance(4_000) {
            weather.broker_answer_lost = random.between(1, 2_000) as u32;
        }
        weather.broker_away = random.chance(1_000);
    }

    fn start(&mut self, world: &mut World) {
        if self.climate.rescale {
            self.start.parallelism = (self.random.between(1, 4) as u32, self.random.between(1, 4) as u32);
        }
        world.start(&Start { restore: Restore::Latest, ..self.start.clone() });
    }

    /// Starts the program when nobody runs it, after a while.
    fn supervise(&mut self, world: &mut World) {
        if self.finished || world.alive().next().is_some() {
            return;
        }
        let now = world.now();
        let wait = self.random.duration(Duration::from_millis(1), Duration::from_secs(1));
        let at = *self.start_at.get_or_insert(now + wait);
        if at <= now {
            self.start_at = None;
            self.start(world);
        }
    }

    fn nobody_runs(&mut self, world: &mut World) -> Result<(), Violation> {
        if world.alive().next().is_some() {
            return Err(Violation::new("progress", "processes are alive, and none of them will ever do anything again"));
        }
        if let Some(at) = self.start_at {
            let mut machine = world.machine();
            machine.now = machine.now.max(at);
        }
        Ok(())
    }

    /// Looks how processes have ended.
    fn judge(&mut self, world: &World) -> Result<(), Violation> {
        if world.ended.len() == self.judged {
            return Ok(());
        }
        self.judged = world.ended.len();
        for (id, result) in &world.ended {
            match result {
                Ok(Reason::Final) => self.finished = true,
                Ok(_) => {}
                Err(error) => {
                    self.explain(world, *id, error)?;
                    if error.kind() == ErrorKind::Lost {
                        // A person has looked.
                        self.start.accept_lost = world.job.shape.sinks().iter().map(|sink| name(sink)).collect();
                    }
                }
            }
        }
        Ok(())
    }

    fn explain(&self, world: &World, id: ProcessId, error: &Error) -> Result<(), Violation> {
        let fine = match error.kind() {
            ErrorKind::Fenced => true,
            ErrorKind::Retry | ErrorKind::Restart => true,
            // What a start tries first, and is refused by the weather.
            ErrorKind::Invalid => self.climate.faults && ["C011", "F051", "F052"].contains(&error.code()),
            ErrorKind::Lost => !world.checks.topics.lost().is_empty() && !world.job.journal,
            ErrorKind::Corrupt | ErrorKind::Bug => false,
        };
        if fine { Ok(()) } else { Err(Violation::new("end of a process", format!("{id} ended for no good reason: {error}"))) }
    }
}
