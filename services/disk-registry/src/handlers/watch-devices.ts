import type { WatchDevicesRequest, WatchDevicesResponse } from "@diskmesh/api/registry";
import { InvalidArgumentError, ResourceExhaustedError } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import type { Device } from "../model/schema.js";
import { describeDevice } from "../requests/device-description.js";
import { type DeviceFilter, parseDeviceFilter } from "../requests/device-filter.js";

/** Read at once per watcher: however slow it is, it holds no more than that. */
const DEVICES_PER_READ = 256;

type Update = NonNullable<WatchDevicesResponse["update"]>;

/** Ends a stream only with an error: what is watched has no end. */
export async function* watchDevices(
  context: Context,
  request: WatchDevicesRequest,
  call: CallContext,
): AsyncGenerator<WatchDevicesResponse> {
  const filter = parseDeviceFilter(request);
  const resumed = parseResumeToken(context, request.resumeToken);
  const { watchers, config } = context;
  if (watchers.count >= config.watch.maxWatchers) {
    const text = `${watchers.count} callers watch devices, which is the limit of watch.maxWatchers: end one, or raise the limit`;
    throw new ResourceExhaustedError(text, { retryAfterMs: 1_000 });
  }
  watchers.count++;
  try {
    yield* new Watch(context, filter, call.signal).run(resumed);
  } finally {
    watchers.count--;
  }
}

class Watch {
  /** What the watcher was sent and not told to forget. Undefined when it resumed: only it knows. */
  #sent: Set<string> | undefined;
  #position = 0;

  constructor(
    private readonly context: Context,
    private readonly filter: DeviceFilter,
    private readonly signal: AbortSignal,
  ) {}

  async *run(resumed: number | undefined): AsyncGenerator<WatchDevicesResponse> {
    if (resumed === undefined) yield* this.#snapshot();
    else this.#position = resumed;
    for (;;) {
      await this.context.deviceChanges.beyond(this.#position, this.signal);
      const changed = this.context.deviceChanges.since(this.#position, DEVICES_PER_READ);
      if (changed === undefined) {
        yield* this.#snapshot();
        continue;
      }
      const updates = await this.#updatesOf(changed.deviceIds);
      this.#position = changed.position;
      for (const [index, update] of updates.entries()) {
        // Only the last one stands for all of them.
        yield this.#message(update, index === updates.length - 1);
      }
    }
  }

  async *#snapshot(): AsyncGenerator<WatchDevicesResponse> {
    const { deviceChanges, tablet } = this.context;
    const { hostId, matches } = this.filter;
    // Before the first look: what changes while the snapshot is sent is sent again after it.
    this.#position = deviceChanges.end;
    this.#sent = new Set();
    yield this.#message({ $case: "snapshotBegin", value: {} }, false);
    for (let after: string | undefined; ; ) {
      const page = { after, limit: DEVICES_PER_READ };
      const devices = await tablet.read((tables) => {
        const { devices } = tables;
        return [...(hostId === undefined ? devices.entries(page) : devices.by("byHost", hostId, page))].map(
          (device) => ({
            deviceId: device.deviceId,
            message: matches(device) ? describeDevice(this.context, tables, device) : undefined,
          }),
        );
      });
      for (const { deviceId, message } of devices) {
        if (message === undefined) continue;
        this.#sent.add(deviceId);
        yield this.#message({ $case: "device", value: message }, false);
      }
      after = devices.at(-1)?.deviceId;
      if (devices.length < DEVICES_PER_READ) break;
    }
    yield this.#message({ $case: "snapshotEnd", value: {} }, true);
  }

  #updatesOf(deviceIds: readonly string[]): Promise<readonly Update[]> {
    return this.context.tablet.read((tables) => {
      const updates: Update[] = [];
      for (const deviceId of deviceIds) {
        const device = tables.devices.get(deviceId);
        if (device !== undefined && this.filter.matches(device)) {
          this.#sent?.add(deviceId);
          updates.push({ $case: "device", value: describeDevice(this.context, tables, device) });
        } else if (this.#mayKnow(device, deviceId)) {
          updates.push({ $case: "removedDeviceId", value: deviceId });
        }
      }
      return updates;
    });
  }

  /** Whether the watcher may have been sent the device. Of what it was sent before it resumed, it alone knows. */
  #mayKnow(device: Device | undefined, deviceId: string): boolean {
    if (this.#sent !== undefined) return this.#sent.delete(deviceId);
    return device === undefined || this.filter.hostId === undefined || device.hostId === this.filter.hostId;
  }

  #message(update: Update, complete: boolean): WatchDevicesResponse {
    return { update, resumeToken: complete ? `${this.context.fleet.leader().tabletGeneration}.${this.#position}` : "" };
  }
}

/** Undefined when there must be a snapshot first. */
function parseResumeToken({ fleet, deviceChanges }: Context, token: string): number | undefined {
  if (token === "") return undefined;
  const [, generation, position] = /^(\d{1,15})\.(\d{1,15})$/.exec(token) ?? [];
  if (generation === undefined || position === undefined)
    throw new InvalidArgumentError("resume_token is malformed: give the last one of an earlier watch, unchanged", {
      about: { field: "resume_token" },
    });
  // Positions are counted anew by each leader.
  if (Number(generation) !== fleet.leader().tabletGeneration) return undefined;
  return deviceChanges.since(Number(position), 0) === undefined ? undefined : Number(position);
}
