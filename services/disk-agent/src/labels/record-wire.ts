import { Claim as ClaimMessage, type RunRecord as RunRecordMessage } from "@diskmesh/api/internal";
import { InvalidArgumentError, parseSizeBytes, type RecordedPart, type RunRecord } from "@diskmesh/domain";
import { LABEL_AREA } from "../model/label.js";
import type { OrderedRun } from "../model/run-record.js";
import { RUN_UNIT_BYTES } from "../model/run-table.js";
import { type DeviceRun, overlaps } from "../model/runs.js";
import type { Claim } from "./claims.js";

const MAX_POOL_LENGTH = 255;

/** Returns the run with the record of its order, if that has one. */
export function withRecord(run: DeviceRun, message: RunRecordMessage | undefined): OrderedRun {
  if (message === undefined) return run;
  const isPlaced = run.offsetBytes % RUN_UNIT_BYTES === 0 && run.sizeBytes % RUN_UNIT_BYTES === 0 && run.sizeBytes > 0;
  if (!isPlaced || overlaps(run, LABEL_AREA) || run.offsetBytes + run.sizeBytes > RUN_UNIT_BYTES * 2 ** 32)
    throw malformed("record", `is of ${run.sizeBytes} bytes from byte ${run.offsetBytes}, which no table of runs has`);
  return { ...run, record: parseRecord(message, run) };
}

export function encodeClaim({ offsetBytes, sizeBytes, disk, record }: Claim): ClaimMessage {
  const run = { offsetBytes, sizeBytes, diskDigest: disk };
  if (record === undefined) return ClaimMessage.fromPartial(run);
  const { diskId, sessionNumber, ...rest } = record;
  return ClaimMessage.fromPartial({ ...run, diskId, sessionNumber, record: { ...rest, parts: [...rest.parts] } });
}

function parseRecord(message: RunRecordMessage, run: DeviceRun): RunRecord {
  const { pool, partCount, clean } = message;
  if (pool.length > MAX_POOL_LENGTH) throw malformed("pool", `is longer than ${MAX_POOL_LENGTH} characters`);
  return {
    diskSizeBytes: parseSizeBytes("record.disk_size_bytes", message.diskSizeBytes),
    blockSizeBytes: atLeast("block_size_bytes", message.blockSizeBytes, 1),
    pool,
    partCount: atLeast("part_count", partCount, 1),
    parts: message.parts.map((part): RecordedPart => {
      const { index, offsetBytes, sizeBytes } = part;
      if (index < 0 || index >= partCount) throw malformed("parts", `have index ${index} of ${partCount} parts`);
      if (offsetBytes < RUN_UNIT_BYTES || sizeBytes <= 0 || offsetBytes + sizeBytes > run.sizeBytes)
        throw malformed("parts", `have ${sizeBytes} bytes from byte ${offsetBytes} of a run of ${run.sizeBytes} bytes`);
      return { index, offsetBytes, sizeBytes };
    }),
    layout: atLeast("layout", message.layout, 0),
    clean,
  };
}

function atLeast(field: string, value: number, minimum: number): number {
  if (value >= minimum) return value;
  throw malformed(field, `is ${value}: it must be at least ${minimum}`);
}

function malformed(field: string, why: string): InvalidArgumentError {
  return new InvalidArgumentError(`${field} of the record ${why}`, { about: { field: `record.${field}` } });
}
