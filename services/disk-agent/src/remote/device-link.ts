import {
  type DeviceId,
  DeviceIoError,
  InvalidArgumentError,
  messageOf,
  OutdatedError,
  parseHostPort,
} from "@diskmesh/domain";
import type { ClearOptions } from "../files/file-bytes.js";
import { NbdClient, NbdRequestError } from "../nbd/client.js";
import { UnknownIdentityError } from "../nbd/tls.js";
import type { DiskPart } from "../parts/disk-part.js";
import { formatSessionIdentity, type SessionIdentity } from "./session-identity.js";

/** Thrown when a link ended without an answer, so that the operation may or may not be done. */
export class LinkLostError extends Error {
  override readonly name = "LinkLostError";
}

/**
 * Open connection to a device of another host. Operations reject with LinkLostError when it ends before their answer,
 * and with the device's error otherwise.
 */
export interface DeviceLink extends DiskPart {
  /** Boot id of the device's machine. */
  readonly machineBootId: string;
  /** Resolves when the link has ended. */
  readonly ended: Promise<void>;
}

/** Run of a device of another host, and the session in which its holder connects. */
interface LinkTarget extends SessionIdentity {
  readonly address: string;
  /** Key of the session, in hex. */
  readonly sessionKey: string;
}

/**
 * Connects to a device. Throws OutdatedError when the device's agent refuses the session; nothing authenticates this
 * answer. Aborting the signal gives the attempt up.
 */
export type LinkDevice = (target: LinkTarget, signal: AbortSignal) => Promise<DeviceLink>;

/**
 * Silence in ms after which a link with unanswered requests is given up, as long as the kernel needs to find an idle
 * peer dead. A device that hangs longer ends the link, too: the next one waits for its I/O.
 */
const SILENCE_TIMEOUT_MS = 20_000;

/** Connects by NBD over TLS. */
export const linkOverNbd: LinkDevice = async (target, signal) => {
  const { address, deviceId, sessionNumber, sessionKey } = target;
  const { host, port } = parseHostPort("block_address", address);
  const identity = formatSessionIdentity(target);
  try {
    const key = Buffer.from(sessionKey, "hex");
    const limits = { signal, silenceTimeoutMs: SILENCE_TIMEOUT_MS };
    return new NbdLink(await NbdClient.connectOverTls({ host, port, identity, key }, limits), deviceId);
  } catch (error) {
    if (!(error instanceof UnknownIdentityError)) throw error;
    const text = `the agent at ${address} refuses session ${sessionNumber} of device ${deviceId}: it has ended or a later one was opened`;
    throw new OutdatedError(text, { about: { device_id: deviceId }, cause: error });
  }
};

class NbdLink implements DeviceLink {
  readonly machineBootId: string;
  readonly ended: Promise<void>;
  readonly #client: NbdClient;
  readonly #deviceId: DeviceId;

  constructor(client: NbdClient, deviceId: DeviceId) {
    this.machineBootId = client.description;
    this.ended = client.ended;
    this.#client = client;
    this.#deviceId = deviceId;
  }

  read(offsetBytes: number, lengthBytes: number): Promise<Uint8Array> {
    return this.#answered(this.#client.read(offsetBytes, lengthBytes));
  }

  write(offsetBytes: number, data: Uint8Array, fua: boolean): Promise<void> {
    return this.#answered(
      this.#client.write(offsetBytes, Buffer.from(data.buffer, data.byteOffset, data.length), { fua }),
    );
  }

  clear(offsetBytes: number, lengthBytes: number, { kind, fua }: ClearOptions): Promise<void> {
    if (kind === "discard") return this.#answered(this.#client.trim(offsetBytes, lengthBytes, { fua }));
    const noHole = kind === "write zeros";
    return this.#answered(this.#client.writeZeroes(offsetBytes, lengthBytes, { noHole, fua }));
  }

  flush(): Promise<void> {
    return this.#answered(this.#client.flush());
  }

  close(): void {
    this.#client.destroy();
  }

  async #answered<T>(request: Promise<T>): Promise<T> {
    try {
      return await request;
    } catch (error) {
      const deviceId = this.#deviceId;
      const text = `device ${deviceId}: ${messageOf(error)}`;
      if (!(error instanceof NbdRequestError)) throw new LinkLostError(text, { cause: error });
      const about = { device_id: deviceId };
      if (error.code === "ESHUTDOWN") throw new OutdatedError(`${text}: a later session was opened`, { about });
      if (error.code === "EINVAL") throw new InvalidArgumentError(text, { about });
      throw new DeviceIoError(text, { about, cause: { code: error.code } });
    }
  }
}
