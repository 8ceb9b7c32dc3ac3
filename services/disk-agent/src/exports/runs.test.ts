import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ExportKind } from "@diskmesh/api/registry";
import { expect } from "chai";
import { NbdClient } from "../nbd/client.js";
import type { TestAgent } from "../testing/agent-process.js";
import { DONE } from "../testing/agent-scene.js";
import { keyOf } from "../testing/test-registry.js";
import { SIZE_BYTES, TwoAgents } from "../testing/two-agents.js";

const UNIT = 64 * 1024;

type Extent = { readonly deviceId: string; readonly hostId: string; readonly sizeBytes: number };

describe(`disks of runs, with engine node`, () => {
  const agents = TwoAgents.forAllTests();

  const ordersTo = (agent: TestAgent) => (agent === agents.one ? agents.ordersOne : agents.ordersTwo);
  const runOf = (agent: TestAgent, first: number, units: number) => ({
    deviceId: `${agent.hostId}-a`,
    offsetBytes: first * UNIT,
    sizeBytes: units * UNIT,
  });
  /** Opens a session on a run, with host-1 as holder. Returns the run as an extent. */
  const open = async (agent: TestAgent, sessionNumber: number, diskId: string, run: ReturnType<typeof runOf>) => {
    const { client, bootId } = ordersTo(agent);
    const session = { sessionNumber, diskId, holderHostId: "host-1", runs: [run], sessionKey: keyOf(sessionNumber) };
    const { outcomes } = await client.openSession({ bootId, stamp: agents.registry.stamp(), ...session });
    expect(outcomes).to.have.length(1);
    expect(outcomes[0]).to.deep.include({ ...run, outcome: DONE });
    const sessionKey = agent === agents.one ? Buffer.alloc(0) : keyOf(sessionNumber);
    return { ...run, hostId: agent.hostId, blockAddress: outcomes[0]?.blockAddress ?? "", sessionKey };
  };
  /** Serves the runs as a disk of host-1. Returns the path of its socket. */
  const serve = async (diskId: string, sessionNumber: number, extents: Extent[], revision = 0) => {
    const { client, bootId } = agents.ordersOne;
    const order = { bootId, stamp: agents.registry.stamp(), diskId, sessionNumber, extents, revision };
    return (await client.exportDisk({ ...order, blockSizeBytes: 4096, exportKind: ExportKind.NBD })).exportPath;
  };
  /** Returns the first byte of each unit of a device. */
  const unitsOf = (agent: TestAgent) => {
    const bytes = readFileSync(join(agents.folder, agent.hostId, "a"));
    return Array.from({ length: SIZE_BYTES / UNIT }, (_, unit) => bytes[unit * UNIT]).join("");
  };
  const fill = async (path: string, unit: number, units: number, byte: number) => {
    const client = await NbdClient.connect({ socketPath: path });
    await client.write(unit * UNIT, Buffer.alloc(units * UNIT, byte));
    await client.flush();
    expect((await client.read(unit * UNIT, units * UNIT)).equals(Buffer.alloc(units * UNIT, byte))).to.equal(true);
    await client.disconnect();
  };

  it("lie side by side on devices of two hosts, and each has its own bytes", async () => {
    const local = await open(agents.one, 1, "disk-1", runOf(agents.one, 0, 2));
    const other = await open(agents.one, 2, "disk-2", runOf(agents.one, 2, 3));
    const remote = await open(agents.two, 3, "disk-3", runOf(agents.two, 5, 2));
    const first = await serve("disk-1", 1, [local]);
    const second = await serve("disk-2", 2, [other]);
    const third = await serve("disk-3", 3, [remote]);
    await fill(first, 0, 2, 1);
    await fill(second, 0, 3, 2);
    await fill(third, 0, 2, 3);
    expect(unitsOf(agents.one)).to.match(/^112220{27}$/);
    expect(unitsOf(agents.two)).to.match(/^00000330{25}$/);
    for (const [disk, number] of [
      ["disk-1", 1],
      ["disk-2", 2],
      ["disk-3", 3],
    ] as const)
      await agents.ordersOne.unexport(disk, number);
  });

  it("have several runs of one device, on this and another host, and are fenced off run by run", async () => {
    const extents = [
      await open(agents.two, 10, "disk-4", runOf(agents.two, 12, 1)),
      await open(agents.one, 10, "disk-4", runOf(agents.one, 10, 2)),
      await open(agents.two, 10, "disk-4", runOf(agents.two, 8, 2)),
    ];
    const path = await serve("disk-4", 10, extents);
    await fill(path, 0, 5, 4);
    expect(unitsOf(agents.one).slice(8, 14)).to.equal("004400");
    expect(unitsOf(agents.two).slice(7, 14)).to.equal("0440040");
    await open(agents.two, 11, "disk-5", runOf(agents.two, 8, 2));
    const client = await NbdClient.connect({ socketPath: path });
    const late = (unit: number) =>
      client.write(unit * UNIT, Buffer.alloc(UNIT, 9)).then(
        () => "written",
        (error) => error.code,
      );
    expect(await Promise.all([0, 1, 3].map(late))).to.deep.equal(["written", "written", "ESHUTDOWN"]);
    client.destroy();
    await agents.ordersOne.unexport("disk-4", 10);
  });

  it("grow in their last run while they are served", async () => {
    const first = await open(agents.one, 20, "disk-6", runOf(agents.one, 20, 1));
    const last = await open(agents.two, 20, "disk-6", runOf(agents.two, 20, 1));
    const path = await serve("disk-6", 20, [first, last]);
    await fill(path, 0, 2, 5);
    const grown = await open(agents.two, 20, "disk-6", runOf(agents.two, 20, 3));
    expect(await serve("disk-6", 20, [first, grown], 1)).to.equal(path);
    await fill(path, 0, 4, 6);
    expect(unitsOf(agents.two).slice(18, 26)).to.equal("00666000");
    await agents.ordersOne.unexport("disk-6", 20);
  });

  it("begin inside the runs of their session, on devices of two hosts", async () => {
    const inner = (unit: number) => ({ offsetBytes: unit * UNIT, sizeBytes: 2 * UNIT });
    const own = { ...(await open(agents.one, 40, "disk-8", runOf(agents.one, 14, 3))), ...inner(15) };
    const other = { ...(await open(agents.two, 41, "disk-9", runOf(agents.two, 14, 3))), ...inner(15) };
    await fill(await serve("disk-8", 40, [own]), 0, 2, 8);
    const path = await serve("disk-9", 41, [other]);
    await fill(path, 0, 2, 9);
    expect([agents.one, agents.two].map((agent) => unitsOf(agent).slice(13, 18))).to.deep.equal(["00880", "00990"]);
    await open(agents.two, 42, "disk-9", runOf(agents.two, 14, 1));
    const client = await NbdClient.connect({ socketPath: path });
    await client.write(UNIT, Buffer.alloc(UNIT, 5)).catch((error) => expect(error.code).to.equal("ESHUTDOWN"));
    client.destroy();
    for (const [disk, number] of [
      ["disk-8", 40],
      ["disk-9", 41],
    ] as const)
      await agents.ordersOne.unexport(disk, number);
    await open(agents.one, 43, "disk-8", runOf(agents.one, 14, 3));
  });

  it("are copied between runs of one device", async () => {
    const source = await open(agents.one, 30, "disk-7", runOf(agents.one, 24, 2));
    await fill(await serve("disk-7", 30, [source]), 0, 2, 7);
    await agents.ordersOne.unexport("disk-7", 30);
    await open(agents.one, 31, "disk-7", runOf(agents.one, 24, 2));
    const target = await open(agents.one, 31, "disk-7", runOf(agents.one, 28, 2));
    const { bootId, client } = agents.ordersOne;
    const order = { bootId, diskId: "disk-7", sessionNumber: 31, source, ...runOf(agents.one, 28, 2) };
    const { outcome } = await client.copyDevice({ ...order, stamp: agents.registry.stamp() });
    expect(outcome).to.deep.include({ outcome: DONE, offsetBytes: target.offsetBytes });
    expect(unitsOf(agents.one).slice(24)).to.equal("77007700");
  });
});
