import { randomBytes } from "node:crypto";
import { messageOf, parseHostId, UnavailableError } from "@diskmesh/domain";
import type { Ledger } from "../cache/ledger.js";
import type { Device } from "../devices/device.js";
import type { DeviceTable } from "../devices/device-table.js";
import { type ClearOptions, clearChunks } from "../files/file-bytes.js";
import type { Nvme } from "../kernel/nvme.js";
import { fleetOf } from "../kernel/nvme-names.js";
import { WHOLE_DEVICE } from "../model/runs.js";
import { SESSION_KEY_BYTES, sessionAt, whyOutdated } from "../model/sessions.js";
import type { NbdExport } from "../nbd/handshake.js";
import type { DiskPart } from "../parts/disk-part.js";
import { exportNameOf, parseSessionIdentity, type SessionIdentity } from "./session-identity.js";
import { parseShareRequest, type ShareAnswer, type ShareRequest } from "./share-request.js";

/** A device that a holder's connection has opened. */
export interface OpenedDevice {
  readonly served: NbdExport;
  /** Does I/O in the connection's session. Its `close` makes room for no other connection: `leave` does. */
  readonly part: DiskPart;
  leave(): void;
}

/** Access of holders on other hosts to this host's devices: who may connect, and one connection for each device. */
export class DeviceAccess {
  readonly #devices: DeviceTable;
  readonly #ledger: Ledger;
  readonly #machineBootId: string;
  readonly #takeOverTimeoutMs: number;
  readonly #nvme: Omit<Nvme, "host"> | undefined;

  constructor(options: {
    devices: DeviceTable;
    ledger: Ledger;
    /**
     * Boot id of this machine, which is sent to the holder. A changed boot id tells the holder that the machine
     * restarted and lost data that was not flushed.
     */
    machineBootId: string;
    /** Time in ms that a new connection waits for the I/O of the connection that it replaces. */
    takeOverTimeoutMs: number;
    /** Present where the kernel carries the bytes. */
    nvme?: Omit<Nvme, "host"> | undefined;
  }) {
    this.#devices = options.devices;
    this.#ledger = options.ledger;
    this.#machineBootId = options.machineBootId;
    this.#takeOverTimeoutMs = options.takeOverTimeoutMs;
    this.#nvme = options.nvme;
  }

  /**
   * Returns the key that a holder with this identity must prove; undefined for a session that has no holder, has ended
   * or was superseded, because its holder shall give up.
   */
  keyOf(identity: string): Buffer | undefined {
    const named = parseSessionIdentity(parseShareRequest(identity)?.identity ?? identity);
    if (named === undefined || !this.#devices.has(named.deviceId)) return undefined;
    const { memory } = this.#ledger;
    const session = sessionAt(memory, named.deviceId, named.offsetBytes);
    if (whyOutdated(memory, named, named.sessionNumber) !== undefined) return undefined;
    // A session that is not open here yet, or was forgotten with the cache, is no reason to give up: a key that nobody
    // has makes the holder try again.
    if (session?.number !== named.sessionNumber) return randomBytes(SESSION_KEY_BYTES);
    const { holderHostId, sessionKey } = session;
    const isElsewhere = holderHostId !== "" && holderHostId !== memory.hostId;
    if (!isElsewhere) return undefined;
    // A registry that gave a lost session back gives the key with its next order.
    if (sessionKey === undefined) return randomBytes(SESSION_KEY_BYTES);
    return Buffer.from(sessionKey, "hex");
  }

  /**
   * Opens the device for a connection whose client has proved the key. Ends the former connection of the session, and
   * resolves once its I/O has ended. Aborts `connection` when another one takes over, and when the device is unusable,
   * after which the client may try again. Throws UnavailableError when the former I/O takes too long.
   */
  async open(identity: string, connection: AbortController): Promise<OpenedDevice> {
    const named = parseSessionIdentity(identity);
    if (named === undefined) throw new Error(`identity ${JSON.stringify(identity)} has no key`);
    const { deviceId, offsetBytes, sessionNumber } = named;
    const device = this.#devices.get(deviceId);
    device.checkAccess(sessionNumber, offsetBytes);
    device.granted.replaceConnection(offsetBytes, connection);
    const leave = (): void => device.granted.leaveConnection(offsetBytes, connection);
    let sizeBytes: number;
    try {
      await this.#untilQuiet(device, named, connection.signal);
      sizeBytes = device.checkAccess(sessionNumber, offsetBytes);
    } catch (error) {
      leave();
      throw error;
    }
    const { blockSizeBytes } = device.config;
    const served = {
      name: exportNameOf(identity, this.#machineBootId),
      // The run may grow during the connection.
      get sizeBytes() {
        if (device.granted.at(offsetBytes)?.sessionNumber === sessionNumber)
          sizeBytes = device.grantedBytes(offsetBytes);
        return sizeBytes;
      },
      blockSizeBytes,
      description: this.#machineBootId,
      isExclusive: true,
    };
    return { served, part: new ConnectedPart(device, named, connection), leave };
  }

  /** Answers a holder that has proved the key, and asks for its part by NVMe/TCP. */
  async answer({ verb, identity, publicKey }: ShareRequest): Promise<ShareAnswer> {
    const named = parseSessionIdentity(identity);
    if (named === undefined) throw new Error(`identity ${JSON.stringify(identity)} has no key`);
    if (this.#nvme === undefined) return { whyNot: "the device's host has another engine than kernel" };
    const { whyNot, wireguard } = this.#nvme;
    if (whyNot !== undefined) return { whyNot };
    if ((publicKey !== undefined) !== (wireguard?.isUsed === true))
      return { whyNot: `storageNetwork in the config of host ${this.#ledger.memory.hostId} is not that of its holder` };
    try {
      return verb === "offer" ? {} : await this.#share(this.#nvme, named, publicKey);
    } catch (error) {
      return { error: messageOf(error) };
    }
  }

  async #share(
    { target, address, wireguard }: Omit<Nvme, "host">,
    { deviceId, offsetBytes, sessionNumber }: Named,
    publicKey: string | undefined,
  ): Promise<ShareAnswer> {
    const { memory } = this.#ledger;
    const { hostId, tabletId } = memory;
    const fleet = fleetOf(tabletId);
    const device = this.#devices.get(deviceId);
    const nqn = await target.begin(fleet, sessionNumber);
    device.checkAccess(sessionNumber, offsetBytes);
    const run = device.granted.at(offsetBytes);
    const { guard } = device.file.handle ?? {};
    if (run === undefined || guard === undefined) throw new Error(`device ${deviceId} has no guard`);
    const leg = await device.legs.share({ sessionNumber, run, guard });
    await target.share(nqn, { fleet, hostId, sessionNumber, deviceId, offsetBytes }, leg);
    if (publicKey === undefined || wireguard === undefined) return { nqn, ...address };
    const { holderHostId = "" } = sessionAt(memory, deviceId, offsetBytes) ?? {};
    const isNew = await wireguard.admit(parseHostId(holderHostId), publicKey);
    return { nqn, ...address, ...wireguard.side, isNew };
  }

  async #untilQuiet(device: Device, { sessionNumber, offsetBytes }: Named, signal: AbortSignal): Promise<void> {
    const run = device.granted.at(offsetBytes) ?? WHOLE_DEVICE;
    const isQuiet = await this.#devices.until(
      () => (device.io.isQuietBelow(sessionNumber + 1, run) || signal.aborted ? true : undefined),
      this.#takeOverTimeoutMs,
    );
    signal.throwIfAborted();
    if (!isQuiet)
      throw new UnavailableError(`I/O of the former connection is still in flight on device ${device.id}: try again`);
  }
}

type Named = Required<SessionIdentity>;

/** I/O of one connection on a run of a device. */
class ConnectedPart implements DiskPart {
  readonly #device: Device;
  readonly #sessionNumber: number;
  /** Start of the run. */
  readonly #startBytes: number;
  readonly #connection: AbortController;

  constructor(device: Device, { sessionNumber, offsetBytes }: Named, connection: AbortController) {
    this.#device = device;
    this.#sessionNumber = sessionNumber;
    this.#startBytes = offsetBytes;
    this.#connection = connection;
  }

  read(offsetBytes: number, lengthBytes: number): Promise<Uint8Array> {
    return this.#tried(this.#device.read(this.#sessionNumber, this.#startBytes + offsetBytes, lengthBytes));
  }

  write(offsetBytes: number, data: Uint8Array, fua: boolean): Promise<void> {
    const { signal } = this.#connection;
    return this.#tried(this.#device.write(this.#sessionNumber, this.#startBytes + offsetBytes, data, { fua, signal }));
  }

  async clear(offsetBytes: number, lengthBytes: number, options: ClearOptions): Promise<void> {
    const { signal } = this.#connection;
    for (const chunk of clearChunks(this.#startBytes + offsetBytes, lengthBytes))
      await this.#tried(this.#device.clear(this.#sessionNumber, chunk, { ...options, signal }));
  }

  flush(): Promise<void> {
    return this.#tried(this.#device.flush(this.#sessionNumber, this.#startBytes));
  }

  close(): void {}

  /** Ends the connection without an answer when the device is unusable, because the client then tries again. */
  async #tried<T>(io: Promise<T>): Promise<T> {
    try {
      return await io;
    } catch (error) {
      if (error instanceof UnavailableError) this.#connection.abort(error);
      throw error;
    }
  }
}
