import { randomBytes, randomInt } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { GetMirrorResponse } from "@diskmesh/api/internal";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { NbdClient } from "../nbd/client.js";
import type { TestAgent } from "../testing/agent-process.js";
import { DONE } from "../testing/agent-scene.js";
import { keyOf } from "../testing/test-registry.js";
import { SIZE_BYTES, TwoAgents } from "../testing/two-agents.js";

const BLOCK_BYTES = 4_096;

describe(`a disk in use that moves between agents with the node engine`, () => {
  const agents = TwoAgents.forAllTests({ tuning: { mirrorTargetTimeoutMs: 2_000 } });
  let isOver: boolean;
  let acknowledged: number;
  let bytes: Buffer;
  let running: Promise<void>;
  let client: NbdClient;

  const fileOf = (agent: TestAgent, name: string) => join(agents.folder, agent.hostId, name);
  const ordersTo = (agent: TestAgent) => (agent === agents.one ? agents.ordersOne : agents.ordersTwo);

  /** Opens a new session for a holder and returns the device as an extent in it. */
  async function opened(on: TestAgent, name: string, holder: TestAgent) {
    agents.session += 1;
    const sessionNumber = agents.session;
    const [outcome] = await ordersTo(on).sessionOutcomes(
      [`${on.hostId}-${name}`],
      sessionNumber,
      "disk-1",
      holder.hostId,
    );
    expect(outcome?.outcome).to.equal(DONE);
    const reach = { blockAddress: outcome?.blockAddress ?? "", sessionKey: keyOf(sessionNumber) };
    return { ...agents.extentOn(on, name, on === holder ? {} : reach), sessionNumber };
  }

  /** Serves the disk on the first agent. Returns the function that orders later revisions. */
  async function publish(on: TestAgent, name: string) {
    writeFileSync(fileOf(on, name), randomBytes(SIZE_BYTES));
    const extent = await opened(on, name, agents.one);
    const { sessionNumber } = extent;
    let revision = 0;
    const { client: rpc, bootId } = agents.ordersOne;
    const order = async (change: object) => {
      const stamp = agents.registry.stamp();
      const disk = { bootId, stamp, diskId: "disk-1", sessionNumber, blockSizeBytes: BLOCK_BYTES };
      await rpc.exportDisk({ ...disk, extents: [change], revision });
      revision += 1;
    };
    await order(extent);
    client = await NbdClient.connect({ socketPath: join(agents.one.baseFolder, "exports", "disk-1.sock") });
    bytes = readFileSync(fileOf(on, name));
    [isOver, acknowledged] = [false, 0];
    running = write();
    running.catch(() => undefined);
    const mirror = (targetDeviceId: string): Promise<GetMirrorResponse> =>
      rpc.getMirror({
        bootId,
        stamp: agents.registry.stamp(),
        diskId: "disk-1",
        sessionNumber,
        revision: revision - 1,
        deviceId: extent.deviceId,
        targetDeviceId,
      });
    return { extent, order, mirror };
  }

  async function write(): Promise<void> {
    while (!isOver) {
      const offset = randomInt(SIZE_BYTES / BLOCK_BYTES) * BLOCK_BYTES;
      const data = randomBytes(BLOCK_BYTES);
      await client.write(offset, data, { fua: randomInt(8) === 0 });
      data.copy(bytes, offset);
      acknowledged += 1;
    }
  }

  const more = () => {
    const before = acknowledged;
    return eventually(() => expect(acknowledged).to.be.above(before + 5));
  };

  /** Ends the writes, compares the disk, and unpublishes it. */
  async function finish(): Promise<void> {
    isOver = true;
    await running;
    expect((await client.read(0, SIZE_BYTES)).equals(bytes)).to.equal(true);
    await client.disconnect();
    await agents.ordersOne.unexport("disk-1", agents.session);
  }

  for (const [from, to] of [
    ["one", "two"],
    ["two", "one"],
  ] as const)
    it(`goes from agent ${from} to agent ${to} of the holder one, and reads nothing of its former device`, async () => {
      const { extent, order, mirror } = await publish(agents[from], "a");
      const target = await opened(agents[to], "b", agents.one);
      await order({ ...extent, target });
      await eventually(async () => expect((await mirror(target.deviceId)).state).to.equal("MIRROR_STATE_EQUAL"));
      await more();
      await order(target);
      await opened(agents[from], "a", agents[from]);
      writeFileSync(fileOf(agents[from], "a"), Buffer.alloc(SIZE_BYTES, 0xee));
      await more();
      await finish();
      expect(readFileSync(fileOf(agents[to], "b")).equals(bytes)).to.equal(true);
    });

  for (const when of ["before", "after"] as const)
    it(`goes on with its device when the target's agent is silent ${when} EQUAL`, async () => {
      const { extent, order, mirror } = await publish(agents.one, "a");
      const target = {
        ...(await opened(agents.two, "b", agents.one)),
        bytesPerSecond: when === "before" ? 65_536 : 0,
      };
      await order({ ...extent, target });
      if (when === "after")
        await eventually(async () => expect((await mirror(target.deviceId)).state).to.equal("MIRROR_STATE_EQUAL"));
      await more();
      process.kill(agents.two.process.pid, "SIGSTOP");
      try {
        await eventually(async () => {
          const { state, failedDeviceId } = await mirror(target.deviceId);
          expect([state, failedDeviceId]).to.deep.equal(["MIRROR_STATE_FAILED", target.deviceId]);
        });
        const before = acknowledged;
        await sleep(300);
        if (when === "after") expect(acknowledged).to.equal(before);
        await order(extent);
        await more();
      } finally {
        process.kill(agents.two.process.pid, "SIGCONT");
      }
      await finish();
      expect(readFileSync(fileOf(agents.one, "a")).equals(bytes)).to.equal(true);
    });
});
