import { setTimeout as sleep } from "node:timers/promises";
import { silentLogger } from "@diskmesh/domain";
import { Changes, systemClock } from "@diskmesh/service";
import type { EventLog } from "@diskmesh/tablet";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import type { JobContext } from "../job-context.js";
import { LockKeeper, NO_TASK } from "../locks/lock-keeper.js";
import type { LockName } from "../locks/locks.js";
import { type DirectorTables, type DirectorTransaction, nextNumber, taskKey } from "../store/schema.js";
import type { Scope } from "../store/scope.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import { hasEnded, type Job, type JobOf, type Task } from "../store/task.js";
import { openState } from "../testing/open-state.js";
import type { Planner } from "./job.js";
import { newTask, requestStop } from "./task.js";
import { TaskLog } from "./task-log.js";
import type { TaskRun } from "./task-run.js";
import { TaskRunner } from "./task-runner.js";
import { TaskTimes } from "./task-times.js";

const LONG = { deadlineMs: 60_000, acquireTimeoutMs: 60_000 };
const DISK: LockName = { type: "disk", resource: "d" };

/** The runner with a real tablet and event log, and with planners of this test. */
describe("task runner", () => {
  let tablet: DirectorTablet;
  let eventLog: EventLog;
  let runner: TaskRunner;
  let locks: LockKeeper;
  let times: TaskTimes;
  let taskLog: TaskLog;
  let appendDelayMs: number;

  beforeEach(async () => {
    appendDelayMs = 0;
    ({ tablet, eventLog } = await openState());
  });
  afterEach(async () => {
    await times.close();
    await runner.close();
    await eventLog.close();
    await tablet.close();
  });

  async function start(
    detach: Planner<"detach_dynamic_disk", Pick<JobContext, "tablet">>,
    { workers = 4, lockDeadlineMs = 60_000, acquireTimeoutMs = 60_000, timeoutMs = 60_000, yieldAfterMs = 60_000 } = {},
  ): Promise<void> {
    const changes = new Changes<number>();
    const slowLog: Pick<EventLog, "append" | "read" | "drop"> = {
      append: async (stream, lines) => {
        await sleep(appendDelayMs);
        return eventLog.append(stream, lines);
      },
      read: (stream, options) => eventLog.read(stream, options),
      drop: (stream) => eventLog.drop(stream),
    };
    const clock = systemClock;
    taskLog = new TaskLog({
      eventLog: slowLog,
      changes,
      maxEventsPerTask: 100,
      maxOutputLinesPerTask: 100,
      maxOutputBytesPerTask: 1_000_000,
      maxWaitingOutputBytes: 1_000_000,
      stopping: new AbortController().signal,
      clock,
      log: silentLogger,
    });
    locks = new LockKeeper({
      times: {
        deployment: LONG,
        stemcell: LONG,
        instance: LONG,
        host: LONG,
        node: LONG,
        disk: { deadlineMs: lockDeadlineMs, acquireTimeoutMs },
      },
      clock,
      onGranted: (taskIds) => runner.resume(taskIds),
    });
    const timeoutsMs = { urgent: 60_000, normal: 60_000, dynamic_disks: timeoutMs, vendor_methods: timeoutMs };
    times = new TaskTimes({ tablet, locks, clock, log: silentLogger, timeoutsMs, checkIntervalMs: 10, yieldAfterMs });
    const plan = (job: Job, tables: DirectorTables, taskId: number) =>
      detach({ tablet }, job as JobOf<"detach_dynamic_disk">, tables, taskId);
    const counts = { urgent: workers, normal: workers, dynamic_disks: workers, vendor_methods: workers };
    runner = new TaskRunner({
      prepare: async () => undefined,
      tablet,
      events: { flush: async () => {} },
      plan,
      locks,
      taskLog,
      changes,
      times,
      onForgotten: () => {},
      workers: counts,
      queueLengths: { urgent: 100, normal: 100, dynamic_disks: 100, vendor_methods: 100 },
      clock,
      log: silentLogger,
    });
    await runner.start();
  }

  function add(
    diskName = "d",
    type: Job["type"] = "detach_dynamic_disk",
    { description = "", ...more }: { readonly description?: string; readonly scope?: Scope } = {},
  ): Promise<number> {
    return tablet.transact((tx) => {
      // The planner of these tests plans all jobs alike.
      const job = { type, diskName, ...more } as JobOf<"detach_dynamic_disk">;
      const taskId = nextNumber(tx, "task");
      tx.tasks.put(newTask({ taskId, job, description, queue: "dynamic_disks", user: "", deployment: "" }, 0));
      return taskId;
    });
  }
  const taskOf = (taskId: number): Promise<Task | undefined> =>
    tablet.read((tables) => tables.tasks.get(taskKey(taskId)));
  const ended = (taskId: number): Promise<Task> =>
    eventually(async () => {
      const task = await taskOf(taskId);
      if (task === undefined || !hasEnded(task)) throw new Error("not ended yet");
      return task;
    });

  it("a plan from before the locks were acquired -> made again with the locks", async () => {
    let plans = 0;
    await start((_context, job, tables) => {
      plans++;
      const seen = tables.deployments.get(job.diskName)?.manifest ?? "nothing";
      return { locks: [DISK], cpis: [], run: async () => `saw ${seen}` };
    });
    const lane = locks.openLane(NO_TASK);
    await lane.settle([DISK], new AbortController().signal);
    const taskId = await add();
    await eventually(() => expect(locks.list()[0]?.waitingTaskIds).to.deep.equal([taskId]));
    expect(plans).to.equal(1);
    await tablet.transact((tx) =>
      tx.deployments.put({ name: "d", manifest: "new", deleting: false, cloudConfigIds: [], checkedByTaskId: 0 }),
    );
    lane.release();
    expect((await ended(taskId)).result).to.equal("saw new");
    expect(plans).to.equal(2);
  });

  it("an ended task -> all of its events are stored", async () => {
    appendDelayMs = 200;
    await start(() => ({
      locks: [],
      cpis: [],
      run: async (run) => {
        await run.stage("Working", "on it", async () => {});
        return "done";
      },
    }));
    const taskId = await add();
    await ended(taskId);
    expect((await taskLog.read({ taskId }, 0, 10)).map((event) => event.state)).to.deep.equal(["started", "finished"]);
  });

  it("the first and last records of a task share the commits of its start and end", async () => {
    const record = (manifest: string) => (tx: DirectorTransaction) =>
      tx.deployments.put({ name: "d", manifest, deleting: false, cloudConfigIds: [], checkedByTaskId: 0 });
    let heldBeforeActing: string | undefined;
    await start((context) => ({
      locks: [DISK],
      cpis: [],
      recordsFirst: true,
      run: async () => {
        await context.tablet.transact(record("intended"));
        heldBeforeActing = commits.at(-1);
        return { result: "done", record: record("done") };
      },
    }));
    const commits: string[] = [];
    const unwatch = tablet.watch((changes) => {
      const shown = changes.map(({ document }) => document as { state?: string; manifest?: string } | null);
      commits.push(shown.map((one) => one?.state ?? one?.manifest ?? "-").join(", "));
    });
    await ended(await add());
    expect(commits).to.deep.equal(["-, queued", "processing, intended", "done, done"]);
    expect(heldBeforeActing, "durable by then").to.equal("processing, intended");
    commits.splice(0);
    const taskId = add();
    // The code that records a task enqueues the task in the same turn.
    runner.enqueue({ taskId: 2, queue: "dynamic_disks" });
    await ended(await taskId);
    unwatch();
    expect(commits, "one that is begun in the turn in which it is recorded").to.deep.equal([
      "-, processing, intended",
      "done, done",
    ]);
    expect(heldBeforeActing, "durable by then").to.equal("-, processing, intended");
  });

  it("an intent that the store refuses -> no effect, and the task fails", async () => {
    let acted = false;
    await start((context) => ({
      locks: [DISK],
      cpis: [],
      recordsFirst: true,
      run: async () => {
        await context.tablet.transact((tx) =>
          tx.deployments.put({
            name: "d",
            manifest: "x".repeat(9 * 1024 * 1024),
            deleting: false,
            cloudConfigIds: [],
            checkedByTaskId: 0,
          }),
        );
        acted = true;
        return "done";
      },
    }));
    const taskId = add();
    runner.enqueue({ taskId: 1, queue: "dynamic_disks" });
    expect((await ended(await taskId)).state).to.equal("error");
    expect(acted).to.equal(false);
  });

  it("a step that does not record first -> begins when the task's start is durable", async () => {
    const commits: string[] = [];
    let atBegin: string | undefined;
    await start(() => ({
      locks: [],
      cpis: [],
      run: async () => {
        atBegin = commits.at(-1);
        return "done";
      },
    }));
    tablet.watch((changes) => void commits.push((changes.at(-1)?.document as Task | null)?.state ?? ""));
    await ended(await add());
    expect(atBegin).to.equal("processing");
  });

  it("a bug in a job -> the task fails without internal details", async () => {
    await start(() => ({
      locks: [DISK],
      cpis: [],
      run: async () => {
        throw new TypeError("secret is undefined");
      },
    }));
    const task = await ended(await add());
    expect(task.state).to.equal("error");
    expect(task.result).to.match(/^an internal error; .* taskId 1$/);
    expect((await ended(await add())).state).to.equal("error");
  });

  const STOPPED: [string, object, string][] = [
    ["holds a lock past its deadline", { lockDeadlineMs: 100 }, "it held the lock of disk `d` past its deadline"],
    ["takes longer than it may", { timeoutMs: 100 }, "it took longer than 100 ms"],
  ];
  for (const [cause, limits, result] of STOPPED)
    it(`a task ${cause} -> requested to stop; its lock is free only when it has stopped`, async () => {
      let finish = () => {};
      const finished = new Promise<void>((resolve) => {
        finish = resolve;
      });
      const run = async (run: TaskRun) => {
        await finished;
        run.checkpoint();
        return "done";
      };
      await start(() => ({ locks: [DISK], cpis: [], run }), limits);
      times.start();
      const taskId = await add();
      const state = async () => (await tablet.read((tables) => tables.tasks.get(taskKey(taskId))))?.state;
      await eventually(async () => (await state()) === "cancelling");
      expect(locks.list().map((lock) => lock.taskId)).to.deep.equal([taskId]);
      finish();
      expect(await ended(taskId)).to.include({ state: "timeout", result });
      await eventually(() => locks.list().length === 0);
    });

  for (const [waiter, holds, timeoutMs] of [
    ["detach_dynamic_disk", "gives the lock up", 300_000],
    ["settle_owed_removals", "keeps the lock", 4_000],
  ] as const)
    it(`a background task that holds a lock for which ${waiter} waits -> ${holds}`, async () => {
      const run = async (run: TaskRun) => {
        if (run.taskId > 1) return "done";
        for (;;) {
          await sleep(5);
          run.checkpoint();
        }
      };
      await start(() => ({ locks: [DISK], cpis: [], run }), { yieldAfterMs: 100, timeoutMs });
      times.start();
      const background = await add("d", "tell_agents");
      await eventually(() => expect(locks.list()).to.have.length(1));
      const waiting = await add("d", waiter);
      const text = holds === "keeps the lock" ? "it took longer than 4000 ms" : "others wait for its lock of disk `d`";
      expect(await ended(background)).to.include({ state: "timeout", result: text });
      expect(await ended(waiting)).to.include({ state: "done" });
    });

  it("a task waits too long for a lock that a call holds -> an error that names the call", async () => {
    await start(() => ({ locks: [DISK], cpis: [], run: async () => "done" }), { acquireTimeoutMs: 1 });
    await locks.openLane(NO_TASK, "call of sample.echo for ann").settle([DISK], new AbortController().signal);
    times.start();
    const task = await ended(await add());
    expect(task.state).to.equal("error");
    expect(task.result).to.equal(
      "could not get the lock of disk `d` in time: call of sample.echo for ann holds it; try again later",
    );
  });

  for (const scope of [undefined, { name: "web" }])
    it(`a task ${scope ? "with" : "without"} a scope waits too long for a task's lock -> ${scope ? "not told" : "told"} what that task does`, async () => {
      let finish = () => {};
      const finished = new Promise<string>((resolve) => {
        finish = () => resolve("done");
      });
      await start(() => ({ locks: [DISK], cpis: [], run: () => finished }), { acquireTimeoutMs: 1 });
      const holder = await add("d", "provide_dynamic_disk", { description: "work of others" });
      await eventually(() => expect(locks.list()).to.have.length(1));
      const waiting = await add("d", "detach_dynamic_disk", scope && { scope });
      times.start();
      const shown = scope ? `task ${holder}` : `task ${holder} (work of others)`;
      expect((await ended(waiting)).result).to.include(`in time: ${shown} holds it`);
      finish();
      await ended(holder);
    });

  it("a task that renews its locks -> the deadline moves, however long the task takes", async () => {
    await start(
      () => ({
        locks: [DISK],
        cpis: [],
        run: async (run) => {
          // Runs far beyond the deadline of its lock.
          for (const startedAtMs = performance.now(); performance.now() < startedAtMs + 6_000; ) {
            await sleep(20);
            run.checkpoint();
          }
          return "done";
        },
      }),
      { lockDeadlineMs: 4_000 },
    );
    times.start();
    expect(await ended(await add())).to.include({ state: "done" });
  });

  it("one worker -> tasks run in the order of their requests", async () => {
    const order: string[] = [];
    await start(
      (_, job) => ({
        locks: [DISK],
        cpis: [],
        run: async () => {
          order.push(job.diskName);
          return "";
        },
      }),
      { workers: 1 },
    );
    const names = Array.from({ length: 50 }, (_, index) => `disk-${index}`);
    const ids = await Promise.all(names.map((name) => add(name)));
    for (const taskId of ids) await ended(taskId);
    expect(order).to.deep.equal(names);
  });

  describe("with a hanging CPI", () => {
    let goOn: () => void;
    let ran: string[];

    beforeEach(async () => {
      const hanging = new Promise<void>((resolve) => {
        goOn = resolve;
      });
      ran = [];
      const plan: Planner<"detach_dynamic_disk", Pick<JobContext, "tablet">> = (_, { diskName }) => {
        const turns = diskName.startsWith("turns");
        const turned = turns && ran.includes(diskName);
        const names = (diskName.split("-")[0] as string).split("+");
        const disk: LockName = { type: "disk", resource: diskName };
        return {
          locks: turns ? [{ type: "deployment", resource: "web" }, disk] : [disk],
          cpis: turns ? [turned ? "stuck" : "well"] : names,
          run: async (run) => {
            ran.push(diskName);
            if (names.includes("stuck")) await hanging;
            run.checkpoint();
            return turns && !turned ? undefined : diskName;
          },
        };
      };
      await start(plan, { workers: 2 });
    });
    afterEach(() => goOn());
    const addAll = (...names: string[]) => Promise.all(names.map((name) => add(name)));
    const stuckTwice = async () => {
      const ids = await addAll("stuck-1", "stuck-2", "stuck-3", "stuck-4");
      await eventually(() => ran.length === 2);
      return ids as [number, number, number, number];
    };

    it("tasks of another CPI run, and waiting tasks hold no lock", async () => {
      const stuck = await stuckTwice();
      for (const taskId of await addAll("well-1", "well-2", "well-3")) await ended(taskId);
      expect(ran).to.deep.equal(["stuck-1", "stuck-2", "well-1", "well-2", "well-3"]);
      expect((await taskOf(stuck[2]))?.state).to.equal("queued");
      // The end of the last task may be visible a moment before its lock is released.
      await eventually(() =>
        expect(locks.list().map(({ resource }) => resource)).to.deep.equal(["stuck-1", "stuck-2"]),
      );
      goOn();
      for (const taskId of stuck) expect((await ended(taskId)).state).to.equal("done");
      expect(ran.slice(-2)).to.deep.equal(["stuck-3", "stuck-4"]);
    });

    it("tasks that call it and another CPI -> take no worker from tasks that call only the other", async () => {
      await stuckTwice();
      await addAll("stuck+well-1", "stuck+well-2", "stuck+well-3");
      await eventually(() => ran.length === 4);
      for (const taskId of await addAll("well-1", "well-2")) await ended(taskId);
      expect(ran).to.deep.equal(["stuck-1", "stuck-2", "stuck+well-1", "stuck+well-2", "well-1", "well-2"]);
    });

    it("a task that comes to need it -> waits there, and holds no lock that others need", async () => {
      await stuckTwice();
      const [turned] = await addAll("turns-1");
      await eventually(async () => ran.includes("turns-1") && (await taskOf(turned as number))?.state === "queued");
      expect(locks.list().map(({ resource }) => resource)).to.deep.equal(["web", "stuck-1", "stuck-2"]);
      for (const taskId of await addAll("well-1", "well-2")) await ended(taskId);
      goOn();
      expect(await ended(turned as number)).to.include({ state: "done", attempts: 1 });
    });

    it("a task cancelled while it waits -> ends, and does not delay the next worker", async () => {
      const stuck = await stuckTwice();
      await tablet.transact((tx) => {
        const waiting = tx.tasks.get(taskKey(stuck[2]));
        if (waiting) tx.tasks.put(requestStop(waiting, { as: "cancelled", why: "the test says so" }, 1));
      });
      expect((await ended(stuck[2])).state).to.equal("cancelled");
      goOn();
      for (const taskId of [stuck[0], stuck[1], stuck[3]]) expect((await ended(taskId)).state).to.equal("done");
      expect(ran).to.deep.equal(["stuck-1", "stuck-2", "stuck-4"]);
    });
  });
});
