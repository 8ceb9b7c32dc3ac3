import { Driver, MethodError, nodeMethod, z } from "@diskmesh/driver";
import { blockDeviceOf, textOf } from "./block-device.js";
import { foundDevice } from "./found-device.js";
import { parseIoStatistics } from "./io-statistics.js";
import { readSmart } from "./smart.js";
import { verdictOf } from "./verdict.js";

const count = z.int().min(0);
const settings = z.strictObject({
  /** Interval between checks of all attached devices. */
  everyMs: z.int().min(100).max(86_400_000).default(300_000),
  smartctl: z.string().min(1).default("smartctl"),
  /** A device with a value above any of these limits gets health WARNING. */
  thresholds: z
    .strictObject({
      reallocatedSectors: count.default(50),
      pendingSectors: count.default(0),
      temperatureCelsius: count.default(65),
      percentageUsed: count.default(95),
      mediaErrors: count.default(0),
      /** Maximum median latency of the last probes. */
      probeLatencyMs: count.default(1_000),
    })
    .prefault({}),
});
type Settings = z.output<typeof settings>;

const ofDevice = z.strictObject({ device_id: z.string() });
const PROBES_KEPT = 9;
const readMethod = {
  httpMethods: ["GET", "POST"],
  async: false,
  scope: "read",
  exclusiveLock: false,
  args: ofDevice,
} as const;

/**
 * Reports a drive's SMART health, the kernel's I/O counters and the latency of test reads.
 *
 * @public loaded by its name
 */
export default class DiskHealth extends Driver<Settings> {
  static override readonly driverName = "disk-health";
  static override readonly description = "the health of drives: SMART, statistics of I/O, latency";
  static override readonly settings = settings;
  readonly #latenciesMs = new Map<string, number[]>();

  smart = nodeMethod(
    { ...readMethod, description: "SMART data of a device's drive, read by smartctl" },
    async (args) => {
      const { path } = await foundDevice(this.environment, args.device_id);
      return readSmart((await blockDeviceOf(path)).file, this.environment.settings.smartctl);
    },
  );

  io_statistics = nodeMethod(
    { ...readMethod, description: "The kernel's I/O statistics of a device's drive" },
    async (args) => {
      const { path } = await foundDevice(this.environment, args.device_id);
      const file = `${(await blockDeviceOf(path)).folder}/stat`;
      const counted = parseIoStatistics((await textOf(file)) ?? "");
      if (counted === undefined) throw new MethodError("unavailable", `the host has no ${file}`);
      return counted;
    },
  );

  probe = nodeMethod(
    { ...readMethod, description: "Latency of a read of a device, through the agent's open descriptor" },
    async (args) => {
      const { deviceId } = await foundDevice(this.environment, args.device_id);
      return { latency_ms: await this.#probe(deviceId), recent_ms: this.#latenciesMs.get(deviceId) };
    },
  );

  /** Checks every attached device periodically, and sets a warning on drives that are about to fail. */
  override start(): void {
    const again = (): void => {
      setTimeout(() => void this.#checkAll().finally(again), this.environment.settings.everyMs);
    };
    again();
  }

  async #checkAll(): Promise<void> {
    for (const { deviceId, path, attached } of await this.environment.devices()) {
      if (!attached) continue;
      try {
        await this.#probe(deviceId);
      } catch {
        // A failed probe is not reported here: the agent detects devices that do not answer.
      }
      const smart = await blockDeviceOf(path)
        .then(({ file }) => readSmart(file, this.environment.settings.smartctl))
        .catch(() => undefined);
      const latenciesMs = this.#latenciesMs.get(deviceId) ?? [];
      await this.environment.warnOf(deviceId, verdictOf(smart, latenciesMs, this.environment.settings.thresholds));
    }
  }

  async #probe(deviceId: string): Promise<number> {
    const latencyMs = await this.environment.probe(deviceId);
    const kept = [...(this.#latenciesMs.get(deviceId) ?? []), latencyMs].slice(-PROBES_KEPT);
    this.#latenciesMs.set(deviceId, kept);
    return latencyMs;
  }
}
