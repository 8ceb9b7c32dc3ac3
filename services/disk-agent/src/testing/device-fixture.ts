import { truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type DeviceId, type HostId, silentLogger } from "@diskmesh/domain";
import { type Clock, systemClock } from "@diskmesh/service";
import { temporaryFolder } from "@diskmesh/testkit";
import { encodeCache } from "../cache/cache-contents.js";
import { CacheFile } from "../cache/cache-file.js";
import { Ledger } from "../cache/ledger.js";
import { seal } from "../cache/seal.js";
import { DeviceTable } from "../devices/device-table.js";
import type { DeviceOutcome } from "../devices/outcome.js";
import { GuardedFiles } from "../files/guarded-files.js";
import type { DeviceMapper } from "../kernel/device-mapper.js";
import type { NvmeTarget } from "../kernel/nvme-target.js";
import { Claims } from "../labels/claims.js";
import { type AgentMemory, emptyMemory, type OrderKind, type RememberedIdentity } from "../model/memory.js";
import { decideOrder } from "../model/orders.js";
import { type DeviceRun, type Run, WHOLE_DEVICE } from "../model/runs.js";
import { AttachOrders } from "../orders/attach-orders.js";
import type { EraseLimits } from "../orders/erase-rate.js";
import { Eraser } from "../orders/eraser.js";
import { Labels } from "../orders/labels.js";
import { SessionOrders } from "../orders/session-orders.js";
import { SlowFiles } from "./slow-files.js";

/** Creates a device file of zeros. */
export function makeDeviceFile(folder: string, name: string, sizeBytes: number): string {
  const path = join(folder, name);
  writeFileSync(path, "");
  truncateSync(path, sizeBytes);
  return path;
}

/** Returns a run of a device; by default all of its bytes. */
export function runOf(id: string, run = WHOLE_DEVICE): DeviceRun {
  return { deviceId: id as DeviceId, ...run };
}

/** Tablet, incarnation and generation that the agent obeys. */
export const LEADER = { tabletId: "tablet-1", incarnation: "incarnation-1", tabletGeneration: 1 };
export const ANSWER_TIMEOUT_MS = 60;
/**
 * Time in ms after which a test's timeout fires although no file is held up. Longer than any delay of a busy machine.
 */
const STARVED_MS = 10_000;
/** Wall clock time at the start of each test. */
const START_MS = Date.UTC(2020, 0);

/** Device code over real files, without a process or a network. */
export class DeviceFixture {
  readonly folder: string;
  readonly files = new SlowFiles();
  readonly ledger: Ledger;
  readonly devices: DeviceTable;
  readonly attachOrders: AttachOrders;
  readonly sessions: SessionOrders;
  readonly eraser: Eraser;
  readonly labels: Labels;
  /** Time in ms by which the clock is ahead of real time. */
  aheadMs = 0;
  /** Change of the wall clock by the test, in ms. */
  setByMs = 0;
  /** True while a drive hangs that the test has made, so that timeouts fire as while it holds files up. */
  hasHungDrive = false;
  /** Number of labels that were found changed. */
  labelChanges = 0;
  /** Number of files, and labels of devices in use, that were found changed. */
  deviceChanges = 0;

  /** Creates a fixture with one device, attached, whose file has its name. */
  static async withAttached(id: string, sizeBytes: number): Promise<DeviceFixture> {
    const fixture = new DeviceFixture([{ id, file: id }]);
    makeDeviceFile(fixture.folder, id, sizeBytes);
    await fixture.order("attach", id, 1);
    return fixture;
  }

  /** `devices`: the file's name, and the device's offset and size in it. */
  constructor(
    devices: { id: string; file: string; offsetBytes?: number; sizeBytes?: number }[],
    eraseChunkBytes = 4096,
    eraseLimits: Partial<EraseLimits> = {},
    /** Folder and memory of a former life of the agent. */
    former?: { readonly folder: string; readonly memory?: AgentMemory },
    mapper?: DeviceMapper,
    nvmeTarget?: NvmeTarget,
  ) {
    this.folder = former?.folder ?? temporaryFolder();
    const memory = former?.memory ?? { ...emptyMemory("host-1" as HostId), ...LEADER };
    const path = join(this.folder, "cache.json");
    this.ledger = new Ledger(
      memory,
      new CacheFile({ path, encode: (contents: AgentMemory) => seal(encodeCache(contents)), stored: undefined }),
    );
    const configs = devices.map(({ id, file, offsetBytes = 0, sizeBytes }) => ({
      deviceId: id as DeviceId,
      path: join(this.folder, file),
      offsetBytes,
      sizeBytes,
      blockSizeBytes: 4096,
      serialNumber: "",
      pool: "",
    }));
    const { ledger, files } = this;
    const opener = mapper === undefined ? files : new GuardedFiles({ files, mapper, log: silentLogger });
    const clock = this.#clock();
    const hangs = { warningAfterMs: 30_000, errorAfterMs: 120_000 };
    const answering = { answerTimeoutMs: ANSWER_TIMEOUT_MS, clock, log: silentLogger };
    const given = { devices: configs, ledger, opener, mapper, nvmeTarget };
    const onChange = (): void => void this.deviceChanges++;
    const table = new DeviceTable({ ...given, maxInFlightIoPerDevice: 4, hangs, ...answering, onChange });
    this.devices = table;
    this.attachOrders = new AttachOrders(ledger, table);
    this.sessions = new SessionOrders(ledger, table, new Claims({ devices: table, ledger, log: silentLogger }));
    const limits = { maxAtOnce: 2, maxBytesPerSecond: 1024 * 1024 * 1024, slowAfterMs: 10_000, ...eraseLimits };
    const { sessions } = this;
    this.labels = new Labels({ devices: table, sessions, ledger, opener, onChange: () => void this.labelChanges++ });
    this.eraser = new Eraser({
      devices: table,
      ledger,
      sessions,
      clock,
      chunkBytes: eraseChunkBytes,
      limits,
      log: silentLogger,
    });
  }

  /**
   * Clock whose timeouts fire only while a test holds files up or has a drive that hangs, so that answers are not late merely because the machine
   * is busy.
   */
  #clock(): Clock {
    const sleep: Clock["sleep"] = async (durationMs, signal) => {
      const untilMs = performance.now() + STARVED_MS;
      do await systemClock.sleep(durationMs, signal);
      while (!this.files.holdsUp && !this.hasHungDrive && performance.now() < untilMs);
    };
    const nowMs = () => START_MS + this.setByMs;
    return { ...systemClock, nowMs, monotonicMs: () => systemClock.monotonicMs() + this.aheadMs, sleep };
  }

  /** Executes an order as a handler does. */
  async order(kind: OrderKind, id: string, generation: number, expected?: RememberedIdentity) {
    return (await this.answerTo(kind, id, generation, expected)).outcome;
  }

  /** Executes an order and returns the whole outcome. */
  async answerTo(
    kind: OrderKind,
    id: string,
    generation: number,
    expected?: RememberedIdentity,
  ): Promise<DeviceOutcome> {
    const stamp = { ...LEADER, deviceGeneration: generation };
    const order = { deviceId: id as DeviceId, stamp, kind, expected };
    const { memory, verdict } = decideOrder(this.ledger.memory, this.devices, order);
    this.ledger.remember(memory);
    await this.ledger.durable();
    return this.attachOrders.run(order, verdict);
  }

  /** Opens a session for host-1 as a handler does, or for another host with a key. */
  async openSession(
    id: string,
    number: number,
    holderHostId = "host-1",
    sessionKey?: string,
    run?: Run,
  ): Promise<DeviceOutcome["outcome"]> {
    const stamp = { ...LEADER, deviceGeneration: 0 };
    const wish = { number, purpose: "disk" as const, diskId: "disk-1", holderHostId, sessionKey };
    const [outcome] = await this.sessions.open([runOf(id, run)], wish, stamp);
    if (!outcome) throw new Error("no outcome");
    return outcome.outcome;
  }

  device(id: string) {
    return this.devices.get(id as DeviceId);
  }

  /** Closes the devices' files and the cache. */
  async stop(): Promise<void> {
    await this.devices.stop(STARVED_MS);
    await this.ledger.close();
  }
}
