import { join } from "node:path";
import type { HostId } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { DISK, endStorage, expectCut, HOLDER, nqns, STORAGE, sceneOf } from "./between-hosts.js";
import { formerLifeOf, HERE, THERE } from "./between-life.js";
import { CheckedWriter } from "./checked-writer.js";
import { Devices } from "./device-mapper.js";
import { makeDrives, unwind } from "./engine-drives.js";
import { HostMachine } from "./machine-calls.js";
import { count } from "./tally.js";

const DEPTH = 4;
/** Rest after each write, so that the agents start soon on one processor. */
const REST_MS = 20;
/** Kills of each agent once its life has said that it is ready, and at a moment of its start. */
const KILLS = 2;
const LATEST = 9;

describe("agents of both hosts that are killed", () => {
  it("fail no I/O, lose no write, and fence later", async () => {
    await using devices = new Devices();
    const folders = new Map<HostId, string>([
      [STORAGE, (await makeDrives(devices)).folder],
      [HOLDER, (await makeDrives(devices)).folder],
    ]);
    const agents = new Map<HostId, HostMachine>([
      [STORAGE, new HostMachine()],
      [HOLDER, new HostMachine()],
    ]);
    const kill = (hostId: HostId) => agents.get(hostId)?.kill();
    devices.later(() => Promise.all([...agents.keys()].map(kill)));
    const run = async (hostId: HostId, port: number, isFirst: boolean, killAfterMs?: number) =>
      agents.get(hostId)?.begin({ folder: folders.get(hostId) ?? "", hostId, port, isFirst }, killAfterMs);
    const port = Number(await run(STORAGE, 0, true));
    const beganMs = performance.now();
    const path = (await run(HOLDER, port, true)) ?? "";
    const startMs = performance.now() - beganMs;
    const writer = await CheckedWriter.start(path, DEPTH, REST_MS);
    await writer.progress();
    for (let kills = 0; kills < KILLS; kills++)
      for (const hostId of [STORAGE, HOLDER]) {
        await kill(hostId);
        await writer.progress();
        const half = await run(hostId, port, false, Math.random() * startMs);
        await kill(hostId);
        await writer.progress();
        const said = await run(hostId, port, false);
        expect(said, `after ${half ?? "a start that was killed"}`).to.equal(hostId === STORAGE ? `${port}` : path);
        await writer.progress();
        count("kills of agents between hosts");
      }
    expect(writer.errors).to.deep.equal([]);
    for (const hostId of agents.keys()) await kill(hostId);
    const storage = sceneOf(STORAGE, await formerLifeOf(STORAGE, folders.get(STORAGE) ?? ""));
    const holder = sceneOf(HOLDER, await formerLifeOf(HOLDER, folders.get(HOLDER) ?? ""));
    devices.later(async () => {
      await holder.exports.end(DISK, LATEST);
      await unwind(holder);
      await storage.leave();
      await endStorage(storage);
    });
    await storage.start();
    await holder.start();
    await writer.progress();
    await storage.open(DISK, LATEST, THERE);
    await writer.ended();
    expectCut(writer.errors);
    expect(await writer.faults(join(folders.get(STORAGE) ?? "", "a"))).to.deep.equal([]);
    await writer.stop();
    await holder.exports.end(DISK, LATEST);
    await holder.open("disk-2", LATEST, HERE);
    await eventually(() => expect(nqns()).to.deep.equal({ served: [], connected: [] }));
  });
});
