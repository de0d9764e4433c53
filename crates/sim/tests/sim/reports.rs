//! Faults that users of other systems met, in the words of `docs/guarantees.md`.

use staunch_engine::cluster::JobEvent;
use staunch_sim::job::{JobSpec, Shape, Start};
use staunch_sim::world::World;

use crate::support::{LONG, deep, finishes, tail, well};

/// Kills a job after each of its epochs that has output, as long as it has not ended; how often.
fn killed_after_each_epoch(world: &mut World, start: &Start) -> u32 {
    for kills in 0.. {
        let id = world.start(start);
        let far = world.run_until(LONG, |world| {
            let told = world.told(id);
            told.iter().any(|event| matches!(event, JobEvent::EpochDurable { committables: 1.., .. })) || world.ended.contains_key(&id)
        });
        assert!(well(world, far), "{}", tail(world));
        if world.ended.contains_key(&id) {
            return kills;
        }
        world.kill(id);
    }
    0
}

#[test]
fn report_22_the_same_rows_with_a_wrong_clock_go_aside_however_often_the_job_is_killed() {
    for parallelism in [(1, 1), (2, 2)] {
        let mut job = JobSpec::new(Shape::Guarded, 3, 200);
        job.chunk_bytes = 60;
        assert!(job.expected()["ahead"].len() > 50, "too few rows are ahead");
        let mut world = World::new(11, job);
        world.weather(deep());
        let start = Start { parallelism, ..Start::default() };
        let kills = killed_after_each_epoch(&mut world, &start);
        assert!(kills > 3, "killed {kills} times only");
        finishes(&mut world, &start);
    }
}
