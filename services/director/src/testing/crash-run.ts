import { type Task, TaskState } from "@diskmesh/api/director";
import { expect } from "chai";
import type { CrashPlaces } from "./crash-places.js";
import type { TestDirector } from "./test-director.js";

/** A job that runs once for each crash point of the director. */
export interface CrashedJob<World> {
  readonly name: string;
  /** Creates the state in which the job starts. */
  begin(): Promise<World>;
  /** Requests the job. Called again after the director was killed. */
  ask(world: World): Promise<Task | undefined>;
  /** Throws when an object is lost, duplicated or left behind. */
  check(at: string): Promise<void>;
  clear(world: World): Promise<void>;
}

/** A director that runs `crashing-main.ts`, and its crash points. */
export interface CrashedDirector {
  readonly director: TestDirector;
  readonly places: CrashPlaces;
  /** Returns true when the director must be killed at this crash point, which is `number` of `count`. */
  readonly visits: (place: string, number: number, count: number) => boolean;
}

/**
 * Runs the job once without a kill, and then once for each crash point: kills the director there and requests the job
 * again.
 */
export async function crashAtEachPlace<World>(crashed: CrashedDirector, job: CrashedJob<World>): Promise<void> {
  const passed = await placesOf(crashed, job);
  expect(passed.length).to.be.above(2);
  for (const [index, place] of passed.entries())
    if (crashed.visits(place, index + 1, passed.length)) await killAt(crashed, job, index + 1, place);
}

/** Returns the crash points of a run without a kill. */
async function placesOf<World>({ places }: CrashedDirector, job: CrashedJob<World>): Promise<string[]> {
  const world = await job.begin();
  places.arm(Number.MAX_SAFE_INTEGER);
  expectDone(await job.ask(world), job.name);
  const passed = places.disarm();
  await job.check(`${job.name}, not killed`);
  await job.clear(world);
  return passed;
}

async function killAt<World>(
  { director, places }: CrashedDirector,
  job: CrashedJob<World>,
  number: number,
  place: string,
): Promise<void> {
  const world = await job.begin();
  places.arm(number);
  const asked = await job.ask(world).catch(() => undefined);
  const passed = places.disarm();
  const at = `${job.name}, killed at ${number}: ${place}`;
  expect(asked, `${at}: it went on`).to.equal(undefined);
  expect(passed.length, at).to.equal(number);
  await director.process.kill();
  await director.process.start();
  expectDone(await job.ask(world), at);
  await job.check(at);
  await job.clear(world);
}

function expectDone(task: Task | undefined, at: string): void {
  expect(task?.state, `${at}: ${task?.result}`).to.equal(TaskState.DONE);
}
