import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { connect as connectTcp, type Socket } from "node:net";
import { setTimeout } from "node:timers/promises";
import { HostState, ListHostsRequest } from "@diskmesh/api/registry";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { eventually, freePort, leaveToVerify, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { registryFleet } from "./mesh/fleets.js";
import { addHosts, devicesReady } from "./mesh/steps.js";
import { TestMesh } from "./mesh/test-mesh.js";

const PATIENT_CALL = { deadlineMs: 60_000 };
const IDLE_HOLDERS = 1_000;
const SIZE_BYTES = 1024 * 1024;
const IDLE_CONNECTIONS = 400;

describe("crowds before real services", () => {
  let mesh: TestMesh;
  let blockPort: number;
  const open: { destroy(): void }[] = [];

  before(async function () {
    leaveToVerify(this);
    blockPort = await freePort();
    mesh = await TestMesh.start(
      registryFleet({
        hostIds: ["h1", "h2"],
        devices: { count: 1, sizeBytes: SIZE_BYTES },
        agent: (hostId) => (hostId === "h1" ? { blockListen: { host: "127.0.0.1", port: blockPort } } : {}),
      }),
    );
    await addHosts(mesh);
    await devicesReady(mesh);
  });
  afterEach(() => {
    for (const one of open.splice(0)) one.destroy();
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  it("a thousand idle connections to an agent's devices do not prevent publishing, writing and unpublishing a disk there", async () => {
    for (let count = 0; count < IDLE_HOLDERS; count++)
      open.push(
        connectTcp(blockPort, "127.0.0.1")
          .on("error", () => {})
          .resume(),
      );
    await mesh.clients.registry.createDisk({ diskId: "d", sizeBytes: SIZE_BYTES, hostId: "h1" });
    const { disk } = await mesh.clients.registry.publishDisk({ diskId: "d", hostId: "h2" }, PATIENT_CALL);
    const client = await NbdClient.connect({ socketPath: disk?.publication?.exportPath ?? "" });
    await client.write(0, Buffer.alloc(4096, 7), { fua: true });
    await client.disconnect();
    await mesh.clients.registry.unpublishDisk({ diskId: "d", hostId: "h2" }, PATIENT_CALL);
  });

  it("connections beyond the descriptor limit are refused and logged, connected clients are served, and new ones are later", async function () {
    skipWithout(this, "prlimit");
    const registry = mesh.process("disk-registry-1");
    const used = () => readdirSync(`/proc/${registry.pid}/fd`).length;
    const before = used();
    execFileSync("prlimit", ["--pid", String(registry.pid), `--nofile=${before + 160}:${before + 160}`]);
    // The registry reads its limit once a second. A crowd that comes earlier takes the reserved descriptors, too, and
    // the registry, which then cannot open its own files, ends.
    await setTimeout(3_000);
    const [host, port] = mesh.address("disk-registry-1").split(":") as [string, string];
    const crowd = new Set<Socket>();
    // A client that was cut off reconnects.
    const come = () => {
      while (crowd.size < IDLE_CONNECTIONS) {
        const socket = connectTcp(Number(port), host).on("error", () => {});
        crowd.add(socket);
        open.push(socket.on("close", () => crowd.delete(socket)).resume());
      }
    };
    await eventually(() => {
      come();
      return registry.logs.includes("file descriptors exhausted");
    });
    // Heartbeats may be late, because the connections keep the machine busy.
    await eventually(async () => {
      const { hosts } = await mesh.clients.registry.listHosts(ListHostsRequest.create());
      expect(hosts.map(({ state }) => state)).to.deep.equal([HostState.ONLINE, HostState.ONLINE]);
    });
    for (const socket of crowd) socket.destroy();
    await eventually(() => registry.logs.includes("file descriptor shortage ended"));
    expect(registry.exit).to.equal(undefined);
    await eventually(() => used() <= before + 2);
  });
});
