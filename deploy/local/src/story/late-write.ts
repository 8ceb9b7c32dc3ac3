import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { CopyState } from "@diskmesh/api/registry";
import { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { InvalidStateError, messageOf, parseHostPort, UnavailableError } from "@diskmesh/domain";
import type { MeshLayout } from "../mesh/layout.js";
import { type Scene, waitFor } from "./scene.js";

const BLOCK = Buffer.alloc(4096, "late");
const REFUSAL_TIMEOUT_MS = 10_000;

/** Session of the host to which the disk is published, with all that is needed to write to the disk's first device. */
export interface Session {
  readonly diskId: string;
  readonly sessionNumber: number;
  readonly holderHostId: string;
  readonly deviceId: string;
  readonly offsetBytes: number;
  readonly deviceHostId: string;
}

/** Returns the disk's present session. */
export function currentSession(scene: Scene, diskId: string): Promise<Session> {
  return waitFor(scene, `the session of disk ${diskId}`, async () => {
    const { disk } = await scene.clients.registry.getDisk({ diskId });
    const copy = disk?.parts[0]?.copies.find(({ state }) => state === CopyState.COUNTS);
    if (!disk?.publication || copy === undefined) throw new InvalidStateError(`disk ${diskId} is not published`);
    const { sessionNumber, hostId: holderHostId } = disk.publication;
    const { deviceId, offsetBytes, hostId: deviceHostId } = copy;
    return { diskId, sessionNumber, holderHostId, deviceId, offsetBytes, deviceHostId };
  });
}

/** Writes over a connection that was open before the disk moved. Returns the refusal. */
export async function writeLateByNbd(client: NbdClient): Promise<string> {
  const write = client.write(0, BLOCK).then(
    () => undefined,
    (error: unknown) => messageOf(error),
  );
  const refusal = await Promise.race([write, sleep(REFUSAL_TIMEOUT_MS, "", { ref: false })]);
  if (refusal === undefined) throw new InvalidStateError("the late write on the old NBD connection was accepted");
  if (refusal === "")
    throw new InvalidStateError("the late write on the old NBD connection was neither done nor refused");
  return refusal;
}

/**
 * Writes as the former holder would over the network: connects to the device in the former session. Returns the
 * device's refusal in the handshake; throws when the connection is opened.
 */
export async function writeLateBySession(layout: MeshLayout, session: Session): Promise<string> {
  const { host, port } = parseHostPort("address", layout.blockAddress(session.deviceHostId));
  const identity = [session.deviceId, session.offsetBytes || [], session.sessionNumber].flat().join("/");
  const target = { host, port, identity, key: randomBytes(32) };
  const limits = { signal: new AbortController().signal, silenceTimeoutMs: REFUSAL_TIMEOUT_MS };
  let client: NbdClient;
  try {
    client = await NbdClient.connectOverTls(target, limits);
  } catch (error) {
    // Another error may come from a broken connection, so the caller tries again.
    if ((error as Error).name === "UnknownIdentityError") return messageOf(error);
    // The device's agent may be restarting.
    throw new UnavailableError(messageOf(error), { cause: error });
  }
  await client.disconnect().catch(() => undefined);
  throw new InvalidStateError("the late connection in the old session was accepted");
}
