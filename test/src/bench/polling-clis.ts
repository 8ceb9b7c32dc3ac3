import { fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { HttpClient } from "@diskmesh/director/testing";

export interface PollingOptions {
  readonly caFile: string;
  readonly port: number;
  /** Login as "name:password". */
  readonly login: string;
  /** Id of a running task. */
  readonly taskId: number;
  readonly clis: number;
}

/** Pause of each CLI after a round; undefined stops all CLIs. */
interface Order {
  readonly pauseMs?: number;
}

/** CLIs that wait for the same task, in their own process. */
export interface PollingClis extends AsyncDisposable {
  poll(pauseMs: number): Promise<void>;
  /** Stops polling. Resolves with the number of rounds of all CLIs since they began. */
  stop(): Promise<number>;
}

export async function startPollingClis(options: PollingOptions): Promise<PollingClis> {
  const child = fork(fileURLToPath(import.meta.url), [JSON.stringify(options)]);
  const told = async (order: Order): Promise<number> => {
    child.send(order);
    const [rounds] = (await once(child, "message")) as [number];
    return rounds;
  };
  return {
    poll: async (pauseMs) => void (await told({ pauseMs })),
    stop: () => told({}),
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    },
  };
}

/**
 * Waits for a task as the stock CLI does: requests the task, then the events after the last offset, each over its own
 * connection. Then pauses for half a second (bosh-cli 19ee1a8d, WaitForCompletion of director/task_client_request.go,
 * with the step of director/client.go).
 */
async function waitForTask(http: HttpClient, taskId: number, goesOn: () => number | undefined): Promise<number> {
  let offset = 0;
  for (let rounds = 0; ; rounds++) {
    const pauseMs = goesOn();
    if (pauseMs === undefined) return rounds;
    const { status } = await http.send("GET", `/tasks/${taskId}`);
    const range = { range: `bytes=${offset}-` };
    const events = await http.send("GET", `/tasks/${taskId}/output?type=event`, { headers: range });
    if (status !== 200 || (events.status !== 206 && events.status !== 416))
      throw new Error(`task ${taskId} was answered with ${status}, its events with ${events.status}`);
    if (events.status === 206) offset += Buffer.byteLength(events.body);
    await sleep(pauseMs);
  }
}

function serve({ caFile, port, login, taskId, clis }: PollingOptions): void {
  const files = () => ({ caFile, certFile: "", keyFile: "" });
  const http = new HttpClient({ files }, port, login);
  let pauseMs: number | undefined;
  let polling: Promise<number>[] = [];
  process.on("message", async (order: Order) => {
    pauseMs = order.pauseMs;
    let rounds = 0;
    if (pauseMs === undefined) rounds = (await Promise.all(polling)).reduce((sum, count) => sum + count, 0);
    // Starts at a random time, because real users do not start simultaneously.
    else
      polling = Array.from({ length: clis }, async (_, index) => {
        await sleep((index * (pauseMs ?? 0)) / clis);
        return waitForTask(http, taskId, () => pauseMs);
      });
    process.send?.(rounds);
  });
  process.once("disconnect", () => process.exit(0));
}

if (process.send && process.argv[1] === fileURLToPath(import.meta.url)) serve(JSON.parse(process.argv[2] ?? ""));
