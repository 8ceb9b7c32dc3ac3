import { createConnection } from "node:net";
import { eventually } from "@diskmesh/testkit";
import { startNoopServer } from "../bench/noop.js";
import { Bystanders, type TooLate, type Waited, type Watched } from "./bystanders.js";
import { FuzzMesh, HOST } from "./fuzz-mesh.js";
import { MeshCheck } from "./mesh-check.js";
import { VICTIM_HOST } from "./vocabulary.js";
import { type Usage, usages } from "./watched-processes.js";

/** Longer than this nobody may wait because of what others send. */
const WAIT_LIMIT_MS = 1_000;
const PATIENCE_MS = 60_000;

/** A mesh that is ready to be fuzzed, with those who watch it. */
export interface FuzzedMesh extends AsyncDisposable {
  readonly mesh: FuzzMesh;
  readonly check: MeshCheck;
  readonly nbdSocketPath: string;
  readonly waits: readonly Waited[];
  onLate(listener: (late: TooLate) => void): void;
  usages(): Promise<ReadonlyMap<string, Usage>>;
}

/** Starts all of it. That somebody waits longer than the limit, beyond what the machine makes him wait, will be told. */
export async function fuzzedMesh(report: (line: string) => void, limitMs = WAIT_LIMIT_MS): Promise<FuzzedMesh> {
  const mesh = await FuzzMesh.start();
  try {
    return await watched(mesh, report, limitMs);
  } catch (error) {
    await mesh[Symbol.asyncDispose]();
    throw error;
  }
}

async function watched(mesh: FuzzMesh, report: (line: string) => void, limitMs: number): Promise<FuzzedMesh> {
  const check = new MeshCheck(mesh);
  await check.prepare();
  const nbdSocketPath = await check.keepDisk("fuzzed");
  const watchedSocketPath = await check.keepDisk("watched");
  await mesh.needVmRegistry();
  await eventually(() => accepts(mesh.vmRegistryPort), { timeoutMs: PATIENCE_MS });
  const tls = mesh.bystanderFiles;
  const control = await startNoopServer(mesh.filesOf("disk-registry"), tls);
  mesh.group.closeLater({ close: async () => control[Symbol.asyncDispose]() });
  const work = {
    watched: watchedOf(mesh, watchedSocketPath),
    control: { address: control.address, pid: control.pid, tls },
    tls,
    limitMs,
  };
  let hear: (late: TooLate) => void = () => {};
  const bystanders = await Bystanders.start(work, (late) => hear(late));
  report(`the mesh in ${mesh.group.folder} serves: ${[...mesh.processes.keys()].join(", ")}`);
  return {
    mesh,
    check,
    nbdSocketPath,
    get waits() {
      return bystanders.waits;
    },
    onLate(listener) {
      hear = listener;
    },
    usages: () => usages(mesh.processes, mesh.group.folder),
    async [Symbol.asyncDispose]() {
      await bystanders[Symbol.asyncDispose]();
      await mesh[Symbol.asyncDispose]();
    },
  };
}

function watchedOf(mesh: FuzzMesh, socketPath: string): Watched[] {
  const { group } = mesh;
  const pidOf = (name: string): number => group.process(name).pid;
  const services = (["director", "cpi-dispatcher", "disk-registry"] as const).map(
    (target): Watched => ({ kind: "grpc", name: target, pid: pidOf(target), target, address: group.address(target) }),
  );
  const agents = [HOST, VICTIM_HOST].map(
    (serverName): Watched => ({
      kind: "grpc",
      name: `agent of ${serverName}`,
      pid: pidOf(serverName),
      target: "disk-agent",
      serverName,
      address: group.address(serverName),
    }),
  );
  const director = { tls: mesh.filesOf("director"), pid: pidOf(VICTIM_HOST) };
  return [
    ...services,
    ...agents,
    { kind: "nbd", name: "NBD", pid: pidOf(HOST), socketPath },
    { kind: "mbus", name: "mbus", address: mesh.nats.address, hostId: VICTIM_HOST, ...director },
    { kind: "http", name: "v1 bosh-registry", pid: pidOf("director"), port: mesh.vmRegistryPort },
  ];
}

function accepts(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = createConnection({ port, host: "127.0.0.1" });
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.destroy();
      resolve();
    });
  });
}
