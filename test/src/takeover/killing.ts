import { setTimeout as sleep } from "node:timers/promises";
import { TaskServiceDefinition } from "@diskmesh/api/director";
import type { ServiceProcess } from "@diskmesh/testkit";
import type { Random } from "../random.js";
import type { FileFleet } from "./file-fleet.js";

export interface Kills {
  readonly directors: number;
  readonly pauses: number;
  readonly dispatchers: number;
}

interface Killing {
  readonly kills: number;
  readonly pauses: number;
  readonly dispatcherKills: number;
  readonly random: Random;
  readonly report: (line: string) => void;
}

/** Range of the pause in ms between two kills, in which work progresses. */
const REST_MS = { least: 500, most: 2_500 };
const ASK_MS = 20;
const LOOK = { deadlineMs: 2_000 };

const rest = (random: Random) => sleep(random.between(REST_MS.least, REST_MS.most));

const answers = (call: Promise<unknown>): Promise<boolean> =>
  call.then(
    () => true,
    () => false,
  );

export interface Answers {
  /** Resolves with the time of the next answer to a request that was sent after this call. */
  next(): Promise<number>;
  stop(): void;
}

/** Sends each director a cheap request repeatedly. Only answers of the leader count. */
export function watchAnswers(fleet: FileFleet): Answers {
  let isOver = false;
  let waiting: { readonly sinceMs: number; readonly resolve: (ms: number) => void }[] = [];
  const ask = async (name: string) => {
    const client = fleet.mesh.client(TaskServiceDefinition, "director", { names: [name] });
    while (!isOver) {
      const askedMs = performance.now();
      // A client of a standby would follow the redirect to the leader, so the director is first asked whether it leads.
      const leads =
        (await fleet.mesh.leads("director", name)) && (await answers(client.listTasks({ pageSize: 1 }, LOOK)));
      const nowMs = performance.now();
      if (leads) {
        const served = waiting.filter(({ sinceMs }) => sinceMs <= askedMs);
        waiting = waiting.filter((one) => !served.includes(one));
        for (const { resolve } of served) resolve(nowMs);
      }
      await sleep(ASK_MS);
    }
  };
  for (const name of fleet.mesh.names("director")) void ask(name);
  return {
    next: () => new Promise((resolve) => waiting.push({ sinceMs: performance.now(), resolve })),
    stop: () => {
      isOver = true;
    },
  };
}

/** Kills or pauses the leading director. A paused director continues when another has answered. */
export async function killDirectors(
  fleet: FileFleet,
  asked: Answers,
  { kills, pauses, random, report }: Killing,
): Promise<{ readonly directors: number; readonly pauses: number; readonly unansweredMs: number[] }> {
  const unansweredMs: number[] = [];
  const order = [...Array.from({ length: kills }, () => false), ...Array.from({ length: pauses }, () => true)];
  for (let at = order.length - 1; at > 0; at--) {
    const other = random.below(at + 1);
    [order[at], order[other]] = [order[other] ?? false, order[at] ?? false];
  }
  for (const isPause of order) {
    await rest(random);
    const leader = await leaderOf(fleet);
    const beginMs = performance.now();
    if (isPause) leader.signal("SIGSTOP");
    else await leader.kill();
    unansweredMs.push(Math.round((await asked.next()) - beginMs));
    if (isPause) leader.signal("SIGCONT");
    else await leader.start();
    report(`a leader was ${isPause ? "paused" : "killed"}: no answer for ${unansweredMs.at(-1)} ms`);
  }
  return { directors: kills, pauses, unansweredMs };
}

/** Kills a dispatcher and starts it again, repeatedly. */
export async function killDispatchers(
  fleet: FileFleet,
  { dispatcherKills, random }: Pick<Killing, "dispatcherKills" | "random">,
): Promise<number> {
  for (let done = 0; done < dispatcherKills; done++) {
    await rest(random);
    const killed = random.pick(fleet.mesh.all("cpi-dispatcher"));
    await killed.kill();
    await rest(random);
    await killed.start();
  }
  return dispatcherKills;
}

async function leaderOf({ mesh }: FileFleet): Promise<ServiceProcess> {
  for (;;) {
    const [leader] = await mesh.leading("director");
    if (leader !== undefined) return leader;
    await sleep(ASK_MS);
  }
}
