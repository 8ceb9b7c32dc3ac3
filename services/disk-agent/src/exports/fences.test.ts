import { readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { DiskId } from "@diskmesh/domain";
import { Drive, eventually, skipBecause, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { makeDeviceFile } from "../testing/device-fixture.js";
import { DEVICE_BYTES, EngineScene } from "../testing/engine-scene.js";
import { hasHungHolder } from "../testing/file-holders.js";
import { beginFlood, type Flood } from "../testing/flood.js";

/** Fences on the device's own host; more by hand with FENCES=1000. */
const FENCES = Number(process.env.FENCES ?? 60);
/** Kinds of fences. */
const KINDS = 2;
/** Time in ms after a grant in which a late write would land. */
const LATE_MS = 10;

interface Round {
  readonly number: number;
  readonly ids: readonly string[];
  readonly depth?: number;
  /** Called between the writes and the fence. */
  readonly before?: () => Promise<unknown> | unknown;
  /** Called while the fence is being granted. */
  readonly during?: () => Promise<unknown>;
  readonly bytesOf?: (id: string) => Buffer;
}

describe(`fences of the node engine on the device's host`, function () {
  const rounds = Math.ceil(FENCES / KINDS);
  this.timeout(60_000 + 15_000 * rounds);
  let scene: EngineScene;
  let drive: Drive | undefined;

  afterEach(async () => {
    drive?.resume();
    await scene?.stop();
    await drive?.close();
    drive = undefined;
  });

  /** Publishes a disk, lets writers write to it, supersedes its session, and checks that no byte changes from then on. */
  const fence = async (round: Round): Promise<void> => {
    const { number, ids, bytesOf = (id) => scene.bytesOf(id) } = round;
    const flood: Flood = await beginFlood(await scene.publish("disk-1", 2 * number, ids), round.depth);
    try {
      await eventually(() => flood.writes() > 0, { everyMs: 1 });
      await sleep(Math.random() * 20);
      await round.before?.();
      let granted: readonly Buffer[] = [];
      const granting = scene.open("disk-1", 2 * number + 1, ids).then(() => {
        granted = ids.map(bytesOf);
      });
      await round.during?.();
      await granting;
      flood.sendRest();
      await flood.ended;
      await sleep(LATE_MS);
      for (const [index, id] of ids.entries())
        expect(bytesOf(id).equals(granted[index] as Buffer), `round ${number}, device ${id}`).to.equal(true);
    } finally {
      flood.close();
    }
    await scene.exports.end("disk-1" as DiskId, 2 * number + 1);
  };

  const eachRound = async (run: (number: number) => Promise<void>): Promise<void> => {
    for (let number = 1; number <= rounds; number += 1) await run(number);
  };

  it("change no byte for a writer at depth 64, one of whose requests arrives in part", async () => {
    scene = new EngineScene("node");
    await scene.start();
    await eachRound((number) => fence({ number, ids: number % 2 === 0 ? ["a"] : ["a", "b"] }));
  });

  it("change no byte when a device hangs with writes in it, and returns", async function () {
    const problem = Drive.problem();
    if (problem !== undefined) skipBecause(this, problem);
    const folder = temporaryFolder();
    const hung = await Drive.open(join(folder, "drive"), DEVICE_BYTES);
    drive = hung;
    symlinkSync(hung.path, join(folder, "a"));
    makeDeviceFile(folder, "b", DEVICE_BYTES);
    makeDeviceFile(folder, "shared", 2 * DEVICE_BYTES);
    scene = new EngineScene("node", { folder });
    await scene.start();
    await eachRound((number) =>
      fence({
        number,
        ids: ["a"],
        // I/O hangs in threads of this process, which needs some of its four for other files.
        depth: 2,
        before: () => {
          hung.hang();
          return eventually(() => hasHungHolder(hung.path), { everyMs: 2 });
        },
        during: async () => {
          await sleep(15);
          hung.resume();
        },
        bytesOf: () => readFileSync(hung.image),
      }),
    );
  });
});
