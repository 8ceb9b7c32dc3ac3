import type { DeviceId } from "@diskmesh/domain";

/** A range of a device's bytes, which one disk has at a time. */
export interface Run {
  /** First byte, counted from the device's start. */
  readonly offsetBytes: number;
  /** 0 for all bytes up to the device's end, wherever that is. */
  readonly sizeBytes: number;
}

export interface DeviceRun extends Run {
  readonly deviceId: DeviceId;
}

export const WHOLE_DEVICE: Run = { offsetBytes: 0, sizeBytes: 0 };

/** Returns the first byte after the run. */
export function endOf({ offsetBytes, sizeBytes }: Run): number {
  return sizeBytes === 0 ? Number.POSITIVE_INFINITY : offsetBytes + sizeBytes;
}

export function overlaps(a: Run, b: Run): boolean {
  return a.offsetBytes < endOf(b) && b.offsetBytes < endOf(a);
}

export function contains(run: Run, atBytes: number): boolean {
  return run.offsetBytes <= atBytes && atBytes < endOf(run);
}

/** Returns what is left of a run without the bytes of another one: nothing, one range or two. */
export function without(run: Run, taken: Run): readonly Run[] {
  if (!overlaps(run, taken)) return [run];
  const { offsetBytes } = run;
  const left: Run[] = [];
  if (offsetBytes < taken.offsetBytes) left.push({ offsetBytes, sizeBytes: taken.offsetBytes - offsetBytes });
  const startBytes = endOf(taken);
  if (startBytes < endOf(run))
    left.push({ offsetBytes: startBytes, sizeBytes: run.sizeBytes === 0 ? 0 : endOf(run) - startBytes });
  return left;
}

/** Returns a key for the run at this offset of a device, whatever its size. */
export function nameOfRun({ deviceId, offsetBytes }: Omit<DeviceRun, "sizeBytes">): string {
  return `${deviceId}/${offsetBytes}`;
}

/** Formats a run for messages. */
export function describeRun({ deviceId, offsetBytes, sizeBytes }: DeviceRun): string {
  if (sizeBytes > 0) return `bytes ${offsetBytes} to ${offsetBytes + sizeBytes - 1} of device ${deviceId}`;
  return offsetBytes === 0 ? `device ${deviceId}` : `device ${deviceId} from byte ${offsetBytes}`;
}
