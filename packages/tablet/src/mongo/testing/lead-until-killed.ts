/** A child process for tests: leads a tablet, prints each acknowledged number, and waits to be killed. */
import { writeSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { table } from "../../documents/schema.js";
import { Tablet } from "../../tablet.js";
import { openMongoStorage } from "../open-mongo.js";

/** Pause between two commits, so that other processes get most of the processor time. */
const PAUSE_MS = 5;

const { url, tabletName, leaseTimeMs, address } = JSON.parse(process.argv[2] as string);
const limits = { leaseTimeMs, safeLeaseTimeMs: leaseTimeMs * 0.8 };
const schema = { counters: table<{ id: string; n: number }>()({ key: ({ id }) => id }) };
const storage = openMongoStorage({ url, tabletName, limits });
const renewIntervalMs = leaseTimeMs / 5;
await using tablet = await Tablet.open({ name: tabletName, schema, storage, address, limits: { renewIntervalMs } });
for (;;) {
  const n = await tablet.transact(({ counters }) => {
    const next = (counters.get("a")?.n ?? 0) + 1;
    counters.put({ id: "a", n: next });
    counters.put({ id: `k${next % 50}`, n: next });
    return next;
  });
  writeSync(1, `${n}\n`);
  await delay(PAUSE_MS);
}
