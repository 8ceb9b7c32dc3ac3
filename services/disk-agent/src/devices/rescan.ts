import { type DeviceId, type Logger, messageOf, parseDeviceId } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import { expandGlob } from "../base/glob.js";
import type { FileFacts, FileOpener } from "../files/open-file.js";
import { type DiscoveryRule, type FoundFile, planDevices, type RefusedFile, type Skipped } from "../model/discovery.js";
import type { DeviceTable } from "./device-table.js";

export interface RescanResult {
  /** New devices, and devices whose file or its size has changed. */
  readonly changedDeviceIds: readonly DeviceId[];
  readonly skipped: readonly Skipped[];
  /** Paths whose checks exceeded the timeout. */
  readonly pendingPaths: readonly string[];
}

export interface RescanOptions {
  readonly devices: DeviceTable;
  readonly rules: readonly DiscoveryRule[];
  readonly opener: Pick<FileOpener, "look">;
  readonly maxDevices: number;
  readonly answerTimeoutMs: number;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called when devices were found, or files that cannot be devices, so that the agent registers again. */
  readonly onChange: () => void;
}

/** Searches for new and replaced device files. A hanging check delays no other. */
export class Rescan {
  readonly #options: RescanOptions;
  /** Running checks of folders and of files without a device. Each path and glob has one check at a time. */
  readonly #looking = new Map<string, Promise<FileFacts>>();
  readonly #expanding = new Map<string, Promise<string[]>>();
  #skippedBefore = "";
  #refused: readonly RefusedFile[] = [];

  constructor(options: RescanOptions) {
    this.#options = options;
  }

  /** Discovered files that registries would refuse as they are now. */
  get refused(): readonly RefusedFile[] {
    return this.#refused;
  }

  async run(): Promise<RescanResult> {
    const { devices } = this.#options;
    const before = new Map(devices.all().map((device) => [device.id, JSON.stringify(device.reported)]));
    const pending = new Set<string>();
    await Promise.all(devices.files().map((file) => this.#bounded(file.path, file.look(), pending)));
    const skipped = await this.#discover(pending);
    // A file that was locked or missing may be available now.
    for (const device of devices.all()) device.retry();
    const changedDeviceIds = devices
      .all()
      .filter((device) => before.get(device.id) !== JSON.stringify(device.reported))
      .map((device) => device.id);
    return { changedDeviceIds, skipped, pendingPaths: [...pending].sort() };
  }

  /** Creates devices for files that match the rules and have no device yet. */
  async #discover(pending: Set<string>): Promise<readonly Skipped[]> {
    const { rules, devices, opener, maxDevices, log, onChange } = this.#options;
    const skipped: Skipped[] = [];
    const found: FoundFile[] = [];
    const knownPaths = new Set(devices.files().map((file) => file.path));
    const seen = new Set<string>();
    for (const rule of rules) {
      const expanding = joined(this.#expanding, rule.glob, () => expandGlob(rule.glob));
      const paths = await this.#bounded(rule.glob, expanding, pending);
      if (paths?.length === 0) skipped.push({ path: rule.glob, reason: "no file matches this glob" });
      const fresh = (paths ?? []).filter((path) => !knownPaths.has(path) && !seen.has(path));
      for (const path of fresh) seen.add(path);
      const looked = fresh.map(async (path) => {
        try {
          const looking = joined(this.#looking, path, () => opener.look(path));
          const facts = await this.#bounded(path, looking, pending);
          if (facts) found.push({ path, rule, sizeBytes: facts.sizeBytes, identity: facts.identity });
        } catch (error) {
          skipped.push({ path, reason: messageOf(error) });
        }
      });
      await Promise.all(looked);
    }
    const inOrder = found.sort((a, b) => (a.path < b.path ? -1 : 1));
    const known = { deviceIds: devices, files: this.#knownFiles(), devicesLeft: maxDevices - devices.all().length };
    const plan = planDevices(inOrder, known);
    for (const { deviceId, ...place } of plan.devices) {
      log.info({ deviceId, path: place.path, pool: place.pool }, "device discovered");
      devices.add({ ...place, deviceId: parseDeviceId(deviceId), serialNumber: "" });
    }
    const added = new Set(plan.devices.map(({ path }) => path));
    const looks = devices.files().filter((file) => added.has(file.path));
    await Promise.all(looks.map((file) => this.#bounded(file.path, file.look(), pending)));
    const isRefusedAnew = JSON.stringify(plan.refused) !== JSON.stringify(this.#refused);
    this.#refused = plan.refused;
    if (plan.devices.length > 0 || isRefusedAnew) onChange();
    skipped.push(...plan.skipped, ...plan.refused.map(({ path, reason }) => ({ path, reason })));
    this.#report(skipped);
    return skipped;
  }

  #knownFiles(): Map<string, string> {
    const files = new Map<string, string>();
    for (const file of this.#options.devices.files()) {
      for (const facts of [file.held, file.seen]) if (facts) files.set(facts.identity, file.path);
    }
    return files;
  }

  /** Returns the result of the work. After the timeout adds the path to `pending` and returns undefined. */
  async #bounded<T>(path: string, work: Promise<T>, pending: Set<string>): Promise<T | undefined> {
    const over = new AbortController();
    const timeout = this.#options.clock.sleep(this.#options.answerTimeoutMs, over.signal).then(
      () => {
        pending.add(path);
        return undefined;
      },
      () => undefined,
    );
    // Handles a rejection after the timeout, which would otherwise count as unhandled.
    work.catch(() => {});
    try {
      return await Promise.race([work, timeout]);
    } finally {
      over.abort();
    }
  }

  /** Logs skipped files once for each different list. */
  #report(skipped: readonly Skipped[]): void {
    const text = JSON.stringify(skipped);
    if (text === this.#skippedBefore) return;
    this.#skippedBefore = text;
    for (const { path, reason } of skipped)
      this.#options.log.warn({ path, reason }, "path skipped in device discovery");
  }
}

/**
 * Joins the running work of this key, or starts it. Otherwise each rescan of a hung file system would block one more
 * thread.
 */
function joined<T>(underWay: Map<string, Promise<T>>, key: string, begin: () => Promise<T>): Promise<T> {
  const work = underWay.get(key) ?? begin().finally(() => underWay.delete(key));
  underWay.set(key, work);
  return work;
}
