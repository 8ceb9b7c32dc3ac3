import type { BlockIoRequest, BlockIoResponse } from "@diskmesh/api/internal";
import {
  formatIdentity,
  type Identity,
  InvalidArgumentError,
  messageOf,
  PermissionDeniedError,
  parseDeviceId,
  parseDiskId,
  UnavailableError,
} from "@diskmesh/domain";
import { type Clock, Slots } from "@diskmesh/service";
import type { Ledger } from "../cache/ledger.js";
import type { Device } from "../devices/device.js";
import type { DeviceTable } from "../devices/device-table.js";
import { MAX_CLEAR_BYTES } from "../devices/file-bytes.js";
import { AsyncQueue } from "./async-queue.js";
import { decodeClearKind } from "./clear-kind.js";
import { errnoOfError } from "./errno.js";

interface BlockIoLimits {
  readonly maxInFlightPerStream: number;
  readonly maxReadBytes: number;
  /** Time in ms that a new stream waits for the I/O of the stream that it replaces. */
  readonly takeOverTimeoutMs: number;
}

export interface BlockIoServing {
  readonly devices: DeviceTable;
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly limits: BlockIoLimits;
  /**
   * Boot id of this machine, which the agent sends to the holder. A changed boot id tells the holder that the machine
   * restarted and lost data that was not flushed.
   */
  readonly machineBootId: string;
}

type OpenOperation = Extract<NonNullable<BlockIoRequest["operation"]>, { $case: "open" }>["value"];

/** Serves one BlockIo stream until its client ends it, another stream replaces it, or the device is detached. */
export async function* serveBlockIo(
  requests: AsyncIterable<BlockIoRequest>,
  call: { readonly identity: Identity; readonly signal: AbortSignal },
  serving: BlockIoServing,
): AsyncGenerator<BlockIoResponse> {
  const operations = requests[Symbol.asyncIterator]();
  const first = await operations.next();
  if (first.done) return;
  const { device, sessionNumber } = openedBy(first.value, call.identity, serving);
  const stream = new AbortController();
  device.replaceStream(sessionNumber, stream);
  const answers = new AsyncQueue<BlockIoResponse>();
  const stop = () => answers.fail(stream.signal.aborted ? stream.signal.reason : call.signal.reason);
  stream.signal.addEventListener("abort", stop);
  call.signal.addEventListener("abort", stop);
  try {
    await takeOver(device, sessionNumber, stream, serving);
    const machineBootId = Buffer.from(serving.machineBootId);
    void answers.push({ operationId: 0, errno: "", message: "", data: machineBootId });
    void runOperations(operations, device, sessionNumber, stream.signal, answers, serving.limits);
    yield* answers;
  } finally {
    call.signal.removeEventListener("abort", stop);
    device.leaveStream(stream);
    // Cancels operations that wait for a slot, because their answers would have no receiver.
    stream.abort(new UnavailableError("the stream has ended"));
  }
}

function openedBy(
  request: BlockIoRequest,
  identity: Identity,
  serving: BlockIoServing,
): { device: Device; sessionNumber: number } {
  if (request.operation?.$case !== "open")
    throw new InvalidArgumentError("the first message of a BlockIo stream must open a device");
  const open: OpenOperation = request.operation.value;
  const diskId = parseDiskId(open.diskId);
  const device = serving.devices.get(parseDeviceId(open.deviceId));
  device.checkAccess(open.sessionNumber);
  const session = serving.ledger.memory.devices.get(device.id)?.session;
  if (session?.holderHostId !== identity.name || session.diskId !== diskId)
    throw new PermissionDeniedError(
      `session ${open.sessionNumber} of device ${device.id} is for disk ${session?.diskId} on host ${session?.holderHostId}, not for disk ${diskId} on ${formatIdentity(identity)}`,
      { about: { device_id: device.id } },
    );
  return { device, sessionNumber: open.sessionNumber };
}

async function takeOver(
  device: Device,
  sessionNumber: number,
  stream: AbortController,
  { devices, limits }: BlockIoServing,
): Promise<void> {
  const quiet = await devices.until(
    () => (device.isQuietBelow(sessionNumber + 1) || stream.signal.aborted ? true : undefined),
    limits.takeOverTimeoutMs,
  );
  if (stream.signal.aborted) throw stream.signal.reason;
  if (!quiet)
    throw new UnavailableError(`I/O of the previous stream is still in flight on device ${device.id}: try again`);
  device.checkAccess(sessionNumber);
}

async function runOperations(
  operations: AsyncIterator<BlockIoRequest>,
  device: Device,
  sessionNumber: number,
  signal: AbortSignal,
  answers: AsyncQueue<BlockIoResponse>,
  limits: BlockIoLimits,
): Promise<void> {
  const slots = new Slots(limits.maxInFlightPerStream);
  const running = new Set<Promise<void>>();
  try {
    while (!signal.aborted) {
      const release = await slots.acquire();
      const next = await operations.next();
      if (next.done) break;
      const operation = runOperation(next.value, device, sessionNumber, signal, limits)
        .then((answer) => answers.push(answer))
        .catch((error: unknown) => answers.fail(error))
        .finally(() => {
          running.delete(operation);
          release();
        });
      running.add(operation);
    }
    await Promise.all(running);
    answers.end();
  } catch (error) {
    answers.fail(error);
  }
}

/**
 * Runs one operation on the device. Throws UnavailableError, which ends the stream, when the device is detached; the
 * client may retry.
 */
async function runOperation(
  request: BlockIoRequest,
  device: Device,
  sessionNumber: number,
  signal: AbortSignal,
  limits: BlockIoLimits,
): Promise<BlockIoResponse> {
  const answer = { operationId: request.operationId, errno: "", message: "", data: Buffer.alloc(0) };
  try {
    const { operation } = request;
    switch (operation?.$case) {
      case "read": {
        const { offsetBytes, lengthBytes } = operation.value;
        if (lengthBytes > limits.maxReadBytes)
          throw new InvalidArgumentError(`a read of ${lengthBytes} bytes is above the limit of ${limits.maxReadBytes}`);
        return { ...answer, data: await device.read(sessionNumber, offsetBytes, lengthBytes) };
      }
      case "write": {
        const { offsetBytes, data, fua } = operation.value;
        await device.write(sessionNumber, offsetBytes, data, { fua, signal });
        return answer;
      }
      case "clear": {
        const { offsetBytes: startBytes, lengthBytes: sizeBytes, fua, kind } = operation.value;
        if (sizeBytes > MAX_CLEAR_BYTES)
          throw new InvalidArgumentError(`a clear of ${sizeBytes} bytes is above the limit of ${MAX_CLEAR_BYTES}`);
        await device.clear(sessionNumber, { startBytes, sizeBytes }, { kind: decodeClearKind(kind), fua, signal });
        return answer;
      }
      case "flush":
        await device.flush(sessionNumber);
        return answer;
      default:
        throw new InvalidArgumentError(`operation ${request.operationId} is not a read, write, clear or flush`);
    }
  } catch (error) {
    if (error instanceof UnavailableError) throw error;
    return { ...answer, errno: errnoOfError(error), message: messageOf(error) };
  }
}
