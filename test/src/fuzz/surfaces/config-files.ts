import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { configSchema as agentSchema } from "@diskmesh/disk-agent/simulation";
import { configSchema as registrySchema } from "@diskmesh/disk-registry/simulation";
import { ConfigError, loadConfig } from "@diskmesh/service";
import type { Random } from "../../random.js";
import { jsonText, spoilJson } from "../strange.js";
import { Find, type Surface } from "../surface.js";

const TLS = { caFile: "ca.pem", certFile: "cert.pem", keyFile: "key.pem" };
const CONFIGS = {
  agent: {
    hostId: "host-1",
    az: "z1",
    listen: { host: "127.0.0.1", port: 1 },
    tls: TLS,
    registry: { address: ["r:1"] },
    baseFolder: "base",
    devices: [{ deviceId: "d", path: "d.img", sizeBytes: 4_096 }],
    discovery: { rules: [{ glob: "/dev/x*", pools: [{ pool: "p", deviceSizeBytes: 4_096 }] }] },
    nats: { servers: ["n:1"], tls: TLS },
    remoteIoTimeoutMs: 10_000,
    log: { level: "info" },
  },
  registry: {
    listen: { host: "127.0.0.1", port: 1 },
    tls: TLS,
    tablet: { storage: "data" },
    heartbeat: { timeoutMs: 5_000 },
  },
};

/** A service's config file with mistakes. The first byte chooses the service. */
export class ConfigFilesSurface implements Surface {
  readonly name = "config-files";
  readonly atOnce = 1;
  readonly #file: string;

  constructor(folder: string) {
    this.#file = join(folder, "config.yaml");
  }

  next(random: Random): Buffer {
    const isAgent = random.chance(0.6);
    let config: unknown = isAgent ? CONFIGS.agent : CONFIGS.registry;
    for (let change = random.below(3); change >= 0; change--) config = spoilJson(random, config);
    return Buffer.concat([Buffer.from(isAgent ? "a" : "r"), jsonText(random, config)]);
  }

  async send(input: Buffer): Promise<void> {
    writeFileSync(this.#file, input.subarray(1));
    const schema = input[0] === 0x61 ? agentSchema : registrySchema;
    try {
      loadConfig(schema, { service: "fuzzed", file: this.#file, env: {} });
    } catch (error) {
      if (!(error instanceof ConfigError)) throw new Find(`not refused but failed: ${(error as Error).stack ?? error}`);
    }
  }
}
