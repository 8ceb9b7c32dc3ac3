import { setTimeout as sleep } from "node:timers/promises";
import { type BlockIoRequest, DiskAgentServiceDefinition } from "@diskmesh/api/internal";
import type { NbdClient } from "@diskmesh/disk-agent/nbd-client";
import { InvalidStateError, messageOf, OutdatedError } from "@diskmesh/domain";
import { createClient, type PartialOf } from "@diskmesh/rpc";
import { agentName, type MeshLayout } from "../layout.js";
import { type Scene, waitFor } from "./scene.js";

const BLOCK = Buffer.alloc(4096, "late");
const REFUSAL_TIMEOUT_MS = 10_000;

/** Session of the host to which the disk is published, with all that is needed to write to the disk's first device. */
export interface Session {
  readonly diskId: string;
  readonly sessionNumber: number;
  readonly holderHostId: string;
  readonly deviceId: string;
  readonly deviceHostId: string;
}

/** Returns the disk's present session. */
export function currentSession(scene: Scene, diskId: string): Promise<Session> {
  return waitFor(scene, `the session of disk ${diskId}`, async () => {
    const { disk } = await scene.clients.registry.getDisk({ diskId });
    const deviceId = disk?.deviceIds[0];
    if (!disk?.publication || deviceId === undefined) throw new InvalidStateError(`disk ${diskId} is not published`);
    const { device } = await scene.clients.registry.getDevice({ deviceId });
    const { sessionNumber, hostId } = disk.publication;
    return { diskId, sessionNumber, holderHostId: hostId, deviceId, deviceHostId: device?.hostId ?? "" };
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

/** Writes as the host's agent in its former session. Returns the device's refusal; throws when the write succeeds. */
export async function writeLateBySession(layout: MeshLayout, session: Session): Promise<string> {
  const client = createClient(DiskAgentServiceDefinition, {
    address: layout.agentAddress(session.deviceHostId),
    tls: layout.tlsFiles(agentName(session.holderHostId)),
    serverRole: "disk-agent",
    serverName: session.deviceHostId,
    defaultDeadlineMs: REFUSAL_TIMEOUT_MS,
  });
  try {
    for await (const { operationId, errno } of client.blockIo(lateWrite(session), { deadlineMs: REFUSAL_TIMEOUT_MS })) {
      if (errno === "ESTALE") return errno;
      if (errno !== "") throw new InvalidStateError(`the late write failed with ${errno}, not because it is late`);
      if (operationId === 1) throw new InvalidStateError("the late write in the old session was accepted");
    }
    throw new InvalidStateError("the device's agent ended the stream without an answer to the late write");
  } catch (error) {
    if (error instanceof OutdatedError) return error.message;
    throw error;
  } finally {
    client.close();
  }
}

async function* lateWrite({
  diskId,
  deviceId,
  sessionNumber,
}: Session): AsyncIterable<PartialOf<typeof BlockIoRequest>> {
  yield { operationId: 0, operation: { $case: "open", value: { diskId, deviceId, sessionNumber } } };
  yield { operationId: 1, operation: { $case: "write", value: { offsetBytes: 0, data: BLOCK, fua: true } } };
}
