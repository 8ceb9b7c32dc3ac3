import { createConnection } from "node:net";
import { eventually } from "@diskmesh/testkit";
import { Bystanders, type TooLate, type Waited, type Watched } from "./bystanders.js";
import { FuzzTarget, HOST } from "./fuzz-target.js";
import { MeshCheck } from "./mesh-check.js";
import { startNoopServer } from "./noop.js";
import { VICTIM_HOST } from "./vocabulary.js";
import { type Usage, usages } from "./watched-processes.js";

/** Maximum time in ms that a client may wait because of the fuzzed input. */
const WAIT_LIMIT_MS = 1_000;
const PATIENCE_MS = 60_000;

/** A running mesh for fuzzing, with its bystanders and checks. */
export interface FuzzedMesh extends AsyncDisposable {
  readonly target: FuzzTarget;
  readonly check: MeshCheck;
  readonly nbdSocketPath: string;
  readonly waits: readonly Waited[];
  onLate(listener: (late: TooLate) => void): void;
  usages(): Promise<ReadonlyMap<string, Usage>>;
}

/**
 * Starts the mesh, its bystanders and checks. A wait beyond the limit, without the machine's own delay, is reported as
 * a find.
 */
export async function fuzzedMesh(report: (line: string) => void, limitMs = WAIT_LIMIT_MS): Promise<FuzzedMesh> {
  const target = await FuzzTarget.start();
  try {
    return await watched(target, report, limitMs);
  } catch (error) {
    await target[Symbol.asyncDispose]();
    throw error;
  }
}

async function watched(target: FuzzTarget, report: (line: string) => void, limitMs: number): Promise<FuzzedMesh> {
  const check = new MeshCheck(target);
  await check.prepare();
  const nbdSocketPath = await check.keepDisk("fuzzed");
  const watchedSocketPath = await check.keepDisk("watched");
  await target.needVmRegistry();
  await eventually(() => accepts(target.vmRegistryPort), { timeoutMs: PATIENCE_MS });
  const tls = target.bystanderFiles;
  const control = await startNoopServer(target.filesOf("disk-registry"), tls);
  target.mesh.closeLater({ close: async () => control[Symbol.asyncDispose]() });
  const work = {
    watched: watchedOf(target, watchedSocketPath),
    control: { address: control.address, pid: control.pid, tls },
    tls,
    limitMs,
  };
  let hear: (late: TooLate) => void = () => {};
  const bystanders = await Bystanders.start(work, (late) => hear(late));
  report(`the mesh in ${target.mesh.folder} serves: ${[...target.mesh.processes.keys()].join(", ")}`);
  return {
    target,
    check,
    nbdSocketPath,
    get waits() {
      return bystanders.waits;
    },
    onLate(listener) {
      hear = listener;
    },
    usages: () => usages(target.mesh.processes, target.mesh.folder),
    async [Symbol.asyncDispose]() {
      await bystanders[Symbol.asyncDispose]();
      await target[Symbol.asyncDispose]();
    },
  };
}

function watchedOf(target: FuzzTarget, socketPath: string): Watched[] {
  const { mesh } = target;
  const pidOf = (name: string): number => mesh.process(name).pid;
  const services = (["director", "cpi-dispatcher", "disk-registry"] as const).map(
    (target): Watched => ({ kind: "grpc", name: target, pid: pidOf(target), target, address: mesh.address(target) }),
  );
  const agents = [HOST, VICTIM_HOST].map(
    (serverName): Watched => ({
      kind: "grpc",
      name: `agent of ${serverName}`,
      pid: pidOf(serverName),
      target: "disk-agent",
      serverName,
      address: mesh.address(serverName),
    }),
  );
  const director = { tls: target.filesOf("director"), pid: pidOf(VICTIM_HOST) };
  return [
    ...services,
    ...agents,
    { kind: "nbd", name: "NBD", pid: pidOf(HOST), socketPath },
    { kind: "mbus", name: "mbus", address: mesh.nats.address, hostId: VICTIM_HOST, ...director },
    { kind: "http", name: "v1 bosh-registry", pid: pidOf("director"), port: target.vmRegistryPort },
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
