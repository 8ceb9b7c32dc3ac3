import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Drive, eventually, isQuickRun, skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { DONE } from "../testing/agent-scene.js";
import { hasHungHolder } from "../testing/file-holders.js";
import { beginFlood } from "../testing/flood.js";
import { SIZE_BYTES, TwoAgents } from "../testing/two-agents.js";

/** Fences whose writer is on another host; more by hand with FENCES=1000, fewer in `npm test`. */
const FENCES = Number(process.env.FENCES ?? (isQuickRun ? 8 : 40));
const KINDS = 4;
const ROUNDS = Math.ceil(FENCES / KINDS);
/** Time in ms after a grant in which a late write would land. */
const LATE_MS = 20;
const DISK = "disk-1";

interface Round {
  readonly number: number;
  /** Device of host-2. */
  readonly device: string;
  /** Called between the writes and the fence. */
  readonly before?: () => Promise<unknown> | unknown;
  /** Called while the fence is being granted. */
  readonly during?: () => Promise<unknown>;
  /** Called after the grant. */
  readonly after?: () => unknown;
}

describe(`fences of the node engine against a writer on another host`, function () {
  this.timeout(60_000 + 15_000 * ROUNDS);
  let drive: Drive | undefined;

  before(async () => {
    if (Drive.problem() === undefined) drive = await Drive.open(join(temporaryFolder(), "drive"), SIZE_BYTES);
  });

  const agents = TwoAgents.forAllTests({ remoteIoTimeoutMs: 60_000 }, (deviceId) =>
    deviceId === "host-2-b" ? drive?.path : undefined,
  );

  after(() => drive?.close());

  afterEach(() => {
    drive?.resume();
  });

  const bytesOf = (device: string): Buffer =>
    readFileSync(device === "b" && drive !== undefined ? drive.image : join(agents.folder, "host-2", device));

  /** Opens a later session on the device's host alone, and checks that no byte changes from then on. */
  const fence = async ({ number, device, ...round }: Round): Promise<void> => {
    await agents.publish(DISK, agents.one, device, [agents.two]);
    const flood = await beginFlood(join(agents.one.baseFolder, "exports", `${DISK}.sock`));
    try {
      await eventually(() => flood.writes() > 0, { everyMs: 1 });
      await sleep(Math.random() * 20);
      await round.before?.();
      agents.session += 1;
      let granted: Buffer = Buffer.alloc(0);
      const granting = agents.ordersTwo
        .openSession([`host-2-${device}`], agents.session, DISK, "host-2")
        .then((outcomes) => {
          granted = bytesOf(device);
          return outcomes;
        });
      await round.during?.();
      expect(await granting).to.deep.equal([DONE]);
      flood.sendRest();
      await round.after?.();
      await sleep(LATE_MS);
      expect(bytesOf(device).equals(granted), `round ${number}`).to.equal(true);
      await agents.ordersOne.unexport(DISK, agents.session);
      await flood.ended;
      expect(bytesOf(device).equals(granted), `round ${number}, after the end`).to.equal(true);
    } finally {
      flood.close();
    }
  };

  const eachRound = async (run: (number: number) => Promise<void>): Promise<void> => {
    for (let number = 1; number <= ROUNDS; number += 1) await run(number);
  };

  it("change no byte for a writer at depth 64, one of whose requests arrives in part", () =>
    eachRound((number) => fence({ number, device: "a" })));

  it("change no byte for a writer whose agent was stopped", () =>
    eachRound((number) => {
      let signal = (_: NodeJS.Signals): void => {};
      return fence({
        number,
        device: "a",
        before: () => {
          const { pid } = agents.one.process;
          signal = (name) => void process.kill(pid, name);
          signal("SIGSTOP");
        },
        after: () => signal("SIGCONT"),
      });
    }));

  it("change no byte when a device hangs with writes in it, and returns", async function () {
    const hung = drive ?? skipBecause(this, Drive.problem() ?? "");
    await eachRound((number) =>
      fence({
        number,
        device: "b",
        before: () => {
          hung.hang();
          return eventually(() => hasHungHolder(hung.path), { everyMs: 2 });
        },
        during: async () => {
          await sleep(20);
          hung.resume();
        },
      }),
    );
  });

  it("change no byte after kills of the device's agent, whose base folder is lost every other time", () =>
    eachRound((number) =>
      fence({
        number,
        device: "a",
        before: async () => {
          const registrations = agents.registry.registrations.length;
          await agents.two.process.kill();
          if (number % 2 === 0) rmSync(agents.two.baseFolder, { recursive: true });
          await agents.two.process.start();
          agents.ordersTwo.client.close();
          agents.ordersTwo = await agents.ordersOf(agents.two, registrations);
        },
      }),
    ));
});
