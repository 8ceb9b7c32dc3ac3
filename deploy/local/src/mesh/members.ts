import { connect } from "node:net";
import { resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { csiClients } from "@diskmesh/csi-driver/client";
import { parseHostPort, type Role, TimeoutError } from "@diskmesh/domain";
import { waitForHealth } from "@diskmesh/rpc";
import { agentName, HOSTS, type MeshLayout, programFile, type ServiceName } from "./layout.js";
import type { Member } from "./mesh.js";

const CONNECT_TIMEOUT_MS = 1000;
const POLL_MS = 50;

/** Programs of the mesh, in the order of their start. */
export interface MeshMembers {
  readonly nats: Member;
  /** Each waits for the others by itself. They are stopped in reverse order. */
  readonly services: readonly Member[];
  /** NATS keeps an agent waiting for seconds while no director says whether it may connect. */
  readonly agents: readonly Member[];
}

export function meshMembers(layout: MeshLayout): MeshMembers {
  return {
    nats: natsServer(layout),
    services: [service(layout, "disk-registry"), service(layout, "cpi-dispatcher"), service(layout, "director")],
    agents: HOSTS.map(({ hostId }) => diskAgent(layout, hostId)),
  };
}

function natsServer(layout: MeshLayout): Member {
  return {
    name: "nats-server",
    file: "nats-server",
    args: ["--config", layout.configFile("nats-server", "conf")],
    logFile: layout.logFile("nats-server"),
    waitUntilReady: (timeoutMs, signal) => waitUntilAccepts(layout.natsAddress, timeoutMs, signal),
  };
}

function service(layout: MeshLayout, name: ServiceName): Member {
  return { ...nodeProcess(layout, name, name), waitUntilReady: healthOf(layout, layout.addressOf(name), name) };
}

function diskAgent(layout: MeshLayout, hostId: string): Member {
  const address = layout.agentAddress(hostId);
  const program = nodeProcess(layout, agentName(hostId), "disk-agent");
  return {
    ...program,
    lastCommand: [program.file, ...program.args, "--end-sessions"],
    // A hung device file blocks a thread of the pool. With Node's default of four threads, a few would block all I/O.
    env: { UV_THREADPOOL_SIZE: "64" },
    waitUntilReady: healthOf(layout, address, "disk-agent", hostId),
  };
}

/** Returns a CSI driver in one mode; its config is written already. */
export function csiDriver(layout: MeshLayout, name: string, mode: "controller" | "node"): Member {
  const program = nodeProcess(layout, name, "csi-driver");
  const socketPath = layout.csiSocket(name);
  return {
    ...program,
    args: [...program.args, `--${mode}`],
    env: { CSI_ENDPOINT: `unix://${socketPath}` },
    waitUntilReady: async (timeoutMs) => {
      const clients = csiClients(socketPath);
      await clients.identity.probe({}, { deadlineMs: timeoutMs }).finally(() => clients.close());
    },
  };
}

function healthOf(layout: MeshLayout, address: string, serverRole: Role, serverName = ""): Member["waitUntilReady"] {
  const tls = layout.tlsFiles("operator");
  return (timeoutMs, signal) => waitForHealth({ address, tls, serverRole, serverName, timeoutMs, signal });
}

function nodeProcess(layout: MeshLayout, name: string, workspace: string) {
  const started = { name, logFile: layout.logFile(name) };
  const args = ["--config", layout.configFile(name)];
  const release = process.env.DISKMESH_RELEASE;
  if (release !== undefined) return { ...started, file: resolve(release, "bin", `diskmesh-${workspace}`), args };
  return {
    ...started,
    file: process.execPath,
    args: ["--enable-source-maps", programFile(workspace, "main"), ...args],
  };
}

async function waitUntilAccepts(address: string, timeoutMs: number, signal: AbortSignal): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs;
  while (!(await accepts(address))) {
    if (performance.now() > deadlineMs)
      throw new TimeoutError(`${address} did not start to serve within ${timeoutMs} ms`);
    await sleep(POLL_MS, undefined, { signal });
  }
}

function accepts(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ ...parseHostPort("address", address), timeout: CONNECT_TIMEOUT_MS });
    const end = (accepted: boolean) => {
      socket.destroy();
      resolve(accepted);
    };
    // nats-server sends INFO first, so any data means that it serves.
    socket.once("data", () => end(true));
    socket.once("error", () => end(false));
    socket.once("timeout", () => end(false));
  });
}
