import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { TlsFiles } from "@diskmesh/rpc";
import { freePort, type ServiceProcess, spawnService, type TestCertificates } from "@diskmesh/testkit";
import type { AgentLimits } from "../base/limits.js";

const MAIN_FILE = fileURLToPath(new URL("./tuned-main.js", import.meta.url));

/** Parts of the config; `tuning` is merged. */
export type AgentConfigChange = { readonly [part: string]: unknown } & { readonly tuning?: Partial<AgentLimits> };

export interface TestAgentOptions {
  readonly hostId: string;
  readonly folder: string;
  readonly certs: TestCertificates;
  readonly registryAddress: string;
  readonly devices: readonly object[];
  /** Parts that replace those of the config. */
  readonly config?: AgentConfigChange | undefined;
}

/** Starts a real agent process and waits until it listens. The test's registry decides whether it registers. */
export async function startTestAgent(options: TestAgentOptions): Promise<TestAgent> {
  const { hostId, folder, certs, registryAddress, devices, config } = options;
  mkdirSync(folder, { recursive: true });
  const tls: TlsFiles = certs.files(`disk-agent-${hostId}`);
  const port = await freePort();
  const address = `127.0.0.1:${port}`;
  const process = await spawnService({
    name: hostId,
    mainFile: MAIN_FILE,
    config: {
      hostId,
      az: "z1",
      listen: { host: "127.0.0.1", port },
      tls,
      registry: { address: registryAddress },
      baseFolder: join(folder, "base"),
      devices,
      engine: "node",
      remoteIoTimeoutMs: 60_000,
      ...config,
      // Longer than the delays of a busy machine, because work that takes longer is answered `pending`.
      tuning: { orderTimeoutMs: 30_000, startOpenTimeoutMs: 30_000, ...config?.tuning },
    },
    folder,
    // Large thread pool, as in deploy/local, because a hung device file blocks its threads.
    env: { UV_THREADPOOL_SIZE: "64" },
    health: { address, tls: certs.files("operator"), serverRole: "disk-agent", serverName: hostId },
    waitFor: "listening",
  });
  return { hostId, address, process, baseFolder: join(folder, "base") };
}

export interface TestAgent {
  readonly hostId: string;
  readonly address: string;
  readonly process: ServiceProcess;
  readonly baseFolder: string;
}
