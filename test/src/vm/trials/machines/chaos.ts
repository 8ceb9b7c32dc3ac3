import { setTimeout as sleep } from "node:timers/promises";
import { DEVICE_BYTES } from "@diskmesh/disk-agent/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { expectCut, HOLDER, nqns, portOf, STORAGE } from "../between-hosts.js";
import type { Way } from "../between-life.js";
import { CheckedWriter } from "../checked-writer.js";
import { there } from "../machine-calls.js";
import { count, noteLongest } from "../tally.js";
import { begin, DEPTH, fence, machineOf, order, PORT, publish, REST_MS, useMachines } from "./hosts.js";

/** Time in which a late write would come. */
const LATE_MS = 300;
const KILLS = 5;
/** Upper bound of the time of a life's start, in ms. */
const START_MS = 8_000;
/** Time of a test with random harms. `ROUNDS` repeats it. */
const CHAOS_MS = 60_000;
const HARMS = 3;
/** Below and above the limits of a connection: keep-alive 5 s, then 3 s until I/O fails. */
const SHORT_MS = 1_500;
const LONG_MS = 14_000;

describe("a disk between two machines", () => {
  useMachines();

  it("fails no I/O and loses no write while the agents of both are killed", async () => {
    const { session, path } = await publish();
    const writer = await CheckedWriter.start(path, DEPTH, REST_MS);
    await writer.progress();
    for (let kills = 0; kills < KILLS; kills++)
      for (const hostId of [STORAGE, HOLDER]) {
        await machineOf(hostId).kill();
        await writer.progress();
        await begin(hostId, Math.random() * START_MS);
        await machineOf(hostId).kill();
        await writer.progress();
        expect(await begin(hostId)).to.equal(hostId === STORAGE ? `${PORT}` : path);
        await writer.progress();
        expect(writer.errors).to.deep.equal([]);
        count("kills of agents between machines", 2);
      }
    noteLongest("longest write in ms", writer.longestMs);
    await fence(writer);
    await writer.ended();
    await writer.stop();
    await order(HOLDER, "end", session);
    await eventually(() => expect(nqns().connected).to.deep.equal([]));
  });
});

for (const way of ["NVMe/TCP", "WireGuard", "node"] as const)
  describe(`a chaos of kills, stops, black holes and cuts around a disk between two machines, by ${way},`, () => {
    useMachines(way);

    it("has no byte of a former session, and loses no write", async () => {
      const untilMs = performance.now() + CHAOS_MS;
      while (performance.now() < untilMs) {
        const { session, path } = await eventually(publish);
        const writer = await CheckedWriter.start(path, DEPTH, REST_MS);
        await writer.progress();
        for (let harms = 1; harms < HARMS; harms++) await suffer(writer, pick(HARM_KINDS), way);
        const last = pick(HARM_KINDS.filter(({ kind }) => kind === "network"));
        const isFencedBefore = Math.random() < 0.5;
        const filled: string[] = [];
        let next = session;
        const elsewhere = async () => {
          next = await fence(writer);
          filled.push(await there.fill(await order(STORAGE, "serve", next), 2 * DEVICE_BYTES));
        };
        await suffer(writer, last, way, isFencedBefore ? elsewhere : undefined);
        if (!isFencedBefore) await elsewhere();
        await writer.ended();
        expectCut(writer.errors);
        await writer.stop();
        await sleep(LATE_MS);
        expect([await there.digest()], "bytes of the next session").to.deep.equal(filled);
        noteLongest("longest write in ms", writer.longestMs);
        count(`writes that were acknowledged, ${way}`, writer.writes);
        await order(STORAGE, "end", next);
        await order(HOLDER, "end", session);
        count(`fences and republications on the other machine, ${way}`);
      }
    });
  });

/** A fault of a host or its network, with its beginning and end. */
interface Harm {
  readonly name: string;
  /** Faults of the network cut the hosts from each other. A kill ends with the start of an agent. */
  readonly kind: "network" | "stop" | "kill";
  begin(): Promise<unknown>;
  end(): Promise<unknown>;
}

/** Drops packets that come to a host. */
function hole(name: string, hostId: typeof HOLDER, rule: string): Harm {
  const table = `table inet hole { chain input { type filter hook input priority -300; ${rule} drop; }; }`;
  const machine = machineOf(hostId);
  const end = () => machine.run("nft", "delete", "table", "inet", "hole");
  return { name, kind: "network", begin: () => machine.run("nft", table), end };
}

const HARM_KINDS: readonly Harm[] = [
  hole("black hole before the devices' host", STORAGE, 'iifname "eth0"'),
  hole("black hole before the holder", HOLDER, 'iifname "eth0"'),
  hole("cut of the block ports", STORAGE, `tcp dport { ${PORT}, ${portOf(STORAGE)} }`),
  hole("cut of the NVMe/TCP port", STORAGE, `tcp dport ${portOf(STORAGE)}`),
  {
    ...{ name: "cut of the link", kind: "network" },
    begin: () => there.run("ip", "link", "set", "eth0", "down"),
    end: () => there.run("ip", "link", "set", "eth0", "up"),
  },
  ...[STORAGE, HOLDER].flatMap((hostId): Harm[] => [
    {
      ...{ name: `stop of the agent of ${hostId}`, kind: "stop" },
      begin: () => machineOf(hostId).signal("SIGSTOP"),
      end: () => machineOf(hostId).signal("SIGCONT"),
    },
    {
      ...{ name: `kill of the agent of ${hostId}`, kind: "kill" },
      begin: () => machineOf(hostId).kill(),
      end: async () => expect(await begin(hostId), "first line of the agent").to.not.equal(undefined),
    },
  ]),
];

/**
 * Does harm for a short or long time, and `meanwhile` during it. Without `meanwhile`, the writer must go on unless the hosts
 * were cut from each other for long. With node, an agent that is away for longer than the I/O timeout of 5 s fails I/O, too.
 */
async function suffer(writer: CheckedWriter, harm: Harm, way: Way, meanwhile?: () => Promise<void>): Promise<void> {
  const isLong = Math.random() < 0.4;
  await harm.begin();
  await sleep(isLong ? LONG_MS : Math.random() * SHORT_MS);
  try {
    await meanwhile?.();
  } finally {
    await harm.end();
  }
  count(`${isLong ? "long" : "short"}: ${harm.name}`);
  if (meanwhile !== undefined) return;
  const isAway = way === "node" ? isLong || harm.kind === "kill" : isLong && harm.kind === "network";
  const mayFail = writer.errors.length > 0 || isAway;
  if (!mayFail) await writer.progress();
  if (mayFail && writer.errors.length > 0) expectCut(writer.errors);
  else expect(writer.errors, `errors after ${harm.name}`).to.deep.equal([]);
}

function pick<Item>(items: readonly Item[]): Item {
  return items[Math.floor(Math.random() * items.length)] as Item;
}
