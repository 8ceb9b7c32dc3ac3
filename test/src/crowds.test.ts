import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { connect as connectTcp, type Socket } from "node:net";
import { join } from "node:path";
import { HostState, ListHostsRequest } from "@diskmesh/api/registry";
import { eventually, leaveToVerify, skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { makeDeviceFile } from "./mesh/device-files.js";
import { registryFleet } from "./mesh/fleets.js";
import { TestMesh } from "./mesh/test-mesh.js";

const PATIENCE = { timeoutMs: 60_000 };
const PATIENT_CALL = { deadlineMs: 60_000 };
const SILENT_STREAMS = 1_000;
const SIZE_BYTES = 1024 * 1024;
const IDLE_CONNECTIONS = 400;

describe("crowds before real services", () => {
  let mesh: TestMesh;
  const open: { destroy(): void }[] = [];

  before(async function () {
    leaveToVerify(this);
    mesh = await TestMesh.start(
      registryFleet({
        hostIds: ["h1", "h2"],
        agent: (hostId, folder) => {
          const path = join(folder, "files", `${hostId}-device`);
          makeDeviceFile(path, SIZE_BYTES);
          return { devices: [{ deviceId: `${hostId}-device`, path }] };
        },
      }),
    );
    for (const hostId of ["h1", "h2"]) await mesh.clients.registry.addHost({ hostId });
    for (const hostId of ["h1", "h2"])
      await eventually(async () => !(await mesh.device(`${hostId}-device`)).dirty, PATIENCE);
  });
  afterEach(() => {
    for (const one of open.splice(0)) one.destroy();
  });
  after(() => mesh?.[Symbol.asyncDispose]());

  function session(name: string, process: string): ClientHttp2Session {
    const { caFile, certFile, keyFile } = mesh.certificates.files(name);
    const opened = connectHttp2(`https://${mesh.address(process)}`, {
      ca: readFileSync(caFile),
      cert: readFileSync(certFile),
      key: readFileSync(keyFile),
      checkServerIdentity: () => undefined,
    });
    open.push(opened.on("error", () => {}));
    return opened;
  }

  function silentStreams(of: ClientHttp2Session, path: string, count: number): void {
    for (let sent = 0; sent < count && !of.closed && !of.destroyed; sent++)
      of.request({ ":method": "POST", ":path": path, "content-type": "application/grpc", te: "trailers" })
        .on("error", () => {})
        .resume();
  }

  it("a thousand idle streams to an agent do not prevent publishing, writing and unpublishing a disk there", async () => {
    silentStreams(session("disk-agent-h2", "h1"), "/diskmesh.internal.v1.DiskAgentService/BlockIo", SILENT_STREAMS);
    await mesh.clients.registry.createDisk({ diskId: "d", sizeBytes: SIZE_BYTES, hostId: "h1" });
    const { disk } = await mesh.clients.registry.publishDisk({ diskId: "d", hostId: "h2" }, PATIENT_CALL);
    expect(disk?.diskId).to.equal("d");
    await mesh.clients.registry.unpublishDisk({ diskId: "d", hostId: "h2" }, PATIENT_CALL);
  });

  it("connections beyond the descriptor limit are refused and logged, connected clients are served, and new ones are later", async function () {
    skipWithout(this, "prlimit");
    const registry = mesh.process("disk-registry-1");
    const used = () => readdirSync(`/proc/${registry.pid}/fd`).length;
    const before = used();
    execFileSync("prlimit", ["--pid", String(registry.pid), `--nofile=${before + 160}:${before + 160}`]);
    const [host, port] = mesh.address("disk-registry-1").split(":") as [string, string];
    const crowd = new Set<Socket>();
    // A client that was cut off reconnects. The registry checks its limit periodically, so it may have cut off earlier
    // clients by then.
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
    }, PATIENCE);
    // Heartbeats may be late, because the connections keep the machine busy.
    await eventually(async () => {
      const { hosts } = await mesh.clients.registry.listHosts(ListHostsRequest.create());
      expect(hosts.map(({ state }) => state)).to.deep.equal([HostState.ONLINE, HostState.ONLINE]);
    }, PATIENCE);
    for (const socket of crowd) socket.destroy();
    await eventually(() => registry.logs.includes("file descriptor shortage ended"), PATIENCE);
    expect(registry.exit).to.equal(undefined);
    await eventually(() => used() <= before + 2, PATIENCE);
  });
});
