import { createHmac } from "node:crypto";
import type { DiskId, HostId } from "@diskmesh/domain";

/** Session of a disk, on the devices of one host. */
interface KeyedSession {
  readonly diskId: DiskId;
  readonly sessionNumber: number;
  readonly hostId: HostId;
}

/**
 * Keys with which a disk's holder proves its session to the agents of the devices' hosts. Each is derived from a secret
 * of this leader's term, which is stored nowhere. A repeated or late order of the term brings the same key, so that
 * both ends agree; the next leader's orders bring another one, and its agents refuse late orders of this leader. No
 * host learns the key of another host's devices.
 */
export class SessionKeys {
  readonly #secret: Uint8Array;

  /** `secret` is random. */
  constructor(secret: Uint8Array) {
    this.#secret = secret;
  }

  /** Returns a key of 32 bytes. */
  keyOf({ diskId, sessionNumber, hostId }: KeyedSession): Buffer {
    return createHmac("sha256", this.#secret)
      .update(JSON.stringify([diskId, sessionNumber, hostId]))
      .digest();
  }
}
