import { setTimeout as delay } from "node:timers/promises";
import type { Account } from "../../kill-test/account.js";
import type { HostCaller } from "../../kill-test/callers.js";
import type { Operation } from "../soak.js";

const MOST_PAUSE_MS = 150;

/** Acts as infrastructure automation: adds, removes and purges hosts and devices, with one caller per host. */
export function cms(callers: readonly HostCaller[], account: Account): Operation {
  return {
    name: "CMS: add, remove, purge",
    workers: callers.length,
    async run(soak, { slot, random }) {
      await callers[slot - 1]?.step(soak.isOver);
      for (const text of account.violations) soak.violations.add(`CMS: ${text}`);
      await delay(random.next() * MOST_PAUSE_MS);
    },
  };
}
