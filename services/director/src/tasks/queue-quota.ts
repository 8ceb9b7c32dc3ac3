import { ResourceExhaustedError } from "@diskmesh/domain";
import { type DirectorTables, loginKey, shareKey } from "../store/schema.js";
import type { TaskQueue } from "../store/task.js";
import { mayJoin, placesPerLogin } from "./worker-quotas.js";

const RETRY_FULL_MS = 1_000;

export interface Newcomer {
  readonly queue: TaskQueue;
  /** The name of the set of CPIs that the task calls. */
  readonly cpiShare: string;
  readonly user: string;
}

/**
 * Throws ResourceExhaustedError unless the queue admits another task with this CPI set and login. The quota per CPI set
 * keeps places free for other tasks while tasks wait for a hanging CPI. `limit` is the maximum of live tasks in the
 * queue.
 */
export function refuseWhenFull(
  { tasks }: Pick<DirectorTables, "tasks">,
  { queue, cpiShare, user }: Newcomer,
  limit: number,
): void {
  const length = tasks.count("liveByQueue", queue);
  const retry = { reason: "QUEUE_FULL", retryAfterMs: RETRY_FULL_MS } as const;
  const later = ": try again later";
  if (length >= limit)
    throw new ResourceExhaustedError(
      `the queue ${queue} already has ${limit} unfinished tasks, its limit${later}`,
      retry,
    );
  const ofCpiSet = tasks.count("liveByShare", shareKey(queue, cpiShare));
  const [kind, hint] =
    queue === "vendor_methods"
      ? [`call methods of ${cpiShare}`, ""]
      : ["use the same CPIs", ", or check these CPIs with the dispatcher's ListCpis"];
  if (!mayJoin({ ofCpiSet, length, limit }))
    throw new ResourceExhaustedError(
      `${ofCpiSet} of the ${length} unfinished tasks of the queue ${queue} ${kind}; the other places of its ${limit} are reserved${later}${hint}`,
      retry,
    );
  // Vendor methods may run for any time, so without a quota a single login could fill the queue.
  const ofLogin = tasks.count("liveByLogin", loginKey(queue, user));
  if (queue === "vendor_methods" && ofLogin >= placesPerLogin(limit))
    throw new ResourceExhaustedError(
      `${user} already has ${ofLogin} unfinished tasks in the queue ${queue}, and the rest of its ${limit} places is reserved for others${later}`,
      retry,
    );
}
